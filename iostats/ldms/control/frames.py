"""
Bytes of LDMS' protocol over TCP (transport `sock`) <-> messages.  All numbers in network order.

    frame      = type(16) 0(16) length(32) xid(32) context(64)  ...         zap; length: with all
      CONNECT  = frame zap version(4 x 8) "SOCKET\\0\\0" length(32) greeting
      ACCEPTED, REJECTED, ACK_ACCEPTED, SENDRECV = frame length(32) data
    greeting   = LDMS version(4 x 8) name of the authentication(16 bytes)   until 4.4; and, in 4.5,
                 1(32) rate(64) quota(64) endpoints(32) index(32) pid(32) rail(64) messages(32)
    request    = xid(64) command(32) length(32) ...                         LDMS, in SENDRECV
      SEND, AUTH  = request length(32) data                                 data of SEND: records
      DIRECTORY   = request flags(32)
    reply      = xid(64) command(32) length(32) errno(32) ...
      DIRECTORY_REPLY = reply type(32) more(32) length(32) JSON
    record     = 0xffffffff kind(32) flags(32) number(32) verb or errno(32) length(32) ...
    attribute  = 1(32) number(32) length(32) value         after the last attribute: 0(32)

A message of several records is one text that was cut: only the first one's attributes have their
beginning.  Of a greeting of 4.5, what an `rdma` needs of it is the same for all and 0 here.

Source: zap_sock.h, ldms_xprt.h, ldms_rail.h, ldmsd_request.h of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ZAP_VERSION = (1, 3, 1, 0)
LDMS_VERSION = (4, 2, 0, 0)                   # of the protocol; LDMS 4.3 to 4.5
SIGNATURE = b"SOCKET\0\0"

CONNECT, SENDRECV, ACCEPTED, REJECTED, ACK_ACCEPTED = 1, 2, 8, 9, 10
_LAST_TYPE = 10
DIRECTORY, SEND, AUTH = 0, 5, 6
DIRECTORY_REPLY = 0x101
FIRST, LAST = 1, 2                            # flags of a record
COMMAND, RESPONSE = 1, 2                      # kinds of a record

LONGEST_FRAME = 1 << 20                       # SOCKBUF_SZ
LONGEST_MESSAGE = 64 << 20                    # of a command or an answer, all records of it
_CUT = 1 << 18                                # where ours are cut
_MOST_ATTRIBUTES = 1000                       # of a command or an answer; ldmsd's have up to 20

_FRAME = struct.Struct("!HHIIQ")
_LENGTH = struct.Struct("!I")
_REQUEST = struct.Struct("!QII")
_REPLY = struct.Struct("!QIII")
_DIRECTORY = struct.Struct("!III")
_RECORD = struct.Struct("!IIIIII")
_ATTRIBUTE = struct.Struct("!III")
_GREETING = struct.Struct("!4B16s")
_RAIL = struct.Struct("!IqqIIIQI")
_MARKER = 0xffffffff
_RECORD_READ = struct.Struct("!IIIIiI")       # ldmsd's own errnos are negative


class BadFrame(Exception):
    """Bytes that are not of the form above; the connection cannot go on."""


class Frames:
    """The frames of a stream of bytes: a part of one is kept until the rest of it comes."""

    __slots__ = ("_kept", "_wanted")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._wanted = _FRAME.size               # bytes, before there is anything to look at

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(type, what follows the frame's header) of each frame that is complete; BadFrame."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._wanted:
                return
            data = bytes(self._kept)
            self._kept.clear()
        self._wanted, at = _FRAME.size, 0
        while len(data) - at >= _FRAME.size:
            kind, _zero, length, _xid, _context = _FRAME.unpack_from(data, at)
            if not 1 <= kind <= _LAST_TYPE or not _FRAME.size <= length <= LONGEST_FRAME:
                raise BadFrame(f"expected a frame of LDMS' protocol, got {data[at:at + 20]!r}")
            if len(data) - at < length:
                self._wanted = length
                break
            yield kind, data[at + _FRAME.size:at + length]
            at += length
        self._kept += data[at:]


def frame(kind: int, data: bytes = b"") -> bytes:
    """A frame with its data; not for CONNECT."""
    return (_FRAME.pack(kind, 0, _FRAME.size + 4 + len(data), 1, 0)
            + _LENGTH.pack(len(data)) + data)


def data_of(payload: bytes) -> bytes:
    """The data of ACCEPTED, REJECTED, ACK_ACCEPTED or SENDRECV; BadFrame."""
    if len(payload) < 4:
        raise BadFrame("a frame without its length")
    [length] = _LENGTH.unpack_from(payload)
    if length > len(payload) - 4:
        raise BadFrame(f"a frame of {len(payload) - 4} bytes, of which {length} are data")
    return payload[4:4 + length]


def connect(greeting_: bytes) -> bytes:
    """The frame that opens a connection."""
    body = bytes(ZAP_VERSION) + SIGNATURE + _LENGTH.pack(len(greeting_)) + greeting_
    return _FRAME.pack(CONNECT, 0, _FRAME.size + len(body), 1, 0) + body


def read_connect(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """(zap version, greeting) of CONNECT; BadFrame."""
    if len(payload) < 16 or payload[4:12] != SIGNATURE:
        raise BadFrame("a connection that is not of LDMS' transport sock")
    return tuple(payload[:4]), data_of(payload[12:])


def greeting(auth: str, rail: int | None = None,
             version: tuple[int, ...] = LDMS_VERSION) -> bytes:
    """
    What an end says of itself: `auth`: none, ovis, munge; `rail`: where it is 4.5 or newer, a
    number of 64 bits, another one for each connection: those of one number are taken for one.
    """
    first = _GREETING.pack(*version, auth.encode())
    return first if rail is None else first + _RAIL.pack(1, -1, -1, 1, 0, rail >> 33, rail, 0)


def read_greeting(data: bytes) -> tuple[tuple[int, ...], str, bool]:
    """(LDMS' version, authentication, whether it is 4.5 or newer); BadFrame."""
    if len(data) < 4:
        raise BadFrame("a greeting without its version")
    name = data[4:20].split(b"\0")[0].decode("ascii", "replace")
    has_rail = len(data) >= _GREETING.size + _RAIL.size
    return tuple(data[:4]), name, has_rail


def request(command: int, data: bytes, xid: int = 0) -> bytes:
    """A frame with a SEND or an AUTH."""
    body = _LENGTH.pack(len(data)) + data
    return frame(SENDRECV, _REQUEST.pack(xid, command, _REQUEST.size + len(body)) + body)


def directory_request(xid: int) -> bytes:
    """A frame that asks for all sets, once."""
    return frame(SENDRECV, _REQUEST.pack(xid, DIRECTORY, _REQUEST.size + 4) + _LENGTH.pack(0))


def directory_reply(xid: int, text: bytes, more: bool, errno: int = 0) -> bytes:
    """A frame with a part of the directory."""
    return frame(SENDRECV, _REPLY.pack(xid, DIRECTORY_REPLY,
                                       _REPLY.size + _DIRECTORY.size + len(text), errno)
                 + _DIRECTORY.pack(0, more, len(text)) + text)


def read_message(data: bytes) -> tuple[int, int, bytes]:
    """(xid, command, what follows) of SENDRECV's data; BadFrame."""
    if len(data) < _REQUEST.size:
        raise BadFrame(f"a message of {len(data)} bytes")
    xid, command, _length = _REQUEST.unpack_from(data)
    return xid, command, data[_REQUEST.size:]


def read_directory_reply(body: bytes) -> tuple[int, bool, bytes]:
    """(errno, whether more comes, JSON) of what follows a DIRECTORY_REPLY's header; BadFrame."""
    if len(body) < 4 + _DIRECTORY.size:
        raise BadFrame("a part of a directory without its beginning")
    [errno] = _LENGTH.unpack_from(body)
    _type, more, _length = _DIRECTORY.unpack_from(body, 4)
    return errno, bool(more), body[4 + _DIRECTORY.size:]


def records(kind: int, number: int, code: int,
            attributes: list[tuple[int, str | None]]) -> list[bytes]:
    """The records of one command or answer, each fit for a SEND; code: the verb's, or errno."""
    parts = []
    for attribute, value in attributes:
        text = b"" if value is None else value.encode("utf-8", "surrogateescape") + b"\0"
        parts += [_ATTRIBUTE.pack(1, attribute, len(text)), text]
    body = b"".join(parts) + _LENGTH.pack(0)
    found = []
    for at in range(0, len(body), _CUT):
        part = body[at:at + _CUT]
        flags = (0 if at else FIRST) | (LAST if at + _CUT >= len(body) else 0)
        found.append(_RECORD.pack(_MARKER, kind, flags, number, code & 0xffffffff,
                                  _RECORD.size + len(part)) + part)
    return found


def read_record(data: bytes) -> tuple[int, int, int, int, bytes]:
    """(kind, flags, number, code, part of the attributes); BadFrame."""
    if len(data) < _RECORD.size:
        raise BadFrame(f"a record of {len(data)} bytes")
    marker, kind, flags, number, code, length = _RECORD_READ.unpack_from(data)
    if marker != _MARKER or not _RECORD.size <= length <= len(data):
        raise BadFrame(f"expected a record of ldmsd, got {data[:24]!r}")
    return kind, flags, number, code, data[_RECORD.size:length]


def read_attributes(body: bytes) -> list[tuple[int, str | None]]:
    """(number, text; None for a keyword) of each attribute of a whole message; BadFrame."""
    found, at = [], 0
    while len(body) - at >= 4 and _LENGTH.unpack_from(body, at)[0]:
        if len(body) - at < _ATTRIBUTE.size:
            raise BadFrame("an attribute without its beginning")
        _one, number, length = _ATTRIBUTE.unpack_from(body, at)
        at += _ATTRIBUTE.size
        if length > len(body) - at:
            raise BadFrame(f"an attribute of {length} bytes, of which {len(body) - at} are there")
        text = body[at:at + length].rstrip(b"\0").decode("utf-8", "replace") if length else None
        found.append((number, text))
        if len(found) > _MOST_ATTRIBUTES:
            raise BadFrame(f"more than {_MOST_ATTRIBUTES} attributes")
        at += length
    return found
