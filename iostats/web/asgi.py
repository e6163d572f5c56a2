"""
The pages as an ASGI application (Starlette): the routes, the user, the headers, the errors.

Pages are made in threads, a few at a time, since they wait for the site's server; live parts are
sent by the event loop.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.authentication import AuthenticationBackend
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from iostats.base.errors import IostatsError
from iostats.report.html import markup
from iostats.web.api import api_routes
from iostats.web.docs_page import docs_page
from iostats.web.events_page import events_page
from iostats.web.file_system_page import file_system_page, file_systems_page
from iostats.web.job_page import job_page
from iostats.web.jobs_page import jobs_page
from iostats.web.layout import HEADERS, PRIVATE
from iostats.web.live import Live
from iostats.web.nodes_page import nodes_down_page, nodes_page
from iostats.web.now_page import now_page, now_part, validate
from iostats.web.pages import Pages, Visit
from iostats.web.site_calls import PageError

_MAX_THREADS = 16
_CHUNK = 1 << 16                # of a page: the most that waits in memory for a slow reader
_FOR_A_DAY = {"Cache-Control": "public, max-age=86400"}


def make_application(pages: Pages, users: AuthenticationBackend,
                     has_streams: bool = True) -> Starlette:
    """
    The application; its `state.end_live()` ends the live streams.

    `users` finds a request's user; without streams, /now/live is not there, and its page polls.
    """
    live: Live[Request] = Live(
        lambda request, _: run_in_threadpool(pages.live_part, request),
        lambda request: run_in_threadpool(pages.find_viewer_scope, request.user),
        pages.config.web.every, pages.config.web.max_viewers)

    async def stream(request: Request) -> Response:
        query = validate(Visit(pages, request))
        events = await live.stream(request, query) if request.method == "GET" else ()
        return StreamingResponse(events, headers={**PRIVATE, "X-Accel-Buffering": "no"},
                                 media_type="text/event-stream")
    # Static files are for everyone; all else is for known users.
    app = Starlette(
        routes=[Mount("/static", routes=[
            Route("/report.css", _make_text_handler(markup.load_css(), "text/css")),
            Route("/report.js", _make_text_handler(markup.load_script(), "text/javascript")),
            Mount("/", _StaticFiles(directory=os.path.join(os.path.dirname(__file__), "static")))]),
            Mount("", Router([*([Route("/now/live", stream)] if has_streams else []),
                              *page_routes(pages), *api_routes(pages)],
                             # It would redirect to a request's Host, which need not be the proxy's.
                             redirect_slashes=False),
                  middleware=[Middleware(AuthenticationMiddleware, backend=users,
                                         on_error=pages.error_page)])],
        middleware=[Middleware(_BelowPrefix, prefix=pages.base),
                    Middleware(_SafeAnswers)],
        exception_handlers={kind: pages.error_page
                            for kind in (HTTPException, IostatsError, Exception)},
        lifespan=_limit_threads)
    app.state.end_live = live.end
    return app


def page_routes(pages: Pages) -> list[Route]:
    """The route of each page; those with a title are in the menu."""
    def route(path: str, page: Callable[[Visit], Response], title: str = "",
              is_for_staff: bool = False) -> Route:
        if title:
            pages.menu.append((title, path[1:], is_for_staff))
        return Route(path, lambda request: page(Visit(pages, request)))
    return [
        Route("/", lambda request: RedirectResponse(f"{pages.base}/jobs", 302)),
        route("/jobs", jobs_page, "Jobs"), route("/job/{job:path}", job_page),
        route("/now", now_page, "Now"), route("/now/part", now_part),
        route("/fs", file_systems_page, "File systems"),
        route("/fs/{name:path}", file_system_page),
        route("/nodes", nodes_page, "Nodes", is_for_staff=True),
        route("/nodes/down", nodes_down_page),
        route("/events", events_page, "Events"),
        route("/docs", docs_page, "Documentation"), route("/docs/{name:path}", docs_page)]


@asynccontextmanager
async def _limit_threads(app: Starlette) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = _MAX_THREADS
    yield


def _make_text_handler(text: str, media_type: str) -> Callable[[Request], Response]:
    return lambda request: Response(text, headers=_FOR_A_DAY, media_type=media_type)


class _StaticFiles(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code == 405:
                raise
            raise PageError(404, "there is no such file") from error
        response.headers.update(_FOR_A_DAY)
        return response


class _BelowPrefix:
    """Middleware: a path is below [web] prefix, whether or not the site's proxy removes it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path, prefix = scope["path"], self._prefix
            if not (path + "/").startswith(prefix + "/"):
                path = prefix + path
            scope.update(root_path=prefix, path=path if path != prefix else prefix + "/")
        await self._app(scope, receive, send)


class _SafeAnswers:
    """Middleware: the headers of every answer, and a long one in parts, for a slow reader."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_parts(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            body, more = message.get("body", b""), message.get("more_body", False)
            if len(body) <= _CHUNK:
                return await send(message)
            for at in range(0, len(body), _CHUNK):
                await send({**message, "body": body[at:at + _CHUNK],
                            "more_body": more or at + _CHUNK < len(body)})
        await self._app(scope, receive, send_parts)
