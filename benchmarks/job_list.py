"""
job_list: the list of all jobs of a site, which the site's server asks for once a minute.

    all: the first list; 1 %: one in a hundred jobs is over since the list before, and another one
    has begun; each has four nodes, and most have one that others had before
    alone: whether each of a hundred runs had its nodes alone
"""

import json
import subprocess
import sys
import time

from measure import HERE, BenchmarkError, Table, environment, median_ratio

_AT_S = 1_795_225_200


def run(quick):
    """[Table]: CPU seconds of a list, against splitting its lines into fields."""
    rows = []
    for jobs in (1_000,) if quick else (1_000, 10_000, 50_000):
        done = subprocess.run([sys.executable, f"{HERE}/job_list.py", str(jobs)],
                              env=environment(), stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise BenchmarkError(f"job_list.py: exit status {done.returncode}")
        found = json.loads(done.stdout)
        split, first, second = found["split"], found["all"], found["part"]
        rows.append([f"{jobs:,}", f"{min(split):.3f} s", f"{min(first):.3f} s",
                     f"{median_ratio(first, split):.0f}", f"{min(second):.3f} s",
                     f"{median_ratio(second, split):.1f}", f"{min(second) / jobs * 1e6:.1f} us",
                     f"{min(found['alone']) * 1e3:.1f} ms"])
    return [Table("The list of all jobs of a site, once a minute", [
        "jobs", "splitting its lines", "all new", "ratio", "1 % changed", "ratio", "a job",
        "100 alone"], rows, ["CPU seconds of one process: the text of squeue to runs."])]


def _text(jobs, minute):
    """What squeue prints of that number of `jobs`; one in a hundred is another one each minute."""
    lines = []
    for place in range(jobs):
        begun = minute if place % 100 < minute else 0
        if begun and place % 100 == minute - 1:
            lines.append(_line(place, 0, minute))
        lines.append(_line(place + begun * jobs, minute * 60 if begun else 0, 0))
    return "".join(lines)


def _line(number, began, minute):
    job, node = 4711 + number, 1 + 4 * (number % 50_000)
    state = "COMPLETED" if minute else "RUNNING"
    return (f"{job}|{job}|{state}|12345|alice|hpc|main|4|{_moment(began)}|"
            f"{_moment(60 * minute - 23)}|nid[{node:06}-{node + 3:06}]|OK\n")


def _moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(_AT_S + seconds))


def _child(jobs):
    from iostats.jobs.job_runs import JobRuns
    from iostats.schedulers import slurm_list
    first, second = _text(jobs, 0), _text(jobs, 1)
    found = {"split": [], "all": [], "part": [], "alone": []}
    for _ in range(5):
        runs = JobRuns()
        slurm_list.parse_job_list("")           # without a list before

        def listed(text, at, runs=runs):
            one = slurm_list.parse_job_list(text)
            runs.add_list(one.jobs, one.exclusive, at)
            runs.mark_covered(at - 300, at)
        for name, work in (
                ("split", lambda: [line.split("|") for line in second.splitlines()]),
                ("all", lambda listed=listed: listed(first, _AT_S)),
                ("part", lambda listed=listed: listed(second, _AT_S + 60)),
                ("alone", lambda runs=runs: [runs.check_alone(one) for one in [
                    one for one in runs.runs.values() if one.ended is not None][:100]])):
            began = time.process_time()
            work()
            found[name].append(time.process_time() - began)
        over = [one for one in runs.runs.values() if one.ended is not None]
        assert len(over) == jobs // 100 and all(runs.check_alone(one).how for one in over)
    print(json.dumps(found))


if __name__ == "__main__":
    _child(int(sys.argv[1]))
