"""
Authentication of messages by the job's secret or by munge, and the files of secrets.

Both schemes have the same methods:

    node      authorization(node, time_s, nonce, body)   the value of the Authorization header
              verify_answer(headers, nonce, body)        True for an answer of a server we trust
              reject_reason                              why the last one was rejected
    server    SCHEME                                     how its Authorization header begins
              check(header, body)                        (node, uid or None, nonce);
                                                         AuthenticationError
              answer_header(nonce, reply)                (name, value) for the answer, or None

Munge's `check` and `answer_header` may block; `decoded(header)` and `check_decoded(decoded, body)`
are its `check` in two parts, of which only the first may block, and that one needs no body.

[server] auth in site.cfg names the schemes in their order; docs/reference/wire.md has the format.

The job's secret is 32 random bytes, as 64 hex digits in a file that only its user can read.  The
server makes it, and the nodes read it, in a directory that they share (site.cfg: [secret] dir,
~/.iostats by default); or it is in the environment, as IOSTATS_SECRET.
"""

from __future__ import annotations

import os
import time
from collections import deque

from iostats.base.errors import ConfigError, IostatsError, NotDelivered, StateError, WireError
from iostats.base.job_id import is_node_name, make_filename
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import (
    find_unsafe_mode,
    make_directories,
    read_text,
    write_atomically,
)
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from typing import Protocol, TypeVar, Union

    from iostats.base.config import Config
    from iostats.wire.munge import MungeError

    Credentials = Union["Secret", "Munge"]
    T = TypeVar("T")

    class MungeLibrary(Protocol):
        """The functions of iostats.wire.munge, or of a test."""

        EXPIRED: int
        REWOUND: int
        REPLAYED: int

        @property
        def MungeError(self) -> type[MungeError]: ...
        def encode(self, payload: bytes, socket: str = "") -> str: ...
        def decode(self, credential: str, socket: str = "") -> tuple[bytes, int, int]: ...

VARIABLE = "IOSTATS_SECRET"
_SHORTEST = 16


class SecretHints(NamedTuple):
    """Hints on how to repair a secret."""

    # missing, short: where there is none, or one of too few characters
    missing: str
    short: str
    shared: str     # where others can read it
    denied: str     # where we cannot


_NEW_ONE = "remove it where the server runs, which makes a new one"
OF_SITE = SecretHints(
    "the server makes it: is that running, and is the directory shared, or the file copied to "
    "here?", _NEW_ONE, _NEW_ONE,
    "it is another user's.  The site's server authenticates ordinary users by munge: [server] "
    "auth = munge secret in site.cfg, here and there")
OF_JOB = OF_SITE._replace(
    denied="it is another user's: use the account that started the job's server, or name a file "
           "of yours with --secret")


def find_secret_path(named: str | None, directory: str, job: str) -> str | None:
    """
    The path of the secret of `job`, or None for the environment.

    `named` (--secret) wins, then IOSTATS_SECRET, then a file in `directory` ([secret] dir).
    """
    if named:
        return named
    if os.environ.get(VARIABLE):
        return None
    home = os.path.expanduser(directory)
    if home.startswith("~"):
        raise ConfigError(f"[secret] dir: expected a directory, got {directory!r}: there is no "
                          f"such user")
    return os.path.join(home, make_filename(job) + ".secret")


def load(path: str | None, hints: SecretHints = OF_SITE) -> bytes:
    """
    The secret's bytes, from `path`, or from the environment when that is None.

    Raises NotDelivered when there is none yet, StateError when it is not safe to use.
    """
    text = (os.environ[VARIABLE] if path is None else _read(path, hints)).strip()
    if len(text) < _SHORTEST:
        raise StateError(f"{path or VARIABLE}: expected a secret of at least {_SHORTEST} "
                         f"characters, got {len(text)}; {hints.short}")
    return text.encode("latin-1", "replace")


def _read(path: str, hints: SecretHints) -> str:
    try:
        mode = find_unsafe_mode(os.stat(path))
        if mode:
            raise StateError(f"{path}: expected a file of mode 0600, got {mode}; others could have "
                             f"read it: {hints.shared}")
        return read_text(path)
    except FileNotFoundError:
        raise NotDelivered(f"{path}: no secret; {hints.missing}") from None
    except PermissionError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}; {hints.denied}") from None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None


def make(path: str | None, how: str = "file with --secret") -> bool:
    """
    Write a new secret to `path`, unless there is one; True when it was made.

    `how`: how to name another place, for StateError.
    """
    if path is None or os.path.lexists(path):      # its directory may be read-only
        return False
    try:
        make_directories(os.path.dirname(path))
        return write_atomically(path, os.urandom(32).hex().encode() + b"\n", replace=False)
    except OSError as error:
        raise StateError(f"{path}: the secret cannot be made: {error.strerror}; name another "
                         f"{how}") from None


ANYONE = range(1 << 32)                            # every uid, for `uids`
_NONCE_LENGTH = 32
# For call_with_timeout() of calls to munged when a server starts.
MUNGED_TIMEOUT_S = 20.0
MUNGED_ANSWER = "answer of munged (was it stopped? site.cfg: [server] auth)"


class AuthenticationError(WireError):
    """The reason why a message is unauthenticated.

    Attributes:
        claimed: the node that it says it is from; None where that is not a valid name.
        nonce: of a message that is right but for its time or its user: its answer can be signed.
    """

    def __init__(self, code: int, message: str, claimed: str | None, nonce: str = "") -> None:
        super().__init__(code, message)
        self.claimed, self.nonce = claimed, nonce


def make_unauthorized_error(uid: int | None, name: str, claimed: str | None,
                            nonce: str = "") -> AuthenticationError:
    """
    The AuthenticationError for a user who is identified by munge, but may not run server `name`.
    """
    return AuthenticationError(protocol.NOT_AUTHENTICATED,
                               f"not authenticated: user {uid} may not report to "
                               f"{protocol.name_server(name)}", claimed, nonce)


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
        self._key = protocol.derive_key(password, name)
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
        """Check the MAC of an answer; `headers`: {lower-case name: value}."""
        return protocol.is_same_mac(headers.get(protocol.MAC_HEADER.lower(), ""),
                                    protocol.answer_mac(self._key, nonce, body))

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        fields = protocol.parse_fields(header, self.SCHEME) or {}
        claimed = fields["node"] if fields and is_node_name(fields["node"]) else None
        if (claimed is None or len(fields["nonce"]) != _NONCE_LENGTH
            or not protocol.is_same_mac(fields["mac"], protocol.request_mac(
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
        # A message is stale on both sides of `now`, so nonces are stored for twice the tolerance.
        while self._nonces_by_age and self._nonces_by_age[0][0] < now - 2 * tolerance - 1:
            self._nonces.discard(self._nonces_by_age.popleft()[1])
        return claimed, None, nonce

    def nonces(self) -> list[str]:
        """The remembered nonces, the oldest first."""
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
                 trusted_uids: Container[int] | None = None,
                 library: MungeLibrary | None = None) -> None:
        if library is None:
            from iostats.wire import munge
            library = munge
        own = frozenset((os.geteuid(), 0))
        self._name, self._socket, self._munge = name, socket, library
        self._uids = own if uids is None else uids
        self._trusted_uids = own if trusted_uids is None else trusted_uids
        self._code_of = {library.EXPIRED: protocol.STALE, library.REWOUND: protocol.STALE,
                         library.REPLAYED: protocol.REPLAYED}
        self.reject_reason = ""

    # -- node

    def authorization(self, node: str, time_s: int, nonce: str, body: bytes) -> str:
        """`time_s` is ignored: munge adds its own time."""
        try:
            credential = self._munge.encode(protocol.make_munge_request(node, self._name, nonce,
                                                                        body),
                                            self._socket)
        except self._munge.MungeError as error:
            raise NotDelivered(f"munge: {error}") from None
        return f"{self.SCHEME} {credential}"

    def verify_answer(self, headers: Mapping[str, str], nonce: str, body: bytes) -> bool:
        credential = headers.get(protocol.MUNGE_HEADER.lower())
        if not credential:
            self.reject_reason = (f"{protocol.name_server(self._name)} does not authenticate "
                                  f"itself by munge")
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
        if payload != protocol.make_munge_answer(nonce, body):
            self.reject_reason = "its munge credential is for another answer"
            return False
        if uid not in self._trusted_uids:
            self.reject_reason = (f"{protocol.name_server(self._name)} is run by user {uid}, whom "
                                  f"this node does not trust (site.cfg: [server] munge_users)")
            return False
        return True

    # -- server

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        return self.check_decoded(self.decode_credential(header), body)

    def decode_credential(self, header: str) -> tuple[bytes, int | None, int | None, str]:
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
        """Return (node, uid, nonce) of a credential that is for this very message."""
        payload, uid, code, why = decoded
        fields = protocol.parse_munge_request(payload, body)
        if fields is None:
            raise AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                "the message was altered, or its munge credential is for another one", None)
        node, name, nonce = fields
        claimed = node if is_node_name(node) else None
        if claimed is None or name != self._name or len(nonce) != _NONCE_LENGTH:
            raise AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                f"the message is not for {protocol.name_server(self._name)}", claimed)
        if uid not in self._uids:
            raise make_unauthorized_error(uid, self._name, claimed, nonce)
        if code is not None:
            raise AuthenticationError(code, f"munge: {why}", claimed, nonce)
        return claimed, uid, nonce

    def answer_header(self, nonce: str, reply: bytes) -> tuple[str, str] | None:
        """
        Make the header that proves the answer; None where munged does not run: the node rejects it,
        and retries.
        """
        try:
            return protocol.MUNGE_HEADER, self._munge.encode(protocol.make_munge_answer(nonce,
                                                                                        reply),
                                                             self._socket)
        except self._munge.MungeError:
            return None


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


# -- by site.cfg -----------------------------------------------------------------------------

def call_with_timeout(timeout_s: float, subject: str, action: Callable[[], T]) -> T:
    """
    Call `action`, and return its result; NotDelivered when it takes longer than `timeout_s`.

    It runs in a thread of its own: no signal interrupts a resolver, or munged, that does not
    answer.
    """
    import _thread
    done = _thread.allocate_lock()
    outcome: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(action())
        except BaseException as error:
            errors.append(error)
        done.release()
    done.acquire()
    _thread.start_new_thread(run, ())
    if not done.acquire(timeout=max(0.001, timeout_s)):
        raise NotDelivered(f"no {subject} within {timeout_s:.1f} s")
    if errors:
        raise errors[0]
    return outcome[0]


def load_client_credentials(config: Config, name: str, secret_path: str | None,
                            emit: Callable[[str], None] = lambda text: None,
                            job_uid: int | None = None,
                            munged_within_s: float = 2.5,
                            methods: Sequence[str] = ()) -> list[Credentials]:
    """
    The credentials with which a node asks the server `name`, the preferred ones first.

    `secret_path`: as of load(); `job_uid`: the user of the job, whose server root trusts
    as well; `munged_within_s`: how long munged may take; `methods`: instead of [server] auth.
    Where the preferred ones do not work and others do, `emit` gets a line about it;
    NotDelivered (or secret's StateError) when none work.
    Munge that comes second to a secret which is there is not tried before it is needed.
    """
    credentials: list[Credentials] = []
    failed: list[IostatsError] = []
    for word in methods or config.server.auth:
        try:
            if word == "munge":
                if not credentials:
                    call_with_timeout(munged_within_s, "answer of munged (site.cfg: [server] auth)",
                                      lambda: _check_munge(config))
                credentials.append(Munge(name, config.server.munge_socket,
                                         trusted_uids=_list_trusted_uids(config, job_uid)))
            else:
                credentials.append(Secret(name, load(secret_path, _choose_hints(name))))
        except ConfigError:
            raise
        except IostatsError as error:
            if not credentials:
                failed.append(error)
    return _require_credentials(credentials, failed, emit)


def load_server_credentials(config: Config, name: str, secret_path: str | None,
                            emit: Callable[[str], None] = lambda text: None,
                            uids: Container[int] | None = None,
                            now: Callable[[], float] = time.time) -> list[Credentials]:
    """
    The credentials that the server `name` takes: all that [server] auth names and that work here.

    `uids`: as of Munge.  Raises NotDelivered or StateError when none work.
    """
    credentials: list[Credentials] = []
    failed: list[IostatsError] = []
    for word in config.server.auth:
        if word == "munge":
            try:
                _check_munge(config)
            except NotDelivered as error:
                failed.append(error)
            else:
                credentials.append(Munge(name, config.server.munge_socket, uids))
        else:
            credentials.append(Secret(name, load(secret_path, _choose_hints(name)),
                                      config.server.clock_tolerance, now))
    return _require_credentials(credentials, failed, emit)


def _choose_hints(name: str) -> SecretHints:
    return OF_SITE if name == protocol.SITE else OF_JOB


def _require_credentials(credentials: list[Credentials], failed: list[IostatsError],
                         emit: Callable[[str], None]) -> list[Credentials]:
    if not credentials:
        if len(failed) == 1:
            raise failed[0]
        raise NotDelivered("; ".join(map(str, failed)))
    for error in failed:
        fallback = "munge" if isinstance(credentials[0], Munge) else "the secret"
        emit(f"{error}; continuing with {fallback}")
    return credentials


def _check_munge(config: Config) -> None:
    """Raise NotDelivered where munge does not work."""
    from iostats.wire import munge
    try:
        munge.encode(b"", config.server.munge_socket)
    except munge.MungeError as error:
        raise NotDelivered(f"munge does not work here: {error} (site.cfg: [server] auth)") from None


def _list_trusted_uids(config: Config, job_uid: int | None) -> set[int]:
    """The user ids whose servers this node trusts."""
    uids = {os.geteuid(), 0}
    if job_uid is not None and os.geteuid() == 0:
        uids.add(job_uid)
    for user in config.server.munge_users:
        if user.isascii() and user.isdigit():
            uids.add(int(user))
            continue
        import pwd
        try:
            uids.add(pwd.getpwnam(user).pw_uid)
        except KeyError:
            raise ConfigError(f"site.cfg: [server] munge_users: expected users of this machine, or "
                              f"their numbers, got {user!r}") from None
    return uids
