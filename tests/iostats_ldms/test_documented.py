"""
docs/how-to/ldms.md: its description is right, and check says what the page says.
"""

import re

import pytest
from trees import ROOT

from iostats_ldms.cli import main
from iostats_ldms.description.read import read_description

PAGE = (ROOT / "docs" / "how-to" / "ldms.md").read_text(encoding="utf-8")
THE_DESCRIPTION = PAGE[PAGE.index("## The description"):PAGE.index("## Configuration files")]
[EXAMPLE] = re.findall(r"```yaml\n(daemons:\n.*?)```", THE_DESCRIPTION, re.DOTALL)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_says_what_the_page_says(directory, capsys):
    (directory / "cluster.yaml").write_text(EXAMPLE, encoding="utf-8")
    [said] = re.findall(r"    \$ iostats ldms check cluster.yaml\n    (.*\n)", PAGE)

    assert 0 == main(["check", "cluster.yaml"])

    assert (said, "") == capsys.readouterr()


def test_a_fault_is_told_as_the_page_says(directory, capsys):
    (directory / "cluster.yaml").write_text(EXAMPLE.replace("20s", "soon", 1), encoding="utf-8")
    [said] = re.findall(r"    (cluster.yaml:\d+:.*soon'\n)", PAGE)

    assert 1 == main(["check", "cluster.yaml"])

    assert ("", f"iostats: {said}") == capsys.readouterr()


def test_what_is_converted_is_the_same(directory, capsys):
    (directory / "cluster.yaml").write_text(EXAMPLE, encoding="utf-8")

    assert 0 == main(["convert", "cluster.yaml"])

    assert read_description(EXAMPLE) == read_description(capsys.readouterr().out)
