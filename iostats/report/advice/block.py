"""
Findings as text below the tables of a report.
"""

from __future__ import annotations

from iostats.base.text import cut, width_of, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iostats.report.advice.finding import Finding

WIDTH = 80
_WIDEST = 120                       # wider lines are hard to read
_INDENT = "    "
_LONGEST_NAME = 64


def lines(findings: Sequence[Finding], looked_at: str, labels: Mapping[str, str],
          show: Callable[[str], str], is_markdown: bool = False, width: int = WIDTH,
          headline: str = "") -> list[str]:
    """
    `headline`, and the block of `findings`, or `looked_at` where there are none; [] for no text.

    `labels`: the site's names of file systems; `show`: makes names that others have sent harmless;
    `width`: columns.
    """
    width = min(width, _WIDEST)
    above = [one for one in (headline, "" if findings else show(looked_at)) if one]
    above = above if is_markdown else [line for one in above for line in wrapped(one, width)]
    if not findings:
        return above
    found = ["Findings:"]
    for number, one in enumerate(findings, 1):
        name = _short(show(labels.get(one.file_system, one.file_system)))
        text = f"{_short(show(one.number))}.  {show(f'{one.meaning}  {one.advice}')}"
        if is_markdown:
            # A path of this host would be a link into the site that shows the Markdown.
            link = f"[{show(one.link)}]({one.link})" if "://" in one.link else show(one.link)
            found.append(f"{number}. {f'**{name}**: ' if name else ''}{text}"
                         f"{link and ' '}{link}")
        else:
            found += _with_link(wrapped(f" {number}. {f'{name}: ' if name else ''}{text}", width,
                                        _INDENT[1:]), show(one.link), width)
    return [*above, "\n".join(found)] if is_markdown else [*above, *found]


def _short(text: str) -> str:
    """A text whose names are no longer than those of hosts: five findings are to fit a screen."""
    return " ".join(cut(word, _LONGEST_NAME) for word in text.split(" "))


def _with_link(found: list[str], link: str, width: int) -> list[str]:
    """Lines with a link behind them, which is never broken, so that it can be clicked."""
    if link and width_of(found[-1]) + 2 + width_of(link) <= width:
        return [*found[:-1], f"{found[-1]}  {link}"]
    return [*found, _INDENT + link] if link else found
