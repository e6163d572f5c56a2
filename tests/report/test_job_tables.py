"""
The tables a user reads: these very texts, and nothing in them that is not true.
"""

import csv
import io
import json
import re
import time
from datetime import datetime

import pytest
from page_records import batch
from test_job_totals import llite, osc, unread
from trees import report as of_node

from iostats.base import config
from iostats.base.text import measure_width
from iostats.report import header, job_tables, node_sets
from iostats.totals.job_totals import Totals


def flat(text):
    """A text as one line."""
    return " ".join(text.split())


def job(*reports, expected=None, job="4711", **choices):
    """(record, Config) of a job; `choices`: section_key=text, and labels."""
    totals = Totals(job, len(reports) if expected is None else expected, fold=node_sets.fold_nodes)
    for one in reports:
        totals.add(one)
    found = config.Config()
    found.labels.update(choices.pop("labels", {}))
    for name, text in choices.items():
        found.set_value(name.replace("_", ".", 1), text, "the test")
    return job_tables.add_labels(totals.record(), found), found


def text(*reports, form="grid", long=False, **options):
    return job_tables.format_report(*job(*reports, **options), form, long)


# Two nodes: 16 + 304 MiB read in 23 + 37 calls, 23 + 37 opens, 13 directories; `home` did nothing.
WHOLE = (
    of_node("nid00001", [
        llite("snx11001", read_bytes=16_777_216, read_calls=23, open=23, open_us=61_403, mkdir=13),
        osc("OST0000", "snx11001", read_bytes=16_785_408, read_rpcs=5), llite("home")],
        ended=1867.4, elapsed_s=1867.4),
    of_node("nid00002", [
        llite("snx11001", read_bytes=318_767_104, read_calls=37, open=37, open_us=41),
        osc("OST0001", "snx11001", read_bytes=318_767_104, read_rpcs=304), llite("home")],
        ended=1867.4, elapsed_s=1860.0))
LABELS = {"snx11001": "BW Home"}


# -- the forms ---------------------------------------------------------------------------


def test_grid_is_the_form_that_users_know():
    """As its ancestor printed it, in whole numbers."""
    assert """\
Job 4711 of alice: 2 nodes, 00:31:07 from 1970-01-01 00:00:00
File data transfer statistics for this job:
+---------------+-------------+--------------+
| File System   | File Read   | File Write   |
+===============+=============+==============+
| BW Home       | 320.0 MiB   | 0 bytes      |
+---------------+-------------+--------------+
Metadata statistics for this job:
+---------------+--------+---------+
| File System   |   open |   mkdir |
+===============+========+=========+
| BW Home       |     60 |      13 |
+---------------+--------+---------+
No I/O on: home
No problems found. Checked: writes, reads, requests, opens, stat, removals,
  read-ahead, OSTs, nodes, time, page cache.
""" == text(*WHOLE, labels=LABELS)


def test_plain_is_for_narrow_logs():
    """The same without lines."""
    assert """\
Job 4711 of alice: 2 nodes, 00:31:07 from 1970-01-01 00:00:00
File data transfer statistics for this job:
File System    File Read    File Write
BW Home        320.0 MiB    0 bytes
Metadata statistics for this job:
File System      open    mkdir
BW Home            60       13
No I/O on: home
No problems found. Checked: writes, reads, requests, opens, stat, removals,
  read-ahead, OSTs, nodes, time, page cache.
""" == text(*WHOLE, form="plain", labels=LABELS)


def test_markdown_is_for_tickets():
    """The same as a table of Markdown."""
    assert """\
Job 4711 of alice: 2 nodes, 00:31:07 from 1970-01-01 00:00:00

File data transfer statistics for this job:

| File System   | File Read   | File Write   |
|:--------------|:------------|:-------------|
| BW Home       | 320.0 MiB   | 0 bytes      |

Metadata statistics for this job:

| File System   |   open |   mkdir |
|:--------------|-------:|--------:|
| BW Home       |     60 |      13 |

No I/O on: home

No problems found. Checked: writes, reads, requests, opens, stat, removals, read-ahead, OSTs, \
nodes, time, page cache.
""" == text(*WHOLE, form="markdown", labels=LABELS)


def test_csv_is_one_number_a_line():
    """Exact numbers, for programs and spreadsheets."""
    assert """\
job,file_system,layer,metric,value,lower_bound,upper_bound
4711,home,application,read_bytes,0,0,0
4711,home,application,write_bytes,0,0,0
4711,home,application,read_calls,0,0,0
4711,home,application,write_calls,0,0,0
4711,home,network,read_bytes,,1,0
4711,home,network,write_bytes,,1,0
4711,home,network,read_rpcs,,1,0
4711,home,network,write_rpcs,,1,0
4711,BW Home,application,read_bytes,335544320,0,0
4711,BW Home,application,write_bytes,0,0,0
4711,BW Home,application,read_calls,60,0,0
4711,BW Home,application,write_calls,0,0,0
4711,BW Home,network,read_bytes,335552512,0,0
4711,BW Home,network,write_bytes,0,0,0
4711,BW Home,network,read_rpcs,309,0,0
4711,BW Home,network,write_rpcs,0,0,0
4711,BW Home,operations,open,60,0,0
4711,BW Home,operations,open_seconds,0.061444,0,0
4711,BW Home,operations,mkdir,13,0,0
""" == text(*WHOLE, form="csv", labels=LABELS)


def test_what_is_not_known_is_an_empty_value_in_csv():
    """It had no line at all, as an operation that has not happened, which is 0."""
    printed = text(of_node(deltas=[unread("llite"), osc(read_bytes=23)]), form="csv")
    assert ["4711,scratch,application,read_bytes,,1,0",
            "4711,scratch,application,write_bytes,,1,0",
            "4711,scratch,application,read_calls,,1,0",
            "4711,scratch,application,write_calls,,1,0",
            "4711,scratch,network,read_bytes,23,0,0", "4711,scratch,network,write_bytes,0,0,0",
            "4711,scratch,network,read_rpcs,0,0,0", "4711,scratch,network,write_rpcs,0,0,0",
            "4711,scratch,operations,(all),,1,0"] == printed.splitlines()[1:]


def test_json_is_the_record_itself():
    """Indented, with labels and findings, ending with a newline; null for what is not known."""
    record, choices = job(*WHOLE, labels=LABELS)
    printed = job_tables.format_report(record, choices, "json")
    assert (None, {**record, "findings": []}) == (record["findings"], json.loads(printed))
    assert printed.startswith('{\n  "schema": 1,\n  "short": false,\n  "job": {\n    "id": "4711",')
    assert ["home", "BW Home"] == [fs["label"] for fs in record["file_systems"]]
    assert printed.endswith("}\n")
    assert '"network": null' in printed


# -- what is not known, and what is only a part ------------------------------------------


def test_unknown_is_a_dash_and_a_lower_bound_says_so():
    """Not one number without its mark: a node is missing, and one could not read."""
    assert """\
Job 4711 of alice:
  2 of 4 nodes reported, 00:01:00 from 2026-11-21 01:36:40; missing:
    nid[00003-00004] (no report)
File data transfer statistics for this job:
File System    File Read    File Write
home           -            -
scratch        >= 37.0 KiB  >= 0 bytes
Metadata statistics for this job:
File System      open
home                -
scratch         >= 23
Marks: >= may be too low, - unknown
No findings: too little is known to judge.
note: 2 nodes have no numbers: every amount is a lower bound (>=)
note: home: nid00002: llite: permission denied
note: permission denied: root may read that, and users by the reader;
  docs/how-to/install.md#who-may-read-the-counters
""" == text(of_node("nid00001", [llite(read_bytes=37888, read_calls=1, open=23)]),
            of_node("nid00002", [llite(), unread("llite")._replace(file_system="home")]),
            form="plain", expected=frozenset(f"nid{n:05}" for n in (1, 2, 3, 4)))


def test_in_csv_unknown_is_empty_and_a_lower_bound_is_a_1():
    """A 0 there would be added up by somebody."""
    rows = list(csv.reader(io.StringIO(text(of_node(deltas=[
        unread("osc", target="OST0000"), unread("llite"),
        osc("OST0001", read_rpcs=5, lower_bound=True)._replace(
            source="rpc_stats", values={"read_rpcs_pages_1": 23})]), form="csv"))))
    assert [["4711", "scratch", "network", "read_bytes", "", "1", "0"],
            ["4711", "scratch", "network", "write_bytes", "", "1", "0"],
            ["4711", "scratch", "network", "read_rpcs", "23", "1", "0"],
            ["4711", "scratch", "network", "write_rpcs", "0", "1", "0"]
            ] == [row for row in rows if row[2] == "network"]
    assert {"application": {""}, "operations": {""}} == {
        layer: {row[4] for row in rows if row[2] == layer} for layer in (
            "application", "operations")}


def test_a_job_of_which_nobody_reported_says_so():
    """A table of zeros would be a lie."""
    assert ("Job 4711: 0 of 4 nodes reported; missing: 4 nodes (no report)\n"
            "No numbers: no node has reported.\n") == text(expected=4)


def test_a_job_on_nodes_without_lustre_says_so():
    """It is no error."""
    assert ("Job 4711 of alice: 1 node, 00:01:00 from 2026-11-21 01:36:40\n"
            "No Lustre file system was seen.\n"
            "note: node001: no Lustre file system is mounted\n") == text(of_node())


@pytest.mark.parametrize("reports, expected, line", [
    (WHOLE, 2, "2 nodes"),
    (WHOLE, 3, "2 of 3 nodes reported; missing: 1 node (no report)"),
    (WHOLE, 41, "2 of 41 nodes reported; missing: 39 nodes (no report)"),
    (WHOLE, frozenset(("nid00001", "nid00002", "nid00004")),
     "2 of 3 nodes reported; missing: nid00004 (no report)"),
    ((*WHOLE, of_node("nid00003", reason="permission denied")),
     frozenset(f"nid{n:05}" for n in (1, 2, 3, 5, 6, 7)),
     "2 of 6 nodes reported; missing: nid00003 (permission denied), "
     "nid[00005-00007] (no report)"),
    ((*WHOLE, of_node("nid00003", reason="permission denied")), 5,
     "2 of 5 nodes reported; missing: nid00003 (permission denied), "
     "2 nodes (no report)"),
], ids=["all", "one missing, known as a number", "many missing", "one missing by name",
        "missing for two reasons", "a reason, and a number"])
def test_the_first_line_says_which_nodes_are_in_the_numbers(reports, expected, line):
    """And which are not, and why, in the batch system's own notation."""
    nodes, missing, why = line.partition("; ")
    whole = (f"Job 4711 of alice: {nodes}, 00:31:07 from 1970-01-01 00:00:00{missing}{why}")
    printed = text(*reports, expected=expected)
    assert whole == header.format_line(job(*reports, expected=expected)[0])
    assert flat(printed).startswith(f"{whole} File data transfer statistics ")


def test_without_a_number_of_nodes_the_first_line_says_that_it_is_not_known():
    """Complete is only what can be known to be."""
    totals = Totals("4711")
    totals.add(WHOLE[0])
    assert ("Job 4711 of alice: 1 of ? nodes reported, 00:31:07 from 1970-01-01 00:00:00"
            == header.format_line(totals.record()))


def test_messages_that_were_refused_are_counted_at_the_end():
    """Somebody with the wrong secret, or a node of another job."""
    totals = Totals("4711", frozenset(("nid00001",)))
    totals.add(WHOLE[0])
    totals.add(WHOLE[1])
    totals.refuse("wrong secret")
    totals.refuse("wrong secret")
    assert "note: messages refused: 1 unknown node, 2 wrong secret\n" in job_tables.format_report(
        totals.record(), config.Config())


# -- whole numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["grid", "plain", "markdown", "csv", "json"])
def test_a_count_is_printed_as_it_is(form):
    """The ancestor printed 1.67772e+07 for 16777216, and more digits than it knew for others."""
    printed = text(of_node(deltas=[llite(open=16_777_216, close=9_007_199_254_740_993)]),
                   form=form)
    is_for_programs = form in ("csv", "json")
    assert ("16777216" if is_for_programs else "16,777,216") in printed
    assert ("9007199254740993" if is_for_programs else "9,007,199,254,740,993") in printed
    assert "e+" not in printed


@pytest.mark.parametrize("form", ["grid", "plain", "markdown"])
@pytest.mark.parametrize("name", ["1e5", "007", "0x10", "12.50", "nan"])
def test_a_name_that_looks_like_a_number_is_a_name(form, name):
    """A table must not compute with what it prints."""
    printed = text(of_node(deltas=[llite(name, open=16_777_216)]), form=form)
    assert name in printed.split("\n", 1)[1].replace("|", " ").split()


@pytest.mark.parametrize("form", ["grid", "plain", "markdown"])
def test_a_count_beside_an_unknown_one_keeps_its_digits(form):
    """The ancestor's 1.67772e+07 came from a column with a "-" in it."""
    printed = text(of_node(deltas=[llite(open=16_777_217), unread("llite")._replace(
        file_system="home")]), form=form)
    assert {"16,777,217", "-"} <= set(printed.replace("|", " ").split())


# -- the choices of a site ---------------------------------------------------------------


@pytest.mark.parametrize("units, read", [
    ("binary", "320.0 MiB"), ("decimal", "335.5 MB"), ("bytes", "335,544,320 bytes"),
])
def test_units_are_the_sites_choice(units, read):
    """site.cfg: [report] units."""
    assert read in text(*WHOLE, report_units=units)


def test_columns_are_the_sites_choice():
    """site.cfg: [report] columns, in that order; one that did not happen is 0."""
    assert """\
Metadata statistics for this job:
File System      mkdir    fsync    open
snx11001            13        0      60
No I/O on: home
""" in text(*WHOLE, form="plain", report_columns="mkdir fsync open")


def test_file_systems_are_the_sites_choice():
    """site.cfg: [report] file_systems, in that order; one that is not there is no row."""
    printed = text(*WHOLE, form="plain", report_file_systems="nothing snx11001")
    assert "snx11001" in printed and "home" not in printed and "nothing" not in printed


@pytest.mark.parametrize("home", [
    (llite("home", close=1),), (llite("home", read_calls=1),),
    (llite("home"), osc("OST0000", "home", read_rpcs=1)),
    (unread("llite")._replace(file_system="home"),), (llite("home", True),)],
    ids=["an operation", "a call", "the network", "not readable", "may be too low"])
def test_only_a_file_system_that_did_nothing_for_sure_is_left_out(home):
    """What is not known, or may be more than 0, has its row."""
    printed = text(of_node(deltas=[llite(open=23), *home]), form="plain")
    assert re.search(r"^home  ", printed, re.M) and "No I/O on" not in printed


def test_where_nothing_was_done_anywhere_all_have_their_rows():
    """As does a file system that site.cfg names."""
    printed = text(of_node(deltas=[llite("scratch"), llite("home")]), form="plain")
    assert re.search("^home  ", printed, re.M) and re.search("^scratch  ", printed, re.M)
    printed = text(*WHOLE, form="plain", report_file_systems="home snx11001")
    assert re.search("^home  ", printed, re.M) and "Nothing was done" not in printed


def test_the_order_of_columns_is_that_of_the_documentation():
    """And an operation that is not known yet comes after those that are."""
    printed = text(of_node(deltas=[llite(abc=1, mkdir=2, fsync=3, seek=4, create=5, close=6,
                                         open=7)]), form="plain")
    assert ["File", "System", "open", "close", "create", "seek", "fsync", "mkdir", "abc"
            ] == printed.split("\n")[5].split()


# -- --long ------------------------------------------------------------------------------


def words_of(printed):
    return [" ".join(re.sub("[▏▎▍▌▋▊▉█]", "", line).split()) for line in printed.split("\n")]


def test_long_puts_the_network_beside_the_application():
    """Bytes, calls or RPCs, the mean size (320 MiB in 60 calls are 5.3 MiB each), and the rate."""
    printed = text(*WHOLE, form="plain", long=True, labels=LABELS)
    short = text(*WHOLE, form="plain", labels=LABELS)
    assert printed.startswith(short[:short.index("No I/O on")])
    rows = words_of(printed)
    for row in ("read, by the application 320.0 MiB 60 5.3 MiB 175.5 KiB/s",
                "read, over the network 320.0 MiB 309 1.0 MiB 175.5 KiB/s", "No I/O on: home"):
        assert row in rows
    assert "write, by" not in printed and "\nhome" not in printed


def test_long_tells_the_time_in_operations():
    """61444 us in 60 opens: 0.061 s, 1.024 ms each."""
    rows = words_of(text(*WHOLE, form="plain", long=True, labels=LABELS))
    assert "open 100 % 60 61.4 ms 1.02 ms" in rows


def test_long_names_the_busiest_node():
    """Minimum, median and maximum over the nodes; a node that made no directory counts as 0."""
    rows = words_of(text(*WHOLE, form="plain", long=True, labels=LABELS))
    for row in ("open 23 23 37 nid00002", "mkdir 0 0 13 nid00001",
                "bytes read 16.0 MiB 16.0 MiB 304.0 MiB nid00002"):
        assert row in rows


def test_where_all_nodes_did_as_much_long_names_none():
    """A node that is missing may have done more than both."""
    nodes = [of_node(f"nid0000{number}", [llite(open=23)]) for number in (1, 2)]
    assert "open 23 23 23 all" in words_of(text(*nodes, form="plain", long=True))
    assert "open ~ 23 ~ 23 >= 23 nid00001" in words_of(text(
        *nodes, form="plain", long=True, expected=3))


def test_long_marks_lower_bounds_as_the_short_tables_do():
    """In each table: a number without its mark is believed."""
    rows = words_of(text(*WHOLE, form="plain", long=True, labels=LABELS, expected=3))
    assert "read, over the network >= 320.0 MiB >= 309 ~ 1.0 MiB ~ 175.5 KiB/s" in rows
    assert "open ~ 100 % >= 60 >= 61.4 ms ~ 1.02 ms" in rows


def test_a_node_that_could_not_read_is_no_node_that_did_nothing():
    """Its part is unknown, so it is neither the minimum nor in the median, but may be the most."""
    printed = text(of_node("nid00001", [llite(open=23)]), of_node("nid00002", [llite(open=37)]),
                   of_node("nid00003", [unread("llite"), osc(read_rpcs=5)]),
                   form="plain", long=True)
    assert "open ~ 23 ~ 23 >= 37 nid00002" in words_of(printed)


def test_wide_letters_take_two_columns():
    """The lines of the table stay where they are."""
    lines = text(of_node(deltas=[llite("日本スクラッチ123", read_bytes=23)])).split("\n")[2:7]
    assert {len("+-------------------+-------------+--------------+")} == set(map(measure_width,
                                                                                  lines))
    assert "| 日本スクラッチ123 | 23 bytes    | 0 bytes      |" == lines[3]


# -- names from outside ------------------------------------------------------------------


@pytest.mark.parametrize("form", ["grid", "plain", "markdown", "csv"])
def test_a_name_cannot_move_the_terminals_cursor(form):
    """A table in a job's output is looked at with `cat`; names come from nodes and from users."""
    printed = text(of_node(deltas=[llite("\x1b[2Jevil", open=1), llite("a\u202eb"),
                                   unread("llite", why="\x1b]0;title\x07")], user="\x1b[1m"),
                   form=form, labels={"home": "\x9b31m"})
    assert "\\x1b[2Jevil" in printed and "\\x202e" in printed
    assert all(c.isprintable() or c == "\n" for c in printed)


@pytest.mark.parametrize("form", ["grid", "plain", "markdown", "csv"])
def test_a_name_cannot_make_a_line_of_its_own(form):
    """Or a node could write "4 of 4 nodes reported" into another one's report."""
    printed = text(of_node(deltas=[llite("x\nJob 4711: 4 of 4 nodes reported", open=1)]),
                   form=form)
    assert "\nJob 4711: 4 of 4" not in printed


@pytest.mark.parametrize("name", ["=HYPERLINK(\"http://x\")", "+1", "-1", "@SUM(A1)"])
def test_a_name_in_csv_is_no_formula(name):
    """Spreadsheets run what begins so; labels, job ids and operations are names alike."""
    rows = list(csv.reader(io.StringIO(text(
        of_node(deltas=[llite(name, **{name: 5})]), form="csv", job=name))))
    assert [] == [cell for row in rows for cell in row if cell == name]
    assert "'" + name in rows[1]


@pytest.mark.parametrize("name", ["\uff1dHYPERLINK(1)", "\uff0b1", "\uff0d1", "\uff20SUM"])
def test_the_wide_forms_of_signs_begin_no_formula_either(name):
    """Where one writes in wide letters, spreadsheets take them for the signs."""
    rows = list(csv.reader(io.StringIO(text(of_node(deltas=[llite(name, open=5)]), form="csv"))))
    assert {"'" + name} == {row[1] for row in rows[1:]}


@pytest.mark.parametrize("name, written", [
    ("<script>alert(1)</script>", "\\<script>alert(1)\\</script>"),
    ("![x](http://example.com/x.png)", "![x\\](http://example.com/x.png)"),
    ("[report](javascript:alert(1))", "[report\\](javascript:alert(1))"),
    ("a|b", "a\\|b"), ("a\\|b", "a\\\\\\|b"), ("`x`", "\\`x\\`"), ("\x1b[2J", "\\\\x1b[2J"),
    ("nid[1-23] (no report)", "nid[1-23] (no report)"),
])
def test_a_name_in_markdown_is_no_html_no_link_and_no_cell(name, written):
    """A ticket is shown as HTML: a node must not put a picture of elsewhere into it."""
    printed = text(of_node(deltas=[llite(name, open=23), unread("llite", why=name)]),
                   form="markdown")
    assert f"| {written} " in printed
    assert 0 == len(re.findall(r"(?<!\\)<|(?<!\\)\]\(", printed))


@pytest.mark.parametrize("name", ["\x9b31m", "a\u202eb", "a\u2028b", "\U000e0041", "\x7f"])
def test_json_too_prints_nothing_that_moves_the_cursor_or_turns_the_text(name):
    """JSON itself lets these pass; a program reads the same name."""
    record, choices = job(of_node(deltas=[llite(name)], user="J\u00f6rg"))
    printed = job_tables.format_report(record, choices, "json")
    assert all(c.isprintable() or c == "\n" for c in printed) and "J\u00f6rg" in printed
    assert name == json.loads(printed)["file_systems"][0]["name"]


def test_json_keeps_every_name_as_it_is():
    """Programs compare names; JSON itself escapes what a terminal would take."""
    record, choices = job(of_node(deltas=[llite("\x1b[2Jevil")]))
    printed = job_tables.format_report(record, choices, "json")
    assert "\x1b" not in printed
    assert "\x1b[2Jevil" == json.loads(printed)["file_systems"][0]["name"]


# -- from both sides ---------------------------------------------------------------------

def at_servers(name="snx11001", low=False, **calls):
    """What the storage servers have counted on one file system."""
    return {"name": name, "label": name, "read_bytes": 41 * 2**20, "write_bytes": 0,
            "read_rpcs": 41, "write_rpcs": 0, "lower_bound": low, "notes": ["a note of theirs"],
            "operations": {call: {"count": count, "seconds": seconds}
                           for call, (count, seconds) in calls.items()},
            "targets": {"OST0000": {"read_bytes": 41 * 2**20, "read_rpcs": 41},
                        "MDT0000": {call: count for call, (count, _) in calls.items()}}}


def with_harvest(record, *file_systems, final=True, began=1_795_225_001.0,
                 ended=1_795_225_061.0):
    return {**record, "harvest": {"final": final, "lower_bound": False, "notes": ["a late start"],
                                  "file_systems": list(file_systems), "began": began,
                                  "ended": ended}}


def test_the_storage_servers_numbers_stand_below_the_nodes():
    """A rename is counted once, not again by its kind; - is what nobody knows."""
    record, choices = job(*WHOLE)
    record = with_harvest(record, at_servers(open=(60, 0.061), rename=(3, None),
                                             samedir_rename=(3, None)), final=False)
    found = job_tables.format_report(record, choices, "plain", long=True)
    assert """\
The nodes and the storage servers compared:
snx11001      Application    Network  OSS and MDS
  Read          320.0 MiB  320.0 MiB     41.0 MiB
  Written         0 bytes    0 bytes      0 bytes
  Reads                60        309           41
  Writes                0          0            0
  Operations           73          -           63
Operations at the storage servers:
snx11001          Count  Seconds
  open               60    0.061
  rename              3        -
  samedir_rename      3        -
Marks: - unknown
""" == found[found.index("The nodes and"):found.index("note: ")]
    assert [line for line in found.splitlines() if "servers: " in line] == [
        "note: storage servers: a late start", "note: snx11001, storage servers: a note of theirs"]
    assert "note: the storage servers' counts are not final yet\n" in found


def test_what_the_page_cache_has_saved_is_told_where_both_numbers_stand():
    """Of 320.0 MiB that programs read 80 came over the network; --long says it among its own."""
    record, choices = job(*WHOLE)
    [fs] = [fs for fs in record["file_systems"] if fs["name"] == "snx11001"]
    fs["network"]["read_bytes"] = 80 * 2**20
    why = "snx11001: 75 % of what was read did not come over the network\n"
    assert why not in job_tables.format_report(record, choices, "plain")
    record = with_harvest(record, at_servers())
    assert f"note: {why}" in job_tables.format_report(record, choices, "plain")
    assert 1 == job_tables.format_report(record, choices, "plain", long=True).count(why)


def moment(seconds):
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def test_a_job_that_no_node_has_reported_is_told_from_the_servers_alone():
    """Seen for 60 s: 41 MiB are 699.7 KiB a second, 63 operations 1.1; a rename is one."""
    record, choices = job(expected=4)
    record = with_harvest(record, at_servers(low=True, open=(60, None), rename=(3, None),
                                             samedir_rename=(3, None)))
    found = job_tables.format_report(record, choices, "plain").splitlines()
    assert "Job 4711: no node has reported: numbers from the storage servers" == found[0]
    assert ("Sweeps of the storage servers saw I/O of it from 2026-11-21 01:36:41 to 2026-11-21 "
            "01:37:41. At the storage servers, under this job's id: snx11001 OSS and MDS "
            "Read >= 41.0 MiB Written >= 0 bytes Reads >= 41 Writes >= 0 Operations >= 63 "
            ) in flat("\n".join(found))
    assert ("snx11001: mean rates over about 00:01:00: read >= about 699.7 KiB/s, written "
            ">= about 0 bytes/s, operations >= about 1.1/s") in flat("\n".join(found))
    rows = [line.split() for line in found[found.index("By target:"):]]
    assert ["snx11001", "OST0000", ">=", "41.0", "MiB", ">=", "0", "bytes", ">=", "0"] in rows
    assert ["snx11001", "MDT0000", ">=", "0", "bytes", ">=", "0", "bytes", ">=", "63"] in rows


def test_what_a_batch_system_tells_of_a_job_of_the_servers_is_in_its_report():
    """It ran for 100 s, so 41 MiB are 419.8 KiB a second; 23 of 37 nodes is nobody's business."""
    record, choices = job(expected=4)
    record["job"].update(user="alice", started=1_795_225_000.0, ended=1_795_225_100.0,
                         elapsed_s=100.0)
    record["batch"] = batch()
    found = flat(job_tables.format_report(with_harvest(record, at_servers()), choices, "plain"))
    assert found.startswith(
        "Job 4711 (halo) of alice, partition normal: COMPLETED, no node has reported: numbers from "
        "the storage servers, 00:01:40 from 2026-11-21 01:36:40 At the storage servers, ")
    assert ("snx11001: mean rates over 00:01:40: read 419.8 KiB/s, written 0 bytes/s, "
            "operations 0.0/s") in found


def test_sweeps_over_the_end_of_summer_time(utc, monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    record, choices = job(expected=4)
    found = job_tables.format_report(with_harvest(record, at_servers(), began=1_792_889_400.0,
                                                  ended=1_792_890_600.0), choices, "plain")
    assert "from 2026-10-25 02:50:00 CEST to 2026-10-25 02:10:00 CET." in flat(found)


@pytest.mark.parametrize("fields, state", [
    ({}, "COMPLETED, "), ({"outcome": ""}, ""),
    ({"outcome": "FAILED", "exit_status": 23}, "FAILED (exit code 23), "),
    ({"outcome": "CANCELLED", "exit_signal": 15}, "CANCELLED (signal 15), "),
    ({"outcome": "FAILED", "exit_status": 3, "exit_signal": 9},
     "FAILED (exit code 3, signal 9), "),
    ({"outcome": "TIMEOUT", "exit_status": None, "exit_signal": None}, "TIMEOUT, ")])
def test_the_first_line_names_the_job_and_how_it_ended(fields, state):
    found = job(*WHOLE)[0].replaced(batch=batch(**fields))
    assert (f"Job 4711 (halo) of alice, partition normal: {state}2 nodes, 00:31:07 from "
            "1970-01-01 00:00:00") == header.format_line(found)


def test_what_is_unknown_is_not_in_the_first_line():
    found = job(WHOLE[0])[0].replaced(batch=batch(name="", partition="", outcome=""))
    found["job"].update(user=None, started=None)
    assert "Job 4711: 1 node, 00:31:07" == header.format_line(found)
    found["job"]["elapsed_s"] = None
    assert "Job 4711: 1 node" == header.format_line(found)


def test_a_first_line_that_is_too_long_is_two():
    found, choices = job(*WHOLE)
    lines = job_tables.format_report(found.replaced(batch=batch(name="x" * 64)),
                                     choices).splitlines()
    assert ["Job 4711 (" + "x" * 39 + "+) of alice, partition normal:",
            "  COMPLETED, 2 nodes, 00:31:07 from 1970-01-01 00:00:00"] == lines[:2]


def test_of_many_targets_the_busiest_are_named():
    record, choices = job(expected=4)
    fs = {**at_servers(), "targets": {f"OST{number:04x}": {"write_bytes": number << 20}
                                      for number in range(1, 12)}}
    for long, count in ((False, 8), (True, 11)):
        found = job_tables.format_report(with_harvest(record, fs), choices, "plain",
                                         long=long).splitlines()
        names = [line.replace("snx11001", "").split()[0] for line in found if " OST0" in line]
        assert [f"OST{number:04x}" for number in range(11, 11 - count, -1)] == names
        assert long is ("(3 more with --long)" not in found)


def test_what_each_program_did_is_a_table_of_its_own():
    """Beside the nodes' numbers, too; the one with most bytes first."""
    record, choices = job(*WHOLE)
    fs = {**at_servers(), "programs": {"tar": {"read_bytes": 23 << 20, "open": 5},
                                       "solve": {"write_bytes": 37 << 20, "open": 41}}}
    text = job_tables.format_report(with_harvest(record, fs), choices, "plain")
    assert """\
By program:
File System    Program        Read    Written    Operations
snx11001       solve       0 bytes   37.0 MiB            41
snx11001       tar        23.0 MiB    0 bytes             5
""" in text
    assert "By program" not in job_tables.format_report(with_harvest(record, at_servers()), choices)


def test_what_each_step_did_is_a_table_in_the_order_of_steps():
    """As Slurm numbers them; an id without a step is last."""
    record, choices = job(*WHOLE)
    fs = {**at_servers(), "steps": {
        "10": {"write_bytes": 37 << 20}, "2": {"write_bytes": 23 << 20, "open": 5},
        "batch": {"read_bytes": 7 << 20}, "(unknown)": {"write_bytes": 53 << 20}}}
    text = job_tables.format_report(with_harvest(record, fs), choices, "plain")
    assert """\
By step:
File System    Step          Read    Written    Operations
snx11001       batch      7.0 MiB    0 bytes             0
snx11001       2          0 bytes   23.0 MiB             5
snx11001       10         0 bytes   37.0 MiB             0
snx11001       (unknown)  0 bytes   53.0 MiB             0
""" in text
    assert "By step" not in job_tables.format_report(with_harvest(record, at_servers()), choices)


def test_of_very_many_targets_some_are_named_and_the_others_counted():
    record, choices = job(expected=4)
    fs = {**at_servers(), "targets": {f"OST{number:04x}": {"write_bytes": number << 20}
                                      for number in range(1, 1001)}}
    for long, said in ((False, "(992 more with --format json)"),
                       (True, "(976 more with --format json)")):
        found = job_tables.format_report(with_harvest(record, fs), choices, "plain",
                                         long=long).splitlines()
        assert said in found and len(found) < 60
    found = job_tables.format_report(with_harvest(record, fs), choices, "markdown", long=True)
    assert 1000 == found.count("| OST")


def test_csv_has_the_servers_numbers_as_a_layer_of_their_own():
    record, choices = job(*WHOLE)
    record = with_harvest(record, at_servers(low=True, open=(60, 0.061)))
    rows = [row[1:]
            for row in csv.reader(io.StringIO(job_tables.format_report(record, choices, "csv")))
            if row[2] == "servers"]
    assert [["snx11001", "servers", "read_bytes", "42991616", "1", "0"],
            ["snx11001", "servers", "write_bytes", "0", "1", "0"],
            ["snx11001", "servers", "read_rpcs", "41", "1", "0"],
            ["snx11001", "servers", "write_rpcs", "0", "1", "0"],
            ["snx11001", "servers", "open", "60", "1", "0"]] == rows


def test_a_column_that_is_no_operation_is_unknown_and_not_zero():
    """[report] columns may name what a later release of Lustre counts."""
    record, choices = job(*WHOLE)
    choices.report.columns = ["open", "teleport"]
    rows = [line.split()
            for line in job_tables.format_report(record, choices, "plain").splitlines()]
    assert ["open", "teleport"] in [row[2:] for row in rows]
    assert {"-"} == {row[-1] for row in rows if row[:1] == ["snx11001"] and len(row) == 3}
