"""
`iostats diff` with files, and the examples of docs/reference/reports.md; jobs of a site's server
are in test_report_command.py.
"""
from __future__ import annotations

import json
import os
import re

import pytest
from processes import REPOSITORY
from test_job_diff import job, llite, md_stats, of_node, record
from test_screens import SCREENS

from iostats.cli import diff
from iostats.totals.record import Record

GIB = 2**30
PAGE = REPOSITORY / "docs" / "reference" / "reports.md"


def calls(writes, seconds, nodes):
    return record(
        llite(write_bytes=41 * GIB // nodes, write_calls=writes // nodes,
              write=writes // nodes, write_us=seconds * 1_000_000 // nodes,
              open=1_236 // nodes, open_us=8_300_000 // nodes, close=1_236 // nodes),
        md_stats(close=1_236 // nodes, getattr=37_000 // nodes), nodes=nodes,
        elapsed_s=1867.0 if nodes == 2 else 761.0)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """before.json and after.json, in the directory in which we are."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "site.cfg").write_text("")
    for name, found in (("before", calls(23_000_000, 2_911, 2)), ("after", calls(41_984, 73, 4))):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    return tmp_path


def run(*arguments):
    return diff.main(["--config", "site.cfg", *map(str, arguments)])


def part(name):
    """The indented text between <!-- NAME --> and <!-- end --> of the page."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE.read_text(), re.S).group(1)
    return re.sub("^    ", "", found, flags=re.M).strip("\n")


def test_the_example_of_the_page_is_what_is_printed(files, capsys):
    assert 0 == run("before.json", "after.json")
    printed = capsys.readouterr().out
    if os.environ.get("IOSTATS_WRITE_SCREENS"):
        write("diff", f"$ iostats diff before.json after.json\n{printed}")
    shown = part("diff").partition("\n")[2].splitlines()
    assert "  writes                         23,000,000      41,984   1/548          1/447" in shown
    assert [line for line in printed.splitlines() if not line.startswith("Finding")] == [
        line for line in shown if not line.startswith("Finding")]


def small_writes(*nodes):
    """A job of two nodes, these of which have reported; the second one alone used archive."""
    of = {1: [llite(write_bytes=23 * GIB, write_calls=3_000_000)],
          2: [llite(write_bytes=23 * GIB, write_calls=3_000_000),
              llite("archive", write_bytes=37 * GIB, write_calls=37_000)]}
    return job(*(of_node(f"nid{number:05}", of[number], elapsed_s=1867.0) for number in nodes),
               expected=2)[0]


def test_what_a_missing_node_may_have_is_not_said_to_be_gone(files, capsys):
    """The same job, once with both nodes and once with one: nothing has changed for certain."""
    for name, nodes in (("whole", (1, 2)), ("part", (1,))):
        (files / f"{name}.json").write_text(json.dumps(small_writes(*nodes)))
    for a, b, what in (("whole", "part", "resolved"), ("part", "whole", "new")):
        assert 0 == run(f"{a}.json", f"{b}.json")
        out = capsys.readouterr().out
        assert "No difference that is certain." in out
        assert f"Finding perhaps {what}: scratch: 6,000,000 writes" in out
        assert f"Finding {what}" not in out and "alone" not in out
        assert ("archive: used by whole.json and not by those nodes of part.json that are known: "
                "37.0 GiB written") in " ".join(out.split())
        assert 0 == run("--json", f"{a}.json", f"{b}.json")
        form = json.loads(capsys.readouterr().out)
        side = "a" if a == "whole" else "b"
        assert ({"a": [], "b": []}, ["archive"]) == (form["only_in"], form["perhaps_only_in"][side])
        assert ([], ["small_writes"]) == tuple(
            [one["id"] for one in form["findings"][name]] for name in (what, f"perhaps_{what}"))


def test_what_may_be_the_nodes_own_is_told_of_each(files, capsys):
    """600 of 1,236 opens of the one; the other's nodes do not know."""
    path = files / "before.json"
    found = json.loads(path.read_text())
    found["file_systems"][0]["idle"] = {"nodes": 2, "seconds": 20_000.0, "expected": {"open": 600}}
    path.write_text(json.dumps(found))
    note = ("scratch: about 600 of 1,236 open may be the nodes' own (daemons, health checks: "
            "measured while no job ran, on 2 of 2 nodes)")
    assert 0 == run("before.json", "after.json")
    assert [f"note: before.json: {note}"] == [
        line for line in capsys.readouterr().out.replace("\n  ", " ").splitlines()
        if line.startswith("note:")]
    assert 0 == run("--json", "before.json", "after.json")
    told = json.loads(capsys.readouterr().out)
    assert [[note], []] == [told[side]["notes"] for side in ("a", "b")]


def test_the_screen_of_the_page_is_the_one_that_is_kept():
    screen = (SCREENS / "one_node_80.txt").read_text()
    screen = screen[screen.index("Transfers "):]
    if os.environ.get("IOSTATS_WRITE_SCREENS"):
        write("long", screen)
    assert part("long") == screen.strip("\n")


@pytest.mark.parametrize("records, status, said", [
    ([], 1, "job 4733 is not known"),
    (["4733_1", "4733_2"], 2, "4733 is 2 jobs; name one of them: 4733_1, 4733_2"),
], ids=["none", "an array"])
def test_a_job_that_is_none_or_several(files, capsys, monkeypatch, records, status, said):
    """What the site's server and the accounting know of it."""
    found = [Record.of({**record(llite(open=23)), "job": {**record()["job"], "id": name}})
             for name in records]
    monkeypatch.setattr(diff, "fetch_records", lambda *_: (found, None))
    monkeypatch.setattr(diff.unfinished, "explain_missing_reports",
                        lambda jobs, _: {jobs[0]: f"job {jobs[0]} is not known"})
    assert status == run("before.json", "4733")
    assert f"iostats: {said}\n" == capsys.readouterr().err


def write(name, text):
    """Into the page, as the screens are written."""
    block = "".join(f"    {line}".rstrip() + "\n" for line in text.strip("\n").split("\n"))
    PAGE.write_text(re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)",
                           lambda found: f"{found[1]}\n{block}\n{found[2]}", PAGE.read_text(),
                           flags=re.S))


def test_json_has_both_bounds(files, capsys):
    assert 0 == run("--json", "before.json", "./after.json")
    found = json.loads(capsys.readouterr().out)
    [writes] = [one for one in found["changes"] if one["metric"] == "writes"]
    assert ("fell", 23_000_000, 41_984) == (
        writes["change"], writes["a"]["low"], writes["b"]["high"])
    assert ("before.json", 2, 4) == (found["a"]["name"], found["a"]["nodes"], found["b"]["nodes"])


def test_options_may_stand_between_the_jobs(files, capsys):
    assert 0 == run("before.json", "after.json", "--all")
    text = capsys.readouterr().out
    assert 0 == run("before.json", "--all", "after.json")
    assert text == capsys.readouterr().out != ""


def test_the_same_file_twice(files, capsys):
    assert 0 == run("before.json", "before.json")
    out = capsys.readouterr().out
    assert "before.json (A): job 4711, alice" in out and "\nNo difference.\n" in out


EXPECTED = "expected records as `iostats report --format json` writes them"


@pytest.mark.parametrize("arguments, status, said", [
    (["before.json"], 2, "expected two jobs, got 1 (see --help)"),
    (["before.json", "none.json"], 1, "none.json: no such file"),
    (["before.json", "./none:solve"], 1, "./none: no such file"),
    (["before.json", "odd.json"], 1, f"odd.json: {EXPECTED}, got no JSON: Expecting property name "
                                     f"enclosed in double quotes: line 1 column 2 (char 1)"),
    (["before.json", "list.json"], 1, f"list.json: {EXPECTED}, got 1"),
    (["before.json", "job.json"], 1, f"job.json: {EXPECTED}, got {{\"job\": 23, "),
    (["before.json", "two.json"], 1, "two.json: expected one record, got 2"),
    (["before.json", "empty.json"], 1, "empty.json: there is no record in it"),
    (["before.json", "deep.json"], 1, f"deep.json: {EXPECTED}, got no JSON: maximum recursion"),
    (["before.json", "nan.json"], 1, f"nan.json: {EXPECTED}, got no JSON: NaN is no number"),
    (["before.json", "huge.json"], 1, f"huge.json: {EXPECTED}, got no JSON: 1e999 is too large"),
    (["before.json", "/dev/zero"], 1, "/dev/zero: too large: more than 64 MiB of records"),
    (["before.json", "minus.json"], 1, "minus.json: file_systems[0].calls.write.count is -23, "
                                       "expected no number below 0 there"),
    (["before.json", "."], 1, ".: cannot be read: Is a directory"),
    (["before.json:solve", "before.json"], 1, "before.json:solve: no part 'solve'; it has no "
                                              "parts (see `iostats mark`)"),
    (["--from", "here", "a", "b"], 2, "--from: expected site or comment, got 'here'"),
    (["before.json", "a b"], 2, "A and B: "),
])
def test_what_is_wrong_is_one_line(files, capsys, arguments, status, said):
    (files / "odd.json").write_text("{")
    (files / "list.json").write_text("[1]")
    (files / "job.json").write_text('{"job": 23, "coverage": {}, "file_systems": []}')
    (files / "two.json").write_text((files / "before.json").read_text() * 2)
    (files / "empty.json").write_text("")
    (files / "deep.json").write_text("[" * 100_000)
    (files / "nan.json").write_text('{"job": {"elapsed_s": NaN}, "file_systems": []}')
    (files / "huge.json").write_text('{"job": {"elapsed_s": 1e999}, "file_systems": []}')
    minus = json.loads((files / "before.json").read_text())
    minus["file_systems"][0]["calls"]["write"]["count"] = -23
    (files / "minus.json").write_text(json.dumps(minus, indent=2))
    assert status == run(*arguments)
    out, err = capsys.readouterr()
    assert "" == out and err.startswith(f"iostats: {said}") and 1 == err.count("\n")
