"""
What the service tells of itself: what happened, and how all stands; values alone.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.ldms.control.observed import Observed

# Kinds of happenings.
DOWN = "down"                       # a daemon answers no longer
HUNG = "hung"                       # it is connected, and answers nothing within the timeout
BACK = "back"                       # it answers (again)
RESTARTED = "restarted"             # it is another process than before: all is told to it anew
MOVED = "moved"                     # producers run on another aggregator than before
DESCRIBED = "described"             # a description became valid
REFUSED = "refused"                 # a daemon refused a command
FOREIGN = "foreign"                 # something runs there that is not in the description
CORRECTED = "corrected"             # something was changed by hand, and is as described again
KINDS = (DOWN, HUNG, BACK, RESTARTED, MOVED, DESCRIBED, REFUSED, FOREIGN, CORRECTED)

STAND_STILL = "stand still"


@dataclass(frozen=True)
class Happening:
    """
    Attributes:
        kind: of KINDS.
        group: the aggregators' or samplers' group; "" for all of the service.
        daemon: "" where it is about a group.
        text: one line, fit for a terminal.
        time: of this host's clock, seconds since 1970.
        count: how many producers moved, commands were refused; 1 else.
    """
    kind: str
    group: str
    daemon: str
    text: str
    time: float
    count: int = 1


@dataclass(frozen=True)
class DaemonState:
    """
    A daemon as it stands.

    Attributes:
        role: "aggregator" or "sampler".
        state: "up", "down", "hung", or "unknown" before it was first asked.
        since: when it came to that state, seconds since 1970.
        why: one line where it is not up, "" else.
        restarts: how often it was seen to be another process than before.
        as_wanted: it has all that the description wants of it.
        wrong: what it has not, one line each; at most 5.
            What stands in for what does not answer is told here, too, and is as wanted.
        producers: how many are placed on it, how many of them are connected; None: no aggregator,
            or not known.
        sets: how many metric sets it has, without those that stand still because the aggregator
            below does not answer; None where it is not known.
        load: its part of the fair share by weight (1.0 is fair); None where it has none.
        config_counter: as it was last heard; None where it never was.
        has_ended: its process is known to have ended.
    """
    name: str
    group: str
    role: str
    state: str
    since: float
    why: str = ""
    restarts: int = 0
    as_wanted: bool = False
    wrong: tuple[str, ...] = ()
    producers: int | None = None
    connected: int | None = None
    sets: int | None = None
    load: float | None = None
    config_counter: int | None = None
    has_ended: bool = False


@dataclass(frozen=True)
class ServiceState:
    """
    How all stands.

    Attributes:
        revision: of the description in force; None without one.
        daemons: of the groups that are ours, in the description's order.
    """
    revision: int | None
    daemons: tuple[DaemonState, ...] = ()


def of_silent(silent: Mapping[str, str], observed: Observed) -> list[str]:
    """
    A line for each producer of an aggregator that does not answer (`silent`: {producer:
    aggregator}), where it is stopped because of that, or where its sets stand still.
    """
    found = []
    for producer, name in sorted(silent.items()):
        seen = observed.producers.get(producer)
        if seen is None:
            continue
        if not seen.is_started:
            found.append(f"producer {producer} is stopped while {name} does not answer")
        elif seen.sets:
            found.append(f"{name} does not answer: its {len(seen.sets)} sets {STAND_STILL}")
    return found
