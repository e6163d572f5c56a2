"""
I/O of each client at the targets of this storage server, or between two saved dumps, without any
server: `iostats top --by node` with --local or --statsfile.

    exports/NID/stats, again and again                                -> LocalClients
    the output of `lctl get_param *.*.exports.*.stats`, one or two    -> dumped, between

All by the rules of client_lives.py.  Here a client is its NID: whose it is, nobody is asked.
"""

from __future__ import annotations

import re
import time
from itertools import groupby
from typing import TYPE_CHECKING

from iostats.base.errors import NotReadable
from iostats.base.ids import ALL_CLIENTS, Nid
from iostats.base.named_tuple import NamedTuple
from iostats.load.sums import ClientLoad
from iostats.lustre import exports
from iostats.storage import client_lives
from iostats.storage.client_lives import Life
from iostats.storage.client_table import ClientTable
from iostats.storage.nid_sums import NidSums
from iostats.storage.targets import find_exports, read_instance, split_name
from iostats.wire.messages.clients_encoder import REMOVED, RESET, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iostats.lustre.exports import ClientFile
    from iostats.storage.targets import LocalTarget

    Key = tuple[str, str]                           # (file system, target)
    Missing = dict[str, dict[str, str]]             # {file system: {target: why}}

EXPECTED = "the output of `lctl get_param *.*.exports.*.stats`"
_MOST_BYTES = 1 << 31               # of a dump: 50,000 clients of 12 targets have less
_NAME = re.compile(rb"(?:obdfilter|mdt)\.([\w.-]{1,80})\.exports\.([0-9A-Za-z.:]+@[a-z][a-z0-9]*)"
                   rb"\.stats(?:=|: )")
_PARAMETER = re.compile(rb"[^\s=]*\.[^\s=]*(?:=|: )")         # the latter: lctl get_param -y
_SNAPSHOT = re.compile(rb"snapshot_time +(\d{1,10})\.(\d{1,9}) secs\.([un])secs")


class DumpedClients(NamedTuple):
    """A saved dump of exports."""

    # {(file system, target): {nid: exports.ClientFile}}
    targets: dict[tuple[str, str], dict[str, ClientFile]]
    # when it was read, ns since 1970: the latest snapshot_time; 0 where there is none
    latest_ns: int


class ClientAmountSums:
    """Adds up the amounts of clients to a ClientLoad for each file system."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Nid, list[float]]] = {}
        self._low: set[tuple[str, str]] = set()
        self.missing: Missing = {}

    def add(self, key: Key, nid: Nid, amounts: Sequence[int], span_s: float | None) -> None:
        """The amounts of a client, as of exports.ClientAmounts; `span_s`: to be divided by."""
        read, written, reads, writes, operations = amounts
        row = self._rows.setdefault(key[0], {}).setdefault(nid, [0, 0, 0, 0])
        for place, amount in enumerate((written, read, reads + writes + operations,
                                        operations if key[1].startswith("MDT") else 0)):
            row[place] += amount / span_s if span_s else amount

    def lacks(self, key: Key, nid: Nid, why: str) -> None:
        """Note that amounts are missing: of a client, or with ALL_CLIENTS of a whole target."""
        if nid:
            self._low.add((key[0], nid))
        else:
            self.missing.setdefault(key[0], {}).setdefault(key[1], why)

    def loads(self, file_systems: Iterable[str]) -> dict[str, ClientLoad]:
        """Return {file system: ClientLoad}, of these and of what was added."""
        return {fs: ClientLoad(list(rows), list(rows.values()),
                               [(fs, nid) in self._low for nid in rows], self.missing.get(fs, {}))
                for fs, rows in {**{fs: {} for fs in file_systems}, **self._rows}.items()}


class LocalClients:
    """The clients of this machine's targets, between two readings of them; by these two clocks."""

    def __init__(self, now: Callable[[], float] = lambda: time.monotonic(),
                 wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._now, self._wall_ns = now, wall_ns
        self._tables: dict[Key, ClientTable] = {}
        self._looked, self._looked_ns = 0.0, (0, 0)  # at all targets, by both clocks

    def scan(self, targets: Sequence[LocalTarget]) -> dict[str, ClientLoad]:
        """
        Return {file system: ClientLoad} with the rates since the last scan; the first scan counts
        nothing.  NotReadable if no exports can be read.
        """
        amounts, is_first = ClientAmountSums(), not self._tables
        began, began_ns = self._now(), self._wall_ns()
        here = {(target.file_system, target.name) for target in targets}
        for key in self._tables.keys() - here:
            del self._tables[key]
        failed: dict[Key, str] = {}
        for target in targets:
            key = target.file_system, target.name
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = ClientTable(
                    None if is_first else (self._looked, self._looked_ns))
            at, before, was_read = self._now(), table.read_from, table.is_read
            late = table.unread                     # what they gain now may be of another time
            sums, instance = NidSums(), read_instance(target)
            try:
                reading = table.read(find_exports(target), bool(
                    instance and table.instance and instance != table.instance), sums,
                    wall_ns=self._wall_ns)
            except OSError as error:
                failed[key] = f"{error.filename or 'exports'}: {error.strerror}" + (
                    "; use root" if isinstance(error, PermissionError) else "")
                amounts.lacks(key, ALL_CLIENTS, f"cannot be read: {failed[key]}")
                continue
            table.instance, table.read_from = instance or table.instance, at
            if not was_read:
                amounts.lacks(key, ALL_CLIENTS, "read for the first time")
                continue
            for nid, row in sums.rows.items():
                if nid not in late:
                    amounts.add(key, Nid(nid), sums.of(row), at - before)
            if reading.bad:
                amounts.lacks(key, ALL_CLIENTS, f"{reading.bad} clients' files not understood, "
                                                f"the first: {reading.why}")
            for nid, why, _ in [*reading.losses, *((nid, UNREADABLE, 0)
                                                   for nid in late.union(reading.unread))]:
                amounts.lacks(key, Nid(nid), why)
        self._looked, self._looked_ns = began, (began_ns, self._wall_ns())
        if failed and len(failed) == len(targets):
            raise NotReadable(next(iter(failed.values())))
        return amounts.loads(fs for fs, _ in here)


# -- saved dumps ------------------------------------------------------------------------------

def read_dump(path: str) -> DumpedClients:
    """The DumpedClients of a saved dump; one without exports is empty; NotReadable."""
    targets: dict[Key, dict[str, ClientFile]] = {}
    latest_ns = 0
    try:
        with open(path, "rb") as file:
            for (key, nid), lines in groupby(_split_by_name(file),
                                             lambda named_line: named_line[0]):
                data = b"".join(line for _, line in lines) if nid else b""
                if data:
                    targets.setdefault(key, {})[nid] = exports.parse_client_file(
                        data, f"{path}: {key[0]}-{key[1]}: {nid}")
                    read = _SNAPSHOT.match(data)
                    if read:                        # neither is padded in all releases
                        latest_ns = max(latest_ns, int(read[1]) * 10**9
                                        + int(read[2]) * (1000 if read[3] == b"u" else 1))
    except OSError as error:
        raise NotReadable(f"{path}: cannot be read: {error.strerror}; expected "
                          f"{EXPECTED}") from None
    return DumpedClients(targets, latest_ns)


def _split_by_name(file: Iterable[bytes]) -> Iterator[tuple[tuple[Key, str], bytes]]:
    """Yield ((key, nid), line) for each line of a client's file; empty names for other lines."""
    nothing = (("", ""), "")
    name, read = nothing, 0
    for line in file:
        read += len(line)
        if read > _MOST_BYTES:
            raise NotReadable(f"expected a dump of up to {_MOST_BYTES >> 30} GiB, got more")
        if line.startswith(b"#"):                   # between two commands of a script
            name = nothing
        parameter = _PARAMETER.match(line)
        if parameter:
            match = _NAME.match(line)
            key = split_name(match[1].decode("ascii", "replace")) if match else None
            name = (key, match[2].decode("ascii")) if match and key else nothing
            line = line[parameter.end():]
        if line.strip():
            yield name, line


def find_oldest(dump: DumpedClients) -> float | None:
    """Return when the oldest file was created, seconds since 1970; None if one does not show it."""
    starts = [life.start_ns for clients in dump.targets.values() for life in clients.values()]
    return min(starts) / 1e9 if starts and all(starts) else None


def compare_dumps(before: DumpedClients | None, now: DumpedClients,
                  span_s: float | None) -> dict[str, ClientLoad]:
    """
    Return {file system: ClientLoad} of the I/O between two dumps; None: since the files were
    created.
    """
    amounts = ClientAmountSums()
    for key, clients in now.targets.items():
        old = before.targets.get(key) if before is not None else {}
        if old is None:
            amounts.lacks(key, ALL_CLIENTS, "not in the first file")
            continue
        for nid, parse_client_file in clients.items():
            if nid not in old or before is None:
                gain = client_lives.start_new_life(parse_client_file)
            else:
                gain = client_lives.compare_readings(Life(*old[nid][:3]), parse_client_file, False,
                                                     (before.latest_ns, before.latest_ns))
            amounts.add(key, Nid(nid), gain.amounts, span_s)
            if gain.why:
                amounts.lacks(key, Nid(nid), gain.why)
                if gain.why == RESET:               # maybe those of all clients, removed ones too
                    amounts.lacks(key, ALL_CLIENTS, "some clients' counters were reset")
            if parse_client_file.why:
                amounts.lacks(key, ALL_CLIENTS, f"not understood: {parse_client_file.why}")
        removed = old.keys() - clients.keys()
        if removed:
            amounts.lacks(key, ALL_CLIENTS, f"{min(removed)}: {REMOVED}")
    for key in (before.targets.keys() if before is not None else set()) - now.targets.keys():
        amounts.lacks(key, ALL_CLIENTS, "not in the second file")
    return amounts.loads(fs for fs, _ in now.targets)
