"""
The clients of all file systems, on the site's server: `harvest.clients`.

    message  ->  its blocks in the store  ->  the sources  ->  the agent gets its answer
    the sweep is complete  ->  ClientSweep, for screens and sinks
                           ->  the sources' gains go to the history, on the disk
    after [clients] detail_hours the sweeps of an hour are merged; after keep_days they are removed

A source's state is stored now and then (checkpoints.py), and later messages are replayed after a
restart: each gain is counted once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import Optional

import numpy

from iostats.base.config import Config
from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import StateError
from iostats.base.ids import Nid, Target
from iostats.harvest.checkpoints import Checkpoints
from iostats.harvest.clients.history import NO_SLACK, ClientSums, ClientTotals
from iostats.harvest.clients.history_rows import (
    collect_unstored,
    do_nothing,
    merge_hours,
    split_reading,
)
from iostats.harvest.clients.nids import KnownNids
from iostats.harvest.clients.node_hours import NodeHours
from iostats.harvest.clients.node_names import NodeNames
from iostats.harvest.clients.rates import (
    SILENT,
    SILENT_FOR_S,
    UNREPORTED,
    ClientSweep,
    complete_until,
    compute_rates,
    find_readers,
    list_columns,
    list_silent_servers,
)
from iostats.harvest.clients.source import ClientSource, find_takeovers
from iostats.harvest.clients.source_state import decode_source
from iostats.load.amounts import CLIENT_METRICS
from iostats.store.client_store import (
    FOR_EVER,
    ClientBlockRow,
    ClientStore,
    LoggedBlock,
    MarkedLoss,
    decode_row,
    encode_block,
)
from iostats.store.record_store import Store
from iostats.wire.messages.arrays import Integers
from iostats.wire.messages.clients import ClientBlockHead, ReceivedClients, decode_client_block
from iostats.wire.messages.clients_encoder import UNREADABLE

ClientsTotals = dict[tuple[str, Nid], ClientTotals]  # by file system and client
_Key = tuple[str, str, str]                     # storage server, file system, kind
Slack = tuple[float, float]
AddUp = Callable[[str, list[ClientSums], Slack], Generator[None, None, None]]

log = logging.getLogger(__name__)

_DAY_S = 86400.0
_MAX_UNSTORED = 64              # readings of a source: there are several after this server was down
_PARTS_AT_ONCE = 20             # parts in one step


class ClientHarvest:
    """
    The counts by client that the storage servers' agents report.

    Attributes:
        sources: {(storage server, file system, kind): ClientSource}.
        nids: {file system: KnownNids}.
        sweep: the last ClientSweep, or None if no agent reports clients.
        complete_until: the time up to which all sweeps have arrived: a longer pause has fewer of
        them.
        names: the NodeNames.
    """

    def __init__(self, store: Store, config: Config, now: Callable[[], float]) -> None:
        self._store, self._config, self._now = ClientStore(store), config, now
        self.names = NodeNames(config)

    def reload(self) -> bool:
        """
        Begin with the stored state; StateError.  True if some of it was damaged: then the agents
        have to begin new chains, with all of their clients.
        """
        self.sources: dict[_Key, ClientSource] = {}
        self.nids: dict[str, KnownNids] = {}
        self._gained = GainedSinceStart()           # by number, and numbers may change
        self.sweep: Optional[ClientSweep] = None
        self.complete_until = 0.0
        self._silent: dict[str, list[str]] = {}
        self._is_due = False
        self._merging: Iterator[bool] = do_nothing()
        self._node_hours = NodeHours(self._store, self._add_up, self.names.find_node)
        self._check_at = 0.0  # time.monotonic() of the next check for old rows
        self._open_queries = set[int]()                    # numbers of queries in progress
        self._logged_left_out: dict[str, int] = {}
        for name, number, nid in self._store.nids():
            if isinstance(name, str) and isinstance(number, int) and isinstance(nid, str):
                self._get_nids(name).put(number, Nid(nid))
        self._numbered = {name: len(nids) for name, nids in self.nids.items()}
        self._store.put_damaged_aside([*self.nids])
        saved = self._store.sources()
        states = self._store.decode_rows("client_sources", saved, lambda state: state)
        is_damaged = len(states) < len(saved)
        for key in states:
            try:
                self.sources[key] = decode_source(
                    ClientSource(key[0], key[1], key[2], self._get_nids(key[1])), states[key])
            except Exception as error:              # damaged bytes can raise any error
                self._store.put_aside("client_sources", key, error)
                self._get_source(key).break_off(self._find_known_end(key[1]))
                is_damaged = True
        self._checkpoints = Checkpoints(self._store, self.sources, {
            key: len(saved[key]) for key in self.sources if key in saved})
        is_damaged |= self._replay()
        # The state of the server that lost a target may be older.
        for source in self.sources.values():
            find_takeovers(source, self._list_sources(source.file_system))
        for nids in self.nids.values():
            self.names.add_nids(nids.names)
        return is_damaged

    def _replay(self) -> bool:
        """Add the messages since the checkpoints; True if one of them was damaged."""
        is_damaged = False
        for number, logged in self._store.client_blocks():
            key = (logged.node, logged.file_system, logged.kind)
            try:
                if not all(isinstance(name, str) for name in key):
                    raise ValueError("the name of its source is not text")
                row = decode_row(logged.body)
                if row.kept:
                    self._get_source(key).drop_stored(row.kept)
                else:
                    source = self._get_source(key)
                    if source.add_block(decode_client_block(row.packed), row.slot, row.every_s,
                                        row.full,
                                        row.ahead_s, row.is_new, row.arrived):
                        find_takeovers(source, self._list_sources(key[1]))
                self._checkpoints.add(key, len(logged.body))
            except Exception as error:
                self._store.put_aside("client_blocks", (number,), error)
                is_damaged = True
                is_named = all(isinstance(name, str) for name in key)
                for source in [self._get_source(key)] if is_named else [*self.sources.values()]:
                    source.break_off(self._find_known_end(source.file_system))
        return is_damaged

    def _find_known_end(self, file_system: str) -> float:
        """
        The time up to which the history certainly has everything from a source with damaged data.
        """
        latest = self._store.query_latest_sweep_end(self._now() + _DAY_S, file_system)
        return 0.0 if latest is None else latest - _DAY_S

    def _get_nids(self, file_system: str) -> KnownNids:
        nids = self.nids.get(file_system)
        if nids is None:
            nids = self.nids[file_system] = KnownNids()
        return nids

    def _get_source(self, key: _Key) -> ClientSource:
        source = self.sources.get(key)
        if source is None:
            source = self.sources[key] = ClientSource(*key, self._get_nids(key[1]))
        return source

    # -- messages --------------------------------------------------------------------------------

    def receive(self, received: ReceivedClients, node: str, slot: float, ahead_s: float,
                first: float = 0.0) -> None:
        """
        Add a message with the right place in its chain; on the disk with the next commit.

        `first`: the first sweep of this agent that arrived here.
        """
        head = received.head
        first -= head.every_s / 2
        rows = [ClientBlockRow(slot, head.every_s, head.full, ahead_s,
                               self._is_new(node, block.head, ahead_s, first), packed,
                               arrived=self._now() if head.read_ahead_s is None else None)
                for block, packed in received.blocks]
        logged = [LoggedBlock(node, block.head.file_system, block.head.kind, encode_block(row))
                  for (block, _), row in zip(received.blocks, rows)]
        self._store.add_blocks(logged)
        for (block, _), row, (*names, body) in zip(received.blocks, rows, logged):
            key = names[0], names[1], names[2]
            self._checkpoints.add(key, len(body))
            source = self._get_source(key)
            count_before = len(source.nids)
            if source.add_block(block, slot, head.every_s, head.full, ahead_s, row.is_new,
                                row.arrived):
                self._gained.add(source)
                for loser, loss in find_takeovers(source, self._list_sources(key[1])):
                    self._store.mark(key[1], loser, loss)
                    source.mark_rates(loss)
            self.names.add_nids(source.nids.names[count_before:])
            if len(source.unstored) >= _MAX_UNSTORED:
                self._is_due = True
            self._log_omitted(key[1])

    def _is_new(self, node: str, head: ClientBlockHead, ahead_s: float, first: float) -> bool:
        """
        Whether none of these amounts can be in the history before their source is known: data that
        is lost from a store is lost together with the states of agents (store/repair.py).
        """
        source = self.sources.get((node, head.file_system, head.kind))
        return (source is None or source.read_from is None) and head.began is not None and (
            head.began - ahead_s >= first
            or self._store.query_latest_sweep_end(FOR_EVER, head.file_system) is None)

    def _log_omitted(self, file_system: str) -> None:
        nids = self.nids[file_system]
        if nids.left_out >= max(1, 2 * self._logged_left_out.get(file_system, 0)):
            self._logged_left_out[file_system] = nids.left_out
            log.warning("%s: more than %s clients: %s or more are left out", file_system,
                        len(nids), nids.left_out, extra={"file_system": file_system})

    def find_reader(self, file_system: str, target: str) -> str:
        """The storage server that read this target's exports last; "" for none."""
        reader = find_readers(self._list_sources(file_system)).get(Target(target))
        return "" if reader is None else reader.node

    def _list_sources(self, file_system: str) -> list[ClientSource]:
        return [source for (_, name, _), source in self.sources.items() if name == file_system]

    # -- sweeps ----------------------------------------------------------------------------------

    def end_sweep(self, slot: float, every_s: float, complete: bool,
                  pause_of: Callable[[str], float],
                  servers: Mapping[str, Iterable[str]] | None = None) -> None:
        """Make the ClientSweep of `slot`; `servers`: {file system: servers with targets of it}."""
        rates_by_file_system = {}
        for name, nids in self.nids.items():
            sources = self._list_sources(name)
            self._silent[name] = list_silent_servers((servers or {}).get(name, ()), sources,
                                                     self._now())
            rates = compute_rates(nids, sources, slot, self._now(), pause_of,
                                  self._gained.get_totals(name, len(nids)), self._silent[name])
            if rates is not None:
                rates_by_file_system[name] = rates
        self.sweep = ClientSweep(slot, every_s, complete,
                                 rates_by_file_system) if rates_by_file_system else None
        self.complete_until = complete_until(self.sources.values(), slot, self._now(), pause_of)
        self._is_due = True

    def step(self) -> bool:
        """Do some of the due work on the disk; False when none is left.  StateError."""
        if self._is_due:
            self._store_gains()
            self._is_due = False
        if self._checkpoints.step():
            return True
        if self._open_queries:  # they read the rows that would be removed
            return False
        if next(self._merging, None):
            return True
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + 60.0
            merging = merge_hours(self._store, self._config.clients.detail_hours)
            self._merging = merging if self.sweep is None else chain(self._node_hours.steps(
                self.nids, self.sweep.every_s, self._now()), merging)
            self._drop_old()
            return True
        return False

    def _store_gains(self) -> None:
        """Store the sources' gains in the history."""
        unstored = [(logged_block, len(logged_block.unstored))
                    for logged_block in self.sources.values() if logged_block.unstored]
        if not unstored:
            return
        parts, losses = collect_unstored(source for source, _ in unstored)
        logged = [LoggedBlock(source.node, source.file_system, source.kind, encode_block(
            ClientBlockRow(kept=count))) for source, count in unstored]
        numbered = {name: len(known) for name, known in self.nids.items()}
        self._store.store_history(
            [(name, number, self.nids[name].names[number]) for name, end in numbered.items()
             for number in range(self._numbered.get(name, 0), end)],
            parts, losses, logged)
        self._numbered = numbered
        for (source, count), logged_block in zip(unstored, logged):
            source.drop_stored(count)
            self._checkpoints.add((source.node, source.file_system, source.kind),
                                  len(logged_block.body))

    def _drop_old(self) -> None:
        """Remove the history before [clients] keep_days."""
        keep_s = _DAY_S * float(self._config.clients.keep_days)
        self._store.delete_history(self._store.now() - keep_s, self.nids)
        expired = [key for key, source in self.sources.items()
                   if source.read_until is not None and self._now() - source.read_until > keep_s
                   + _DAY_S]
        if expired:
            self._store.delete_sources(expired)
            for key in expired:
                del self.sources[key]
                self._checkpoints.drop(key)
        for source in self.sources.values():
            source.drop_before(self._now() - keep_s - _DAY_S)

    def close(self) -> None:
        """Store the gains and checkpoints before an orderly end."""
        try:
            self._store_gains()
        except StateError as error:
            log.error("%s", error)
        self._checkpoints.close()

    # -- queries ---------------------------------------------------------------------------------

    def find_latest_sweep_end(self, moment: float) -> Optional[float]:
        """The end of the last sweep that had been read at this moment; None without one."""
        return self._store.query_latest_sweep_end(moment)

    def list_losses(self, node: str, file_system: str, since: float) -> list[MarkedLoss]:
        """The losses of a storage server in a file system that end after `since`."""
        return [loss for name, loss in self._store.losses(file_system, since, FOR_EVER)
                if name == node] + [
            loss for key, source in self.sources.items() if key[:2] == (node, file_system)
            for reading in source.unstored for loss in reading.losses if loss.until > since]

    def swept_until(self) -> Optional[float]:
        """
        The time up to which all clients of active storage servers were read; None without one.
        """
        now = self._now()
        read_times = [reader.read_from for name in self.nids
                      for reader in find_readers(self._list_sources(name)).values()
                      if reader.read_from is not None and now - reader.slot < SILENT_FOR_S]
        return min(read_times, default=None)

    def moments(self, since: float, until: float,
                file_system: str = "") -> list[tuple[float, float]]:
        """
        Return [(since, until)] of the sweeps, or hours, that overlap this time, sorted: a gain may
        be anywhere in its sweep.
        """
        return self._store.spans(file_system, since, until)

    def between(self, since: float, until: float, file_system: str = "",
                nids: Iterable[str] | None = None,
                slack_s: tuple[float, float] = NO_SLACK
                ) -> Generator[None, None, ClientsTotals]:
        """
        Return {(file system, NID): ClientTotals} of client I/O between two moments, by the site's
        clock; in steps.

        `nids`: only these, if the file system knows them; None: all with I/O.
        `slack_s`: a reading this close to `since`, or `until`, counts as made at it.  With a
        sweep's moment, and half the pause between two sweeps, no reading is at that edge.
        """
        totals: ClientsTotals = {}
        nids_of_query = None if nids is None else list(dict.fromkeys(nids))
        question = max(self._open_queries, default=0) + 1
        self._open_queries.add(question)
        try:
            for name in [file_system] if file_system else [*self.nids]:
                nids_here = self.nids.get(name)
                if nids_here is None:
                    continue
                sums = ClientSums(since, until, len(nids_here), slack_s)
                yield from self._add_up(name, [sums], slack_s)
                numbers = sums.list_clients_with_data() if nids_of_query is None else [
                    number for nid in nids_of_query if (number := nids_here.find(Nid(nid))) >= 0]
                for at, number in enumerate(numbers):
                    if at % ITEMS_PER_STEP == 0:
                        yield
                    if number < len(sums.low):
                        nid = nids_here.names[number] or Nid(f"#{number}")
                        totals[name, nid] = sums.totals(number)
        finally:
            self._open_queries.discard(question)
        return totals

    def between_each(self, questions: list[tuple[float, float, list[Nid]]]
                     ) -> Generator[None, None, list[ClientsTotals]]:
        """Like `between`, for each of [(since, until, NIDs)]: the disk is read once for all."""
        question = max(self._open_queries, default=0) + 1
        self._open_queries.add(question)
        try:
            return (yield from answer_all(self.nids, questions, self._add_up))
        finally:
            self._open_queries.discard(question)

    def _add_up(self, name: str, sums_of_queries: list[ClientSums], slack_s: tuple[float, float]
                ) -> Generator[None, None, None]:
        """Add the I/O on a file system to each of these sums, also unstored I/O."""
        nids = self.nids[name]
        since = min(sums.began for sums in sums_of_queries)
        until = max(sums.ended for sums in sums_of_queries)
        rows = self._store.list_gain_rows(name, since, until)
        new = [(source, reading) for source in self._list_sources(name)
               for reading in source.unstored]
        parts = [part for source, reading in new for _, part in split_reading(source, reading)]
        losses = [(source.node, loss) for source, reading in new for loss in reading.losses]
        for sums in sums_of_queries:
            for part in parts:
                sums.add(part)
        for at, row in enumerate(rows):
            history_part = self._store.part(row, name)
            if history_part is not None:
                for sums in sums_of_queries:
                    sums.add(history_part)
            if at % _PARTS_AT_ONCE == 0 or len(sums_of_queries) > _PARTS_AT_ONCE:
                yield
        losses += self._store.losses(name, since, until)
        for sums in sums_of_queries:
            for node, loss in losses:
                sums.mark_loss(loss, node, name, nids)
            if sums.began + slack_s[0] < self._now() - _DAY_S * (
                    days := self._config.clients.keep_days):
                sums.mark(-1, f"client activity is stored for {days} day{'s' * (days != 1)}")
            mark_unread(sums, self._list_sources(name), self._silent.get(name, ()), slack_s)
            yield


class GainedSinceStart:
    """The gains of all complete readings, added up by file system and client."""

    def __init__(self) -> None:
        self._totals: dict[str, Integers] = {}

    def add(self, source: ClientSource) -> None:
        """Add a source's reading that has ended."""
        totals = self.get_totals(source.file_system, len(source.nids))
        columns = list_columns(source.kind)
        for entry in source.last.entries if source.last is not None else ():
            totals[entry.numbers[:, None], columns] += entry.gains      # a client is there once

    def get_totals(self, file_system: str, length: int) -> Integers:
        """int64 [client, of CLIENT_METRICS] of the first `length` clients, or more."""
        totals = self._totals.get(file_system)
        if totals is None or len(totals) < length:
            longer = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
            if totals is not None:
                longer[:len(totals)] = totals
            totals = self._totals[file_system] = longer
        return totals


def answer_all(nids: Mapping[str, KnownNids], questions: list[tuple[float, float, list[Nid]]],
               add_up: AddUp) -> Generator[None, None, list[ClientsTotals]]:
    """
    Return [{(file system, NID): ClientTotals}] for each of [(since, until, NIDs)], in steps.

    `add_up(file system, [ClientSums], slack)`: adds up all of them in one pass.
    """
    answers: list[ClientsTotals] = [{} for _ in questions]
    for name, nids_here in [*nids.items()] if questions else ():
        numbers_of_queries = [sorted({number for nid in nids_of_query
                                      if (number := nids_here.find(Nid(nid))) >= 0})
                              for _, _, nids_of_query in questions]
        sums_of_queries = [ClientSums(since, until, len(nids_here), NO_SLACK, only)
                           for (since, until, _), only in zip(questions, numbers_of_queries)]
        yield from add_up(name, sums_of_queries, NO_SLACK)
        for totals, sums, numbers in zip(answers, sums_of_queries, numbers_of_queries):
            totals.update(((name, nids_here.names[number] or Nid(f"#{number}")),
                           sums.totals(number))
                          for number in numbers)
            yield
    return answers


def mark_unread(sums: ClientSums, sources: list[ClientSource], silent: Iterable[str],
                slack_s: Slack) -> None:
    """Mark the time between the query's beginning and end that was not read."""
    since, until = sums.began + slack_s[0], sums.ended - slack_s[1]
    for target, source in find_readers(sources).items():
        began = min((other_source.began_of[target] for other_source in sources
                     if target in other_source.began_of),
                    default=source.first)
        if began is None or began > since:
            sums.mark(-1, f"{source.node}: its clients were not read before")
        if source.whole.get(target, until) < until and not source.is_read(target):
            sums.mark(-1, f"{source.node}: {source.file_system}-{target}: {UNREPORTED}")
        if source.read_from is None or source.read_from < until:
            sums.mark(-1, f"{source.node}: its clients were not read up to then")
    for source in sources:
        for (target, nid), (began, _) in source.unread.items():
            sums.mark_loss(MarkedLoss(began, math.inf, target, nid, UNREADABLE), source.node,
                           source.file_system, source.nids)
    if sources and sources[0].nids.left_out:
        sums.mark(-1, f"more than {len(sources[0].nids)} clients: the others are left out")
    for node in silent:
        sums.mark(-1, f"{node}: {SILENT}")
