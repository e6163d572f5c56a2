"""
The service: carries a description out, and goes on as daemons fail, return and are changed.

    service = Service(groups_owned=..., may_command=..., happened=...)
    service.describe(description, revision)        # again for each new one; from the loop's thread
    await service.run(stop)

One connection a daemon; a failure of one delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass

from iostats.base.errors import one_line
from iostats.ldms.control.connection import Connection
from iostats.ldms.reconcile.commands import foreign
from iostats.ldms.reconcile.fleet import Fleet
from iostats.ldms.reconcile.heard import DOWN, HUNG, UNKNOWN, UP
from iostats.ldms.service import told
from iostats.ldms.service.link import Link
from iostats.ldms.service.told import DaemonState, Happening, ServiceState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from iostats.ldms.control.observed import Observed
    from iostats.ldms.description.normal import Description
    from iostats.ldms.reconcile.memory import Step

_CONNECTING = 500                   # samplers that are connected to, and set up, at a time
_QUESTIONS_A_SECOND = 500           # to samplers; those of large clusters are asked less often
_FOREIGN_TOLD = 5


@dataclass(frozen=True)
class Settings:
    """`poll_s`: between two questions to a daemon; the timeouts of connections and answers."""
    poll_s: float = 2.0
    connect_within_s: float = 3.0
    answer_within_s: float = 5.0


class Service:
    """
    groups_owned(): the names of the groups (aggregators' and samplers') that this instance cares
        for; None: all.  It is asked at each poll; `ownership_changed()` has it asked at once.
    may_command(group): asked right before each command is sent; False: it is not sent.
    happened(happening): each event, from the loop's thread; it must not block.
    connect: Connection.open, or what does the same.

    Attributes:
        fleet: the daemons as they were heard of last.
        commands: {verb: how many were carried out}.
    """

    def __init__(self, *, groups_owned: Callable[[], Collection[str] | None] = lambda: None,
                 may_command: Callable[[str], bool] = lambda group: True,
                 happened: Callable[[Happening], None] = lambda happening: None,
                 settings: Settings = Settings(),
                 connect: Callable[..., Awaitable[Connection]] = Connection.open):
        self.groups_owned = groups_owned
        self.may_command = may_command
        self.happened = happened
        self.settings = settings
        self.connect = connect
        self.revision: int | None = None
        self.fleet = Fleet()
        self.commands: Counter[str] = Counter()
        self._links: dict[str, tuple[Link, asyncio.Task[None]]] = {}
        self._owned: frozenset[str] | None = frozenset()
        self._samplers: frozenset[str] = frozenset()
        self._listening: frozenset[str] = frozenset()
        self._foreign: set[tuple[str, str]] = set()
        self._changed_at = time.monotonic()
        self._connecting: asyncio.Semaphore | None = None
        self._is_running = False

    @property
    def description(self) -> Description | None:
        return self.fleet.description

    def describe(self, description: Description, revision: int | None) -> None:
        """`description` is in force from now on; what it changes is carried out at once."""
        self.fleet.describe(description)
        self.revision = revision
        self._samplers = frozenset(name for group in description.samplers
                                   for name in group.members)
        self._listening = frozenset(name for group in description.aggregators if group.listens
                                    for name in group.members)
        self._foreign.clear()
        self._changed_at = time.monotonic()
        self.tell(told.DESCRIBED, "", "", "a description is in force: "
                  f"{len(description.daemons)} daemons, {len(self.groups())} groups"
                  + ("" if revision is None else f", revision {revision}"))
        self.ownership_changed()
        self._wake_all()

    def groups(self) -> list[str]:
        """The names of all groups of the description, to be shared among instances."""
        description = self.description
        if description is None:
            return []
        return list(dict.fromkeys([*(group.name for group in description.aggregators),
                                   *(group.name for group in description.samplers)]))

    def ownership_changed(self) -> None:
        """The groups that are ours are others: called from the loop's thread."""
        if not self._is_running:
            return
        owned = self.groups_owned()
        new = None if owned is None else frozenset(owned)
        is_other = new != self._owned
        if is_other:
            self._changed_at = time.monotonic()
            self._owned = new
            self.fleet.keep_only(new)
        for name in [name for name in self._links
                     if name not in self.fleet.daemons or not self.fleet.is_needed(name, new)
                     or self._links[name][0].endpoint != self.fleet.daemons[name].daemon.control]:
            _, task = self._links.pop(name)
            task.cancel()
            self.fleet.unknown(name)
        for name in self.fleet.daemons:
            if name not in self._links and self.fleet.is_needed(name, new):
                link = Link(self, name)
                self._links[name] = link, asyncio.ensure_future(link.run())
        self._place()
        if is_other:
            self._wake_all()

    def state(self) -> ServiceState:
        """How all stands now, of the groups that are ours."""
        description = self.description
        if description is None:
            return ServiceState(self.revision)
        found = []
        for group in description.aggregators:
            if self._is_ours(group.name):
                loads = self.fleet.loads(group)
                placed = Counter(self.fleet.placement.get(group.name, {}).values())
                decided = group.name in self.fleet.placement
                found += [self._state(name, group.name, "aggregator",
                                      placed[name] if decided else None, loads.get(name))
                          for name in group.members]
        for samplers in description.samplers:
            if self._is_ours(samplers.name):
                found += [self._state(name, samplers.name, "sampler", None, None)
                          for name in samplers.members]
        return ServiceState(self.revision, tuple(found))

    def unheard(self) -> list[str]:
        """The daemons of ours that neither answered yet nor failed to."""
        return [name for name in self._links
                if name in self.fleet.daemons and self.fleet.daemons[name].state == UNKNOWN]

    async def run(self, stop: asyncio.Event) -> None:
        """Carry out what was described until `stop` is set; daemons are left as they are then."""
        self._connecting = asyncio.Semaphore(_CONNECTING)
        self._is_running = True
        try:
            while not stop.is_set():
                self.ownership_changed()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(stop.wait(), self.settings.poll_s)
        finally:
            self._is_running = False
            tasks = [task for _, task in self._links.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._links.clear()

    # ---- for links

    @contextlib.asynccontextmanager
    async def connecting(self, name: str):                              # type: ignore[no-untyped-def]
        """Samplers wait for each other while they are connected to; aggregators for none."""
        if name not in self._samplers or self._connecting is None:
            yield
            return
        async with self._connecting:
            yield

    def pause_s(self, name: str) -> float:
        """How long to wait between two questions to it."""
        if name in self._samplers:
            return max(self.settings.poll_s, len(self._samplers) / _QUESTIONS_A_SECOND)
        return self.settings.poll_s

    def is_sampler(self, name: str) -> bool:
        return name in self._samplers

    def has_listens(self, name: str) -> bool:
        """Producers may come to it by themselves."""
        return name in self._listening

    def is_quiet(self) -> bool:
        """Neither the description nor what is ours changed in the last polls."""
        return time.monotonic() - self._changed_at > 2 * self.settings.poll_s

    def steps(self, name: str) -> list[tuple[str, Step]]:
        """What to tell the daemon now."""
        return self.fleet.steps(name, self._owned)

    def heard(self, name: str, observed: Observed, restarted: bool) -> None:
        """It answered."""
        fleet = self.fleet
        known = fleet.daemons[name]
        state, ran = known.state, known.started
        fleet.heard(name, observed, time.time(), restarted)
        group = fleet.first_group(name)
        if restarted:
            self._changed_at = time.monotonic()
            self.tell(told.RESTARTED, group, name, f"{name} is another process than before")
        if state in (DOWN, HUNG):
            self._changed_at = time.monotonic()
            self.tell(told.BACK, group, name, f"{name} answers again")
        self._tell_foreign(name, observed, group)
        self._place()
        if ran - known.started:
            self._wake_groups(name)             # others may have been waiting for it to stop
        if state != UP or ran != known.started:
            self._wake_above(name)
        if fleet.has_left(name) and not self.steps(name):
            fleet.forget(name)

    def lost(self, name: str, state: str, why: str, is_alone: bool = False,
             is_silent: bool = False) -> None:
        """It does not answer; `is_alone`, `is_silent`: see Fleet.lost."""
        fleet = self.fleet
        known = fleet.daemons[name]
        was, was_silent = known.state, known.is_silent
        fleet.lost(name, state, why, time.time(), is_alone, is_silent)
        if was != state:                    # at first sight as well: it may be back at the next
            if was != UNKNOWN:
                self._changed_at = time.monotonic()
            self.tell(told.HUNG if state == HUNG else told.DOWN, fleet.first_group(name), name, why)
        if was != state:
            self._place()
            self._wake_groups(name)
        if was != state or was_silent != known.is_silent:
            self._wake_above(name)

    def count_command(self, name: str, verb: str) -> None:
        self.commands[verb] += 1

    def tell(self, kind: str, group: str, daemon: str, text: str, count: int = 1) -> None:
        """An event; those of a group that is another instance's are for that one to tell."""
        if group and not self._is_ours(group):
            return
        self.happened(Happening(kind, group, daemon, one_line(text), time.time(), count))

    # ---- helpers

    def _is_ours(self, group: str) -> bool:
        return self._owned is None or group in self._owned

    def _place(self) -> None:
        fleet = self.fleet
        for group, moves, without in fleet.place(self._owned):
            if moves:
                self.tell(told.MOVED, group, "", _moves_text(moves, fleet.placement[group]),
                          len(moves))
            if without:
                self.tell(told.FOREIGN, group, "", f"{len(without)} advertised producers have no "
                          f"aggregator that is up: {', '.join(without[:3])}", len(without))
            for name in fleet.members(group):
                if name in self._links:
                    self._links[name][0].wake()

    def _wake_all(self) -> None:
        for link, _ in self._links.values():
            link.wake()

    def _wake_groups(self, name: str) -> None:
        for group in self.fleet.groups(name):
            for other in self.fleet.members(group):
                if other != name and other in self._links and other not in self._samplers:
                    self._links[other][0].wake()

    def _wake_above(self, name: str) -> None:
        """Those above: the producer that stands for it may be stopped, or started."""
        for group in self.fleet.levels.readers(name):
            for other in self.fleet.members(group):
                if other in self._links:
                    self._links[other][0].wake()

    def _tell_foreign(self, name: str, observed: Observed, group: str) -> None:
        if self.fleet.undecided(name):
            return
        for what in foreign(self.fleet.wanted(name), observed)[:_FOREIGN_TOLD]:
            if (name, what) not in self._foreign:
                self._foreign.add((name, what))
                self.tell(told.FOREIGN, group, name,
                          f"{name} has {what}, which is not in the description; left alone")

    def _state(self, name: str, group: str, role: str, placed: int | None,
               load: float | None) -> DaemonState:
        heard = self.fleet.daemons[name]
        link = self._links[name][0] if name in self._links else None
        producers = sets = connected = None
        silent: list[str] = []
        if heard.is_up and heard.observed is not None:
            if role == "aggregator":
                producers = placed
                still = self.fleet.levels.silent(group)
                seen = [each for each in heard.observed.producers.values()
                        if each.name not in still]
                connected = sum(each.state == "CONNECTED" for each in seen)
                sets = sum(one.state in ("READY", "UPDATING") for each in seen
                           for one in each.sets)
                silent = told.of_silent(still, heard.observed)
            else:
                sets = len(heard.observed.sets)
        return DaemonState(
            name, group, role, heard.state, heard.since, heard.why, heard.restarts,
            bool(link and link.is_settled and heard.is_up
                 and not any(line.endswith(told.STAND_STILL) for line in silent)),
            tuple([*silent, *(link.wrong if link and heard.is_up else [])][:5]),
            producers, connected, sets, load,
            heard.observed.config_counter if heard.observed else None, heard.has_ended)


def _moves_text(moves: list[str], plan: dict[str, str]) -> str:
    to = Counter(plan[name] for name in moves)
    where = ", ".join(f"{count} to {name}" for name, count in sorted(to.items())[:8])
    return f"{len(moves)} producer{'s' * (len(moves) != 1)} moved: {where}" + (
        f" and {len(to) - 8} more" if len(to) > 8 else "")
