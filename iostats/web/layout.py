"""
A page around what is on it: head, navigation, who is signed in; and the headers of every answer.

Templates escape whatever they are given (Jinja2's autoescape); what is HTML already is a Markup.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import namedtuple

import jinja2

from iostats.base.units import DATE_TIME, moment_text, zone_form
from iostats.report.html import markup
from iostats.web import cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.base.config import Config

_HERE = os.path.dirname(os.path.abspath(__file__))
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
          ".svg": "image/svg+xml"}
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
PAGES = (("Jobs", "jobs"), ("Now", "now"), ("File systems", "fs"), ("Nodes", "nodes"),
         ("Events", "events"), ("Documentation", "docs"))
_FOR_STAFF = ("nodes",)             # users who see their own jobs alone are refused there
# No script and no style but those of our own files, nothing from elsewhere, no page around ours.
POLICY = ("default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
          "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
HEADERS = (("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
           ("X-Frame-Options", "DENY"), ("Referrer-Policy", "same-origin"),
           ("Cross-Origin-Opener-Policy", "same-origin"),
           ("Cross-Origin-Resource-Policy", "same-origin"))

PageAnswer = namedtuple("PageAnswer", "status content_type body headers", defaults=((),))
PageAnswer.__doc__ = """
What is sent: the status of HTTP, a type, bytes, and more headers as (name, value).
"""

PRIVATE = (("Cache-Control", "private, no-store"),)
_FOR_A_DAY = (("Cache-Control", "public, max-age=86400"),)


class PageLayout:
    """
    Makes whole pages of templates.

    Attributes:
        base: the path of the pages at the site's proxy, without a / at its end.
    """

    def __init__(self, config: Config, base: str) -> None:
        self.base, self._title = base, config["web.title"]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(os.path.join(_HERE, "templates")), autoescape=True,
            trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
            auto_reload=False)
        self.static = _static_files()
        self._version = hashlib.sha256(b"".join(
            body for _, body in self.static.values())).hexdigest()[:12]

    def page(self, template: str, heading: str, current: str = "",
             who: dict[str, Any] | None = None, status: int = 200, **values: Any) -> PageAnswer:
        """A whole page; `current`: of PAGES, `who`: what `rights` has answered."""
        made = f"Generated {moment_text(time.time())}"
        pages = [one for one in PAGES if one[1] not in _FOR_STAFF or (who and who["all"])]
        text = self._environment.get_template(template).render(
            heading=heading, current=current, who=who, base=self.base, version=self._version,
            made=made, site={"title": self._title, "pages": pages}, **values)
        return PageAnswer(status, HTML, text.encode("utf-8", "replace"), PRIVATE)

    def part(self, template: str, **values: Any) -> str:
        """A part of a page."""
        return self._environment.get_template(template).render(base=self.base, **values)

    def error(self, status: int, message: str, who: dict[str, Any] | None = None) -> PageAnswer:
        """A page with one line; for a user who is not known without a link."""
        return self.page("error.html", _ERRORS.get(status, "Error"), who=who, status=status,
                         message=message, back=status not in (403, 503) or who is not None)

    def file(self, name: str) -> PageAnswer | None:
        """A file of ours."""
        found = self.static.get(name)
        return None if found is None else PageAnswer(200, found[0], found[1], _FOR_A_DAY)


_ERRORS = {400: "Invalid request", 403: "Access denied", 404: "Not found",
           405: "These pages can only be read", 503: "Not available"}


def _static_files() -> dict[str, tuple[str, bytes]]:
    """{name: (type, bytes)}: a few files, kept in memory, so that no path is ever looked up."""
    directory, found = os.path.join(_HERE, "static"), {}
    for name in sorted(os.listdir(directory)):
        kind = _TYPES.get(os.path.splitext(name)[1])
        if kind:
            with open(os.path.join(directory, name), "rb") as file:
                found[name] = kind, file.read()
    # The report's own, with its charts, before ours: a job's page and ours look alike.
    kind, ours = found["site.css"]
    found["site.css"] = kind, markup.css().encode() + ours
    found["report.js"] = _TYPES[".js"], markup.script().encode()
    return found


def span_text(since: float, until: float) -> str:
    """2026-11-22 12:03:11 to 2026-11-22 13:07:23"""
    zone = zone_form(since, until)
    return " to ".join(moment_text(one, DATE_TIME + zone) for one in (since, until))


def heads(headings: Sequence[cells.Heading]) -> list[dict[str, Any]]:
    """Headings for the template of a table."""
    return [{**one._asdict(), "kind": cells.class_of(one)} for one in headings]
