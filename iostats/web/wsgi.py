"""
The pages as a WSGI application, for Passenger as Open OnDemand runs it: a process of each user's.

The process is the user's own, so it asks the site's server with that user's own munge credential,
and no other user is asked for: no header is read.  There are no streams: a worker of Passenger does
one request at a time, so live pages are asked for again and again by their script.
"""

from __future__ import annotations

import logging
import os
from http import HTTPStatus

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import IostatsError
from iostats.web.layout import HEADERS, TEXT, PageAnswer
from iostats.web.pages import Pages
from iostats.web.who import SELF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class OnDemandApp:
    """
    The application; `base`: the path at which Open OnDemand shows it.

    A user who is root, or site.cfg that is wrong, becomes a page with that line.
    """

    def __init__(self, base: str | None = None) -> None:
        logs.to_standard_error(logging.WARNING)
        self._base, self._why = base, ""
        self._pages: Pages | None = None
        if os.geteuid() == 0:
            self._why = "root cannot use these pages; sign in as an ordinary user"
            return
        try:
            self._config = site.load()
        except IostatsError as error:
            self._why = str(error)

    def __call__(self, environ: dict[str, Any],
                 start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        found = self._answer(environ)
        headers = {**dict(HEADERS), **dict(found.headers), "Content-Type": found.content_type,
                   "Content-Length": str(len(found.body))}
        start(f"{found.status} {HTTPStatus(found.status).phrase}", list(headers.items()))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [found.body]

    def _answer(self, environ: dict[str, Any]) -> PageAnswer:
        if self._why:
            return PageAnswer(503, TEXT, f"503: {self._why}\n".encode())
        base = environ.get("SCRIPT_NAME", "") if self._base is None else self._base
        if self._pages is None or self._pages.layout.base != base.rstrip("/"):
            self._pages = Pages(self._config, base)
        # WSGI gives the bytes of the path as Latin-1.
        path = environ.get("PATH_INFO", "").encode("latin-1", "replace").decode("utf-8", "replace")
        return self._pages.answer(environ["REQUEST_METHOD"], path,
                                  environ.get("QUERY_STRING", ""), SELF)
