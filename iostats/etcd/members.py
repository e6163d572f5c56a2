"""
The members of one etcd: which is asked, and what is done where it does not answer.

A request goes to the member that answered last; where that is away, to the next.  A
request that may have been executed is repeated only if its caller allows a repetition.  Connections
stay open, and none is used by two threads at a time.

`hasleader` makes a member that is cut off from the others say so at once, instead of waiting
(rpctypes.MetadataRequireLeaderKey).  `Authorization` has the token of `authenticate`; a member
that was restarted does not know it, and is given the password again.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
from typing import NamedTuple
from urllib.parse import urlsplit

from iostats.base.errors import ConfigError
from iostats.etcd import answers
from iostats.etcd.answers import EtcdAway, EtcdRefused, NotEtcds, OutcomeUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Optional

PORT = 2379
_LONGEST_ANSWER = 256 << 20
_MAX_IDLE = 4                            # idle connections of a member
_PAUSE_S = 0.1
_PATIENCE = 2                        # a new leader takes up to two seconds (--election-timeout)
_OWN_NAME = "etcdserver: "            # which its errors begin with


class Url(NamedTuple):
    text: str
    scheme: str
    host: str
    port: int


class MemberFailed(Exception):
    """A member did not execute a request.

    Attributes:
        why: in words.
        may_be_done: it was sent.
        may_soon: the member is there, and could not decide.
        is_refusal: by its certificate or ours, or by the password.
    """

    def __init__(self, why: str, may_be_done: bool = False, may_soon: bool = False,
                 is_refusal: bool = False) -> None:
        super().__init__(why)
        self.why, self.may_be_done = why, may_be_done
        self.may_soon, self.is_refusal = may_soon, is_refusal


def parse_url(text: str) -> Url:
    """The Url of http://host:port, https://host:port or host:port; ConfigError."""
    try:
        whole = text if "://" in text else f"http://{text}"
        parts = urlsplit(whole)
        port = parts.port or PORT
        if (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc
                or parts.path not in ("", "/") or parts.query or parts.fragment
                or not whole.isprintable() or " " in whole):
            raise ValueError
    except ValueError:
        shown = text.rpartition("@")[2] if "@" in text else text       # without the password
        raise ConfigError(f"etcd: expected a URL such as http://mgmt1:{PORT}, got "
                          f"{shown[:120]!r}{' behind a user' * ('@' in text)}") from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Url(f"{parts.scheme}://{host}:{port}", parts.scheme, parts.hostname, port)


class Members:
    """The members of an etcd cluster; the arguments are those of client.Etcd."""

    def __init__(self, endpoints: Sequence[str], user: str, password: str, ca: str, cert: str,
                 key: str, timeout_s: float, emit: Callable[[str], object]) -> None:
        self.urls = list(dict.fromkeys(map(parse_url, endpoints)))
        if not self.urls:
            raise ConfigError("etcd: expected a URL of a member, got none")
        self.timeout_s, self._emit = timeout_s, emit
        self._user, self._password = user, password
        self._make_tls = (_make_tls(ca, cert,
                                    key) if any(url.scheme == "https" for url in self.urls)
                          else None)
        self._lock = threading.Lock()
        self._idle: dict[Url, list[http.client.HTTPConnection]] = {url: [] for url in self.urls}
        self._first, self._token = 0, ""

    # -- requests --------------------------------------------------------------------------------

    def sort_by_answer(self) -> Iterator[Url]:
        """List the members, the one that answered last first."""
        first = self._first
        for number in range(len(self.urls)):
            yield self.urls[(first + number) % len(self.urls)]

    def call(self, path: str, body: Mapping[str, object], again: bool = True) -> dict[str, object]:
        """
        Return the answer of a member; `again`: send a request that may have been executed to the
        next one.

        Raises EtcdAway, EtcdRefused, OutcomeUnknown.
        """
        ends = time.monotonic() + _PATIENCE * self.timeout_s
        while True:
            failed: dict[Url, MemberFailed] = {}
            for url in self.sort_by_answer():
                try:
                    answer = self.ask(url, path, body)
                    self.note_answer(url, failed)
                    return answer
                except MemberFailed as failure:
                    failed[url] = failure
                    if failure.may_be_done and not again:
                        raise OutcomeUnknown(
                            f"etcd: {url.text}: {failure.why}; what was asked may have been done"
                            ) from None
            soon = any(failure.may_soon for failure in failed.values())
            if not soon or time.monotonic() > ends:
                raise self.make_error(failed)
            time.sleep(_PAUSE_S)

    def ask(self, url: Url, path: str, body: Mapping[str, object]) -> dict[str, object]:
        """The answer of this member; MemberFailed, EtcdRefused."""
        for is_last in (False, True):
            token = self.token(url)
            try:
                return self._ask(url, path, body, token)
            except EtcdRefused as error:
                if is_last or not self.drop_refused_token(error, token):
                    raise _explain(error, bool(token)) from None
        raise AssertionError

    def note_answer(self, url: Url, failed: dict[Url, MemberFailed]) -> None:
        """Note that `url` answered: it is asked first from now on."""
        number = self.urls.index(url)
        if number != self._first:
            was, self._first = self.urls[self._first], number
            if was in failed:
                self._emit(f"etcd: {was.text}: {failed[was].why}; asking {url.text} from now on")

    def pass_by(self, url: Url) -> None:
        """Note that `url` does not answer: another member is asked first."""
        if self.urls[self._first] == url:
            self._first = (self._first + 1) % len(self.urls)

    def make_error(self, failed: dict[Url, MemberFailed]) -> EtcdAway | EtcdRefused:
        """The error of a request that no member has answered."""
        reasons = "; ".join(f"{url.text}: {failed[url].why}" for url in self.urls if url in failed)
        if all(failure.is_refusal for failure in failed.values()):
            return EtcdRefused(f"etcd: {reasons}")
        return EtcdAway(f"etcd: {reasons}")

    def _ask(self, url: Url, path: str, body: Mapping[str, object],
             token: str) -> dict[str, object]:
        connection = self._pop_idle(url) or self.connect(url)
        data, is_sent = json.dumps(body).encode("ascii"), False
        try:
            try:
                is_sent = True
                connection.request("POST", f"/v3/{path}", data, self.headers(token))
                with connection.getresponse() as response:
                    content = response.read(_LONGEST_ANSWER + 1)
                if len(content) > _LONGEST_ANSWER:
                    raise EtcdRefused(f"etcd: {url.text}: an answer of more than "
                                      f"{_LONGEST_ANSWER} bytes")
                answer = _parse_response(response.status, content)
            except (OSError, http.client.HTTPException, NotEtcds) as error:
                raise _explain_failure(error, self.timeout_s, is_sent) from None
        except BaseException as error:
            if not isinstance(error, (_Undecided, EtcdRefused)):
                connection.close()
                raise
            self._push_idle(url, connection)
            if isinstance(error, _Undecided):
                raise MemberFailed(error.why, error.may_be_done, may_soon=True) from None
            raise
        self._push_idle(url, connection)
        return answer

    def headers(self, token: str) -> dict[str, str]:
        """Return the HTTP headers of a request."""
        return {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true",
                **({"Authorization": token} if token else {})}

    # -- the password ----------------------------------------------------------------------------

    def token(self, url: Url) -> str:
        """Return the token that `authenticate` returned; "" without a user."""
        if not self._user or self._token:
            return self._token
        try:
            answer = self._ask(url, "auth/authenticate",
                               {"name": self._user, "password": self._password}, "")
        except EtcdRefused as error:
            if error.code == answers.PRECONDITION:          # authentication is not enabled
                return ""
            raise _explain(error, True) from None
        token = answer.get("token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise MemberFailed("its answer has no token")
        self._token = token
        return token

    def drop_refused_token(self, error: EtcdRefused, token: str) -> bool:
        """
        Whether a request was refused because its token is invalid: the next request gets a new one.
        """
        text = str(error)
        if self._user and (error.code == answers.UNAUTHENTICATED or "auth token" in text
                           or "revision of auth store" in text
                           or (not token and _is_user_required(text))):
            self._token = ""
            return True
        return False

    # -- connections -----------------------------------------------------------------------------

    def connect(self, url: Url) -> http.client.HTTPConnection:
        """A new connection; MemberFailed."""
        connection = (http.client.HTTPSConnection(url.host, url.port, timeout=self.timeout_s,
                                                  context=self._make_tls) if url.scheme == "https"
                      else http.client.HTTPConnection(url.host, url.port, timeout=self.timeout_s))
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            connection.close()
            raise _explain_failure(error, self.timeout_s) from None
        return connection

    def _pop_idle(self, url: Url) -> Optional[http.client.HTTPConnection]:
        """Return an idle connection that the member has not closed, or None."""
        while True:
            with self._lock:
                if not self._idle[url]:
                    return None
                connection = self._idle[url].pop()
            poll = select.poll()
            poll.register(connection.sock, select.POLLIN)
            if not poll.poll(0):
                return connection
            connection.close()

    def _push_idle(self, url: Url, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle[url]) < _MAX_IDLE:
                self._idle[url].append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle = [connection for connections in self._idle.values() for connection in connections]
            for connections in self._idle.values():
                connections.clear()
        for connection in idle:
            connection.close()


class _Undecided(Exception):
    """The member answers that it cannot decide now; the connection stays open."""

    def __init__(self, why: str, may_be_done: bool) -> None:
        super().__init__(why)
        self.why, self.may_be_done = why, may_be_done


def _parse_response(status: int, content: bytes) -> dict[str, object]:
    """The answer; EtcdRefused, _Undecided, NotEtcds."""
    if status == 404 and not content.startswith(b"{"):
        raise NotEtcds("no JSON gateway at /v3 (etcd 3.4 or newer has it)")
    if content.startswith(b"CommonName of client"):         # etcd's embed/serve.go
        raise EtcdRefused("etcd: where users have passwords it takes no client's certificate with "
                          "a common name (CN): [etcd] cert")
    answer = answers.parse_answer(content)
    if status == 200 and "error" not in answer:
        return answer
    code, text = answers.parse_error(answer)
    refuse(code, text or f"HTTP status {status}")
    raise _Undecided(text, may_be_done="no leader" not in text and "too many requests" not in text)


def refuse(code: int, text: str) -> None:
    """Raise EtcdRefused, unless the next member may execute the request."""
    if "too many requests" in text or "no leader" in text or "leader changed" in text:
        return
    if code in (answers.INVALID, answers.NOT_FOUND, 6, 7, answers.EXHAUSTED, answers.PRECONDITION,
                answers.OUT_OF_RANGE, 12, answers.UNAUTHENTICATED):
        raise EtcdRefused(f"etcd: {text.removeprefix(_OWN_NAME)}", code)


_HINTS = {
    "authentication failed": "the user or the password is wrong: [etcd] user and password_file",
    "permission denied": "the user may not do this: `etcdctl role grant-permission`",
    "database space exceeded": "compact and defragment it, then `etcdctl alarm disarm`",
    "request is too large": "its limit is --max-request-bytes",
    "auth token": "it does not accept the user's token",
}


def _is_user_required(text: str) -> bool:
    return "user name is empty" in text or "permission denied" in text


def _explain(error: EtcdRefused, has_token: bool) -> EtcdRefused:
    """Add a hint on the remedy to the error."""
    text = str(error)
    if not has_token and _is_user_required(text):
        return EtcdRefused(f"{text}; it asks for a user: [etcd] user and password_file in "
                           f"site.cfg", error.code)
    hint = next((hint for words, hint in _HINTS.items() if words in text), "")
    return EtcdRefused(f"{text}; {hint}" if hint and hint not in text else text, error.code)


def _explain_failure(error: Exception, timeout_s: float, is_sent: bool = False) -> MemberFailed:
    """Explain a failure in words; `is_sent`: the request may have arrived."""
    reason = getattr(error, "reason", None)                 # of ssl.SSLError
    if getattr(error, "verify_message", ""):
        text = str(getattr(error, "verify_message", ""))
        return MemberFailed(f"its certificate is not accepted: {text} ([etcd] ca)",
                            is_refusal=True)
    if isinstance(reason, str) and "ALERT" in reason and "CERTIFICATE" in reason:
        return MemberFailed("it does not accept our certificate, or wants one ([etcd] cert, key)",
                            is_refusal=True)
    if reason == "WRONG_VERSION_NUMBER":
        return MemberFailed("it does not speak TLS; write http", is_refusal=True)
    if type(error).__module__ == "ssl":                     # which is imported for https alone
        message = reason or str(error.args[-1]).partition(" (_ssl.c")[0]
        return MemberFailed(f"TLS: {str(message).lower().replace('_', ' ')[:200]}", is_sent,
                            may_soon=is_sent and not reason)     # an end may hide what it refuses
    if isinstance(error, socket.timeout):
        return MemberFailed(f"no answer within {timeout_s:g} s", is_sent)
    if isinstance(error, socket.gaierror):
        return MemberFailed("no such host")
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):     # and RemoteDisconnected
        return MemberFailed("it closed the connection", is_sent, may_soon=True)
    if isinstance(error, http.client.HTTPException):
        return MemberFailed(f"expected an answer of HTTP, got {str(error)[:60]!r}", is_sent)
    if isinstance(error, NotEtcds):
        return MemberFailed(str(error), is_sent)
    return MemberFailed(str(getattr(error, "strerror", None) or error).lower()[:200], is_sent,
                        may_soon=is_sent)


def _make_tls(ca: str, cert: str, key: str) -> ssl.SSLContext:
    import ssl
    if bool(cert) != bool(key):
        raise ConfigError("[etcd] cert and [etcd] key go together, got "
                          f"{'cert' if cert else 'key'} alone")
    at = ca
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert:
            at = cert
            with open(key, "rb"):                           # its error names no file
                context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        raise ConfigError(f"{at}: expected a certificate in PEM"
                          f"{', and its key in ' + key if at == cert and cert else ''}: "
                          f"{(error.reason or 'not readable').lower().replace('_', ' ')}") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or at}: cannot be read: {error.strerror}") from None
    return context
