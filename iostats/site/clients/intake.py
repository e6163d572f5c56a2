"""
The clients of all file systems, on the site's server: `harvest.clients`.

    message  ->  its blocks in the store  ->  the sources  ->  the agent is answered
    the sweep is complete  ->  ClientSweep, for screens and sinks
                           ->  what was gained leaves the sources for the history, on the disk
    after [clients] detail_hours the sweeps of an hour become one; after keep_days they go

A source's state is kept now and then (harvest_checkpoints.py), and what came since then is replayed
after a restart: each gain is counted once.
"""

from __future__ import annotations

import logging
import time

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import StateError
from iostats.site.clients.client_store import (
    FOR_EVER,
    ClientBlockRow,
    ClientStore,
    LoggedBlock,
    decoded_row,
    encoded_block,
)
from iostats.site.clients.gained import GainedSinceStart
from iostats.site.clients.history import NO_SLACK, ClientSums
from iostats.site.clients.keeping import merge_hours, nothing, parts_of, to_keep
from iostats.site.clients.nids import KnownNids
from iostats.site.clients.node_names import NodeNames
from iostats.site.clients.questions import mark_unread, of_each
from iostats.site.clients.rates import (
    GONE_S,
    ClientSweep,
    rates_of,
    readers_of,
    silent_of,
    told_until,
)
from iostats.site.clients.source import ClientSource, taken_over
from iostats.site.clients.source_state import decoded_source
from iostats.site.harvest_checkpoints import Checkpoints
from iostats.wire.messages.clients_decoder import decoded_client_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from typing import Optional

    from iostats.base.config import Config
    from iostats.site.clients.history import ClientTotals
    from iostats.site.clients.readings import MarkedLoss
    from iostats.site.store import Store
    from iostats.wire.messages.clients import ClientBlockHead, ReceivedClients

    _Key = tuple[str, str, str]                     # storage server, file system, kind

log = logging.getLogger("iostats")

_DAY_S = 86400.0
_MOST_UNKEPT = 64               # readings of a source: more than one comes after a time without us
_AT_ONCE = 20                   # parts in one step


class ClientHarvest:
    """
    What the storage servers' agents tell of their clients.

    Attributes:
        sources: {(storage server, file system, kind): ClientSource}.
        nids: {file system: KnownNids}.
        sweep: the last ClientSweep, or None where no agent tells of clients.
        told_until: the last moment of which it has all sweeps: a longer pause has fewer of them.
        names: the NodeNames.
    """

    def __init__(self, store: Store, config: Config, now: Callable[[], float]) -> None:
        self._store, self._config, self._now = ClientStore(store), config, now
        self.names = NodeNames(config)

    def reload(self) -> bool:
        """
        Begin with what the store says; StateError.  True where something of it was damaged: then
        the agents are to begin anew, with all of their clients.
        """
        self.sources: dict[_Key, ClientSource] = {}
        self.nids: dict[str, KnownNids] = {}
        self._gained = GainedSinceStart()           # by number, and some may get others
        self.sweep: Optional[ClientSweep] = None
        self.told_until = 0.0
        self._silent: dict[str, list[str]] = {}
        self._is_due, self._merging = False, nothing()
        self._look_at = 0.0                         # time.monotonic() of the next look for old rows
        self._asked = set[int]()                    # questions under way
        self._said: dict[str, int] = {}
        for name, number, nid in self._store.nids():
            if isinstance(name, str) and isinstance(number, int) and isinstance(nid, str):
                self._nids_of(name).put(number, nid)
        self._numbered = {name: len(known) for name, known in self.nids.items()}
        self._store.put_damaged_aside([*self.nids])
        saved = self._store.sources()
        found = self._store.understood("client_sources", saved, lambda state: state)
        is_damaged = len(found) < len(saved)
        for key in found:
            try:
                self.sources[key] = decoded_source(
                    ClientSource(key[0], key[1], key[2], self._nids_of(key[1])), found[key])
            except Exception as error:              # whatever these bytes do to zlib and msgspec
                self._store.put_aside("client_sources", key, error)
                self._source(key).break_off(self._known_until(key[1]))
                is_damaged = True
        self._checkpoints = Checkpoints(self._store, self.sources, {
            key: len(saved[key]) for key in self.sources if key in saved})
        is_damaged |= self._replay()
        for source in self.sources.values():        # the state of who lost a target may be older
            taken_over(source, self._sources_of(source.file_system))
        for known in self.nids.values():
            self.names.see(known.names)
        return is_damaged

    def _replay(self) -> bool:
        """Take what came since the checkpoints; was something of it damaged?"""
        is_damaged = False
        for number, logged in self._store.client_blocks():
            key = (logged.node, logged.file_system, logged.kind)
            try:
                if not all(isinstance(name, str) for name in key):
                    raise ValueError("the name of its source is no text")
                row = decoded_row(logged.body)
                if row.kept:
                    self._source(key).forget_kept(row.kept)
                else:
                    source = self._source(key)
                    if source.take(decoded_client_block(row.packed), row.slot, row.every, row.full,
                                   row.ahead, row.is_new):
                        taken_over(source, self._sources_of(key[1]))
                self._checkpoints.add(key, len(logged.body))
            except Exception as error:
                self._store.put_aside("client_blocks", (number,), error)
                is_damaged = True
                is_named = all(isinstance(name, str) for name in key)
                for source in [self._source(key)] if is_named else [*self.sources.values()]:
                    source.break_off(self._known_until(source.file_system))
        return is_damaged

    def _known_until(self, file_system: str) -> float:
        """Up to when the history certainly has all that a source has told that was damaged."""
        latest = self._store.latest_until(self._now() + _DAY_S, file_system)
        return 0.0 if latest is None else latest - _DAY_S

    def _nids_of(self, file_system: str) -> KnownNids:
        found = self.nids.get(file_system)
        if found is None:
            found = self.nids[file_system] = KnownNids()
        return found

    def _source(self, key: _Key) -> ClientSource:
        source = self.sources.get(key)
        if source is None:
            source = self.sources[key] = ClientSource(*key, self._nids_of(key[1]))
        return source

    # -- messages --------------------------------------------------------------------------------

    def take(self, taken: ReceivedClients, node: str, slot: float, ahead: float,
             first: float = 0.0) -> None:
        """
        Take a message, whose place in its chain is right; on the disk with the next commit.

        `first`: the first sweep of this agent that was heard of.
        """
        head = taken.head
        first -= head.every / 2
        rows = [ClientBlockRow(slot, head.every, head.full, ahead,
                               self._is_new(node, block.head, ahead, first), kept)
                for block, kept in taken.blocks]
        logged = [LoggedBlock(node, block.head.file_system, block.head.kind, encoded_block(row))
                  for (block, _), row in zip(taken.blocks, rows)]
        self._store.add_blocks(logged)
        for (block, _), row, (*key, body) in zip(taken.blocks, rows, logged):
            self._checkpoints.add(tuple(key), len(body))
            source = self._source((key[0], key[1], key[2]))
            known = len(source.nids)
            if source.take(block, slot, head.every, head.full, ahead, row.is_new):
                self._gained.add(source)
                for loser, loss in taken_over(source, self._sources_of(key[1])):
                    self._store.mark(key[1], loser, loss)
                    source.mark_rates(loss)
            self.names.see(source.nids.names[known:])
            if len(source.unkept) >= _MOST_UNKEPT:
                self._is_due = True
            self._say_left_out(key[1])

    def _is_new(self, node: str, head: ClientBlockHead, ahead: float, first: float) -> bool:
        """
        Whether nothing of these amounts can be in the history before their source is known: what
        is lost from a store is lost with what is known of agents (store_repair.py).
        """
        known = self.sources.get((node, head.file_system, head.kind))
        return (known is None or known.read_from is None) and head.began is not None and (
            head.began - ahead >= first
            or self._store.latest_until(FOR_EVER, head.file_system) is None)

    def _say_left_out(self, file_system: str) -> None:
        known = self.nids[file_system]
        if known.left_out >= max(1, 2 * self._said.get(file_system, 0)):
            self._said[file_system] = known.left_out
            log.warning("%s: more than %s clients: %s or more are left out", file_system,
                        len(known), known.left_out)

    def reader_of(self, file_system: str, target: str) -> str:
        """The storage server that has read this target's exports last; ""."""
        found = readers_of(self._sources_of(file_system)).get(target)
        return "" if found is None else found.node

    def _sources_of(self, file_system: str) -> list[ClientSource]:
        return [one for (_, name, _), one in self.sources.items() if name == file_system]

    # -- sweeps ----------------------------------------------------------------------------------

    def end_sweep(self, slot: float, every: float, complete: bool,
                  pause_of: Callable[[str], float],
                  servers: Mapping[str, Iterable[str]] | None = None) -> None:
        """Make the ClientSweep of `slot`; `servers`: {file system: those that have targets}."""
        found = {}
        for name, nids in self.nids.items():
            sources = self._sources_of(name)
            self._silent[name] = silent_of((servers or {}).get(name, ()), sources, self._now())
            rates = rates_of(nids, sources, slot, self._now(), pause_of,
                             self._gained.of(name, len(nids)), self._silent[name])
            if rates is not None:
                found[name] = rates
        self.sweep = ClientSweep(slot, every, complete, found) if found else None
        self.told_until = told_until(self.sources.values(), slot, self._now(), pause_of)
        self._is_due = True

    def step(self) -> bool:
        """Do some of what there is to do, on the disk; False when there is no more.  StateError."""
        if self._is_due:
            self._keep()
            self._is_due = False
        if self._checkpoints.step():
            return True
        if self._asked:                             # they read the rows that would go
            return False
        if next(self._merging, None):
            return True
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + 60.0
            self._merging = merge_hours(self._store, self._config["clients.detail_hours"])
            self._forget()
            return True
        return False

    def _keep(self) -> None:
        """What was gained goes to the history."""
        kept = [(one, len(one.unkept)) for one in self.sources.values() if one.unkept]
        if not kept:
            return
        parts, losses = to_keep(source for source, _ in kept)
        logged = [LoggedBlock(source.node, source.file_system, source.kind, encoded_block(
            ClientBlockRow(kept=count))) for source, count in kept]
        numbered = {name: len(known) for name, known in self.nids.items()}
        self._store.keep_history(
            [(name, number, self.nids[name].names[number]) for name, end in numbered.items()
             for number in range(self._numbered.get(name, 0), end)],
            parts, losses, logged)
        self._numbered = numbered
        for (source, count), one in zip(kept, logged):
            source.forget_kept(count)
            self._checkpoints.add((source.node, source.file_system, source.kind), len(one.body))

    def _forget(self) -> None:
        """Remove what is older than [clients] keep_days."""
        keep_s = _DAY_S * float(self._config["clients.keep_days"])
        self._store.forget_history(self._store.now() - keep_s)
        gone = [key for key, one in self.sources.items()
                if one.read_until is not None and self._now() - one.read_until > keep_s + _DAY_S]
        if gone:
            self._store.forget_sources(gone)
            for key in gone:
                del self.sources[key]
                self._checkpoints.drop(key)
        for one in self.sources.values():
            one.drop_before(self._now() - keep_s - _DAY_S)

    def close(self) -> None:
        """Before an orderly end."""
        try:
            self._keep()
        except StateError as error:
            log.error("%s", error)
        self._checkpoints.close()

    # -- questions -------------------------------------------------------------------------------

    def latest_before(self, moment: float) -> Optional[float]:
        """The end of the last sweep that had been read at this moment; None: there is none."""
        return self._store.latest_until(moment)

    def losses_of(self, node: str, file_system: str, since: float) -> list[MarkedLoss]:
        """What may be missing of a storage server in a file system, until after `since`."""
        return [loss for name, loss in self._store.losses(file_system, since, FOR_EVER)
                if name == node] + [
            loss for key, source in self.sources.items() if key[:2] == (node, file_system)
            for reading in source.unkept for loss in reading.losses if loss.until > since]

    def swept_until(self) -> Optional[float]:
        """The moment up to which all clients were read, of all that are read; None for none."""
        now = self._now()
        found = [one.read_from for name in self.nids
                 for one in readers_of(self._sources_of(name)).values()
                 if one.read_from is not None and now - one.slot < GONE_S]
        return min(found, default=None)

    def moments(self, since: float, until: float,
                file_system: str = "") -> list[tuple[float, float]]:
        """
        [(since, until)] of the sweeps, or hours, that reach into this time, sorted: what is gained
        in one lies anywhere in it.
        """
        return self._store.spans(file_system, since, until)

    def between(self, since: float, until: float, file_system: str = "",
                nids: Iterable[str] | None = None,
                slack_s: tuple[float, float] = NO_SLACK
                ) -> Generator[None, None, dict[tuple[str, str], ClientTotals]]:
        """
        {(file system, NID): ClientTotals} of what clients did between two moments, by the site's
        clock; in steps.

        `nids`: these, as far as the file system knows them; None: all with something in it.
        `slack_s`: a reading that is up to so far from `since`, or `until`, counts as made at it.
        With a sweep's moment, and half the pause between two sweeps, nothing is at that edge.
        """
        found: dict[tuple[str, str], ClientTotals] = {}
        wanted = None if nids is None else list(dict.fromkeys(nids))
        question = max(self._asked, default=0) + 1
        self._asked.add(question)
        try:
            for name in [file_system] if file_system else [*self.nids]:
                known = self.nids.get(name)
                if known is None:
                    continue
                sums = ClientSums(since, until, len(known), slack_s)
                yield from self._add_up(name, [sums], slack_s)
                numbers = sums.having() if wanted is None else [
                    number for nid in wanted if (number := known.find(nid)) >= 0]
                for at, number in enumerate(numbers):
                    if at % AT_ONCE == 0:
                        yield
                    if number < len(sums.low):
                        found[name, known.names[number] or f"#{number}"] = sums.totals(number)
        finally:
            self._asked.discard(question)
        return found

    def each_between(self, questions: list[tuple[float, float, list[str]]]
                     ) -> Generator[None, None, list[dict[tuple[str, str], ClientTotals]]]:
        """
        As `between`, of each of [(since, until, NIDs)]: what is on the disk is read once for all.
        """
        question = max(self._asked, default=0) + 1
        self._asked.add(question)
        try:
            return (yield from of_each(self.nids, questions, self._add_up))
        finally:
            self._asked.discard(question)

    def _add_up(self, name: str, several: list[ClientSums], slack_s: tuple[float, float]
                ) -> Generator[None, None, None]:
        """Add to each of these what there is of a file system, also what is not on the disk yet."""
        known = self.nids[name]
        since, until = min(one.began for one in several), max(one.ended for one in several)
        rows = self._store.part_rows(name, since, until)
        new = [(source, reading) for source in self._sources_of(name) for reading in source.unkept]
        parts = [part for source, reading in new for _, part in parts_of(source, reading)]
        losses = [(source.node, loss) for source, reading in new for loss in reading.losses]
        for sums in several:
            for part in parts:
                sums.add(part)
        for at, row in enumerate(rows):
            one = self._store.part(row, name)
            if one is not None:
                for sums in several:
                    sums.add(one)
            if at % _AT_ONCE == 0 or len(several) > _AT_ONCE:
                yield
        losses += self._store.losses(name, since, until)
        for sums in several:
            for node, loss in losses:
                sums.mark_loss(loss, node, name, known)
            if sums.began + slack_s[0] < self._now() - _DAY_S * (
                    days := self._config["clients.keep_days"]):
                sums.mark(-1, f"what clients did is kept for {days} day{'s' * (days != 1)}")
            mark_unread(sums, self._sources_of(name), self._silent.get(name, ()), slack_s)
            yield
