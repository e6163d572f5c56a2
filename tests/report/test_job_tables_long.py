"""
The newer parts of the report, to the letter: what MDTs were asked, times, sizes of requests, why
the network's bytes are not the application's, OSTs, rates, who is missing, what each number means.
"""

import re

import pytest
from test_job_tables import job
from test_job_totals import llite, osc, unread
from trees import report as of_node

from iostats.base.config import Config
from iostats.lustre.metric_meanings import EXPLAIN_ALWAYS
from iostats.report import header, job_tables, node_sets
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import ReportedPhase, ReportedSeries

MIB = 2**20


def text(*reports, form="plain", long=False, explain=False, **options):
    return job_tables.format_report(*job(*reports, **options), form, long, explain)


def md_stats(target="MDT0000", lower_bound=False, **values):
    return Delta("md_stats", "scratch", target, "", values, lower_bound, "")


def rpc_stats(lower_bound=False, **values):
    return Delta("rpc_stats", "scratch", "", "", values, lower_bound, "")


def mdc(**values):
    return Delta("mdc", "scratch", "MDT0000", "", values, False, "")


def proved(delta):
    return delta._replace(proved=True)


def two_nodes(first=(), second=(), **fields):
    """
    Read: 23 MiB, of which 13 MiB came over the network.  Written: 37 + 4 MiB, of which 30 + 5 + 3
    went over it, and 2 are in memory.  Opens of 500, 1000 and 1500 us: 3000 us, and 3,500,000 us2.
    Requests to the MDT: 50 + 30 + 20 in 100 s, and 40 in 100 s; `revalidate_lock` is none.
    """
    return (
        of_node("nid00001", [
            llite(read_bytes=23 * MIB, read_calls=23, write_bytes=37 * MIB, write_calls=37,
                  open=3, open_us=3_000, open_us2=3_500_000, read=23, read_us=46_000_000,
                  cached_read_bytes=4 * MIB, cached_read_calls=1),
            osc("OST0000", read_bytes=13 * MIB, read_rpcs=13, write_bytes=30 * MIB, write_rpcs=10),
            osc("OST0001", write_bytes=5 * MIB, write_rpcs=5), osc("OST0002"),
            md_stats(close=50, create=30, getattr=20, revalidate_lock=999),
            rpc_stats(read_rpcs_pages_256=13, write_rpcs_pages_256=3, write_rpcs_pages_1024=12),
            *first], elapsed_s=100.0, dirty_bytes={"scratch": 2 * MIB}, **fields),
        of_node("nid00002", [
            llite(write_bytes=4 * MIB, write_calls=4, mkdir=2, mkdir_us=5_000),
            osc("OST0000"), osc("OST0001", write_bytes=3 * MIB, write_rpcs=3), osc("OST0002"),
            md_stats(close=40), rpc_stats(write_rpcs_pages_1024=3), *second],
            elapsed_s=100.0, dirty_bytes={"scratch": 0}, **fields))


# -- --long --------------------------------------------------------------------------------------


def test_the_long_report_of_two_nodes():
    """Each number as the docstring of `two_nodes` has it; rates are of 100 s."""
    assert """\
Job 4711 of alice: 2 nodes, 00:01:40 from 2026-11-21 01:36:00
File data transfer statistics for this job:
File System    File Read    File Write
scratch        23.0 MiB     41.0 MiB
Metadata statistics for this job:
File System      open    mkdir
scratch             3        2
No findings: too little I/O to judge.
Transfers                       bytes  calls, RPCs  mean size    mean rate
  read, by the application   23.0 MiB           23    1.0 MiB  235.5 KiB/s
  read, over the network     13.0 MiB           13    1.0 MiB  133.1 KiB/s
  write, by the application  41.0 MiB           41    1.0 MiB  419.8 KiB/s
  write, over the network    38.0 MiB           18    2.1 MiB  389.1 KiB/s
Time in operations                        share  calls     time     mean  stddev
  read              ███████████████████  99.9 %     23   46.0 s   2.00 s       -
  mkdir             ▏                    <0.1 %      2  5.00 ms  2.50 ms       -
  open              ▏                    <0.1 %      3  3.00 ms  1.00 ms  408 us
Requests (4 KiB pages)  read, RPCs          share  written, RPCs           share
  up to 1 MiB                   13  ██████  100 %              3  █       16.7 %
  up to 4 MiB                                                 15  █████   83.3 %
OSTs, 2 of 3 used                             share      read   written
  OST0000          ████████████████████▎     84.3 %  13.0 MiB  30.0 MiB
  OST0001          ███▊                      15.7 %             8.0 MiB
MDTs       requests  /s, node  peak  of node   most
  MDT0000       140      0.70  1.00  nid00001  close 90, create 30, getattr 20
Per node           least   median      most  busiest
  bytes read     0 bytes  0 bytes  23.0 MiB  nid00001
  bytes written  4.0 MiB  4.0 MiB  37.0 MiB  nid00001
  reads                0        0        23  nid00001
  writes               4        4        37  nid00001
  open                 0        0         3  nid00001
  mkdir                0        0         2  nid00002
  time in read       0 s      0 s    46.0 s  nid00001
  time in mkdir      0 s      0 s   5.00 ms  nid00002
  time in open       0 s      0 s   3.00 ms  nid00001
Marks: - unknown
scratch: 43 % of what was read did not come over the network
scratch: 2.0 MiB were written and not yet sent at the end
scratch: 1.0 MiB less were sent than written
scratch: 4.0 MiB of what was read were in the page cache when they were asked
  for (read-ahead counts too)
Time in Lustre: 46.0 s of 200 s of all nodes that reported, 23.0 % (more than
  100 % when threads overlap; a create is also in its open)
""" == text(*two_nodes(), long=True)


def test_the_long_tables_in_markdown():
    """The same rows, for tickets."""
    found = text(*two_nodes(), long=True, form="markdown")
    for rows in ("""\
| File System   | MDT     |   Requests |   Average |   Peak | Peak node   | Most                   \
         |
|:--------------|:--------|-----------:|----------:|-------:|:------------|:------------------------\
--------|
| scratch       | MDT0000 |        140 |       0.7 |    1.0 | nid00001    | close 90, create 30, ge\
tattr 20 |
""", """\
| File System   | Way   |   Up to |   RPCs |   Share |
|:--------------|:------|--------:|-------:|--------:|
| scratch       | read  |   1 MiB |     13 |   100 % |
| scratch       | write |   1 MiB |      3 |    17 % |
| scratch       | write |   4 MiB |     15 |    83 % |
""", """\
| File System   | Operation   |   Calls |   Seconds |   Mean ms |   Stddev ms |
|:--------------|:------------|--------:|----------:|----------:|------------:|
| scratch       | read        |      23 |    46.000 |  2000.000 |           - |
| scratch       | open        |       3 |     0.003 |     1.000 |       0.408 |
| scratch       | mkdir       |       2 |     0.005 |     2.500 |           - |
"""):
        assert rows in found


@pytest.mark.parametrize("form, options", [
    ("grid", {"long": True}), *((form, options) for form in ("grid", "plain", "markdown")
                                for options in ({"explain": True}, {}))], ids=str)
def test_every_form_says_the_same(form, options):
    """The sentences are the same; of the tables only the lines between the cells differ."""
    assert _words(text(*two_nodes(), **options)) == _words(text(*two_nodes(), form=form, **options))


def _words(report_text):
    return [word for word in report_text.replace("|", " ").split() if word.strip("+-=:")]


def test_a_release_that_times_nothing_has_no_times():
    """Up to 2.13: no table, and no share of the time, rather than zeros."""
    found = text(of_node(deltas=[llite(open=23)]), long=True)
    assert "Time in" not in found
    assert "Time in" not in text(of_node(deltas=[llite(open=23)]), long=True, form="markdown")


def test_time_of_all_threads_may_be_more_than_the_nodes_had():
    """150 s of a job of 100 s on one node: the line says why that is no error."""
    found = text(of_node(deltas=[llite(open=5, open_us=150_000_000)], elapsed_s=100.0),
                 long=True)
    assert "Time in Lustre: 150 s of 100 s of all nodes that reported, 150 % (more " in found


def test_rpcs_that_some_other_client_sends_as_0_are_no_crash():
    """A histogram of zeros has no shares."""
    found = text(of_node(deltas=[rpc_stats(read_rpcs_pages_1=0), llite()]), long=True)
    assert "Requests of" not in found


# -- why the network's bytes are not the application's -------------------------------------------


def sentences(application, network, dirty=None, more=(), long=True):
    """What the report says of (read, written) MiB by the application, and over the network."""
    dirty_bytes = None if dirty is None else {"scratch": dirty * MIB}
    printed = text(of_node(deltas=[
        llite(read_bytes=application[0] * MIB, write_bytes=application[1] * MIB),
        osc(read_bytes=network[0] * MIB, write_bytes=network[1] * MIB), *more],
        dirty_bytes=dirty_bytes), long=long)
    return [line[len("scratch: "):] for line in printed.splitlines()
            if line.startswith("scratch: ") and "OST" not in line]


@pytest.mark.parametrize("application, network, dirty, said", [
    ((0, 0), (0, 0), 0, []),
    ((23, 37), (23, 37), 0, []),
    ((23, 0), (0, 0), 0, ["100 % of what was read did not come over the network"]),
    ((37, 0), (23, 0), 0, ["38 % of what was read did not come over the network"]),
    ((4100, 0), (4077, 0), 0, ["0.6 % of what was read did not come over the network"]),
    ((23, 0), (37, 0), 0, ["14.0 MiB more came over the network than was read"]),
    ((0, 0), (37, 0), 0, ["37.0 MiB more came over the network than was read"]),
    ((0, 37), (0, 23), 14, ["14.0 MiB were written and not yet sent at the end"]),
    ((0, 37), (0, 23), 5, ["5.0 MiB were written and not yet sent at the end",
                           "9.0 MiB less were sent than written"]),
    ((0, 37), (0, 23), 0, ["14.0 MiB less were sent than written"]),
    ((0, 37), (0, 23), None, ["14.0 MiB less were sent than written"]),
    ((0, 23), (0, 37), 0, ["14.0 MiB more were sent than written"]),
    ((0, 37), (0, 37), 5, ["5.0 MiB were written and not yet sent at the end"]),
], ids=["nothing", "alike", "all cached", "partly cached", "hardly cached", "read-ahead", "mmap",
        "dirty", "dirty and overwritten", "overwritten", "overwritten, or dirty",
        "sent from before", "dirty from before"])
def test_what_differs_between_application_and_network_is_explained(application, network, dirty,
                                                                   said):
    """Numbers by hand, in MiB; nothing is said where nothing differs."""
    assert said == sentences(application, network, dirty)


def test_the_sentences_stand_below_the_long_tables_alone():
    """The short report is for everybody."""
    assert [] == sentences((37, 37), (23, 23), 5, long=False)


@pytest.mark.parametrize("trouble", [
    unread("osc", target="OST0001"), unread("mdc", target="MDT0000"), unread("llite"),
    osc("OST0001", lower_bound=True, why="the counters were cleared"),
    llite(instance="ff9b", lower_bound=True, why="the counters were cleared"),
], ids=["an OST is not readable", "the MDT is not", "a mount is not", "an OST was cleared",
        "a mount was cleared"])
def test_numbers_that_miss_something_are_not_compared(trouble):
    """10 MiB that an unreadable OST has sent are no page cache."""
    assert [] == sentences((37, 37), (23, 23), 0, more=(trouble,))


def test_an_ost_that_could_not_be_read_is_not_said_to_be_idle():
    """`>=`: of the OSTs, and of those that carried data; a share of them may be either."""
    found = text(of_node(deltas=[
        llite(), osc("OST0000", read_bytes=3), osc("OST0001", read_bytes=1),
        unread("osc", target="OST0002")]), long=True)
    assert "OSTs, >= 2 of >= 2 used" in found
    assert "OST0000 ~ 75.0 % >= 3 bytes >= 0 bytes" in rows_of(found)


# -- who may read what ---------------------------------------------------------------------------


ORDINARY = (of_node("nid00001", [
    unread("llite"), unread("osc", target="OST0000"), unread("mdc", target="MDT0000"),
    md_stats(close=50, create=30, getattr=20), md_stats("MDT0001", setattr=300),
    rpc_stats(read_rpcs_pages_256=13)], elapsed_s=100.0),)


def test_an_ordinary_user_gets_the_metadata_requests_by_themselves():
    """Bytes are `-`, not 0; what everybody may read is a table of its own, without --long."""
    assert """\
Job 4711 of alice: 1 node, 00:01:40 from 2026-11-21 01:36:00
File data transfer statistics for this job:
+---------------+-------------+--------------+
| File System   | File Read   | File Write   |
+===============+=============+==============+
| scratch       | -           | -            |
+---------------+-------------+--------------+
No findings: too little is known to judge.
Metadata requests by MDT (rates per second and node):
scratch    Requests  Average  Peak  Peak node  Most
  MDT0000       100      1.0   1.0  nid00001   close 50, create 30, getattr 20
  MDT0001       300      3.0   3.0  nid00001   setattr 300
Marks: - unknown
note: scratch: nid00001: llite: permission denied
note: scratch: nid00001: mdc: permission denied
note: scratch: nid00001: osc: permission denied
note: permission denied: root may read that, and users by the reader;
  docs/how-to/install.md#who-may-read-the-counters
""" == text(*ORDINARY, form="grid")


def test_an_ordinary_users_long_report_has_rpcs_and_no_bytes():
    """The RPCs are those of rpc_stats; the network's bytes are unknown."""
    rows = rows_of(text(*ORDINARY, long=True))
    for one in ("read, by the application - - - -", "write, by the application - - - -",
                "read, over the network - >= 13 - -", "write, over the network - >= 0 - -",
                "up to 1 MiB 13 100 %", "MDT0001 75.0 % 300 3.00 setattr 300"):
        assert one in rows


def test_a_user_who_may_read_everything_gets_no_table_of_mdts_by_itself():
    """Which is for --long."""
    assert "by MDT" not in text(*two_nodes())


def test_an_mdt_alone_is_not_the_network():
    """osc is refused, mdc is not: `-`, neither 0 bytes nor the few bytes of the MDT."""
    rows = rows_of(text(of_node(deltas=[
        llite(read_bytes=37 * MIB, read_calls=37), unread("osc", target="OST0000"),
        mdc(read_bytes=4096, read_rpcs=1)]), long=True))
    assert "read, over the network - - - -" in rows
    assert not any("write" in row for row in rows)
    assert "read, by the application 37.0 MiB 37 1.0 MiB 631.5 KiB/s" in rows


# -- lower bounds --------------------------------------------------------------------------------


def rows_of(printed):
    """The lines with one blank between their words, without bars."""
    return [" ".join(re.sub("[▏▎▍▌▋▊▉█]", "", line).split()) for line in printed.splitlines()]


def numbers_without_a_mark(printed):
    """Rows of the long report that are amounts of the whole job, and bear no `>=`."""
    return [one for one in rows_of(printed) if one in UNMARKED]


UNMARKED = {
    "scratch 23.0 MiB 41.0 MiB", "scratch 3 2",
    "MDT0000 140 0.70 1.00 nid00001 close 90, create 30, getattr 20",
    "read, by the application 23.0 MiB 23 1.0 MiB 235.5 KiB/s",
    "write, by the application 41.0 MiB 41 1.0 MiB 419.8 KiB/s",
    "read, over the network 13.0 MiB 13 1.0 MiB 133.1 KiB/s",
    "write, over the network 38.0 MiB 18 2.1 MiB 389.1 KiB/s",
    "up to 1 MiB 13 100 % 3 16.7 %", "up to 4 MiB 15 83.3 %",
    "OST0000 84.3 % 13.0 MiB 30.0 MiB", "OST0001 15.7 % 8.0 MiB",
    "read 99.9 % 23 46.0 s 2.00 s -", "open <0.1 % 3 3.00 ms 1.00 ms 408 us",
    "mkdir <0.1 % 2 5.00 ms 2.50 ms -",
}


def test_without_trouble_nothing_is_marked():
    """And the list of rows above is that of this report."""
    printed = text(*two_nodes(), long=True)
    assert UNMARKED == set(numbers_without_a_mark(printed))
    assert ">=" not in printed


def test_with_a_node_missing_every_amount_is_marked():
    """It may have done anything."""
    printed = text(*two_nodes(), long=True, expected=3)
    assert [] == numbers_without_a_mark(printed)
    rows = rows_of(printed)
    for one in ("MDT0000 >= 140 ~ 0.70 >= 1.00 nid00001 close >= 90, create >= 30, +",
                "up to 1 MiB >= 13 ~ 100 % >= 3 ~ 16.7 %",
                "open ~ <0.1 % >= 3 >= 3.00 ms ~ 1.00 ms ~ 408 us",
                "write, over the network >= 38.0 MiB >= 18 ~ 2.1 MiB ~ 389.1 KiB/s",
                "OST0001 ~ 15.7 % >= 0 bytes >= 8.0 MiB",
                "OSTs, >= 2 of >= 3 used share read written"):
        assert one in rows
    for sentence in (
            "scratch: >= 4.0 MiB of what was read were in the page cache when they were asked for",
            "Time in Lustre: >= 46.0 s of 200 s of all nodes that reported, >= 23.0 % (more"):
        assert sentence in " ".join(printed.split())


@pytest.mark.parametrize("trouble, marked", [
    (llite(instance="ff9b", lower_bound=True),
     {"scratch >= 23.0 MiB >= 41.0 MiB", "scratch >= 3 >= 2",
      "read, by the application >= 23.0 MiB >= 23 ~ 1.0 MiB >= 235.5 KiB/s",
      "write, by the application >= 41.0 MiB >= 41 ~ 1.0 MiB >= 419.8 KiB/s",
      "read ~ 99.9 % >= 23 >= 46.0 s ~ 2.00 s -",
      "open ~ <0.1 % >= 3 >= 3.00 ms ~ 1.00 ms ~ 408 us",
      "mkdir ~ <0.1 % >= 2 >= 5.00 ms ~ 2.50 ms -",
      "bytes read ~ 0 bytes ~ 0 bytes >= 23.0 MiB nid00001", "reads ~ 0 ~ 0 >= 23 nid00001",
      "bytes written ~ 4.0 MiB ~ 4.0 MiB >= 37.0 MiB nid00001",
      "writes ~ 4 ~ 4 >= 37 nid00001", "open ~ 0 ~ 0 >= 3 nid00001",
      "mkdir ~ 0 ~ 0 >= 2 nid00002", "time in read ~ 0 s ~ 0 s >= 46.0 s nid00001",
      "time in mkdir ~ 0 s ~ 0 s >= 5.00 ms nid00002",
      "time in open ~ 0 s ~ 0 s >= 3.00 ms nid00001"}),
    (osc("OST0003", lower_bound=True),
     {"read, over the network >= 13.0 MiB >= 13 ~ 1.0 MiB >= 133.1 KiB/s",
      "write, over the network >= 38.0 MiB >= 18 ~ 2.1 MiB >= 389.1 KiB/s",
      "OSTs, >= 2 of >= 4 used share read written",
      "OST0000 ~ 84.3 % >= 13.0 MiB >= 30.0 MiB", "OST0001 ~ 15.7 % >= 0 bytes >= 8.0 MiB"}),
    (md_stats(lower_bound=True),
     {"MDT0000 >= 140 >= 0.70 >= 1.00 nid00001 close >= 90, create >= 30, +"}),
    (rpc_stats(lower_bound=True),
     {"up to 1 MiB >= 13 ~ 100 % >= 3 ~ 16.7 %",
      "up to 4 MiB >= 15 ~ 83.3 %"}),
], ids=["llite", "osc", "md_stats", "rpc_stats"])
def test_what_one_source_lost_marks_what_comes_from_it_and_no_more(trouble, marked):
    """A clear of one kind of file."""
    printed = text(*two_nodes(second=(trouble,)), long=True)
    assert marked == {one for one in rows_of(printed) if ">=" in one and ":" not in one}


# -- parts and rates -----------------------------------------------------------------------------


def test_parts_have_the_sites_names_and_its_choice_of_file_systems():
    """site.cfg: [labels], and [report] file_systems; a part that could not be read is `-`."""
    one = of_node(deltas=[llite(open=60), llite("home", open=5)], phases=[
        ReportedPhase("stage", 10.0, [llite(open=23, read_bytes=MIB), llite("home", open=5)]),
        ReportedPhase("solve", 50.0, [llite(open=37)._replace(lower_bound=True), llite("home")]),
        ReportedPhase("leave", 0.0, [unread("llite")])])
    assert """\
Parts of this job:
Part      Time  File System    File Read    File Write      Ops
stage   10.0 s  BW Scratch     1.0 MiB      0 bytes          23
solve   50.0 s  BW Scratch     >= 0 bytes   >= 0 bytes    >= 37
leave    0.0 s  BW Scratch     -            -                 -
""" in text(one, labels={"scratch": "BW Scratch"}, report_file_systems="scratch")


def series(*operations, every_s=60.0, began=1_795_225_000.0):
    read = [MIB * amount for amount in operations]
    return {"scratch": ReportedSeries(began, every_s, read, [0] * len(read), list(operations))}


def test_rates_are_lines_of_blocks_with_the_peak_in_numbers():
    """480 MiB in a minute are 8 MiB a second; what did not happen has no line."""
    assert """\
I/O over time (sum over the nodes running `iostats_client.py watch`):
scratch read       | ▂█▁▄| peak 8.0 MiB/s
scratch operations | ▂█▁▄| peak 8.00/s
""" in text(of_node(deltas=[llite(open=23)], series=series(0, 120, 480, 1, 240)))


def test_rates_of_some_nodes_say_of_how_many():
    """Or they would be taken for those of the job."""
    found = text(of_node("nid00001", [llite()], series=series(60)), of_node("nid00002", [llite()]))
    assert "scratch operations |█| peak 1.00/s, on 1 of 2 nodes\n" in found


def test_rates_of_a_job_that_did_nothing_are_left_out():
    """A line of blanks helps nobody."""
    assert "Over the time" not in text(of_node(deltas=[llite()], series=series(0, 0, 0)))


# -- who is missing, and why ---------------------------------------------------------------------


def test_missing_nodes_are_folded_by_their_reasons():
    """One line, in the batch system's notation."""
    totals = Totals("4711", frozenset(f"nid{n:05}" for n in range(1, 11)),
                    fold=node_sets.fold_nodes)
    totals.add(of_node("nid00001", [proved(llite(open=23))]))
    for name in ("nid00002", "nid00003", "nid00007"):
        totals.add(of_node(name, reason="no start"))
    for name in ("nid00004", "nid00005"):
        totals.refuse("not authenticated", name)
    assert ("Job 4711 of alice: 1 of 10 nodes reported, 00:01:00 from 2026-11-21 01:36:40; "
            "missing: nid[00002-00003,00007] (no start), "
            "nid[00004-00005] (refused: not authenticated), nid[00006,00008-00010] (no report)"
            ) == header.format_line(totals.record())
    found = job_tables.format_report(totals.record(), Config(), "plain")
    assert "note: 9 nodes have no numbers: every amount is a lower bound (>=)\n" in found
    assert "note: messages refused: 2 not authenticated\n" in found


def test_a_node_that_was_refused_and_then_taken_is_not_missing():
    """As after a secret that came late."""
    totals = Totals("4711", frozenset(("nid00001",)))
    totals.refuse("not authenticated", "nid00001")
    totals.add(of_node("nid00001", [llite(open=23)]))
    assert ("Job 4711 of alice: 1 node, 00:01:00 from 2026-11-21 01:36:40"
            == header.format_line(totals.record()))


# -- --explain -----------------------------------------------------------------------------------


NOT_DETECTABLE = "is not detectable on this release"


def explained(*reports, **options):
    """{name: what is said of it}, and the lines that are of no one name."""
    lines = text(*reports, explain=True, **options).split("What the numbers count:\n")[1]
    lines = re.sub("\n {4}", " ", lines)
    return [line[2:] for line in lines.splitlines() if line.startswith("  ")]


def test_every_column_is_explained():
    """What is counted, in which line of which file, and what is not."""
    lines = explained(of_node(deltas=[proved(llite(open=23, mkdir=13))]))
    assert ["read_bytes", "write_bytes", "read_calls", "write_calls", "network.read_bytes",
            "network.write_bytes", "network.read_rpcs", "network.write_rpcs", "open", "mkdir"
            ] == [line.partition(":")[0] for line in lines[:10]]
    assert ("open: Files and directories opened. A call of a program, not a request to a server. "
            "(llite open, samples; calls)") == lines[8]
    assert [*(" ".join(line.split()) for line in EXPLAIN_ALWAYS), (
        "How much of the numbers on scratch is the nodes' own I/O (daemons, health checks) is "
        "unknown: no prolog and epilog measured these nodes without a job.")] == lines[10:]


def test_a_column_that_the_site_chose_is_explained_where_nothing_happened():
    """It is shown, with a 0."""
    lines = explained(of_node(deltas=[proved(llite(open=23))]), report_columns="fsync open")
    assert any(line.startswith("fsync: fsync(), fdatasync() and msync() calls.") for line in lines)


def test_an_operation_that_is_not_known_is_said_to_be_none():
    """A new release's."""
    lines = explained(of_node(deltas=[proved(llite(teleport=3))]))
    assert ("teleport: unknown to this release of iostats; the kernel's counter of that name"
            in lines)


@pytest.mark.parametrize("deltas, said", [
    ([proved(llite(open=23))], 0), ([llite(open=23)], 1),
    ([llite(open=23), osc(), osc("OST0001"), md_stats(close=5), llite("home")], 1),
    ([proved(llite(open=23)), osc()], 1), ([llite(lower_bound=True, open=23)], 0),
], ids=["proved", "not proved", "by many files", "by one source", "known to be too low"])
@pytest.mark.parametrize("form", ["grid", "plain", "markdown"])
def test_what_cannot_be_seen_is_said_once_and_only_where_it_cannot(deltas, said, form):
    """And never as noise in a report without --explain."""
    assert said == text(of_node(deltas=deltas), explain=True, form=form).count(NOT_DETECTABLE)
    assert 0 == text(of_node(deltas=deltas), long=True, form=form).count(NOT_DETECTABLE)


def test_the_sentence_names_the_file_systems_that_it_is_of():
    """By the site's names, and without the ones that are proved."""
    printed = text(of_node(deltas=[llite(open=1), llite("home"), proved(llite("archive"))]),
                   explain=True, labels={"scratch": "BW Scratch"})
    assert "  On BW Scratch, home the counter files show no start time (Lustre up to" in printed


def test_other_counters_are_named_in_words():
    """Those of disks and of a site's own source, by text and page; the record has the names."""
    report = of_node("nid00001", [
        llite(read_bytes=23 * MIB, read_calls=23),
        Delta("cgroup_io", "local disks", "", "", {
            "nvme0n1_write_bytes": 37 * MIB, "nvme0n1_writes": 41}, False, "")], elapsed_s=100.0)
    assert """\
Other counters:
+---------------+--------------+------------------------+----------+
| File System   | Counter      | Metric                 |    Total |
+===============+==============+========================+==========+
| local disks   | job's cgroup | nvme0n1: bytes written | 37.0 MiB |
+---------------+--------------+------------------------+----------+
| local disks   | job's cgroup | nvme0n1: writes        |       41 |
+---------------+--------------+------------------------+----------+
""" in text(report, form="grid")


# -- LNet ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("first, second, expected", [
    ([2300, 3700, 0, 41_000, 53_000, 7, 2], [1700, 1900, 29, 31_000, 37_000, 92, 3],
     "note: LNet of 2 nodes, all jobs: 4,000 messages sent, 5,600 received, 29 dropped (most by "
     "nid00002); 99 resent, 2.5 % (most by nid00002), 5 answers too late or lost"),
    ([2300, 3700, 0, 41_000, 53_000, 0, 0], [1700, 1900, 0, 31_000, 37_000],
     "note: LNet of 2 nodes, all jobs: 4,000 messages sent, 5,600 received, 0 dropped; 0 resent on "
     "1 node, 0 %, 0 answers too late or lost"),
    ([2300, 3700, 0, 41_000, 53_000], [],
     "note: LNet of 1 node, all jobs: 2,300 messages sent, 3,700 received, 0 dropped; resends are "
     "unknown")])
def test_the_messages_of_lnet_are_a_note_of_long(first, second, expected):
    reports = [of_node(node, [llite(open=23)], lnet=lnet)
               for node, lnet in (("nid00001", first), ("nid00002", second))]
    assert expected in " ".join(text(*reports, long=True).split())
    assert "LNet" not in text(*reports)


def test_without_them_there_is_none():
    assert "LNet" not in text(of_node("nid00001", [llite(open=23)]), long=True)
