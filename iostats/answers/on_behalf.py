"""
The methods `as_user` and `rights`: another program calls a method for a user that it has
authenticated.

    iostats web  --  as_user {"user": "alice", "method": "jobs", "params": {...}}  -->  the answer
                     that alice would get to `jobs`

Allowed for root, the server's own user and [site] readers, who could read it all themselves.  The
method is called with a Caller that is that user, so the rights are those of
SiteServer._find_user(), and there is no second rule.  It is a method of its own, since a server of
an earlier release ignores an unknown member of params, and would answer with everything.
"""

import os
from collections.abc import Callable, Mapping
from typing import Optional

import msgspec

from iostats.base.errors import WireError
from iostats.base.users import find_user
from iostats.jobs.batch_facts import find_user_name
from iostats.server.rpc_server import Caller, Sender
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method, decode_params
from iostats.wire.messages.report import Name

# The methods for ordinary users; each of them checks its caller's rights.
QUESTIONS = ("record", "latest", "waiting", "jobs", "load", "query", "nodes", "events",
             "events_status", "capacity", "metrics", "quotas", "job_history", "file_system_lines",
             "rights")


class AsUserParams(msgspec.Struct):
    """The params of `as_user`."""

    user: Name  # the name of a user of the server's host
    # method, params: the call for that user
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

    def call(self, params: AsUserParams, sender: Sender) -> object:
        """The result of the method for that user; WireError."""
        caller = self._require_authenticated(sender)
        if self._user_of(sender) is not None:
            raise WireError(protocol.NOT_AUTHENTICATED, (
                f"user {caller.uid} may not call for other users: expected root or one of [site] "
                f"readers"))
        if params.method not in QUESTIONS or params.method not in self._methods:
            raise WireError(protocol.METHOD_NOT_FOUND, "")
        method = self._methods[params.method]
        user = Caller(caller.node, _find_uid(params.user, caller.uid))
        return method.function(decode_params(bytes(params.params), method.params), user)

    def rights(self, params: RightsParams, sender: Sender) -> dict[str, object]:
        """Return {"user": the caller's name, or "" without one, "all": whether all may be read}."""
        uid, own_user = self._require_authenticated(sender).uid, self._user_of(sender)
        return {"user": "" if uid is None else own_user or find_user_name(uid),
                "all": own_user is None}


def _find_uid(name: str, asking_uid: Optional[int]) -> int:
    """
    The uid of a user; WireError.

    A name comes from a log-in to a page, so it is never that of root or of a service that may read
    everything: these use no pages.
    """
    user = find_user(name)
    if user is None:
        raise WireError(protocol.REFUSED, f"there is no user {name[:80]!r} here")
    uid = user.pw_uid
    if uid in (0, os.geteuid(), asking_uid):
        raise WireError(protocol.REFUSED, f"expected a user other than root and those who run "
                                          f"iostats, got {name[:80]!r}")
    return uid
