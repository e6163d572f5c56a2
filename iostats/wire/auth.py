"""
What signs and checks messages: the job's secret, or munge; both alike for node and server.

    node      authorization(node, time_s, nonce, body)   the value of the Authorization header
              proves(headers, nonce, body)               the answer is of one that we believe
              doubt                                      why the last one was not, in words
    server    SCHEME                                     how its Authorization header begins
              check(header, body)                        (node, uid or None, nonce), or Disbelieved
              answer_header(nonce, reply)                (name, value) for the answer, or None

Munge's `check` and `answer_header` may block; its `asked(header)` and `checked(found, body)` are
`check` in two parts, of which the first may block, and needs no body.

Which of them, and in which order, is site.cfg's [server] auth; docs/wire.md is the form.
"""

from __future__ import annotations

import os
import time
from collections import deque

from iostats.base.errors import ConfigError, IostatsError, NotDelivered, WireError
from iostats.base.job_id import is_node_name
from iostats.wire import protocol, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any, Union

    Credentials = Union["Secret", "Munge"]

ANYONE = range(1 << 32)                            # every uid, for `uids`
_NONCE_LENGTH = 32


class Disbelieved(WireError):
    """
    Why a message is not believed.

    Attributes:
        claimed: the node that it says it is from; None where that is no name.
        nonce: of a message that is right but for its time or its user: its answer can be proved.
    """

    def __init__(self, code: int, message: str, claimed: str | None, nonce: str = "") -> None:
        super().__init__(code, message)
        self.claimed, self.nonce = claimed, nonce


def no_user(uid: int | None, name: str, claimed: str | None, nonce: str = "") -> Disbelieved:
    """The Disbelieved of a user of munge who has no business with the server `name`."""
    return Disbelieved(protocol.NOT_AUTHENTICATED,
                       f"not authenticated: user {uid} may not report to "
                       f"{protocol.server_of(name)}", claimed, nonce)


class Secret:
    """
    Messages with a mac that is made with the secret of a job (or site) by HMAC-SHA256.

    `name`: the job's id, or wire.SITE; `password`: the secret, bytes; `tolerance_s`, `now` and
    `up`, the seconds since it began, are of the server.
    """

    SCHEME = protocol.SCHEME

    def __init__(self, name: str, password: bytes, tolerance_s: float = 300.0,
                 now: Callable[[], float] = time.time, up: Callable[[], float] | None = None
                 ) -> None:
        self._key = protocol.key_of(password, name)
        self._tolerance_s, self._now, began = tolerance_s, now, time.monotonic()
        self._up = up or (lambda: time.monotonic() - began)
        self._nonces: set[str] = set()
        self._nonces_by_age: deque[tuple[float, str]] = deque()
        self.doubt = ("the site's server has another secret" if name == protocol.SITE else
                      "a server of this job with another secret (see --secret)")

    # -- node

    def authorization(self, node: str, time_s: int, nonce: str, body: bytes) -> str:
        return protocol.authorization(self._key, node, time_s, nonce, body)

    def proves(self, headers: Mapping[str, str], nonce: str, body: bytes) -> bool:
        """`headers`: {lower-case name: value}."""
        return protocol.same(headers.get(protocol.MAC_HEADER.lower(), ""),
                             protocol.answer_mac(self._key, nonce, body))

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        fields = protocol.fields_of(header) or {}
        claimed = fields["node"] if fields and is_node_name(fields["node"]) else None
        if (claimed is None or len(fields["nonce"]) != _NONCE_LENGTH
            or not protocol.same(fields["mac"], protocol.request_mac(
                    self._key, claimed, fields["time"], fields["nonce"], body))):
            raise Disbelieved(protocol.NOT_AUTHENTICATED,
                              "the message was not made with the secret "
                              "of this job, or was altered", claimed)
        now, nonce, tolerance = self._now(), fields["nonce"], self._tolerance_s
        if not _is_time(fields["time"]) or abs(int(fields["time"]) - now) > tolerance:
            raise Disbelieved(protocol.STALE,
                              f"the message's time is more than {tolerance:g} s from "
                              f"the server's", claimed, nonce)
        # The nonces of an earlier server with this secret are not known.  A message to this one has
        # a time that its `hello` told, in whole seconds.
        if now - int(fields["time"]) > self._up() + 2:
            raise Disbelieved(protocol.STALE, "the message is older than this server", claimed,
                              nonce)
        if nonce in self._nonces:
            raise Disbelieved(protocol.REPLAYED, "this very message was here before", claimed,
                              nonce)
        self._nonces.add(nonce)
        self._nonces_by_age.append((now, nonce))
        # A message is stale on both sides of `now`, so a nonce is kept for twice the tolerance.
        while self._nonces_by_age and self._nonces_by_age[0][0] < now - 2 * tolerance - 1:
            self._nonces.discard(self._nonces_by_age.popleft()[1])
        return claimed, None, nonce

    def answer_header(self, nonce: str, reply: bytes) -> tuple[str, str] | None:
        return protocol.MAC_HEADER, protocol.answer_mac(self._key, nonce, reply)


class Munge:
    """
    Messages with a munge credential: the machines' munged tell whose they are.

    `name`: as of Secret; `socket`: of munged, "" for libmunge's own; `uids`: who may send
    messages to this server; `believed`: whose server this node believes.  Both are this user and
    root, unless they are given.
    """

    SCHEME = protocol.MUNGE_SCHEME

    def __init__(self, name: str, socket: str = "", uids: Container[int] | None = None,
                 believed: Container[int] | None = None) -> None:
        from iostats.wire import munge
        own = frozenset((os.geteuid(), 0))
        self._name, self._socket, self._munge = name, socket, munge
        self._uids = own if uids is None else uids
        self._believed = own if believed is None else believed
        self._late = {munge.EXPIRED: protocol.STALE, munge.REWOUND: protocol.STALE,
                      munge.REPLAYED: protocol.REPLAYED}
        self.doubt = ""

    # -- node

    def authorization(self, node: str, time_s: int, nonce: str, body: bytes) -> str:
        """`time_s` is not used: munge has a time of its own."""
        try:
            credential = self._munge.encode(protocol.munge_request(node, self._name, nonce, body),
                                            self._socket)
        except self._munge.MungeError as error:
            raise NotDelivered(f"munge: {error}") from None
        return f"{self.SCHEME} {credential}"

    def proves(self, headers: Mapping[str, str], nonce: str, body: bytes) -> bool:
        credential = headers.get(protocol.MUNGE_HEADER.lower())
        if not credential:
            self.doubt = f"{protocol.server_of(self._name)} does not prove by munge whose it is"
            return False
        uid: int | None
        try:
            payload, uid, _ = self._munge.decode(credential, self._socket)
        except self._munge.MungeError as error:
            # Our nonce is of this moment: no clock and no earlier reader makes it less ours.
            if error.payload is None:
                self.doubt = f"munge does not believe its answer: {error}"
                return False
            payload, uid = error.payload, error.uid
        if payload != protocol.munge_answer(nonce, body):
            self.doubt = "its munge credential is of another answer"
            return False
        if uid not in self._believed:
            self.doubt = (f"{protocol.server_of(self._name)} is run by user {uid}, whom this node "
                          f"does not believe (site.cfg: [server] munge_users)")
            return False
        return True

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        return self.checked(self.asked(header), body)

    def asked(self, header: str) -> tuple[bytes, int | None, int | None, str]:
        """What munged says of a credential: (payload, uid, error code or None, why)."""
        try:
            payload, uid, _ = self._munge.decode(header.partition(" ")[2], self._socket)
        except self._munge.MungeError as error:
            if error.payload is None:
                raise Disbelieved(protocol.NOT_AUTHENTICATED, f"munge: {error}", None) from None
            return error.payload, error.uid, self._late[error.code], str(error)
        return payload, uid, None, ""

    def checked(self, found: tuple[bytes, int | None, int | None, str],
                body: bytes) -> tuple[str, int | None, str]:
        """Whether that is of this very message."""
        payload, uid, code, why = found
        fields = protocol.munge_fields(payload, body)
        if fields is None:
            raise Disbelieved(protocol.NOT_AUTHENTICATED, "the message was altered, or its munge "
                              "credential is of another one", None)
        node, name, nonce = fields
        claimed = node if is_node_name(node) else None
        if claimed is None or name != self._name or len(nonce) != _NONCE_LENGTH:
            raise Disbelieved(protocol.NOT_AUTHENTICATED, f"the message is not for "
                              f"{protocol.server_of(self._name)}", claimed)
        if uid not in self._uids:
            raise no_user(uid, self._name, claimed, nonce)
        if code is not None:
            raise Disbelieved(code, f"munge: {why}", claimed, nonce)
        return claimed, uid, nonce

    def answer_header(self, nonce: str, reply: bytes) -> tuple[str, str] | None:
        """None where munged is gone: the node then does not believe the answer, and asks again."""
        try:
            return protocol.MUNGE_HEADER, self._munge.encode(protocol.munge_answer(nonce, reply),
                                                             self._socket)
        except self._munge.MungeError:
            return None


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


# -- by site.cfg -----------------------------------------------------------------------------

def in_time(within_s: float, what: str, action: Callable[[], Any]) -> Any:
    """
    What `action()` returns or raises; NotDelivered when it takes longer than `within_s`.

    It has a thread of its own: no signal ends a resolver, or a munged, that does not answer.
    """
    import _thread
    done = _thread.allocate_lock()
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((action(), None))
        except BaseException as error:
            outcome.append((None, error))
        done.release()
    done.acquire()
    _thread.start_new_thread(run, ())
    if not done.acquire(timeout=max(0.001, within_s)):
        raise NotDelivered(f"no {what} within {within_s:.1f} s")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def of_client(config: Mapping[str, Any], name: str, secret_path: str | None,
              say: Callable[[str], None] = lambda text: None,
              job_uid: int | None = None, munged_within_s: float = 2.5) -> list[Credentials]:
    """
    [what signs], the preferred one first, for a node that asks the server `name`.

    `secret_path`: as of secret.load; `job_uid`: the user of the job, whose server root believes
    as well; `munged_within_s`: how long munged may take.  What is preferred and does not work is
    told by `say`, once something else does; NotDelivered (or secret's StateError) when nothing
    works.  Munge behind a secret that is there is not tried before it is needed.
    """
    found: list[Credentials] = []
    failed: list[IostatsError] = []
    for word in config["server.auth"]:
        try:
            if word == "munge":
                if not found:
                    in_time(munged_within_s, "answer of munged (site.cfg: [server] auth)",
                            lambda: _check_munge(config))
                found.append(Munge(name, config["server.munge_socket"],
                                   believed=_believed(config, job_uid)))
            else:
                found.append(Secret(name, secret.load(secret_path)))
        except ConfigError:
            raise
        except IostatsError as error:
            if not found:
                failed.append(error)
    return _usable(found, failed, say)


def of_server(config: Mapping[str, Any], name: str, secret_path: str | None,
              say: Callable[[str], None] = lambda text: None, uids: Container[int] | None = None,
              now: Callable[[], float] = time.time) -> list[Credentials]:
    """
    [what checks] for the server `name`: every kind that [server] auth names and that works here.

    `uids`: of Munge.  Raises NotDelivered or StateError when nothing works.
    """
    found: list[Credentials] = []
    failed: list[IostatsError] = []
    for word in config["server.auth"]:
        if word == "munge":
            try:
                _check_munge(config)
            except NotDelivered as error:
                failed.append(error)
            else:
                found.append(Munge(name, config["server.munge_socket"], uids))
        else:
            found.append(Secret(name, secret.load(secret_path), config["server.clock_tolerance"],
                                now))
    return _usable(found, failed, say)


def _usable(found: list[Credentials], failed: list[IostatsError],
            say: Callable[[str], None]) -> list[Credentials]:
    if not found:
        if len(failed) == 1:
            raise failed[0]
        raise NotDelivered("; ".join(map(str, failed)))
    for error in failed:
        say(f"{error}; going on with {'munge' if isinstance(found[0], Munge) else 'the secret'}")
    return found


def _check_munge(config: Mapping[str, Any]) -> None:
    """Raise NotDelivered where munge does not work."""
    from iostats.wire import munge
    why = munge.available(config["server.munge_socket"])
    if why:
        raise NotDelivered(f"munge does not work here: {why} (site.cfg: [server] auth)")


def _believed(config: Mapping[str, Any], job_uid: int | None) -> set[int]:
    """The uids of those whose server this node believes."""
    found = {os.geteuid(), 0}
    if job_uid is not None and os.geteuid() == 0:
        found.add(job_uid)
    for user in config["server.munge_users"]:
        if user.isascii() and user.isdigit():
            found.add(int(user))
            continue
        import pwd
        try:
            found.add(pwd.getpwnam(user).pw_uid)
        except KeyError:
            raise ConfigError(f"site.cfg: [server] munge_users: expected users of this machine, or "
                              f"their numbers, got {user!r}") from None
    return found
