"""
One daemon: a connection that is made again and again, questions, and commands.

    connect -> ask all -> tell what is missing -> ask all -> ... wait -> ask the counter -> ...

A connection that is lost is made anew at once: whether the daemon is dead is seen by that, and not
by the loss.  Nothing here waits for another daemon.
"""

from __future__ import annotations

import asyncio
import time
from itertools import groupby

from iostats.base.errors import ConfigError, IostatsError, one_line
from iostats.ldms.control import asking
from iostats.ldms.control.authentication import authentication
from iostats.ldms.control.connection import Connection
from iostats.ldms.control.errors import (
    ControlError,
    NoAnswer,
    Nonsense,
    RefusedAuth,
    RefusedVersion,
    Unreachable,
)
from iostats.ldms.reconcile.heard import DOWN, HUNG
from iostats.ldms.service.told import CORRECTED, REFUSED
from iostats.ldms.statements.statement import as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.ldms.control.observed import Observed
    from iostats.ldms.reconcile.memory import Step
    from iostats.ldms.service.service import Service

# Nothing of these says that it does not run.
_RUNS = (RefusedAuth, RefusedVersion, Nonsense, ConfigError)
_IN_FLIGHT = 64                     # commands of one verb, sent before the first is answered
_FULL_LOOK_POLLS = 5                # the states of producers change without the counter
_LONGEST_PAUSE_S = 60.0             # before a command that was refused is tried again


class Link:
    """
    `is_settled`: it has all that is wanted of it; `wrong`: what it has not, one line each.
    """

    def __init__(self, service: Service, name: str):
        self.service, self.name = service, name
        self.endpoint = service.fleet.daemons[name].daemon.control
        self.is_settled = False
        self.wrong: list[str] = []
        self._wake = asyncio.Event()
        self._counter = -1                      # as it was after our last commands
        self._is_another = False                # another process than the one that we know
        self._was_seen = False
        self._refused: dict[str, tuple[float, float]] = {}      # {line: (try again at, pause)}

    def wake(self) -> None:
        """Something changed that may be of concern to this daemon."""
        self._wake.set()

    async def run(self) -> None:
        """Until it is cancelled, or the daemon has left the description and nothing of it."""
        settings, pause = self.service.settings, 0.0
        while not self._is_forgotten():
            error: ControlError | ConfigError | None
            try:
                async with self.service.connecting(self.name):
                    connection = await self._open()
            except (ControlError, ConfigError) as failure:
                self._lost(failure)
                pause = max(settings.poll_s, pause)
                await self._wait(pause)
                continue
            try:
                error = await self._care(connection)
            except ControlError as failure:
                error = failure
            except IostatsError as failure:     # what it answers is of no use
                error = Nonsense(connection.where, one_line(str(failure)))
            except Exception as failure:
                error = Nonsense(connection.where, "internal error; please report: "
                                 + one_line(repr(failure)))
            finally:
                connection.close()
            if isinstance(error, NoAnswer):
                self._lost(error)
            elif isinstance(error, _RUNS) or not self._was_seen:
                self._lost(error)
                await self._wait(settings.poll_s)
            else:
                self._was_seen = False

    def _is_forgotten(self) -> bool:
        return self.name not in self.service.fleet.daemons

    async def _open(self) -> Connection:
        settings = self.service.settings
        endpoint = self.endpoint
        if endpoint is None:
            raise ConfigError(f"{self.name}: the description has no endpoint by sock for it, so it "
                              f"cannot be asked")
        auth = endpoint.auth
        return await self.service.connect(
            endpoint.host, endpoint.port,
            authentication(auth.plugin, auth.conf) if auth else None,
            connect_within_s=settings.connect_within_s, answer_within_s=settings.answer_within_s)

    def _lost(self, error: IostatsError | None) -> None:
        self.is_settled = False
        state = HUNG if isinstance(error, NoAnswer) else DOWN
        is_alone, is_silent = isinstance(error, _RUNS), isinstance(error, Unreachable)
        if state == DOWN and not is_alone and not is_silent:
            self._is_another = True
        why = one_line(str(error)) if error else "the connection was lost"
        self.service.lost(self.name, state, why, is_alone, is_silent)

    async def _care(self, connection: Connection) -> ControlError | None:
        """As long as it answers; why it does not any more."""
        service, polls = self.service, 0
        by_hand = False
        asks_at = await self._look(connection)
        is_new = True                           # there may be something to tell
        while not connection.lost.done():
            if self._is_forgotten():
                return None
            sent = await self._tell(connection, by_hand) if is_new or not self.is_settled else 0
            by_hand = is_new = False
            if sent:
                asks_at = await self._look(connection)
                polls, is_new = -1, True        # producers connect in the meantime
                if sent > 0:
                    continue
            if await self._wait(asks_at - time.monotonic(), connection.lost):
                is_new = True
                if time.monotonic() < asks_at:  # who is woken again and again is asked as well
                    continue
            polls += 1
            asks_at = time.monotonic() + service.pause_s(self.name)
            counter = await asking.config_counter(connection)
            if counter != self._counter or polls % _FULL_LOOK_POLLS == 0 \
                    or service.has_listens(self.name):
                by_hand = counter != self._counter
                await self._look(connection)
                is_new = True
        return connection.lost.result()

    async def _look(self, connection: Connection) -> float:
        """When the next question is due, by time.monotonic()."""
        asks_at = time.monotonic() + self.service.pause_s(self.name)
        observed: Observed = await asking.observed(
            connection, with_sets=self.service.is_sampler(self.name))
        restarted = (self._is_another or observed.config_counter < self._counter) \
            and self._counter >= 0
        if restarted:
            self._refused.clear()
        self._is_another, self._was_seen = False, True
        self._counter = observed.config_counter
        self.service.heard(self.name, observed, restarted)
        return asks_at

    async def _tell(self, connection: Connection, by_hand: bool) -> int:
        """
        Tell the daemon what is missing.

        How many commands were carried out; -1: all that were sent were refused; 0: none was sent.
        """
        now = time.monotonic()
        steps = self.service.steps(self.name)
        beyond = self.service.fleet.beyond_us(self.name)
        self.is_settled = not steps and not beyond
        self.wrong = [*beyond, *(one_line(f"{as_line(step.statement)[:160]} ({step.why})")
                                 for _, step in steps[:5])][:5]
        if not steps:
            self._refused.clear()
            return 0
        due = [(group, step) for group, step in steps
               if self._refused.get(as_line(step.statement), (now,))[0] <= now]
        accepted = refused = 0
        first = ""
        for _, some in groupby(due, lambda each: (each[0], each[1].statement.verb)):
            waiting = list(some)
            while waiting:
                part, waiting = waiting[:_IN_FLIGHT], waiting[_IN_FLIGHT:]
                answers = await asyncio.gather(*(self._command(connection, group, step)
                                                 for group, step in part))
                accepted += answers.count(True)
                refused += answers.count(False)
                first = first or as_line(part[0][1].statement)
                if None in answers:             # it is not ours any more
                    return accepted or (-1 if refused else 0)
        # The description is not new to this daemon: what it lacked, it had lost.
        if by_hand and accepted and self.service.is_quiet():
            self.service.tell(CORRECTED, due[0][0], self.name, one_line(
                f"{self.name} was changed by other hands; {accepted} "
                f"command{'s' * (accepted != 1)} made it as described: {first}"), accepted)
        return accepted or (-1 if refused else 0)

    async def _command(self, connection: Connection, group: str, step: Step) -> bool | None:
        """Whether it was accepted; None: it was not sent."""
        if not self.service.may_command(group):
            return None
        line = as_line(step.statement)
        reply = await connection.command(step.statement)
        heard = self.service.fleet.daemons[self.name]
        if heard.memory.told(step, reply.errno):
            self.service.count_command(self.name, step.statement.verb)
            self._refused.pop(line, None)
            return True
        _, pause = self._refused.get(line, (0.0, 0.0))
        pause = min(max(2 * pause, 2.0), _LONGEST_PAUSE_S)
        self._refused[line] = (time.monotonic() + pause, pause)
        if pause == 2.0:
            self.service.tell(REFUSED, group, self.name, one_line(
                f"{self.name} refused: {line[:200]}: errno {reply.errno} {reply.text[:200]}"
                f"{heard.release_hint}"))
        return False

    async def _wait(self, seconds: float, lost: asyncio.Future[ControlError | None] | None = None
                    ) -> bool:
        """Whether it was woken before the time was over."""
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
