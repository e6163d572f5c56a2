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

A message of several records is one text that was split: only the first record begins with an
attribute.  The fields of a greeting that only `rdma` uses are 0 here.

Source: zap_sock.h, ldms_xprt.h, ldms_rail.h, ldmsd_request.h of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from iostats.base.packed import unpack_integers

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
_CUT = 1 << 18                                # size at which our messages are split
_MOST_ATTRIBUTES = 1000                       # per message; ldmsd's have up to 20

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
    """Bytes that do not have the format above; the connection cannot continue."""


class Frames:
    """Split a stream of bytes into frames; incomplete frames are buffered."""

    __slots__ = ("_kept", "_needed")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._needed = _FRAME.size               # bytes needed before parsing continues

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (type, payload after the frame's header) of each complete frame; BadFrame."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return
            data = bytes(self._kept)
            self._kept.clear()
        self._needed, at = _FRAME.size, 0
        while len(data) - at >= _FRAME.size:
            kind, _zero, length, _xid, _context = unpack_integers(_FRAME, data, at)
            if not 1 <= kind <= _LAST_TYPE or not _FRAME.size <= length <= LONGEST_FRAME:
                raise BadFrame(f"expected a frame of LDMS' protocol, got {data[at:at + 20]!r}")
            if len(data) - at < length:
                self._needed = length
                break
            yield kind, data[at + _FRAME.size:at + length]
            at += length
        self._kept += data[at:]


def make_frame(kind: int, data: bytes = b"") -> bytes:
    """Encode a frame with its data; not for CONNECT."""
    return (_FRAME.pack(kind, 0, _FRAME.size + 4 + len(data), 1, 0)
            + _LENGTH.pack(len(data)) + data)


def extract_data(payload: bytes) -> bytes:
    """Return the data of ACCEPTED, REJECTED, ACK_ACCEPTED or SENDRECV; BadFrame."""
    if len(payload) < 4:
        raise BadFrame("a frame without its length")
    [length] = unpack_integers(_LENGTH, payload)
    if length > len(payload) - 4:
        raise BadFrame(f"a frame of {len(payload) - 4} bytes, of which {length} are data")
    return payload[4:4 + length]


def make_connect(greeting_: bytes) -> bytes:
    """Encode the frame that opens a connection."""
    body = bytes(ZAP_VERSION) + SIGNATURE + _LENGTH.pack(len(greeting_)) + greeting_
    return _FRAME.pack(CONNECT, 0, _FRAME.size + len(body), 1, 0) + body


def parse_connect(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Parse CONNECT: (zap version, greeting); BadFrame."""
    if len(payload) < 16 or payload[4:12] != SIGNATURE:
        raise BadFrame("a connection that is not of LDMS' transport sock")
    return tuple(payload[:4]), extract_data(payload[12:])


def make_greeting(auth: str, rail: int | None = None,
                  version: tuple[int, ...] = LDMS_VERSION) -> bytes:
    """
    Encode a greeting.

    `auth`: none, ovis, munge; `rail`: in 4.5 and newer a 64-bit number, unique for each connection,
    because connections with the same number are treated as one.
    """
    first = _GREETING.pack(*version, auth.encode())
    return first if rail is None else first + _RAIL.pack(1, -1, -1, 1, 0, rail >> 33, rail, 0)


def parse_greeting(data: bytes) -> tuple[tuple[int, ...], str, bool]:
    """Parse a greeting: (LDMS version, authentication, True for 4.5 and newer); BadFrame."""
    if len(data) < 4:
        raise BadFrame("a greeting without its version")
    name = data[4:20].split(b"\0")[0].decode("ascii", "replace")
    has_rail = len(data) >= _GREETING.size + _RAIL.size
    return tuple(data[:4]), name, has_rail


def make_request(command: int, data: bytes, xid: int = 0) -> bytes:
    """Encode a frame with a SEND or an AUTH."""
    body = _LENGTH.pack(len(data)) + data
    return make_frame(SENDRECV, _REQUEST.pack(xid, command, _REQUEST.size + len(body)) + body)


def make_directory_request(xid: int) -> bytes:
    """Encode a frame that requests all sets, once."""
    return make_frame(SENDRECV, _REQUEST.pack(xid, DIRECTORY, _REQUEST.size + 4) + _LENGTH.pack(0))


def make_directory_reply(xid: int, text: bytes, more: bool, errno: int = 0) -> bytes:
    """Encode a frame with a part of the directory."""
    return make_frame(SENDRECV, _REPLY.pack(xid, DIRECTORY_REPLY,
                                            _REPLY.size + _DIRECTORY.size + len(text), errno)
                      + _DIRECTORY.pack(0, more, len(text)) + text)


def parse_message(data: bytes) -> tuple[int, int, bytes]:
    """Parse the data of SENDRECV: (xid, command, body); BadFrame."""
    if len(data) < _REQUEST.size:
        raise BadFrame(f"a message of {len(data)} bytes")
    xid, command, _length = unpack_integers(_REQUEST, data)
    return xid, command, data[_REQUEST.size:]


def parse_directory_reply(body: bytes) -> tuple[int, bool, bytes]:
    """Parse the body of a DIRECTORY_REPLY: (errno, more parts follow, JSON); BadFrame."""
    if len(body) < 4 + _DIRECTORY.size:
        raise BadFrame("a part of a directory without its beginning")
    [errno] = unpack_integers(_LENGTH, body)
    _type, more, _length = unpack_integers(_DIRECTORY, body, 4)
    return errno, bool(more), body[4 + _DIRECTORY.size:]


def make_records(kind: int, number: int, code: int,
                 attributes: list[tuple[int, str | None]]) -> list[bytes]:
    """Encode a message as records that each fit a SEND; `code`: the verb's number, or errno."""
    parts = []
    for attribute, value in attributes:
        text = b"" if value is None else value.encode("utf-8", "surrogateescape") + b"\0"
        parts += [_ATTRIBUTE.pack(1, attribute, len(text)), text]
    body = b"".join(parts) + _LENGTH.pack(0)
    result = []
    for at in range(0, len(body), _CUT):
        part = body[at:at + _CUT]
        flags = (0 if at else FIRST) | (LAST if at + _CUT >= len(body) else 0)
        result.append(_RECORD.pack(_MARKER, kind, flags, number, code & 0xffffffff,
                                   _RECORD.size + len(part)) + part)
    return result


def parse_record(data: bytes) -> tuple[int, int, int, int, bytes]:
    """Parse a record: (kind, flags, number, code, part of the attributes); BadFrame."""
    if len(data) < _RECORD.size:
        raise BadFrame(f"a record of {len(data)} bytes")
    marker, kind, flags, number, code, length = unpack_integers(_RECORD_READ, data)
    if marker != _MARKER or not _RECORD.size <= length <= len(data):
        raise BadFrame(f"expected a record of ldmsd, got {data[:24]!r}")
    return kind, flags, number, code, data[_RECORD.size:length]


def parse_attributes(body: bytes) -> list[tuple[int, str | None]]:
    """Parse the attributes of a message: [(number, text; None for a keyword)]; BadFrame."""
    result, at = [], 0
    while len(body) - at >= 4 and unpack_integers(_LENGTH, body, at)[0]:
        if len(body) - at < _ATTRIBUTE.size:
            raise BadFrame("an attribute without its beginning")
        _one, number, length = unpack_integers(_ATTRIBUTE, body, at)
        at += _ATTRIBUTE.size
        if length > len(body) - at:
            raise BadFrame(f"an attribute of {length} bytes, of which {len(body) - at} are there")
        text = body[at:at + length].rstrip(b"\0").decode("utf-8", "replace") if length else None
        result.append((number, text))
        if len(result) > _MOST_ATTRIBUTES:
            raise BadFrame(f"more than {_MOST_ATTRIBUTES} attributes")
        at += length
    return result
