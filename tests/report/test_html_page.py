"""A job's page as text: its numbers, whole tags, nothing from elsewhere, and its size."""
from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import page_records
import pytest
from page_records import HOSTILE
from test_job_totals import llite
from test_why_parts import at_servers
from trees import report as of_node

from iostats.base.units import format_moment
from iostats.load.time_lines import JobOnTarget, Line
from iostats.report.findings.finding import Finding
from iostats.report.html.page import make_page, make_sections
from iostats.report.why.cause import BUSY_TARGET, OWN_PATTERN, Cause
from iostats.totals.job_totals import Totals

FINDING = Finding("small_writes", "scratch", 0.8, "97 % of 23,000 writes", "Each is slow.",
                  "Write more at once.", "https://example.org/advice#small_writes", {})
_VOID = {"meta", "link", "br", "img", "input"}


class Document(HTMLParser):
    """
    A document, which fails where an end tag is missing or is another's, and where an attribute is
    there twice.

    Attributes:
        tags: [(tag, {attribute: value})].
        text: all text but of styles and scripts, one piece after the other.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self._open, self._pieces = [], [], []
        self.feed(text)
        self.close()
        assert [] == self._open
        self.text = " ".join(" ".join(self._pieces).split())

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"{tag}: {attributes}"
        self.tags.append((tag, dict(attributes)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert tag == self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("style", "script"):
            self._pieces.append(data)

    def of(self, tag):
        return [attributes for one, attributes in self.tags if one == tag]


def document(kind, *findings, **how):
    record, config = getattr(page_records, kind)()
    return Document(make_page(record, config, findings, **how))


def test_the_numbers_are_those_of_the_record():
    """23 + 37 MiB in 23 + 37 calls; 41 opens, 4.6 of both nodes' 200 seconds; node 3 is missing."""
    record, config = page_records.small()
    text = make_page(record, config, [FINDING])
    values = re.findall(r'<data value="([^"]*)">([^<]*)<', html.unescape(text))
    assert [("62914560", ">= 60.0 MiB"), ("0", ">= 0 bytes"), ("41", ">= 41"),
            ("4.600000", ">= 4.6 s"), ("0.683333", "~ 68 %")] == values
    found = Document(text).text
    assert "in >= 60 calls, ~ 1.0 MiB each" in found     # of two lower bounds
    assert "2 of 3 nodes reported; missing: 1 node (no report)" in found
    assert "1 node has no numbers: every amount is a lower bound (>=)" in found
    assert "~ 2.3 % of node time" in found
    assert "mostly open (>= 41)" in found and "open >= 41 >= 4.600 ~ 112.195 - ~ 100 %" in found
    assert "Read by the application >= 60.0 MiB >= 60 ~ 1.0 MiB" in found


def test_requests_of_a_job_with_a_node_missing_are_marked():
    """90 in 100 s of the one that reported; what the other one asked is not known."""
    totals = Totals("4711", 2)
    totals.add(of_node("nid00001", [
        page_records.delta("llite", "scratch", open=1, opencount=37),
        page_records.delta("md_stats", "scratch", "MDT0000", close=90)], elapsed_s=100.0))
    record, config = page_records.labelled(totals)
    found = Document(make_page(record, config, [])).text
    assert "MDT0000 close >= 90 nid00001 >= 90 ~ 0.9 >= 0.9" in found
    assert "llite opencount >= 37" in found


def test_the_first_thing_said_is_whether_io_made_it_slow():
    """Of one that is whole: 9,196 s in writes alone, of 16 nodes for 1,867 s each."""
    found = document("realistic", FINDING).text
    assert "✗ I/O took much of this job's time" in found
    assert found.index("I/O took much") < found.index("97 % of 23,000 writes") < found.index(
        "I/O over time")


def test_a_cause_is_the_answer_where_causes_were_looked_for():
    cause = Cause(BUSY_TARGET, 0.8, "medium", 0.23, "OST0007 took 9.3 times its usual time",
                  ["41 ms, usually 4"], {})
    found = document("small", causes=[cause]).text
    assert ("A busy target probably slowed this job OST0007 took 9.3 times its usual time. "
            "Confidence: medium. It cost at most 23 % of the run time.") in found
    assert "Where its time went" in found and "41 ms, usually 4" in found


def test_a_cause_that_is_a_finding_repeats_no_more_than_its_number():
    """What it means and what to do stand once; what only the cause tells stands below it."""
    cause = Cause(OWN_PATTERN, 0.8, "low", None, "Inefficient I/O pattern: 23 writes", [
        FINDING.meaning, FINDING.advice, FINDING.link, "41 ms in its other runs"],
        {"finding": "small_writes"})
    found = document("small", FINDING, causes=[cause]).text
    assert 1 == found.count(FINDING.meaning) == found.count(FINDING.advice)
    assert ("Inefficient I/O pattern: 23 writes Confidence: low. Its cost was not measured. 41 ms "
            "in its other runs") in found


def test_where_nothing_is_known_nothing_is_called_well():
    record, config = page_records.labelled(Totals("4711", 4))
    found = Document(make_page(record, config, [])).text
    assert "What to change No findings: no data for this job's I/O." in found


def test_without_findings_it_says_what_was_looked_at():
    assert "I have looked at 23 rules" in document("small", looked_at="I have looked at 23 rules"
                                                   ).text


@pytest.mark.parametrize("kind", ["small", "realistic", "hostile"])
def test_nothing_is_asked_for_from_elsewhere(kind):
    """And nothing has a style of its own, or runs by an attribute: a site's policy may forbid it"""
    found = document(kind, FINDING)
    for tag, attributes in found.tags:
        assert "style" not in attributes and "src" not in attributes, (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert tag not in ("img", "iframe", "object", "embed", "base", "form"), attributes
        if tag != "a":
            assert attributes.get("href", "data:,") == "data:,"
    assert {"#report", FINDING.link} == {one["href"] for one in found.of("a")}
    [policy] = [one["content"] for one in found.of("meta")
                if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_a_wide_job_is_a_small_page():
    """1,000 nodes and 1,000 OSTs in 200 kB, with a bar for each; and the rest of tables counted."""
    record, config = page_records.wide()
    text = make_page(record, config, [FINDING] * 9)
    assert len(text.encode()) <= 200_000
    found = Document(text)
    assert "and 980 more" in found.text
    assert 'viewBox="0 0 1000 ' in text
    assert "4 more" in found.text                       # of nine findings


def test_many_wide_file_systems_are_a_small_page_too():
    """Six of them with 1,000 nodes and OSTs: charts of four; of names of 4 kB, of fewer."""
    record, config = page_records.wide()
    [fs] = record.file_systems
    for name in ("fs", HOSTILE[4]):
        names = [f"{number}{name}" for number in range(6)]
        nodes = {node: {"elapsed_s": 23.0, "file_systems": {name: {
            "read_bytes": number * 7919 % 1009, "write_bytes": number * 104_729 % 997,
            "open": number} for name in names}} for number, node in enumerate(record.nodes)}
        text = make_page(record.replaced(nodes=nodes, file_systems=[
            fs.replaced(name=name, label=name, operations={
                f"{name}{number}": fs.operations["open"] for number in range(50)},
                per_node={f"{name}{number}": fs.per_node["open"] for number in range(50)})
            for name in names]), config, [FINDING] * 9)
        assert len(text.encode()) <= 200_000
        Document(text)


def test_what_others_name_is_text():
    """Neither a tag nor a command nor a turn of direction; 4 kB do not come through."""
    record, config = page_records.hostile()
    evil = Finding("small_writes", HOSTILE[0], 0.8, HOSTILE[5], HOSTILE[0], HOSTILE[6],
                   "javascript:alert(23)", {})
    text = make_page(record, config, [evil], [
        Cause("fault", 1, "low", 1, HOSTILE[0], [HOSTILE[5]], {})])
    found = Document(text)
    assert 1 == len(found.of("script"))
    assert "javascript:alert(23)" not in [one["href"] for one in found.of("a")]
    assert "\x1b" not in text and "\u202e" not in text
    assert "x" * 2001 not in text
    assert HOSTILE[0] in found.text and "\\x1b[31mred" in found.text and "{{ 41 }}" in found.text
    assert "日本語 &amp;" in found.text


def test_ids_are_there_once_and_name_what_is_there():
    for kind in ("realistic", "hostile", "wide"):
        found = document(kind, FINDING)
        ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        named = {name for _, attributes in found.tags
                 for name in attributes.get("aria-labelledby", "").split()}
        assert named <= set(ids)
        assert all(re.fullmatch(r"[a-z0-9-]+", one) for one in ids)


def test_a_record_of_a_newer_release_is_shown_as_far_as_it_is_known():
    record, config = page_records.small()
    found = Document(make_page(record.replaced(schema=2, tiers={"scratch": 23}), config, [])).text
    assert "newer release of iostats; not shown: schema 2 , tiers" in found
    assert "60.0 MiB" in found


def test_a_history_shows_the_job_among_all_jobs():
    """The record has rates of its own; all jobs' requests took 4.1 ms at worst, 1.3 as a rule."""
    record, config = page_records.realistic()
    found = Document(make_page(record, config, [], history=page_records.history()))
    assert "This job among all jobs, scratch" in found.text
    assert "peak 4.100 ms" in found.text and "dashed line: all jobs" in found.text
    assert "from written by this job all jobs mean time of a request" in found.text
    assert format_moment(record["job"]["started"] - 300) in found.text
    assert [one for one in found.of("path") if one["class"] == "c-gap"]
    assert "1: evicted scratch-OST0003, " + format_moment(
        record["events"][0]["time"], "%H:%M:%S") + " ; grey: not known" in found.text
    assert "scratch OST0007 4733 bob 23 bytes 37.0 MiB 41" in found.text
    assert "scratch OST0007 (another user's) - 0 bytes 23 bytes -" in found.text


def test_what_others_did_after_the_job_is_not_told_as_meanwhile():
    """The job ended 12 s into an interval of 30 s: most of that was after it."""
    record, config = page_records.realistic()
    history = page_records.history()
    [target] = history.targets
    line = Line(history.ended - 72, 30.0, {"write_bytes": [37, 41, 5300], "requests": [2, 3, 700]})
    late = Line(history.ended - 12, 30.0, {"write_bytes": [4100], "requests": [61]})
    found = Document(make_page(record, config, [],
                               history=history._replace(targets=[target._replace(
        others=[JobOnTarget("4733", "bob", line), JobOnTarget("4739", "carol", late)])])))
    assert "scratch OST0007 4733 bob 0 bytes 78 bytes 5" in found.text
    assert "4739" not in found.text


def test_clocks_that_are_wrong_do_no_harm():
    """Moments that no calendar has are "-"; counts may be as large as JSON's."""
    record, config = page_records.realistic()
    for started in (1e18, -1e18, 0.0):
        found = Document(make_page(record.replaced(job={**record.job, "started": started}), config,
                                   [],
                                   history=page_records.history(), made_at=started))
        assert ("Began -" in found.text) == (started != 0)
    [fs] = [fs for fs in record.file_systems if fs.name == "scratch"]
    huge = fs.replaced(application={**fs.application, "read_bytes": 2**80, "read_calls": 3})
    found = Document(make_page(record.replaced(file_systems=[huge]), config, []))
    assert "1,048,576.0 EiB" in found.text


def test_sections_are_for_another_layout():
    """One article with its heading, and neither style nor script."""
    record, config = page_records.small()
    found = Document(make_sections(record, config, []))
    assert found.tags[0] == ("article", {"class": "report"})
    assert 1 == len(found.of("h1")) and [] == found.of("style") + found.of("script")


def test_times_that_would_be_0_000_s_have_no_row_over_the_nodes():
    """499 us, and 500 us, by the node with most."""
    totals = Totals("4711", 2)
    for number, us in enumerate((37, 23)):
        totals.add(of_node(f"nid0000{number}", [llite(
            open=us, open_us=500 - us * number, close=us, close_us=499 - us * number)]))
    text = Document(make_page(totals.record(), page_records.small()[1], [])).text
    table = text.partition("Spread over the nodes")[2]
    assert "time in open nid00000" in table
    assert "time in close" not in table and "close nid00000" in table


def test_what_each_program_did_has_a_table():
    """By the storage servers; the one with most bytes first."""
    record, config = page_records.small()
    harvest = at_servers(23.0).harvest
    [scratch] = harvest.file_systems
    assert "By program" not in Document(make_page(record.replaced(harvest=harvest), config,
                                                  [])).text
    scratch = scratch.replaced(programs={"tar": {"read_bytes": 23 << 20, "open": 5},
                                         "solve": {"write_bytes": 37 << 20, "open": 41}})
    text = Document(make_page(record.replaced(harvest=harvest.replaced(file_systems=[scratch])),
                              config,
                              [])).text
    assert ("By program File system Program Read Written Operations scratch solve 0 bytes 37.0 MiB "
            "41 scratch tar 23.0 MiB 0 bytes 5 As the storage servers counted") in text


def test_what_each_step_did_has_a_table():
    record, config = page_records.small()
    harvest = at_servers(23.0).harvest
    [scratch] = harvest.file_systems
    scratch = scratch.replaced(steps={"10": {"read_bytes": 23 << 20, "open": 5},
                                      "9": {"write_bytes": 37 << 20, "open": 41}})
    text = Document(make_page(record.replaced(harvest=harvest.replaced(file_systems=[scratch])),
                              config, [])).text
    assert ("By step File system Step Read Written Operations scratch 9 0 bytes 37.0 MiB 41 "
            "scratch 10 23.0 MiB 0 bytes 5") in text
