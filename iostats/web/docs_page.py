"""
The documents that came with this release as pages: what a finding links to, what a number means.

They are the Markdown of docs/, which `make install-...` puts beside the program.  Where they are
not (a wheel has none), there is no such page.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from markdown_it import MarkdownIt
from markupsafe import Markup

import iostats
from iostats.web.asking import PageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

    from iostats.web.layout import PageAnswer
    from iostats.web.pages import Visit

_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(iostats.__file__))),
                          "docs")
_GROUPS = (
    ("For users", ("usage", "reports", "advice", "why", "counters", "jobs", "events", "commands")),
    ("For administrators", ("install", "batch", "harvest", "clients", "web", "sinks", "time_lines",
                            "ldms", "reliability", "security")))
_OTHERS = "For developers"


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """The documents, without .md."""
    try:
        return frozenset(name[:-3] for name in os.listdir(_DIRECTORY) if name.endswith(".md"))
    except OSError:
        return frozenset()


def _groups() -> Iterator[tuple[str, list[str]]]:
    """(heading, names) of each group of documents, in the order in which they are listed."""
    left = set(names())
    for heading, wanted in _GROUPS:
        yield heading, [name for name in wanted if name in left]
        left.difference_update(wanted)
    yield _OTHERS, sorted(left)


def docs(visit: Visit) -> PageAnswer:
    """The page of /docs/NAME, and of /docs a list; PageError."""
    base, name = f"{visit.base}/docs", visit.rest
    if not name:
        return visit.page("docs.html", "Documentation", "docs", who=visit.known_who(), groups=[
            (heading, [(f"{base}/{one}", _title(one)) for one in group])
            for heading, group in _groups() if group])
    if name not in names():             # so no path is ever looked up
        raise PageError(404, "there is no such document")
    return visit.page("document.html", _title(name), "docs", who=visit.known_who(),
                      text=_html(name, base))


@lru_cache(maxsize=50)
def _title(name: str) -> str:
    """The heading of a document, its first line; no more of it is read."""
    with open(os.path.join(_DIRECTORY, f"{name}.md"), encoding="utf-8") as file:
        heading = _parser().parse(file.readline())[1]
    return "".join(part.content for part in heading.children or ())


@lru_cache(maxsize=50)
def _html(name: str, base: str) -> Markup:
    """All of a document."""
    with open(os.path.join(_DIRECTORY, f"{name}.md"), encoding="utf-8") as file:
        tokens = [*_with_links(_parser().parse(file.read()), base)]
    return Markup(_parser().renderer.render(tokens, _parser().options, {}))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """CommonMark with tables, which scroll by themselves; comments are left out."""
    found = MarkdownIt("commonmark").enable("table").disable("html_inline")
    found.add_render_rule("html_block", lambda *_: "")
    found.add_render_rule("table_open", lambda _, tokens, at, *rest: Markup(
        '<div class="scroll" role="region" aria-label="Table {}" tabindex="0"><table>').format(
            1 + sum(one.type == "table_open" for one in tokens[:at])))
    found.add_render_rule("table_close", lambda *_: "</table></div>")
    return found


def _with_links(tokens: list[Token], base: str) -> Iterator[Token]:
    """
    The tokens of a document whose headings can be linked, as on a forge, and whose links lead to
    pages; those to files that are no document of ours are text.
    """
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[number + 1].content))
        elif token.type in ("code_block", "fence"):     # can be scrolled by keyboard
            token.type = "code_block"
            token.attrSet("tabindex", "0")
        elif token.type == "th_open" and not tokens[number + 1].content:
            token.tag = tokens[number + 2].tag = "td"   # above the names of rows: heads nothing
        href = ""
        for part in token.children or ():
            if part.type == "link_open":
                href = _address(str(part.attrGet("href")), base)
                part.attrs = {"href": href} if href else {}
            if part.type in ("link_open", "link_close") and not href:
                part.tag = "span"
            elif part.type == "image":
                part.type, part.content = "text", ""
        yield token


def _anchor(heading: str) -> str:
    """
    >>> _anchor("`iostats why`: where its time went")
    'iostats-why-where-its-time-went'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _address(link: str, base: str) -> str:
    """Where a link of a document leads on these pages; "" where that is nowhere."""
    if link.startswith(("#", "https://", "http://")):
        return link
    path, mark, anchor = link.partition("#")
    name, _, kind = path.rpartition(".")
    return f"{base}/{name}{mark}{anchor}" if kind == "md" and name in names() else ""
