"""docs/glossary.md: the vocabulary of documents, messages and code."""

import re
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]


def rows():
    text = (HOME / "docs/glossary.md").read_text()
    found = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines()
             if line.startswith("| ") and not line.startswith("| term |")]
    return found


def test_each_term_has_a_definition_an_example_and_what_it_replaces():
    """60 to 100 terms, each defined once."""
    terms = [row[0] for row in rows()]
    assert 60 <= len(terms) <= 100
    assert len(terms) == len(set(terms))
    assert [] == [row for row in rows() if len(row) != 4 or not all(map(str.strip, row))]


def test_a_definition_is_a_sentence():
    """It begins with a capital letter and ends with a full stop, so that it can be quoted."""
    assert [] == [row[:2] for row in rows() if not re.match(r"[A-Z].*\.$", row[1])]
