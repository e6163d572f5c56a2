"""
The layout of all pages: head, navigation, the user; and the headers of every answer.

Templates escape all values (Jinja2's autoescape); values that are HTML already are Markup.
"""

from __future__ import annotations

import hashlib
import os

import jinja2
from starlette.templating import Jinja2Templates

from iostats.base.units import DATE_TIME, find_zone_format, format_moment
from iostats.report.html import markup

_HERE = os.path.dirname(os.path.abspath(__file__))
# Only our own scripts and styles, nothing from elsewhere, no frame around our pages.
POLICY = ("default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
          "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"}
PRIVATE = {"Cache-Control": "private, no-store"}


def make_templates(title: str, base: str) -> Jinja2Templates:
    """
    The templates of all pages. `base`: the path of the pages at the site's proxy, without a / at
    its end.
    """
    templates = Jinja2Templates(env=jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_HERE, "templates")), autoescape=True,
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, auto_reload=False))
    templates.env.globals.update(title=title, base=base, version=_hash_static_files())
    return templates


def _hash_static_files() -> str:
    """Hash the static files for their addresses, so that browsers can cache them for a day."""
    digest = hashlib.sha256((markup.load_css() + markup.load_script()).encode())
    directory = os.path.join(_HERE, "static")
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:12]


def format_span(since: float, until: float) -> str:
    """Format a period: 2026-11-22 12:03:11 to 2026-11-22 13:07:23."""
    zone = find_zone_format(since, until)
    return " to ".join(format_moment(moment, DATE_TIME + zone) for moment in (since, until))
