"""
resets: the correction of one sweep of a whole site for counter resets: 200 targets with many jobs.

    a job at a target: 8 counters that are not 0, as an OST of 2.16 has them, or of 2.12
    all: every entry has changed; 1 %: one in a hundred has
"""

import os
import resource
import subprocess
import sys
import time

import numpy
from measure import HERE, BenchmarkError, Table, environment

_COUNTERS = ("read_bytes", "write_bytes", "read", "write", "getattr", "punch", "setattr", "sync")
_READ_AT_S, _EVERY_S, _ROWS = 1_795_225_200, 20, 2000
_NS = 1_000_000_000


def run(quick):
    """[Table]: CPU seconds of a sweep and memory, from 1,000 to 100,000 jobs on each target."""
    sizes = ((20, 1_000), (20, 10_000)) if quick else (
        (200, 1_000), (200, 10_000), (20, 10_000), (20, 30_000), (20, 100_000))
    rows = []
    for release in ("2.16", "2.12"):
        for targets, jobs in sizes:
            done = subprocess.run([sys.executable, f"{HERE}/resets.py", release, str(targets),
                                   str(jobs)], env=environment(), stdout=subprocess.PIPE,
                                  check=False)
            if done.returncode:
                raise BenchmarkError(f"resets.py: exit status {done.returncode}")
            every, part, size, saved, save_s, load_s = map(float, done.stdout.split())
            entries = targets * jobs
            rows.append([release, f"{targets:,}", f"{jobs:,}", f"{every:.2f} s",
                         f"{every / entries * 1e6:.2f} us", f"{part:.3f} s",
                         f"{size / entries:.0f}", f"{saved / entries:.0f}",
                         f"{save_s + load_s:.2f} s"])
    return [Table("Correction of counter resets: a sweep of a site", [
        "release", "targets", "jobs on each", "all changed", "an entry", "1 % changed",
        "bytes/entry", "saved bytes", "save and load"], rows, [
        "CPU seconds of one process, without the decoding of the messages.  bytes/entry: growth of",
        "the process's memory, divided by targets x jobs; 2.12 has no start_time."])]


def _blocks(target, ids, sweep, release):
    """One target's blocks of a sweep in which all these ids have changed."""
    from sweep_blocks import Block, Column
    read_at = _READ_AT_S + sweep * _EVERY_S
    for at in range(0, len(ids), _ROWS):
        part = ids[at:at + _ROWS]
        rows = list(range(len(part)))
        samples = [23 + sweep + row % 37 for row in rows]
        sums = [4096 * one for one in samples]
        low, high = [4096] * len(rows), [4096 + sweep] * len(rows)
        counters = {}
        for name in _COUNTERS:
            extra = [low, high, sums, [2**24 * one for one in samples]]
            if release == "2.12":
                extra = extra[:3] + [None] if name.endswith("_bytes") else [None] * 4
            counters[name] = Column("bytes" if name.endswith("_bytes") else "usecs", rows,
                                    samples, *extra)
        started = (_READ_AT_S - 41) * _NS if release == "2.16" else 0
        yield Block(file_system="scratch", target=target, read_at=float(read_at),
                    ended=at + _ROWS >= len(ids), cleanup_s=600, ids=part,
                    started=[started] * len(part), seen=[(read_at - 1) * _NS] * len(part),
                    counters=counters)


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _main(release, targets, jobs):
    from iostats.harvest.resets.job_ids import JobIds
    from iostats.harvest.resets.target import CorrectedTarget
    job_ids = JobIds()
    everyone = [CorrectedTarget(job_ids, "scratch", f"OST{at:04x}") for at in range(targets)]
    ids = [str(4_711_000 + at) for at in range(jobs)]
    used = {}

    def sweep(number, some):
        used_s = 0
        blocks = list(_blocks("OST0000", some, number, release))
        for target in everyone:
            began = time.process_time()
            for block in blocks:
                target.add_block(block, "oss1", "boot", number == 0)
            used_s += time.process_time() - began
        return used_s

    list(_blocks("OST0000", ids, 0, release))       # so that the allocator has what it needs
    before = _resident()
    sweep(0, ids)
    used["all"] = min(sweep(number, ids) for number in (1, 2))
    used["part"] = min(sweep(number, ids[::100]) for number in (3, 4))
    after = _resident()
    began = time.process_time()
    saved = 0
    for target in everyone[:10]:
        saved += len(target.state())
    save_s = (time.process_time() - began) * targets / 10
    state = everyone[0].state()
    began = time.process_time()
    for _ in range(3):
        CorrectedTarget.from_state(JobIds(), state)
    load_s = (time.process_time() - began) * targets / 3
    assert numpy.all(everyone[-1].totals(ids[:1]).counters["read"].samples == [23 + 4])
    print(used["all"], used["part"], after - before, saved * targets / 10, save_s, load_s)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
