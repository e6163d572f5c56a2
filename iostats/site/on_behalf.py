"""
The methods `as_user` and `rights`: another program asks for a user, who has proved to it who he is.

    iostats web  --  as_user {"user": "alice", "method": "jobs", "params": {...}}  -->  the answer
                     that alice would get to `jobs`

Who may ask so is root, the server's own user and [site] readers: what they could read themselves.
The method is called with a Caller that is that user, so the rights are those of SiteServer._user(),
and there is no second rule.  It is a method of its own, since a server of an earlier release passes
over a member of params that it does not know, and would answer with everything.
"""

import os
import pwd
from collections.abc import Callable, Mapping
from typing import Any, Optional

import msgspec

from iostats.base.errors import WireError
from iostats.server.rpc_server import Caller, Sender
from iostats.site.batch_facts import user_name
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method, decoded_params
from iostats.wire.messages.report import Name

# What ordinary users may ask for; each of them looks at who asks.
QUESTIONS = ("record", "latest", "waiting", "jobs", "load", "query", "nodes", "events",
             "events_status", "job_history", "file_system_lines", "rights")


class AsUserParams(msgspec.Struct):
    """
    The params of `as_user`.

    Attributes:
        user: the name of a user of the server's host.
        method, params: what is asked for that user.
    """

    user: Name
    method: Name
    params: msgspec.Raw = msgspec.Raw(b"{}")


class RightsParams(msgspec.Struct):
    """The params of `rights`: none."""


class OnBehalf:
    """Answers `as_user`; `methods`: of the server, by name."""

    def __init__(self, methods: Mapping[str, Method],
                 user_of: Callable[[Sender], Optional[str]],
                 require_authenticated: Callable[[Sender], Caller]) -> None:
        """`user_of`: the only user whose records a Sender may read; None for all users'."""
        self._methods, self._user_of = methods, user_of
        self._require_authenticated = require_authenticated

    def ask(self, ask: AsUserParams, sender: Sender) -> Any:
        """What the method returns to that user; WireError."""
        caller = self._require_authenticated(sender)
        if self._user_of(sender) is not None:
            raise WireError(protocol.NOT_AUTHENTICATED, (
                f"user {caller.uid} may not ask for others: expected root or one of [site] "
                f"readers"))
        if ask.method not in QUESTIONS or ask.method not in self._methods:
            raise WireError(protocol.METHOD_NOT_FOUND, "")
        method = self._methods[ask.method]
        user = Caller(caller.node, _uid_of(ask.user, caller.uid))
        return method.function(decoded_params(bytes(ask.params), method.params), user)

    def rights(self, ask: RightsParams, sender: Sender) -> dict[str, Any]:
        """{"user": who asks, "" where no user is named, "all": he may read all users' records}."""
        uid, own = self._require_authenticated(sender).uid, self._user_of(sender)
        return {"user": "" if uid is None else own or user_name(uid), "all": own is None}


def _uid_of(name: str, asking: Optional[int]) -> int:
    """
    The user's number; WireError.

    A name comes from a log-in to a page, so it is never that of root or of a service that
    may read everything: these come by no page.
    """
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):                    # a zero in it
        raise WireError(protocol.REFUSED, f"user {name[:80]!r} is not known here") from None
    if uid in (0, os.geteuid(), asking):
        raise WireError(protocol.REFUSED, f"expected a user other than root and those who run "
                                          f"iostats, got {name[:80]!r}")
    return uid
