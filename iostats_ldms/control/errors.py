"""
Why a daemon cannot be controlled.  Each error is one line that begins with host and port.

    ControlError
      NotConnected           no connection: refused or lost
        Unreachable          its host is unreachable: no route, no such name, or a timeout
      NoAnswer               timeout: it hangs, or the network drops packets
      VersionMismatch        it speaks another version of the protocol
      AuthenticationFailed   one end rejects the other's authentication
      ProtocolError          unexpected data, or an answer in an unexpected format
        NotReady             still reading its configuration file
"""

from __future__ import annotations

from iostats.base.errors import IostatsError


class ControlError(IostatsError):
    """A daemon that cannot be controlled; its current state is unknown."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.where, self.text = where, text


class NotConnected(ControlError):
    """The connection was refused or lost."""


class Unreachable(NotConnected):
    """The host is unreachable; the daemon's existing connections may be intact."""


class NoAnswer(ControlError):
    """No answer in time; it is unknown whether a command was or will be executed."""


class VersionMismatch(ControlError):
    """The peer speaks another version of the protocol."""


class AuthenticationFailed(ControlError):
    """One end rejects the other's authentication."""


class ProtocolError(ControlError):
    """The peer sent data that is not LDMS' protocol, or not the expected answer."""


class NotReady(ProtocolError):
    """The daemon runs, and answers "Daemon busy." (16) until it has read its configuration file."""
