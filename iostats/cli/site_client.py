"""Questions of a user's command to the site's server."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys

from iostats.base.errors import NOT_OF_FORM, NotDelivered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.base.config import Config
    from iostats.wire.site_servers import SiteServers

_LONGEST = 1 << 28
WITHIN_S = 30.0
_asked: dict[tuple[str, int], SiteServers] = {}        # by [site] host and port


def ask_site(config: Config, method: str, params: dict[str, Any],
             within_s: float = WITHIN_S, is_quiet: bool = False) -> Any:
    """
    The result of a method of the first site's server that answers; NotDelivered without one.

    A command asks that one for all it wants, as what another one says is another account; one that
    runs for long returns to those before it.  A host that cannot be reached is given up after
    REACH_WITHIN_S; one that can, and whose server is silent, is waited for, with a line about it
    unless `is_quiet`.
    """
    from threading import Timer

    from iostats.node import identity              # a record in a file needs no network
    from iostats.wire import auth, protocol
    from iostats.wire.site_servers import REACH_WITHIN_S, ServerMoved, site_servers
    named = config["site.host"], config["site.port"]
    servers = _asked.get(named) or site_servers(config, REACH_WITHIN_S)
    _asked[named] = servers
    signs = auth.client_credentials(config, protocol.SITE, config["site.secret"])
    if servers.may_look_back():
        servers.look_back(signs, identity.name(), within_s)
    waits = Timer(1.2 * REACH_WITHIN_S, print, (
        f"iostats: {servers.name} has not answered yet; waiting for up to {within_s:g} s",),
        {"file": sys.stderr})
    waits.daemon = True
    try:
        if not is_quiet:
            waits.start()
        return servers.call(signs, identity.name(), method, params, within_s, _LONGEST,
                            learn=lambda _: waits.cancel(), moves=not params.get("after"))
    except ServerMoved as error:                    # it does not know where the other one was
        raise NotDelivered(f"{error}, in the middle of a list; repeat the command") from None
    finally:
        waits.cancel()


@contextlib.contextmanager
def form_checked(what: str) -> Iterator[None]:
    """In this block: NotDelivered where `what`, an answer, has not the form of this release."""
    try:
        yield
    except NOT_OF_FORM as error:
        raise NotDelivered(f"the site's server answers in another form: {what} cannot be shown "
                           f"({error!r:.200}); use one release of iostats here and there") from None


def may_read(user: str, config: Config) -> bool:
    """
    True if this process's user may read reports of `user`: the rule of the site's server, for
    reports that do not come from it.  Also True where their user is not known.
    """
    uid = os.geteuid()
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    return uid == 0 or not user or user in names or not names.isdisjoint(config["site.readers"])
