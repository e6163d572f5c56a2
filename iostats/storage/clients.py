"""
I/O of each client at the targets of this storage server, from their exports, sweep by sweep.

    exports/NID/stats of each target  --client_table.py-->  what each client gained
        --sums over the targets, since the epoch began-->  a message with the clients that have news

An epoch begins where the earlier state is unknown: with the first reading, and where the state on
the disk (client_state.py) is missing or damaged.  The counts in the files at that time belong to no
client; from then on every number grows by the client's I/O, and where some of it may be missing, a
loss reports it.  The state is on the disk before a reading is sent, so that an agent that is
killed loses nothing: the next one continues from the last sweep.

What clients did while a file or a target could not be read is counted once it can be, and each
message names those that cannot be read (`unread`): so the site's server knows since when that was.
"""

from __future__ import annotations

import os
import time

from iostats.base import private_files
from iostats.base.errors import StateError, sanitize
from iostats.base.ids import Target
from iostats.node import identity as this_node
from iostats.storage import client_state
from iostats.storage.client_table import ClientTable
from iostats.storage.nid_sums import FIELDS, NidSums
from iostats.storage.targets import LocalTarget, find_exports, is_there, read_instance
from iostats.wire.messages.clients_encoder import (
    LEFT,
    MOST_LOSSES,
    RESTARTED,
    UNREADABLE,
    encode_clients,
    make_block_head,
    merge_losses,
)
from iostats.wire.messages.sweep_encoder import LONGEST_WHY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.storage.schedule import Pace, SweepClock
    from iostats.wire.messages.clients_encoder import SentLoss
    from iostats.wire.messages.sweep_encoder import SweepMessages

    Key = tuple[str, str]                      # (file system, "OST" or "MDT", or a target's name)

STATE = "clients.state"                        # in [harvest] spool_dir
MOST_KNOWN = 200_000                           # NIDs of a file system; then another epoch begins
_STEADY_S = 0.5                    # two clocks of a machine between two sweeps
_TOO_LONG = 3                                  # sweeps in a row


class Clients:
    """The clients of one storage server, and their amounts in this epoch.

    Args:
        path: of the state; `file_systems`: the choice of these, [] for all.
        clock: the agent's; `wall_ns`: that of the kernel, which start_time is of.
        say: gets a line, and what it is about where the line has numbers.

    Attributes:
        epoch: 16 hex digits.
        is_on: exports are read.
        cpu_s: seconds of CPU that the last reading took.
    """

    def __init__(self, path: str, file_systems: Sequence[str], clock: SweepClock, pace: Pace,
                 emit: Callable[..., None], wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._path, self._file_systems = path, list(file_systems)
        self._clock, self._pace, self._emit, self._wall_ns = clock, pace, emit, wall_ns
        self._since_boot = clock.steady
        self._boot_id = this_node.read_boot_id()
        self._chosen_before: list[str] | None = None       # until the next reading is whole
        self.is_on, self.cpu_s, self._why_off, self._too_long = True, 0.0, "", 0
        self._begin()
        self._load()

    def _begin(self) -> None:
        """Begin a new epoch."""
        self.epoch = os.urandom(8).hex()
        self._tables: dict[Key, ClientTable] = {}
        self._sums: dict[Key, NidSums] = {}
        # Since when these are added up, s since the boot; None: since an earlier one.
        self._began: dict[Key, float | None] = {}
        self._is_first, self._is_whole = True, True
        self._swept_at, self._swept_ns = 0.0, (0, 0)
        self._swept_since_boot: float | None = None
        self._heads: list[dict[str, Any]] = []             # of this sweep's blocks
        # Losses that the site's server may not have, and those that it has; None: not known.
        self._unsent: dict[Key, list[SentLoss]] = {}
        self._sent: dict[Key, list[SentLoss]] | None = {}
        self._is_elsewhere = False                         # another server is asked

    def choose(self, file_systems: Sequence[str]) -> None:
        """Select the file systems to read from the next reading on, [] for all.

        File systems in both lists continue.  Earlier counts of an added one are not reported; if it
        was read before in this epoch, a new epoch begins, as its I/O since then is unknown.
        """
        before, self._file_systems = self._file_systems, list(file_systems)
        if self._chosen_before is None:
            self._chosen_before = before
        known = {name for name, _ in self._sums}
        if any(name in known and not _is_chosen(name, before)
               and _is_chosen(name, self._file_systems) for name in known):
            self._emit("a file system is read again: clients' amounts restart")
            self._begin()

    def _is_new(self, file_system: str) -> bool:
        """Whether a target is read for the first time since its file system was selected."""
        return self._is_first or (self._chosen_before is not None
                                  and not _is_chosen(file_system, self._chosen_before))

    # -- reading

    def read(self, targets: Sequence[LocalTarget]) -> None:
        """Read the exports of `targets`; a failure at one target does not affect the others."""
        if not self.is_on:
            self._leave_out(targets)
            return
        self._is_whole = False
        try:
            if self._is_elsewhere:
                self._begin_at_another_server()
            self._read(targets)
        except Exception as error:
            self._emit(f"internal error; please report: {error!r}; clients' amounts restart")
            self._begin()

    def _read(self, targets: Sequence[LocalTarget]) -> None:
        began = time.thread_time()
        if any(len(sums.rows) > MOST_KNOWN for sums in self._sums.values()):
            self._emit(f"more than {MOST_KNOWN} clients were seen: their amounts restart")
            self._begin()
        swept_at, wall_ns, since_boot = self._clock.now(), self._wall_ns(), self._since_boot()
        losses: dict[Key, list[SentLoss]] = {}
        parts: dict[Key, dict[str, Any]] = {}
        here = {(target.file_system, target.name) for target in targets}
        for key in sorted(self._tables.keys() - here):
            table = self._tables[key]
            # A listing that fails, or races with another target's end, shows less.
            if _is_chosen(key[0], self._file_systems) and is_there(table.directories):
                targets = [*targets, LocalTarget(*key, table.directories, None)]
                continue
            del self._tables[key]
            self._add_losses(losses, key, table, [("", LEFT, None)], swept_at)
        for target in targets:
            key = target.file_system, target.name
            part = parts.setdefault(_make_key(key), {
                **_make_empty_part(self._clock.now()),
                "since_boot": (self._boot_id, self._clock.steady())})
            self._read_target(key, target, part, losses)
            part["until"] = self._clock.now()
        self._heads = []
        for key in sorted({*parts, *losses, *self._sums}):
            part = parts.get(key) or _make_empty_part(swept_at)
            new_losses = losses.get(key, [])
            self._unsent[key] = merge_losses([*self._unsent.get(key, ()), *new_losses])
            self._heads.append(make_block_head(
                *key, self.epoch, part["from"], part.get("until") or self._clock.now(),
                len(self._get_sums(key).rows),
                part["targets"], part["unreadable"], new_losses, part["bad"], part["why"],
                self._get_entry_begin(key), part.get("since_boot"), part["instances"],
                part["started"],
                part["unread"]))
        self._swept_at, self._swept_ns = swept_at, (wall_ns, self._wall_ns())
        self._swept_since_boot = since_boot
        self._is_first, self._chosen_before = False, None
        self.cpu_s, self._is_whole = time.thread_time() - began, True
        self.save()

    def _read_target(self, key: Key, target: LocalTarget, part: dict[str, Any],
                     losses: dict[Key, list[SentLoss]]) -> None:
        table, at = self._tables.get(key), self._clock.now()
        instance = read_instance(target)
        if table is None:
            # One that was not here at the last sweep has come since then: its files began at 0.
            is_first = self._is_new(key[0])
            table = ClientTable(None if is_first else (self._swept_at, self._swept_ns))
            if is_first:
                table.read_from = at
        name, was_read, is_new = target.name, table.is_read, key not in self._tables
        self._tables[key] = table
        causes: list[tuple[str, str, float | None]] = []
        table.directories = target.directories
        is_restarted = table.is_stopped or bool(
            instance and table.instance and instance != table.instance)
        try:
            reading = table.read(find_exports(target), is_restarted, self._get_sums(_make_key(key)),
                                 self._pace.pause, self._wall_ns)
        except OSError as error:
            why = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
        else:
            why = reading.refused
            causes = [(nid, why, self._find_latest_start_time(start_ns))
                      for nid, why, start_ns in reading.losses]
            part["bad"] += reading.bad
            part["why"] = part["why"] or reading.why
            if reading.bad:
                self._emit(f"{key[0]}-{name}: {reading.bad} of the exports could not be read, the "
                           f"first: {sanitize(reading.why)}", (key, "bad"))
        if why:
            part["unreadable"][name] = why[:LONGEST_WHY]
            self._emit(f"{key[0]}-{name}: its exports cannot be read: {sanitize(why)}", (key, "no"))
        else:
            part["targets"].append(name)
            if not was_read and table.read_from < at:       # it could not be read before
                causes.append(("", UNREADABLE, None))
            if reading.unread:
                part["unread"][name] = reading.unread
            if instance:
                part["instances"][name] = int(instance)
            if is_new or is_restarted:
                moment = self._find_latest_start_time(reading.first_ns)
                table.started_at = self._since_boot() if moment is None else moment
            if table.started_at is not None:
                part["started"][name] = self._convert_to_clock(table.started_at)
            if is_restarted and was_read:
                # Started only once since the last reading: no other server had it mounted.
                is_once = table.is_stopped and table.is_next(instance)
                causes = [("", RESTARTED, 0.0 if is_once else table.started_at), *causes]
            table.instance, table.is_stopped = instance or table.instance, False
        self._add_losses(losses, key, table, causes, self._clock.now())
        if not why:
            table.read_from = at

    def _get_sums(self, key: Key) -> NidSums:
        self._began.setdefault(key, self._since_boot() if self._is_new(key[0])
                               else self._swept_since_boot)
        return self._sums.setdefault(key, NidSums())

    def _get_entry_begin(self, key: Key) -> float | None:
        """Return the time at which these sums began, by the agent's clock; None: unknown."""
        began = self._began[key]
        return None if began is None else self._convert_to_clock(began)

    def _convert_to_clock(self, since_boot: float) -> float:
        """A moment, in seconds since the boot, as the agent's clock would show it."""
        return self._clock.now() - (self._since_boot() - since_boot)

    def _find_latest_start_time(self, start_ns: int) -> float | None:
        """
        The latest moment at which a file's start_time can have been, s since the boot; None where
        it is unknown: it was before the last sweep, or the kernel's clock may have been set since.
        """
        wall_ns, since_boot = self._wall_ns(), self._since_boot()
        then_ns, then = self._swept_ns[0], self._swept_since_boot
        if then is None or start_ns < then_ns or abs(
                (wall_ns - then_ns) / 1e9 - (since_boot - then)) > _STEADY_S:
            return None
        return since_boot - max(0.0, (wall_ns - start_ns) / 1e9 - _STEADY_S)

    def _add_losses(self, losses: dict[Key, list[SentLoss]], key: Key, table: ClientTable,
                    causes: Sequence[tuple[str, str, float | None]], until: float) -> None:
        """
        Add losses of a target, since it was read before: `causes` is [(nid, why, the latest moment,
        s since the boot; None: `until`)].
        """
        for nid, why, moment in causes:
            at = until if moment is None else min(self._convert_to_clock(moment), until)
            losses.setdefault(_make_key(key), []).append({
                "since": round(min(table.read_from, at), 6), "until": round(at, 6),
                "target": key[1], "nid": nid, "why": why})

    # -- sending

    def send(self, parts: SweepMessages, is_full: bool) -> None:
        """Put the reading into messages: the clients that changed, or all of them."""
        for head in self._heads:
            key = head["file_system"], head["kind"]
            sums = self._get_sums(key)
            nids = list(sums.rows)
            columns = [sums.amounts[place::FIELDS] for place in range(FIELDS)]
            rows = range(len(nids)) if is_full else sorted(sums.news)
            full_head = {**head, "losses": self._unsent.get(key, [])} if is_full else head
            for block, ended in encode_clients(
                    full_head, [nids[row] for row in rows],
                    [[column[row] for row in rows] for column in columns], parts.longest):
                parts.add_packed(block, ended)
            sums.news.clear()
        self._heads = []

    def delivered(self) -> None:
        """Note that the site's server has received all messages."""
        for key, losses in self._unsent.items():
            if self._sent is not None:
                sent = self._sent.setdefault(key, [])
                sent += losses
                if len(sent) > MOST_LOSSES:
                    self._sent = None
        self._unsent = {}

    def use_another_server(self) -> None:
        """Send to another server from the next sweep on, which does not have all of this epoch."""
        self._is_elsewhere = True

    def _begin_at_another_server(self) -> None:
        """Send all losses of the epoch; begin a new epoch if they are no longer stored."""
        self._is_elsewhere = False
        if self._sent is None:
            self._emit("another of the site's servers is asked: clients' amounts restart")
            self._begin()
            return
        for key, losses in self._sent.items():
            self._unsent[key] = merge_losses([*losses, *self._unsent.get(key, ())])
        self._sent = {}

    # -- the cost

    def note_cpu_time(self, cpu_s: float, every_s: int, percent: float) -> None:
        """
        Note the CPU time of a sweep.  Exports are no longer read if several sweeps took more than
        `percent` of the time between two sweeps.
        """
        is_too_long = cpu_s > every_s * percent / 100
        self._too_long = self._too_long + 1 if is_too_long else 0
        if self._too_long < _TOO_LONG or not self.is_on:
            return
        self.is_on, self._why_off = False, (
            f"left out: a sweep takes {cpu_s:.1f} s of CPU, {self.cpu_s:.1f} s of it for exports, "
            f"and has {every_s * percent / 100:.1f} s ([harvest] cpu_percent of {every_s} s)")
        self._emit(f"exports are {self._why_off}, until the agent is started again; [harvest] "
                   f"exports = yes reads them all the same")
        private_files.remove_if_present(self._path)
        self._begin()

    def _leave_out(self, targets: Sequence[LocalTarget]) -> None:
        """Report in the messages, once, that exports are not read."""
        at, why = self._clock.now(), self._why_off
        names: dict[Key, dict[Target, str]] = {}
        for target in targets:
            key = _make_key((target.file_system, target.name))
            names.setdefault(key, {})[Target(target.name)] = why
        self._heads = [make_block_head(*key, self.epoch, at, at, 0, (), unreadable)
                       for key, unreadable in sorted(names.items())]

    # -- the state

    def save(self) -> None:
        """
        Store the state on the disk before the messages are sent, so that another agent never
        continues from less than was sent.  A failure is logged, and no state remains.
        """
        if not self._is_whole or not self.is_on or self._is_first:
            return
        try:
            client_state.save(self._path, {
                "epoch": self.epoch, "boot_id": self._boot_id, "file_systems": self._file_systems,
                "swept_at": self._swept_at, "swept_ns": self._swept_ns,
                "swept_since_boot": self._swept_since_boot, "began": self._began},
                self._tables,
                              self._sums, self._unsent)
        except OSError as error:
            private_files.remove_if_present(self._path)
            self._emit(f"{self._path}: cannot be written: {error.strerror}; clients' amounts may "
                       f"restart with the agent")

    def _load(self) -> None:
        try:
            stored = client_state.load(self._path)
        except StateError as error:
            self._emit(f"{error}; clients' amounts restart")
            return
        if stored is None:
            return
        head, tables, sums, unsent = stored
        if head["file_systems"] != self._file_systems:
            self._emit("other file systems were chosen: clients' amounts restart")
            return
        self.epoch, self._tables, self._sums, self._unsent = (head["epoch"], tables, sums,
                                                              unsent)
        self._swept_at, self._swept_ns = head["swept_at"], head["swept_ns"]
        self._began = head["began"]
        self._swept_since_boot = head["swept_since_boot"]
        self._is_first, self._sent = False, None
        if head["boot_id"] != self._boot_id:
            self._swept_since_boot, self._began = None, dict.fromkeys(self._began)
            for table in self._tables.values():
                table.is_stopped, table.started_at = True, None


def _is_chosen(file_system: str, choice: Sequence[str]) -> bool:
    return not choice or file_system in choice


def _make_empty_part(at: float) -> dict[str, Any]:
    """Make the members of make_block_head for a file system and kind without any reading yet."""
    return {"from": at, "targets": [], "unreadable": {}, "bad": 0, "why": "", "instances": {},
            "started": {}, "unread": {}}


def _make_key(key: Key) -> Key:
    """Return (file system, kind) of (file system, target)."""
    return key[0], key[1][:3]
