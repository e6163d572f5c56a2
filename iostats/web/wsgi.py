"""
The pages as a WSGI application, for Passenger as in Open OnDemand: one process for each user.

The process is the user's own, so it calls the site's server with that user's own munge credential,
and for no other user: no header is read. There are no streams: a worker of Passenger handles one
request at a time, so the script of a live page polls.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import TypedDict

from starlette.types import ASGIApp, Message

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import IostatsError
from iostats.web.asgi import make_application
from iostats.web.layout import HEADERS
from iostats.web.pages import Pages
from iostats.web.viewer import OwnUser


class Environ(TypedDict, total=False):
    """The members of a WSGI request that are read."""

    REQUEST_METHOD: str
    SCRIPT_NAME: str
    PATH_INFO: str
    QUERY_STRING: str


class OnDemandApp:
    """
    The application; `base`: its path in Open OnDemand.

    For root, and for an invalid site.cfg, it is a page with that error.
    """

    def __init__(self, base: str | None = None) -> None:
        logs.log_to_stderr(logging.WARNING)
        self._base, self._error = base, ""
        self._applications: dict[str, ASGIApp] = {}
        if os.geteuid() == 0:
            self._error = "root cannot use these pages; sign in as an ordinary user"
            return
        try:
            self._config = site.load()
        except IostatsError as error:
            self._error = str(error)

    def __call__(self, environ: Environ,
                 start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        if self._error:
            start("503 Service Unavailable", [*HEADERS.items(),
                                              ("Content-Type", "text/plain; charset=utf-8")])
            return [f"503: {self._error}\n".encode()]
        base = environ.get("SCRIPT_NAME", "") if self._base is None else self._base
        if base not in self._applications:
            self._applications = {base: make_application(Pages(self._config, base), OwnUser(),
                                                         has_streams=False)}
        answer = _CollectedAnswer()
        asyncio.run(answer.make(self._applications[base], environ))
        start(f"{answer.status} {HTTPStatus(answer.status).phrase}",
              [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else answer.parts


class _CollectedAnswer:
    """The answer to a request."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []

    async def make(self, app: ASGIApp, environ: Environ) -> None:
        """Send a request to the application, and store what it sends."""
        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status, self.headers = message["status"], message["headers"]
            else:
                self.parts.append(message["body"])
        # WSGI passes the bytes of the path as Latin-1.
        path = environ.get("PATH_INFO", "").encode("latin-1", "replace").decode("utf-8", "replace")
        try:
            query = environ.get("QUERY_STRING", "").encode("latin-1", "replace")
            await app({"type": "http", "method": environ["REQUEST_METHOD"], "path": path,
                       "headers": [], "query_string": query}, receive, send)
        except Exception as error:          # the answer is a page about it
            logs.log_internal_error(error)
