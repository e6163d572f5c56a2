"""
The parts shared by all pages: the site's server, the templates, the last answers; and the page of
an error.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from iostats.base.config import Config
from iostats.base.errors import IostatsError, UsageError
from iostats.base.units import format_moment
from iostats.web import docs_page, now_page
from iostats.web.layout import HEADERS, PRIVATE, make_templates
from iostats.web.query import PageQuery
from iostats.web.site_calls import PageError, Site
from iostats.web.viewer import Viewer

if TYPE_CHECKING:
    from iostats.report.site_methods import Rights
    from iostats.wire.method_name import AnswerT, MethodName

log = logging.getLogger(__name__)
_MAX_CACHED = 64

_HEADINGS = {400: "Invalid request", 403: "Access denied", 404: "Not found",
             405: "These pages can only be read", 503: "Not available"}
_MESSAGES = {404: "there is no such page", 405: "these pages can only be read"}


class Visit:
    """
    A user's request of a page.

    Attributes:
        request: of Starlette.
        base, labels, units, config: of site.cfg.
    """

    def __init__(self, pages: Pages, request: HTTPConnection) -> None:
        self._pages, self.request = pages, request
        self.config, self.base = pages.config, pages.base
        self.labels, self.units = pages.config.labels, pages.config.report.units

    @property
    def _viewer(self) -> Viewer:
        viewer: Viewer = self.request.user
        return viewer

    @cached_property
    def query(self) -> PageQuery:
        """The parameters of the address; UsageError."""
        return PageQuery(self.request.scope["query_string"].decode("ascii", "replace"))

    def ask(self, method: MethodName[AnswerT], params: Mapping[str, object]) -> AnswerT:
        """The result of a method of the site's server, with the user's rights; PageError."""
        return self._pages.site.ask(self._viewer, method, params)

    def shared(self, method: MethodName[AnswerT], params: Mapping[str, object]) -> AnswerT:
        """Like `ask`, but may return a cached answer for a user with the same rights."""
        return self._pages.shared.ask(self._viewer, method, params)

    def rights(self) -> Rights:
        """Return {"user": name, "all": whether they may see all jobs}."""
        return self._pages.site.rights(self._viewer)

    def cached_rights(self) -> Rights | None:
        """The cached result of `rights`, without a call; None without one."""
        return self._pages.site.get_cached_rights(self._viewer)

    def page(self, template: str, heading: str, current: str = "", status: int = 200,
             headers: Mapping[str, str] | None = None, *, rights: Rights | None,
             **values: object) -> Response:
        """A whole page; `current`: its path in the menu."""
        pages = [(title, path) for title, path, is_for_staff in self._pages.menu
                 if not is_for_staff or (rights and rights["all"])]
        return self._pages.templates.TemplateResponse(cast("Request", self.request), template, {
            "heading": heading, "current": current, "rights": rights, "pages": pages,
            "made": f"Generated {format_moment(time.time())}", **values},
            status, {**PRIVATE, **(headers or {})})

    def part(self, template: str, **values: object) -> str:
        """A part of a page, as HTML."""
        return self._pages.templates.get_template(template).render(**values)


class Pages:
    """
    The state that all pages share.

    Attributes:
        base: the path of the pages at the site's proxy, without a / at its end.
        site: the Site.
        templates: of Starlette.
        menu: [(title, path, whether users who see only their own jobs are refused there)].
    """

    def __init__(self, config: Config, base: str | None = None) -> None:
        """`base`: the path of the pages, if it is not [web] prefix."""
        self.config = config
        self.base: str = (config.web.prefix if base is None else base).rstrip("/")
        self.site, self.templates = Site(config), make_templates(config.web.title, self.base)
        if docs_page.list_documents():
            config.set_value("web.address", self.base or "/", "iostats web")
        self.menu: list[tuple[str, str, bool]] = []
        self.shared = SharedAnswers(self.site, 0.9 * config.web.every)

    def live_part(self, request: Request) -> str:
        """The changing part of the live page; IostatsError."""
        return now_page.render_part(Visit(self, request))

    def find_viewer_scope(self, viewer: Viewer) -> str:
        """Equal for those who may see the same; PageError."""
        return find_scope(self.site, viewer)

    def error_page(self, request: HTTPConnection, error: Exception) -> Response:
        """The page for an error: of the address, the user, the site's server or the program."""
        headers = getattr(error, "headers", None)
        if isinstance(error, PageError):
            status, message = error.status, str(error)
        elif isinstance(error, UsageError):
            status, message = 400, str(error)
        elif isinstance(error, HTTPException):
            status, message = error.status_code, _MESSAGES.get(error.status_code, error.detail)
            if status == 405:                               # Starlette's has no certain order
                headers = {"Allow": "GET, HEAD"}
        elif isinstance(error, IostatsError):
            log.warning("%s", error)
            status, message = 503, str(error)
        else:                           # outside of the middleware for headers; uvicorn logs it
            status, message, headers = 500, ("internal error; please report it to the "
                                             "administrators of these pages"), HEADERS
        heading = _HEADINGS.get(status, "Error")
        if request.scope["path"].startswith(f"{self.base}/api/"):
            return Response(json.dumps({"title": heading, "status": status, "detail": message}),
                            status, {**PRIVATE, **(headers or {})}, "application/problem+json")
        visit, rights = Visit(self, request), None
        if "user" in request.scope and status in (400, 403, 404, 500):
            with contextlib.suppress(IostatsError):
                rights = visit.rights()
        return visit.page("error.html", heading, "", status, headers,
                          rights=rights, message=message,
                          back=status not in (403, 503) or rights is not None)


class _CachedAnswer:
    """The last answer to one call, or its error."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = float("-inf")
        self.answer: Any = None
        self.error: PageError | None = None


class SharedAnswers:
    """Caches answers for `fresh_s`, shared by all viewers with the same rights."""

    def __init__(self, site: Site, fresh_s: float) -> None:
        self._site, self._fresh_s = site, fresh_s
        self._cache: OrderedDict[tuple[str, str], _CachedAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, viewer: Viewer, method: MethodName[AnswerT],
            params: Mapping[str, object]) -> AnswerT:
        """The result of a method, with the rights of `viewer`; PageError."""
        key = find_scope(self._site, viewer), json.dumps([method, params], sort_keys=True)
        with self._lock:
            cached = self._cache.setdefault(key, _CachedAnswer())
            self._cache.move_to_end(key)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        with cached.lock:
            if time.monotonic() - cached.at >= self._fresh_s:
                cached.answer = cached.error = None
                try:
                    cached.answer = self._site.ask(viewer, method, params)
                except PageError as error:
                    cached.error = error
                cached.at = time.monotonic()
            if cached.error is not None:
                raise PageError(cached.error.status, str(cached.error))
            answer: AnswerT = cached.answer
            return answer


def find_scope(site: Site, viewer: Viewer) -> str:
    """"(all)" for those who may see all jobs, else the user: equal ones share answers."""
    rights = site.rights(viewer)
    return "(all)" if rights["all"] else str(rights["user"])
