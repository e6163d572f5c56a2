"""A number has one form, whether it stands in a text, on a page, in a chart or in a comparison."""
from __future__ import annotations

import re

import page_records
import pytest
from test_html_page import Document
from test_job_diff import FAST, SLOW, diff, record, text

from iostats.report import job_charts, job_tables
from iostats.report.diff.diff_text import format_ratio
from iostats.report.html.page import make_page
from iostats.report.html.tables import make_size_table

SIZES = {"4 KiB", "8 KiB", "64 KiB", "1 MiB", "4 MiB"}


@pytest.fixture(scope="module", params=["small", "realistic", "wide"])
def forms(request):
    """A job's report in each form for people."""
    whole, config = getattr(page_records, request.param)()
    return [*(job_tables.format_report(whole, config, form, long, True)
              for form in ("grid", "plain", "markdown", "blocks") for long in (False, True)),
            Document(make_page(whole, config, [])).text]


def test_marks_have_one_form(forms):
    """>= and <=, on pages as in a terminal."""
    assert [] == [one for one in forms if re.search("[\u2265\u2264\u2248\u00d7]", one)]
    assert any(">= " in one for one in forms)


def test_large_numbers_have_separators(forms):
    """114,960 and never 114960; a year, a port and a target's number have four digits."""
    assert [] == [number for one in forms for number in re.findall(r"(?<![\w.,#])\d{5,}\b", one)]
    assert [] == [line for one in forms for line in re.findall(r".*\b\d{4,} OSTs.*", one)]


def test_sizes_of_requests_have_one_form():
    """1 MiB, and neither 1M nor 256 pages: in a chart, the table below it, and in text."""
    whole, config = page_records.realistic()
    fs = whole.file_systems[-1]
    assert {"1", "2", "16", "256", "1024"} == {
        size for pages in fs.request_pages.values() for size, count in pages.items() if count}
    assert SIZES == set(job_charts.make_size_chart(whole, fs).axis.names)
    assert SIZES == {row[1] for row in make_size_table(fs).rows}
    table = job_tables.format_report(whole, config, "markdown", True, False)
    assert SIZES == set(re.findall(r"(?m)^\| scratch +\| (?:read|write) +\| +(\d+ \w+) \|", table))
    blocks = job_tables.format_report(whole, config, "blocks", True, False)
    assert SIZES >= set(re.findall(r"up to (\d+ \w+)", blocks)) > set()


def test_each_change_is_a_factor():
    """A rise as 548x, a fall as 1/548, and neither as a percentage."""
    changes = [line.split()[-1] for line in text(diff(
        record(*SLOW), record(*FAST, name="4733"))).splitlines() if line.startswith("  ")]
    assert 6 == len(changes)
    assert [] == [one for one in changes if not re.fullmatch(r"[\d.,]+x|1/[\d.,]+", one)]
    assert ("1,417x", "1/1,417") == (format_ratio(1417, 1417), format_ratio(1 / 1417, 1 / 1417))
