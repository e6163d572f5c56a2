"""
A finding: the result of a rule for a job, and its text below the tables of a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.text import cut, measure_width, wrap
from iostats.totals.bounds import LUSTRE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from iostats.report.why.cause import Cause

WIDTH = 80
_WIDEST = 120                       # wider lines are hard to read
_INDENT = "    "
_LONGEST_NAME = 64


class Finding(NamedTuple):
    """A problem in a job's I/O: its numbers, its meaning, and a remedy."""

    id: str         # of its rule, as in docs/reference/findings.md and in [findings]: small_writes
    file_system: str  # as Lustre calls it, or as mounted; "" where it is about the whole job
    weight: float   # for sorting only, the highest first, as it is partly an estimate
    number: str     # what made the rule hold, as text: "1,204,113 writes of 812 bytes on average"
    meaning: str    # what that means, a sentence
    advice: str     # what to do, a sentence
    link: str       # its section in the documentation
    evidence: dict[str, Any]  # {name: number} that the rule used, for programs
    # an upper bound, as a part of the run time (0 to 1); None if it was not measured
    cost: float | None = None
    # False if it holds only if one thread of each node made all of the calls
    is_certain: bool = True
    kind: str = ""      # of its file system, as in the record; "" where it is about the whole job

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is about another file system than Lustre, or about local disks."""
        return self.kind not in ("", LUSTRE)


def as_form(finding: Finding | Cause) -> dict[str, object]:
    """
    A finding (RecordedFinding), or a cause of `iostats why`, as JSON: without what only sorts and
    weighs them.
    """
    form: dict[str, Any] = finding._asdict()
    for name in ("weight", *(("is_certain", "kind") if isinstance(finding, Finding) else ())):
        del form[name]
    return form


def list_findings(findings: Sequence[Finding], looked_at: str, labels: Mapping[str, str],
                  show: Callable[[str], str], is_markdown: bool = False, width: int = WIDTH,
                  headline: str = "") -> list[str]:
    """
    The `headline`, and the block of `findings`, or if there are none, `looked_at`.

    `labels`: the site's names of file systems; `show`: makes names that others have sent harmless;
    `width`: columns.
    """
    width = min(width, _WIDEST)
    above = [text for text in (headline, "" if findings else show(looked_at)) if text]
    above = above if is_markdown else [line for text in above for line in wrap(text, width)]
    if not findings:
        return above
    below = ["Findings:"]
    for number, finding in enumerate(findings, 1):
        name = _shorten_names(show(labels.get(finding.file_system, finding.file_system)))
        text = (f"{_shorten_names(show(finding.number))}.  "
                f"{show(f'{finding.meaning}  {finding.advice}')}")
        url = finding.link
        if is_markdown:
            # A path of this host would be a link into the site that shows the Markdown.
            link = f"[{show(url)}]({url})" if "://" in url else show(url)
            below.append(f"{number}. {f'**{name}**: ' if name else ''}{text}"
                         f"{link and ' '}{link}")
        else:
            below += _append_link(wrap(f" {number}. {f'{name}: ' if name else ''}{text}", width,
                                       _INDENT[1:]), show(url), width)
    return [*above, "\n".join(below)] if is_markdown else [*above, *below]


def _shorten_names(text: str) -> str:
    """A text whose names are no longer than those of hosts: five findings are to fit a screen."""
    return " ".join(cut(word, _LONGEST_NAME) for word in text.split(" "))


def _append_link(lines: list[str], link: str, width: int) -> list[str]:
    """Lines with a link behind them, which is never broken, so that it can be clicked."""
    if link and measure_width(lines[-1]) + 2 + measure_width(link) <= width:
        return [*lines[:-1], f"{lines[-1]}  {link}"]
    return [*lines, _INDENT + link] if link else lines
