"""
The nodes' own I/O in a report: a note where it is not negligible, and no finding that is about it.

Jobs of 2 nodes and 1,000 s, so 2,000 s of nodes' time, of which 5 % are 100 s.  `idle` is said as
what each node did in 10,000 idle seconds, so that a tenth of it falls into the job.
"""

import pytest
from test_findings import HALF_S, MIB, configured, ids, md_stats, osc
from test_job_totals import llite
from trees import report as of_node

from iostats.report import job_tables, node_sets
from iostats.report.findings import noise_floor
from iostats.report.findings.evaluate import find_problems, list_checks
from iostats.report.html import page
from iostats.totals.job_totals import Totals
from iostats.totals.record import Record
from iostats.wire.messages.report import ReportedIdle, ReportedSeries


def record(*deltas, idle=None, on=2, **fields):
    """A job of two nodes that have counted the same; `on` so many of them `idle` is known."""
    totals = Totals("4711", 2, fold=node_sets.fold_nodes)
    for number in (1, 2):
        known = idle is not None and number <= on
        totals.add(of_node(f"nid{number:05}", deltas, elapsed_s=1000.0, cpus=1, idle={
            "scratch": ReportedIdle(10_000.0, idle)} if known else None, **fields))
    return totals.record()


def notes(found, units="binary"):
    [fs] = found.file_systems
    return noise_floor.describe_noise(fs, found.coverage.reported, units)


MEASURED = ("may be the nodes' own (daemons, health checks: measured while no job ran, on 2 of 2 "
            "nodes)")


# -- the note ------------------------------------------------------------------------------------

def test_a_number_of_which_much_may_be_the_nodes_own_has_a_note():
    """1,204 of 1,311: 602 on each node, where it did 6,020 in ten times the job's time."""
    found = record(llite(getattr=655), idle={"getattr": 6020})
    assert [f"about 1,204 of 1,310 getattr {MEASURED}"] == notes(found)
    text = job_tables.format_report(job_tables.add_labels(found, configured()), configured())
    assert f"note: scratch: about 1,204 of 1,310 getattr {MEASURED} " in " ".join(
        f"{text} ".split()) + " "
    assert "about 1,204 of 1,310 getattr may be" in page.make_page(
        found, configured(), []).replace("\n", " ")


def test_the_note_begins_at_the_threshold():
    """5 % of 20,000 and of 20,002."""
    found = record(llite(open=10_000, getattr=10_001), idle={"open": 5000, "getattr": 5000})
    assert [f"about 1,000 of 20,000 open {MEASURED}"] == notes(found)


def test_all_of_a_number_that_is_less_than_expected():
    """A health checker that came less often than it does on average."""
    assert [f"all of 1,000 getattr {MEASURED}"] == notes(
        record(llite(getattr=500), idle={"getattr": 6020}))


def test_bytes_and_calls_in_their_words():
    """The largest part first; of bytes a MiB, of calls a hundred is worth a note."""
    found = record(llite(read_bytes=40 * MIB, read_calls=1000, write_bytes=MIB, write_calls=90,
                         open=370),
                   idle={"read_bytes": 100 * MIB, "read_calls": 9000, "write_bytes": 4.9 * MIB,
                         "write_calls": 490, "open": 3700})
    assert [f"all of 740 open, about 1,800 of 2,000 reads, about 20.0 MiB of 80.0 MiB read "
            f"{MEASURED}"] == notes(found)
    assert "about 21.0 MB of 83.9 MB read" in notes(found, units="decimal")[0]


def test_four_numbers_and_how_many_more():
    """In the order of their parts, and then of their names."""
    many = {name: 700 for name in ("open", "close", "getattr", "unlink", "mkdir", "rmdir")}
    found = record(llite(**many), idle={name: 7000 for name in many})
    assert [f"all of 1,400 close, all of 1,400 getattr, all of 1,400 mkdir, all of 1,400 open, and "
            f"parts of 2 other numbers {MEASURED}"] == notes(found)


def test_a_number_that_may_be_too_low_keeps_its_mark():
    found = record(llite(getattr=655)._replace(lower_bound=True, why="cleared"),
                   idle={"getattr": 6020})
    assert [f"about 1,204 of >= 1,310 getattr {MEASURED}"] == notes(found)


def test_what_is_not_known_is_not_said():
    """But to those who ask; and how many nodes it is known of."""
    found = record(llite(getattr=655))
    assert [] == notes(found)
    for text, idle in (("on scratch is the nodes' own I/O (daemons, health checks) is unknown: "
                        "no prolog and epilog measured these nodes without a job.", None),
                       ("Of the numbers on scratch the nodes' own I/O (daemons, health checks) is "
                        "about: getattr 60; measured on 1 node in 10000 seconds without a job.",
                        {"getattr": 600}),
                       ("is about: nothing; measured on 1 node", {})):
        one = record(llite(getattr=65_500), idle=idle, on=1)
        shown = job_tables.add_labels(one, configured())
        assert text not in " ".join(job_tables.format_report(shown, configured()).split())
        assert text in " ".join(job_tables.format_report(shown, configured(), explain=True).split())


def test_nodes_that_do_not_know_are_taken_to_be_like_the_others():
    """602 of one of two nodes, as rules take it."""
    assert ["about 1,204 of 1,310 getattr may be the nodes' own (daemons, health checks: measured "
            "while no job ran, on 1 of 2 nodes; the other nodes are assumed to do the "
            "same)"] == notes(
                record(llite(getattr=655), idle={"getattr": 6020}, on=1))


# -- findings ------------------------------------------------------------------------------------

def storm(**more):
    """50,000 stats on each node, which take 60 of its 1,000 s."""
    return llite(**{"getattr": 50_000, "getattr_us": 60_000_000, **more})


def test_a_health_checker_is_not_the_jobs_stat_storm():
    """Half of it is: what is left takes 3 %, and not the 5 % that make it a finding."""
    assert ["stat_storm"] == ids(record(storm()))
    assert ["stat_storm"] == ids(record(storm(), idle={"getattr": 10_000}))
    assert [] == ids(record(storm(), idle={"getattr": 250_000}))
    assert list_checks(record(storm(), idle={"getattr": 250_000}), configured()).startswith(
        "No problems found.")


def test_a_finding_that_stands_says_that_it_may_be_less():
    """Of 100,000 the nodes did 6,000 by themselves; 5.6 % of the time are left."""
    [one] = find_problems(record(storm(), idle={"getattr": 30_000}), configured())
    assert "stat_storm" == one.id
    assert one.number.startswith(">= 94,000 ")


def test_nodes_that_do_not_know_are_like_the_others():
    """Half of the numbers of both, although only one has measured it."""
    assert [] == ids(record(storm(), idle={"getattr": 250_000}, on=1))


def test_a_job_that_did_next_to_nothing_is_too_small_to_judge():
    """The health checker alone is beyond from_operations."""
    found = record(llite(getattr=50_000, getattr_us=10), idle={"getattr": 499_000})
    assert "No findings: too little is known to judge." == list_checks(found, configured())


def test_a_daemons_reads_are_no_small_reads():
    """Of 46,000 reads on each node 45,000 are a daemon's."""
    reads = llite(read_bytes=46_000 * 37, read_calls=46_000, read=46_000, read_us=2 * HALF_S)
    assert ["small_reads"] == ids(record(reads))
    assert [] == ids(record(reads, idle={"read_bytes": 450_000 * 37, "read_calls": 450_000}))


def test_a_daemons_requests_are_no_metadata_storm():
    """110,000 a second to an MDT on two nodes, of which 19 in 20 are a daemon's stats."""
    asked = (storm(getattr=55_000_000, getattr_us=10),
             md_stats("MDT0000", getattr=55_000_000))
    assert ["metadata_storm"] == ids(record(*asked))
    assert [] == ids(record(*asked, idle={"getattr": 522_500_000}))


def test_a_daemons_bytes_are_not_on_one_ost():
    """50 GiB of 60 are read by a daemon: where they came from is not known."""
    gib = 10 << 30
    moved = (llite(read_bytes=3 * gib, read_calls=3000), osc("OST0000", read_bytes=3 * gib,
                                                             read_rpcs=3000),
             osc("OST0001", read_bytes=0))
    assert ["one_ost"] == ids(record(*moved))
    assert [] == ids(record(*moved, idle={"read_bytes": 25 * gib}))


def test_a_daemons_polling_is_not_the_jobs():
    """It stats 10 times a second; so did the job, as far as `watch` can tell."""
    seen = {"scratch": ReportedSeries(1_795_224_060.0, 10.0, [0] * 100, [0] * 100, [120] * 100)}
    polls = llite(getattr=12_000, getattr_us=10)
    assert ["polling"] == ids(record(polls, series=seen))
    assert [] == ids(record(polls, series=seen, idle={"getattr": 110_000}))


@pytest.mark.parametrize("idle", [{"x" * 128: 23, "read_bytes": 2.0**62}, {"open": 1e-300}])
def test_odd_numbers_of_nodes_are_harmless(idle):
    """Names that no release has, and amounts that none can have."""
    found = Record.of(record(storm(), idle=idle))
    assert ["stat_storm"] == ids(found)
    assert job_tables.format_report(job_tables.add_labels(found, configured()), configured(),
                                    explain=True)
