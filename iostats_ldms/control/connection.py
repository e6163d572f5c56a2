"""
A control connection to one ldmsd, with asyncio.

    connection = await Connection.open("node-23", 411, Authentication())
    reply = await connection.command(Statement("prdcr_start", (("name", "node-37"),)))
    sets = await connection.sets()
    connection.close()

Commands may be sent before earlier ones are answered: ldmsd executes and answers them in order.  An
answer that does not arrive in time ends the connection, because the daemon's state is unknown then:
a hung daemon (SIGSTOP) executes the received commands when it continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from iostats.base.addresses import Addresses
from iostats_ldms.control import answers, authentication
from iostats_ldms.control.encoding import UnsupportedStatement
from iostats_ldms.control.errors import (
    AuthenticationFailed,
    ControlError,
    NoAnswer,
    NotConnected,
    ProtocolError,
    Unreachable,
)
from iostats_ldms.control.protocol import (
    Authentication,
    ClientProtocol,
    CommandAnswered,
    CredentialNeeded,
    CredentialReceived,
    DirectoryPart,
    Established,
)
from iostats_ldms.statements.dialect import Statement

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats_ldms.control.observed import SetInfo
    from iostats_ldms.control.protocol import Event


class Reply(NamedTuple):
    """ldmsd's answer to a command."""

    # 0 for success; usually 2 no such object, 16 busy or in use, 17 already exists, 22 invalid or
    # missing attribute, 38 no such command; negative for ldmsd's own errors
    errno: int
    text: str   # an error message, the answer to a status command, or ""


# As in LDMS: a host that disappears is detected after 10 + 3 * 2 s.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))

_ENDED = (errno.ECONNREFUSED, errno.ECONNRESET)
_MOST_SETS = 1_000_000                          # in a directory; as many take 250 MB


_addresses = Addresses()                        # cache of resolved host names


class Connection(asyncio.Protocol):
    """
    One connection; create it with `open`.

    Attributes:
        where: "host:port".
        dialect: "4.4" or "4.5", of the daemon.
        lost: a future, done when the connection is over; its result is a ControlError, or None
            after `close`.
    """

    __slots__ = ("where", "lost", "_answer_within_s", "_core", "_loop", "_transport", "_pending",
                 "_number", "_established", "_parts", "_reason", "_checks", "_is_answered",
                 "_part_at")

    def __init__(self, where: str, auth: Authentication, answer_within_s: float) -> None:
        self.where = where
        self._answer_within_s = answer_within_s
        self._core = ClientProtocol(auth, where, challenge=secrets.randbits(64),
                                    rail=secrets.randbits(63))
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[ControlError | None] = self._loop.create_future()
        self._established: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._parts: dict[int, list[SetInfo]] = {}
        self._number, self._is_answered = 0, False
        self._part_at = 0.0                          # when the last part of a directory arrived
        self._reason: ControlError | None = None
        self._checks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, host: str, port: int, auth: Authentication | None = None, *,
                   connect_within_s: float = 3.0, answer_within_s: float = 5.0) -> Connection:
        """
        Open a connection authenticated in both directions.

        Raises NotConnected (Unreachable), NoAnswer, VersionMismatch, AuthenticationFailed,
        ProtocolError.
        """
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(_connect(
            lambda: cls(where, auth or Authentication(), answer_within_s), host, port,
            connect_within_s))
        try:
            # Not wait_for: before Python 3.12 it can lose a cancellation that arrives together
            # with the result, and the canceller would wait forever.
            done, _ = await asyncio.wait({connecting}, timeout=connect_within_s)
        except asyncio.CancelledError:
            connecting.cancel()
            connecting.add_done_callback(_close_late)
            raise
        if not done:
            connecting.cancel()
            connecting.add_done_callback(_close_late)
            raise Unreachable(where, f"no connection within {connect_within_s:g} s")
        try:
            _transport, connection = connecting.result()
        except (OSError, UnicodeError, OverflowError) as error:
            kind = Unreachable if _is_host_unreachable(error) else NotConnected
            raise kind(where, f"no connection: {_describe_error(error)}") from None
        timer = loop.call_later(answer_within_s, connection._close_with, NoAnswer(
            where, f"connected, but no answer within {answer_within_s:g} s: it hangs or is not "
                   f"ldmsd"))
        try:
            await connection._established
            # The daemon may reject us after we accepted it; an answer shows that it does not.
            await connection.command(Statement("cfg_cntr", ()))
        except ControlError as error:
            connection.close()
            raise connection.lost.result() or error from None
        except BaseException:
            connection.close()
            raise
        finally:
            timer.cancel()
        return connection

    @property
    def dialect(self) -> str:
        """The daemon's dialect."""
        return self._core.dialect

    async def command(self, statement: Statement) -> Reply:
        """
        Send a command and return its Reply.

        A statement that the release does not support is not sent, and answered as ldmsd would:
        errno 38 or 22. Raises NotConnected, NoAnswer, ProtocolError.
        """
        number = self._take_number()
        try:
            self._core.send_command(number, statement)
        except UnsupportedStatement as error:
            return Reply(error.errno, f"{error} (not sent)")
        return Reply(*await self._wait_for_answer(number, statement.verb))

    async def sets(self) -> list[SetInfo]:
        """Read all sets of the daemon.  Raises NotConnected, NoAnswer, ProtocolError."""
        number = self._take_number()
        self._parts[number] = []
        try:
            self._core.send_directory(number)
            result: list[SetInfo] = await self._wait_for_answer(number, "the directory")
            return result
        finally:
            self._parts.pop(number, None)

    def close(self) -> None:
        """Close the connection; unanswered commands raise NotConnected."""
        self._close_with(None)

    def _take_number(self) -> int:
        if self._reason is not None or self.lost.done():
            raise NotConnected(self.where, f"the connection has ended: {self._reason.text}"
                               if self._reason else "the connection was closed")
        self._number = self._number % 0x7fffffff + 1
        return self._number

    async def _wait_for_answer(self, number: int, query: str) -> Any:
        self._pending[number] = future = self._loop.create_future()
        self._flush()
        now = self._loop.time()
        timer = self._loop.call_at(now + self._answer_within_s, self._check_timeout, number, query,
                                   now)
        try:
            return await future
        finally:
            timer.cancel()
            self._pending.pop(number, None)

    def _check_timeout(self, number: int, query: str, began: float) -> None:
        if number not in self._pending:
            return
        # A directory of 100,000 sets is 50 MB: in transfer it may take ten times as long.
        last_part_at = min(self._part_at, began + 9 * self._answer_within_s)
        if number in self._parts and last_part_at + self._answer_within_s > self._loop.time():
            self._loop.call_at(last_part_at + self._answer_within_s, self._check_timeout, number,
                               query,
                               began)
            return
        self._close_with(NoAnswer(self.where,
                                  f"no answer to {query} within {self._answer_within_s:g} s; "
                                  f"it is unknown whether it was executed"))

    def _flush(self) -> None:
        if self._transport is not None:
            data = self._core.outgoing()
            if data:
                self._transport.write(data)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the TCP connection is open."""
        self._transport = transport  # type: ignore[assignment]    # uvloop's is another class
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                endpoint.setsockopt(socket.IPPROTO_TCP, option, value)
        self._core.connect()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes arrived."""
        try:
            for event in self._core.receive(data):
                self._handle_event(event)
        except ControlError as error:
            self._close_with(error)
            return
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio: the TCP connection is closed."""
        self._close_with(None if self.lost.done() else self._explain_loss(error))

    def _explain_loss(self, error: Exception | None) -> ControlError:
        why = _describe_error(error) if isinstance(error, OSError) else "it closed the connection"
        if not self._core.dialect:
            return NotConnected(self.where, f"{why} before accepting ours: it ended, "
                                "speaks another version of LDMS' protocol, or is not "
                                "ldmsd")
        if not self._core.is_established:
            return AuthenticationFailed(self.where, f"{why} during authentication "
                                        f"({self._core.auth.plugin})")
        if not self._is_answered:
            return NotConnected(self.where, f"{why} before its first answer (authentication "
                                f"{self._core.auth.plugin}); its log may say why")
        return NotConnected(self.where, why)

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, CommandAnswered):
            self._is_answered = True
            future = self._pending.get(event.number)
            if future is not None and not future.done():
                future.set_result((event.errno, event.text))
        elif isinstance(event, DirectoryPart):
            self._handle_directory(event)
        elif isinstance(event, Established):
            if not self._established.done():
                self._established.set_result(None)
        elif isinstance(event, (CredentialNeeded, CredentialReceived)):
            task = self._loop.create_task(self._authenticate_by_munge(event))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    def _handle_directory(self, part: DirectoryPart) -> None:
        future, result = self._pending.get(part.number), self._parts.get(part.number)
        if future is None or future.done() or result is None:
            return
        self._part_at = self._loop.time()
        if part.errno:
            raise ProtocolError(self.where, f"cannot read its directory: {os.strerror(part.errno)}")
        result += answers.parse_sets(part.text, self.where)
        if len(result) > _MOST_SETS:
            raise ProtocolError(self.where, f"more than {_MOST_SETS} sets in its directory")
        if part.is_last:
            future.set_result(result)

    async def _authenticate_by_munge(self, event: CredentialNeeded | CredentialReceived) -> None:
        """Call munged in a thread, since it may take seconds."""
        assert self._transport is not None
        try:
            if isinstance(event, CredentialNeeded):
                text = await asyncio.to_thread(
                    authentication.make_credential, self._core.auth,
                    self._transport.get_extra_info("sockname"), self.where)
                events = self._core.give_credential(text)
            else:
                await asyncio.to_thread(authentication.check_credential, self._core.auth,
                                        event.credential, self.where)
                events = self._core.accept_credential()
        except ControlError as error:
            self._close_with(error)
            return
        for established in events:
            self._handle_event(established)
        self._flush()

    def _close_with(self, reason: ControlError | None) -> None:
        """End the connection once; pending answers raise `reason`."""
        if self.lost.done():
            return
        self._reason = reason
        self.lost.set_result(reason)
        error = reason or NotConnected(self.where, "it was closed")
        for future in [*self._pending.values(), self._established]:
            if not future.done():
                future.set_exception(error)
        if self._established.done() and not self._established.cancelled():
            self._established.exception()              # mark the exception as retrieved
        if self._transport is not None:
            # Discard unsent data at once: a hung daemon may never read it.
            endpoint = self._transport.get_extra_info("socket")
            if isinstance(reason, NoAnswer) and endpoint is not None:
                with contextlib.suppress(OSError):
                    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                        struct.pack("ii", 1, 0))
            self._transport.abort()


async def _connect(make: Callable[[], Connection], host: str, port: int, timeout_s: float
                     ) -> tuple[asyncio.Transport, Connection]:
    """Connect to the first address of `host` that accepts; OSError."""
    loop, errors = asyncio.get_running_loop(), []
    for *_, address in await _addresses.resolve_async(host, port, timeout_s):
        try:
            return await loop.create_connection(make, address[0], port)
        except OSError as error:
            errors.append(error)
    if len({str(error) for error in errors}) == 1:
        raise errors[0]
    raise OSError("; ".join(map(str, errors)) or f"no address of {host}")


def _close_late(connecting: asyncio.Task[tuple[asyncio.Transport, Connection]]) -> None:
    """Close a connection that was established after the caller gave up."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result()[1].close()


def _is_host_unreachable(error: Exception) -> bool:
    """
    True unless the host itself refused or reset the connection.

    If several addresses failed in different ways, the OSError has no number.
    """
    return isinstance(error, OSError) and error.errno not in _ENDED and (
        error.errno is not None or f"[Errno {errno.ECONNREFUSED}]" not in str(error))


def _describe_error(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
