"""
docs/explanation/peers.md: what iostats says of the three jobs is what it says of their records
today.
"""
from __future__ import annotations

import os
import re

import pytest
from trees import ROOT

from iostats.base.config import Config
from iostats.cli import report
from iostats.cli.record_file import read_records
from iostats.report.findings.evaluate import find_problems, list_checks

PAGE = ROOT / "docs" / "explanation" / "peers.md"
JOBS = ("small_writes", "metadata_storm", "healthy")


def page():
    return PAGE.read_text(encoding="utf-8")


def block(name):
    """The lines of the page between <!-- peers NAME --> and <!-- end -->."""
    return re.search(rf"<!-- peers {name} -->\n(.*?)<!-- end -->",
                     page(), re.S)[1]


@pytest.mark.parametrize("job", JOBS)
def test_the_page_shows_what_is_printed(job, capsys, monkeypatch):
    """The whole report of each record, as a log has it."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    path = f"tests/data/jobs/{job}.json"
    assert 0 == report.main([path])
    lines = ["", f"    $ iostats report {path}"]
    lines += [f"    {line}".rstrip() for line in capsys.readouterr().out.splitlines()]
    printed = "\n".join([*lines, "", ""])
    if os.environ.get("IOSTATS_WRITE_SCREENS"):
        PAGE.write_text(page().replace(block(job), printed),
                        encoding="utf-8")
    assert printed == block(job)


def test_our_row_is_made_of_the_findings():
    """The numbers that triggered them; of the healthy job what was looked at."""
    config, cells = Config(), []
    for job in JOBS:
        [record] = read_records(str(ROOT / "tests" / "data" / "jobs" / f"{job}.json"))
        found = find_problems(record, config)
        cells.append("; ".join(one.number for one in found) or list_checks(record, config))
    assert [f"| iostats | {' | '.join(cells)} | run: above |"] == [
        line for line in page().splitlines() if line.startswith("| iostats ")]
    assert cells[0].startswith("23,000,000 writes of 370 bytes on average, 61 %")
    assert cells[1].startswith("4,920,000 opens ") and "9,480,000 calls of stat()" in cells[1]
    assert cells[2].startswith("No problems found. Checked: writes, reads,")


def test_every_peer_has_its_source_and_how_it_is_known():
    rows = [line for line in page().splitlines() if line.startswith("| [")]
    assert 13 == len(rows)
    for row in rows:
        *_, known = row.strip("| ").split(" | ")
        assert 5 == len(row.strip("| ").split(" | ")) and "](https://" in row
        assert known.split(":")[0] in ("run", "read")
