"""
The client's end of a control connection without I/O: bytes in, events out; simldms has the other.

    client                                    ldmsd
    CONNECT greeting  ->                      <-  ACCEPTED greeting, or REJECTED text
    ACK_ACCEPTED      ->                      authentication, in both directions at once
    commands          ->                      <-  answers, each with its command's number

Authentication (AUTH messages): none: no message.  ovis: a challenge of 64 bits from each end; the
answer is SHA-224, in hexadecimal, of the challenge in decimal followed by the secret word.  munge:
a credential from each end, over its own socket address; the caller makes and checks them.

`outgoing()` returns the bytes to send after `receive` and after the methods that send.  After an
exception of `receive` the connection cannot be used any more.

Source: ldms_xprt.c, ldms_rail.c, ldms_auth_ovis.c, ldms_auth_munge.c of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iostats_ldms.control import encoding, frames
from iostats_ldms.control.errors import AuthenticationFailed, ProtocolError, VersionMismatch
from iostats_ldms.statements.dialect import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

_CHALLENGE, _ANSWER = 1, 2
_OPEN_AT_ONCE = 1000              # commands and directories under way from one client


@dataclass(frozen=True)
class Authentication:
    """The authentication of a connection."""
    plugin: str = "none"                            # none, ovis or munge
    secret: str = field(default="", repr=False)     # the secret word of ovis
    socket: str = ""                                # of munged; "" for libmunge's default


@dataclass(frozen=True)
class CredentialNeeded:
    """munge: make a credential over our own socket address and call `give_credential`."""


@dataclass(frozen=True)
class CredentialReceived:
    """munge: check the credential and call `accept_credential`, or close the connection."""
    credential: str


@dataclass(frozen=True)
class Established:
    """Both ends are authenticated; `dialect`: "4.4" or "4.5", of the peer."""
    dialect: str


@dataclass(frozen=True)
class CommandAnswered:
    """A command's answer; `errno`: 0 for success; `text`: an error, a status as JSON, or ""."""
    number: int
    errno: int
    text: str


@dataclass(frozen=True)
class DirectoryPart:
    """Part of the answer to directory request `number`; `text`: JSON, {"directory": [...]}."""
    number: int
    errno: int
    text: str
    is_last: bool


if TYPE_CHECKING:
    Event = Union[CredentialNeeded, CredentialReceived, Established, CommandAnswered,
                  DirectoryPart]


class ProtocolEnd:
    """The common part of both ends: frames, authentication, and messages of several records."""

    __slots__ = ("where", "auth", "dialect", "is_established", "_frames", "_out", "_challenge",
                 "_is_peer_proved", "_is_own_proof_sent", "_parts", "_size_bytes", "_deferred")

    def __init__(self, auth: Authentication, where: str, challenge: int) -> None:
        if auth.plugin not in ("none", "ovis", "munge"):
            raise AuthenticationFailed(where,
                                       f"unsupported authentication {auth.plugin}; expected none, "
                                       f"ovis or munge")
        self.where, self.auth, self.dialect = where, auth, ""
        self.is_established = False
        self._frames = frames.Frames()
        self._out: list[bytes] = []
        self._challenge = challenge
        self._is_peer_proved = self._is_own_proof_sent = False        # in both directions
        self._parts: dict[int, bytearray] = {}               # incomplete messages
        self._size_bytes = 0
        # Frames received while a credential is being checked.
        self._deferred: list[tuple[int, bytes]] | None = None

    def outgoing(self) -> bytes:
        """Return the bytes to send now, and clear them."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Event]:
        """Process bytes; return events.  VersionMismatch, AuthenticationFailed, ProtocolError."""
        return self._process_frames(self._frames.feed(data))

    def _process_frames(self, result: Iterable[tuple[int, bytes]]) -> list[Event]:
        events: list[Event] = []
        try:
            for kind, payload in result:
                if self._deferred is None:
                    events += self._handle_frame(kind, payload)
                elif (len(self._deferred) < _OPEN_AT_ONCE
                      and sum(len(item) for _, item in self._deferred) < frames.LONGEST_FRAME):
                    self._deferred.append((kind, payload))
                else:
                    raise frames.BadFrame(
                        f"more than {_OPEN_AT_ONCE} frames, or {frames.LONGEST_FRAME >> 20} MiB, "
                        "before its credential is accepted")
        except frames.BadFrame as error:
            raise ProtocolError(self.where, f"not ldmsd's protocol: {error}") from None
        return events

    def _handle_frame(self, kind: int, payload: bytes) -> list[Event]:
        raise NotImplementedError

    # Authentication

    def _start_authentication(self) -> list[Event]:
        """Send our part of the authentication."""
        if self.auth.plugin == "none":
            return self._mark_established()
        if self.auth.plugin == "munge":
            return [CredentialNeeded()]
        # The kind is in the sender's byte order: little-endian wherever LDMS runs today.
        self._out.append(frames.make_request(frames.AUTH, struct.pack("<I", _CHALLENGE)
                                             + struct.pack("!Q", self._challenge)))
        return []

    def give_credential(self, credential: str) -> list[Event]:
        """Send munge's credential over our own address, after CredentialNeeded."""
        self._out.append(frames.make_request(frames.AUTH, credential.encode() + b"\0"))
        self._is_own_proof_sent = True
        return self._finish_authentication()

    def accept_credential(self) -> list[Event]:
        """Accept the credential received and process the deferred frames, like `receive`."""
        self._is_peer_proved = True
        held, self._deferred = self._deferred or [], None
        return self._finish_authentication() + self._process_frames(held)

    def _authenticate(self, body: bytes) -> list[Event]:
        data = frames.extract_data(body)
        if self.is_established or self.auth.plugin == "none":
            raise AuthenticationFailed(self.where,
                                       "unexpected authentication message")
        if self.auth.plugin == "munge":
            self._deferred = []
            return [CredentialReceived(data.rstrip(b"\0").decode("ascii", "replace"))]
        kind = int.from_bytes(data[:4], "little")
        if kind == _CHALLENGE and len(data) == 12 and not self._is_own_proof_sent:
            [challenge] = struct.unpack_from("!Q", data, 4)
            if challenge == self._challenge:         # a reflection attack
                raise AuthenticationFailed(self.where, "it returned our own challenge")
            self._out.append(frames.make_request(
                frames.AUTH, struct.pack("<I", _ANSWER) + self._compute_answer(challenge) + b"\0"))
            self._is_own_proof_sent = True
        elif kind == _ANSWER and not self._is_peer_proved:
            if not hmac.compare_digest(self._compute_answer(self._challenge),
                                       data[4:].rstrip(b"\0")):
                raise AuthenticationFailed(self.where, "its secret word differs from ours (ovis)")
            self._is_peer_proved = True
        else:
            raise AuthenticationFailed(self.where, "unexpected message during ovis authentication")
        return self._finish_authentication()

    def _compute_answer(self, challenge: int) -> bytes:
        text = b"%d%s" % (challenge, self.auth.secret.encode("utf-8", "surrogateescape"))
        return hashlib.sha224(text).hexdigest().encode()

    def _finish_authentication(self) -> list[Event]:
        return self._mark_established() if self._is_peer_proved and self._is_own_proof_sent else []

    def _mark_established(self) -> list[Event]:
        self.is_established = True
        return [Established(self.dialect)]

    # Messages

    def _send_records(self, kind: int, number: int, code: int,
                      attributes: list[tuple[int, str | None]]) -> None:
        self._out += [frames.make_request(frames.SEND, record)
                      for record in frames.make_records(kind, number, code, attributes)]

    def _complete_message(self, body: bytes, kind: int) -> tuple[int, int, bytes] | None:
        """Return (number, code, attributes) if this record completes its message."""
        result, flags, number, code, part = frames.parse_record(frames.extract_data(body))
        if result != kind:
            return None
        if flags & frames.FIRST:
            self._size_bytes -= len(self._parts.get(number, b""))
            self._parts[number] = bytearray()
        elif number not in self._parts:
            raise frames.BadFrame("a record of a message without a beginning")
        self._parts[number] += part
        self._size_bytes += len(part)
        if self._size_bytes > frames.LONGEST_MESSAGE or len(self._parts) > _OPEN_AT_ONCE:
            raise frames.BadFrame(f"more than {frames.LONGEST_MESSAGE >> 20} MiB of one message, "
                                  f"or {_OPEN_AT_ONCE} messages at once")
        if not flags & frames.LAST:
            return None
        whole = bytes(self._parts.pop(number))
        self._size_bytes -= len(whole)
        return number, code, whole


class ClientProtocol(ProtocolEnd):
    """
    The end that sends commands.

    `challenge` (ovis) and `rail`: random numbers of 64 and 63 bits, new for each connection.  Each
    command and directory request has a number, which its answer repeats.
    """

    __slots__ = ("_rail", "_is_accepted", "_sizes")

    def __init__(self, auth: Authentication, where: str = "", *, challenge: int = 0,
                 rail: int = 1) -> None:
        super().__init__(auth, where, challenge)
        self._rail, self._is_accepted = rail, False
        self._sizes: dict[int, int] = {}             # of incomplete directories

    def connect(self) -> None:
        """Queue the opening frame."""
        self._out.append(frames.make_connect(frames.make_greeting(self.auth.plugin, self._rail)))

    def send_command(self, number: int, statement: Statement) -> None:
        """Queue a command; UnsupportedStatement if the release does not support it."""
        verb, attributes = encoding.encode_statement(statement, self.dialect)
        self._send_records(frames.COMMAND, number, verb, attributes)

    def send_directory(self, number: int) -> None:
        """Queue a request for all sets."""
        self._sizes[number] = 0
        self._out.append(frames.make_directory_request(number))

    def _handle_frame(self, kind: int, payload: bytes) -> list[Event]:
        if kind == frames.SENDRECV and self._is_accepted:
            xid, command, body = frames.parse_message(frames.extract_data(payload))
            return self._handle_message(xid, command, body)
        if self._is_accepted:
            return []                                 # contents of sets are never requested
        if kind == frames.ACCEPTED:
            version, _auth, has_rail = frames.parse_greeting(frames.extract_data(payload))
            if version != frames.LDMS_VERSION:
                raise VersionMismatch(self.where,
                                      "it speaks version %s of LDMS' protocol, expected %s" % (
                    ".".join(map(str, version)), ".".join(map(str, frames.LDMS_VERSION))))
            self.dialect = "4.5" if has_rail else "4.4"
            self._is_accepted = True
            self._out.append(frames.make_frame(frames.ACK_ACCEPTED))
            return self._start_authentication()
        if kind == frames.REJECTED:
            why = frames.extract_data(payload).rstrip(b"\0").decode("utf-8", "replace")
            if "ersion" in why:
                raise VersionMismatch(self.where, f"it refuses our version of LDMS' protocol, "
                                      f"{'.'.join(map(str, frames.LDMS_VERSION))}: {why!r}")
            raise AuthenticationFailed(self.where, f"it refuses the connection: {why!r}; our "
                                       f"authentication is {self.auth.plugin}")
        raise frames.BadFrame(f"a frame of type {kind} before the connection was accepted")

    def _handle_message(self, xid: int, command: int, body: bytes) -> list[Event]:
        if command == frames.AUTH:
            return self._authenticate(body)
        if not self.is_established:
            raise AuthenticationFailed(self.where, "it did not authenticate itself")
        if command == frames.SEND:
            answer = self._complete_message(body, frames.RESPONSE)
            if answer is None:
                return []
            number, errno, attributes = answer
            texts = [text for attribute, text in frames.parse_attributes(attributes)
                     if attribute in (encoding.STRING, encoding.JSON)]
            return [CommandAnswered(number, errno, texts[0] or "" if texts else "")]
        if command == frames.DIRECTORY_REPLY and xid in self._sizes:
            errno, more, text = frames.parse_directory_reply(body)
            self._sizes[xid] += len(text)
            if self._sizes[xid] > 4 * frames.LONGEST_MESSAGE:
                raise frames.BadFrame("a directory that is too long")
            if not more:
                del self._sizes[xid]
            return [DirectoryPart(xid, errno, text.rstrip(b"\0").decode("utf-8", "replace"),
                                  not more)]
        return []                                     # requests to us and notifications are ignored
