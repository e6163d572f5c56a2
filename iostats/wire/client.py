"""
The client of our servers: delivers a report, or calls another method.

The ports of a job are tried in their order.  A server that answers `hello` with another job, or
cannot authenticate itself (by the job's secret, or by munge), is not ours.  Failures are tried
again after growing pauses, until `retry_timeout` seconds are over.

HTTP/1.1 by hand over one socket: importing http.client would cost a node more than all else here.

A storage server's sweep was encoded and compressed when it was read: its bytes are sent as they
are, in base64, and the clock, which is known only now, stands beside them in the params.

"""

from __future__ import annotations

import json
import os
import socket
import time

from iostats.base import job_ports
from iostats.base.errors import NotDelivered, UsageError, sanitize
from iostats.base.option_kinds import is_ip_address, split_host_port
from iostats.wire import auth
from iostats.wire import protocol as wire_protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Union

    from iostats.base.config import Config
    from iostats.wire.method_name import AnswerT, MethodName
    from iostats.wire.protocol import Hello

    Params = Union[Mapping[str, object], bytes]
    _Address = tuple[Any, ...]           # an element of what getaddrinfo() returns

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0
# For a resolver and a host that do not answer.  With resolv.conf's defaults the second name server
# is asked after 5 s: where nobody waits, that is not to fail for ever.
UNATTENDED_REACH_WITHIN_S = 6.0
_REPLY_WITHIN_S = 10.0
_ONE_TRY_S = 2.0
_NEXT_PORT_AFTER_S = 0.5             # from one port to the next, if there is no answer
_LONGEST_ANSWER, _LONGEST_HEAD = 1 << 20, 1 << 16
_SAYS_NOTHING = "the program on the port does not answer"


class _NotOurs(Exception):
    """The program on this port is not the expected server; the text has the reason."""


class _Silent(_NotOurs):
    """The connection got no answer in time: another program, or a hung server."""


class SilentPort(OSError):
    """A program on the port, perhaps our server, did not answer in time."""


class Refused(NotDelivered):
    """
    The server refused the message: trying again would not help.

    Attributes:
        code: of the error, as in docs/reference/wire.md.
    """

    later = False

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class OtherServer(NotDelivered):
    """A server answered, but not the expected one."""


class SilentServer(OtherServer):
    """A program has the port, and did not answer in time."""


class CannotStore(NotDelivered):
    """The server is reachable, but cannot store the message; a later retry may succeed."""


def split_server(text: str, where: str = "--server") -> tuple[str, int | None]:
    """(host, port or None) of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; UsageError with `where`."""
    try:
        return split_host_port(text)
    except ValueError:
        raise UsageError(f"{where}: expected HOST or HOST:PORT, got {text!r}") from None


def deliver(report: Mapping[str, object], server: str, secret_path: str | None, config: Config,
            emit: Callable[[str], None] = lambda text: None,
            sleep: Callable[[float], object] = time.sleep, job_uid: int | None = None,
            retry_s: float | None = None, *, method: MethodName[AnswerT]) -> AnswerT:
    """
    Send `report` (the params of `method`, with job and node) to its job's server; returns the
    answer.

    `job_uid`: the job's user, whose server root also trusts where munge is used.  Raises
    NotDelivered, with all that was tried, when it was not delivered.
    """
    retry_s = config.node.retry_timeout if retry_s is None else retry_s
    host, port = split_server(server)
    job = str(report["job"])
    ports = [port] if port else job_ports.list_ports(job, config.server.port_first,
                                                     config.server.port_last,
                                                     config.server.port_tries)
    began, wait_s, tries, reported = time.monotonic(), _FIRST_WAIT_S, 0, set()

    def log_once(text: str) -> None:
        if text not in reported:
            reported.add(text)
            emit(text)

    last = None
    while True:
        tries += 1
        try:
            # At each try: by now the server may have made the secret, or munged may be up.
            signs = auth.load_client_credentials(config, job, secret_path, log_once, job_uid)
            # Even a single try gives a busy server some time to answer.
            within_s = max(began + retry_s - time.monotonic(), _ONE_TRY_S if tries == 1 else 0.0)
            return _try_ports(report, host, ports, job, signs, method, within_s)
        except Refused:
            raise
        except NotDelivered as error:
            failed = error
        left = began + retry_s - time.monotonic()
        if left <= 0:
            raise NotDelivered(f"{report['node']}: {tries} tries in "
                               f"{time.monotonic() - began:.0f} s: {failed}")
        # Nodes that ended in the same second do not retry in the same one.
        pause_s = min(wait_s * (0.5 + os.urandom(1)[0] / 256), left)
        if str(failed) != last:
            last = str(failed)
            emit(f"{last}; trying again for {left:.0f} s")
        sleep(pause_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


def _try_ports(report: Mapping[str, object], host: str, ports: Sequence[int], job: str,
               signs: Sequence[auth.Credentials], method: MethodName[AnswerT],
               within_s: float) -> AnswerT:
    """
    The answer of the job's server, on any of its ports; NotDelivered after up to `within_s`.

    Another program on a port may never answer: after a moment the next port is tried in parallel,
    in a thread of its own.
    """
    import _thread
    from _queue import Empty, SimpleQueue
    until = time.monotonic() + within_s
    try:
        addresses = _resolve(host, ports[0], min(within_s, UNATTENDED_REACH_WITHIN_S))
    except OSError as failed:
        raise NotDelivered(f"no answer from {wire_protocol.name_server(job)}: {host}: "
                           f"{_describe_error(failed)}") from None
    ended: SimpleQueue[tuple[int, AnswerT | BaseException]] = SimpleQueue()

    met: set[int] = set()

    def attempt(port: int) -> None:
        ends = time.monotonic() + max(0.001, min(0.9 * (until - time.monotonic()), _REPLY_WITHIN_S))
        try:
            with _connect_first(_set_port(addresses, port), ends) as connection:
                met.add(port)
                answer = _Conversation(connection, host, port, job, signs, str(report["node"]),
                                       ends).ask(method, report, ends)
        except BaseException as error:
            ended.put((port, error))
        else:
            ended.put((port, answer))
    refusals, silent, left = [], None, list(ports)
    tried: set[int] = set()
    while left or tried:
        now = time.monotonic()
        if left and now < until:
            tried.add(left[0])
            _thread.start_new_thread(attempt, (left.pop(0),))
        try:
            port, outcome = ended.get(
                timeout=max(0.0, min(until - now, _NEXT_PORT_AFTER_S) if left else until - now))
        except Empty:
            if now >= until:
                break
            continue
        tried.discard(port)
        if not isinstance(outcome, BaseException):
            return outcome
        if isinstance(outcome, _NotOurs):
            refusals.append(f"port {port}: {outcome}")
        elif not isinstance(outcome, (OSError, ValueError)):
            raise outcome
        elif not isinstance(outcome, ConnectionRefusedError) or silent is None:
            silent = f"{host}:{port}: {_describe_error(outcome)}"
    # A thread of a busy node may come to its own end later than this.
    refusals += [f"port {port}: " + (_SAYS_NOTHING if port in met else
                                     f"no answer within {within_s:.1f} s")
                 for port in sorted(tried)]
    raise NotDelivered(f"no answer from {wire_protocol.name_server(job)}: "
                       + "; ".join(refusals + ([silent] if silent else [])))


def call(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
         method: MethodName[AnswerT], params: Params, within_s: float | None = None,
         longest: int = _LONGEST_ANSWER,
         learn: Callable[[float], object] = lambda clock_ahead_s: None,
         hello_within_s: float | None = None, reach_within_s: float | None = None) -> AnswerT:
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
        return _query(host, port, name, signs, node, method, params, within_s, longest, learn,
                      hello_within_s, reach_within_s)
    except _NotOurs as error:
        error_class = SilentServer if isinstance(error, _Silent) else OtherServer
        raise error_class(f"{host}:{port}: expected {wire_protocol.name_server(name)}: "
                          f"{error}") from None
    except (OSError, ValueError) as error:
        raise NotDelivered(f"no answer from {wire_protocol.name_server(name)}: {host}:{port}: "
                           f"{_describe_error(error)}") from None


def identify_server(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
                    reach_within_s: float | None = None) -> tuple[Hello, auth.Credentials | None]:
    """
    Return (the result of `hello`, the credentials that authenticated it or None) of a port.

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


def _query(host: str, port: int, name: str, signs: Sequence[auth.Credentials], node: str,
           method: MethodName[AnswerT], params: Params, within_s: float | None = None,
           longest: int = _LONGEST_ANSWER,
           learn: Callable[[float], object] = lambda clock_ahead_s: None,
           hello_within_s: float | None = None, reach_within_s: float | None = None) -> AnswerT:
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
    if within_s is None:
        return _connect_first(_resolve(host, port), until)
    until = min(until, time.monotonic() + within_s)
    addresses = _resolve(host, port, until - time.monotonic())
    try:
        return _connect_first(addresses, until)
    except socket.timeout:
        raise socket.timeout(f"no connection within {within_s:.1f} s") from None


def _resolve(host: str, port: int, within_s: float | None = None) -> list[_Address]:
    """The result of getaddrinfo() for a host; OSError, also after `within_s`."""
    # A str would load the tables of international names: 8 % of the CPU of a `stop`.
    name = host.encode() if host.isascii() else host

    def resolve() -> list[_Address]:
        return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM)
    if within_s is None or is_ip_address(host):
        return resolve()
    try:
        addresses: list[_Address] = auth.call_with_timeout(
            max(0.001, within_s), f"address of {host}", resolve)
    except NotDelivered as error:
        raise socket.timeout(str(error)) from None
    return addresses


def _set_port(addresses: list[_Address], port: int) -> list[_Address]:
    return [(*kind, (where[0], port, *where[2:])) for *kind, where in addresses]


def _connect_first(addresses: list[_Address], until: float) -> socket.socket:
    """A connection to the first of `addresses` that accepts it; OSError of the last one."""
    for place, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(max(0.001, (until - time.monotonic()) / (len(addresses) - place)))
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            failed = error
    raise failed


def _describe_error(error: BaseException) -> str:
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

    def ask(self, method: MethodName[AnswerT], params: Params, until: float) -> AnswerT:
        """Call `hello`, then `method`, until the time `until`, and return the result."""
        hello, proved = self.hello()
        self._until = until
        if hello["job"] != self._name:
            raise _NotOurs(f"the server of job {str(hello['job'])[:40]!r}")
        if not proved:
            raise _NotOurs(
                "; ".join(dict.fromkeys(credentials.reject_reason for credentials in self._signs)))
        server_time = hello.get("time")
        if (not isinstance(server_time, (int, float)) or isinstance(server_time, bool)
                or not abs(server_time) < 1e12):
            raise _NotOurs("its `hello` has no time")
        self._clock_ahead_s = time.time() - server_time
        self._learn(self._clock_ahead_s)
        if method == "hello":
            return hello  # type: ignore[return-value]      # the answer of HELLO
        result: AnswerT
        if method == "report" and isinstance(params, dict):
            params = {**params, "clock_ahead_s": round(self._clock_ahead_s, 3)}
        result, is_proved = self._call(method, params, proved)
        if not is_proved:
            raise _NotOurs("its answer is not authenticated")
        return result

    def hello(self) -> tuple[Hello, auth.Credentials | None]:
        """Return (the result, the credentials that authenticated it, or None)."""
        for credentials in self._signs:
            hello: Hello
            hello, is_proved = self._call("hello", {"job": self._name}, credentials)
            if not isinstance(hello, dict) or "job" not in hello:
                raise _NotOurs("the port is in use by another program")
            if is_proved:
                return hello, credentials
            if hello["job"] != self._name:
                break
        return hello, None

    def _call(self, method: str, params: Params,
              signs: auth.Credentials) -> tuple[Any, bool]:
        """Return (result, the answer was authenticated) of one call."""
        body = self._encode_body(method, params)
        nonce = os.urandom(16).hex()
        now = int(time.time() - self._clock_ahead_s)
        header = signs.authorization(self._node, now, nonce, body)
        self._connection.settimeout(self._compute_remaining_s())
        self._connection.sendall(
            b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nAuthorization: %s\r\n\r\n"
            % (self._host.encode(), len(body), header.encode()) + body)
        headers, body = self._answer()
        is_proved = signs.verify_answer(headers, nonce, body)
        try:
            answer: object = json.loads(body)
        except (ValueError, RecursionError):
            raise _NotOurs("the port is in use by another program") from None
        if not isinstance(answer, dict):
            raise _NotOurs("the port is in use by another program")
        if "error" in answer:
            error: object = answer["error"]
            code, message = (error.get("code"), error.get("message")) if isinstance(
                error, dict) else (None, error)
            is_its_own = code == wire_protocol.INTERNAL_ERROR
            if is_its_own:
                message = str(message).partition(": ")[2] or "an internal error, which its log has"
            if is_proved:
                subject = "the report" if method == "report" else f"`{method}`"
                raise Refused(f"{self._host}: the server "
                              f"{'failed at' if is_its_own else 'refused'} {subject}: {message}",
                              code if isinstance(code, int) else None)
            if is_its_own:
                # Its `hello` was authenticated; what fails now may also keep it from signing.
                raise CannotStore(f"{self._host}: the server cannot store messages: "
                                  f"{sanitize(str(message))[:400]}")
            raise _NotOurs(str(message))
        return answer.get("result"), is_proved

    def _encode_body(self, method: str, params: Params) -> bytes:
        if isinstance(params, bytes):
            import binascii  # which a `stop` does not need
            return (b'{"jsonrpc":"2.0","method":"%s","params":{"protocol":2,"clock_ahead_s":%.3f,'
                    b'"sweep":"%s"},"id":1}' % (method.encode(), self._clock_ahead_s,
                                                binascii.b2a_base64(params, newline=False)))
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1},
                          separators=(",", ":")).encode()

    def _answer(self) -> tuple[dict[str, str], bytes]:
        """Return ({lower-case header: value}, body) of one HTTP answer."""
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
        self._connection.settimeout(self._compute_remaining_s())
        try:
            part = self._connection.recv(65536)
        except socket.timeout:
            raise _Silent(_SAYS_NOTHING) from None
        if not part:
            raise ConnectionError("it closed the connection")
        self._buffer += part

    def _compute_remaining_s(self) -> float:
        return max(0.001, self._until - time.monotonic())
