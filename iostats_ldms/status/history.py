"""
Changes of a group of daemons -> events: outages, restarts, moves, refused commands.

An outage is one event, completed when it is over by whichever instance observes that: the group's
last status in etcd has the ids of its events.  An outage of many samplers at once is one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iostats.events import kinds
from iostats.events.event import Event, make_event
from iostats_ldms.service import reports
from iostats_ldms.service.reports import DaemonStatus, ServiceEvent
from iostats_ldms.status.document import (
    AGGREGATOR,
    DOWN,
    HUNG,
    MOST_EVENTS,
    UNKNOWN,
    UP,
    DaemonRow,
    GroupStatus,
    make_row,
    select_rows,
)

MOST_ALONE = 20                 # simultaneous outages of samplers with an event each
KIND_OF = {reports.RESTARTED: kinds.LDMSD_RESTARTED, reports.MOVED: kinds.PRODUCERS_MOVED,
           reports.DESCRIBED: kinds.DESCRIPTION_VALID, reports.REFUSED: kinds.COMMAND_REFUSED,
           reports.FOREIGN: kinds.NOT_DESCRIBED, reports.CORRECTED: kinds.CORRECTED}


class GroupHistory:
    """
    The history of a group since this instance owns it.

    `who`: the machine named in events; `before`: the last status in etcd, or None.
    """

    def __init__(self, node: str, instance: str, group: str, role: str, level: int,
                 before: GroupStatus | None) -> None:
        self._node, self._instance = node, instance
        self._group, self._role, self._level = group, role, level
        self._rows = {row.name: row for row in before.rows} if before else {}
        self._is_partly_known = before is not None and before.unlisted > 0
        # Outages that are not over: {daemon: Event, or None if one event covers many}.
        by_id = {event.id: event for event in before.events} if before else {}
        self._outages: dict[str, Event | None] = {
            row.name: by_id.get(row.event) for row in self._rows.values()
            if row.state in (DOWN, HUNG)}
        self._events = list(by_id.values())
        # States that began under the previous owner: {daemon: (our since, the real since)}.
        self._since: dict[str, tuple[float, float]] = {}
        self._restarts = {row.name: row.restarts for row in self._rows.values() if row.restarts}
        # Processes known to the last owner, until we observe them: {daemon: (counter, has ended)}.
        self._processes: dict[str, tuple[int, bool]] = {
            row.name: (row.counter, row.has_ended) for row in self._rows.values()
            if row.counter is not None}
        # Restarts that the service counted before we owned the group.
        self._counted: dict[str, int] | None = None if before else {}

    def status(self, revision: int | None, daemons: Sequence[DaemonStatus],
               happenings: Iterable[ServiceEvent], now: float) -> GroupStatus:
        """
        The group now; `happenings`: those since the last call.

        Its `events` are all that are stored, so that unsent events are sent again.
        """
        if self._counted is None:
            self._counted = {item.name: item.restarts for item in daemons if item.restarts}
        outages: list[tuple[DaemonStatus | None, str, float, str]] = []
        states = {item.name: item for item in daemons}
        for item in happenings:
            state = states.get(item.daemon)
            if item.kind in (reports.DOWN, reports.HUNG):
                if state is not None and item.daemon not in self._outages:
                    if not self._is_partly_known:   # else it may have been reported
                        outages.append((state, item.daemon, item.time, item.text))
                    self._outages[item.daemon] = None
            elif item.kind == reports.BACK:
                if item.daemon in {name for _, name, _, _ in outages}:
                    self._report_outages(outages)           # a short outage between two reports
                    outages = []
                self._close_outage(item.daemon, item.time)
            elif item.kind in KIND_OF:
                self._add_event(KIND_OF[item.kind], item.daemon, item.time, item.text, item.count)
        for state in daemons:
            self._detect_restart(state)
            if state.state in (DOWN, HUNG) and state.name not in self._outages:
                self._outages[state.name] = None
                if not self._is_partly_known:
                    outages.append((state, state.name, state.since, state.why))
            elif state.state == UP:
                self._close_outage(state.name, state.since)
        for name in [name for name in self._outages if name not in states]:
            self._close_outage(name, now)
        if not any(state.state == UNKNOWN for state in daemons):
            self._is_partly_known = False
        self._report_outages(outages)
        shown = [item for item in daemons if not self._is_well(item)]
        rows, well, unlisted = select_rows((self._make_row(item) for item in shown), self._role)
        well += len(daemons) - len(shown)
        self._drop_oldest_events()
        read_at = min((item.read_at for item in daemons if item.state == UP), default=0.0)
        return GroupStatus(self._group, self._role, self._level, revision, round(now, 3),
                           self._instance, rows, well, unlisted, tuple(self._events),
                           round(read_at, 3))

    def _is_well(self, state: DaemonStatus) -> bool:
        """True for a sampler that needs no row and no memory: most of them on a large site."""
        return (self._role != AGGREGATOR and state.state == UP and state.as_described
                and state.name not in self._rows and state.name not in self._since)

    def _detect_restart(self, state: DaemonStatus) -> None:
        """Report a restart from before our service observed the daemon."""
        process = self._processes.get(state.name)
        if process is None:
            return
        counter, has_ended = process
        if state.state != UP or state.config_counter is None:
            self._processes[state.name] = counter, has_ended or state.has_ended
            return
        del self._processes[state.name]
        is_counted = state.restarts > (self._counted or {}).get(state.name, 0)
        if (has_ended or state.config_counter < counter) and not is_counted:
            self._restarts[state.name] = self._restarts.get(state.name, 0) + 1
            self._add_event(kinds.LDMSD_RESTARTED, state.name, state.since,
                            f"{state.name} was restarted")

    def _make_row(self, state: DaemonStatus) -> DaemonRow:
        before = self._rows.pop(state.name, None) if state.state != UNKNOWN else None
        if before is not None and before.state == state.state:
            self._since[state.name] = (state.since, min(before.since, state.since))
        since, real = self._since.get(state.name, (state.since, state.since))
        if since != state.since:                    # its state changed in between
            del self._since[state.name]
            real = state.since
        event, counted = self._outages.get(state.name), self._counted or {}
        restarts = (self._restarts.get(state.name, 0)
                    + max(0, state.restarts - counted.get(state.name, 0)))
        counter, has_ended = self._processes.get(
            state.name, (state.config_counter, state.has_ended))
        return make_row(state, round(real, 3), restarts, event.id if event else "", counter,
                        has_ended)

    def _drop_oldest_events(self) -> None:
        """Drop the oldest events that are over."""
        is_open = {event.id for event in self._outages.values() if event is not None}
        over = [event.id for event in self._events if event.id not in is_open]
        expired = set(over[:max(0, len(self._events) - MOST_EVENTS)])
        self._events = [event for event in self._events if event.id not in expired][-MOST_EVENTS:]

    def _close_outage(self, daemon: str, time: float) -> None:
        event = self._outages.pop(daemon, None)
        if event is not None:
            over = event._replace(over=max(event.time, time), last=max(event.last, time))
            self._events = [item for item in self._events if item.id != event.id] + [over]

    def _report_outages(self,
                        outages: Sequence[tuple[DaemonStatus | None, str, float, str]]) -> None:
        kind = kinds.AGGREGATOR_DOWN if self._role == AGGREGATOR else kinds.SAMPLER_DOWN
        if self._role == AGGREGATOR or len(outages) <= MOST_ALONE:
            for _, name, time, why in outages:
                self._outages[name] = self._add_event(kind, name, time, why)
        elif outages:
            names = [name for _, name, _, _ in outages]
            shown = ", ".join(names[:5])
            self._add_event(kind, "\n".join(names), min(time for _, _, time, _ in outages),
                            f"{shown} and {len(names) - 5:,} more: {outages[0][3]}", len(names))

    def _add_event(self, kind: str, daemon: str, time: float, text: str, count: int = 1) -> Event:
        item = "" if "\n" in daemon or not daemon or daemon in text else f"{daemon}: "
        event = make_event("", self._node, ("ldms", self._group, kind, daemon, repr(time), text),
                           kind,
                           time, count=max(1, count), message=f"{item}{text}")
        if event.id not in {event_before.id for event_before in self._events}:
            self._events.append(event)
        return event
