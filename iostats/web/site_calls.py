"""
Calls to the site's server, for the user who views a page.

The site's server refuses what this user may not read; nothing of that is decided here. Each failure
is a PageError: a status of HTTP, and one line.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iostats.base.config import Config
from iostats.base.errors import FORMAT_ERRORS, IostatsError
from iostats.node import identity
from iostats.report.site_methods import RIGHTS, Rights
from iostats.wire import auth, client, protocol
from iostats.wire.method_name import MethodName
from iostats.wire.site_servers import REACH_WITHIN_S, SiteServers, make_site_servers

if TYPE_CHECKING:
    from iostats.web.viewer import Viewer  # which imports PageError
    from iostats.wire.method_name import AnswerT

log = logging.getLogger(__name__)

_WITHIN_S = 20.0
_MAX_ANSWER_BYTES = 1 << 27
_MAX_AT_ONCE = 8                # calls in progress; further ones wait
_REFRESH_S = 60.0               # how long credentials and users' rights are cached
_MAX_CACHED = 10_000


class PageError(IostatsError):
    """
    A page that cannot be shown.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Site:
    """The site's server, for calls from any number of threads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._places = threading.BoundedSemaphore(_MAX_AT_ONCE)
        self._credentials: tuple[float, Sequence[auth.Credentials]] | None = None
        self._servers: SiteServers | None = None
        self._rights: dict[Viewer, tuple[float, Rights]] = {}

    def ask(self, viewer: Viewer, method: MethodName[AnswerT],
            params: Mapping[str, object]) -> AnswerT:
        """The result of a method, with the rights of `viewer`; PageError."""
        if viewer.user:
            params = {"user": viewer.user, "method": method, "params": params}
            method = MethodName("as_user")
        if not self._places.acquire(timeout=_WITHIN_S):
            raise PageError(503, "too many pages are being made at the moment; try again")
        try:
            return self._call(method, params)
        except PageError:
            raise
        except client.Refused as error:
            raise _as_page_error(error) from None
        except IostatsError as error:
            self._credentials = None  # munged may be restarted, or the secret replaced
            log.warning("%s", error)
            raise PageError(503, "the site's server does not answer at the moment; this page "
                                 "works again as soon as it does") from None
        finally:
            self._places.release()

    def rights(self, viewer: Viewer) -> Rights:
        """{"user": name, "all": whether they may see all users' jobs}; cached for a minute."""
        cached = self._rights.get(viewer)
        if cached is None or time.monotonic() - cached[0] > _REFRESH_S:
            answer = self.ask(viewer, RIGHTS, {})
            with check_format("the rights of a user"):
                rights: Rights = {"user": answer["user"], "all": answer["all"]}
            if len(self._rights) >= _MAX_CACHED:
                self._rights.clear()
            cached = self._rights[viewer] = (time.monotonic(), rights)
        return cached[1]

    def get_cached_rights(self, viewer: Viewer) -> Rights | None:
        """The cached `rights`, for a page that needs no site's server; None without them."""
        cached = self._rights.get(viewer)
        return cached[1] if cached else None

    def _call(self, method: MethodName[AnswerT], params: Mapping[str, object]) -> AnswerT:
        now, credentials = time.monotonic(), self._credentials
        try:
            if self._servers is None:
                self._servers = make_site_servers(self._config, REACH_WITHIN_S)
            if credentials is None or now - credentials[0] > _REFRESH_S:
                credentials = self._credentials = now, auth.load_client_credentials(
                    self._config, protocol.SITE, self._config.site.secret)
        except IostatsError as error:
            log.warning("%s", error)
            raise PageError(503, "these pages are not set up to call the site's server; the log "
                                 "has the reason, for their administrator") from None
        if self._servers.should_try_preferred():
            self._servers.try_preferred_servers(credentials[1], identity.find_node_name(),
                                                _WITHIN_S)
        return self._servers.call(credentials[1], identity.find_node_name(), method, params,
                                  _WITHIN_S,
                                  _MAX_ANSWER_BYTES)


def _as_page_error(error: client.Refused) -> PageError:
    """The PageError of a refused call, without the server's address."""
    text = str(error).partition("the server refused ")[2].partition(": ")[2] or str(error)
    if error.code == protocol.REFUSED:
        return PageError(403, text)
    if error.code == protocol.INVALID_PARAMS:
        return PageError(400, text.removeprefix("Invalid params: "))
    if error.code == protocol.METHOD_NOT_FOUND:
        log.warning("%s", error)
        return PageError(503, "the site's server is of another release, without this "
                              "method")
    log.warning("%s", error)
    return PageError(503, "the site's server refuses calls of these pages; the log has the "
                          "reason, for their administrator")


@contextlib.contextmanager
def check_format(content: str) -> Iterator[None]:
    """A context: PageError if `content`, an answer, does not have the format of this release."""
    try:
        yield
    except FORMAT_ERRORS as error:
        log.warning("unexpected format of the site's server's answer: %s: %r", content, error)
        raise PageError(503,
                        f"unexpected format of the site's server's answer: {content} cannot be "
                        f"shown; use the same release of iostats here and there") from None
