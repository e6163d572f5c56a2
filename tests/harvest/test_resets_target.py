"""
What comes out of a target: gains, totals, and nothing of jobs that are forgotten; and what a real
Lustre printed.
"""

import numpy
import pytest
from resets_blocks import EMPTY, T, block, opens, taken
from sweep_blocks import Block, Column
from trees import samples

from iostats.harvest.resets.gaps import AT_LIMIT, CLEARED, NO_SWEEP
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget
from iostats.lustre import job_stats


def test_gains_are_of_the_last_reading_and_of_jobs_that_changed():
    """By bytes, by reads and writes, and all else as operations."""
    def two(seen, written, count):
        return {"4711": (190, seen, {"write_bytes": (written, 4096, 4096, 4096 * written, 0),
                                     "open": count}), "4712": (190, 191, {"open": 5})}

    target = taken(EMPTY, block(200, two(199, 23, 37)), block(220, two(219, 60, 41)), full=True)
    gains = target.gains()
    assert ["4711"] == gains.ids == target.changed()
    assert ([151552], [37], [0], [4], 20.0) == (
        gains.write_bytes.tolist(), gains.writes.tolist(), gains.reads.tolist(),
        gains.operations.tolist(), gains.span_s)


def test_numbers_of_64_bits_stay_exact():
    """Above 2^53, where a float would round, and up to where the kernel's sums stay."""
    high = 2**63 - 1
    target = taken(EMPTY, block(200, {"4711": (190, 199, {
        "write_bytes": (2**53 + 1, 1, 2**40, high, 0), "open": 2**40 + 1})}))
    column = target.totals(["4711"]).counters["write_bytes"]
    assert (2**53 + 1, high) == (int(column.samples[0]), int(column.sums[0]))
    assert numpy.dtype("uint64") == column.sums.dtype
    assert [AT_LIMIT] == target.marks("4711", T + 150, T + 200)


def test_forgetting_leaves_nothing_and_others_as_they_were():
    """Not in the target, and not among the names."""
    names = JobIds()
    target = CorrectedTarget(names, "scratch", "OST0000")
    target.add_block(EMPTY, "oss1", "boot 1", True)
    many = {str(one): (190, 199, {"open": one}) for one in range(4711, 6711)}
    target.add_block(block(200, many), "oss1", "boot 1", False)
    target.add_block(block(220, {job: (210, 219, {"open": 37}) for job in many}), "oss1", "boot 1",
                     False)
    target.drop_ids([job for job in many if job not in ("4733", "5000")])
    assert [0, 4770] == target.totals(["4712", "4733"]).counters["open"].samples.tolist()
    for at in (240, 260):                # what is gone from the file is gone from memory
        target.add_block(block(at, {one: (210, 219, {"open": 37}) for one in ("4733", "5000")}),
                         "oss1", "boot 1", True)
    assert 2 == len(names)
    assert ["4733", "5000"] == sorted(target.ids())
    assert [4770, 5037] == sorted(target.totals().counters["open"].samples.tolist())
    assert len(target.state()) < 2000
    target.add_block(block(280, opens(270, 279, 7)), "oss1", "boot 1", False)
    assert [7, 4770, 0] == target.totals(["4711", "4733", "4712"]).counters["open"].samples.tolist()


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("then, expected", [
    ([block(400, opens(190, 199, (60, 1, 41, 1009, 37_037)))], (0, 0)),
    ([block(400, opens(190, 390, (97, 1, 41, 2018, 74_074)))], (37, 1009)),
    ([block(900, opens(890, 899, (23, 1, 41, 500, 12_000)))], (23, 500)),
    ([block(900, opens(890, 899, (97, 1, 41, 2018, 74_074))),
      block(1000, opens(890, 990, (99, 1, 41, 2055, 75_443)))], (99, 2055)),
    ([block(400, {}), block(500, {}), block(600, {}),
      block(900, opens(890, 899, (60, 1, 41, 1009, 37_037)))], (60, 1009)),
], ids=["it is reported again", "it goes on", "another one", "another one that goes on",
        "it was gone, and another one is as large"])
def test_a_job_that_was_forgotten_counts_from_then_on(then, expected, saved):
    """Whether its entry is still there, as with job_cleanup_interval 0, or is not."""
    names = JobIds()
    target = CorrectedTarget(names, "scratch", "OST0000")
    target.add_block(EMPTY, "oss1", "boot 1", True)
    target.add_block(block(200, opens(190, 199, (60, 1, 41, 1009, 37_037))), "oss1", "boot 1", True)
    target.drop_ids(["4711"])
    assert [] == target.ids()
    for one in then:
        if saved:
            target = CorrectedTarget.from_state(names, target.state())
        target.add_block(one, "oss1", "boot 1", True)
    open_ = target.totals(["4711"]).counters["open"]
    assert expected == (int(open_.samples[0]), int(open_.sums[0]))
    assert (["4711"] if expected[0] else []) == target.ids()


def _read(step, path):
    """The Block of one job_stats file of a capture."""
    directory = step / "sys/fs/lustre" / path.parent.parent.name / path.parent.name
    entries = [job_stats.parse(piece) for piece in job_stats.split_entries([path.read_bytes()])]
    columns = {}
    for row, entry in enumerate(entries):
        for name, counter in entry.counters.items():
            columns.setdefault(name, []).append((row, counter))
    return Block(
        file_system="lustre", target=path.parent.name.partition("-")[2], ended=True,
        read_at=float((step / "TIME").read_text().split()[1]), ids=[one.job_id for one in entries],
        cleanup_s=(int((directory / "job_cleanup_interval").read_text())
                   if directory.is_dir() else 600),
        started=[one.started_ns for one in entries], seen=[one.seen_ns for one in entries],
        counters={name: Column(rows[0][1].unit, [row for row, _ in rows], *(
            [getattr(counter, field) for _, counter in rows]
            for field in ("samples", "min", "max", "sum", "sumsq"))) for name, rows in
            columns.items()})


# Written: 871424 + 15728640 (w1), 28672 (n of w2), 10192 (mmap and truncate), 8192 (j), then the
# clear, 860160 (c), in 2.17.57 614400 (r), which 2.16.1 has no reading of, then the expiry, 245760
# (e), and x, y and z around the eviction.  Opens as `TRUE ... opens=` says.
@pytest.mark.parametrize("release", samples("captures", "2.1[67].*[0-9]"))
def test_the_totals_of_a_real_lustre_go_through_clear_and_expiry(release):
    """prime_io.0 and job 4711, over all steps of the capture, against what was really done."""
    names, targets, last = JobIds(), {}, {}
    for step in sorted(release.glob("s[01]*")):
        for path in sorted(step.glob("proc/fs/lustre/*/*/job_stats")):
            target = targets.setdefault(path.parent.name, CorrectedTarget(
                names, "lustre", path.parent.name))
            target.add_block(_read(step, path), "oss1", "boot 1", True)
        for job in ("prime_io.0", "4711"):
            last[step.name[:3], job] = (
                sum(int(target.totals([job]).counters["write_bytes"].sums[0])
                    for name, target in targets.items() if "OST" in name
                    and "write_bytes" in target.totals([job]).counters),
                sum(int(target.totals([job]).counters["open"].samples[0])
                    for name, target in targets.items() if "MDT" in name
                    and "open" in target.totals([job]).counters))
    lost = 0 if (release / "s12_remounted_and_w").is_dir() else 614400
    evicted = 36864 if not lost else 40960
    assert (16600064, 70) == last["s02", "prime_io.0"]
    assert (16647120, 109) == last["s08", "prime_io.0"]
    assert (17507280, 116) == last["s09", "prime_io.0"]
    assert 18367440 - lost == last["s15", "prime_io.0"][0]
    assert 18367440 - lost + evicted == last["s19", "prime_io.0"][0]
    assert (16359424, 21) == last["s19", "4711"]
    began, ended = targets["lustre-MDT0000"].swept_since, targets["lustre-MDT0000"].read_at
    for target in targets.values():
        assert [CLEARED, NO_SWEEP] == target.marks("prime_io.0", began, ended)
        assert [] == target.marks("prime_io.0", began, began + 60)


def test_suspects_are_those_with_a_sum_at_the_kernels_limit_in_this_entry_or_an_earlier_one():
    """4711's is in its first entry, 4712's in the one that is there; 4713's is below."""
    def written(seen, **sums):
        return {job: (seen - 9, seen, {"write_bytes": (1, 1, 2**40, total, 0)})
                for job, total in sums.items()}

    high = 2**63 - 1
    target = taken(EMPTY, block(200, written(199, a4711=high, a4712=23, a4713=high - 1)),
                   block(900, written(899, a4711=5, a4712=high, a4713=7)))
    assert ["a4711", "a4712"] == sorted(target.list_suspect_ids())


def test_a_job_that_is_forgotten_between_two_blocks_of_a_reading_counts_from_0():
    """4711 is gone for certain, and forgotten when the reading of 4712 and 4713 has begun."""
    both = {"4712": (190, 199, {"open": 5}), "4713": (190, 199, {"open": 7})}
    target = taken(EMPTY, block(200, {**opens(190, 199, 23), **both}), *(
        block(at, {job: (190, at - 1, {"open": at}) for job in both}) for at in (800, 900, 1000)),
        block(1100, {"4712": (190, 1099, {"open": 1100})}, ended=False), full=True)
    target.drop_ids(["4711"])
    again = CorrectedTarget.from_state(JobIds(), target.state())
    for one in (target, again):
        one.add_block(block(1100, {"4713": (190, 1098, {"open": 1100})}), "oss1", "boot 1", True)
        assert [0, 1100, 1100] == one.totals(["4711", *both]).counters["open"].samples.tolist()
        assert (sorted(both), [100, 100]) == (sorted(one.gains().ids),
                                              one.gains().operations.tolist())
