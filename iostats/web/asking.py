"""
Questions to the site's server, for the one who looks at a page.

What it may not tell this user it refuses; nothing of that is decided here.  Whatever goes wrong is
a PageError: a status of HTTP, and one line.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from iostats.base.errors import NOT_OF_FORM, IostatsError
from iostats.node import identity
from iostats.wire import auth, client, protocol
from iostats.wire.site_servers import REACH_WITHIN_S, site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.web.who import Asker
    from iostats.wire.site_servers import SiteServers

log = logging.getLogger("iostats")

_WITHIN_S = 20.0
_LONGEST = 1 << 27
_MOST_AT_ONCE = 8                   # questions under way; more wait for a place
_KEPT_S = 60.0                      # how long credentials, and who may see all, are not asked anew
_MOST_KEPT = 10_000


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
    """The site's server, as it is asked by any number of threads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._signs: tuple[float, Sequence[auth.Credentials]] | None = None
        self._servers: SiteServers | None = None
        self._rights: dict[Asker, tuple[float, dict[str, Any]]] = {}

    def ask(self, asker: Asker, method: str, params: dict[str, Any]) -> Any:
        """The result of a method, as `asker` may see it; PageError."""
        if asker.user:
            params = {"user": asker.user, "method": method, "params": params}
            method = "as_user"
        if not self._places.acquire(timeout=_WITHIN_S):
            raise PageError(503, "too many pages are being made just now; try again")
        try:
            return self._called(method, params)
        except client.Refused as error:
            raise _refused(error) from None
        except IostatsError as error:
            self._signs = None                          # munged, or the secret, may be another
            log.warning("%s", error)
            raise PageError(503, "the site's server does not answer just now; this page works "
                                 "again as soon as it does") from None
        finally:
            self._places.release()

    def rights(self, asker: Asker) -> dict[str, Any]:
        """{"user": name, "all": they may see all users' jobs}; asked once in a minute."""
        found = self._rights.get(asker)
        if found is None or time.monotonic() - found[0] > _KEPT_S:
            answer = self.ask(asker, "rights", {})
            if not isinstance(answer, dict) or not {"user", "all"} <= set(answer):
                raise PageError(503, "the site's server answers in another form")
            if len(self._rights) >= _MOST_KEPT:
                self._rights.clear()
            found = self._rights[asker] = (time.monotonic(), answer)
        return found[1]

    def known_rights(self, asker: Asker) -> dict[str, Any] | None:
        """What `rights` last answered, for a page that needs no site's server; None for nothing."""
        found = self._rights.get(asker)
        return found[1] if found else None

    def _called(self, method: str, params: dict[str, Any]) -> Any:
        now, signs = time.monotonic(), self._signs
        if self._servers is None:
            self._servers = site_servers(self._config, REACH_WITHIN_S)
        if signs is None or now - signs[0] > _KEPT_S:
            signs = self._signs = now, auth.client_credentials(
                self._config, protocol.SITE, self._config["site.secret"])
        if self._servers.may_look_back():
            self._servers.look_back(signs[1], identity.name(), _WITHIN_S)
        return self._servers.call(signs[1], identity.name(), method, params, _WITHIN_S, _LONGEST)


def _refused(error: client.Refused) -> PageError:
    """As a page: what the site's server says of the question, without its address."""
    text = str(error).partition("the server refused ")[2].partition(": ")[2] or str(error)
    if error.code == protocol.REFUSED:
        return PageError(403, text)
    if error.code == protocol.INVALID_PARAMS:
        return PageError(400, text.removeprefix("Invalid params: "))
    if error.code == protocol.METHOD_NOT_FOUND:
        log.warning("%s", error)
        return PageError(503, "the site's server is of another release, which does not answer "
                              "this")
    log.warning("%s", error)
    return PageError(503, "the site's server does not let these pages ask; their administrator "
                          "finds more in the log")


@contextlib.contextmanager
def form_checked(what: str) -> Iterator[None]:
    """In this block: a PageError where `what`, an answer, has not the form of this release."""
    try:
        yield
    except NOT_OF_FORM as error:
        log.warning("the site's server answers in another form: %s: %r", what, error)
        raise PageError(503, f"the site's server answers in another form: {what} cannot be shown; "
                             f"use one release of iostats here and there") from None
