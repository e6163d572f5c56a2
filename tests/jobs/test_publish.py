"""
What a job's user sees of its record: in the output, at home.
"""
from __future__ import annotations

import asyncio
import os
import re

import pytest
from processes import until
from site_desk import a_report

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_the_report_is_appended_to_the_jobs_output_once(desk, of_all):
    """At its end, written as the job's user; a late report does not append a second one."""
    output = of_all / "slurm-4711.out"
    output.write_text("what the job said\n")
    output.chmod(0o666)
    os.chown(output, 65534, 65534)
    desk.configure(site_show="output home", site_deadline="0.2")
    server = desk.site()
    about = {"nodes": "nid[1-2]", "user": "nobody", "output": str(output)}
    desk.send(a_report("4711", "nid1", reads=23, about=about))
    until(lambda: "File System" in output.read_text(), what="the report")
    desk.send(a_report("4711", "nid2", reads=37, about=about))
    desk.record("4711", lambda record: record["coverage"]["complete"])
    desk.send(a_report("4713", "nid1", about={**about, "nodes": "nid1", "user": "daemon"}))
    until(lambda: "nothing is written as a system user" in server.err, what="the refusal")
    text = output.read_text()
    assert text.startswith("what the job said\n\nJob 4711 of nobody:\n  1 of 2 nodes reported")
    assert 1 == text.count("File data transfer statistics") and "4713" not in text


@pytest.mark.parametrize("own, shown", [
    ("Job 4711: 1 of 1 nodes reported, 00:00:01\nMeasured: the command ./app\nTABLES", False),
    ("Job 4711: 1 of 1 nodes reported, 00:00:01\nMeasured: the command ./app\nOTHERS", True),
    ("Job 4713: 1 of 1 nodes reported, 00:00:01\nMeasured: the command ./app\nTABLES", True),
    ("TABLES", True),
], ids=["the same numbers", "others", "of another job", "no report"])
@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_a_second_report_is_appended_only_where_its_numbers_are_new(desk, of_all, own, shown):
    """The user's own report has what the command did; the site's also what came after it."""
    output = of_all / "slurm-4711.out"
    tables = """\
File data transfer statistics for this job:
+---------------+-------------+--------------+
| File System   | File Read   | File Write   |
+===============+=============+==============+
| scratch       | 40.0 KiB    | 0 bytes      |
+---------------+-------------+--------------+
"""
    output.write_text(own.replace("TABLES", tables).replace(
        "OTHERS", tables.replace("40.0 KiB", "37.0 KiB")))
    output.chmod(0o666)
    os.chown(output, 65534, 65534)
    desk.configure(site_show="output home", site_deadline="0.2")
    server = desk.site()
    about = {"nodes": "nid1", "user": "nobody", "output": str(output)}
    desk.send(a_report("4711", "nid1", reads=23, about=about))
    desk.record("4711", lambda record: record["coverage"]["complete"])
    # Another job's report is shown later, with the same file.
    desk.send(a_report("4719", "nid1", reads=37, about=about))
    whole = re.compile(r"(?m)^Job (\d+).*\nMeasured: the whole job, from prolog to epilog$")
    until(lambda: ["4711"] * shown + ["4719"] == sorted(whole.findall(output.read_text())),
          what=lambda: f"the reports, with {output.read_text()!r} and {server.err!r},")


def test_a_file_system_that_hangs_does_not_affect_other_users(inside, monkeypatch):
    """Writing as alice never ends; the others' reports and records are made."""
    shown = []

    async def append(user, path, text, *_):
        if user == "alice":
            await asyncio.Event().wait()
        shown.append((user, path))

    monkeypatch.setattr(inside.server.publisher.writer, "append", append)
    inside.config.set_value("site.show", "output", "a test")
    for job, user in (("4711", "alice"), ("4713", "bob"), ("4717", "carol")):
        inside.send(job, "nid1", about={"nodes": "nid1", "user": user, "output": f"/{user}"})
    inside.now += 2
    inside.make_records(lambda: len(shown) == 2)
    assert [("bob", "/bob"), ("carol", "/carol")] == sorted(shown)
    assert inside.records("4711")


def test_a_sink_that_fails_keeps_no_record_from_its_user(inside, monkeypatch, caplog):
    shown = []

    class BrokenSink:
        def records(self, records):
            raise ZeroDivisionError

    async def append(user, path, text, *_):
        shown.append((user, path))

    monkeypatch.setattr(inside.server.publisher.writer, "append", append)
    monkeypatch.setattr(inside.server.harvest, "sinks", [BrokenSink()])
    inside.config.set_value("site.show", "output", "a test")
    inside.send("4711", "nid1", about={"nodes": "nid1", "user": "bob", "output": "/bob"})
    inside.now += 2
    inside.make_records()
    assert [("bob", "/bob")] == shown
    assert ["internal error; please report: records were not forwarded"] == [
        record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
