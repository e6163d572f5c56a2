"""
Findings of work on a real Lustre 2.15.8 to 2.17.57 (shared/captures), whose commands are known: the
fault that it has, and none where it has none.

Each step took seconds and is taken for a job of a minute, so calls may take what time they like
(from_percent; and without time_in_lustre), and 1 MiB or 300 calls are enough; the other thresholds
are the defaults.
"""

import pytest
from trees import record_between, samples, shared, snapshot

from iostats.base.config import Config
from iostats.node import idle_time
from iostats.report.findings.evaluate import find_problems, list_checks

SMALL = {"from_seconds": 0, "from_bytes": 1 << 20, "from_operations": 300, "large_bytes": 1 << 20,
         "from_percent": 0, "off": "time_in_lustre"}
RELEASES = ["2.15.8", "2.16.1", "2.17.57", "2.17.57-client"]


def configured():
    config = Config()
    for name, value in SMALL.items():
        config.set_value(f"findings.{name}", str(value), "the test")
    return config


def job(release, before, after):
    top = shared("captures", release)
    return record_between(*(next(top.glob(f"{step}_*")) for step in (before, after)))


def ids(record):
    return [one.id for one in find_problems(record, configured())]


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_read_again_came_from_memory(release):
    """All 26 files of the step before, once more."""
    [one] = find_problems(job(release, "s02", "s03"), configured())
    assert "cache_served" == one.id
    assert one.number.startswith("100 % of 15.8 MiB that were read did not come over the network")


@pytest.mark.parametrize("before, after, calls, mean", [
    ("s00", "s01", "1,003", "up to 3.9 KiB"),       # 100 B each, most of them in no byte counter
    ("s01", "s02", "2,000", "up to 3.3 KiB"),       # dd bs=1000
    ("s03", "s04", "1,003", "100 bytes"),           # 100 B each, with O_APPEND
    ("s04", "s05", "2,000", "1,000 bytes"),         # dd bs=1000, tiny_write=0
], ids=["100 B", "dd", "append", "dd without tiny writes"])
def test_small_writes_are_small_whatever_the_kernel_counts_of_them(before, after, calls, mean):
    """`up to`: the bytes of small writes into pages that were not sent are not counted."""
    first, *_ = find_problems(job("2.17.57-b", before, after), configured())
    assert "small_writes" == first.id
    assert first.number.startswith(f"{calls} writes of {mean} on average")


def test_a_file_on_one_ost_is_read_from_one_ost():
    """8 MiB that were written before, in pieces of 1 MiB."""
    assert ["one_ost"] == ids(job("2.17.57-b", "s06", "s07"))


@pytest.mark.parametrize("release, before, after", [
    *((release, "s01", "s02") for release in RELEASES),
    *((release, "s03", "s04") for release in ("2.15.8", "2.16.1", "2.17.57-client")),
    ("2.16.1", "s05", "s06"), ("2.17.57", "s05", "s06"),
    ("2.15.8", "s16", "s17"), ("2.17.57-client", "s16", "s17"),
    ("2.17.57-b", "s05", "s06"), ("2.17.57-b", "s15", "s16"), ("2.17.57-b", "s16", "s17")])
def test_work_without_a_fault_has_no_finding(release, before, after):
    """
    Files of 37 KiB and 5 MiB written, synced and read; O_DIRECT; small files and removals; mmap and
    splice: of each little, or in pieces that are large enough.
    """
    record = job(release, before, after)
    assert [] == ids(record)
    assert list_checks(record, configured()).startswith(("No problems found. ", "No findings: "))


@pytest.mark.parametrize("release, before", [("2.15.8", "s17"), ("2.16.1", "s18"),
                                             ("2.17.57", "s18"), ("2.17.57-client", "s17")])
def test_a_real_node_that_is_idle_does_nothing_by_itself(tmp_path, release, before):
    """For 25 to 30 s, which are taken for ten minutes; it is known to do nothing: no number."""
    top = shared("captures", release)
    quiet, start = (snapshot(next(top.glob(f"{step}_*")))._replace(boot_ns=boot_ns)
                    for step, boot_ns in ((before, 10**12), ("s19", 10**12 + 600 * 10**9)))
    kept, start_path = str(tmp_path), str(tmp_path / "4711%20node1.start")
    idle_time.store_idle_start(kept, "node1", quiet, kept)
    idle_time.claim(kept, "node1", start_path, kept)
    found = idle_time.report_idle_io(kept, "node1", start_path, start, True)["idle"]
    assert [{"seconds": 600.0, "values": {}}] == list(found.values())


@pytest.mark.parametrize("after", samples("captures", "2.1*/s08_after_clear"))
def test_an_idle_time_with_a_clear_tells_nothing(tmp_path, after):
    """All counters began again: what the node did before is not known."""
    before = sorted(after.parent.glob("s0[47]_*"))[-1]
    quiet, start = (snapshot(tree)._replace(boot_ns=boot_ns) for tree, boot_ns in (
        (before, 10**12), (after, 10**12 + 600 * 10**9)))
    kept, start_path = str(tmp_path), str(tmp_path / "4711%20node1.start")
    idle_time.store_idle_start(kept, "node1", quiet, kept)
    idle_time.claim(kept, "node1", start_path, kept)
    assert {} == idle_time.report_idle_io(kept, "node1", start_path, start, True)
