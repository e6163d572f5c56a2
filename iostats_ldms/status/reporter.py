"""
The reporter: writes the status of our groups to etcd, and has events sent and counted.

It runs each second and after events, in a thread, since etcd may block.  A group's status is
written if it changed, and each WRITE_EVERY_S, in a transaction that fails if the group is not ours;
a large status is written less often, since etcd keeps each version until it is compacted.  Events
are sent after they are in etcd: if an instance dies in between, the group's next owner sends them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from iostats.base.errors import IostatsError
from iostats.etcd.client import Etcd, EtcdRefused, compare_absent, compare_modified, make_delete
from iostats.events import kinds
from iostats.events.event import Event, make_event
from iostats_ldms.description.model import Description
from iostats_ldms.membership import Membership
from iostats_ldms.service import reports
from iostats_ldms.service.reports import DaemonStatus, ServiceEvent, ServiceStatus
from iostats_ldms.status.document import (
    UNKNOWN,
    GroupInfo,
    GroupStatus,
    decode_status,
    encode_status,
    list_groups,
)
from iostats_ldms.status.history import GroupHistory
from iostats_ldms.status.notifications import EventSender

CHECK_EVERY_S, WRITE_EVERY_S = 1.0, 60.0
KNOWN_WITHIN_S = 10.0           # before that, a newly owned group may be incomplete
BYTES_PER_S = 2000              # written per group, on average
_GATHER_S = 0.2                 # so that simultaneous events are reported together
_SHARE, _LONGEST_PAUSE_S = 30, 10.0     # a report may take a thirtieth of the time
_MOST_WAITING = 10_000


class Reporter:
    """
    The reporter.

    `who`: see notifications.EventSender; `instance`: our name if `membership` and `etcd` are None.

    Attributes:
        revision: of the description in force, or None.
        counts: {kind of a service event: number}.
        groups: {group: GroupStatus} of our groups.
    """

    def __init__(self, node: str, instance: str, sender: EventSender, emit: Callable[[str], object],
                 membership: Membership | None = None, etcd: Etcd | None = None) -> None:
        self._node, self._name, self._sender, self._log = node, instance, sender, emit
        self._membership, self._etcd = membership, etcd
        self._histories: dict[tuple[str, int], GroupHistory] = {}
        self._owned_since: dict[tuple[str, int], float] = {}
        self._earlier_events: dict[str,
                                   frozenset[str]] = {}   # {group: ids sent before us}
        self._written: dict[str, tuple[float, float, GroupStatus]] = {}
        self._waiting: list[ServiceEvent] = []
        self._lock = threading.Lock()               # guards _waiting, counts
        self.revision: int | None = None
        self.counts = dict.fromkeys(reports.KINDS, 0)
        self.groups: dict[str, GroupStatus] = {}
        self._away_since = 0.0
        self._away_event: Event | None = None
        self._cleaned_at = 0.0
        self._last_error = ""                             # why the last write failed
        self._described: frozenset[str] = frozenset()   # groups when old ones were last deleted
        self._woken: asyncio.Event | None = None

    @property
    def _instance(self) -> str:
        return self._name if self._membership is None else self._membership.name

    # -- what the service calls

    def on_event(self, event: ServiceEvent) -> None:
        """Receive an event of the service in its loop; returns at once."""
        with self._lock:
            self.counts[event.kind] = self.counts.get(event.kind, 0) + event.count
            self._waiting.append(event)
            del self._waiting[:max(0, len(self._waiting) - _MOST_WAITING)]
        if self._woken is not None:
            self._woken.set()

    # -- each second

    async def run(self, state: Callable[[], ServiceStatus],
                  description: Callable[[], Description | None], stop: asyncio.Event) -> None:
        """Report until `stop` is set; `state`, `description`: functions of the service."""
        loop = asyncio.get_running_loop()
        self._woken = woken = asyncio.Event()       # bound to this loop in Python 3.9
        ended = asyncio.ensure_future(stop.wait())
        ended.add_done_callback(lambda done: woken.set())
        described: tuple[Description | None, dict[str, GroupInfo]] = None, {}
        due = loop.time()
        while not stop.is_set():
            now = description()
            if now is not described[0]:
                described = now, list_groups(now)
            if self._membership is not None and now is not None:
                self._membership.set_groups({name: item.daemons for name,
                                             item in described[1].items()})
            if loop.time() >= due:
                woken.clear()
                began = time.process_time()
                await loop.run_in_executor(None, self.report, state(), described[1])
                # With tens of thousands of daemons a report takes 0.1 s.
                took_s = time.process_time() - began
                due = loop.time() + min(_LONGEST_PAUSE_S, max(_GATHER_S, _SHARE * took_s))
            if not woken.is_set():
                # Not wait_for(): before Python 3.12 it can lose a cancellation that arrives with
                # the result, and this would run forever.
                waits = asyncio.ensure_future(woken.wait())
                try:
                    await asyncio.wait([waits], timeout=CHECK_EVERY_S)
                finally:
                    waits.cancel()
                if not woken.is_set():
                    continue
            if not stop.is_set():                   # report simultaneous events together
                await asyncio.sleep(min(CHECK_EVERY_S, max(_GATHER_S, due - loop.time())))
        ended.cancel()

    def report(self, state: ServiceStatus, groups: Mapping[str, GroupInfo]) -> None:
        """Report once, blocking; failures are logged."""
        self.revision = state.revision
        try:
            self._report_etcd()
            with self._lock:
                events, self._waiting = self._waiting, []
            self._report_general([item for item in events if not item.group], state.revision)
            owned = (dict.fromkeys(groups, 0) if self._membership is None
                     else self._membership.groups_owned())
            by_group: dict[str, list[DaemonStatus]] = {group: [] for group in owned}
            for item in state.daemons:
                if item.group in by_group:
                    by_group[item.group].append(item)
            self._drop_groups(owned)
            left: dict[str, list[ServiceEvent]] = {group: [item for item in events
                                                        if item.group == group] for group in owned}
            refused = None
            try:
                for group, daemons in by_group.items():
                    if group in groups and len(daemons) == groups[group].daemons:
                        try:
                            self._process_group(group, owned[group], groups[group], state.revision,
                                                daemons, left)
                        except EtcdRefused as error:
                            refused = error
            finally:
                # The service does not know the group yet, or etcd did not answer.
                with self._lock:
                    self._waiting[:0] = [item for waiting in left.values() for item in waiting]
            if refused is not None:
                raise refused
            self._delete_old_groups(groups)
            self._last_error = ""
        except IostatsError as error:
            if str(error) != self._last_error and (self._membership is None
                                                   or not self._membership.etcd_error):
                self._last_error = str(error)
                self._log(f"{error}; `iostats ldms status` shows old values")
        except Exception as error:
            self._log(f"internal error; please report: {error!r}; the status is not written")

    def _process_group(self, group: str, fence: int, kind: GroupInfo, revision: int | None,
                  daemons: Sequence[DaemonStatus], left: dict[str, list[ServiceEvent]]) -> None:
        """Update, write and send one group; its events are removed from `left`."""
        now, key = time.time(), (group, fence)
        history = self._histories.get(key)
        if history is None:
            before = self._read_previous(group)
            self._earlier_events[group] = frozenset(event.id for event
                                                    in before.events) if before else (
                frozenset())
            history = self._histories[key] = GroupHistory(
                self._node, self._instance, group, kind.role, kind.level, before)
            self._owned_since[key] = time.monotonic()
        is_known = all(item.state != UNKNOWN for item in daemons)
        status = history.status(revision, daemons, left.pop(group, ()), now)
        self.groups[group] = status
        if not is_known and time.monotonic() - self._owned_since[key] < KNOWN_WITHIN_S:
            return
        if self._etcd is None or self._membership is None:
            self._sender.send(status.events)
            return
        if self._is_due(group, status):
            data = encode_status(status)
            try:
                is_ours = self._membership.write(group, [(self._make_key(group), data)])
            except EtcdRefused:                     # etcd is full, for example: log them
                self._sender.send(status.events, self._earlier_events[group])
                raise
            if is_ours:
                self._written[group] = (time.monotonic(), max(1.0, len(data) / BYTES_PER_S), status)
                self._sender.send(status.events, self._earlier_events[group])

    def _is_due(self, group: str, status: GroupStatus) -> bool:
        if group not in self._written:
            return True
        at, pause_s, before = self._written[group]
        ago = time.monotonic() - at
        if ago >= WRITE_EVERY_S:
            return True
        return ago >= pause_s and msgspec.structs.replace(
            status, time=before.time, read_at=before.read_at) != before

    def _read_previous(self, group: str) -> GroupStatus | None:
        """Read the status that the group's last owner wrote."""
        result = self._etcd.get(
            self._make_key(group)) if self._etcd is not None else None
        if result is None:
            return None
        try:
            return decode_status(result.value)
        except ValueError as error:
            self._log(f"etcd: {result.key}: {error}; the history of this group is lost")
            return None

    def _make_key(self, group: str) -> str:
        assert self._etcd is not None
        return self._etcd.key("status", group)

    def _drop_groups(self, owned: Mapping[str, int]) -> None:
        """Forget groups that are not ours any more."""
        for key in [key for key in self._histories if owned.get(key[0]) != key[1]]:
            del self._histories[key]
            del self._owned_since[key]
            self._written.pop(key[0], None)
            self.groups.pop(key[0], None)

    def _delete_old_groups(self, groups: Mapping[str, GroupInfo]) -> None:
        """
        Delete the status of groups outside the description that have no owner.

        This runs when the groups changed, and each WRITE_EVERY_S.
        """
        now, described = time.monotonic(), frozenset(groups)
        if self._etcd is None or not groups or (
                described == self._described and now - self._cleaned_at < WRITE_EVERY_S):
            return
        self._cleaned_at, self._described = now, described
        keys = {self._make_key(group) for group in groups}
        for result in self._etcd.range(self._etcd.below("status"))[0]:
            if result.key not in keys:
                owner = self._etcd.key("owners", self._etcd.last_part(result.key))
                is_removed, _, _ = self._etcd.txn(
                    [compare_absent(owner), compare_modified(result.key, result.mod_revision)],
                    [make_delete(result.key)])
                if is_removed:
                    self._close_outages(result.value)
                else:                               # its owner is about to release it
                    self._described = frozenset()

    def _close_outages(self, value: bytes) -> None:
        """Send the outages of a deleted group as over."""
        try:
            events = decode_status(value).events
        except ValueError:
            return
        now = time.time()
        self._sender.send(
            event._replace(over=max(now, event.time), last=max(now, event.last))
            for event in events
            if event.over is None and event.kind in (kinds.AGGREGATOR_DOWN, kinds.SAMPLER_DOWN))

    # -- what is about no group

    def _report_general(self, events: Sequence[ServiceEvent], revision: int | None) -> None:
        for item in events:
            if item.kind == reports.DESCRIBED:          # every instance sends the same event
                self._sender.send([make_event(
                    "", self._node, ("ldms", item.kind, str(revision)), kinds.DESCRIPTION_VALID,
                    item.time, message=item.text)])
            else:                                   # of a removed daemon
                self._log(f"{item.daemon}: {item.text}" if item.daemon
                          and item.daemon not in item.text
                          else item.text)

    def _report_etcd(self) -> None:
        away = self._membership.etcd_error if self._membership is not None else ""
        now = time.time()
        if away and self._away_event is None:
            self._away_event = make_event(
                "", self._node, ("ldms", "etcd", self._instance, repr(now)), kinds.ETCD_AWAY, now,
                message=f"{self._instance}: {away}")
            self._sender.send([self._away_event], {self._away_event.id})   # it is logged already
        elif not away and self._away_event is not None:
            self._sender.send([self._away_event._replace(
                over=max(now, self._away_event.time), last=max(now, self._away_event.time))])
            self._away_event = None
