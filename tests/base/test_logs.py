"""
The forms of a server's log: docs/reference/logs.md.
"""
from __future__ import annotations

import json
import logging
import socket
import sys

import pytest
from processes import REPOSITORY, until
from site_desk import SiteDesk, a_report

from iostats.base import logs
from iostats.base.errors import UsageError


@pytest.fixture
def desk(tmp_path):
    with SiteDesk(tmp_path) as one:
        yield one


def a_record(message="job %s: %s", *arguments, level=logging.WARNING, **fields):
    """Of 1,795,266,724.023 s since 1970, 2026-11-21 13:12:04 UTC."""
    record = logging.LogRecord("iostats.jobs.records", level, "", 1, message, arguments, None)
    record.created, record.msecs = 1_795_266_724.023, 23.0
    vars(record).update(fields)
    return record


def test_a_line_of_json_has_the_fields_of_its_subject():
    record = a_record("job %s: %s", "4711", "no \x1b[2J comment", job="4711", node=None)
    assert {"time": "2026-11-21T13:12:04.023Z", "level": "warning",
            "logger": "iostats.jobs.records", "message": "job 4711: no \\x1b[2J comment",
            "job": "4711"} == json.loads(logs.JsonFormatter().format(record))


def test_a_traceback_is_a_member_of_the_same_line():
    record = a_record("internal error")
    try:
        raise KeyError(37)
    except KeyError:
        record.exc_info = sys.exc_info()
    text = logs.JsonFormatter().format(record)
    assert "\n" not in text and "KeyError: 37" in json.loads(text)["traceback"]


def test_text_has_no_fields():
    assert "iostats: the last of nid7" == logs.OneLineFormatter().format(
        a_record("the last of %s", "nid7", node="nid7"))


def fields_of(data):
    """{name: value} of a datagram to the journal, each with its length."""
    found = {}
    while data:
        name, _, data = data.partition(b"\n")
        size = int.from_bytes(data[:8], "little")
        found[name.decode()] = data[8:8 + size].decode()
        assert data[8 + size:9 + size] == b"\n"
        data = data[9 + size:]
    return found


def test_the_journal_gets_fields_and_a_priority(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        journal.settimeout(60)
        handler = logs.JournalHandler(str(tmp_path / "socket"))
        handler.emit(a_record("%s", "a\nb", level=logging.ERROR, target="scratch-OST0007",
                              job="4711\nPRIORITY=0"))
        assert {"MESSAGE": "a\\x0ab", "PRIORITY": "3", "LOGGER": "iostats.jobs.records",
                "SYSLOG_IDENTIFIER": "iostats", "IOSTATS_JOB": "4711\\x0aPRIORITY=0",
                "IOSTATS_TARGET": "scratch-OST0007"} == fields_of(journal.recv(1 << 16))
        handler.close()


def test_without_a_journal_a_line_is_on_standard_error(tmp_path, capsys):
    handler = logs.JournalHandler(str(tmp_path / "nothing"))
    handler.emit(a_record("%s", "23 events"))
    assert "iostats: 23 events\n" == capsys.readouterr().err
    handler.close()


def test_another_format_is_a_line():
    with pytest.raises(UsageError) as error:
        logs.log_to_stderr(logging.INFO, "xml")
    assert "--log-format: expected one of text, json, journal, got 'xml'" == str(error.value)


def test_each_module_has_the_logger_of_its_name():
    """So that a level, or a filter of Loki, can be set for one of them."""
    others = [(path.name, line) for room in ("iostats", "iostats_ldms")
              for path in (REPOSITORY / room).rglob("*.py")
              for line in path.read_text().splitlines() if "getLogger(" in line
              and not any(name in line for name in ("(__name__)", "()", '("uvicorn'))]
    assert [] == others


def test_a_server_logs_json_with_the_job(desk):
    """A record was made: `jq 'select(.job == "4711")'` has its line."""
    server = desk.site("--log-format", "json")
    desk.send(a_report("4711", "nid1", about={"nodes": "nid1"}))
    desk.record("4711")
    until(lambda: "Job 4711" in server.err, what="the line")
    lines = [json.loads(line) for line in server.err.splitlines()]
    [line] = [line for line in lines if line.get("job") == "4711"]
    assert ("info", "iostats.jobs.records") == (line["level"], line["logger"])
    assert ["info"] == [line["level"] for line in lines if "site's server on" in line["message"]]
