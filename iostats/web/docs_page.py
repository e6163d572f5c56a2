"""
The documents of this release as pages: the targets of findings' links, the meaning of numbers.

They are the Markdown of docs/, beside the package in a checkout and after `make install-...`; a
wheel installs them below `share/iostats` of its environment.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

import iostats
from iostats.web.site_calls import PageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token
    from starlette.responses import Response

    from iostats.web.pages import Visit


_BESIDE = os.path.dirname(os.path.dirname(os.path.abspath(iostats.__file__)))


def find_shared_file(name: str) -> str:
    """Return the path of a data file or directory of the program, such as "docs"."""
    beside = os.path.join(_BESIDE, name)
    return beside if os.path.exists(beside) else os.path.join(sys.prefix, "share/iostats", name)


_DIRECTORY = find_shared_file("docs")
_LIST = "index"                                 # links to all others


@lru_cache(maxsize=1)
def list_documents() -> frozenset[str]:
    """The documents, without .md: how-to/batch."""
    return frozenset(
        posixpath.relpath(posixpath.join(directory, file[:-3]), _DIRECTORY)
        for directory, _, files in os.walk(_DIRECTORY) for file in files if file.endswith(".md"))


def docs_page(visit: Visit) -> Response:
    """The page of /docs/NAME, and of /docs the list of all documents; PageError."""
    name = visit.request.path_params.get("name") or _LIST
    if name not in list_documents():             # so no path from outside is opened
        raise PageError(404, "there is no such document")
    return visit.page("document.html", _read_title(name), "docs", rights=visit.cached_rights(),
                      is_list=name == _LIST, text=_render_html(name, f"{visit.base}/docs"))


@lru_cache(maxsize=50)
def _read_title(name: str) -> str:
    """The heading of a document, its first line."""
    with open(os.path.join(_DIRECTORY, f"{name}.md"), encoding="utf-8") as file:
        heading = _make_parser().parse(file.readline())[1]
    return "".join(part.content for part in heading.children or ())


@lru_cache(maxsize=50)
def _render_html(name: str, base: str) -> Markup:
    """A document as HTML."""
    with open(os.path.join(_DIRECTORY, f"{name}.md"), encoding="utf-8") as file:
        tokens = [*_add_links(_make_parser().parse(file.read()), base, name)]
    return Markup(_make_parser().renderer.render(tokens, _make_parser().options, {}))


@lru_cache(maxsize=1)
def _make_parser() -> MarkdownIt:
    """CommonMark with tables that scroll; comments are left out."""
    parser = MarkdownIt("commonmark").enable("table").disable("html_inline")
    parser.add_render_rule("html_block", lambda *_: "")
    parser.add_render_rule("table_open", lambda _, tokens, at, *rest: Markup(
        '<div class="scroll" role="region" aria-label="Table {}" tabindex="0"><table>').format(
            1 + sum(token.type == "table_open" for token in tokens[:at])))
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _add_links(tokens: list[Token], base: str, name: str) -> Iterator[Token]:
    """
    The tokens of the document `name`, with headings that can be linked, as on a forge, and with
    links to pages; a link to a file that is no document here becomes text.
    """
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _make_anchor(tokens[number + 1].content))
        elif token.type in ("code_block", "fence"):     # can be scrolled by keyboard
            token.type = "code_block"
            token.attrSet("tabindex", "0")
        elif token.type == "th_open" and not tokens[number + 1].content:
            token.tag = tokens[number + 2].tag = "td"   # above the names of rows: not a heading
        href = ""
        for part in token.children or ():
            if part.type == "link_open":
                href = _resolve_link(str(part.attrGet("href")), base, name)
                part.attrs = {"href": href} if href else {}
            if part.type in ("link_open", "link_close") and not href:
                part.tag = "span"
            elif part.type == "image":
                part.type, part.content = "text", ""
        yield token


def _make_anchor(heading: str) -> str:
    """
    Return the anchor of a heading, as GitHub and MkDocs make it.

    >>> _make_anchor("`iostats why`: where its time went")
    'iostats-why-where-its-time-went'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _resolve_link(link: str, base: str, name: str) -> str:
    """The address of the page that a link of the document `name` leads to; "" if there is none."""
    if link.startswith(("#", "https://", "http://")):
        return link
    path, mark, anchor = link.partition("#")
    document, kind = posixpath.splitext(
        posixpath.normpath(posixpath.join(posixpath.dirname(name), path)))
    if kind != ".md" or document not in list_documents():
        return ""
    return f"{base}{'' if document == _LIST else '/' + document}{mark}{anchor}"
