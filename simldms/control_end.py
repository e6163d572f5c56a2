"""
ldmsd's end of a control connection without I/O: bytes in, events out; the client's end is
iostats_ldms/control/protocol.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from iostats_ldms.control import encoding, frames
from iostats_ldms.control.errors import AuthenticationFailed
from iostats_ldms.control.protocol import Authentication, ProtocolEnd
from iostats_ldms.statements.dialect import Statement


@dataclass(frozen=True)
class CommandReceived:
    """A command to answer with `answer(number, ...)`."""
    number: int
    statement: Statement


@dataclass(frozen=True)
class DirectoryRequested:
    """A request to answer with `directory(number, ...)`."""
    number: int


class ServerProtocol(ProtocolEnd):
    """
    The end that answers.

    `rail`: new for each connection; `version`: of LDMS' protocol, which the client's must equal.
    """

    __slots__ = ("_own", "_version", "_greeted", "is_rejected")

    def __init__(self, auth: Authentication, dialect: str = "4.5", *, challenge: int = 0,
                 rail: int = 1, version: tuple[int, ...] = frames.LDMS_VERSION) -> None:
        super().__init__(auth, "", challenge)
        self.dialect, self._version = dialect, version
        self._own = frames.make_greeting(auth.plugin, rail if dialect == "4.5" else None, version)
        self._greeted = ""                            # then "accepted", then "acknowledged"
        self.is_rejected = False                      # close the connection

    def answer(self, number: int, errno: int, text: str = "") -> None:
        """Queue the answer to CommandReceived; a status (JSON) has its own kind of attribute."""
        kind = encoding.JSON if text[:1] in ("[", "{") else encoding.STRING
        self._send_records(frames.RESPONSE, number, errno, [(kind, text)] if text else [])

    def directory(self, number: int, texts: list[str]) -> None:
        """Queue the answer to DirectoryRequested: one or more parts, each JSON."""
        for n, text in enumerate(texts, 1):
            self._out.append(frames.make_directory_reply(number, text.encode(), n < len(texts)))

    def _handle_frame(self, kind: int, payload: bytes) -> list:
        if kind == frames.CONNECT and not self._greeted:
            zap, greeting = frames.parse_connect(payload)
            version, auth, _rail = frames.parse_greeting(greeting)
            why = ("Version mismatch" if version != self._version or zap != frames.ZAP_VERSION
                   else "Auth mismatch" if auth != self.auth.plugin else "")
            if why:
                self._out.append(frames.make_frame(frames.REJECTED, why.encode() + b"\0"))
                self.is_rejected = True
                return []
            self._out.append(frames.make_frame(frames.ACCEPTED, self._own))
            self._greeted = "accepted"
            return []
        if kind == frames.ACK_ACCEPTED and self._greeted == "accepted":
            self._greeted = "acknowledged"
            return self._start_authentication()
        if kind != frames.SENDRECV or self._greeted != "acknowledged":
            raise frames.BadFrame(f"a frame of type {kind} where it cannot be")
        xid, command, body = frames.parse_message(frames.extract_data(payload))
        if command == frames.AUTH:
            return self._authenticate(body)
        if not self.is_established:
            raise AuthenticationFailed(self.where, "a client that did not authenticate itself")
        if command == frames.DIRECTORY:
            return [DirectoryRequested(xid)]
        if command == frames.SEND:
            asked = self._complete_message(body, frames.COMMAND)
            if asked is not None:
                number, verb, attributes = asked
                return [CommandReceived(number, encoding.decode_statement(
                    verb, frames.parse_attributes(attributes), self.dialect))]
        return []
