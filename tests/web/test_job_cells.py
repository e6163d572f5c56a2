"""The short ways by which rows of jobs become HTML say what `iostats jobs` says."""
from __future__ import annotations

import html
import re

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats.report import job_fields, job_list
from iostats.web import jobs_page
from iostats.web.query import PageQuery


class Visitor:
    """What a page's list needs of a visit."""

    base, labels, units, query = "/at", {"snx1": "BW <Home>"}, "binary", PageQuery("since=today")


_NAME = st.one_of(st.sampled_from(["relax", "", "<b>hi</b>", "a" * 300, "\u202eevil", "日本",
                                   ".."]), st.text(max_size=12))
_NUMBER = st.one_of(st.none(), st.integers(0, 2**50))
_FIVE = ["read_bytes", "write_bytes", "opens", "creates", "operations"]


@st.composite
def _rows(draw):
    row = dict.fromkeys(job_fields.NAMES)
    row.update({name: draw(_NUMBER) for name in _FIVE})
    row.update({f"by_node_{name}{end}": draw(st.integers(0, 2**40)) for name in (
        "read_bytes", "write_bytes", "operations") for end in ("", "_max")})
    low = draw(st.lists(st.sampled_from(_FIVE), unique=True))
    row.update(
        job_id=draw(_NAME) or "4711", raw_job_id=draw(_NAME), user=draw(_NAME), name=draw(_NAME),
        cluster=draw(_NAME), outcome=draw(st.sampled_from(["COMPLETED", "FAILED", "", "<i>"])),
        attempt=draw(st.integers(0, 3)), nodes=draw(_NUMBER), reported=draw(st.integers(0, 41)),
        started=draw(st.one_of(st.none(), st.floats(0, 4e9))), ended=None,
        elapsed_s=draw(st.one_of(st.none(), st.floats(0, 1e7))), shared=draw(st.integers(0, 1)),
        file_systems=draw(st.lists(st.sampled_from(["scratch", "snx1", "<u>"]), max_size=8)),
        source=draw(st.sampled_from(["nodes", "servers", "exports", ""])), lower_bound=bool(low),
        too_low=low, too_high=draw(st.lists(st.sampled_from(_FIVE[:2]), unique=True)),
        events=draw(st.sampled_from([None, 0, 23])), data_lost=draw(st.sampled_from(["", "lost"])),
        final=draw(st.booleans()), by_node_why="", net_lower_bound=False,
        server_lower_bound=False)
    return row


@settings(max_examples=examples(60))
@given(st.lists(_rows(), max_size=4))
def test_a_cell_has_the_text_of_the_command(rows):
    table = jobs_page.format_table(rows, Visitor)
    found = [re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", line, re.S)
             for line in table.split("</tr>\n") if line]
    assert len(rows) == len(found)
    for row, cells in zip(rows, found):
        for (column, _), cell in zip(jobs_page.COLUMNS, cells):
            field = job_fields.find_field(column, "")
            text = html.unescape(re.sub(r"<[^>]*>", "", cell))
            wanted = job_list.format_cell(row, field)
            if column in ("FileSystems", "Start"):           # links; to the minute
                continue
            full = [html.unescape(one) for one in re.findall(r'title="([^"]*)"', cell)]
            assert text == wanted or (text.endswith("…") and wanted.startswith(text[:-1])) or (
                wanted in full), (column, text, wanted)


@given(st.lists(_rows(), min_size=1, max_size=2))
def test_no_name_becomes_markup_or_another_address(rows):
    table = jobs_page.format_table(rows, Visitor)
    assert {"tr", "th", "td", "a", "bdi", "span", "wbr", "/tr", "/th", "/td", "/a", "/bdi",
            "/span"} >= set(re.findall(r"<([a-z/]+)", table))
    for to in re.findall(r'href="([^"]*)"', table):
        assert re.match(r"/at/(job|fs|events)[/?]|\?", to), to
