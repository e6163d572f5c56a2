"""
Names of jobs, users and counters that would be commands, markup or lines elsewhere stay text.
docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import csv
import io
import logging
import re
import subprocess
import sys

import pytest
from processes import until
from site_desk import a_report

from iostats import schedulers
from iostats.base import logs
from iostats.base.errors import IostatsError, sanitize
from iostats.base.job_facts import Facts
from iostats.cli import mail, query
from iostats.jobs import records
from iostats.load import amounts, levels, query_table, ranking, table
from iostats.load.ranking import LoadQuery
from iostats.load.sums import ClientLoad, TargetLoad, sum_load
from iostats.lustre import job_tags
from iostats.report import job_list, listing, node_list
from iostats.schedulers import commands as scheduler_commands
from iostats.sinks.influxdb import lines as influx_lines

# A terminal's commands, a second line, the right-to-left override, C1's CSI, a formula, markup of
# rich, HTML, quotes, separators of databases.
HOSTILE = ["\x1b[2J\x1b]0;x\x07", "a\nb\rc", "a\u202eb", "\x9b2J", "=cmd|' /C calc'!A0", "@SUM(1)",
           "[bold red]x[/]", "<script>alert(1)</script>", 'a"b\\', "a b,c=d\\", "{job=\"4711\"} 1"]


# -- hostile names -------------------------------------------------------------------------

def is_harmless(text):
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("level", levels.LEVELS, ids=lambda level: level.name)
def test_a_hostile_name_stays_text_in_top_and_query(level, text):
    """Ids, users, accounts, nodes, clients, targets, file systems, and what was looked for."""
    class Known:
        find_job = staticmethod(str)
        find_node = staticmethod(lambda nid: text)
        running = staticmethod(lambda: [(text, text, (text,))])

        @staticmethod
        def facts(id):
            return Facts(job=text, raw_job=text, user=text, account=text, name=text, nodes=text)
    part = TargetLoad(text, text, text, 20, [text], [[460], [740], [41], [23]])
    load = sum_load([part], Known, at=1_795_225_060, span_s=20.0, missing={text: {text: text}})
    load = load._replace(clients={text: ClientLoad([text], [[460, 740, 41, 23]], [True],
                                                   {text: text})})
    for ask in (LoadQuery(level.name), LoadQuery(level.name, text=text, user=text, job=text,
                                                 file_system=text)):
        answer = ranking.answer(load, ask, Known)
        if level.is_in_top:
            lines = table.format_lines(answer, 200)
            assert 3 < len(lines) and all(is_harmless(line) and "\n" not in line for line in lines)
        for one in level.queries:
            for row in answer["rows"] if one.kind == levels.BOTH else ():
                row.update({f"{metric}_per_s": None for metric in amounts.METRICS},
                           rates_lower_bound=True)
            tables = query_table.format_lines({"level": one.letter, **answer})
            assert all(is_harmless(line) and "\n" not in line for line in tables), tables


@pytest.mark.parametrize("job", ["-rf", "--delete", "4711 4713", "4711,4713", "4711'", 'a"b',
                                 "a\tb", "", "\x1b[2J", "x" * 129])
@pytest.mark.parametrize("name", ["slurm", "pbs", "lsf", "sge", "flux"])
def test_no_job_id_is_an_option_of_a_batch_systems_command(name, job, monkeypatch):
    """It is refused before any command is begun, and costs no other job its facts."""
    def begun(*command, **how):
        raise AssertionError(command)
    monkeypatch.setattr(scheduler_commands, "run_command", begun)
    monkeypatch.setattr(subprocess, "run", begun)
    with pytest.raises(IostatsError):
        schedulers.find_scheduler(name).facts([job])
    assert not records.is_askable(job)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text_in_csv(text):
    """`query --csv`: one line for each row, no formula, nothing for a terminal."""
    out = query._as_csv([{"job": text, "user": text, "write_bytes": 23}])
    rows = list(csv.reader(io.StringIO(out)))
    assert is_harmless(out) and 2 == len(rows) and "23" == rows[1][2]
    assert rows[1][0][0] not in "=+-@" and rows[1][0].lstrip("'") == sanitize(text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["JobID", "User", "Account", "JobName", "FileSystems", "State"])
def test_a_hostile_name_stays_text_in_jobs(field, text):
    """`iostats jobs`, as a table and with delimiters; a row is a line."""
    columns = job_list.parse_columns(f"{field},Opens")
    row = {column.field.name: text for column in columns}
    row.update(opens=23, lower_bound=False)
    if columns[0].field.kind == "names":
        row[columns[0].field.name] = [text]
    for lines in (job_list.format_table([row], columns), job_list.format_parsable([row], columns)):
        heading, *_, last = list(lines)
        assert is_harmless(heading) and is_harmless(last) and 1 == last.count("\n")
        assert last.rstrip().endswith("23")


@pytest.mark.parametrize("text", [*HOSTILE, "x\x1b" * 2048])
def test_a_hostile_name_stays_text_in_nodes(text):
    """Of a node that DNS or a file names, a NID, a file system, and a reason."""
    row = {**dict.fromkeys(node_list.METRICS, 23), "node": text, "nids": [text], "nid_count": 1,
           "file_systems": [text], "at_most": {}, "lower_bound": True, "notes": [text]}
    columns = node_list.TABLE.parse_columns("Node%9,NIDs%9,FileSystems%9,Note%9,Reads")
    cell = node_list.make_formatter(listing.AS_FITS)
    for lines in (listing.format_table([row], columns, cell),
                  listing.format_parsable([row], columns, cell)):
        *_, last = list(lines)
        assert is_harmless(last) and 1 == last.count("\n") and last.endswith("23\n")
    assert all(is_harmless(line) and len(line) <= 80 for line in node_list.list_notes([row], 80))


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 4096])
def test_a_hostile_name_of_a_node_stays_text_in_a_narrow_table(text):
    class Known:
        find_job = staticmethod(str)
        facts = staticmethod(lambda id: None)
        find_node = staticmethod(lambda nid: text)
        running = staticmethod(lambda: [(text, text, (text,))])
    load = sum_load([], Known, at=1_795_225_060, span_s=20.0)._replace(
        clients={"scratch": ClientLoad(["10.0.0.1@tcp"], [[460, 740, 41, 23]], [False], {})})
    for width in (80, 120, 200):
        lines = table.format_lines(ranking.answer(load, LoadQuery("node"), Known), width)
        assert all(is_harmless(line) and len(line) <= width for line in lines)
        assert any("41.0" in line for line in lines[4:])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text_in_influxdbs_lines(text):
    """One line, and the tag's value has no end but its own."""
    line = influx_lines.format_point(f"lustre_job{influx_lines.format_tags(job=text)}",
                                     [("opens", 23)],
                                     37, [])
    assert is_harmless(line) and "\n" not in line
    head, fields, moment = re.split(r"(?<!\\) ", line)
    assert ("opens=23i", "37") == (fields, moment)
    assert 1 == len(re.findall(r"(?<!\\)=", head)) == len(re.findall(r"(?<!\\),", head))


def test_a_line_of_a_mail_is_no_command_of_a_mail_program(inside):
    """Some run what is behind ~! at the begin of a line."""
    one = a_report("4711", "nid1", about={"nodes": "nid1"})
    one["deltas"][0]["file_system"] = "~!/bin/touch x"
    inside.ask("report", one, node="nid1")
    inside.store.commit()
    inside.now += 2
    inside.make_records()
    [text] = mail.format_reports(inside.records("4711"), inside.config, "4711")
    assert "~!/bin/touch x" in text
    assert not [line for line in text.splitlines() if line.startswith("~")]


def test_hostile_names_stay_text_in_a_log(inside, caplog):
    """Whoever sends them, authenticated or not; each event is one line."""
    caplog.set_level("INFO")
    for text in HOSTILE:
        for header in (f"IOSTATS-1 node={text}, time=1, nonce=0, mac=0", f"MUNGE {text}", text):
            inside.server.answer(b'{"jsonrpc":"2.0","method":"latest","id":1}', header)
        one = a_report("4711", "nid1", seq=text[:60], user=text,
                       about={"cluster": text, "user": text, "output": f"/{text}",
                              "nodes": text, "account": text})
        one["deltas"][0].update(file_system=text, why=text)
        inside.ask("report", one, node="nid1")
        inside.ask("report", {**one, "node": "nid2", "seq": "37", "reason": text[:60]}, node="nid2")
    inside.store.commit()
    inside.now += 301
    inside.make_records()
    said = [logs.OneLineFormatter().format(record) for record in caplog.records]
    assert said and all(is_harmless(text) and "\n" not in text for text in said), said


def test_a_reason_forges_no_line_of_the_log(desk):
    """Nor does what a bug's traceback says; the whole way, to the server's standard error."""
    server = desk.site()
    desk.send(a_report("4711", "nid1", reason="no start\niostats: job 4713 removed\r\x1b[2J\u202e",
                       about={"nodes": "nid1"}))
    desk.record("4711")
    until(lambda: "Job 4711" in server.err)
    [line] = [line for line in server.err.splitlines() if "Job 4711" in line]
    assert ("missing: nid1 (no start\\x0aiostats: job 4713 removed\\x0d\\x1b[2J\\x202e)") in line
    assert is_harmless(server.err.replace("\n", ""))


def test_a_traceback_in_the_log_is_no_event(capsys):
    try:
        raise ValueError("a\niostats: forged\x1b[2J")
    except ValueError:
        record = logging.LogRecord("iostats", logging.ERROR, "", 1, "of job %s", ("4711\n23",),
                                   sys.exc_info())
    first, *others = logs.OneLineFormatter().format(record).split("\n")
    assert "iostats: of job 4711\\x0a23" == first
    assert others and all(line.startswith("  | ") and is_harmless(line) for line in others)
    assert "  | iostats: forged\\x1b[2J" == others[-1]


@pytest.mark.parametrize("forged", ["2147483648", "4294967295", "9" * 31, "0", "0_1",
                                    "4294967296+1"])
def test_a_forged_id_in_job_stats_keeps_no_other_job_from_being_asked_for(forged):
    """
    A program's SLURM_JOB_ID is what its user likes.  squeue 22.05 ends with "Invalid job id" for
    these, and tells nothing of 4711, which would then have been taken for over.
    """
    asked = []

    def run(argv):
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 1, "", {
            "squeue": "slurm_load_jobs error: Invalid job id specified",
            "sacct": "Slurm accounting storage is disabled"}[argv[0]])
    assert {} == schedulers.find_scheduler("slurm").facts(["4711", forged], run)
    assert asked and all("--jobs=4711" in argv for argv in asked)


@pytest.mark.parametrize("scheduler", ["slurm", "lsf", "sge"])
def test_a_number_that_no_batch_system_gives_is_no_job(scheduler):
    form = job_tags.TagForm("%j", schedulers.describe_job_id_form(scheduler))
    assert ("4294967295", "", "") == tuple(map(form.find_job, ("4294967295", "9" * 11, "9" * 31)))
