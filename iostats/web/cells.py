"""
Tables of a page: a list's rows and columns -> HTML.

A list may have 5,000 rows, so its cells are put together here and not by a template; every text is
escaped, and long ones are cut, with the whole text in the title attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from iostats.base.errors import sanitize
from iostats.report.listing import NUMBERS, Field

if TYPE_CHECKING:
    from iostats.web.query import PageQuery

MAX_LENGTH = 48                 # characters of a cell
_MAX_TITLE = 500


class Heading(NamedTuple):
    """The head of a column."""

    title: str                  # short, and `text`: its meaning, for the title attribute
    text: str = ""
    sort_link: str = ""         # an address that sorts by it; "": not sortable
    sorted: str = ""            # "ascending", "descending" or ""
    is_number: bool = False     # right-aligned
    keep: int = 2               # 2: on every screen; 1: not on a phone; 0: only on a wide one
    wraps: bool = False         # long texts have several lines

    @property
    def kind(self) -> str:
        """The CSS class of the column's cells."""
        return " ".join(filter(None, ("n" if self.is_number else "", "wm"[self.keep:self.keep + 1],
                                      "wrap" if self.wraps else "")))


def make_headings(columns: Iterable[tuple[str, int]], find_field: Callable[[str, str], Field],
                  titles: Mapping[str, str], q: PageQuery | None = None,
                  order: tuple[str, bool] = ("", False), sorted_by: Collection[str] = ()
                  ) -> list[Heading]:
    """
    The headings of (column, Heading.keep); `titles`: of those with another title. `q`: to sort by
    a field of `sorted_by`; `order`: the present (field, descending).
    """
    headings = []
    for name, keep in columns:
        field = find_field(name, "a column")
        is_number = field.kind in NUMBERS
        link, direction = "", ""
        if q is not None and field.name in sorted_by:
            link, direction = q.sort_link(field, *order, is_number)
        headings.append(Heading(titles.get(name, name), field.help, link, direction, is_number,
                                keep))
    return headings


@lru_cache(maxsize=10_000)              # most cells have a value that other rows have
def shorten(text: str, max_length: int = MAX_LENGTH) -> Markup:
    """
    A text, cut if it is long; characters that are invisible, or change the direction, are made
    visible.
    """
    text = sanitize(text)
    if len(text) <= max_length:
        return escape(text)
    return Markup('<span title="%s">%s…</span>') % (
        text if len(text) <= _MAX_TITLE else text[:_MAX_TITLE] + "…", text[:max_length - 1])


def format_name(text: str, max_length: int = MAX_LENGTH) -> Markup:
    """A name chosen by a user, which may have another direction of writing."""
    return Markup("<bdi>") + shorten(text, max_length) + Markup("</bdi>")


@lru_cache(maxsize=10_000)
def format_link(text: str, to: str, max_length: int = MAX_LENGTH) -> Markup:
    """A name with a link."""
    return Markup('<a href="%s">%s</a>') % (to, format_name(text, max_length))


def format_rows(headings: Sequence[Heading], cells: Iterable[Sequence[str]],
                classes: Mapping[int, str] | None = None) -> Markup:
    """
    <tr>s of cells that are Markup, or plain text; `classes`: of some rows, by their number.

    The first cell of a row is its heading.
    """
    starts = []
    for place, heading in enumerate(headings):
        kind = heading.kind
        name = "th scope=row" if not place else "td"
        starts.append(f'<{name} class="{kind}">' if kind else f"<{name}>")
    ends = ["</th>", *["</td>"] * (len(starts) - 1)]
    parts: list[str] = []
    add = parts.append
    for number, row in enumerate(cells):
        kind = classes.get(number, "") if classes else ""
        add(f'<tr class="{kind}">' if kind else "<tr>")
        for start, cell, end in zip(starts, row, ends):
            add(start)
            add(escape(cell))
            add(end)
        add("</tr>\n")
    return Markup("".join(parts))
