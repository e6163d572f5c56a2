"""
The members of one etcd: which is asked, and what is done where it does not answer.

A request goes to the member that answered last; where that is away, to the next.  What may have
been done already is asked again only of who says that twice is as good as once.  Connections are
kept, and none is used by two threads at a time.

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
from collections import namedtuple
from urllib.parse import urlsplit

from iostats.base.errors import ConfigError
from iostats.etcd import answers
from iostats.etcd.answers import EtcdAway, EtcdRefused, NotEtcds, OutcomeUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Optional

PORT = 2379
_LONGEST_ANSWER = 256 << 20
_KEPT = 4                            # idle connections of a member
_PAUSE_S = 0.1
_PATIENCE = 2                        # a new leader takes up to two seconds (--election-timeout)
_OWN_NAME = "etcdserver: "            # which its errors begin with

Url = namedtuple("Url", "text scheme host port")


class MemberFailed(Exception):
    """
    A member did not do it.

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


def parsed_url(text: str) -> Url:
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
        shown = text.rpartition("@")[2] if "@" in text else text       # no password is told
        raise ConfigError(f"etcd: expected a URL such as http://mgmt1:{PORT}, got "
                          f"{shown[:120]!r}{' behind a user' * ('@' in text)}") from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Url(f"{parts.scheme}://{host}:{port}", parts.scheme, parts.hostname, port)


class Members:
    """See client.Etcd, whose arguments these are."""

    def __init__(self, endpoints: Sequence[str], user: str, password: str, ca: str, cert: str,
                 key: str, timeout_s: float, say: Callable[[str], object]) -> None:
        self.urls = list(dict.fromkeys(map(parsed_url, endpoints)))
        if not self.urls:
            raise ConfigError("etcd: expected a URL of a member, got none")
        self.timeout_s, self._say = timeout_s, say
        self._user, self._password = user, password
        self._tls = (_tls(ca, cert, key) if any(url.scheme == "https" for url in self.urls)
                     else None)
        self._lock = threading.Lock()
        self._idle: dict[Url, list[http.client.HTTPConnection]] = {url: [] for url in self.urls}
        self._first, self._token = 0, ""

    # -- requests --------------------------------------------------------------------------------

    def in_order(self) -> Iterator[Url]:
        """The members, that which answered last first."""
        first = self._first
        for number in range(len(self.urls)):
            yield self.urls[(first + number) % len(self.urls)]

    def call(self, path: str, body: dict[str, Any], again: bool = True) -> dict[str, Any]:
        """
        The answer of a member; `again`: a request that may have been done is sent to the next.

        Raises EtcdAway, EtcdRefused, OutcomeUnknown.
        """
        ends = time.monotonic() + _PATIENCE * self.timeout_s
        while True:
            failed: dict[Url, MemberFailed] = {}
            for url in self.in_order():
                try:
                    answer = self.ask(url, path, body)
                    self.answered(url, failed)
                    return answer
                except MemberFailed as failure:
                    failed[url] = failure
                    if failure.may_be_done and not again:
                        raise OutcomeUnknown(
                            f"etcd: {url.text}: {failure.why}; what was asked may have been done"
                            ) from None
            soon = any(failure.may_soon for failure in failed.values())
            if not soon or time.monotonic() > ends:
                raise self.away(failed)
            time.sleep(_PAUSE_S)

    def ask(self, url: Url, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of this member; MemberFailed, EtcdRefused."""
        for is_last in (False, True):
            token = self.token(url)
            try:
                return self._ask(url, path, body, token)
            except EtcdRefused as error:
                if is_last or not self.wants_token(error, token):
                    raise _explained(error, bool(token)) from None
        raise AssertionError

    def answered(self, url: Url, failed: dict[Url, MemberFailed]) -> None:
        """`url` is asked first from now on."""
        number = self.urls.index(url)
        if number != self._first:
            was, self._first = self.urls[self._first], number
            if was in failed:
                self._say(f"etcd: {was.text}: {failed[was].why}; asking {url.text} from now on")

    def pass_by(self, url: Url) -> None:
        """`url` is silent: another one is asked first."""
        if self.urls[self._first] == url:
            self._first = (self._first + 1) % len(self.urls)

    def away(self, failed: dict[Url, MemberFailed]) -> EtcdAway | EtcdRefused:
        """The error of a request that no member has answered."""
        told = "; ".join(f"{url.text}: {failed[url].why}" for url in self.urls if url in failed)
        if all(failure.is_refusal for failure in failed.values()):
            return EtcdRefused(f"etcd: {told}")
        return EtcdAway(f"etcd: {told}")

    def _ask(self, url: Url, path: str, body: dict[str, Any], token: str) -> dict[str, Any]:
        connection = self._kept(url) or self.connect(url)
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
                answer = _understood(response.status, content)
            except (OSError, http.client.HTTPException, NotEtcds) as error:
                raise _failed(error, self.timeout_s, is_sent) from None
        except BaseException as error:
            if not isinstance(error, (_Undecided, EtcdRefused)):
                connection.close()
                raise
            self._keep(url, connection)
            if isinstance(error, _Undecided):
                raise MemberFailed(error.why, error.may_be_done, may_soon=True) from None
            raise
        self._keep(url, connection)
        return answer

    def headers(self, token: str) -> dict[str, str]:
        """Of a request."""
        return {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true",
                **({"Authorization": token} if token else {})}

    # -- the password ----------------------------------------------------------------------------

    def token(self, url: Url) -> str:
        """What `authenticate` gave; "" without a user."""
        if not self._user or self._token:
            return self._token
        try:
            answer = self._ask(url, "auth/authenticate",
                               {"name": self._user, "password": self._password}, "")
        except EtcdRefused as error:
            if error.code == answers.PRECONDITION:          # authentication is not enabled
                return ""
            raise _explained(error, True) from None
        token = answer.get("token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise MemberFailed("its answer has no token")
        self._token = token
        return token

    def wants_token(self, error: EtcdRefused, token: str) -> bool:
        """Whether it was refused for want of a valid token: the next request gets a new one."""
        text = str(error)
        if self._user and (error.code == answers.UNAUTHENTICATED or "auth token" in text
                           or "revision of auth store" in text
                           or (not token and _wants_user(text))):
            self._token = ""
            return True
        return False

    # -- connections -----------------------------------------------------------------------------

    def connect(self, url: Url) -> http.client.HTTPConnection:
        """A new connection; MemberFailed."""
        connection = (http.client.HTTPSConnection(url.host, url.port, timeout=self.timeout_s,
                                                  context=self._tls) if url.scheme == "https"
                      else http.client.HTTPConnection(url.host, url.port, timeout=self.timeout_s))
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            connection.close()
            raise _failed(error, self.timeout_s) from None
        return connection

    def _kept(self, url: Url) -> Optional[http.client.HTTPConnection]:
        """An idle connection on which nothing came: else the member has closed it."""
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

    def _keep(self, url: Url, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle[url]) < _KEPT:
                self._idle[url].append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle = [one for kept in self._idle.values() for one in kept]
            for kept in self._idle.values():
                kept.clear()
        for connection in idle:
            connection.close()


class _Undecided(Exception):
    """What a member says that cannot decide now; the connection stays."""

    def __init__(self, why: str, may_be_done: bool) -> None:
        super().__init__(why)
        self.why, self.may_be_done = why, may_be_done


def _understood(status: int, content: bytes) -> dict[str, Any]:
    """The answer; EtcdRefused, _Undecided, NotEtcds."""
    if status == 404 and not content.startswith(b"{"):
        raise NotEtcds("no JSON gateway at /v3 (etcd 3.4 or newer has it)")
    if content.startswith(b"CommonName of client"):         # etcd's embed/serve.go
        raise EtcdRefused("etcd: where users have passwords it takes no client's certificate with "
                          "a common name (CN): [etcd] cert")
    answer = answers.decoded(content)
    if status == 200 and "error" not in answer:
        return answer
    code, text = answers.error_of(answer)
    refuse(code, text or f"HTTP status {status}")
    raise _Undecided(text, may_be_done="no leader" not in text and "too many requests" not in text)


def refuse(code: int, text: str) -> None:
    """EtcdRefused, but where the next member may do it."""
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


def _wants_user(text: str) -> bool:
    return "user name is empty" in text or "permission denied" in text


def _explained(error: EtcdRefused, has_token: bool) -> EtcdRefused:
    """With what to do about it."""
    text = str(error)
    if not has_token and _wants_user(text):
        return EtcdRefused(f"{text}; it asks for a user: [etcd] user and password_file in "
                           f"site.cfg", error.code)
    hint = next((hint for words, hint in _HINTS.items() if words in text), "")
    return EtcdRefused(f"{text}; {hint}" if hint and hint not in text else text, error.code)


def _failed(error: Exception, timeout_s: float, is_sent: bool = False) -> MemberFailed:
    """In words; `is_sent`: the request may have arrived."""
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
        what = reason or str(error.args[-1]).partition(" (_ssl.c")[0]
        return MemberFailed(f"TLS: {str(what).lower().replace('_', ' ')[:200]}", is_sent,
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


def _tls(ca: str, cert: str, key: str) -> ssl.SSLContext:
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
