"""
The client of our servers: delivers a report, or calls another method.

The ports of a job are tried in their order.  A server that answers `hello` with another job, or
cannot authenticate itself (by the job's secret, or by munge), is not ours.  Failures are tried
again after growing pauses, until `retry_timeout` seconds are over.

HTTP/1.1 by hand over one socket: importing http.client would cost a node more than all else here.

A storage server's sweep was encoded and compressed when it was read: its bytes are sent as they
are, in base64, and the clock, which is known only now, stands beside them in the params.

Long because: connection, conversation and tries share one deadline, and a node imports one module.
"""

from __future__ import annotations

import json
import os
import socket
import time

from iostats.base import job_id
from iostats.base.errors import NotDelivered, UsageError, one_line
from iostats.base.options import host_and_port
from iostats.wire import auth
from iostats.wire import protocol as wire_protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Union

    Params = Union[dict[str, Any], bytes]

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0
_REPLY_WITHIN_S = 10.0
_ONE_TRY_S = 2.0
_NEXT_PORT_AFTER_S = 0.5             # from one port to the next, if there is no answer
_LONGEST_ANSWER, _LONGEST_HEAD = 1 << 20, 1 << 16
_SAYS_NOTHING = "the program on the port does not answer"


class _NotOurs(Exception):
    """The program on this port is not the server that we want; the text says why."""


class _Silent(_NotOurs):
    """It said nothing in time: another program, or the server, which hangs."""


class SilentPort(OSError):
    """A program on the port, perhaps our server, did not answer in time."""


class Refused(NotDelivered):
    """
    The server refused the message: trying again would not help.

    Attributes:
        code: of the error, as in docs/wire.md.
    """

    later = False

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class OtherServer(NotDelivered):
    """What answers there is not the server that was expected."""


class SilentServer(OtherServer):
    """A program has the port, and did not answer in time."""


class CannotKeep(NotDelivered):
    """The server is there, and cannot keep what it gets; trying again later may help."""


def split_server(text: str, where: str = "--server") -> tuple[str, int | None]:
    """(host, port or None) of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; UsageError says `where`."""
    try:
        return host_and_port(text)
    except ValueError:
        raise UsageError(f"{where}: expected HOST or HOST:PORT, got {text!r}") from None


def deliver(report: dict[str, Any], server: str, secret_path: str | None, config: Mapping[str, Any],
            say: Callable[[str], None] = lambda text: None,
            sleep: Callable[[float], object] = time.sleep, job_uid: int | None = None,
            method: str = "report") -> Any:
    """
    Send `report` (the params of the method `report`) to its job's server; returns the answer.

    `job_uid`: the job's user, whose server root also trusts where munge is used; `method`:
    another one, whose params name job and node as well.  Raises NotDelivered, with all that was
    tried, when it was not delivered.
    """
    host, port = split_server(server)
    job = report["job"]
    ports = [port] if port else job_id.ports(job, config["server.port_first"],
                                             config["server.port_last"],
                                             config["server.port_tries"])
    began, wait, tries, said = time.monotonic(), _FIRST_WAIT_S, 0, set()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    last = None
    while True:
        tries += 1
        try:
            # At each try: by now the server may have made the secret, or munged may be up.
            signs = auth.client_credentials(config, job, secret_path, say_once, job_uid)
            # Even a single try gives a busy server some time to answer.
            within_s = max(began + config["node.retry_timeout"] - time.monotonic(),
                           _ONE_TRY_S if tries == 1 else 0.0)
            return _try_ports(report, host, ports, job, signs, method, within_s)
        except Refused:
            raise
        except NotDelivered as error:
            failed = error
        left = began + config["node.retry_timeout"] - time.monotonic()
        if left <= 0:
            raise NotDelivered(f"{report['node']}: {tries} tries in "
                               f"{time.monotonic() - began:.0f} s: {failed}")
        # Nodes that ended in the same second do not retry in the same one.
        pause = min(wait * (0.5 + os.urandom(1)[0] / 256), left)
        if str(failed) != last:
            last = str(failed)
            say(f"{last}; trying again for {left:.0f} s")
        sleep(pause)
        wait = min(wait * 2, _LONGEST_WAIT_S)


def _try_ports(report: dict[str, Any], host: str, ports: Sequence[int], job: str,
               signs: Sequence[auth.Credentials], method: str, within_s: float) -> Any:
    """
    The answer of the job's server, on any of its ports; NotDelivered after up to `within_s`.

    Another program on a port may never answer: after a moment the next port is tried in parallel.
    Each try has a thread, as no signal interrupts a resolver that does not answer.
    """
    import _thread
    from _queue import Empty, SimpleQueue
    until = time.monotonic() + within_s
    ended: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    met: set[int] = set()

    def attempt(port: int) -> None:
        ends = time.monotonic() + max(0.001, min(0.9 * (until - time.monotonic()), _REPLY_WITHIN_S))
        try:
            with connect(host, port, ends) as connection:
                met.add(port)
                answer = _Conversation(connection, host, port, job, signs, report["node"],
                                       ends).ask(method, report, ends)
        except BaseException as error:
            ended.put((port, None, error))
        else:
            ended.put((port, answer, None))
    others, silent, left = [], None, list(ports)
    tried: set[int] = set()
    while left or tried:
        now = time.monotonic()
        if left and now < until:
            tried.add(left[0])
            _thread.start_new_thread(attempt, (left.pop(0),))
        try:
            port, answer, error = ended.get(
                timeout=max(0.0, min(until - now, _NEXT_PORT_AFTER_S) if left else until - now))
        except Empty:
            if now >= until:
                break
            continue
        tried.discard(port)
        if error is None:
            return answer
        if isinstance(error, _NotOurs):
            others.append(f"port {port}: {error}")
        elif not isinstance(error, (OSError, ValueError)):
            raise error
        elif not isinstance(error, ConnectionRefusedError) or silent is None:
            silent = f"{host}:{port}: {_in_words(error)}"
        if isinstance(error, socket.gaierror):
            break                              # the host is unknown, on any port
    # A thread of a busy node may come to its own end later than this.
    others += [f"port {port}: " + (_SAYS_NOTHING if port in met else
                                   f"no answer within {within_s:.1f} s") for port in sorted(tried)]
    raise NotDelivered(f"no answer from {wire_protocol.server_of(job)}: "
                       + "; ".join(others + ([silent] if silent else [])))


def call(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
         method: str, params: Params, within_s: float | None = None, longest: int = _LONGEST_ANSWER,
         learn: Callable[[float], object] = lambda clock_ahead_s: None,
         hello_within_s: float | None = None, reach_within_s: float | None = None) -> Any:
    """
    The result of `method` of the server `name` (a job's id, or wire.SITE) on `port`, in one try.

    `params`: by name; or bytes: a packed sweep, sent as it is with clock_ahead_s beside it.
    `signs`: auth.client_credentials(...); `within_s`: from the connection to the answer, default
    10 (the resolver and munged have timeouts of their own); `longest`: bytes of the answer's body;
    `learn`: gets the seconds that this clock is ahead of the server's, once `hello` has shown
    them; `hello_within_s`: until then, where that is to be less; `reach_within_s`: for the
    resolver and the connection, where that is to be less.  For the method `report` clock_ahead_s is
    filled in; for `hello` nothing else is called.
    Raises Refused where the server refused, and another NotDelivered where it was not reached.
    """
    try:
        return _asked(host, port, name, signs, node, method, params, within_s, longest, learn,
                      hello_within_s, reach_within_s)
    except _NotOurs as error:
        what = SilentServer if isinstance(error, _Silent) else OtherServer
        raise what(f"{host}:{port}: expected {wire_protocol.server_of(name)}: "
                   f"{error}") from None
    except (OSError, ValueError) as error:
        raise NotDelivered(f"no answer from {wire_protocol.server_of(name)}: {host}:{port}: "
                           f"{_in_words(error)}") from None


def server_at(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
              reach_within_s: float | None = None
              ) -> tuple[dict[str, Any], auth.Credentials | None]:
    """
    (the result of `hello`, the one of `signs` that authenticated it or None) of a port.

    {} for a program that is no server of ours.  Raises OSError without an answer: SilentPort where
    something has the port.
    """
    until = time.monotonic() + _REPLY_WITHIN_S
    with connect(host, port, until, reach_within_s) as connection:
        try:
            return _Conversation(connection, host, port, name, signs, node, until).hello()
        except _Silent as error:
            raise SilentPort(str(error)) from None
        except (_NotOurs, ValueError):
            return {}, None


def _asked(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
           method: str, params: Params, within_s: float | None = None,
           longest: int = _LONGEST_ANSWER,
           learn: Callable[[float], object] = lambda clock_ahead_s: None,
           hello_within_s: float | None = None, reach_within_s: float | None = None) -> Any:
    now = time.monotonic()
    until = now + (_REPLY_WITHIN_S if within_s is None else within_s)
    at_first = until if hello_within_s is None else min(until, now + hello_within_s)
    if reach_within_s is None:
        reach_within_s = hello_within_s
    with connect(host, port, at_first, reach_within_s) as connection:
        return _Conversation(connection, host, port, name, signs, node, at_first,
                             longest, learn).ask(method, params, until)


def connect(host: str, port: int, until: float, within_s: float | None = None) -> socket.socket:
    """
    A connection; each address of `host` gets an equal share of the time that is left.

    `within_s`: for the resolver as well, which nothing else bounds.
    """
    # A str would load the tables of international names: 8 % of the CPU of a `stop`.
    name = host.encode() if host.isascii() else host

    def resolve() -> list[Any]:
        return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM)
    if within_s is None:
        addresses = resolve()
    else:
        until = min(until, time.monotonic() + within_s)
        within_s = max(0.001, until - time.monotonic())
        try:
            addresses = auth.with_timeout(within_s, f"address of {host}", resolve)
        except NotDelivered as error:
            raise socket.timeout(str(error)) from None
    for place, (family, kind, protocol, _, address) in enumerate(addresses):
        one = socket.socket(family, kind, protocol)
        try:
            one.settimeout(max(0.001, (until - time.monotonic()) / (len(addresses) - place)))
            one.connect(address)
            return one
        except OSError as error:
            one.close()
            failed = error
    if within_s is not None and isinstance(failed, socket.timeout):
        raise socket.timeout(f"no connection within {within_s:.1f} s")
    raise failed


def _in_words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


class _Conversation:
    """One connection to one port; every answer is authenticated before it is used."""

    def __init__(self, connection: socket.socket, host: str, port: int, name: str,
                 signs: Sequence[auth.Credentials], node: str, until: float,
                 longest: int = _LONGEST_ANSWER,
                 learn: Callable[[float], object] = lambda clock_ahead_s: None) -> None:
        self._connection, self._name, self._signs, self._node = connection, name, signs, node
        self._host = f"{host}:{port}"
        self._clock_ahead_s = 0.0
        self._buffer = bytearray()
        # One deadline for the whole conversation, also for an answer that trickles.
        self._until, self._longest, self._learn = until, longest, learn

    def ask(self, method: str, params: Params, until: float) -> Any:
        """Call `hello`, then `method`, for which there is time until `until`; its result."""
        hello, proved = self.hello()
        self._until = until
        if hello["job"] != self._name:
            raise _NotOurs(f"the server of job {str(hello['job'])[:40]!r}")
        if not proved:
            raise _NotOurs("; ".join(dict.fromkeys(one.reject_reason for one in self._signs)))
        theirs: Any = hello.get("time")
        if type(theirs) not in (int, float) or not abs(theirs) < 1e12:
            raise _NotOurs("its `hello` has no time")
        self._clock_ahead_s = time.time() - theirs
        self._learn(self._clock_ahead_s)
        if method == "hello":
            return hello
        if method == "report" and isinstance(params, dict):
            params = {**params, "clock_ahead_s": round(self._clock_ahead_s, 3)}
        result, is_proved = self._call(method, params, proved)
        if not is_proved:
            raise _NotOurs("its answer is not authenticated")
        return result

    def hello(self) -> tuple[dict[str, Any], auth.Credentials | None]:
        """(the result, the one of our credentials that authenticated it, or None)."""
        for one in self._signs:
            hello, is_proved = self._call("hello", {"job": self._name}, one)
            if not isinstance(hello, dict) or "job" not in hello:
                raise _NotOurs("the port is in use by another program")
            if is_proved:
                return hello, one
            if hello["job"] != self._name:
                break
        return hello, None

    def _call(self, method: str, params: Params,
              signs: auth.Credentials) -> tuple[Any, bool]:
        """(result, the answer was authenticated) of one call."""
        body = self._body(method, params)
        nonce = os.urandom(16).hex()
        now = int(time.time() - self._clock_ahead_s)
        header = signs.authorization(self._node, now, nonce, body)
        self._connection.settimeout(self._left())
        self._connection.sendall(
            b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nAuthorization: %s\r\n\r\n"
            % (self._host.encode(), len(body), header.encode()) + body)
        headers, body = self._answer()
        is_proved = signs.verify_answer(headers, nonce, body)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise _NotOurs("the port is in use by another program") from None
        if not isinstance(answer, dict):
            raise _NotOurs("the port is in use by another program")
        if "error" in answer:
            error = answer["error"]
            is_form = isinstance(error, dict)
            message = error.get("message") if is_form else error
            if is_proved:
                what = "the report" if method == "report" else f"`{method}`"
                raise Refused(f"{self._host}: the server refused {what}: {message}",
                              error.get("code") if is_form else None)
            if is_form and error.get("code") == wire_protocol.INTERNAL_ERROR:
                # Its `hello` was authenticated; what fails now may also keep it from signing.
                raise CannotKeep(f"{self._host}: the server cannot keep what it gets: "
                                 f"{one_line(str(message))[:400]}")
            raise _NotOurs(str(message))
        return answer.get("result"), is_proved

    def _body(self, method: str, params: Params) -> bytes:
        if isinstance(params, bytes):
            import binascii  # which a `stop` does not need
            return (b'{"jsonrpc":"2.0","method":"%s","params":{"protocol":2,"clock_ahead_s":%.3f,'
                    b'"sweep":"%s"},"id":1}' % (method.encode(), self._clock_ahead_s,
                                                binascii.b2a_base64(params, newline=False)))
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1},
                          separators=(",", ":")).encode()

    def _answer(self) -> tuple[dict[str, str], bytes]:
        """({lower-case header: value}, body) of one HTTP answer."""
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _NotOurs("the port is in use by another program")
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if not lines[0].startswith("HTTP/1.") or not 0 <= length <= self._longest:
            raise _NotOurs("the port is in use by another program")
        while len(self._buffer) < length:
            self._receive()
        body, self._buffer = bytes(self._buffer[:length]), self._buffer[length:]
        return headers, body

    def _receive(self) -> None:
        self._connection.settimeout(self._left())
        try:
            part = self._connection.recv(65536)
        except socket.timeout:
            raise _Silent(_SAYS_NOTHING) from None
        if not part:
            raise ConnectionError("it closed the connection")
        self._buffer += part

    def _left(self) -> float:
        return max(0.001, self._until - time.monotonic())
