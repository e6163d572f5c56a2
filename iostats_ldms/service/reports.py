"""
Reports of the service: events, and the status of the daemons; plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iostats_ldms.control.observed import ObservedState

# Kinds of events.
DOWN = "down"                       # a daemon stopped answering
HUNG = "hung"                       # it is connected, but does not answer in time
BACK = "back"                       # it answers again
RESTARTED = "restarted"             # its process was replaced; it is configured again
MOVED = "moved"                     # producers moved to other aggregators
DESCRIBED = "described"             # a description became valid
REFUSED = "refused"                 # a daemon refused a command
FOREIGN = "foreign"                 # an object outside the description is running
CORRECTED = "corrected"             # a change by hand was reverted
KINDS = (DOWN, HUNG, BACK, RESTARTED, MOVED, DESCRIBED, REFUSED, FOREIGN, CORRECTED)

STALE_SETS = "are stale"


@dataclass(frozen=True)
class ServiceEvent:
    """An event of the service."""
    kind: str       # one of KINDS
    group: str      # of aggregators or samplers; "" for the whole service
    daemon: str     # "" for an event of a group
    text: str       # one line, safe for a terminal
    time: float     # seconds since 1970 by this host's clock
    count: int = 1  # number of producers moved or commands refused; else 1


@dataclass(frozen=True)
class DaemonStatus:
    """The status of a daemon."""
    name: str
    group: str
    role: str                           # "aggregator" or "sampler"
    state: str                          # "up", "down", "hung", or "unknown" before the first query
    since: float                        # when it entered that state, seconds since 1970
    why: str = ""                       # one line if it is not up, else ""
    restarts: int = 0                   # number of restarts observed
    as_described: bool = False          # it is in the desired state
    # differences from the desired state, one line each, at most 5; also producers stopped or stale
    # because an aggregator does not answer, which do not count as differences
    wrong: tuple[str, ...] = ()
    # number of producers placed on it, and how many of them are connected; None if unknown or not
    # an aggregator
    producers: int | None = None
    connected: int | None = None
    # number of metric sets, without stale ones of an aggregator below that does not answer; None if
    # unknown
    sets: int | None = None
    # relative to its fair share by weight (1.0 is fair); None if it has none
    load: float | None = None
    config_counter: int | None = None   # as last observed; None if never observed
    has_ended: bool = False             # its process is known to have ended
    read_at: float = 0.0                # when its numbers were read, seconds since 1970


@dataclass(frozen=True)
class ServiceStatus:
    """The status of the service."""
    revision: int | None                    # of the description in force; None without one
    daemons: tuple[DaemonStatus, ...] = ()  # of our groups, in the description's order


def describe_unreachable(silent: Mapping[str, str], observed: ObservedState) -> list[str]:
    """
    Describe each producer that is stopped or stale because its aggregator does not answer.

    `silent`: {producer: aggregator that does not answer}.
    """
    result = []
    for producer, name in sorted(silent.items()):
        status = observed.producers.get(producer)
        if status is None:
            continue
        if not status.is_started:
            result.append(f"producer {producer} is stopped while {name} does not answer")
        elif status.sets:
            result.append(f"{name} does not answer: its {len(status.sets)} sets {STALE_SETS}")
    return result
