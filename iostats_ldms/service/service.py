"""
The service: reconciles all daemons, while they fail, return and are changed.

    service = Service(groups_owned=..., may_command=..., on_event=...)
    service.describe(description, revision)     # for each new one; from the loop's thread
    await service.run(stop)

Each daemon has a DaemonReconciler with a connection of its own, so a failure of one delays no
other.

    connect -> query all -> send commands -> query all -> ... wait -> query the counter -> ...

A lost connection is reopened at once: the result of that shows whether the daemon is dead.  Long
because: the service and its reconcilers call each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from iostats.base.errors import ConfigError, IostatsError, sanitize
from iostats_ldms.control import queries
from iostats_ldms.control.authentication import load_authentication
from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import (
    AuthenticationFailed,
    ControlError,
    NoAnswer,
    ProtocolError,
    Unreachable,
    VersionMismatch,
)
from iostats_ldms.control.observed import ObservedState
from iostats_ldms.description.model import Description
from iostats_ldms.reconcile.commands import find_unmanaged
from iostats_ldms.reconcile.daemon import DOWN, HUNG, UNKNOWN, UP, PlannedCommand
from iostats_ldms.reconcile.fleet import Fleet
from iostats_ldms.service import reports
from iostats_ldms.service.reports import (
    CORRECTED,
    REFUSED,
    DaemonStatus,
    ServiceEvent,
    ServiceStatus,
)
from iostats_ldms.statements.dialect import format_statement

_CONNECTING = 500                   # samplers being connected and configured at the same time
_QUESTIONS_A_SECOND = 500           # to samplers; in large clusters each is queried less often
_MAX_UNMANAGED_REPORTS = 5


@dataclass(frozen=True)
class Settings:
    """Times in seconds; `poll_s`: between two queries to a daemon; the others are timeouts."""
    poll_s: float = 2.0
    connect_within_s: float = 3.0
    answer_within_s: float = 5.0


class Service:
    """
    The service.

    `groups_owned()`: the names of the groups this instance owns; None: all.  Called at each poll;
    `apply_ownership_change()` triggers it.  `may_command(group)`: called before each command; if
    False, it is not sent.  `on_event(event)`: receives each ServiceEvent in the loop's thread; it
    must not block.  `connect`: Connection.open or a replacement.

    Attributes:
        fleet: the observed state of all daemons.
        commands: {verb: number of accepted commands}.
    """

    def __init__(self, *, groups_owned: Callable[[], Collection[str] | None] = lambda: None,
                 may_command: Callable[[str], bool] = lambda group: True,
                 on_event: Callable[[ServiceEvent], None] = lambda event: None,
                 settings: Settings = Settings(),
                 connect: Callable[..., Awaitable[Connection]] = Connection.open):
        self.groups_owned = groups_owned
        self.may_command = may_command
        self.on_event = on_event
        self.settings = settings
        self.connect = connect
        self.revision: int | None = None
        self.fleet = Fleet()
        self.commands: Counter[str] = Counter()
        self._reconcilers: dict[str, tuple[DaemonReconciler, asyncio.Task[None]]] = {}
        self._owned: frozenset[str] | None = frozenset()
        self._samplers: frozenset[str] = frozenset()
        self._listening: frozenset[str] = frozenset()
        self._unmanaged: set[tuple[str, str]] = set()
        self._changed_at = time.monotonic()
        self._connecting: asyncio.Semaphore | None = None
        self._is_running = False

    @property
    def description(self) -> Description | None:
        """The description in force."""
        return self.fleet.description

    def describe(self, description: Description, revision: int | None) -> None:
        """Put `description` in force; reconciliation starts at once."""
        self.fleet.describe(description)
        self.revision = revision
        self._samplers = frozenset(name for group in description.samplers
                                   for name in group.members)
        self._listening = frozenset(name for group in description.aggregators if group.listens
                                    for name in group.members)
        self._unmanaged.clear()
        self._changed_at = time.monotonic()
        self.report(reports.DESCRIBED, "", "", "a description is in force: "
                    f"{len(description.daemons)} daemons, {len(self.groups())} groups"
                    + ("" if revision is None else f", revision {revision}"))
        self.apply_ownership_change()
        self._wake_all()

    def groups(self) -> list[str]:
        """List the names of all groups, to be shared among instances."""
        description = self.description
        if description is None:
            return []
        return list(dict.fromkeys([*(group.name for group in description.aggregators),
                                   *(group.name for group in description.samplers)]))

    def apply_ownership_change(self) -> None:
        """Apply changed ownership: open and close connections; call it from the loop's thread."""
        if not self._is_running:
            return
        owned = self.groups_owned()
        new = None if owned is None else frozenset(owned)
        is_changed = new != self._owned
        if is_changed:
            self._changed_at = time.monotonic()
            self._owned = new
            self.fleet.release_others(new)
        fleet = self.fleet
        for name in [name for name in self._reconcilers
                     if name not in self.fleet.daemons or not self.fleet.is_needed(name, new)
                     or self._reconcilers[name][0].endpoint != fleet.daemons[name].daemon.control]:
            _, task = self._reconcilers.pop(name)
            task.cancel()
            self.fleet.mark_unknown(name)
        for name in self.fleet.daemons:
            if name not in self._reconcilers and self.fleet.is_needed(name, new):
                link = DaemonReconciler(self, name)
                self._reconcilers[name] = link, asyncio.ensure_future(link.run())
        self._place_producers()
        if is_changed:
            self._wake_all()

    def make_status(self) -> ServiceStatus:
        """Return the ServiceStatus of the groups that are ours."""
        description = self.description
        if description is None:
            return ServiceStatus(self.revision)
        result = []
        for group in description.aggregators:
            if self._is_ours(group.name):
                loads = self.fleet.compute_loads(group)
                placed = Counter(self.fleet.placement.get(group.name, {}).values())
                decided = group.name in self.fleet.placement
                result += [self._make_status(name, group.name, "aggregator",
                                             placed[name] if decided else None, loads.get(name))
                           for name in group.members]
        for samplers in description.samplers:
            if self._is_ours(samplers.name):
                result += [self._make_status(name, samplers.name, "sampler", None, None)
                           for name in samplers.members]
        return ServiceStatus(self.revision, tuple(result))

    def list_unanswered(self) -> list[str]:
        """List our daemons that have neither answered nor failed yet."""
        return [name for name in self._reconcilers
                if name in self.fleet.daemons and self.fleet.daemons[name].state == UNKNOWN]

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set; the daemons keep their state then."""
        self._connecting = asyncio.Semaphore(_CONNECTING)
        self._is_running = True
        try:
            while not stop.is_set():
                self.apply_ownership_change()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(stop.wait(), self.settings.poll_s)
        finally:
            self._is_running = False
            tasks = [task for _, task in self._reconcilers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._reconcilers.clear()

    # ---- for reconcilers

    @contextlib.asynccontextmanager
    async def limit_connections(self, name: str) -> AsyncIterator[None]:
        """Limit the samplers that are connected to at the same time; aggregators never wait."""
        if name not in self._samplers or self._connecting is None:
            yield
            return
        async with self._connecting:
            yield

    def query_interval_s(self, name: str) -> float:
        """Return the seconds between two queries to a daemon."""
        if name in self._samplers:
            return max(self.settings.poll_s, len(self._samplers) / _QUESTIONS_A_SECOND)
        return self.settings.poll_s

    def count_polls_per_full_query(self, name: str) -> int:
        """Return the number of polls of a daemon of which one reads its complete state."""
        if name in self._samplers:
            return _FULL_QUERY_POLLS
        aggregators = self.description.aggregators if self.description else ()
        states = (self.fleet.daemons[member].observed for group in aggregators
                  for member in group.members)
        per_s = sum(len(state.producers) for state in states if state) / self.settings.poll_s
        return min(_FULL_QUERY_POLLS, max(1, math.ceil(per_s / _PRODUCERS_PER_S)))

    def is_sampler(self, name: str) -> bool:
        """True if the daemon is a sampler."""
        return name in self._samplers

    def has_listens(self, name: str) -> bool:
        """True if producers can advertise themselves to the daemon."""
        return name in self._listening

    def is_stable(self) -> bool:
        """True if neither the description nor the daemons changed within the last polls."""
        return time.monotonic() - self._changed_at > 2 * self.settings.poll_s

    def plan_commands(self, name: str) -> list[tuple[str, PlannedCommand]]:
        """Plan the commands for a daemon."""
        return self.fleet.plan_commands(name, self._owned)

    def observe(self, name: str, observed: ObservedState, restarted: bool) -> None:
        """Record an answer of a daemon, and report what changed."""
        fleet = self.fleet
        daemon = fleet.daemons[name]
        state, ran = daemon.state, daemon.started
        fleet.observe(name, observed, time.time(), restarted)
        group = fleet.first_group(name)
        if restarted:
            self._changed_at = time.monotonic()
            self.report(reports.RESTARTED, group, name, f"{name} was restarted")
        if state in (DOWN, HUNG):
            self._changed_at = time.monotonic()
            self.report(reports.BACK, group, name, f"{name} answers again")
        self._report_unmanaged(name, observed, group)
        self._place_producers()
        if ran - daemon.started:
            self._wake_groups(name)             # others may wait for it to stop
        if state != UP or ran != daemon.started:
            self._wake_consumers(name)
        if fleet.has_left(name) and not self.plan_commands(name):
            fleet.drop(name)

    def mark_lost(self, name: str, state: str, why: str, is_uncontrollable: bool = False,
                  is_unreachable: bool = False) -> None:
        """Record that a daemon does not answer; the flags are those of Fleet.mark_lost."""
        fleet = self.fleet
        daemon = fleet.daemons[name]
        was, was_silent = daemon.state, daemon.is_unreachable
        fleet.mark_lost(name, state, why, time.time(), is_uncontrollable, is_unreachable)
        if was != state:                    # also at the first query
            if was != UNKNOWN:
                self._changed_at = time.monotonic()
            self.report(reports.HUNG if state == HUNG else reports.DOWN, fleet.first_group(name),
                        name, why)
        if was != state:
            self._place_producers()
            self._wake_groups(name)
        if was != state or was_silent != daemon.is_unreachable:
            self._wake_consumers(name)

    def count_command(self, name: str, verb: str) -> None:
        """Count an accepted command."""
        self.commands[verb] += 1

    def report(self, kind: str, group: str, daemon: str, text: str, count: int = 1) -> None:
        """Report an event, unless its group is owned by another instance."""
        if group and not self._is_ours(group):
            return
        self.on_event(ServiceEvent(kind, group, daemon, sanitize(text), time.time(), count))

    # ---- helpers

    def _is_ours(self, group: str) -> bool:
        return self._owned is None or group in self._owned

    def _place_producers(self) -> None:
        fleet = self.fleet
        for group, moves, without in fleet.place_producers(self._owned):
            if moves:
                self.report(reports.MOVED, group, "",
                            _describe_moves(moves, fleet.placement[group]),
                            len(moves))
            if without:
                self.report(reports.FOREIGN, group, "", f"{len(without)} advertised producers have "
                            f"no aggregator that is up: {', '.join(without[:3])}", len(without))
            for name in fleet.list_members(group):
                if name in self._reconcilers:
                    self._reconcilers[name][0].wake()

    def _wake_all(self) -> None:
        for link, _ in self._reconcilers.values():
            link.wake()

    def _wake_groups(self, name: str) -> None:
        for group in self.fleet.list_groups(name):
            for member in self.fleet.list_members(group):
                if member != name and member in self._reconcilers and member not in self._samplers:
                    self._reconcilers[member][0].wake()

    def _wake_consumers(self, name: str) -> None:
        """Wake the aggregators of the level above: they may have to stop or start the producer."""
        for group in self.fleet.levels.list_consumers(name):
            for member in self.fleet.list_members(group):
                if member in self._reconcilers:
                    self._reconcilers[member][0].wake()

    def _report_unmanaged(self, name: str, observed: ObservedState, group: str) -> None:
        if self.fleet.list_undecided(name):
            return
        for item in find_unmanaged(self.fleet.make_desired_states(name),
                                   observed)[:_MAX_UNMANAGED_REPORTS]:
            if (name, item) not in self._unmanaged:
                self._unmanaged.add((name, item))
                self.report(reports.FOREIGN, group, name,
                            f"{name} has {item}, which is not in the description; left alone")

    def _make_status(self, name: str, group: str, role: str, placed: int | None,
                     load: float | None) -> DaemonStatus:
        daemon = self.fleet.daemons[name]
        link = self._reconcilers[name][0] if name in self._reconcilers else None
        producers = sets = connected = None
        silent: list[str] = []
        if daemon.is_up and daemon.observed is not None:
            if role == "aggregator":
                producers = placed
                still = self.fleet.levels.list_unreachable(group)
                collected = [each for each in daemon.observed.producers.values()
                             if each.name not in still]
                connected = sum(each.state == "CONNECTED" for each in collected)
                sets = sum(item.state in ("READY", "UPDATING") for each in collected
                           for item in each.sets)
                silent = reports.describe_unreachable(still, daemon.observed)
            else:
                sets = len(daemon.observed.sets)
        return DaemonStatus(
            name, group, role, daemon.state, daemon.since, daemon.why, daemon.restarts,
            bool(link and link.is_reconciled and daemon.is_up
                 and not any(line.endswith(reports.STALE_SETS) for line in silent)),
            tuple([*silent, *(link.wrong if link and daemon.is_up else [])][:5]),
            producers, connected, sets, load,
            daemon.observed.config_counter if daemon.observed else None, daemon.has_ended,
            daemon.read_at)


def _describe_moves(moves: list[str], plan: dict[str, str]) -> str:
    to = Counter(plan[name] for name in moves)
    where = ", ".join(f"{count} to {name}" for name, count in sorted(to.items())[:8])
    return f"{len(moves)} producer{'s' * (len(moves) != 1)} moved: {where}" + (
        f" and {len(to) - 8} more" if len(to) > 8 else "")


# After these the daemon is still running.
_RUNS = (AuthenticationFailed, VersionMismatch, ProtocolError, ConfigError)
_IN_FLIGHT = 64                     # commands of one verb sent without waiting for answers
# Producers and their sets change without changing the counter.  They are read at each poll, or less
# often where that would be more producers a second than these, which take a tenth of a core.
_FULL_QUERY_POLLS = 5
_PRODUCERS_PER_S = 10_000
_LONGEST_PAUSE_S = 60.0             # before a refused command is retried


class DaemonReconciler:
    """
    Reconciles one daemon over a connection that is reopened whenever it is lost.

    Attributes:
        is_reconciled: the daemon is in the desired state.
        wrong: differences from it, one line each.
    """

    def __init__(self, service: Service, name: str):
        self.service, self.name = service, name
        self.endpoint = service.fleet.daemons[name].daemon.control
        self.is_reconciled = False
        self.wrong: list[str] = []
        self._wake = asyncio.Event()
        self._counter = -1                      # after our last commands
        self._is_another = False                # its process has been replaced
        self._was_seen = False
        self._refused: dict[str, tuple[float, float]] = {}      # {line: (try again at, pause)}

    def wake(self) -> None:
        """Trigger reconciliation: something changed that may concern this daemon."""
        self._wake.set()

    async def run(self) -> None:
        """Reconcile until cancelled, or until nothing is left on a removed daemon."""
        settings, pause_s = self.service.settings, 0.0
        while not self._is_removed():
            error: ControlError | ConfigError | None
            try:
                async with self.service.limit_connections(self.name):
                    connection = await self._open()
            except (ControlError, ConfigError) as failure:
                self._report_loss(failure)
                pause_s = max(settings.poll_s, pause_s)
                await self._wait(pause_s)
                continue
            try:
                error = await self._manage(connection)
            except ControlError as failure:
                error = failure
            except IostatsError as failure:     # an invalid answer
                error = ProtocolError(connection.where, sanitize(str(failure)))
            except Exception as failure:
                error = ProtocolError(connection.where, "internal error; please report: "
                                      + sanitize(repr(failure)))
            finally:
                connection.close()
            if isinstance(error, NoAnswer):
                self._report_loss(error)
            elif isinstance(error, _RUNS) or not self._was_seen:
                self._report_loss(error)
                await self._wait(settings.poll_s)
            else:
                self._was_seen = False

    def _is_removed(self) -> bool:
        return self.name not in self.service.fleet.daemons

    async def _open(self) -> Connection:
        settings = self.service.settings
        endpoint = self.endpoint
        if endpoint is None:
            raise ConfigError(f"{self.name}: it has no endpoint with transport sock, so it "
                              f"cannot be controlled")
        auth = endpoint.auth
        return await self.service.connect(
            endpoint.host, endpoint.port,
            load_authentication(auth.plugin, auth.conf) if auth else None,
            connect_within_s=settings.connect_within_s, answer_within_s=settings.answer_within_s)

    def _report_loss(self, error: IostatsError | None) -> None:
        self.is_reconciled = False
        state = HUNG if isinstance(error, NoAnswer) else DOWN
        is_uncontrollable, is_unreachable = isinstance(error, _RUNS), isinstance(error, Unreachable)
        if state == DOWN and not is_uncontrollable and not is_unreachable:
            self._is_another = True
        why = sanitize(str(error)) if error else "the connection was lost"
        self.service.mark_lost(self.name, state, why, is_uncontrollable, is_unreachable)

    async def _manage(self, connection: Connection) -> ControlError | None:
        """Reconcile over an open connection; return the error that ends it."""
        service, polls = self.service, 0
        by_hand = False
        asks_at = await self._observe(connection)
        is_new = True                           # commands may be needed
        while not connection.lost.done():
            if self._is_removed():
                return None
            sent = await self._apply(connection, by_hand) if is_new or not self.is_reconciled else 0
            by_hand = is_new = False
            if sent:
                asks_at = await self._observe(connection)
                polls, is_new = -1, True        # producers are connecting
                if sent > 0:
                    continue
            if await self._wait(asks_at - time.monotonic(), connection.lost):
                is_new = True
                if time.monotonic() < asks_at:  # frequent wake-ups do not postpone the query
                    continue
            polls += 1
            asks_at = time.monotonic() + service.query_interval_s(self.name)
            counter = await queries.read_config_counter(connection)
            if counter != self._counter or polls % service.count_polls_per_full_query(
                self.name) == 0 \
                    or service.has_listens(self.name):
                by_hand = counter != self._counter
                await self._observe(connection)
                is_new = True
            elif service.is_sampler(self.name):     # its status has no number besides
                service.fleet.daemons[self.name].read_at = time.time()
        return connection.lost.result()

    async def _observe(self, connection: Connection) -> float:
        """Read the daemon's state; return when the next query is due, by time.monotonic()."""
        asks_at = time.monotonic() + self.service.query_interval_s(self.name)
        observed: ObservedState = await queries.read_observed_state(
            connection, with_sets=self.service.is_sampler(self.name))
        restarted = (self._is_another or observed.config_counter < self._counter) \
            and self._counter >= 0
        if restarted:
            self._refused.clear()
        self._is_another, self._was_seen = False, True
        self._counter = observed.config_counter
        self.service.observe(self.name, observed, restarted)
        return asks_at

    async def _apply(self, connection: Connection, by_hand: bool) -> int:
        """
        Send the commands that the daemon lacks.

        Returns the number of accepted commands; -1 if all were refused; 0 if none was sent.
        """
        now = time.monotonic()
        commands = self.service.plan_commands(self.name)
        beyond = self.service.fleet.list_impossible(self.name)
        self.is_reconciled = not commands and not beyond
        self.wrong = [*beyond,
                      *(sanitize(f"{format_statement(command.statement)[:160]} ({command.why})")
                        for _, command in commands[:5])][:5]
        if not commands:
            self._refused.clear()
            return 0
        due = [(group, command) for group, command in commands
               if self._refused.get(format_statement(command.statement), (now,))[0] <= now]
        accepted = refused = 0
        first = ""
        for _, entries in groupby(due, lambda each: (each[0], each[1].statement.verb)):
            waiting = list(entries)
            while waiting:
                part, waiting = waiting[:_IN_FLIGHT], waiting[_IN_FLIGHT:]
                answers = await asyncio.gather(*(self._send_command(connection, group, command)
                                                 for group, command in part))
                accepted += answers.count(True)
                refused += answers.count(False)
                first = first or format_statement(part[0][1].statement)
                if None in answers:             # the group is not ours any more
                    return accepted or (-1 if refused else 0)
        # The description has not changed: the daemon was changed by hand.
        if by_hand and accepted and self.service.is_stable():
            self.service.report(CORRECTED, due[0][0], self.name, sanitize(
                f"{self.name} was changed by hand; {accepted} "
                f"command{'s' * (accepted != 1)} restored it: {first}"), accepted)
        return accepted or (-1 if refused else 0)

    async def _send_command(self, connection: Connection, group: str,
                            command: PlannedCommand) -> bool | None:
        """Send one command; True if accepted, None if not sent."""
        if not self.service.may_command(group):
            return None
        line = format_statement(command.statement)
        reply = await connection.command(command.statement)
        daemon = self.service.fleet.daemons[self.name]
        if daemon.applied.record(command, reply.errno):
            self.service.count_command(self.name, command.statement.verb)
            self._refused.pop(line, None)
            return True
        _, pause_s = self._refused.get(line, (0.0, 0.0))
        pause_s = min(max(2 * pause_s, 2.0), _LONGEST_PAUSE_S)
        self._refused[line] = (time.monotonic() + pause_s, pause_s)
        if pause_s == 2.0:
            self.service.report(REFUSED, group, self.name, sanitize(
                f"{self.name} refused: {line[:200]}: errno {reply.errno} {reply.text[:200]}"
                f"{daemon.release_hint}"))
        return False

    async def _wait(self, seconds: float, lost: asyncio.Future[ControlError | None] | None = None
                    ) -> bool:
        """Wait; True if woken before the time was over."""
        if not self._wake.is_set():
            woken: asyncio.Future[Any] = asyncio.ensure_future(self._wake.wait())
            first: list[asyncio.Future[Any]] = [woken, *([lost] if lost else [])]
            try:
                await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
        was_set = self._wake.is_set()
        self._wake.clear()
        return was_set
