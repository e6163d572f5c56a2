"""
recovery_status: a target that waits for its clients after a start, and how that ended.

    INACTIVE, COMPLETE -> RECOVERING, WAITING ...   recovery
    -> COMPLETE, INACTIVE                           the same event with its end, and how many
                                                    clients came back

A recovery that began and ended between two looks is told with its end.  What was over at the first
look is no news.

    state = {"seen": {target: [instance, starts that were seen]},
             "open": {target: [since, origin]} of those under way,
             "gone": {target that is not here: starts that were seen}}
"""

from __future__ import annotations

from iostats.events.event import made
from iostats.events.server_reading import MOST_TARGETS, file_system_of, reading
from iostats.events.sources import Found
from iostats.lustre.kernel_log import RECOVERY
from iostats.lustre.recovery_status import COMPLETE, RECOVERING, UNDER_WAY, WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.lustre.recovery_status import RecoveryStatus

NAME, ROLES = "recovery", ("server",)


def look(place: Place, before: Any, now: float) -> Found:
    """Found: recovery; its status is empty: targets.py has it."""
    return found_in(reading(place.root, now), place, before, now)


def found_in(seen: ServerReading, place: Place, before: Any, now: float) -> Found:
    """The same, of a ServerReading."""
    if seen.targets is None:
        return Found([], before, {})
    is_first, before = before is None, before or {"seen": {}, "open": {}}
    known: dict[str, list[Any]] = {}
    gone: dict[str, int] = {**before.get("gone", {}), **{
        name: starts for name, (_, starts) in before["seen"].items()}}
    is_open: dict[str, list[Any]] = dict(before["open"])
    events: list[Event] = []

    def tell(target: str, began: list[Any], text: str, over: float | None = None) -> None:
        since, origin = began
        events.append(made(place.boot_id, place.node, (NAME, target, origin), RECOVERY, since,
                           over=over, last=over, file_system=file_system_of(target), target=target,
                           message=f"{target}: {text}"))
    for name, target in seen.targets.items():
        status = target.recovery
        instance, starts = before["seen"].get(name) or ("", gone.get(name, 0))
        if status is None:
            if name in before["seen"]:
                known[name] = before["seen"][name]
            continue
        is_new = name not in before["seen"] or bool(target.instance
                                                    and instance != target.instance)
        starts += is_new
        known[name] = [target.instance, starts]
        if is_new and name in is_open:
            tell(name, is_open.pop(name), "was started again before its clients had come back",
                 now)
        # Without an instance, what tells two starts apart is how many were seen.
        origin = target.instance or f"start {place.series}{starts}"
        if status.status in UNDER_WAY:
            if name not in is_open:
                is_open[name] = [min(now, float(status.started_s or now)), origin]
                tell(name, is_open[name], _under_way(status))
        elif name in is_open:
            began = is_open.pop(name)
            tell(name, began, _how_it_ended(status), _end(status, began[0], now))
        elif (is_new and not is_first and status.status == COMPLETE and status.started_s
              and status.took_s is not None):
            since = min(now, float(status.started_s))
            tell(name, [since, origin], _how_it_ended(status), _end(status, since, now))
    for name in [name for name in is_open if name not in seen.targets]:
        tell(name, is_open.pop(name), "was stopped before its clients had come back", now)
    gone = {name: starts for name, starts in gone.items() if name not in known}
    return Found(events, {"seen": known, "open": is_open,
                          "gone": dict(list(gone.items())[:MOST_TARGETS])}, {})


def _under_way(status: RecoveryStatus) -> str:
    if status.status == RECOVERING and status.of is not None:
        return (f"waits for its clients: {status.clients} of {status.of} have come"
                + (f", {status.left_s} s left" if status.left_s is not None else ""))
    return ("waits for other MDTs before it recovers" if status.status == WAITING else
            "waits for its clients: none has come yet")


def _how_it_ended(status: RecoveryStatus) -> str:
    if status.of is None or status.status != COMPLETE:
        return "recovery is over"
    took = f" in {status.took_s} s" if status.took_s is not None else ""
    lost = (f"; {status.evicted} did not, and {'was' if status.evicted == 1 else 'were'} evicted"
            if status.evicted else "")
    return f"recovered{took}: {status.clients} of {status.of} clients came back{lost}"


def _end(status: RecoveryStatus, since: float, now: float) -> float:
    """When it was over: by the storage server where it says so, else by now."""
    if status.status == COMPLETE and status.took_s is not None and status.started_s:
        return max(since, min(now, float(status.started_s + status.took_s)))
    return now
