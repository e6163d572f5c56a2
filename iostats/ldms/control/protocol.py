"""
Both ends of a control connection without I/O: bytes go in, events come out.

    client                                    ldmsd
    CONNECT greeting  ->                      <-  ACCEPTED greeting, or REJECTED text
    ACK_ACCEPTED      ->                      authentication, in both directions at once
    commands          ->                      <-  answers, each with its command's number

Authentication (AUTH messages): none: nothing.  ovis: a challenge of 64 bits from each end; the
answer is SHA-224, in hexadecimal, of the challenge in decimal followed by the secret word.  munge:
a credential from each end, over its own socket address; the caller makes and checks them.

What `receive` and the methods that send leave to be sent is taken with `outgoing()`.  After an
exception of `receive` the connection is of no use.

Source: ldms_xprt.c, ldms_rail.c, ldms_auth_ovis.c, ldms_auth_munge.c of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from iostats.ldms.control import commands, frames
from iostats.ldms.control.errors import Nonsense, RefusedAuth, RefusedVersion
from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

_CHALLENGE, _ANSWER = 1, 2
_OPEN_AT_ONCE = 1000              # commands and directories under way from one client


@dataclass(frozen=True)
class Authentication:
    """
    How the ends of a connection know each other.

    Attributes:
        plugin: none, ovis or munge.
        secret: the secret word of ovis.
        socket: munged's, "" for libmunge's own.
    """
    plugin: str = "none"
    secret: str = field(default="", repr=False)
    socket: str = ""


@dataclass(frozen=True)
class CredentialWanted:
    """munge: make a credential over the address of our own socket, for `give_credential`."""


@dataclass(frozen=True)
class CredentialReceived:
    """munge: check it, and call `accept_credential`, or close."""
    credential: str


@dataclass(frozen=True)
class Established:
    """Both ends believe each other; `dialect`: "4.4" or "4.5", of the other end."""
    dialect: str


@dataclass(frozen=True)
class CommandAnswered:
    """`errno`: 0 for carried out, or negative; `text`: a reason, a status as JSON, or ""."""
    number: int
    errno: int
    text: str


@dataclass(frozen=True)
class DirectoryPart:
    """Some of the sets; `text`: JSON, {"directory": [...]}; the answer to `number`."""
    number: int
    errno: int
    text: str
    is_last: bool


@dataclass(frozen=True)
class CommandAsked:
    """To be answered with `answer(number, ...)`."""
    number: int
    statement: Statement


@dataclass(frozen=True)
class DirectoryAsked:
    """To be answered with `directory(number, ...)`."""
    number: int


if TYPE_CHECKING:
    Event = Union[CredentialWanted, CredentialReceived, Established, CommandAnswered,
                  DirectoryPart, CommandAsked, DirectoryAsked]


class _End:
    """What both ends do: frames, authentication, and messages of several records."""

    __slots__ = ("where", "auth", "dialect", "is_established", "_frames", "_out", "_challenge",
                 "_has_proved", "_has_answered", "_parts", "_size", "_held")

    def __init__(self, auth: Authentication, where: str, challenge: int) -> None:
        if auth.plugin not in ("none", "ovis", "munge"):
            raise RefusedAuth(where, f"no authentication by {auth.plugin} here; there are: none, "
                                     f"ovis, munge")
        self.where, self.auth, self.dialect = where, auth, ""
        self.is_established = False
        self._frames = frames.Frames()
        self._out: list[bytes] = []
        self._challenge = challenge
        self._has_proved = self._has_answered = False        # the other end, and we
        self._parts: dict[int, bytearray] = {}               # messages that are not complete
        self._size = 0
        # Frames that came behind a credential that is still being checked.
        self._held: list[tuple[int, bytes]] | None = None

    def outgoing(self) -> bytes:
        """What is to be sent now, once."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def receive(self, data: bytes) -> list[Event]:
        """What `data` brought.  Raises RefusedVersion, RefusedAuth, Nonsense."""
        return self._taken(self._frames.feed(data))

    def _taken(self, found: Iterable[tuple[int, bytes]]) -> list[Event]:
        events: list[Event] = []
        try:
            for kind, payload in found:
                if self._held is None:
                    events += self._frame(kind, payload)
                elif (len(self._held) < _OPEN_AT_ONCE
                      and sum(len(one) for _, one in self._held) < frames.LONGEST_FRAME):
                    self._held.append((kind, payload))
                else:
                    raise frames.BadFrame(
                        f"more than {_OPEN_AT_ONCE} frames, or {frames.LONGEST_FRAME >> 20} MiB, "
                        "before its credential is accepted")
        except frames.BadFrame as error:
            raise Nonsense(self.where, f"this is not ldmsd's protocol: {error}") from None
        return events

    def _frame(self, kind: int, payload: bytes) -> list[Event]:
        raise NotImplementedError

    # Authentication

    def _begin(self) -> list[Event]:
        """Our part, once the connection is there."""
        if self.auth.plugin == "none":
            return self._established()
        if self.auth.plugin == "munge":
            return [CredentialWanted()]
        # The kind is in the byte order of its sender: little-endian wherever LDMS runs today.
        self._out.append(frames.request(frames.AUTH, struct.pack("<I", _CHALLENGE)
                                        + struct.pack("!Q", self._challenge)))
        return []

    def give_credential(self, credential: str) -> list[Event]:
        """munge's over our own address, for CredentialWanted."""
        self._out.append(frames.request(frames.AUTH, credential.encode() + b"\0"))
        self._has_answered = True
        return self._established_if_both()

    def accept_credential(self) -> list[Event]:
        """That of CredentialReceived was good; what came behind it counts now.  As `receive`."""
        self._has_proved = True
        held, self._held = self._held or [], None
        return self._established_if_both() + self._taken(held)

    def _authenticate(self, body: bytes) -> list[Event]:
        data = frames.data_of(body)
        if self.is_established or self.auth.plugin == "none":
            raise RefusedAuth(self.where, "it goes on to authenticate itself where it need not")
        if self.auth.plugin == "munge":
            self._held = []
            return [CredentialReceived(data.rstrip(b"\0").decode("ascii", "replace"))]
        kind = int.from_bytes(data[:4], "little")
        if kind == _CHALLENGE and len(data) == 12 and not self._has_answered:
            [challenge] = struct.unpack_from("!Q", data, 4)
            if challenge == self._challenge:         # our own, to learn the answer to it
                raise RefusedAuth(self.where, "it sends our own challenge back")
            self._out.append(frames.request(
                frames.AUTH, struct.pack("<I", _ANSWER) + self._hash(challenge) + b"\0"))
            self._has_answered = True
        elif kind == _ANSWER and not self._has_proved:
            if not hmac.compare_digest(self._hash(self._challenge), data[4:].rstrip(b"\0")):
                raise RefusedAuth(self.where, "its secret word is not ours (ovis)")
            self._has_proved = True
        else:
            raise RefusedAuth(self.where, "what it sends is not of ovis' authentication")
        return self._established_if_both()

    def _hash(self, challenge: int) -> bytes:
        text = b"%d%s" % (challenge, self.auth.secret.encode("utf-8", "surrogateescape"))
        return hashlib.sha224(text).hexdigest().encode()

    def _established_if_both(self) -> list[Event]:
        return self._established() if self._has_proved and self._has_answered else []

    def _established(self) -> list[Event]:
        self.is_established = True
        return [Established(self.dialect)]

    # Messages

    def _send_records(self, kind: int, number: int, code: int,
                      attributes: list[tuple[int, str | None]]) -> None:
        self._out += [frames.request(frames.SEND, record)
                      for record in frames.records(kind, number, code, attributes)]

    def _whole(self, body: bytes, kind: int) -> tuple[int, int, bytes] | None:
        """(number, code, attributes) where this record is the last of its message."""
        found, flags, number, code, part = frames.read_record(frames.data_of(body))
        if found != kind:
            return None
        if flags & frames.FIRST:
            self._size -= len(self._parts.get(number, b""))
            self._parts[number] = bytearray()
        elif number not in self._parts:
            raise frames.BadFrame("a record that goes on with a message that was not begun")
        self._parts[number] += part
        self._size += len(part)
        if self._size > frames.LONGEST_MESSAGE or len(self._parts) > _OPEN_AT_ONCE:
            raise frames.BadFrame(f"more than {frames.LONGEST_MESSAGE >> 20} MiB of one message, "
                                  f"or {_OPEN_AT_ONCE} messages at once")
        if not flags & frames.LAST:
            return None
        whole = bytes(self._parts.pop(number))
        self._size -= len(whole)
        return number, code, whole


class ClientProtocol(_End):
    """
    The end that asks.

    `challenge` (ovis) and `rail`: numbers of 64 and 63 bits, random, new for each connection.
    Each command and directory has a number of its own, which its answer has too.
    """

    __slots__ = ("_rail", "_is_accepted", "_sizes")

    def __init__(self, auth: Authentication, where: str = "", *, challenge: int = 0,
                 rail: int = 1) -> None:
        super().__init__(auth, where, challenge)
        self._rail, self._is_accepted = rail, False
        self._sizes: dict[int, int] = {}             # of directories that are not complete

    def connect(self) -> None:
        """The first thing to send."""
        self._out.append(frames.connect(frames.greeting(self.auth.plugin, self._rail)))

    def send_command(self, number: int, statement: Statement) -> None:
        """Ask for it to be carried out, once established; CannotBeSaid where it is not sent."""
        verb, attributes = commands.encoded(statement, self.dialect)
        self._send_records(frames.COMMAND, number, verb, attributes)

    def send_directory(self, number: int) -> None:
        """Ask for all sets, once established."""
        self._sizes[number] = 0
        self._out.append(frames.directory_request(number))

    def _frame(self, kind: int, payload: bytes) -> list[Event]:
        if kind == frames.SENDRECV and self._is_accepted:
            xid, command, body = frames.read_message(frames.data_of(payload))
            return self._message(xid, command, body)
        if self._is_accepted:
            return []                                 # of sets' contents, which we never ask for
        if kind == frames.ACCEPTED:
            version, _auth, has_rail = frames.read_greeting(frames.data_of(payload))
            if version != frames.LDMS_VERSION:
                raise RefusedVersion(self.where, "it speaks version %s of LDMS' protocol, we %s" % (
                    ".".join(map(str, version)), ".".join(map(str, frames.LDMS_VERSION))))
            self.dialect = "4.5" if has_rail else "4.4"
            self._is_accepted = True
            self._out.append(frames.frame(frames.ACK_ACCEPTED))
            return self._begin()
        if kind == frames.REJECTED:
            why = frames.data_of(payload).rstrip(b"\0").decode("utf-8", "replace")
            if "ersion" in why:
                raise RefusedVersion(self.where, f"it refuses our version of LDMS' protocol, "
                                     f"{'.'.join(map(str, frames.LDMS_VERSION))}: {why!r}")
            raise RefusedAuth(self.where, f"it refuses the connection: {why!r}; ours has "
                                          f"authentication {self.auth.plugin}")
        raise frames.BadFrame(f"a frame of type {kind} before the connection was accepted")

    def _message(self, xid: int, command: int, body: bytes) -> list[Event]:
        if command == frames.AUTH:
            return self._authenticate(body)
        if not self.is_established:
            raise RefusedAuth(self.where, "it goes on without authenticating itself")
        if command == frames.SEND:
            answer = self._whole(body, frames.RESPONSE)
            if answer is None:
                return []
            number, errno, attributes = answer
            texts = [text for attribute, text in frames.read_attributes(attributes)
                     if attribute in (commands.STRING, commands.JSON)]
            return [CommandAnswered(number, errno, texts[0] or "" if texts else "")]
        if command == frames.DIRECTORY_REPLY and xid in self._sizes:
            errno, more, text = frames.read_directory_reply(body)
            self._sizes[xid] += len(text)
            if self._sizes[xid] > 4 * frames.LONGEST_MESSAGE:
                raise frames.BadFrame("a directory without an end")
            if not more:
                del self._sizes[xid]
            return [DirectoryPart(xid, errno, text.rstrip(b"\0").decode("utf-8", "replace"),
                                  not more)]
        return []                                     # what it asks of us, and news of sets


class ServerProtocol(_End):
    """
    The end that answers, for simulations.

    `rail`: another one for each connection; `version`: of LDMS' protocol, which the client's
    has to be.
    """

    __slots__ = ("_own", "_version", "_greeted", "is_rejected")

    def __init__(self, auth: Authentication, dialect: str = "4.5", *, challenge: int = 0,
                 rail: int = 1, version: tuple[int, ...] = frames.LDMS_VERSION) -> None:
        super().__init__(auth, "", challenge)
        self.dialect, self._version = dialect, version
        self._own = frames.greeting(auth.plugin, rail if dialect == "4.5" else None, version)
        self._greeted = ""                            # then "accepted", then "acknowledged"
        self.is_rejected = False                      # nothing more comes: close it

    def answer(self, number: int, errno: int, text: str = "") -> None:
        """The answer to CommandAsked; a status (JSON) has its own kind of attribute."""
        kind = commands.JSON if text[:1] in ("[", "{") else commands.STRING
        self._send_records(frames.RESPONSE, number, errno, [(kind, text)] if text else [])

    def directory(self, number: int, texts: list[str]) -> None:
        """The answer to DirectoryAsked: parts, each JSON {"directory": [...]}, at least one."""
        for n, text in enumerate(texts, 1):
            self._out.append(frames.directory_reply(number, text.encode(), n < len(texts)))

    def _frame(self, kind: int, payload: bytes) -> list[Event]:
        if kind == frames.CONNECT and not self._greeted:
            zap, said = frames.read_connect(payload)
            version, auth, _rail = frames.read_greeting(said)
            why = ("Version mismatch" if version != self._version or zap != frames.ZAP_VERSION
                   else "Auth mismatch" if auth != self.auth.plugin else "")
            if why:
                self._out.append(frames.frame(frames.REJECTED, why.encode() + b"\0"))
                self.is_rejected = True
                return []
            self._out.append(frames.frame(frames.ACCEPTED, self._own))
            self._greeted = "accepted"
            return []
        if kind == frames.ACK_ACCEPTED and self._greeted == "accepted":
            self._greeted = "acknowledged"
            return self._begin()
        if kind != frames.SENDRECV or self._greeted != "acknowledged":
            raise frames.BadFrame(f"a frame of type {kind} where it cannot be")
        xid, command, body = frames.read_message(frames.data_of(payload))
        if command == frames.AUTH:
            return self._authenticate(body)
        if not self.is_established:
            raise RefusedAuth(self.where, "a client that did not authenticate itself")
        if command == frames.DIRECTORY:
            return [DirectoryAsked(xid)]
        if command == frames.SEND:
            asked = self._whole(body, frames.COMMAND)
            if asked is not None:
                number, verb, attributes = asked
                return [CommandAsked(number, commands.decoded(
                    verb, frames.read_attributes(attributes), self.dialect))]
        return []
