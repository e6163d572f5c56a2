"""
A control connection to one ldmsd, with asyncio.

    connection = await Connection.open("node-23", 411, Authentication())
    reply = await connection.command(Statement("prdcr_start", (("name", "node-37"),)))
    sets = await connection.sets()
    connection.close()

Commands may be sent before the answers of earlier ones are there: ldmsd carries them out in their
order, and answers in it.  An answer that does not come in time ends the connection, because nothing
is known of the daemon then: a hung one (SIGSTOP) carries out what it has received when it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import struct
from collections import namedtuple

from iostats.base.addresses import Addresses
from iostats.ldms.control import answers, authentication
from iostats.ldms.control.commands import CannotBeSaid
from iostats.ldms.control.errors import (
    ControlError,
    NoAnswer,
    Nonsense,
    NotConnected,
    RefusedAuth,
    Unreachable,
)
from iostats.ldms.control.protocol import (
    Authentication,
    ClientProtocol,
    CommandAnswered,
    CredentialReceived,
    CredentialWanted,
    DirectoryPart,
    Established,
)
from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.ldms.control.observed import SetInfo
    from iostats.ldms.control.protocol import Event

Reply = namedtuple("Reply", "errno text")
Reply.__doc__ = """
ldmsd's answer to a command.

Attributes:
    errno: 0 where it was carried out; as a rule 2 there is no such object, 16 it is running, or
        used, 17 it is there, 22 an attribute is wrong or missing, 38 there is no such command;
        negative where it is ldmsd's own.
    text: a reason, or what a status command answers, or "".
"""

# As LDMS sets them: a host that is gone without a word is noticed after 10 + 3 * 2 s.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))

_ENDED = (errno.ECONNREFUSED, errno.ECONNRESET)
_MOST_SETS = 1_000_000                          # of a directory, a real one of 250 MB


_addresses = Addresses()                        # resolved host names of all daemons


class Connection(asyncio.Protocol):
    """
    One connection; made by `open`.

    Attributes:
        where: "host:port".
        dialect: "4.4" or "4.5", of the daemon.
        lost: is done when the connection is over; its result says why: a ControlError, or None
            after `close`.
    """

    __slots__ = ("where", "lost", "_answer_within_s", "_core", "_loop", "_transport", "_asked",
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
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._parts: dict[int, list[SetInfo]] = {}
        self._number, self._is_answered = 0, False
        self._part_at = 0.0                          # when the last part of a directory came
        self._reason: ControlError | None = None
        self._checks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, host: str, port: int, auth: Authentication | None = None, *,
                   connect_within_s: float = 3.0, answer_within_s: float = 5.0) -> Connection:
        """
        A connection that is authenticated in both directions.

        Raises NotConnected (Unreachable), NoAnswer, RefusedVersion, RefusedAuth, Nonsense.
        """
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(_connected(
            lambda: cls(where, auth or Authentication(), answer_within_s), host, port,
            connect_within_s))
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with
            # the result, and who closes us would wait for ever.
            done, _ = await asyncio.wait({connecting}, timeout=connect_within_s)
        except asyncio.CancelledError:
            connecting.cancel()
            connecting.add_done_callback(_closed)
            raise
        if not done:
            connecting.cancel()
            connecting.add_done_callback(_closed)
            raise Unreachable(where, f"no connection within {connect_within_s:g} s")
        try:
            _transport, connection = connecting.result()
        except (OSError, UnicodeError, OverflowError) as error:
            kind = Unreachable if _is_no_word(error) else NotConnected
            raise kind(where, f"no connection: {_why(error)}") from None
        timer = loop.call_later(answer_within_s, connection._end, NoAnswer(
            where, f"connected, and no answer within {answer_within_s:g} s: it hangs, or is no "
                   f"ldmsd"))
        try:
            await connection._established
            # The daemon may have refused us after we accepted it: an answer is the proof.
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
        return self._core.dialect

    async def command(self, statement: Statement) -> Reply:
        """
        Have `statement` carried out.  What this release has no words for is not sent, and answered
        as ldmsd would: errno 38 or 22.  Raises NotConnected, NoAnswer, Nonsense.
        """
        number = self._next()
        try:
            self._core.send_command(number, statement)
        except CannotBeSaid as error:
            return Reply(error.errno, f"{error} (not sent)")
        return Reply(*await self._answer(number, statement.verb))

    async def sets(self) -> list[SetInfo]:
        """The directory: all sets that the daemon has.  Raises NotConnected, NoAnswer, Nonsense."""
        number = self._next()
        self._parts[number] = []
        try:
            self._core.send_directory(number)
            return await self._answer(number, "the directory")  # type: ignore[no-any-return]
        finally:
            self._parts.pop(number, None)

    def close(self) -> None:
        """End it; what was not answered raises NotConnected."""
        self._end(None)

    def _next(self) -> int:
        if self._reason is not None or self.lost.done():
            raise NotConnected(self.where, f"the connection is over: {self._reason.text}"
                               if self._reason else "the connection was closed")
        self._number = self._number % 0x7fffffff + 1
        return self._number

    async def _answer(self, number: int, what: str) -> Any:
        self._asked[number] = future = self._loop.create_future()
        self._flush()
        now = self._loop.time()
        timer = self._loop.call_at(now + self._answer_within_s, self._late, number, what, now)
        try:
            return await future
        finally:
            timer.cancel()
            self._asked.pop(number, None)

    def _late(self, number: int, what: str, began: float) -> None:
        if number not in self._asked:
            return
        # A directory of 100,000 sets is 50 MB: while it comes, it may take ten times as long.
        heard = min(self._part_at, began + 9 * self._answer_within_s)
        if number in self._parts and heard + self._answer_within_s > self._loop.time():
            self._loop.call_at(heard + self._answer_within_s, self._late, number, what, began)
            return
        self._end(NoAnswer(self.where, f"no answer to {what} within {self._answer_within_s:g} s; "
                                       f"whether it was carried out is unknown"))

    def _flush(self) -> None:
        if self._transport is not None:
            data = self._core.outgoing()
            if data:
                self._transport.write(data)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]    # uvloop's is another class
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                endpoint.setsockopt(socket.IPPROTO_TCP, option, value)
        self._core.connect()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._core.receive(data):
                self._event(event)
        except ControlError as error:
            self._end(error)
            return
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(None if self.lost.done() else self._lost_why(error))

    def _lost_why(self, error: Exception | None) -> ControlError:
        why = _why(error) if isinstance(error, OSError) else "it closed the connection"
        if not self._core.dialect:
            return NotConnected(self.where, f"{why} before it accepted ours: it ended, or "
                                            "speaks another version of LDMS' protocol, or is no "
                                            "ldmsd")
        if not self._core.is_established:
            return RefusedAuth(self.where, f"{why} during authentication "
                                           f"({self._core.auth.plugin})")
        if not self._is_answered:
            return NotConnected(self.where, f"{why} before its first answer (authentication "
                                            f"{self._core.auth.plugin}); its log may say why")
        return NotConnected(self.where, why)

    def _event(self, event: Event) -> None:
        if isinstance(event, CommandAnswered):
            self._is_answered = True
            future = self._asked.get(event.number)
            if future is not None and not future.done():
                future.set_result((event.errno, event.text))
        elif isinstance(event, DirectoryPart):
            self._directory(event)
        elif isinstance(event, Established):
            if not self._established.done():
                self._established.set_result(None)
        elif isinstance(event, (CredentialWanted, CredentialReceived)):
            task = self._loop.create_task(self._munge(event))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    def _directory(self, part: DirectoryPart) -> None:
        future, found = self._asked.get(part.number), self._parts.get(part.number)
        if future is None or future.done() or found is None:
            return
        self._part_at = self._loop.time()
        if part.errno:
            raise Nonsense(self.where, f"it has no directory: {os.strerror(part.errno)}")
        found += answers.sets(part.text, self.where)
        if len(found) > _MOST_SETS:
            raise Nonsense(self.where, f"more than {_MOST_SETS} sets in its directory")
        if part.is_last:
            future.set_result(found)

    async def _munge(self, event: CredentialWanted | CredentialReceived) -> None:
        """munged is asked in a thread: it may take seconds."""
        assert self._transport is not None
        try:
            if isinstance(event, CredentialWanted):
                text = await self._loop.run_in_executor(
                    None, authentication.credential, self._core.auth,
                    self._transport.get_extra_info("sockname"), self.where)
                events = self._core.give_credential(text)
            else:
                await self._loop.run_in_executor(
                    None, authentication.check, self._core.auth, event.credential, self.where)
                events = self._core.accept_credential()
        except ControlError as error:
            self._end(error)
            return
        for established in events:
            self._event(established)
        self._flush()

    def _end(self, reason: ControlError | None) -> None:
        """Over: once.  What waits for answers is told why."""
        if self.lost.done():
            return
        self._reason = reason
        self.lost.set_result(reason)
        error = reason or NotConnected(self.where, "it was closed")
        for future in [*self._asked.values(), self._established]:
            if not future.done():
                future.set_exception(error)
        if self._established.done() and not self._established.cancelled():
            self._established.exception()              # it need not be asked for
        if self._transport is not None:
            # At once, and so that nothing of it lingers: a hung daemon may never read it.
            endpoint = self._transport.get_extra_info("socket")
            if isinstance(reason, NoAnswer) and endpoint is not None:
                with contextlib.suppress(OSError):
                    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                        struct.pack("ii", 1, 0))
            self._transport.abort()


async def _connected(make: Callable[[], Connection], host: str, port: int, timeout_s: float
                     ) -> tuple[asyncio.Transport, Connection]:
    """A connection to the first address of `host` that accepts one; OSError."""
    loop, errors = asyncio.get_running_loop(), []
    for *_, address in await _addresses.when_known(host, port, timeout_s):
        try:
            return await loop.create_connection(make, address[0], port)
        except OSError as error:
            errors.append(error)
    if len({str(error) for error in errors}) == 1:
        raise errors[0]
    raise OSError("; ".join(map(str, errors)) or f"no address of {host}")


def _closed(connecting: asyncio.Task[tuple[asyncio.Transport, Connection]]) -> None:
    """A connection that was there when it was no longer wanted."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result()[1].close()


def _is_no_word(error: Exception) -> bool:
    """
    Whether nothing says that no process listens there: no route, no such name, no file left here.
    Several addresses that failed each in its way are one OSError without a number.
    """
    return isinstance(error, OSError) and error.errno not in _ENDED and (
        error.errno is not None or f"[Errno {errno.ECONNREFUSED}]" not in str(error))


def _why(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
