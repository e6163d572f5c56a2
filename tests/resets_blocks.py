"""
Blocks of job_stats written by hand, and the target that has taken them: T is the first reading, and
job_cleanup_interval is 600 s.
"""

from sweep_blocks import Block, Column

from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget

T = 1_795_225_200
NS = 10**9


def block(at, entries, **others):
    """
    A Block read at T + `at`; entries: {id: (started, seen, {counter: numbers})}, times from T in
    seconds, started None where there is none; numbers: samples, or (samples, min, max, sum, sumsq).
    """
    columns = {}
    for row, (_, _, counters) in enumerate(entries.values()):
        for name, numbers in counters.items():
            numbers = numbers if isinstance(numbers, tuple) else (numbers,)
            columns.setdefault(name, []).append((row, *numbers))
    made = {}
    for name, rows in columns.items():
        at_rows, *numbers = map(list, zip(*rows))
        samples, low, high, total, squares = (numbers + [None] * 4)[:5]
        made[name] = Column("reqs" if low is None else "bytes", at_rows, samples, low, high,
                            total, squares)
    given = {"ended": True, "cleanup_s": 600, **others}
    return Block(file_system="scratch", target="OST0000", read_at=float(T + at), **given,
                 ids=list(entries), counters=made,
                 started=[0 if one is None else (T + one) * NS for one, _, _ in entries.values()],
                 seen=[(T + seen) * NS for _, seen, _ in entries.values()])


def taken(*blocks, full=False):
    """The Target that has taken these blocks; the first one full."""
    target = CorrectedTarget(JobIds(), "scratch", "OST0000")
    for at, one in enumerate(blocks):
        target.add_block(one, "oss1", "boot 1", full or at == 0)
    return target


def opens(started, seen, count):
    """An entry of job 4711 that has opened `count` files."""
    return {"4711": (started, seen, {"open": count})}


EMPTY = block(0, {})
