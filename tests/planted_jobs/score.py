"""
How many planted jobs are judged rightly, by a report's findings and by `iostats why`.

    make score SEED=23 JOBS=300        a table, and a line for each job that was missed

    right         what is named first is what was planted
    named         it is named, but not first
    general       where the time went, or what is true beside it, is reported, and not why
    silent        nothing is reported
    unclear       the same, where it took less than 5 % of the time of all ranks: one of many ranks
                  of each node does it, which its counters cannot tell from a little of each
    wrong         something else is named, and what was planted is not
    false alarms  of healthy jobs: something is named

    make score SEED=23 SITES=48        of jobs on a whole site, beside neighbours and faults

A job is drawn by the seed and its number, so that a line of the list is repeated by
`make score SEED=23 JOBS=300 ONLY=117`, with what is printed of it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, namedtuple

from iostats.base.config import Config
from iostats.report import job_tables
from iostats.report.why.cause import NOT_IN_LUSTRE, OWN_PATTERN, UNKNOWN
from iostats.report.why.causes import judge_record
from planted_jobs import neighbours
from planted_jobs.causes import CAUSES
from planted_jobs.healthy import HEALTHY
from planted_jobs.jobs import Job

OUTCOMES = ("right", "named", "general", "silent", "unclear", "wrong")
LEAST_OF_TASKS = 0.05
Judged = namedtuple("Judged", "number kind job is_healthy text why findings causes")
Judged.__doc__ = """
A job, and what became of it.

Attributes:
    number: its number, which with the seed draws it again.
    kind: the Planted or the Healthy.
    text, why: one of OUTCOMES for each of the two; of a healthy job "right" or "false alarm".
    findings, causes: ids of the findings; of causes their finding or kind.
"""


def drawn(seed, number):
    """(the Planted or Healthy, the Job): every third one is healthy."""
    source = random.Random(f"{seed} {number}")
    if number % 3 == 2:
        kind = HEALTHY[number // 3 % len(HEALTHY)]
        job = Job(source, kind.least_nodes)
        kind.work(job)
        return kind, job
    planted = CAUSES[(number - number // 3) % len(CAUSES)]
    job = Job(source, planted.least_nodes, planted.least_osts, planted.needs_times)
    job.background()
    planted.plant(job)
    return planted, job


def judged(seed, number, config):
    """The Judged of one job."""
    kind, job = drawn(seed, number)
    causes, findings = judge_record(job.record(), config)
    found = [one.id for one in findings]
    why = [one.about["finding"] if one.kind == OWN_PATTERN else one.kind for one in causes
           if one.kind != UNKNOWN]
    if kind in HEALTHY:
        alarms = [{*named} - {*kind.allowed, NOT_IN_LUSTRE} for named in (found, why)]
        return Judged(number, kind, job, True,
                      *("false alarm" if alarm else "right" for alarm in alarms), found, why)
    outcomes = [outcome(kind, named) for named in (found, why)]
    if job.part_of_tasks < LEAST_OF_TASKS:
        outcomes = ["unclear" if one in ("general", "silent") else one for one in outcomes]
    return Judged(number, kind, job, False, *outcomes, found, why)


def outcome(planted, named):
    """Which of OUTCOMES it is that `named` are named, the first one first."""
    if not named:
        return "silent"
    if named[0] in planted.answers:
        return "right"
    if set(named) & set(planted.answers):
        return "named"
    return "wrong" if set(named) - {*planted.beside, *planted.general} else "general"


def score(seed, numbers, config=None):
    """[Judged] of the jobs of these numbers."""
    config = config or Config()
    return [judged(seed, number, config) for number in numbers]


def table(every):
    """Lines of the score."""
    planted = [one for one in every if not one.is_healthy]
    healthy = [one for one in every if one.is_healthy]
    lines = [f"{len(planted)} jobs with a cause, {len(healthy)} healthy ones",
             f"{'':8}{''.join(f'{name:>10}' for name in OUTCOMES)}{'false alarms':>14}"]
    for way in ("text", "why"):
        counts = Counter(getattr(one, way) for one in planted)
        alarms = sum(getattr(one, way) != "right" for one in healthy)
        lines.append(f"{way:8}{''.join(f'{counts[name]:10}' for name in OUTCOMES)}{alarms:14}")
    return lines


def line_of(one):
    """One line of a job that was missed."""
    job, machine = one.job, one.job.machine
    return (f"{one.number:4} {one.kind.name:24} {job.nodes:4} nodes x {job.ranks:3} ranks, "
            f"{job.elapsed_s:6.0f} s, {machine.osts:3} OSTs, {machine.release}, knows {job.knows}: "
            f"text {one.text} ({' '.join(one.findings) or '-'}), "
            f"why {one.why} ({' '.join(one.causes) or '-'}); {job.about}")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="score", description=__doc__.splitlines()[1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--only", type=int, help="the number of a job, to see all of it")
    parser.add_argument("--sites", type=int, help="of so many jobs on a whole site instead")
    options = parser.parse_args(arguments)
    if options.sites:
        of_sites = []
        for kind, seed in neighbours.scenarios(options.seed, options.sites):
            of_sites.append(neighbours.outcome(kind, seed, Config()))
            if not of_sites[-1].is_right:
                print(neighbours.line_of(of_sites[-1]), flush=True)
        print("\n".join(neighbours.table(of_sites)))
        return
    if options.only is not None:
        [one] = score(options.seed, [options.only])
        print(line_of(one))
        print(job_tables.format_report(one.job.record(), Config()))
        return
    every = score(options.seed, range(options.jobs))
    for one in every:
        if {one.text, one.why} != {"right"}:
            print(line_of(one))
    print("\n".join(table(every)))


if __name__ == "__main__":
    sys.exit(main())
