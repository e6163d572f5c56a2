"""
The jobs that load the targets of this storage server, or of a saved dump: a Load without any
server.

    job_stats  --entries.py-->  {target: its entries}  --two of them-->  what came in
    exports    --local_clients.py-->  {file system: ClientLoad}, where it is asked for by node

An entry that was reset is recognized by its start_time, or by a counter that decreased: all of its
counts are new, and those of the entry before it after the first reading are lost, unless it
expired: then it had no I/O for job_cleanup_interval.  So an entry that was removed or reset
earlier than that, and two readings that are as far apart, make lower bounds.  From 2.15.2 on
nothing can be mistaken; before, an entry that was reset and has overtaken its old values between
two readings counts too little.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from iostats.base.errors import JobStatsSyntaxError, NotReadable, UsageError
from iostats.base.ids import NodeName
from iostats.load import levels, ranking
from iostats.load.amounts import METRICS, MORE, sum_amounts, sum_more_amounts
from iostats.load.sums import TargetLoad, sum_load
from iostats.lustre import job_stats, stats
from iostats.lustre.job_tags import TagForm
from iostats.storage import local_clients
from iostats.storage.entries import (
    EntriesRead,
    add_life,
    describe_bad_entries,
    find_oldest,
    read_dump,
)
from iostats.storage.fingerprints import Fingerprints
from iostats.storage.local_clients import LocalClients
from iostats.storage.targets import (
    find_boot_time_ns,
    find_local_targets,
    open_job_stats,
    read_chunks,
    read_file_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.config import Config
    from iostats.base.ids import Nid
    from iostats.load.answer import Answer
    from iostats.load.sums import Load
    from iostats.storage.entries import Key, Life
    from iostats.storage.targets import LocalTarget

_LATE_NS = 2 * 10**9             # a clock is no better than that
CLEANUP_S = 600                  # job_cleanup_interval where it is not known; Lustre's default


def _list_missing_levels(has_clients: bool) -> tuple[str, ...]:
    """List the levels that need data which is not read here."""
    return tuple(level.name for level in levels.LEVELS if level.needs_batch_system
                 and not (has_clients and level.client_group))


class _NoBatchSystem:
    """The facts of jobs without a batch system: only their ids are known."""

    def __init__(self, form: str) -> None:
        try:
            self.find_job = TagForm(form).find_job
        except ValueError as error:
            raise UsageError(f"--job-id: {error}") from None

    @staticmethod
    def facts(id: str) -> None:
        """Return None: no facts are known."""
        return None

    @staticmethod
    def find_node(nid: Nid) -> NodeName:
        """Return the NID as the name of a client."""
        return NodeName(nid)

    @staticmethod
    def running() -> tuple[()]:
        """Return (): the running jobs are unknown."""
        return ()


class LocalLoad:
    """
    The load of this machine's targets, between two readings of them.

    Attributes:
        every_s: seconds between two readings.
        origin: in words, for the title.
        lacks: names of levels that cannot be made from what is read here.

    `by_client`: exports are read as well.
    """

    def __init__(self, root: str, config: Config, form: str, every_s: float,
                 by_client: bool = False) -> None:
        self._root, self._known, self.every_s = root, _NoBatchSystem(form), every_s
        self.lacks = _list_missing_levels(by_client)
        self._clients = LocalClients() if by_client else None
        self.origin = os.uname().nodename if root == "/" else f"below {root}"
        self._before: dict[Key, EntriesRead] | None = None
        self._prints: dict[Key, Fingerprints] = {}
        self._load: Load | None = None         # once there are two readings
        self._boot_ns = find_boot_time_ns()
        self._node = os.uname().nodename

    def scan(self) -> bool:
        """Read everything once; True where that was the first reading, which gives no rates."""
        targets = find_local_targets(self._root)
        if not targets:
            raise NotReadable(f"no OST or MDT here: expected obdfilter/FS-OST0000/job_stats or mdt/"
                              f"FS-MDT0000/job_stats below {self._root}, in proc/fs/lustre, "
                              f"sys/fs/lustre or sys/kernel/debug/lustre; on other machines ask "
                              f"the site's server: iostats top")
        now, failed, cleanup_s = {}, {}, {}
        for target in targets:
            key = target.file_system, target.name
            cleanup_s[key] = CLEANUP_S if target.cleanup_s is None else target.cleanup_s
            try:
                now[key] = self._read(target, key)
            except OSError as error:
                failed[key] = (f"cannot be read: {error.strerror}"
                               + ("; use root" if isinstance(error, PermissionError) else ""))
                self._prints.pop(key, None)
        if not now:
            raise NotReadable(f"{targets[0].directories[0]}/job_stats: "
                              f"{next(iter(failed.values()))}")
        clients = self._clients.scan(targets) if self._clients is not None else {}
        before, self._before = self._before, now
        if before is None:
            return True
        parts: list[TargetLoad] = []
        missing: dict[str, dict[str, str]] = {}
        for key, why in failed.items():
            missing.setdefault(key[0], {})[key[1]] = why
        for key, reading in now.items():
            if key not in before:
                missing.setdefault(key[0], {})[key[1]] = "seen for the first time"
                continue
            part, why = compare_readings(key, before[key], reading, self._node,
                                         (reading.at or 0.0) - (before[key].at or 0.0),
                                         cleanup_s[key])
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        self._load = sum_load(parts, self._known, levels.RATES, time.time(),
                              max((part.span_s or 0.0 for part in parts), default=self.every_s),
                              missing, more=MORE)._replace(clients=clients)
        return False

    def _read(self, target: LocalTarget, key: Key) -> EntriesRead:
        """Read the entries of one target; only those changed since the last reading are parsed."""
        before = self._before and self._before.get(key)
        prints = self._prints.get(key)
        if prints is None or before is None:
            prints, before = self._prints.setdefault(key, Fingerprints()), None
            prints.clear()
        new: dict[str, list[Life]] = {}
        bad: list[str] = []
        handle, path = open_job_stats(target)
        try:
            at, now_ns = time.monotonic(), time.time_ns()
            for piece in prints.quotes.split_entries(read_chunks(handle, path),
                                              partial(read_file_chunks, path)):
                if prints.is_changed(piece):
                    try:
                        add_life(new, job_stats.parse(piece, self._boot_ns, path,
                                                      prints.quotes.is_printed_by_kernel))
                    except JobStatsSyntaxError as error:
                        prints.refuse(piece)
                        bad.append(str(error))
        finally:
            os.close(handle)
        if prints.quotes.were_misread:         # what was read before has other ids
            self._prints.pop(key)
            if self._before:
                self._before.pop(key, None)
            return self._read(target, key)
        removed = prints.finish()
        entries: dict[str, list[Life]] = dict(before.entries) if before else {}
        for id in removed:
            entries.pop(id, None)
        entries.update(new)
        return EntriesRead(at, entries, now_ns, describe_bad_entries(bad))

    def answer(self, ask: ranking.LoadQuery) -> Answer:
        """Return the ranking of the last two readings."""
        assert self._load is not None           # scan() has returned False
        return ranking.answer(self._load, ask, self._known)


class DumpLoad:
    """
    The load from saved dumps: totals for one, the difference for two.

    `by_client`: they are of exports, which is all that is looked for.
    """

    def __init__(self, paths: Sequence[str], form: str, over_s: float | None = None,
                 by_client: bool = False) -> None:
        self._known, self.every_s = _NoBatchSystem(form), 1.0
        self.lacks = _list_missing_levels(by_client)
        self._load: Load | None = None         # once the files are read
        self.origin = " to ".join(paths)
        self._paths, self._over_s, self._by_client = paths, over_s, by_client

    def scan(self) -> bool:
        """Read the files; return False, as there is no second reading to wait for."""
        if self._by_client:
            self._load = self._sum_clients()
            return False
        dumps = [read_dump(path) for path in self._paths]
        latest = [max((reading.latest_ns for reading in entries.values()), default=0)
                  for entries in dumps]
        at = latest[-1] / 1e9 if latest[-1] >= stats.FIRST_WALL_CLOCK_NS else None
        parts: list[TargetLoad] = []
        missing: dict[str, dict[str, str]] = {}
        if len(dumps) == 1:
            began = find_oldest(dumps[0])
            for key, reading in dumps[0].items():
                parts.append(make_target_load(key, reading.entries, "", None))
                if reading.bad:
                    missing.setdefault(key[0], {})[key[1]] = reading.bad
            self._load = sum_load(parts, self._known, levels.TOTALS, at, None, missing, began,
                                  more=MORE)
            return False
        span_s = self._compute_span_s(latest, "the latest request in")
        for key, reading in dumps[1].items():
            if key not in dumps[0]:
                missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[0]}"
                continue
            part, why = compare_readings(key, dumps[0][key], reading, "", span_s or None, None)
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        for key in dumps[0].keys() - dumps[1].keys():
            missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[1]}"
        self._load = sum_load(parts, self._known, levels.RATES if span_s else levels.GAINS, at,
                              span_s or None, missing, more=MORE)
        return False

    def _compute_span_s(self, latest_ns: Sequence[int], kind: str) -> float:
        """Seconds between the two files; 0: not known, as where one does not show it."""
        span_s = self._over_s or (
            (latest_ns[1] - latest_ns[0]) / 1e9 if all(latest_ns) else 0.0)
        if latest_ns[1] and span_s < 0 and not self._over_s:
            raise UsageError(f"--statsfile: expected the older file first: {kind} {self._paths[1]} "
                             f"is {-span_s:.0f} s before that in {self._paths[0]}")
        return span_s

    def _sum_clients(self) -> Load:
        """The Load of clients by these files, without jobs."""
        dumps = [local_clients.read_dump(path) for path in self._paths]
        for path, dump in zip(self._paths, dumps):
            if not dump.targets:
                raise NotReadable(f"{path}: expected {local_clients.EXPECTED} for --by node, got "
                                  f"no client's counters")
        at = dumps[-1].latest_ns / 1e9 if (
            dumps[-1].latest_ns >= stats.FIRST_WALL_CLOCK_NS) else None
        if len(dumps) == 1:
            loads = local_clients.compare_dumps(None, dumps[0], None)
            return sum_load([], self._known, levels.TOTALS, at, began=local_clients.find_oldest(
                dumps[0]))._replace(clients=loads)
        span_s = self._compute_span_s([dump.latest_ns for dump in dumps], "snapshot_time of")
        loads = local_clients.compare_dumps(dumps[0], dumps[1], span_s or None)
        return sum_load([], self._known, levels.RATES if span_s else levels.GAINS, at,
                        span_s or None)._replace(clients=loads)

    def answer(self, ask: ranking.LoadQuery) -> Answer:
        """Return the ranking of the files."""
        assert self._load is not None           # scan() has returned False
        return ranking.answer(self._load, ask, self._known)


def compare_readings(key: Key, before: EntriesRead, now: EntriesRead, server: str,
                     span_s: float | None,
                     cleanup_s: int | None) -> tuple[TargetLoad, str]:
    """
    Return (TargetLoad between two readings of a target, why it may be too low).

    `cleanup_s`: job_cleanup_interval; None if unknown, and no other entry is known to
    be one that came after an expiry.
    """
    gained, skipped, lost = {}, 0, 0
    interval_s = CLEANUP_S if cleanup_s is None else cleanup_s
    for id, lives in now.entries.items():
        known = before.entries.get(id)
        if known is lives:
            continue                                # not a byte has changed
        if known is None and 0 < lives[0][0] < before.latest_ns - _LATE_NS:
            skipped += 1                            # it was there: a racing reader skips entries
            continue
        first = lives[0]
        if known and _is_another_life(known[-1], first):
            lost += not _may_have_expired(known[-1], first[0] or first[1], cleanup_s or 0)
        elif known:
            first = _subtract(known[-1], first)
        gained[id] = [first, *lives[1:]]
    lost += sum(not _may_have_expired(lives[-1], now.latest_ns, interval_s)
                for id, lives in before.entries.items() if id not in now.entries)
    whys = [f"{skipped} {'entry was' if skipped == 1 else 'entries were'} missing from an earlier "
            f"reading"] if skipped else []
    if lost:
        whys.append(f"{lost} {'entry' if lost == 1 else 'entries'} removed or reset in between: "
                    f"{'its' if lost == 1 else 'their'} I/O before that is unknown")
    if interval_s and span_s is not None and span_s >= interval_s:
        whys.append(f"{span_s:.0f} s apart: I/O of entries that expired in between is unknown")
    whys += [now.bad or before.bad] if now.bad or before.bad else []
    return make_target_load(key, gained, server, span_s), "; ".join(whys)


def _is_another_life(before: Life, now: Life) -> bool:
    """Whether an entry was certainly reset."""
    (started, _, old), (again, _, new) = before, now
    if started and again:
        return started != again
    return any(name not in new or new[name][0] < samples or (total or 0) > (new[name][1] or 0)
               for name, (samples, total) in old.items())


def _may_have_expired(before: Life, made_ns: int, cleanup_s: int) -> bool:
    """Whether an entry may have expired before another was made, or before that reading."""
    return cleanup_s > 0 and made_ns + _LATE_NS >= before[1] + cleanup_s * 10**9


def _subtract(before: Life, now: Life) -> Life:
    """Return (start, last request, gains of the counters) of an entry between two readings."""
    (_, _, old), (started, seen_ns, new) = before, now
    return started, seen_ns, {
        name: (samples - old.get(name, (0, 0))[0],
               None if total is None else total - (old.get(name, (0, 0))[1] or 0))
        for name, (samples, total) in new.items()}


def make_target_load(key: Key, entries: dict[str, list[Life]], server: str,
                     span_s: float | None) -> TargetLoad:
    """The TargetLoad of {id: [Life]}."""
    ids: list[str] = []
    columns: list[list[float]] = [[] for _ in (*METRICS, *MORE)]
    for id, lives in entries.items():
        amounts = [0] * len(columns)
        for _, _, counters in lives:
            for place, amount in enumerate((*sum_amounts(counters, key[1]),
                                            *sum_more_amounts(counters))):
                amounts[place] += amount
        if any(amounts):
            ids.append(id)
            for column, amount in zip(columns, amounts):
                column.append(amount)
    return TargetLoad(*key, server, span_s, ids, columns)
