"""
Authentication of messages, by the job's secret or by munge: both have the same methods.

    node      authorization(node, time_s, nonce, body)   the value of the Authorization header
              verify_answer(headers, nonce, body)        True for an answer of a server we trust
              reject_reason                              why the last one was rejected
    server    SCHEME                                     how its Authorization header begins
              check(header, body)                        (node, uid or None, nonce);
                                                         AuthenticationError
              answer_header(nonce, reply)                (name, value) for the answer, or None

Munge's `check` and `answer_header` may block; `decoded(header)` and `check_decoded(decoded, body)`
are its `check` in two parts, of which only the first may block, and that one needs no body.

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
# For with_timeout(...) of what asks munged when a server starts.
MUNGED_TIMEOUT_S = 20.0
MUNGED_ANSWER = "answer of munged (was it stopped? site.cfg: [server] auth)"


class AuthenticationError(WireError):
    """
    Why a message is unauthenticated.

    Attributes:
        claimed: the node that it says it is from; None where that is not a valid name.
        nonce: of a message that is right but for its time or its user: its answer can be signed.
    """

    def __init__(self, code: int, message: str, claimed: str | None, nonce: str = "") -> None:
        super().__init__(code, message)
        self.claimed, self.nonce = claimed, nonce


def user_not_allowed(uid: int | None, name: str, claimed: str | None,
                     nonce: str = "") -> AuthenticationError:
    """The AuthenticationError for a user whom munge names, and who may not use server `name`."""
    return AuthenticationError(protocol.NOT_AUTHENTICATED,
                               f"not authenticated: user {uid} may not report to "
                               f"{protocol.server_of(name)}", claimed, nonce)


class Secret:
    """
    Authentication by a MAC: HMAC-SHA256 with the secret of a job (or site).

    `name`: the job's id, or protocol.SITE; `password`: the secret, bytes.  For the server:
    `tolerance_s`: how far a message's time may be from `now()`; `up()`: seconds since it started.
    """

    SCHEME = protocol.SCHEME
    _whose = "job"

    def __init__(self, name: str, password: bytes, tolerance_s: float = 300.0,
                 now: Callable[[], float] = time.time, up: Callable[[], float] | None = None
                 ) -> None:
        self._key = protocol.key_of(password, name)
        self._tolerance_s, self._now, began = tolerance_s, now, time.monotonic()
        self._up = up or (lambda: time.monotonic() - began)
        self._nonces: set[str] = set()
        self._nonces_by_age: deque[tuple[float, str]] = deque()
        self.reject_reason = ("the site's server has another secret" if name == protocol.SITE else
                      "a server of this job with another secret (see --secret)")

    # -- node

    def authorization(self, node: str, time_s: int, nonce: str, body: bytes) -> str:
        return protocol.authorization(self._key, node, time_s, nonce, body, self.SCHEME)

    def verify_answer(self, headers: Mapping[str, str], nonce: str, body: bytes) -> bool:
        """`headers`: {lower-case name: value}."""
        return protocol.same(headers.get(protocol.MAC_HEADER.lower(), ""),
                             protocol.answer_mac(self._key, nonce, body))

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        fields = protocol.fields_of(header, self.SCHEME) or {}
        claimed = fields["node"] if fields and is_node_name(fields["node"]) else None
        if (claimed is None or len(fields["nonce"]) != _NONCE_LENGTH
            or not protocol.same(fields["mac"], protocol.request_mac(
                    self._key, claimed, fields["time"], fields["nonce"], body))):
            raise AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                f"the message was not made with the secret of this {self._whose}, or was altered",
                claimed)
        now, nonce, tolerance = self._now(), fields["nonce"], self._tolerance_s
        if not _is_time(fields["time"]) or abs(int(fields["time"]) - now) > tolerance:
            raise AuthenticationError(
                protocol.STALE,
                f"the message's time is more than {tolerance:g} s from the server's", claimed,
                nonce)
        # The nonces of an earlier server with this secret are not known.  The time of a message to
        # this one is by the clock that its `hello` showed, in whole seconds.
        if now - int(fields["time"]) > self._up() + 2:
            raise AuthenticationError(protocol.STALE, "the message is older than this server",
                                      claimed, nonce)
        if nonce in self._nonces:
            raise AuthenticationError(protocol.REPLAYED, "this very message was here before",
                                      claimed, nonce)
        self._nonces.add(nonce)
        self._nonces_by_age.append((now, nonce))
        # A message is stale on both sides of `now`, so a nonce is kept for twice the tolerance.
        while self._nonces_by_age and self._nonces_by_age[0][0] < now - 2 * tolerance - 1:
            self._nonces.discard(self._nonces_by_age.popleft()[1])
        return claimed, None, nonce

    def nonces(self) -> list[str]:
        """Those that are remembered, the oldest first."""
        return [nonce for _, nonce in self._nonces_by_age]

    def answer_header(self, nonce: str, reply: bytes) -> tuple[str, str] | None:
        return protocol.MAC_HEADER, protocol.answer_mac(self._key, nonce, reply)


class Munge:
    """
    Authentication by a munge credential: munged of both machines vouches for the user.

    `name`: as of Secret; `socket`: of munged, "" for libmunge's default; `uids`: users who may send
    messages to this server; `trusted_uids`: users whose server this node trusts; both default to
    this user and root.  `library`: what has encode() and decode() of iostats.wire.munge.
    """

    SCHEME = protocol.MUNGE_SCHEME

    def __init__(self, name: str, socket: str = "", uids: Container[int] | None = None,
                 trusted_uids: Container[int] | None = None, library: Any = None) -> None:
        if library is None:
            from iostats.wire import munge as library
        own = frozenset((os.geteuid(), 0))
        self._name, self._socket, self._munge = name, socket, library
        self._uids = own if uids is None else uids
        self._trusted_uids = own if trusted_uids is None else trusted_uids
        self._code_of = {library.EXPIRED: protocol.STALE, library.REWOUND: protocol.STALE,
                         library.REPLAYED: protocol.REPLAYED}
        self.reject_reason = ""

    # -- node

    def authorization(self, node: str, time_s: int, nonce: str, body: bytes) -> str:
        """`time_s` is not used: munge has a time of its own."""
        try:
            credential = self._munge.encode(protocol.munge_request(node, self._name, nonce, body),
                                            self._socket)
        except self._munge.MungeError as error:
            raise NotDelivered(f"munge: {error}") from None
        return f"{self.SCHEME} {credential}"

    def verify_answer(self, headers: Mapping[str, str], nonce: str, body: bytes) -> bool:
        credential = headers.get(protocol.MUNGE_HEADER.lower())
        if not credential:
            self.reject_reason = (f"{protocol.server_of(self._name)} does not authenticate itself "
                                  f"by munge")
            return False
        uid: int | None
        try:
            payload, uid, _ = self._munge.decode(credential, self._socket)
        except self._munge.MungeError as error:
            # The nonce is of this request alone: a credential that expired, or was decoded before,
            # still answers it.
            if error.payload is None:
                self.reject_reason = f"munge rejects its answer: {error}"
                return False
            payload, uid = error.payload, error.uid
        if payload != protocol.munge_answer(nonce, body):
            self.reject_reason = "its munge credential is for another answer"
            return False
        if uid not in self._trusted_uids:
            self.reject_reason = (f"{protocol.server_of(self._name)} is run by user {uid}, whom "
                                  f"this node does not trust (site.cfg: [server] munge_users)")
            return False
        return True

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        return self.check_decoded(self.decoded(header), body)

    def decoded(self, header: str) -> tuple[bytes, int | None, int | None, str]:
        """A credential as munged decodes it: (payload, uid, error code or None, why)."""
        try:
            payload, uid, _ = self._munge.decode(header.partition(" ")[2], self._socket)
        except self._munge.MungeError as error:
            if error.payload is None:
                raise AuthenticationError(protocol.NOT_AUTHENTICATED, f"munge: {error}",
                                          None) from None
            return error.payload, error.uid, self._code_of[error.code], str(error)
        return payload, uid, None, ""

    def check_decoded(self, decoded: tuple[bytes, int | None, int | None, str],
                      body: bytes) -> tuple[str, int | None, str]:
        """(node, uid, nonce) of a credential that is for this very message."""
        payload, uid, code, why = decoded
        fields = protocol.munge_fields(payload, body)
        if fields is None:
            raise AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                "the message was altered, or its munge credential is for another one", None)
        node, name, nonce = fields
        claimed = node if is_node_name(node) else None
        if claimed is None or name != self._name or len(nonce) != _NONCE_LENGTH:
            raise AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                f"the message is not for {protocol.server_of(self._name)}", claimed)
        if uid not in self._uids:
            raise user_not_allowed(uid, self._name, claimed, nonce)
        if code is not None:
            raise AuthenticationError(code, f"munge: {why}", claimed, nonce)
        return claimed, uid, nonce

    def answer_header(self, nonce: str, reply: bytes) -> tuple[str, str] | None:
        """None where munged is gone: the node then rejects the answer, and asks again."""
        try:
            return protocol.MUNGE_HEADER, self._munge.encode(protocol.munge_answer(nonce, reply),
                                                             self._socket)
        except self._munge.MungeError:
            return None


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


# -- by site.cfg -----------------------------------------------------------------------------

def with_timeout(timeout_s: float, what: str, action: Callable[[], Any]) -> Any:
    """
    What `action()` returns or raises; NotDelivered when it takes longer than `timeout_s`.

    It runs in a thread of its own: no signal interrupts a resolver, or munged, that does not
    answer.
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
    if not done.acquire(timeout=max(0.001, timeout_s)):
        raise NotDelivered(f"no {what} within {timeout_s:.1f} s")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def client_credentials(config: Mapping[str, Any], name: str, secret_path: str | None,
                       say: Callable[[str], None] = lambda text: None, job_uid: int | None = None,
                       munged_within_s: float = 2.5) -> list[Credentials]:
    """
    The credentials with which a node asks the server `name`, the preferred ones first.

    `secret_path`: as of secret.load; `job_uid`: the user of the job, whose server root trusts
    as well; `munged_within_s`: how long munged may take.  Where the preferred ones do not work and
    others do, `say` gets a line about it; NotDelivered (or secret's StateError) when none work.
    Munge that comes second to a secret which is there is not tried before it is needed.
    """
    found: list[Credentials] = []
    failed: list[IostatsError] = []
    for word in config["server.auth"]:
        try:
            if word == "munge":
                if not found:
                    with_timeout(munged_within_s, "answer of munged (site.cfg: [server] auth)",
                                 lambda: _check_munge(config))
                found.append(Munge(name, config["server.munge_socket"],
                                   trusted_uids=_trusted_uids(config, job_uid)))
            else:
                found.append(Secret(name, secret.load(secret_path)))
        except ConfigError:
            raise
        except IostatsError as error:
            if not found:
                failed.append(error)
    return _usable(found, failed, say)


def server_credentials(config: Mapping[str, Any], name: str, secret_path: str | None,
                       say: Callable[[str], None] = lambda text: None,
                       uids: Container[int] | None = None,
                       now: Callable[[], float] = time.time) -> list[Credentials]:
    """
    The credentials that the server `name` takes: all that [server] auth names and that work here.

    `uids`: as of Munge.  Raises NotDelivered or StateError when none work.
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


def _trusted_uids(config: Mapping[str, Any], job_uid: int | None) -> set[int]:
    """The users whose server this node trusts."""
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
