"""
The pages as an ASGI application (Starlette), for a server of our own.

Pages are made in threads, a few at a time, since they wait for the site's server; what is live is
sent by the event loop.
"""

from __future__ import annotations

from functools import lru_cache, partial

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from iostats.base.errors import IostatsError
from iostats.web.layout import HEADERS, PageAnswer
from iostats.web.live import Live
from iostats.web.pages import decoded_path
from iostats.web.who import SELF, Peer, UserUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from iostats.web.pages import Pages
    from iostats.web.who import Asker, WhoAsks

_MOST_THREADS = 16
_CHUNK = 1 << 16                    # of a page: what waits in our memory for a slow reader
_LIVE_HEADERS = {**dict(HEADERS), "Cache-Control": "private, no-store", "X-Accel-Buffering": "no"}
UNIX = "unix"                       # for the address, where `client` is a local user's number


def application(pages: Pages, who: WhoAsks) -> Starlette:
    """The application; its `state.end_live()` ends what is sent live."""
    @lru_cache
    def threads() -> CapacityLimiter:
        return CapacityLimiter(_MOST_THREADS)       # of the loop that runs then

    async def part(asker: Asker, query: str) -> str:
        return await to_thread.run_sync(pages.live_part, asker, query, limiter=threads())

    async def scope(asker: Asker) -> str:
        return await to_thread.run_sync(pages.scope, asker, limiter=threads())
    live = Live(part, scope, pages.config["web.every"], pages.config["web.max_viewers"])

    async def answer(request: Request) -> Response:
        path = decoded_path(request.scope.get("raw_path") or request.url.path.encode())
        if request.method not in ("GET", "HEAD"):
            return _response(pages.not_readable(), request)
        asker: Asker = SELF
        if not pages.is_static(path):
            try:
                asker = who.asker(_peer(request), request.scope["headers"])
            except UserUnknown as error:
                return _response(pages.forbidden(error), request)
        query = request.scope["query_string"].decode("ascii", "replace")
        try:
            wanted = pages.live_query(path, query)
            if wanted is not None and request.method == "GET":
                return StreamingResponse(await live.stream(asker, wanted), 200, _LIVE_HEADERS,
                                         "text/event-stream")
        except IostatsError as error:
            return _response(await to_thread.run_sync(pages.of_error, error, asker,
                                                      limiter=threads()), request)
        found = await to_thread.run_sync(
            partial(pages.answer, request.method, path, query, asker),
            limiter=threads())
        return _response(found, request)
    made = Starlette(routes=[Route("/{path:path}", _Every(answer))])
    made.state.end_live = live.end
    return made


class _Every:
    """An endpoint that gets requests of every method."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)


def _peer(request: Request) -> Peer:
    host, number = request.scope.get("client") or ("", None)
    return Peer("", number) if host == UNIX else Peer(host, None)


def _response(answer: PageAnswer, request: Request) -> Response:
    headers = {**dict(HEADERS), **dict(answer.headers)}
    headers["Content-Length"] = str(len(answer.body))
    if request.method == "HEAD":
        return Response(b"", answer.status, headers, answer.content_type)
    if len(answer.body) <= _CHUNK:
        return Response(answer.body, answer.status, headers, answer.content_type)
    return StreamingResponse(_chunks(answer.body), answer.status, headers, answer.content_type)


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), _CHUNK):
        yield body[at:at + _CHUNK]
