"""
A daemon as it was heard of last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iostats.base.errors import UsageError
from iostats.ldms.reconcile.memory import Memory
from iostats.ldms.statements.dialect import DEFAULT_RELEASE, DIALECTS, of_release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.control.observed import Observed
    from iostats.ldms.description.normal import LdmsDaemon
    from iostats.ldms.statements.dialect import Dialect

UNKNOWN, UP, DOWN, HUNG = "unknown", "up", "down", "hung"


@dataclass
class Heard:
    """
    What was heard of a daemon.

    Attributes:
        since: when it came to its state.
        why: one line where it is not up.
        is_alone: it runs, and does not let us in: it keeps what it has.
        is_silent: nothing comes from it, its host included: its connections may still stand.
        started: the producers that it collects from; () where it is not up.
        had: those that it collected from when it was last seen; None where it never was.
        weights: {set: bytes a second}; {} where they were never seen.
        named_release: ldms_release of the description; "" if it has none.
    """
    daemon: LdmsDaemon
    state: str = UNKNOWN
    since: float = 0.0
    why: str = ""
    observed: Observed | None = None
    memory: Memory = field(default_factory=Memory)
    restarts: int = 0
    is_alone: bool = False
    is_silent: bool = False
    started: frozenset[str] = frozenset()
    had: frozenset[str] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    named_release: str = ""

    @property
    def is_up(self) -> bool:
        return self.state == UP

    def lost(self, state: str, why: str, now: float, is_alone: bool, is_silent: bool) -> bool:
        """It does not answer, as Fleet.lost has it; whether it was otherwise before."""
        was = self.state, self.is_alone
        if was != (state, is_alone):
            self.state, self.since, self.is_alone = state, now, is_alone
        self.why, self.started, self.is_silent = why, frozenset(), is_silent or state == HUNG
        return was != (state, is_alone)

    @property
    def has_ended(self) -> bool:
        """Its process is known to have ended: its host answers, and nothing listens there."""
        return self.state == DOWN and not self.is_alone and not self.is_silent

    def may_be_another(self, observed: Observed) -> bool:
        """Its host was away, which may have been started again with a longer file."""
        return (self.state == DOWN and self.is_silent and self.observed is not None
                and observed.config_counter != self.observed.config_counter)

    def forget(self) -> None:
        """It is not asked any more."""
        self.state, self.observed, self.started = UNKNOWN, None, frozenset()
        self.is_silent, self.had, self.memory = False, None, Memory()

    @property
    def dialect(self) -> Dialect:
        """That of the release that it reports, or else of the one in the description."""
        return (self._reported or (of_release(self.named_release) if self.named_release else
                                 DIALECTS[DEFAULT_RELEASE]))

    @property
    def _reported(self) -> Dialect | None:
        """None for "UNKNOWN", which an ldmsd that was built without git reports."""
        try:
            return of_release(self.observed.release) if self.observed else None
        except UsageError:
            return None

    @property
    def release_hint(self) -> str:
        """A hint that its release is only assumed, for a command that it refused; else ""."""
        if self.observed is None or self._reported or self.named_release:
            return ""
        return (f"; it reports no release ({self.observed.release}) and is assumed to be LDMS "
                f"{DEFAULT_RELEASE}: set ldms_release in the description")


def advertised(observed: Observed) -> frozenset[str]:
    """The producers that came to it by themselves, by its listeners."""
    return frozenset(name for listen in observed.listens.values() for name in listen.producers
                     if name in observed.producers)
