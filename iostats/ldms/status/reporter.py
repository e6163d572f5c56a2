"""
Beside the service: what it sees goes to etcd, is told as events, and counted.

Each second, and when something happened, in a thread, since etcd may keep it waiting.  A group's
status is written when it is another, and each WRITE_EVERY_S, by a transaction that holds only while
the group is ours; what is large is written less often, since etcd keeps each version until it is
compacted.  Events are told after they are in etcd: an instance that dies in between leaves them to
the next owner of the group.
"""

from __future__ import annotations

import asyncio
import threading
import time

import msgspec

from iostats.base.errors import IostatsError
from iostats.etcd.client import EtcdRefused, absent, deleting, modified
from iostats.events import kinds
from iostats.events.event import made
from iostats.ldms.service import told
from iostats.ldms.status.document import UNKNOWN, GroupStatus, decoded, encoded
from iostats.ldms.status.groups import groups_of
from iostats.ldms.status.happened import GroupHistory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iostats.etcd.client import Etcd
    from iostats.events.event import Event
    from iostats.ldms.description.normal import Description
    from iostats.ldms.instances.membership import Membership
    from iostats.ldms.service.told import DaemonState, Happening, ServiceState
    from iostats.ldms.status.groups import GroupKind
    from iostats.ldms.status.telling import Telling

LOOK_EVERY_S, WRITE_EVERY_S = 1.0, 60.0
KNOWN_WITHIN_S = 10.0           # until then, nothing is said of a group that is new to us
BYTES_PER_S = 2000              # that are written of a group, on average
_GATHER_S = 0.2                 # for what happens at once to be told together
_SHARE, _LONGEST_PAUSE_S = 30, 10.0     # a look takes up to a thirtieth of the time, if it can
_MOST_WAITING = 10_000


class Reporter:
    """
    `who`: the machine that tells, see telling.Telling; `instance`: our name, where `membership` and
    `etcd` are None: there is no etcd.

    Attributes:
        revision: of the description that is carried out, or None.
        counts: {kind of a happening: how many}.
        groups: {group: its GroupStatus} of those that are ours.
    """

    def __init__(self, who: str, instance: str, telling: Telling, say: Callable[[str], object],
                 membership: Membership | None = None, etcd: Etcd | None = None) -> None:
        self._who, self._name, self._telling, self._say = who, instance, telling, say
        self._membership, self._etcd = membership, etcd
        self._histories: dict[tuple[str, int], GroupHistory] = {}
        self._taken: dict[tuple[str, int], float] = {}
        self._old: dict[str, frozenset[str]] = {}   # {group: ids of events told before us}
        self._written: dict[str, tuple[float, float, GroupStatus]] = {}
        self._waiting: list[Happening] = []
        self._lock = threading.Lock()               # guards _waiting, counts
        self.revision: int | None = None
        self.counts = dict.fromkeys(told.KINDS, 0)
        self.groups: dict[str, GroupStatus] = {}
        self._away_since = 0.0
        self._away_event: Event | None = None
        self._forgot_at = 0.0
        self._said = ""                             # why nothing could be written
        self._described: frozenset[str] = frozenset()   # groups, when nothing was left of others
        self._woken: asyncio.Event | None = None

    @property
    def _instance(self) -> str:
        return self._name if self._membership is None else self._membership.name

    # -- what the service calls

    def happened(self, happening: Happening) -> None:
        """Hook of the service, called in its loop; returns at once."""
        with self._lock:
            self.counts[happening.kind] = self.counts.get(happening.kind, 0) + happening.count
            self._waiting.append(happening)
            del self._waiting[:max(0, len(self._waiting) - _MOST_WAITING)]
        if self._woken is not None:
            self._woken.set()

    # -- each second

    async def run(self, state: Callable[[], ServiceState],
                  description: Callable[[], Description | None], stop: asyncio.Event) -> None:
        """Report until `stop` is set; `state`, `description`: of the service."""
        loop = asyncio.get_running_loop()
        self._woken = woken = asyncio.Event()       # of this loop, also with Python 3.9
        ended = asyncio.ensure_future(stop.wait())
        ended.add_done_callback(lambda done: woken.set())
        known: tuple[Description | None, dict[str, GroupKind]] = None, {}
        due = loop.time()
        while not stop.is_set():
            now = description()
            if now is not known[0]:
                known = now, groups_of(now)
            if self._membership is not None and now is not None:
                self._membership.wants({name: one.daemons for name, one in known[1].items()})
            if loop.time() >= due:
                woken.clear()
                began = time.process_time()
                await loop.run_in_executor(None, self.report, state(), known[1])
                # Of tens of thousands of daemons a look takes a tenth of a second.
                took_s = time.process_time() - began
                due = loop.time() + min(_LONGEST_PAUSE_S, max(_GATHER_S, _SHARE * took_s))
            if not woken.is_set():
                # Not wait_for(): before Python 3.12 it forgets a cancellation that comes with the
                # result, and this would run on for ever.
                waits = asyncio.ensure_future(woken.wait())
                try:
                    await asyncio.wait([waits], timeout=LOOK_EVERY_S)
                finally:
                    waits.cancel()
                if not woken.is_set():
                    continue
            if not stop.is_set():                   # what happens at once is told together
                await asyncio.sleep(min(LOOK_EVERY_S, max(_GATHER_S, due - loop.time())))
        ended.cancel()

    def report(self, state: ServiceState, groups: Mapping[str, GroupKind]) -> None:
        """Once, blocking; a failure is said, and is none of the service."""
        self.revision = state.revision
        try:
            self._tell_of_etcd()
            with self._lock:
                happenings, self._waiting = self._waiting, []
            self._tell_of_all([one for one in happenings if not one.group], state.revision)
            owned = (dict.fromkeys(groups, 0) if self._membership is None
                     else self._membership.groups_owned())
            by_group: dict[str, list[DaemonState]] = {group: [] for group in owned}
            for one in state.daemons:
                if one.group in by_group:
                    by_group[one.group].append(one)
            self._forget(owned)
            left: dict[str, list[Happening]] = {group: [one for one in happenings
                                                        if one.group == group] for group in owned}
            refused = None
            try:
                for group, daemons in by_group.items():
                    if group in groups and len(daemons) == groups[group].daemons:
                        try:
                            self._of_group(group, owned[group], groups[group], state.revision,
                                           daemons, left)
                        except EtcdRefused as error:
                            refused = error
            finally:
                # The service is about to see that a group is ours, or etcd did not answer.
                with self._lock:
                    self._waiting[:0] = [one for some in left.values() for one in some]
            if refused is not None:
                raise refused
            self._forget_old(groups)
            self._said = ""
        except IostatsError as error:
            if str(error) != self._said and (self._membership is None
                                             or not self._membership.away):
                self._said = str(error)
                self._say(f"{error}; what `iostats ldms status` shows is old")
        except Exception as error:
            self._say(f"internal error; please report: {error!r}; the status is not written")

    def _of_group(self, group: str, fence: int, kind: GroupKind, revision: int | None,
                  daemons: Sequence[DaemonState], left: dict[str, list[Happening]]) -> None:
        """Its happenings are taken out of `left`."""
        now, key = time.time(), (group, fence)
        history = self._histories.get(key)
        if history is None:
            before = self._before(group)
            self._old[group] = frozenset(event.id for event in before.events) if before else (
                frozenset())
            history = self._histories[key] = GroupHistory(
                self._who, self._instance, group, kind.role, kind.level, before)
            self._taken[key] = time.monotonic()
        is_known = all(one.state != UNKNOWN for one in daemons)
        status = history.status(revision, daemons, left.pop(group, ()), now)
        self.groups[group] = status
        if not is_known and time.monotonic() - self._taken[key] < KNOWN_WITHIN_S:
            return
        if self._etcd is None or self._membership is None:
            self._telling.tell(status.events)
            return
        if self._is_due(group, status):
            data = encoded(status)
            try:
                is_ours = self._membership.write(group, [(self._key(group), data)])
            except EtcdRefused:                     # it is full, say: the log has them all the same
                self._telling.tell(status.events, self._old[group])
                raise
            if is_ours:
                self._written[group] = (time.monotonic(), max(1.0, len(data) / BYTES_PER_S), status)
                self._telling.tell(status.events, self._old[group])

    def _is_due(self, group: str, status: GroupStatus) -> bool:
        if group not in self._written:
            return True
        at, pause, before = self._written[group]
        ago = time.monotonic() - at
        if ago >= WRITE_EVERY_S:
            return True
        return ago >= pause and msgspec.structs.replace(status, time=before.time) != before

    def _before(self, group: str) -> GroupStatus | None:
        """What the group's last owner wrote."""
        found = self._etcd.get(self._key(group)) if self._etcd is not None else None
        if found is None:
            return None
        try:
            return decoded(found.value)
        except ValueError as error:
            self._say(f"etcd: {found.key}: {error}; what was known of this group is lost")
            return None

    def _key(self, group: str) -> str:
        assert self._etcd is not None
        return self._etcd.key("status", group)

    def _forget(self, owned: Mapping[str, int]) -> None:
        """Groups that are ours no more."""
        for key in [key for key in self._histories if owned.get(key[0]) != key[1]]:
            del self._histories[key]
            del self._taken[key]
            self._written.pop(key[0], None)
            self.groups.pop(key[0], None)

    def _forget_old(self, groups: Mapping[str, GroupKind]) -> None:
        """
        What is in etcd of groups that are described no more, and have no owner: when groups are
        others than before, and now and then.
        """
        now, described = time.monotonic(), frozenset(groups)
        if self._etcd is None or not groups or (
                described == self._described and now - self._forgot_at < WRITE_EVERY_S):
            return
        self._forgot_at, self._described = now, described
        keys = {self._key(group) for group in groups}
        for found in self._etcd.range(self._etcd.below("status"))[0]:
            if found.key not in keys:
                owner = self._etcd.key("owners", self._etcd.last_part(found.key))
                is_gone, _, _ = self._etcd.txn(
                    [absent(owner), modified(found.key, found.mod_revision)],
                    [deleting(found.key)])
                if is_gone:
                    self._end(found.value)
                else:                               # its owner is about to give it up
                    self._described = frozenset()

    def _end(self, value: bytes) -> None:
        """Outages of a group that is described no more are over."""
        try:
            events = decoded(value).events
        except ValueError:
            return
        now = time.time()
        self._telling.tell(
            event._replace(over=max(now, event.time), last=max(now, event.last))
            for event in events
            if event.over is None and event.kind in (kinds.AGGREGATOR_DOWN, kinds.SAMPLER_DOWN))

    # -- what is about no group

    def _tell_of_all(self, happenings: Sequence[Happening], revision: int | None) -> None:
        for one in happenings:
            if one.kind == told.DESCRIBED:          # by each instance, the same event
                self._telling.tell([made(
                    "", self._who, ("ldms", one.kind, str(revision)), kinds.DESCRIPTION_VALID,
                    one.time, message=one.text)])
            else:                                   # of a daemon that left the description
                self._say(f"{one.daemon}: {one.text}" if one.daemon and one.daemon not in one.text
                          else one.text)

    def _tell_of_etcd(self) -> None:
        away = self._membership.away if self._membership is not None else ""
        now = time.time()
        if away and self._away_event is None:
            self._away_event = made(
                "", self._who, ("ldms", "etcd", self._instance, repr(now)), kinds.ETCD_AWAY, now,
                message=f"{self._instance}: {away}")
            self._telling.tell([self._away_event], {self._away_event.id})   # it is in the log
        elif not away and self._away_event is not None:
            self._telling.tell([self._away_event._replace(
                over=max(now, self._away_event.time), last=max(now, self._away_event.time))])
            self._away_event = None
