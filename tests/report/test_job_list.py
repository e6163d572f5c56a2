"""
One row for each job: the numbers by hand, and the forms read as they are printed.
"""
from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_totals import llite, osc, totals, unread
from trees import report

from iostats.base.errors import UsageError
from iostats.report import job_fields, job_list, job_summary
from iostats.report.job_fields import FIELDS, find_field, parse_sort
from iostats.report.job_list import NumberForm, parse_columns
from iostats.report.job_summary import (
    Summary,
    make_summary,
    summarize_file_systems,
    summarize_targets,
)
from iostats.report.listing import check_delimiter
from iostats.store import tables

SLURM = {"system": "slurm", "cluster": "eiger", "account": "proj23", "partition": "normal",
         "name": "solve", "nodes": "nid[1-2]", "outcome": "TIMEOUT", "exit_status": 0,
         "exit_signal": 15, "array_job": "", "array_task": "", "het_job": "", "het_offset": "",
         "raw_job": "4711"}


def at_servers(name="scratch", read_bytes=41_003, write_bytes=53_007, low=False, mdt=True, **calls):
    return {"name": name, "read_bytes": read_bytes, "write_bytes": write_bytes,
            "operations": {call: {"count": count, "seconds": None} for call, count in
                           calls.items()},
            "targets": {"OST0000": {}, **({"MDT0000": {}} if mdt else {})}, "lower_bound": low}


def harvest(*file_systems, final=True, low=False):
    return {"final": final, "file_systems": list(file_systems), "lower_bound": low,
            "began": 1_795_225_001.0, "ended": 1_795_225_061.0}


def in_short(*reports, expected=None, **parts):
    return make_summary({**totals(*reports, expected=expected).record(), **parts})


# -- from a record -------------------------------------------------------------------------------

def test_all_file_systems_are_added_up():
    found = in_short(
        report("nid1", [llite(read_bytes=23, write_bytes=37, open=2, create=3, mkdir=5),
                        llite("home", read_bytes=1000, write_bytes=0, open=7, getattr=11),
                        osc(read_bytes=4096, write_bytes=8192)]),
        report("nid2", [llite(read_bytes=41, write_bytes=43)], ended=1_795_225_097.0), batch=SLURM)
    assert Summary(
        account="proj23", partition="normal", name="solve", outcome="TIMEOUT", exit_code="0:15",
        started=1_795_225_000.0, ended=1_795_225_097.0, elapsed_s=97.0, nodes=2, reported=2,
        shared=0, file_systems="home,scratch", source="nodes", read_bytes=1064, write_bytes=80,
        opens=9, creates=3, operations=28, lower_bound=0, net_read_bytes=4096,
        net_write_bytes=8192, net_lower_bound=1, server_read_bytes=None, server_write_bytes=None,
        server_operations=None, server_lower_bound=0, final=1, began=1_795_225_000.0,
        over=1_795_225_097.0) == found


def test_each_file_system_has_its_own_amounts():
    """By its name; with a mark of its own."""
    record = totals(report("nid1", [
        llite(read_bytes=23, write_bytes=37, open=2, create=3, mkdir=5),
        unread("llite")._replace(file_system="home")])).record()
    assert [("home", "nodes", *(None,) * 5, 0), ("scratch", "nodes", 23, 37, 2, 3, 10, 0)] == (
        [tuple(row) for row in summarize_file_systems(record, make_summary(record).source)])
    two = [at_servers(read_bytes=41, write_bytes=43, open=5, close=6, low=True),
           at_servers("home", read_bytes=47, write_bytes=53, mdt=False)]
    record = {**totals(expected=1).record(), "harvest": harvest(*two)}
    assert [("home", "servers", 47, 53, None, None, 0, 0),
            ("scratch", "servers", 41, 43, 5, None, 11, 1)] == (
        [tuple(row) for row in summarize_file_systems(record, make_summary(record).source)])


def test_each_target_has_its_own_amounts():
    """Of nodes and servers; a target without any is left out, what one of them lacks is None."""
    record = totals(report("nid1", [
        osc("OST0003", read_bytes=23, write_bytes=37), osc("OST0007", read_bytes=0, write_bytes=0),
        osc("OST000b", read_bytes=41, write_bytes=0)]), expected=1).record()
    assert [("scratch", "OST0003", 23, 37, 0, None, None, None, 0),
            ("scratch", "OST000b", 41, 0, 0, None, None, None, 0)] == [
        tuple(row) for row in summarize_targets(record)]
    there = at_servers()
    there["targets"] = {"OST0003": {"read_bytes": 43, "write_bytes": 47, "setattr": 3,
                                    "setattr_us": 1009, "read_rpcs": 5},
                        "MDT0000": {"open": 53, "close": 59}}
    assert [("scratch", "MDT0000", None, None, 0, 0, 0, 112, 1),
            ("scratch", "OST0003", 23, 37, 1, 43, 47, 3, 1),
            ("scratch", "OST000b", 41, 0, 1, None, None, None, 0)] == [
        tuple(row) for row in summarize_targets({
            **totals(report("nid1", [
                osc("OST0003", read_bytes=23, write_bytes=37),
                osc("OST000b", read_bytes=41, write_bytes=0)]), expected=2).record(),
            "harvest": harvest(there, final=False)})]


def test_what_no_node_could_read_is_not_known():
    """Not 0; the network is."""
    found = in_short(report("nid1", [unread("llite"), osc(read_bytes=4096, write_bytes=0)]))
    assert (None,) * 5 == found[13:18]
    assert (4096, 0, 0) == (found.net_read_bytes, found.net_write_bytes, found.net_lower_bound)
    found = in_short(report("nid1", []))
    assert (None,) * 5 == found[13:18] and "" == found.file_systems


def test_what_one_file_system_does_not_tell_makes_a_lower_bound():
    """The other one's numbers stand."""
    unknown = unread("llite")._replace(file_system="home")
    found = in_short(report("nid1", [llite(read_bytes=23, open=2), unknown]))
    assert (23, 2, 1) == (found.read_bytes, found.opens, found.lower_bound)


def test_a_missing_node_makes_a_lower_bound():
    found = in_short(report("nid1", [llite(read_bytes=23)]), expected=frozenset(("nid1", "nid2")))
    assert (23, 1, 2, 1) == (found.read_bytes, found.lower_bound, found.nodes, found.reported)


def test_a_number_that_sqlite_can_not_keep_is_a_lower_bound():
    """2**63 - 1 bytes are 8 EiB; of one node less than half of that is counted."""
    found = in_short(*(report(f"nid{i}", [llite(read_bytes=2**62 - 1)]) for i in range(3)))
    assert (2**63 - 1, 1) == (found.read_bytes, found.lower_bound)


def test_of_a_job_of_which_no_node_has_reported_the_servers_numbers_stand():
    """Files created are not known: an OST's `create` makes objects."""
    found = in_short(expected=2, harvest=harvest(
        at_servers(open=23, close=23, create=37), at_servers("home", 41, 0, open=2, setattr=5)))
    assert ("servers", 41_044, 53_007, 25, None, 90, 0) == (
        found.source, found.read_bytes, found.write_bytes, found.opens, found.creates,
        found.operations, found.lower_bound)
    assert (41_044, 53_007, 90, 0) == found[22:26]
    assert ("home,scratch", None, 1_795_225_001.0, 1_795_225_061.0) == (
        found.file_systems, found.started, found.began, found.over)


def test_what_the_servers_counted_stands_beside_what_the_nodes_have_reported():
    """And neither takes the other's mark."""
    found = in_short(report("nid1", [llite(read_bytes=23, write_bytes=37)]),
                     harvest=harvest(at_servers(low=True, open=29), final=False))
    assert ("nodes", 23, 37, 0) == (found.source, found.read_bytes, found.write_bytes,
                                    found.lower_bound)
    assert (41_003, 53_007, 29, 1, 0) == found[22:27]
    found = in_short(report("nid1", [llite(read_bytes=23)]),
                     harvest=harvest(at_servers(), low=True))
    assert (0, 1) == (found.lower_bound, found.server_lower_bound)


def test_a_job_of_the_servers_has_the_time_that_they_have_seen_it():
    """60 s from the first to the last sweep, where no batch system has told; one sweep is none."""
    found = in_short(harvest=harvest(at_servers()))
    assert (None, None, 60.0) == (found.started, found.ended, found.elapsed_s)
    once = {**harvest(at_servers()), "ended": 1_795_225_001.0}
    assert in_short(harvest=once).elapsed_s is None
    longer = {**harvest(at_servers()), "ended": 1_795_225_098.0}
    assert 97.0 == in_short(harvest=longer).elapsed_s
    assert 60.0 == in_short(report("nid1", [llite(read_bytes=23)]), harvest=longer).elapsed_s
    elapsed = find_field("Elapsed", "-o")
    shown = {**dict.fromkeys(job_fields.NAMES), "source": "servers", "elapsed_s": 60.0}
    assert "~00:01:00" == job_list.format_cell(shown, elapsed)
    assert "00:01:00" == job_list.format_cell({**shown, "started": 1.0, "ended": 61.0}, elapsed)


@pytest.mark.parametrize("room, without", [
    (77, []), (76, ["User"]), (67, ["User", "NNodes"]), (20, ["User", "NNodes", "JobName"])])
def test_a_narrow_terminal_does_without_some_columns(room, without):
    """Never without the job, how it ended, bytes and the note; what is left may be too wide."""
    rows = [row(source="nodes", nodes=2, reported=2, job_id="4711", user="alice", name="solve",
                outcome="COMPLETED", read_bytes=23, write_bytes=37)]
    columns = parse_columns(
        "JobID,JobName%-10,User%-8,NNodes,State,ReadBytes%14,WriteBytes%14,Note")
    found, left_off = job_list.fit_columns(rows, columns, NumberForm(), room)
    assert without == left_off
    assert [one.field.column for one in found] == [
        name for name in ("JobID", "JobName", "User", "NNodes", "State", "ReadBytes", "WriteBytes",
                          "Note") if name not in without]
    assert room == 20 or max(map(len, job_list.format_table(rows, found))) - 1 <= room
    # Whose they are is left off where all are one's.
    rows.append({**rows[0], "user": "bob"})
    assert "User" not in job_list.fit_columns(rows, columns, NumberForm(), room)[1]


@pytest.mark.parametrize("nodes, reported, note", [
    (3, 3, ""), (4, 3, "3 of 4 nodes"), (None, 3, "3 of ? nodes")])
def test_a_note_says_how_many_nodes_are_in_the_numbers(nodes, reported, note):
    """Where nobody tells how many there should be, nobody can say that they are all."""
    assert note == job_list.format_note(row(source="nodes", nodes=nodes, reported=reported))


@pytest.mark.parametrize("values, note", [
    ({}, "storage servers only"),
    ({"final": False, "lower_bound": True}, "storage servers only; not final"),
    ({"lower_bound": True}, "storage servers only; >= gaps in the harvest")])
def test_a_note_says_why_the_servers_numbers_may_be_too_low(values, note):
    assert note == job_list.format_note(row(source="servers", reported=0, **values))


def test_without_an_mdt_opens_are_not_known():
    """Perhaps none is harvested; where one has seen the job, no open is 0."""
    assert None is in_short(harvest=harvest(at_servers(mdt=False, punch=23))).opens
    assert 0 == in_short(harvest=harvest(at_servers(getattr=23))).opens


def test_a_rename_is_one_operation():
    """An MDT counts it as rename, and once more by its kind."""
    found = in_short(harvest=harvest(at_servers(open=37, rename=23, samedir_rename=19,
                                                parallel_rename_file=4)))
    assert (60, 60) == (found.operations, found.server_operations)


def test_nobody_has_a_number():
    found = in_short(expected=2, harvest=None)
    assert ("", None, None, 0) == (found.source, found.read_bytes, found.opens, found.reported)


def test_the_table_has_a_column_for_each_number_of_a_summary():
    """And a row the names of the fields."""
    columns = list(tables.summaries.columns.keys())
    assert ["cluster", "job", "attempt", "shown_as", "user", *Summary._fields] == columns
    # too_low and too_high are bits of lower_bound
    assert set(job_fields.NAMES) <= {"job_id", "raw_job_id", "too_low", "too_high", *columns}


# -- fields ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, column", [
    ("JobID", "JobID"), ("jobid", "JobID"), ("job", "JobID"), ("JOBIDRAW", "JobIDRaw"),
    ("write_bytes", "WriteBytes"), ("Write", "WriteBytes"), (" elapsed ", "Elapsed"),
    ("elapsed_s", "Elapsed"), ("elapsedraw", "ElapsedRaw"), ("state", "State"),
    ("outcome", "State"), ("started", "Start"), ("acc", "Account"), ("nnodes", "NNodes")])
def test_a_field_is_found_as_sacct_finds_it(name, column):
    """In any case, by its beginning; and as JSON calls it."""
    assert column == find_field(name, "--format").column


@pytest.mark.parametrize("text, widths", [
    ("JobID", [("JobID", None, None)]),
    ("jobid%30,user%-8", [("JobID", 30, False), ("User", 8, True)]),
    ("jobid,,user,", [("JobID", None, None), ("User", None, None)]),
    (" jobid %7 , end", [("JobID", 7, False), ("End", None, None)])])
def test_widths_are_taken_as_sacct_takes_them(text, widths):
    assert widths == [(one.field.column, one.width, one.left) for one in parse_columns(text)]


@pytest.mark.parametrize("text, why", [
    ("", "--format: expected names of fields with commas between, got ''"),
    (",,", "expected names of fields"),
    ("MaxRSS", "--format: expected a field, got 'MaxRSS'; `iostats jobs -e` lists them"),
    ("JobID%", "--format: expected a width from 1 to 1000 as in JobID%12 or %-12, got 'JobID%'"),
    ("JobID%0", "expected a width"), ("JobID%1001", "expected a width"),
    ("JobID%x", "expected a width"), ("JobID%\u0663", "expected a width"), ("%12", "got ''"),
    ("User%12.3", "expected a width"), ("x" * 5000, "expected a field, got 'xxxx")])
def test_what_is_no_format_is_one_line(text, why):
    with pytest.raises(UsageError) as error:
        parse_columns(text)
    assert why in str(error.value) and len(str(error.value)) < 200


@given(st.lists(st.tuples(st.sampled_from(FIELDS), st.none() | st.integers(1, 1000),
                          st.booleans(), st.booleans()), min_size=1))
def test_each_format_means_what_it_says(parts):
    """Any fields, in any order, more than once, with any width."""
    text = ",".join((field.column.lower() if small else field.column)
                    + ("" if width is None else f"%{'-' * left}{width}")
                    for field, width, left, small in parts)
    assert [(field, width, None if width is None else left)
            for field, width, left, small in parts] == [tuple(one) for one in parse_columns(text)]


@given(st.text() | st.text("jobidUser%,-0123456789", max_size=30))
def test_any_text_is_a_format_or_a_mistake(text):
    try:
        assert all(one.field in FIELDS for one in parse_columns(text))
    except UsageError as error:
        assert str(error).isprintable() and len(str(error)) < 300


@pytest.mark.parametrize("text, expected", [
    ("write_bytes", ("write_bytes", False)), ("-write_bytes", ("write_bytes", True)),
    ("+WriteBytes", ("write_bytes", False)), ("-elapsedraw", ("elapsed_s", True)),
    ("jobid", ("job_id", False))])
def test_the_order_is_a_field_that_may_have_a_sign(text, expected):
    assert expected == parse_sort(text)


@pytest.mark.parametrize("text", ["", "-", "--write_bytes", "size", "note"])
def test_what_is_no_order_is_one_line(text):
    with pytest.raises(UsageError, match=r"^--sort: expected a field"):
        parse_sort(text)


# -- as text ---------------------------------------------------------------------------------------

def row(**values):
    """A row of the site's server."""
    found = {**dict.fromkeys(job_fields.NAMES), "cluster": "", "attempt": 0, "lower_bound": False,
             "net_lower_bound": False, "server_lower_bound": False, "final": True, "shared": 0,
             "reported": 2, "nodes": 2, "source": "nodes", "file_systems": [], **values}
    assert set(found) == set(job_fields.NAMES)
    return found


ROWS = [
    row(job_id="4711", name="solve", user="alice", outcome="COMPLETED", elapsed_s=1867.4,
        read_bytes=892_338_176, write_bytes=23, opens=771_377, operations=16_777_216, events=0),
    row(job_id="100_10", name="r\u00e9sum\u00e9-with-a-long-name", user="bob", outcome="TIMEOUT",
        elapsed_s=93_784.9, reported=1, lower_bound=True, read_bytes=0, write_bytes=2**50,
        opens=41, operations=41, events=37, data_lost="may be lost"),
    row(job_id="4713", name="\u8a08\u7b97\u8a08\u7b97\u8a08\u7b97", user="carol", nodes=None,
        reported=0, source="", elapsed_s=None),
    row(job_id="4717", name="a|b", user="bob", nodes=1, reported=0, source="servers", final=False,
        elapsed_s=37.0, read_bytes=41, write_bytes=43, operations=47),
    row(job_id="4719", name="x\x1b[2Jy", user="bob", nodes=3, reported=3, shared=2,
        elapsed_s=0.4, read_bytes=1, write_bytes=1, opens=1, operations=1)]


def test_the_table_is_that_of_sacct():
    """Numbers at the right, a text that is too long ends with +, what is not known is -."""
    assert """\
JobID  JobName    User  NNodes State        Elapsed  ReadBytes WriteBytes   Opens Operations Events Note
------ ---------- ----- ------ --------- ---------- ---------- ---------- ------- ---------- ------ -------------------------------
4711   solve      alice      2 COMPLETED   00:31:07  851.0 MiB   23 bytes 771,377 16,777,216      0
100_10 résumé-wi+ bob        2 TIMEOUT   1-02:03:04 >= 0 bytes >= 1.0 PiB   >= 41      >= 41     37 1 of 2 nodes; data may be lost
4713   計算計算+  carol      - -                  -          -          -       -          -      - no report
4717   a|b        bob        1 -          ~00:00:37   41 bytes   43 bytes       -         47      - storage servers only; not final
4719   x\\x1b[2Jy  bob        3 -           00:00:00     1 byte     1 byte       1          1      - 2 shared
""" == "".join(job_list.format_table(ROWS, parse_columns(job_fields.DEFAULT)))  # noqa: E501


def test_a_width_is_kept_by_all_but_numbers():
    """A number with its end cut off would be another number."""
    assert """\
Jo+ JobName     User ReadB+     State
--- -------- ------- ------ ---------
47+ solve      alice 851.0 MiB COMPLETED
10+ r\u00e9sum\u00e9-+     bob >= 0 bytes   TIMEOUT
""" == "".join(job_list.format_table(ROWS[:2], parse_columns(
        "JobID%-3,JobName%-8,User%7,ReadBytes%6,State%9")))


def test_without_heading_columns_are_as_wide_as_what_is_in_them():
    assert "4711   2\n100_10 2\n" == "".join(
        job_list.format_table(ROWS[:2], parse_columns("JobID,NNodes"), header=False))
    assert "" == "".join(job_list.format_table([], parse_columns("JobID"), header=False))
    assert "JobID User\n----- ----\n" == "".join(job_list.format_table([],
                                                                       parse_columns("JobID,User")))


def test_parsable_lines_are_those_of_sacct():
    """With -p there is one more at the end; a | in a text is none."""
    columns = parse_columns("JobID%3,JobName%3,ReadBytes,Opens,Note")
    assert """\
JobID|JobName|ReadBytes|Opens|Note
4711|solve|851.0 MiB|771377|
100_10|r\u00e9sum\u00e9-with-a-long-name|>= 0 bytes|>= 41|1 of 2 nodes; data may be lost
4713|\u8a08\u7b97\u8a08\u7b97\u8a08\u7b97|-|-|no report
4717|a\\x7cb|41 bytes|-|storage servers only; not final
4719|x\\x1b[2Jy|1 byte|1|2 shared
""" == "".join(job_list.format_parsable(
        ROWS, columns, NumberForm(has_commas=False)))
    assert "4711|892338176|\n4713|-|\n" == "".join(job_list.format_parsable(
        [ROWS[0], ROWS[2]], parse_columns("JobID,ReadBytes"), NumberForm(raw=True), False, "|",
        True))


@pytest.mark.parametrize("how, expected", [
    (NumberForm(), "851.0 MiB"), (NumberForm("decimal"), "892.3 MB"),
    (NumberForm("bytes"), "892,338,176 bytes"),
    (NumberForm(raw=True), "892338176"), (NumberForm(unit="K"), "871,424.00 KiB"),
    (NumberForm(unit="G"), "0.83 GiB"),
    (NumberForm(unit="T"), "0.00081 TiB"), (NumberForm("decimal", "G"), "0.89 GB"),
    (NumberForm("bytes", "M"), "851.00 MiB")])
def test_bytes_are_shown_in_each_unit(how, expected):
    """What is not 0 is not shown as 0."""
    assert expected == job_list.format_cell(ROWS[0], find_field("ReadBytes", ""), how)


@pytest.mark.parametrize("column, value, expected", [
    ("Start", 1_795_225_023.7, "2026-11-21T01:37:03"), ("Start", 1e300, f"{1e300:.0f}"),
    ("Start", None, "-"), ("Elapsed", 59.9, "00:00:59"), ("Elapsed", 90_061.0, "1-01:01:01"),
    ("ElapsedRaw", 90_061.9, "90061"), ("Final", False, "no"), ("LowerBound", True, "yes"),
    ("FileSystems", ["home", "scratch"], "home,scratch"), ("FileSystems", [], "-"),
    ("State", "", "-"), ("NetReadBytes", 37, "37 bytes"), ("Restarts", 0, "0")])
def test_each_kind_of_field_has_its_form(monkeypatch, column, value, expected):
    import time
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    field = find_field(column, "")
    assert expected == job_list.format_cell(row(**{field.name: value}), field)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("mark, column", [
    ("lower_bound", "Creates"), ("net_lower_bound", "NetWriteBytes"),
    ("server_lower_bound", "ServerOperations")])
def test_each_number_has_the_mark_of_who_counted_it(mark, column):
    field = find_field(column, "")
    other = {"lower_bound": True, "net_lower_bound": True, "server_lower_bound": True, mark: False}
    assert job_list.format_cell(row(**{field.name: 37, mark: True}), field).startswith(">= 37")
    assert job_list.format_cell(row(**{field.name: 37, **other}), field).startswith("37")


DELIMITERS = st.text(st.sampled_from("|,;:\t ~^!%>=-./"), min_size=1, max_size=3)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=3), DELIMITERS, st.booleans())
def test_what_is_parsable_is_parsed_to_as_many_fields(names, delimiter, ends):
    """Whatever a job is called, and whatever stands between."""
    rows = [row(job_id=name, name=name, read_bytes=23, lower_bound=True) for name in names]
    columns = parse_columns("JobID,JobName,ReadBytes,Note")
    for line in job_list.format_parsable(rows, columns, NumberForm(), False, delimiter, ends):
        assert line.endswith("\n") and (line[:-1].isprintable() or "\t" in delimiter)
        assert 4 + ends == len(line[:-1].split(delimiter))


def test_a_csv_reader_reads_it():
    """With , between."""
    text = "".join(job_list.format_parsable(ROWS, parse_columns("JobID,Note,FileSystems"),
                                            delimiter=","))
    assert {"JobID": "4717", "Note": "storage servers only; not final", "FileSystems": "-"} == list(
        csv.DictReader(io.StringIO(text)))[3]


@pytest.mark.parametrize("text", ["", "a", "1", "\\", "_", "\n", "|" * 9, "\x1b"])
def test_what_can_not_stand_between_fields_is_one_line(text):
    with pytest.raises(UsageError, match=r"^--delimiter: expected up to 8 characters"):
        check_delimiter(text)


@pytest.mark.parametrize("text, state", [
    ("f", "FAILED"), ("TO", "TIMEOUT"), ("oom", "OUT_OF_MEMORY"), ("node_fail", "NODE_FAIL"),
    ("revoked", "REVOKED")])
def test_states_are_written_as_sacct_takes_them(text, state):
    assert state == job_fields.parse_state(text)


def test_the_help_has_a_line_for_each_field():
    lines = job_fields.format_field_help().splitlines()
    assert [one.column for one in FIELDS] == [line.split()[0] for line in lines]
    assert "WriteBytes        written by programs to Lustre" in lines
    assert max(map(len, lines)) < 80


# -- other file systems than Lustre ----------------------------------------------------------------

def nfs(lower_bound=False, **values):
    return llite("nfs1:/home", lower_bound, **values)._replace(source="nfs", instance="0:41")


def test_nfs_and_local_disks_have_numbers_of_their_own():
    """Beside Lustre's, which are as without them; a bound of one is no bound of another."""
    disks = llite("local disks", sda_read_bytes=53, sdb_read_bytes=59)._replace(source="cgroup_io")
    found = in_short(report("nid1", [
        llite(read_bytes=23, write_bytes=37), disks, nfs(read_bytes=41, write_bytes=43)]),
        report("nid2", [nfs(True, read_bytes=47)]))
    assert (23, 37, 88, 43, 112, 0) == (
        found.read_bytes, found.write_bytes, found.nfs_read_bytes, found.nfs_write_bytes,
        found.disk_read_bytes, found.disk_write_bytes)
    assert (["nfs_read_bytes", "nfs_write_bytes"], []) == job_summary.split_bits(found.lower_bound)
    assert "scratch" == found.file_systems


def test_gpfs_has_numbers_and_marks_of_its_own():
    """A reset on one node."""
    found = in_short(report("nid1", [llite(read_bytes=23), nfs(read_bytes=41)._replace(
        source="gpfs", file_system="site:home", lower_bound=True)]))
    assert (23, None, 41, 0) == (found.read_bytes, found.nfs_read_bytes, found.gpfs_read_bytes,
                                 found.gpfs_write_bytes)
    assert (["gpfs_read_bytes", "gpfs_write_bytes"], []) == job_summary.split_bits(
        found.lower_bound)
    low, high = job_summary.NOT_LUSTRE[::2], job_summary.NOT_LUSTRE[1::2]
    assert ([*low], [*high]) == job_summary.split_bits(job_summary.make_bits(low, high))


def test_cephfs_has_what_requests_asked_for():
    """Of a read in a hole there was less; no program's bytes are known, and none are Lustre's."""
    found = in_short(report("nid1", [llite(read_bytes=23), llite(
        "cephfs:28f7427e", network_read_bytes=41, network_write_bytes=43)._replace(
            source="ceph", instance="client7")]))
    assert (23, 41, 43) == (found.read_bytes, found.cephfs_read_bytes, found.cephfs_write_bytes)
    assert ([], ["cephfs_read_bytes"]) == job_summary.split_bits(found.lower_bound)


def test_calls_of_gpfs_that_may_be_too_low_mark_no_bytes():
    """They are counted in 32 bits."""
    found = in_short(report("nid1", [llite("site:home", read_bytes=23, read_calls=37)._replace(
        source="gpfs")]))
    assert ([], []) == job_summary.split_bits(found.lower_bound)


def test_the_marks_of_nfs_are_its_own():
    """With O_DIRECT it may be too high; Note is about Lustre alone."""
    summary = in_short(report("nid1", [
        llite(read_bytes=23), nfs(read_bytes=41, write_bytes=43, direct_write_bytes=43)]))
    low, high = job_summary.split_bits(summary.lower_bound)
    row = {**summary._asdict(), "lower_bound": False, "too_low": low, "too_high": high}
    cells = [job_list.format_cell(row, find_field(name, "-o"))
             for name in ("ReadBytes", "NFSReadBytes", "NFSWriteBytes", "DiskReadBytes", "Note")]
    assert ["23 bytes", "41 bytes", "<= 43 bytes", "-", ""] == cells


@given(st.lists(st.sampled_from(job_summary.OF_PROGRAMS + job_summary.NOT_LUSTRE)),
       st.lists(st.sampled_from(("write_bytes", *job_summary.NOT_LUSTRE))))
def test_marks_of_any_numbers_come_back_from_their_bits(low, high):
    """`operations` stands for all that the nodes counted of Lustre, as one reset loses them all."""
    alone = {"opens", "creates"} & set(low) and "operations" not in low
    found_low, found_high = job_summary.split_bits(job_summary.make_bits(low, high))
    assert set(high) == set(found_high)
    if not alone:
        expected = set(low) | (set(job_summary.OF_PROGRAMS) if "operations" in low else set())
        assert expected == set(found_low)
