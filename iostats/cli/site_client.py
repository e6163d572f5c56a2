"""
Calls of a user's command to the site's server.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import TYPE_CHECKING

from iostats.base.errors import FORMAT_ERRORS, NotDelivered
from iostats.base.messages import print_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iostats.base.config import Config
    from iostats.wire.method_name import AnswerT, MethodName
    from iostats.wire.site_servers import SiteServers

_MAX_ANSWER_BYTES = 1 << 28
WITHIN_S = 30.0
_connections: dict[tuple[str, int], SiteServers] = {}        # by [site] host and port


def ask_site(config: Config, method: MethodName[AnswerT], params: Mapping[str, object],
             within_s: float = WITHIN_S, is_quiet: bool = False) -> AnswerT:
    """
    The result of a method of the first site's server that answers; NotDelivered without one.

    A command calls the same server each time, since another server has other data; a command that
    runs for long returns to preferred ones. A host that cannot be reached is given up after
    REACH_WITHIN_S, a server that does not answer `hello` after SILENT_WITHIN_S; then it has
    `within_s` for the result. Unless `is_quiet`, a line is printed for each longer wait.
    """
    from threading import Timer

    from iostats.node import identity  # here, as a record in a file needs no network
    from iostats.wire import auth, protocol
    from iostats.wire.site_servers import (
        REACH_WITHIN_S,
        SILENT_WITHIN_S,
        ServerMoved,
        make_site_servers,
    )
    host_and_port = config.site.host, config.site.port
    servers = _connections.get(host_and_port) or make_site_servers(config, REACH_WITHIN_S)
    _connections[host_and_port] = servers
    credentials = auth.load_client_credentials(config, protocol.SITE, config.site.secret)
    if servers.should_try_preferred():
        servers.try_preferred_servers(credentials, identity.find_node_name(), within_s)

    def make_print_timer(wait_s: float, text: str) -> Timer:
        timer = Timer(wait_s, print_message, (f"{servers.name} {text}",))
        timer.daemon = True
        return timer
    unanswered = make_print_timer(
        1.2 * REACH_WITHIN_S, "has not answered yet; waiting for up to "
                              f"{min(within_s, SILENT_WITHIN_S):g} s")
    slow = make_print_timer(
        SILENT_WITHIN_S, f"has answered, and not sent the result yet; waiting for up to "
                         f"{within_s:g} s")

    def has_answered(clock_ahead_s: float) -> None:
        unanswered.cancel()
        if not is_quiet and slow.ident is None:
            slow.start()
    try:
        if not is_quiet:
            unanswered.start()
        return servers.call(credentials, identity.find_node_name(), method, params, within_s,
                            _MAX_ANSWER_BYTES,
                            learn=has_answered, moves=not params.get("after"))
    except ServerMoved as error:                    # the new one cannot continue the list
        raise NotDelivered(f"{error}, in the middle of a list; repeat the command") from None
    finally:
        unanswered.cancel()
        slow.cancel()


@contextlib.contextmanager
def check_format(answer: str) -> Iterator[None]:
    """A context: NotDelivered if `answer` does not have the format of this release."""
    try:
        yield
    except FORMAT_ERRORS as error:
        raise NotDelivered(f"unexpected format of the site's server's answer: {answer} cannot be "
                           f"shown ({error!r:.200}); use the same release of iostats here and "
                           f"there") from None


def may_read_reports(user: str, config: Config) -> bool:
    """
    True if this process's user may read reports of `user`: the rule of the site's server, for
    reports from other sources. Also True if their user is unknown.
    """
    uid = os.geteuid()
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    return uid == 0 or not user or user in names or not names.isdisjoint(config.site.readers)
