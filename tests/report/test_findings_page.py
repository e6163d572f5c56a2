"""
docs/reference/findings.md, the table of rules, and [findings] in site.cfg: each has what the others
name.
"""

import re

import pytest
from trees import ROOT

from iostats.base.options import OPTIONS
from iostats.report.findings.rules import RULES

PAGE = (ROOT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8")
# "small-writes": the text below "## Small writes", by the anchor that a link to it has.
SECTIONS = {title.lower().replace(" ", "-"): text for title, text in re.findall(
    r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.M)}
COMMON = {"most", "off", "from_seconds", "from_bytes", "from_operations", "large_bytes",
          "from_percent", "untimed_per_second"}
KEYS = {name.partition(".")[2]: option for name, option in OPTIONS.items()
        if name.startswith("findings.")}


def test_each_rule_has_a_section_and_each_section_a_rule():
    """In the order of the table; what is true of all stands first."""
    first, *sections = SECTIONS
    assert "when-a-finding-is-shown" == first
    assert {rule.id.replace("_", "-") for rule in RULES} == set(sections)
    assert len(RULES) == len({rule.id for rule in RULES})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_section_names_the_thresholds_of_its_rule(rule):
    """Each key of its own; those of numbers of bytes and calls with their default."""
    section = SECTIONS[rule.id.replace("_", "-")]
    for key in rule.options:
        default = int(KEYS[key].default)
        texts = {f"{default}", f"{default >> 10} KiB", f"{default >> 20} MiB",
                 f"{default >> 30} GiB"}
        assert any(f"`{key}` ({text})" in section for text in texts), key


def test_each_key_is_of_one_rule_or_of_all():
    """And the page names those of all above the rules."""
    own = [key for rule in RULES for key in rule.options]
    assert sorted(KEYS) == sorted([*own, *COMMON])
    above = PAGE[:PAGE.index("## Data lost")]
    assert [] == [key for key in COMMON if f"`{key}`" not in above]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_means_and_what_to_do_in_short(rule):
    """Whole sentences, together two lines of a terminal."""
    for text in (rule.meaning, rule.advice):
        assert re.fullmatch(r"[A-Z].*\.", text)
    assert len(rule.meaning) + len(rule.advice) <= 152


def test_each_rule_has_its_source_or_that_there_is_none():
    """In the first column of the table of sources, which the link of each row is defined for."""
    table = PAGE[PAGE.index("### Sources"):PAGE.index("### Where thresholds come from")]
    named = [name for row in table.splitlines() if row.startswith("| `")
             for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert {rule.id for rule in RULES} == set(named)
    assert {*re.findall(r"\]\[([\w-]+)\]", PAGE)} == {*re.findall(r"^\[([\w-]+)\]: ", PAGE, re.M)}
