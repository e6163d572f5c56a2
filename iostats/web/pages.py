"""
Which address is which page.

    Pages.answer(method, path, query string, Asker)  ->  an PageAnswer

It blocks while the site's server is asked, so it runs in a thread.  Whatever is wrong with an
address, a user or the site's server becomes a page with one line.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote

from iostats.base.errors import IostatsError, UsageError
from iostats.base.logs import log_internal_error
from iostats.web import (
    docs_page,
    events_page,
    file_system_page,
    job_page,
    jobs_page,
    nodes_page,
    now_page,
)
from iostats.web.asking import PageError, Site
from iostats.web.layout import TEXT, PageAnswer, PageLayout
from iostats.web.query import PageQuery
from iostats.web.shared import SharedAnswers, scope_of
from iostats.web.who import SELF, Asker, UserUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

log = logging.getLogger("iostats")


class Visit:
    """
    One look at one page.

    Attributes:
        query: what the address asks for.
        rest: of the path, behind the page's name.
        base, labels, units, config: of site.cfg.
    """

    def __init__(self, pages: Pages, asker: Asker, rest: str, query: PageQuery) -> None:
        self._pages, self._asker, self.rest, self.query = pages, asker, rest, query
        self.config, self.base = pages.config, pages.layout.base
        self.labels, self.units = pages.config.labels, pages.config["report.units"]

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a method of the site's server, as the user may see it; PageError."""
        return self._pages.site.ask(self._asker, method, params)

    def shared(self, method: str, params: dict[str, Any]) -> Any:
        """The same, of the last seconds: what others who may see the same have asked."""
        return self._pages.shared.ask(self._asker, method, params)

    def who(self) -> dict[str, Any]:
        """{"user": name, "all": whether they may see all jobs}."""
        return self._pages.site.rights(self._asker)

    def known_who(self) -> dict[str, Any] | None:
        """The same, of before, without asking; None where it was not asked yet."""
        return self._pages.site.known_rights(self._asker)

    def page(self, template: str, heading: str, current: str, **values: Any) -> PageAnswer:
        """A whole page."""
        return self._pages.layout.page(template, heading, current, **values)

    def part(self, template: str, **values: Any) -> str:
        """A part of a page, as HTML."""
        return self._pages.layout.part(template, **values)


class Pages:
    """
    All pages.

    Attributes:
        site: the site's server.
        layout: how a page looks.
    """

    def __init__(self, config: Config, base: str | None = None) -> None:
        """`base`: the path of the pages, if it is not that of [web] prefix."""
        self.config = config
        prefix = config["web.prefix"] if base is None else base
        self.site, self.layout = Site(config), PageLayout(config, prefix.rstrip("/"))
        if docs_page.names():
            config.take("web.address", self.layout.base or "/", "iostats web")
        self.shared = SharedAnswers(self.site, 0.9 * config["web.every"])
        self._of: dict[str, Callable[[Visit], PageAnswer]] = {
            "": self._front, "jobs": jobs_page.jobs, "job": job_page.job,
            "nodes": nodes_page.nodes, "events": events_page.events, "now": now_page.now,
            "fs": file_system_page.file_system, "docs": docs_page.docs, "static": self._static}

    def answer(self, method: str, path: str, query_string: str, asker: Asker) -> PageAnswer:
        """The answer to a request; whatever is wrong is one, too.  `path`: decoded, with base."""
        if method not in ("GET", "HEAD"):
            return self.not_readable()
        try:
            page, visit = self.visit(path, query_string, asker)
            return page(visit)
        except IostatsError as error:
            return self.of_error(error, asker)
        except Exception as error:              # the visitor gets an answer, and the log a report
            log_internal_error(error)
            return self._error(500, "internal error; please report it to those who run these "
                                    "pages", asker)

    def of_error(self, error: IostatsError, asker: Asker) -> PageAnswer:
        """The page with what went wrong."""
        if isinstance(error, PageError):
            return self._error(error.status, str(error), asker)
        if isinstance(error, UsageError):
            return self._error(400, str(error), asker)
        log.warning("%s", error)
        return self._error(503, str(error), asker)

    def visit(self, path: str, query_string: str,
              asker: Asker) -> tuple[Callable[[Visit], PageAnswer], Visit]:
        """(page, Visit); PageError, UsageError."""
        base = self.layout.base
        if base and (path == base or path.startswith(base + "/")):      # else the proxy took it
            path = path[len(base):]
        name, _, rest = path.removeprefix("/").partition("/")
        page = self._of.get(name)
        if page is None or (rest and name in ("", "jobs", "events")):
            raise PageError(404, "there is no such page")
        return page, Visit(self, asker, rest, PageQuery(query_string))

    def live_query(self, path: str, query_string: str) -> str | None:
        """What a live page asks for, the same for all who ask the same; None for another page."""
        page, visit = self.visit(path, query_string, SELF)
        if page is not now_page.now or visit.rest != "live":
            return None
        query = now_page.canonical(visit.query)
        now_page.question_of(query)
        return query.link()[1:]

    def live_part(self, asker: Asker, query_string: str) -> str:
        """The part of a live page that changes; IostatsError."""
        return now_page.part(Visit(self, asker, "part", query := PageQuery(query_string)), query)

    def scope(self, asker: Asker) -> str:
        """Who has the same one sees the same; PageError."""
        return scope_of(self.site, asker)

    def is_static(self, path: str) -> bool:
        """Whether it is one of our files, which everybody may have."""
        return path.removeprefix(self.layout.base).startswith("/static/")

    def not_readable(self) -> PageAnswer:
        """The answer to what would change something."""
        return PageAnswer(405, TEXT, b"405: these pages can only be read\n",
                          (("Allow", "GET, HEAD"),))

    def forbidden(self, error: UserUnknown) -> PageAnswer:
        """For one who is not known."""
        return self.layout.error(403, str(error))

    def _error(self, status: int, message: str, asker: Asker) -> PageAnswer:
        try:
            who = self.site.rights(asker) if status in (400, 403, 404, 500) else None
        except IostatsError:
            who = None
        return self.layout.error(status, message, who)

    def _front(self, visit: Visit) -> PageAnswer:
        return PageAnswer(302, TEXT, b"", (("Location", f"{self.layout.base}/jobs"),))

    def _static(self, visit: Visit) -> PageAnswer:
        found = self.layout.file(visit.rest)
        # Files are for all: it is not known who asks, so the page says nothing of that.
        return found or self.layout.error(404, "there is no such file")


def decoded_path(raw: bytes) -> str:
    """A path as it is sent -> text."""
    return unquote(raw.decode("ascii", "replace"), errors="replace")
