"""
Who loads the targets of this storage server, or of a saved dump: a Load without any server.

    job_stats  --entries.py-->  {target: its entries}  --two of them, gains.py-->  what came in
    exports    --local_clients.py-->  {file system: ClientLoad}, where it is asked for by node
"""

from __future__ import annotations

import os
import time
from functools import partial

from iostats.base.errors import JobStatsSyntaxError, NotReadable, UsageError
from iostats.load import levels, ranking
from iostats.load.amounts import MORE
from iostats.load.sums import load_of
from iostats.lustre import job_stats, stats
from iostats.lustre.job_tags import TagForm
from iostats.storage import local_clients
from iostats.storage.entries import EntriesRead, add_life, dumped, in_words, oldest
from iostats.storage.fingerprints import Fingerprints
from iostats.storage.gains import CLEANUP_S, between, target_load
from iostats.storage.local_clients import LocalClients
from iostats.storage.targets import (
    booted_at_ns,
    chunks,
    chunks_of,
    local_targets,
    open_job_stats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.load.sums import Load, TargetLoad
    from iostats.storage.entries import Key, Life
    from iostats.storage.targets import LocalTarget

def _lacks(has_clients: bool) -> tuple[str, ...]:
    """Levels that cannot be made from what is read here."""
    return tuple(level.name for level in levels.LEVELS if level.needs_batch_system
                 and not (has_clients and level.client_group))


class _NoBatchSystem:
    """Jobs are known by their ids alone: there is no batch system to ask."""

    def __init__(self, form: str) -> None:
        try:
            self.job_of = TagForm(form).job_of
        except ValueError as error:
            raise UsageError(f"--job-id: {error}") from None

    @staticmethod
    def facts(id: str) -> None:
        """Nothing more is known."""
        return None

    @staticmethod
    def node_of(nid: str) -> str:
        """A client is its NID."""
        return nid

    @staticmethod
    def running() -> tuple[()]:
        """Nor which jobs there are."""
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
        self.lacks = _lacks(by_client)
        self._clients = LocalClients() if by_client else None
        self.origin = os.uname().nodename if root == "/" else f"below {root}"
        self._before: dict[Key, EntriesRead] | None = None
        self._prints: dict[Key, Fingerprints] = {}
        self._load: Any = None                 # a Load, once there are two readings
        self._boot_ns = booted_at_ns()
        self._node = os.uname().nodename

    def look(self) -> bool:
        """Read everything once; True where that was the first reading, which gives no rates."""
        found = local_targets(self._root)
        if not found:
            raise NotReadable(f"no OST or MDT here: expected obdfilter/FS-OST0000/job_stats or mdt/"
                              f"FS-MDT0000/job_stats below {self._root}, in proc/fs/lustre, "
                              f"sys/fs/lustre or sys/kernel/debug/lustre; on other machines ask "
                              f"the site's server: iostats top")
        now, failed, cleanup_s = {}, {}, {}
        for target in found:
            key = target.file_system, target.name
            cleanup_s[key] = CLEANUP_S if target.cleanup_s is None else target.cleanup_s
            try:
                now[key] = self._read(target, key)
            except OSError as error:
                failed[key] = (f"cannot be read: {error.strerror}"
                               + ("; use root" if isinstance(error, PermissionError) else ""))
                self._prints.pop(key, None)
        if not now:
            raise NotReadable(f"{found[0].directories[0]}/job_stats: {next(iter(failed.values()))}")
        clients = self._clients.look(found) if self._clients is not None else {}
        before, self._before = self._before, now
        if before is None:
            return True
        parts: list[TargetLoad] = []
        missing: dict[str, dict[str, str]] = {}
        for key, why in failed.items():
            missing.setdefault(key[0], {})[key[1]] = why
        for key, look in now.items():
            if key not in before:
                missing.setdefault(key[0], {})[key[1]] = "seen for the first time"
                continue
            part, why = between(key, before[key], look, self._node,
                                look.at - before[key].at, cleanup_s[key])
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        self._load = load_of(parts, self._known, levels.RATES, time.time(),
                             max((part.span_s for part in parts), default=self.every_s),
                             missing, more=MORE)._replace(clients=clients)
        return False

    def _read(self, target: LocalTarget, key: Key) -> EntriesRead:
        """The entries of one target; only what changed since the last reading is parsed."""
        before = self._before and self._before.get(key)
        prints = self._prints.get(key)
        if prints is None or before is None:
            prints, before = self._prints.setdefault(key, Fingerprints()), None
            prints.forget()
        new: dict[str, list[Life]] = {}
        bad: list[str] = []
        handle, path = open_job_stats(target)
        try:
            at, now_ns = time.monotonic(), time.time_ns()
            for piece in prints.quotes.pieces(chunks(handle, path), partial(chunks_of, path)):
                if prints.changed(piece):
                    try:
                        add_life(new, job_stats.parse(piece, self._boot_ns, path,
                                                      prints.quotes.are_kernels))
                    except JobStatsSyntaxError as error:
                        prints.refuse(piece)
                        bad.append(str(error))
        finally:
            os.close(handle)
        if prints.quotes.were_mistaken:         # what was read before has other ids
            self._prints.pop(key)
            if self._before:
                self._before.pop(key, None)
            return self._read(target, key)
        gone = prints.finish()
        entries: dict[str, list[Life]] = dict(before.entries) if before else {}
        for id in gone:
            entries.pop(id, None)
        entries.update(new)
        return EntriesRead(at, entries, now_ns, in_words(bad))

    def answer(self, ask: ranking.LoadQuery) -> dict[str, Any]:
        """What ranking.answer says of the last two readings."""
        return ranking.answer(self._load, ask, self._known)


class DumpLoad:
    """
    One saved dump: totals.  Two: what came in between.

    `by_client`: they are of exports, which is all that is looked for.
    """

    def __init__(self, paths: Sequence[str], form: str, over_s: float | None = None,
                 by_client: bool = False) -> None:
        self._known, self.every_s = _NoBatchSystem(form), 1.0
        self.lacks = _lacks(by_client)
        self._load: Any = None                 # a Load, once the files are read
        self.origin = " to ".join(paths)
        self._paths, self._over_s, self._by_client = paths, over_s, by_client

    def look(self) -> bool:
        """Read the files; False: there is nothing to wait for."""
        if self._by_client:
            self._load = self._of_clients()
            return False
        looks = [dumped(path) for path in self._paths]
        latest = [max((look.latest_ns for look in found.values()), default=0) for found in looks]
        at = latest[-1] / 1e9 if latest[-1] >= stats.FIRST_WALL_CLOCK_NS else None
        parts: list[TargetLoad] = []
        missing: dict[str, dict[str, str]] = {}
        if len(looks) == 1:
            began = oldest(looks[0])
            for key, look in looks[0].items():
                parts.append(target_load(key, look.entries, "", None))
                if look.bad:
                    missing.setdefault(key[0], {})[key[1]] = look.bad
            self._load = load_of(parts, self._known, levels.TOTALS, at, None, missing, began,
                                 more=MORE)
            return False
        span_s = self._span_s(latest, "the latest request in")
        for key, look in looks[1].items():
            if key not in looks[0]:
                missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[0]}"
                continue
            part, why = between(key, looks[0][key], look, "", span_s or None, None)
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        for key in looks[0].keys() - looks[1].keys():
            missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[1]}"
        self._load = load_of(parts, self._known, levels.RATES if span_s else levels.GAINS, at,
                             span_s or None, missing, more=MORE)
        return False

    def _span_s(self, latest_ns: Sequence[int], what: str) -> float:
        """Seconds between the two files; 0: not known, as where one does not show it."""
        span_s = self._over_s or (
            (latest_ns[1] - latest_ns[0]) / 1e9 if all(latest_ns) else 0.0)
        if latest_ns[1] and span_s < 0 and not self._over_s:
            raise UsageError(f"--statsfile: expected the older file first: {what} {self._paths[1]} "
                             f"is {-span_s:.0f} s before that in {self._paths[0]}")
        return span_s

    def _of_clients(self) -> Load:
        """The Load of what clients did by these files, and nothing of jobs."""
        looks = [local_clients.dumped(path) for path in self._paths]
        for path, look in zip(self._paths, looks):
            if not look.targets:
                raise NotReadable(f"{path}: expected {local_clients.EXPECTED} for --by node, got "
                                  f"no client's counters")
        at = looks[-1].latest_ns / 1e9 if (
            looks[-1].latest_ns >= stats.FIRST_WALL_CLOCK_NS) else None
        if len(looks) == 1:
            found = local_clients.between(None, looks[0], None)
            return load_of([], self._known, levels.TOTALS, at, began=local_clients.oldest(
                looks[0]))._replace(clients=found)
        span_s = self._span_s([look.latest_ns for look in looks], "snapshot_time of")
        found = local_clients.between(looks[0], looks[1], span_s or None)
        return load_of([], self._known, levels.RATES if span_s else levels.GAINS, at,
                       span_s or None)._replace(clients=found)

    def answer(self, ask: ranking.LoadQuery) -> dict[str, Any]:
        """What ranking.answer says of the files."""
        return ranking.answer(self._load, ask, self._known)
