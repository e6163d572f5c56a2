"""
Why a daemon could not be asked: one class each, one line each, with its host and port before it.

    ControlError
      NotConnected     no connection: refused, or lost
        Unreachable    nothing comes from its host: no route, no such name, or nothing in time
      NoAnswer         it does not answer in time: hung, or a network that drops
      RefusedVersion   it speaks another version of the protocol
      RefusedAuth      it does not believe us, or we do not believe it
      Nonsense         what it sends is not of the protocol, or an answer not of its form
        NotReady       it takes no commands yet: it reads its configuration file
"""

from __future__ import annotations

from iostats.base.errors import IostatsError


class ControlError(IostatsError):
    """A daemon that cannot be asked or told; nothing is known of what it does now."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.where, self.text = where, text


class NotConnected(ControlError):
    """There is no connection to the daemon."""


class Unreachable(NotConnected):
    """Nothing comes from its host, so that connections which it has may still stand."""


class NoAnswer(ControlError):
    """No answer in time; whether a command was carried out, or will be, is unknown."""


class RefusedVersion(ControlError):
    """The other end speaks another version of the protocol."""


class RefusedAuth(ControlError):
    """One end does not accept the other's authentication."""


class Nonsense(ControlError):
    """What came is not LDMS' protocol, or not what was asked for."""


class NotReady(Nonsense):
    """It runs, and answers "Daemon busy." (16) to each command until its file is read."""
