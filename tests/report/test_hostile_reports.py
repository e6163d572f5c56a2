"""
Records whose names are hostile, and records of a release to come, through everything that shows a
record to people: text in all forms, iostats diff and why, a page, charts, pages of iostats web.

Names: HTML, commands to terminals, formulas, right-to-left override, 4 kB, new lines, halves of
UTF-16's pairs, which JSON lets in.  Harmless is: nothing that does not print, no line of a table
longer than its screen, no formula, no tag, no exception; and the numbers are still there.
"""
from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser

import page_records
import pytest

from iostats.base.config import Config
from iostats.base.text import measure_width
from iostats.cli import diff, report, site_client, why
from iostats.report import job_tables
from iostats.report.findings.evaluate import find_problems
from iostats.report.html.page import make_page, make_sections
from iostats.report.newer_release import NOTE
from iostats.totals.record import Record

EVIL = (*page_records.HOSTILE, "a\nb\rc\td", "\x9b2J\x85", "half \ud83d pair", "[bold red]x[/]",
        "a|b`c`\n| --- |", "+1+cmd|' /C calc'!A0", "-2-3", "@SUM(1)", "\uff1d1", "\u2066\u200f",
        "note: 23", "x\x00y")
IDS = [ascii(name)[:20] for name in EVIL]


class Tags(HTMLParser):
    """All tags of a document, and its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def with_names(name):
    """The record of hostile names, and `name` in the places where others put a name."""
    form = json.loads(json.dumps(page_records.hostile()[0]))
    form["job"].update(id=name, user=name)
    form["batch"].update(name=name, account=name, partition=name, cluster=name, outcome=name,
                         nodes=name)
    form["notes"] = [name]
    form["coverage"]["missing"] = {name: name}
    form["phases"] = [{"name": name, "seconds": 23.0, "coverage": {"reported": 1},
                       "file_systems": []}] if form["phases"] else []
    one = form["file_systems"][0]
    one.update(name=name, label=name, mounts=[name], notes=[name])
    for member in ("operations", "targets", "per_node", "metadata", "sources"):
        if one[member]:
            one[member][name] = next(iter(one[member].values()))
    for event in form["events"]:
        event.update(kind=name, cause=name, target=name, nodes=name, message=name, file_system=name)
    return form


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch):
    """shown(record, command, ...) -> what it prints of the record in a file."""
    path = tmp_path / "job.json"
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(form, main, *arguments):
        path.write_text(json.dumps(form))
        status = main([one.replace("FILE", str(path)) for one in arguments])
        out, err = capsys.readouterr()
        assert 0 == status and "" == err, err
        return out
    return run


def is_harmless(text):
    """Nothing in it that does not print but ends of lines."""
    return [] == [char for char in text if not char.isprintable() and char != "\n"]


FORMS = [(), ("--long",), ("--long", "--explain"), ("--format", "plain"), ("--format", "markdown"),
         ("--format", "markdown", "--long"), ("--format", "json")]


@pytest.mark.parametrize("name", EVIL, ids=IDS)
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_report_of_hostile_names_is_harmless(shown, name, form):
    """As text in all forms; its numbers are there: 41 MiB over the network, 82 opens."""
    out = shown(with_names(name), report.main, *form, "FILE")
    assert is_harmless(out)
    assert ("82" in out or "41" in out) and len(out.splitlines()) < 700
    if "json" not in form:
        # Of a text of kilobytes up to 2,000 characters are shown, of a name 256; four in a line.
        assert 9_000 > max(map(measure_width, out.splitlines()))
    if "markdown" in form:
        # Neither HTML nor a new cell or row.
        assert not re.search(r"(?<!\\)<[A-Za-z]", out)
    if "json" in form:
        found = json.loads(out)
        assert 23 == found["phases"][0]["seconds"] if found["phases"] else True


@pytest.mark.parametrize("name", EVIL, ids=IDS)
def test_csv_of_hostile_names_has_no_formula_and_its_numbers_are_numbers(shown, name):
    """A spreadsheet takes what begins with = + - @ for a formula; a text gets ' before it."""
    out = shown(with_names(name), report.main, "--format", "csv", "FILE")
    assert is_harmless(out)
    heading, *rows = csv.reader(io.StringIO(out))
    assert 7 == len(heading) and all(7 == len(row) for row in rows) and rows
    for row in rows:
        for text in row[:4]:
            assert not text.startswith(("=", "+", "-", "@", "\t", "\uff1d")), row
        assert row[4] == "" or float(row[4]) >= 0
    assert ["2", "82"] == sorted(row[4] for row in rows if row[3] == "open")


@pytest.mark.parametrize("name", EVIL, ids=IDS)
def test_diff_and_why_of_hostile_names_are_harmless(shown, name, monkeypatch):
    """Both sides have them; of why, other runs too."""
    form = with_names(name)
    other = json.loads(json.dumps(form).replace('"open": {"count": 82', '"open": {"count": 3700'))
    for fs in other["file_systems"]:
        if fs["application"]:
            fs["application"]["read_bytes"] *= 37
    (lambda path: path.write_text(json.dumps(other)))(__import__("pathlib").Path("other.json"))
    out = shown(form, diff.main, "--all", "FILE", "./other.json")
    assert is_harmless(out)
    assert is_harmless(shown(form, diff.main, "--json", "FILE", "./other.json"))
    monkeypatch.setattr(site_client, "ask_site", lambda config, method, params, within_s=0: {
        "record": [form], "jobs": {"jobs": [], "next": None}}.get(method))
    for options in ((), ("--json",)):
        out = shown(form, why.main, *options, "4711")
        assert is_harmless(out) and len(out) < 100_000


@pytest.mark.parametrize("name", EVIL, ids=IDS)
def test_a_page_of_hostile_names_has_no_tag_of_theirs(shown, name, tmp_path):
    """One script, ours; nothing is asked of anyone."""
    shown(with_names(name), report.main, "--html", "page.html", "FILE")
    text = (tmp_path / "page.html").read_text()
    tags = Tags(text).found
    assert 1 == sum(tag == "script" for tag, _ in tags) and not {"img", "iframe"} & {
        tag for tag, _ in tags}
    for _, attributes in tags:
        assert not [one for one in attributes if one.startswith("on")]
        assert not str(attributes.get("href", "")).lower().startswith("javascript")
    assert [] == [char for char in text if not char.isprintable() and char not in "\n\u200b"]
    assert len(text.encode()) <= 200_000


@pytest.mark.parametrize("name", EVIL, ids=IDS)
@pytest.mark.parametrize("kind", ["osts", "nodes", "sizes"])
def test_a_chart_of_hostile_names_is_harmless(shown, name, kind, tmp_path):
    form = with_names(name)
    out = shown(form, report.main, "--chart", kind, "--file-system",
                form["file_systems"][1]["name"], "--output", "chart.svg", "FILE")
    assert "" == out
    text = (tmp_path / "chart.svg").read_text()
    tags = {tag for tag, _ in Tags(text).found}
    assert not {"script", "img", "image", "a", "foreignobject"} & tags
    assert [] == [char for char in text if not char.isprintable() and char != "\n"]


# -- a release to come -----------------------------------------------------------------------------

def of_the_future(schema=2):
    """
    page_records.small() as a release to come may have it: other members everywhere, an operation
    and an event that nobody knows yet, null and other types where there was an object or a number.
    """
    form = json.loads(json.dumps(page_records.small()[0]))
    form["schema"] = schema
    form["tiers"] = {"scratch": 23}
    form["job"]["queue"] = {"name": "debug"}
    form["coverage"]["racks"] = [1, 2]
    one = form["file_systems"][0]
    one["compression"] = 1.37
    one["application"]["mapped_bytes"] = 41
    one["operations"]["teleport"] = {"count": 4123, "seconds": 2.3, "stddev_s": None,
                                     "percentiles": [1, 2]}
    one["too_low"] = [*one["too_low"], "mapped_bytes"]
    one["metadata"] = None
    one["per_node"] = [37]
    form["events"] = [{**page_records.event(), "kind": "quantum_flap", "cause": "entangled",
                       "colour": "red"}, None, {"kind": "evicted"}]
    form["batch"] = "slurm"
    form["findings"] = [{"id": 23}]
    return form


NAMES = {"schema 2", "tiers", "job.queue", "coverage.racks", "file_systems.compression",
         "file_systems.application.mapped_bytes", "file_systems.operations.percentiles",
         "file_systems.too_low", "file_systems.metadata", "file_systems.per_node", "events",
         "batch", "events.colour"}


def names_of(text):
    """What the one note names."""
    text = " ".join(text.split())
    said = NOTE.partition("of a ")[2]
    assert 1 == text.count(said), text
    return text.partition(said)[2]


@pytest.mark.parametrize("form", [(), ("--long",), ("--format", "markdown")], ids=" ".join)
def test_what_is_known_of_a_record_to_come_is_reported_and_the_rest_is_named(shown, form):
    """60 MiB read, 41 opens, an operation by its name; the rest in one note."""
    out = shown(of_the_future(), report.main, *form, "FILE")
    assert "60.0 MiB" in out and "41" in out
    assert "teleport" in out and ("4123" in out or "4,123" in out)
    assert "quantum flap" in out
    named = names_of(out.replace("\\_", "_"))
    left_out = [name for name in NAMES if name not in named]
    assert "findings" not in named and (not left_out or (form == () and "(--long)" in named))


def test_a_record_to_come_is_kept_as_json_and_csv(shown):
    """What is not known stays in JSON; a number of csv is a number."""
    found = json.loads(shown(of_the_future(), report.main, "--format", "json", "FILE"))
    assert {"scratch": 23} == found["tiers"] and 2 == found["schema"]
    assert {"name": "debug"} == found["job"]["queue"]
    rows = [*csv.reader(io.StringIO(shown(of_the_future(), report.main, "--format", "csv",
                                          "FILE")))]
    assert ["4123"] == [row[4] for row in rows if row[3] == "teleport"]


def test_a_record_to_come_is_compared_explained_and_shown_as_a_page(shown, monkeypatch, tmp_path):
    """diff, why, --html and the sections of iostats web: what is known, and one note."""
    form = of_the_future()
    out = shown(form, diff.main, "--all", "FILE", "FILE")
    assert "schema 2" in out and "tiers" in out
    monkeypatch.setattr(site_client, "ask_site", lambda config, method, params, within_s=0: {
        "record": [form], "jobs": {"jobs": [], "next": None}}.get(method))
    assert "tiers" in " ".join(names_of(shown(form, why.main, "4711")).split())
    shown(form, report.main, "--html", "page.html", "FILE")
    config = Config()
    record = job_tables.add_labels(form, config)
    for text in ((tmp_path / "page.html").read_text(),
                 make_sections(record, config, find_problems(record, config))):
        found = "".join(Tags(text).text)
        assert "60.0 MiB" in found and "teleport" in found
        assert "tiers" in names_of(found)
        assert "newer release of iostats; not shown: schema" in " ".join(found.split())


@pytest.mark.parametrize("gone", sorted(Record.__annotations__))
@pytest.mark.parametrize("instead", [None, "absent", 23, "text", [], {}, [None], {"a": None}],
                         ids=str)
def test_a_member_of_another_form_is_no_traceback(tmp_path, capsys, monkeypatch, gone, instead):
    """The report, or one line that says why there is none: without a job, nodes or file systems."""
    monkeypatch.chdir(tmp_path)
    form = of_the_future()
    if instead == "absent":
        form.pop(gone, None)
    else:
        form[gone] = instead
    if gone == "schema" and instead == "absent":
        form["schema"] = None
    (tmp_path / "job.json").write_text(json.dumps(form))
    for main, arguments in ((report.main, ["--long", "job.json"]),
                            (report.main, ["--html", "page.html", "job.json"]),
                            (diff.main, ["job.json", "job.json"])):
        status = main(arguments)
        out, err = capsys.readouterr()
        if status:
            assert 1 == err.count("\n") and err.startswith("iostats: job.json: ")
            assert gone in ("job", "coverage", "short", "file_systems")
        assert (status == 0) == (err == "") and "Traceback" not in out + err


def test_a_number_is_never_made_up():
    """What is no number is not 0: its object is unknown, and so is what is made of it."""
    form = of_the_future()
    form["file_systems"][0]["application"]["read_bytes"] = "many"
    record = job_tables.add_labels(form, Config())
    assert record.file_systems[0].application is None
    assert "60.0 MiB" not in job_tables.format_report(record, Config())
    [note] = [one for one in record.notes if one.startswith(NOTE)]
    assert "file_systems.application," in note
    # It is as it was, and can be shown again.
    assert record == job_tables.add_labels(record, Config())
    assert make_page(record, Config(), [])


def test_a_record_of_this_release_has_no_note():
    for kind in ("small", "realistic", "hostile", "wide"):
        record, _ = getattr(page_records, kind)()
        assert [] == [note for note in record.notes if note.startswith(NOTE)]
