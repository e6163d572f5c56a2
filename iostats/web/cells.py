"""
Tables of a page: a list's rows and columns -> HTML.

A list may have 10,000 rows, so its cells are put together here and not by a template; every text is
escaped as it becomes part of one, and what is long is cut, with all of it in the title.
"""

from __future__ import annotations

from collections import namedtuple

from markupsafe import Markup, escape

from iostats.base.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LONGEST = 48                        # characters of a cell
_LONGEST_TITLE = 500

Heading = namedtuple("Heading", "title text sort_link sorted is_number keep wraps",
                     defaults=("", "", "", False, 2, False))
Heading.__doc__ = """
The head of a column.

Attributes:
    title: short, and `text`: what it is, for the title.
    sort_link: an address that sorts by it; "": it cannot be.
    sorted: "ascending", "descending" or "".
    is_number: at the right.
    keep: 2: on every screen; 1: not on a phone; 0: on a wide one alone.
    wraps: long texts have several lines.
"""
_CLASSES = {(False, 2): "", (True, 2): "n", (False, 1): "m", (True, 1): "n m",
            (False, 0): "w", (True, 0): "n w"}


def class_of(heading: Heading) -> str:
    """The class of a column's cells."""
    kind = _CLASSES[bool(heading.is_number), heading.keep]
    return f"{kind} wrap".strip() if heading.wraps else kind


def cut_text(text: str, most: int = LONGEST) -> Markup:
    """A text, cut where it is long; what would not be seen, or turns others, is made visible."""
    text = one_line(text)
    if len(text) <= most:
        return escape(text)
    return Markup('<span title="%s">%s…</span>') % (
        text if len(text) <= _LONGEST_TITLE else text[:_LONGEST_TITLE] + "…", text[:most - 1])


def named(text: str, most: int = LONGEST) -> Markup:
    """A name from others, which may be of another direction of writing."""
    return Markup("<bdi>") + cut_text(text, most) + Markup("</bdi>")


def linked(text: str, to: str, most: int = LONGEST) -> Markup:
    """A name with a link."""
    return Markup('<a href="%s">%s</a>') % (to, named(text, most))


def rows(headings: Sequence[Heading], cells: Iterable[Sequence[str]],
         classes: Mapping[int, str] | None = None) -> Markup:
    """
    <tr>s of cells that are Markup, or plain text; `classes`: of some rows, by their number.

    The first cell of a row is its heading.
    """
    starts = []
    for place, heading in enumerate(headings):
        kind = class_of(heading)
        name = "th scope=row" if not place else "td"
        starts.append(f'<{name} class="{kind}">' if kind else f"<{name}>")
    ends = ["</th>", *["</td>"] * (len(starts) - 1)]
    found: list[str] = []
    add = found.append
    for number, row in enumerate(cells):
        kind = classes.get(number, "") if classes else ""
        add(f'<tr class="{kind}">' if kind else "<tr>")
        for start, cell, end in zip(starts, row, ends):
            add(start)
            add(escape(cell))
            add(end)
        add("</tr>\n")
    return Markup("".join(found))
