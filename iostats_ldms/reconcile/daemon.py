"""
The observed state of a daemon, and the commands applied to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from iostats.base.errors import UsageError
from iostats_ldms.control.observed import ObservedState
from iostats_ldms.description.model import LdmsDaemon
from iostats_ldms.statements.dialect import (
    DEFAULT_RELEASE,
    DIALECTS,
    Dialect,
    Statement,
    get_dialect,
)

ENOENT, EBUSY, EEXIST, EINVAL = 2, 16, 17, 22
# Errors that mean that the effect is in place already.
_ALREADY = {"load": (EEXIST,), "start": (EBUSY,), "stop": (EINVAL,), "prdcr_add": (EEXIST,),
            "prdcr_start": (EBUSY,), "prdcr_stop": (ENOENT,), "prdcr_del": (ENOENT,),
            "auth_add": (EEXIST,), "listen": (EEXIST,), "advertiser_start": (EBUSY,),
            "updtr_start": (EBUSY,), "updtr_stop": (ENOENT,), "updtr_del": (ENOENT,),
            "strgp_stop": (ENOENT, EBUSY), "strgp_del": (ENOENT,), "strgp_start": (EBUSY,),
            "prdcr_listen_stop": (ENOENT,), "prdcr_listen_del": (ENOENT,),
            "prdcr_listen_start": (EBUSY,), "prdcr_unsubscribe": (ENOENT,), "term": (ENOENT,)}


class PlannedCommand(NamedTuple):
    """A command and its reason."""

    statement: Statement
    why: str
    covers: frozenset[str] = frozenset()    # the producers a subscription was sent for
    # only the answer tells whether it was in effect already, as it usually is
    is_probe: bool = False


@dataclass
class AppliedCommands:
    """The commands a daemon accepted since its start, as far as no query reports their effect."""
    once: set[Statement] = field(default_factory=set)   # statements that need no repetition
    loaded: set[str] = field(default_factory=set)       # plugins that a command loaded
    # {plugin: its config statements}
    configs: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    # {plugin: config statements refused since it was loaded}
    unaccepted: dict[str, frozenset[Statement]] = field(default_factory=dict)
    # {plugin: (interval, offset)}
    started: dict[str, tuple[int, int]] = field(default_factory=dict)
    # {prdcr_subscribe: the producers existing then}
    subscribed: dict[Statement, frozenset[str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)         # producers it refused to delete

    def record(self, command: PlannedCommand, errno: int) -> bool:
        """Record the answer to a command; True if its effect is in place."""
        statement: Statement = command.statement
        if statement.verb == "prdcr_del" and errno == EBUSY:
            self.kept.add(dict(statement.attributes)["name"] or "")
        attributes = dict(statement.attributes)
        name = attributes.get("name") or ""
        if errno and errno not in _ALREADY.get(statement.verb, ()):
            if statement.verb == "config":
                self.unaccepted[name] = self.unaccepted.get(name, frozenset()) | {statement}
            return False
        if statement.verb == "load":
            self.configs.pop(name, None)
            self.started.pop(name, None)
            self.unaccepted.pop(name, None)
            self.loaded.add(name)
        elif statement.verb == "config":
            self.configs[name] = (*self.configs.get(name, ()), statement)
            self.unaccepted[name] = self.unaccepted.get(name, frozenset()) - {statement}
            self.started.pop(name, None)        # sets created after a start have no hint
        elif statement.verb == "start":
            self.started[name] = (int(attributes.get("interval") or 0),
                                  int(attributes.get("offset") or 0))
        elif statement.verb in ("stop", "term"):
            self.started.pop(name, None)
        elif statement.verb == "prdcr_subscribe":
            self.subscribed[statement] = command.covers
        elif statement.verb == "prdcr_unsubscribe":
            self.subscribed = {key: covers for key, covers in self.subscribed.items()
                               if get_stream(key) != get_stream(statement)}
            self.once.add(statement)
        elif statement.verb in ("auth_add", "listen", "stream_enable", "msg_enable"):
            self.once.add(statement)
        return True


def get_stream(statement: Statement) -> tuple[str, str, str]:
    """Return (stream or message_tag, name, producers) of a subscription."""
    attributes = dict(statement.attributes)
    kind = "stream" if "stream" in attributes else "message_tag"
    return kind, attributes.get(kind) or "", attributes.get("regex") or ""


UNKNOWN, UP, DOWN, HUNG = "unknown", "up", "down", "hung"


@dataclass
class DaemonState:
    """A daemon as last observed."""
    daemon: LdmsDaemon
    state: str = UNKNOWN
    since: float = 0.0                      # when it entered its state
    why: str = ""                           # one line if it is not up
    observed: ObservedState | None = None
    read_at: float = 0.0                    # when it was last read, seconds since 1970
    applied: AppliedCommands = field(default_factory=AppliedCommands)
    restarts: int = 0
    # it runs but rejects our commands (authentication, version, errors), so it keeps collecting
    is_uncontrollable: bool = False
    # no packet comes from its host, or it hangs: its other connections may be intact
    is_unreachable: bool = False
    started: frozenset[str] = frozenset()   # producers it collects from; () if it is not up
    # producers it collected from when last observed; None if it never was
    had: frozenset[str] | None = None
    # {set: bytes per second}; {} if never observed
    weights: dict[str, float] = field(default_factory=dict)
    named_release: str = ""                 # ldms_release of the description, or ""

    @property
    def is_up(self) -> bool:
        """True if it answers."""
        return self.state == UP

    def mark_lost(self, state: str, why: str, now: float, is_uncontrollable: bool,
                  is_unreachable: bool) -> bool:
        """Record that it does not answer, see Fleet.mark_lost; True if its state changed."""
        was = self.state, self.is_uncontrollable
        if was != (state, is_uncontrollable):
            self.state, self.since, self.is_uncontrollable = state, now, is_uncontrollable
        self.why, self.started = why, frozenset()
        self.is_unreachable = is_unreachable or state == HUNG
        return was != (state, is_uncontrollable)

    @property
    def has_ended(self) -> bool:
        """True if its process has ended: its host answers, and nothing listens there."""
        return self.state == DOWN and not self.is_uncontrollable and not self.is_unreachable

    def may_be_restarted(self, observed: ObservedState) -> bool:
        """True if its host was unreachable and its counter changed: it may be a new process."""
        return (self.state == DOWN and self.is_unreachable and self.observed is not None
                and observed.config_counter != self.observed.config_counter)

    def drop(self) -> None:
        """Forget its state: it is not queried any more."""
        self.state, self.observed, self.started = UNKNOWN, None, frozenset()
        self.is_unreachable, self.had, self.applied = False, None, AppliedCommands()

    @property
    def dialect(self) -> Dialect:
        """The dialect of the release it reports, or else of the description's ldms_release."""
        return (self._reported or (get_dialect(self.named_release) if self.named_release else
                                   DIALECTS[DEFAULT_RELEASE]))

    @property
    def _reported(self) -> Dialect | None:
        """The dialect of its release; None for "UNKNOWN", of an ldmsd built without git."""
        try:
            return get_dialect(self.observed.release) if self.observed else None
        except UsageError:
            return None

    @property
    def release_hint(self) -> str:
        """A hint for a refused command that its release is only assumed, or ""."""
        if self.observed is None or self._reported or self.named_release:
            return ""
        return (f"; it reports no release ({self.observed.release}) and is assumed to be LDMS "
                f"{DEFAULT_RELEASE}: set ldms_release in the description")


def list_advertised(observed: ObservedState) -> frozenset[str]:
    """List the producers that advertised themselves to its listeners."""
    return frozenset(name for listen in observed.listens.values() for name in listen.producers
                     if name in observed.producers)
