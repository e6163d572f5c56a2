"""
recovery_status: a target that waits for its clients after a start, and how that ended.

    INACTIVE, COMPLETE -> RECOVERING, WAITING ...   recovery
    -> COMPLETE, INACTIVE                           the same event with its end, and how many
                                                    clients came back

A recovery that began and ended between two scans is reported with its end.  One that was over at
the first scan is not reported.

    state = {"seen": {target: [instance, starts that were seen]},
             "open": {target: [since, origin]} of those under way,
             "gone": {target that is not here: starts that were seen}}
"""

from __future__ import annotations

from iostats.events.event import make_event
from iostats.events.server_reading import MOST_TARGETS, get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.kernel_log import RECOVERY
from iostats.lustre.recovery_status import COMPLETE, RECOVERING, UNDER_WAY, WAITING
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.lustre.recovery_status import RecoveryStatus

    class State(TypedDict, total=False):
        seen: dict[str, tuple[str, int]]
        open: dict[str, tuple[float, str]]
        gone: dict[str, int]

NAME, ROLES = "recovery", ("server",)


def scan(place: Place, before: State | None, now: float) -> SourceResult:
    """Events of kind recovery; no status: targets.py has it."""
    return detect(get_server_reading(place, now), place, before, now)


def detect(reading: ServerReading, place: Place, before: State | None,
           now: float) -> SourceResult:
    """Recoveries in a ServerReading."""
    if reading.targets is None:
        return SourceResult([], before, {})
    is_first = before is None
    before = before or {"seen": {}, "open": {}}
    seen: dict[str, tuple[str, int]] = {}
    removed: dict[str, int] = {**before.get("gone", {}), **{
        name: starts for name, (_, starts) in before["seen"].items()}}
    is_open = dict(before["open"])
    events: list[Event] = []

    def add_event(target: str, began: tuple[float, str], text: str,
                  over: float | None = None) -> None:
        since, origin = began
        events.append(make_event(place.boot_id, place.node, (NAME, target, origin), RECOVERY, since,
                                 over=over, last=over, file_system=parse_file_system(target),
                                 target=target,
                                 message=f"{target}: {text}"))
    for name, target in reading.targets.items():
        status = target.recovery
        instance, starts = before["seen"].get(name) or ("", removed.get(name, 0))
        if status is None:
            if name in before["seen"]:
                seen[name] = before["seen"][name]
            continue
        is_new = name not in before["seen"] or bool(target.instance
                                                    and instance != target.instance)
        starts += is_new
        seen[name] = target.instance, starts
        if is_new and name in is_open:
            add_event(name, is_open.pop(name),
                      "was started again before its clients had reconnected", now)
        # Without an instance, what tells two starts apart is how many were seen.
        origin = target.instance or f"start {place.series}{starts}"
        if status.status in UNDER_WAY:
            if name not in is_open:
                is_open[name] = min(now, float(status.started_s or now)), origin
                add_event(name, is_open[name], _describe_progress(status))
        elif name in is_open:
            began = is_open.pop(name)
            add_event(name, began, _describe_end(status), _compute_end(status, began[0], now))
        elif (is_new and not is_first and status.status == COMPLETE and status.started_s
              and status.took_s is not None):
            since = min(now, float(status.started_s))
            add_event(name, (since, origin), _describe_end(status),
                      _compute_end(status, since, now))
    for name in [name for name in is_open if name not in reading.targets]:
        add_event(name, is_open.pop(name), "was stopped before its clients had reconnected", now)
    removed = {name: starts for name, starts in removed.items() if name not in seen}
    return SourceResult(events, {"seen": seen, "open": is_open,
                                 "gone": dict(list(removed.items())[:MOST_TARGETS])}, {})


def _describe_progress(status: RecoveryStatus) -> str:
    if status.status == RECOVERING and status.of is not None:
        return (f"waits for its clients: {status.clients} of {status.of} have reconnected"
                + (f", {status.left_s} s left" if status.left_s is not None else ""))
    return ("waits for other MDTs before it recovers" if status.status == WAITING else
            "waits for its clients: none has reconnected yet")


def _describe_end(status: RecoveryStatus) -> str:
    if status.of is None or status.status != COMPLETE:
        return "recovery is over"
    took = f" in {status.took_s} s" if status.took_s is not None else ""
    lost = (f"; {status.evicted} did not, and {'was' if status.evicted == 1 else 'were'} evicted"
            if status.evicted else "")
    return f"recovered{took}: {status.clients} of {status.of} clients reconnected{lost}"


def _compute_end(status: RecoveryStatus, since: float, now: float) -> float:
    """The end of a recovery: the storage server's time, if it has one, else now."""
    if status.status == COMPLETE and status.took_s is not None and status.started_s:
        return max(since, min(now, float(status.started_s + status.took_s)))
    return now
