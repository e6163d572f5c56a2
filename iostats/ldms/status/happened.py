"""
What went wrong with LDMS' daemons, or was over, as events: from what was so before, and is now.

An outage is one event, which grows when it is over, whichever instance sees that: what was known
of the group stands in etcd, ids of events included.  Many samplers that go at once are one event.
"""

from __future__ import annotations

from iostats.events import kinds
from iostats.events.event import made
from iostats.ldms.service import told
from iostats.ldms.status.document import (
    AGGREGATOR,
    DOWN,
    HUNG,
    MOST_EVENTS,
    UNKNOWN,
    UP,
    GroupStatus,
    listed,
    row_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.events.event import Event
    from iostats.ldms.service.told import DaemonState, Happening
    from iostats.ldms.status.document import DaemonRow

MOST_ALONE = 20                 # samplers that go at once with an event each
KIND_OF = {told.RESTARTED: kinds.LDMSD_RESTARTED, told.MOVED: kinds.PRODUCERS_MOVED,
           told.DESCRIBED: kinds.DESCRIPTION_VALID, told.REFUSED: kinds.COMMAND_REFUSED,
           told.FOREIGN: kinds.NOT_DESCRIBED, told.CORRECTED: kinds.CORRECTED}


class GroupHistory:
    """
    A group as an instance sees it, since the group is its own.

    `who`: the machine that tells its events; `before`: what etcd has of it, or None.
    """

    def __init__(self, who: str, instance: str, group: str, role: str, level: int,
                 before: GroupStatus | None) -> None:
        self._who, self._instance = who, instance
        self._group, self._role, self._level = group, role, level
        self._rows = {row.name: row for row in before.rows} if before else {}
        self._is_partly_known = before is not None and before.unlisted > 0
        # Events that are not over: {daemon: Event, or None: it is one of many}.
        by_id = {event.id: event for event in before.events} if before else {}
        self._open: dict[str, Event | None] = {
            row.name: by_id.get(row.event) for row in self._rows.values()
            if row.state in (DOWN, HUNG)}
        self._events = list(by_id.values())
        # What was so before us goes on: {daemon: (since as the service says, since as it is)}.
        self._since: dict[str, tuple[float, float]] = {}
        self._restarts = {row.name: row.restarts for row in self._rows.values() if row.restarts}
        # Processes that the last owner knew, until we hear of them: {daemon: (counter, has ended)}.
        self._processes: dict[str, tuple[int, bool]] = {
            row.name: (row.counter, row.has_ended) for row in self._rows.values()
            if row.counter is not None}
        # What the service had counted before, when the group was ours or another's, is in these.
        self._counted: dict[str, int] | None = None if before else {}

    def status(self, revision: int | None, daemons: Sequence[DaemonState],
               happenings: Iterable[Happening], now: float) -> GroupStatus:
        """
        The group now; `happenings`: those since the last call.

        Its `events` are all that are not forgotten yet, so that what was not told is told again.
        """
        if self._counted is None:
            self._counted = {one.name: one.restarts for one in daemons if one.restarts}
        came: list[tuple[DaemonState | None, str, float, str]] = []
        states = {one.name: one for one in daemons}
        for one in happenings:
            state = states.get(one.daemon)
            if one.kind in (told.DOWN, told.HUNG):
                if state is not None and one.daemon not in self._open:
                    if not self._is_partly_known:   # else it may have been told of
                        came.append((state, one.daemon, one.time, one.text))
                    self._open[one.daemon] = None
            elif one.kind == told.BACK:
                if one.daemon in {name for _, name, _, _ in came}:
                    self._tell_down(came)           # it was away for less than this look
                    came = []
                self._close(one.daemon, one.time)
            elif one.kind in KIND_OF:
                self._add(KIND_OF[one.kind], one.daemon, one.time, one.text, one.count)
        for state in daemons:
            self._compare(state)
            if state.state in (DOWN, HUNG) and state.name not in self._open:
                self._open[state.name] = None
                if not self._is_partly_known:
                    came.append((state, state.name, state.since, state.why))
            elif state.state == UP:
                self._close(state.name, state.since)
        for name in [name for name in self._open if name not in states]:
            self._close(name, now)
        if not any(state.state == UNKNOWN for state in daemons):
            self._is_partly_known = False
        self._tell_down(came)
        shown = [one for one in daemons if not self._is_well(one)]
        rows, well, unlisted = listed((self._row(one) for one in shown), self._role)
        well += len(daemons) - len(shown)
        self._forget()
        return GroupStatus(self._group, self._role, self._level, revision, round(now, 3),
                           self._instance, rows, well, unlisted, tuple(self._events))

    def _is_well(self, state: DaemonState) -> bool:
        """Whether it has no row, and nothing to be remembered: most samplers of a large site."""
        return (self._role != AGGREGATOR and state.state == UP and state.as_wanted
                and state.name not in self._rows and state.name not in self._since)

    def _compare(self, state: DaemonState) -> None:
        """A process that ended before our service heard of it, which counts those after it."""
        known = self._processes.get(state.name)
        if known is None:
            return
        counter, has_ended = known
        if state.state != UP or state.config_counter is None:
            self._processes[state.name] = counter, has_ended or state.has_ended
            return
        del self._processes[state.name]
        is_counted = state.restarts > (self._counted or {}).get(state.name, 0)
        if (has_ended or state.config_counter < counter) and not is_counted:
            self._restarts[state.name] = self._restarts.get(state.name, 0) + 1
            self._add(kinds.LDMSD_RESTARTED, state.name, state.since,
                      f"{state.name} is another process than before")

    def _row(self, state: DaemonState) -> DaemonRow:
        before = self._rows.pop(state.name, None) if state.state != UNKNOWN else None
        if before is not None and before.state == state.state:
            self._since[state.name] = (state.since, min(before.since, state.since))
        since, real = self._since.get(state.name, (state.since, state.since))
        if since != state.since:                    # it was otherwise meanwhile
            del self._since[state.name]
            real = state.since
        event, counted = self._open.get(state.name), self._counted or {}
        restarts = (self._restarts.get(state.name, 0)
                    + max(0, state.restarts - counted.get(state.name, 0)))
        counter, has_ended = self._processes.get(
            state.name, (state.config_counter, state.has_ended))
        return row_of(state, round(real, 3), restarts, event.id if event else "", counter,
                      has_ended)

    def _forget(self) -> None:
        """The oldest events that are over."""
        is_open = {event.id for event in self._open.values() if event is not None}
        over = [event.id for event in self._events if event.id not in is_open]
        gone = set(over[:max(0, len(self._events) - MOST_EVENTS)])
        self._events = [event for event in self._events if event.id not in gone][-MOST_EVENTS:]

    def _close(self, daemon: str, time: float) -> None:
        event = self._open.pop(daemon, None)
        if event is not None:
            over = event._replace(over=max(event.time, time), last=max(event.last, time))
            self._events = [one for one in self._events if one.id != event.id] + [over]

    def _tell_down(self, came: Sequence[tuple[DaemonState | None, str, float, str]]) -> None:
        kind = kinds.AGGREGATOR_DOWN if self._role == AGGREGATOR else kinds.SAMPLER_DOWN
        if self._role == AGGREGATOR or len(came) <= MOST_ALONE:
            for _, name, time, why in came:
                self._open[name] = self._add(kind, name, time, why)
        elif came:
            names = [name for _, name, _, _ in came]
            shown = ", ".join(names[:5])
            self._add(kind, "\n".join(names), min(time for _, _, time, _ in came),
                      f"{shown} and {len(names) - 5:,} more: {came[0][3]}", len(names))

    def _add(self, kind: str, daemon: str, time: float, text: str, count: int = 1) -> Event:
        one = "" if "\n" in daemon or not daemon or daemon in text else f"{daemon}: "
        event = made("", self._who, ("ldms", self._group, kind, daemon, repr(time), text), kind,
                     time, count=max(1, count), message=f"{one}{text}")
        if event.id not in {known.id for known in self._events}:
            self._events.append(event)
        return event
