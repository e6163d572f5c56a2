"""
What each client does to the targets of this storage server, by their exports, sweep after sweep.

    exports/NID/stats of each target  --client_table.py-->  what each client gained
        --sums over the targets, since the epoch began-->  a message with the clients that have news

An epoch begins where nothing vouches for what came before: with the first reading, and where the
state that was kept on the disk (client_state.py) is gone or damaged.  What the files have by then
is no one's; from there on every number goes up by what was done, and where some of it may be
missing, that is said (losses).  The state is on the disk before what was read is sent, so that an
agent which is killed loses nothing: the next one goes on from the last sweep.

What came in while a file or a target could not be read is left out, and said: it would be booked
on a sweep in which it was not done.
"""

from __future__ import annotations

import os
import time

from iostats.base import private_files
from iostats.base.errors import StateError, one_line
from iostats.node import identity as this_node
from iostats.storage import client_state
from iostats.storage.client_table import ClientTable
from iostats.storage.nid_sums import FIELDS, NidSums
from iostats.storage.targets import LocalTarget, exports_of, instance_of, is_there
from iostats.wire.messages.clients_encoder import (
    LEFT,
    MOST_LOSSES,
    RESTARTED,
    UNREADABLE,
    block_head,
    fewer,
    packed_clients,
)
from iostats.wire.messages.sweep_encoder import LONGEST_WHY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.storage.schedule import Pace, SweepClock
    from iostats.wire.messages.sweep_encoder import SweepMessages

    Key = tuple[str, str]                      # (file system, "OST" or "MDT", or a target's name)

STATE = "clients.state"                        # in [harvest] spool_dir
MOST_KNOWN = 200_000                           # NIDs of a file system; then another epoch begins
_STEADY_S = 0.5                    # two clocks of a machine between two sweeps
_TOO_LONG = 3                                  # sweeps in a row


class Clients:
    """
    The clients of one storage server.

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
                 say: Callable[..., None], wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._path, self._file_systems = path, list(file_systems)
        self._clock, self._pace, self._say, self._wall_ns = clock, pace, say, wall_ns
        self._since_boot = clock.steady
        self._boot_id = this_node.boot_id()
        self._chosen_before: list[str] | None = None       # until the next reading is whole
        self.is_on, self.cpu_s, self._why_off, self._too_long = True, 0.0, "", 0
        self._begin()
        self._load()

    def _begin(self) -> None:
        """Begin another epoch."""
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
        self._untold: dict[Key, list[dict[str, Any]]] = {}
        self._told: dict[Key, list[dict[str, Any]]] | None = {}
        self._is_elsewhere = False                         # another server is asked

    def choose(self, file_systems: Sequence[str]) -> None:
        """
        Other file systems from the next reading on, [] for all.

        Those that stay go on.  What those that come have by then is not ours to tell; one that was
        read before in this epoch begins another, as what it did meanwhile is not known.
        """
        before, self._file_systems = self._file_systems, list(file_systems)
        if self._chosen_before is None:
            self._chosen_before = before
        known = {name for name, _ in self._sums}
        if any(name in known and not _is_chosen(name, before)
               and _is_chosen(name, self._file_systems) for name in known):
            self._say("a file system is read again: clients' amounts begin anew")
            self._begin()

    def _has_come(self, file_system: str) -> bool:
        """Whether it is read for the first time, since it was chosen."""
        return self._is_first or (self._chosen_before is not None
                                  and not _is_chosen(file_system, self._chosen_before))

    # -- reading

    def read(self, found: Sequence[LocalTarget]) -> None:
        """Read the exports of the targets `found`; what fails there fails nothing else."""
        if not self.is_on:
            self._leave_out(found)
            return
        self._is_whole = False
        try:
            if self._is_elsewhere:
                self._begin_elsewhere()
            self._read(found)
        except Exception as error:
            self._say(f"internal error; please report: {error!r}; clients' amounts begin anew")
            self._begin()

    def _read(self, found: Sequence[LocalTarget]) -> None:
        began = time.thread_time()
        if any(len(sums.rows) > MOST_KNOWN for sums in self._sums.values()):
            self._say(f"more than {MOST_KNOWN} clients were seen: their amounts begin anew")
            self._begin()
        swept_at, wall_ns, since_boot = self._clock.now(), self._wall_ns(), self._since_boot()
        losses: dict[Key, list[dict[str, Any]]] = {}
        parts: dict[Key, dict[str, Any]] = {}
        here = {(one.file_system, one.name) for one in found}
        for key in sorted(self._tables.keys() - here):
            table = self._tables[key]
            # A listing that fails, or races with another target's end, shows less.
            if _is_chosen(key[0], self._file_systems) and is_there(table.directories):
                found = [*found, LocalTarget(*key, table.directories, None)]
                continue
            del self._tables[key]
            self._lost(losses, key, table, [("", LEFT, None)], swept_at)
        for target in found:
            key = target.file_system, target.name
            part = parts.setdefault(_of(key), {
                **_nothing_read(self._clock.now()),
                "since_boot": (self._boot_id, self._clock.steady())})
            self._read_target(key, target, part, losses)
            part["until"] = self._clock.now()
        self._heads = []
        for key in sorted({*parts, *losses, *self._sums}):
            part = parts.get(key) or _nothing_read(swept_at)
            some = losses.get(key, [])
            self._untold[key] = fewer([*self._untold.get(key, ()), *some])
            self._heads.append(block_head(
                *key, self.epoch, part["from"], part.get("until") or self._clock.now(),
                len(self._of_kind(key).rows),
                part["targets"], part["unreadable"], some, part["bad"], part["why"],
                self._began_at(key), part.get("since_boot"), part["instances"], part["started"]))
        self._swept_at, self._swept_ns = swept_at, (wall_ns, self._wall_ns())
        self._swept_since_boot = since_boot
        self._is_first, self._chosen_before = False, None
        self.cpu_s, self._is_whole = time.thread_time() - began, True
        self.keep()

    def _read_target(self, key: Key, target: LocalTarget, part: dict[str, Any],
                     losses: dict[Key, list[dict[str, Any]]]) -> None:
        table, at = self._tables.get(key), self._clock.now()
        instance = instance_of(target)
        if table is None:
            # One that was not here at the last sweep has come since then: its files began at 0.
            is_first = self._has_come(key[0])
            table = ClientTable(None if is_first else (self._swept_at, self._swept_ns))
            if is_first:
                table.read_from = at
        name, was_read, is_new = target.name, table.is_read, key not in self._tables
        self._tables[key] = table
        found: list[tuple[str, str, float | None]] = []
        table.directories = target.directories
        is_restarted = table.is_stopped or bool(
            instance and table.instance and instance != table.instance)
        try:
            reading = table.read(exports_of(target), is_restarted, self._of_kind(_of(key)),
                                 self._pace.rest, self._wall_ns)
        except OSError as error:
            table.not_read(self._wall_ns())
            why = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
        else:
            why = reading.refused
            found = [(nid, why, self._moment(start_ns)) for nid, why, start_ns in reading.losses]
            part["bad"] += reading.bad
            part["why"] = part["why"] or reading.why
            if reading.bad:
                self._say(f"{key[0]}-{name}: {reading.bad} of the exports could not be read, the "
                          f"first: {one_line(reading.why)}", (key, "bad"))
        if why:
            part["unreadable"][name] = why[:LONGEST_WHY]
            self._say(f"{key[0]}-{name}: its exports cannot be read: {one_line(why)}", (key, "no"))
            found = [("", UNREADABLE, None)] if was_read else []
        else:
            part["targets"].append(name)
            if instance:
                part["instances"][name] = int(instance)
            if is_new or is_restarted:
                moment = self._moment(reading.first_ns)
                table.started_at = self._since_boot() if moment is None else moment
            if table.started_at is not None:
                part["started"][name] = self._by_clock(table.started_at)
            if is_restarted and was_read:
                # Where it was started once since the boot, nobody else had it meanwhile.
                is_once = table.is_stopped and table.is_next(instance)
                found = [("", RESTARTED, 0.0 if is_once else table.started_at), *found]
            table.instance, table.is_stopped = instance or table.instance, False
        self._lost(losses, key, table, found, self._clock.now())
        table.read_from = at

    def _of_kind(self, key: Key) -> NidSums:
        self._began.setdefault(key, self._since_boot() if self._has_come(key[0])
                               else self._swept_since_boot)
        return self._sums.setdefault(key, NidSums())

    def _began_at(self, key: Key) -> float | None:
        """Since when these are added up, by the agent's clock."""
        began = self._began[key]
        return None if began is None else self._by_clock(began)

    def _by_clock(self, since_boot: float) -> float:
        """A moment after the boot, by the agent's clock as it goes now."""
        return self._clock.now() - (self._since_boot() - since_boot)

    def _moment(self, start_ns: int) -> float | None:
        """
        By when a file's start_time was, s since the boot; None where that does not show: the
        kernel's clock was set since the last sweep, or may have been, or it was before that.
        """
        wall_ns, since_boot = self._wall_ns(), self._since_boot()
        then_ns, then = self._swept_ns[0], self._swept_since_boot
        if then is None or start_ns < then_ns or abs(
                (wall_ns - then_ns) / 1e9 - (since_boot - then)) > _STEADY_S:
            return None
        return since_boot - max(0.0, (wall_ns - start_ns) / 1e9 - _STEADY_S)

    def _lost(self, losses: dict[Key, list[dict[str, Any]]], key: Key, table: ClientTable,
              found: Sequence[tuple[str, str, float | None]], until: float) -> None:
        """
        Note [(nid, why, by when it was lost, s since the boot; None: by `until`)] of a target,
        since it was read before.
        """
        for nid, why, moment in found:
            at = until if moment is None else min(self._by_clock(moment), until)
            losses.setdefault(_of(key), []).append({
                "since": round(min(table.read_from, at), 6), "until": round(at, 6),
                "target": key[1], "nid": nid, "why": why})

    # -- sending

    def send(self, parts: SweepMessages, is_full: bool) -> None:
        """Put what was read into messages: the clients with news, or all of them."""
        for head in self._heads:
            key = head["file_system"], head["kind"]
            sums = self._of_kind(key)
            nids = list(sums.rows)
            columns = [sums.amounts[place::FIELDS] for place in range(FIELDS)]
            rows = range(len(nids)) if is_full else sorted(sums.news)
            told = {**head, "losses": self._untold.get(key, [])} if is_full else head
            for block, ended in packed_clients(
                    told, [nids[row] for row in rows],
                    [[column[row] for row in rows] for column in columns], parts.longest):
                parts.add_packed(block, ended)
            sums.news.clear()
        self._heads = []

    def delivered(self) -> None:
        """The site's server has all that was sent."""
        for key, losses in self._untold.items():
            if self._told is not None:
                known = self._told.setdefault(key, [])
                known += losses
                if len(known) > MOST_LOSSES:
                    self._told = None
        self._untold = {}

    def tell_another_server(self) -> None:
        """From the next sweep on another server is told, which knows nothing of this epoch, or what
        it was told until it was left."""
        self._is_elsewhere = True

    def _begin_elsewhere(self) -> None:
        """It is told all losses of the epoch; where these are not known any more, of another."""
        self._is_elsewhere = False
        if self._told is None:
            self._say("another of the site's servers is asked: clients' amounts begin anew")
            self._begin()
            return
        for key, losses in self._told.items():
            self._untold[key] = fewer([*losses, *self._untold.get(key, ())])
        self._told = {}

    # -- the cost

    def took(self, cpu_s: float, every: int, percent: float) -> None:
        """
        A whole sweep took so much CPU.  Exports are left out from now on where it is more than
        `percent` of the time between two sweeps, again and again: it would not end before the next.
        """
        is_too_long = cpu_s > every * percent / 100
        self._too_long = self._too_long + 1 if is_too_long else 0
        if self._too_long < _TOO_LONG or not self.is_on:
            return
        self.is_on, self._why_off = False, (
            f"left out: a sweep takes {cpu_s:.1f} s of CPU, {self.cpu_s:.1f} s of it for exports, "
            f"and has {every * percent / 100:.1f} s ([harvest] cpu_percent of {every} s)")
        self._say(f"exports are {self._why_off}, until the agent is started again; [harvest] "
                  f"exports = yes reads them all the same")
        private_files.forget(self._path)
        self._begin()

    def _leave_out(self, found: Sequence[LocalTarget]) -> None:
        """Once they are off: say so in the messages."""
        at, why = self._clock.now(), self._why_off
        names: dict[Key, dict[str, str]] = {}
        for one in found:
            names.setdefault(_of((one.file_system, one.name)), {})[one.name] = why
        self._heads = [block_head(*key, self.epoch, at, at, 0, (), unreadable)
                       for key, unreadable in sorted(names.items())]

    # -- the state

    def keep(self) -> None:
        """
        Store the state on the disk: before the site's server gets what was read, so that another
        agent never goes on from less than was sent.  Where that fails: a line, and no state.
        """
        if not self._is_whole or not self.is_on or self._is_first:
            return
        try:
            client_state.save(self._path, {
                "epoch": self.epoch, "boot_id": self._boot_id, "file_systems": self._file_systems,
                "swept_at": self._swept_at, "swept_ns": self._swept_ns,
                "swept_since_boot": self._swept_since_boot, "began": [*self._began.items()]},
                self._tables,
                self._sums, self._untold)
        except OSError as error:
            private_files.forget(self._path)
            self._say(f"{self._path}: cannot be kept: {error.strerror}; clients' amounts may begin "
                      f"anew when the agent does")

    def _load(self) -> None:
        try:
            kept = client_state.load(self._path)
        except StateError as error:
            self._say(f"{error}; clients' amounts begin anew")
            return
        if kept is None:
            return
        head, tables, sums, untold = kept
        if head["file_systems"] != self._file_systems:
            self._say("other file systems were chosen: clients' amounts begin anew")
            return
        self.epoch, self._tables, self._sums, self._untold = (head["epoch"], tables, sums,
                                                              untold)
        self._swept_at, self._swept_ns = head["swept_at"], head["swept_ns"]
        self._began = head["began"]
        self._swept_since_boot = head["swept_since_boot"]
        self._is_first, self._told = False, None
        if head["boot_id"] != self._boot_id:
            self._swept_since_boot, self._began = None, dict.fromkeys(self._began)
            for table in self._tables.values():
                table.is_stopped, table.started_at = True, None


def _is_chosen(file_system: str, choice: Sequence[str]) -> bool:
    return not choice or file_system in choice


def _nothing_read(at: float) -> dict[str, Any]:
    """A part of a sweep that begins; the members are those of block_head."""
    return {"from": at, "targets": [], "unreadable": {}, "bad": 0, "why": "", "instances": {},
            "started": {}}


def _of(key: Key) -> Key:
    """(file system, kind) of (file system, target)."""
    return key[0], key[1][:3]
