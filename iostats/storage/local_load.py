"""
Who loads the targets of this storage server, or of a saved dump: loads.Load without any server.

    job_stats  --parse-->  {target: its entries}  --two of them-->  what came in between

An entry that began again is known by its start_time, or by a counter that went back: all that it
has by then is new, and what the one before it did after the first look is lost, unless it expired:
then it had done nothing for job_cleanup_interval.  So an entry that went or began again earlier
than that, and two looks that are as far apart, make lower bounds.  From 2.15.2 on nothing can be
mistaken; before, an entry that began again and has overtaken its old values between two looks
counts too little.
"""

from __future__ import annotations

import os
import re
import time
from collections import namedtuple

from iostats.base.errors import IostatsError, JobStatsSyntaxError, NotReadable, UsageError
from iostats.base.private_files import open_regular
from iostats.load import levels, ranking
from iostats.load.amounts import METRICS, MORE, amounts_of, more_amounts_of
from iostats.load.sums import TargetLoad, load_of
from iostats.lustre import job_stats, stats
from iostats.lustre.job_tags import Form
from iostats.lustre.metrics import BYTES_UNIT, TIME_UNITS
from iostats.storage import agent
from iostats.storage.fingerprints import Fingerprints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, BinaryIO, Optional

    from iostats.base.config import Config

    Key = tuple[str, str]                                   # (file system, target)
    Counts = dict[str, tuple[int, Optional[int]]]           # {counter: (samples, sum or None)}
    Life = tuple[int, int, Counts]                          # (start ns or 0, last request ns, ...)

_CHUNK = 1 << 16
_SUMMED = (BYTES_UNIT, *TIME_UNITS)                  # units whose sums are amounts
_LATE_NS = 2 * 10**9             # a clock is no better than that
_CLEANUP_S = 600                 # job_cleanup_interval where nothing tells it; Lustre's default
_EXPECTED = "the output of `lctl get_param *.*.job_stats`"

# Groupings that nobody can tell without the batch system.
NOT_TOLD = tuple(level.name for level in levels.LEVELS if level.needs_batch_system)
_OF_MDT = re.compile(rb"\s(?:open|close|mknod|mkdir): *\{")

Look = namedtuple("Look", "at entries latest_ns bad")
Look.__doc__ = """
One target's job_stats, read once.

Attributes:
    at: seconds, of a clock that only goes on; None for a file of some time.
    entries: {id: [(start ns or 0, last request ns, {counter: (samples, sum or None)})]}; several
        where it began again while it was read.
    latest_ns: when it was read, as far as that is known: the latest request of all in a file of
        some time; ns since 1970.
    bad: what could not be understood, in words; "".
"""


class _Known:
    """Ids alone tell of their jobs: there is no batch system to ask."""

    def __init__(self, form: str) -> None:
        try:
            self.job_of = Form(form).job_of
        except ValueError as error:
            raise UsageError(f"--job-id: {error}") from None

    @staticmethod
    def facts(id: str) -> None:
        """Nothing more is known."""
        return None


class Here:
    """
    This machine's targets, looked at again and again.

    Attributes:
        every_s: seconds between two looks.
        origin: in words, for the title.
        lacks: groupings that nobody can tell here.
    """

    lacks = NOT_TOLD

    def __init__(self, root: str, config: Config, form: str, every_s: float) -> None:
        self._root, self._known, self.every_s = root, _Known(form), every_s
        self.origin = os.uname().nodename if root == "/" else f"below {root}"
        self._before: dict[Key, Look] | None = None
        self._prints: dict[Key, Fingerprints] = {}
        self._load: Any = None                 # a loads.Load, once there were two looks
        boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._boot_ns = time.time_ns() - time.clock_gettime_ns(boot)
        self._node = os.uname().nodename

    def look(self) -> bool:
        """Read everything once; True while that was the first look, which shows no rates."""
        found = agent.targets(self._root)
        if not found:
            raise NotReadable(f"no OST or MDT here: expected obdfilter/FS-OST0000/job_stats or mdt/"
                              f"FS-MDT0000/job_stats below {self._root}, in proc/fs/lustre, "
                              f"sys/fs/lustre or sys/kernel/debug/lustre; on other machines ask "
                              f"the site's server: iostats top")
        now, failed, cleanup_s = {}, {}, {}
        for target in found:
            key = target.file_system, target.name
            cleanup_s[key] = _CLEANUP_S if target.cleanup_s is None else target.cleanup_s
            try:
                now[key] = self._read(target, key)
            except OSError as error:
                failed[key] = (f"cannot be read: {error.strerror}"
                               + ("; use root" if isinstance(error, PermissionError) else ""))
                self._prints.pop(key, None)
        if not now:
            raise NotReadable(f"{found[0].directories[0]}/job_stats: {next(iter(failed.values()))}")
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
            part, why = _between(key, before[key], look, self._node,
                                 look.at - before[key].at, cleanup_s[key])
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        self._load = load_of(parts, self._known, levels.RATES, time.time(),
                                  max((part.span_s for part in parts), default=self.every_s),
                                  missing, more=MORE)
        return False

    def _read(self, target: agent.Target, key: Key) -> Look:
        """The Look of one target; only what changed since the last one is parsed."""
        before = self._before and self._before.get(key)
        prints = self._prints.get(key)
        if prints is None or before is None:
            prints, before = self._prints.setdefault(key, Fingerprints()), None
            prints.forget()
        with _opened(target.directories) as file:
            at, now_ns = time.monotonic(), time.time_ns()
            new: dict[str, list[Life]] = {}
            bad: list[str] = []
            for piece in job_stats.pieces(agent.chunks(file.fileno(), file.name)):
                if prints.changed(piece):
                    try:
                        _add(new, job_stats.parse(piece, self._boot_ns, file.name))
                    except JobStatsSyntaxError as error:
                        prints.refuse(piece)
                        bad.append(str(error))
        gone = prints.finish()
        entries: dict[str, list[Life]] = dict(before.entries) if before else {}
        for id in gone:
            entries.pop(id, None)
        entries.update(new)
        return Look(at, entries, now_ns, _words(bad))

    def answer(self, ask: ranking.LoadQuery) -> dict[str, Any]:
        """What loads.answer says of the last two looks."""
        return ranking.answer(self._load, ask, self._known)


class Dumps:
    """One saved dump: totals.  Two: what came in between."""

    lacks = NOT_TOLD

    def __init__(self, paths: Sequence[str], form: str, over_s: float | None = None) -> None:
        self._known, self.every_s = _Known(form), 1.0
        self._load: Any = None                 # a loads.Load, once the files are read
        self.origin = " to ".join(paths)
        self._paths, self._over_s = paths, over_s

    def look(self) -> bool:
        """Read the files; False: there is nothing to wait for."""
        looks = [_dumped(path) for path in self._paths]
        latest = [max((look.latest_ns for look in found.values()), default=0) for found in looks]
        at = latest[-1] / 1e9 if latest[-1] >= stats.FIRST_WALL_CLOCK_NS else None
        parts: list[TargetLoad] = []
        missing: dict[str, dict[str, str]] = {}
        if len(looks) == 1:
            began = _oldest(looks[0])
            for key, look in looks[0].items():
                parts.append(_part(key, look.entries, "", None))
                if look.bad:
                    missing.setdefault(key[0], {})[key[1]] = look.bad
            self._load = load_of(parts, self._known, levels.TOTALS, at, None, missing, began,
                                      more=MORE)
            return False
        # What has no entry does not tell when it was read.
        span_s = self._over_s or ((latest[1] - latest[0]) / 1e9 if all(latest) else 0.0)
        if latest[1] and span_s < 0 and not self._over_s:
            raise UsageError(f"--statsfile: expected the older file first: the latest request in "
                             f"{self._paths[1]} is {-span_s:.0f} s before that in {self._paths[0]}")
        for key, look in looks[1].items():
            if key not in looks[0]:
                missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[0]}"
                continue
            part, why = _between(key, looks[0][key], look, "", span_s or None, None)
            parts.append(part)
            if why:
                missing.setdefault(key[0], {})[key[1]] = why
        for key in looks[0].keys() - looks[1].keys():
            missing.setdefault(key[0], {})[key[1]] = f"not in {self._paths[1]}"
        self._load = load_of(parts, self._known, levels.RATES if span_s else levels.GAINS,
                                  at,
                                  span_s or None, missing, more=MORE)
        return False

    def answer(self, ask: ranking.LoadQuery) -> dict[str, Any]:
        """What loads.answer says of the files."""
        return ranking.answer(self._load, ask, self._known)


# -- reading -----------------------------------------------------------------------------------

def _opened(directories: Iterable[str]) -> BinaryIO:
    """The job_stats in the first directory that has one; OSError, of what is there if any is."""
    failed: OSError | None = None
    for directory in directories:
        try:
            return os.fdopen(open_regular(os.path.join(directory, "job_stats")), "rb", buffering=0)
        except OSError as error:
            if failed is None or isinstance(failed, FileNotFoundError):
                failed = error
    raise failed  # type: ignore[misc]                 # a target has directories


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file that gives a page at a time."""
    while True:
        chunk = file.read(_CHUNK)
        if not chunk:
            return
        yield chunk


def _dumped(path: str) -> dict[Key, Look]:
    """{(file system, target): Look} of a saved dump."""
    names: dict[str, Key] = {}
    found: dict[Key, dict[str, list[Life]]] = {}
    bad: dict[Key, list[str]] = {}
    latest: dict[Key, int] = {}
    has_name: list[bool] = []
    try:
        with open(path, "rb") as file:
            for name, piece in job_stats.dump(_noted(_chunks(file), b"job_stats", has_name)):
                key = names.get(name)
                if key is None:
                    key = names[name] = _key(name, piece)
                    found[key], bad[key], latest[key] = {}, [], 0
                if not piece:
                    continue
                try:
                    entry = job_stats.parse(piece, 0, path)
                except JobStatsSyntaxError as error:
                    bad[key].append(str(error))
                    continue
                _add(found[key], entry)
                latest[key] = max(latest[key], entry.seen_ns)
    except OSError as error:
        raise NotReadable(f"{path}: cannot be read: {error.strerror}; expected "
                          f"{_EXPECTED}") from None
    if not has_name:
        raise NotReadable(f"{path}: expected {_EXPECTED}, got "
                          + ("something else" if os.path.getsize(path) else "an empty file"))
    first = next((whys[0] for whys in bad.values() if whys), "")
    if first and not any(found.values()):
        raise IostatsError(first)
    if any(key[0] == "" and any(len(lives) > 1 for lives in entries.values())
           for key, entries in found.items()):
        raise NotReadable(f"{path}: several targets, and not which: expected {_EXPECTED} without "
                          f"-n")
    # Other parameters, before the first job_stats, are no damage.
    return {key: Look(None, entries, latest[key], _words(bad[key]))
            for key, entries in found.items() if key[0] or entries}


def _noted(chunks: Iterable[bytes], word: bytes, found: list[bool]) -> Iterator[bytes]:
    """`chunks`; `found` is no longer empty when `word` was in them."""
    tail = b""
    for chunk in chunks:
        if not found and word in tail + chunk:
            found.append(True)
        tail = chunk[-len(word):]
        yield chunk


def _key(name: str, piece: bytes) -> Key:
    """
    (file system, target) of obdfilter.FS-OST0000.job_stats.

    Where no name is said, ("", "MDT?") or ("", "OST?"), by what the first entry has.
    """
    place = name.partition(".")[2].rpartition(".")[0]
    return agent.split_name(place) or ("", "MDT?" if _OF_MDT.search(piece) else "OST?")


def _add(entries: dict[str, list[Life]], entry: job_stats.Entry) -> None:
    entries.setdefault(entry.job_id, []).append((entry.started_ns, entry.seen_ns, {
        name: (counter.samples, counter.sum if counter.unit in _SUMMED else None)
        for name, counter in entry.counters.items()}))


def _words(bad: list[str]) -> str:
    if not bad:
        return ""
    return (f"{len(bad)} {'entry' if len(bad) == 1 else 'entries'} not understood, the first: "
            f"{bad[0]}")


def _oldest(looks: dict[Key, Look]) -> float | None:
    """When the oldest entry began, seconds since 1970; None where one of them does not tell."""
    starts = [started for look in looks.values() for lives in look.entries.values()
              for started, _, _ in lives]
    return min(starts) / 1e9 if starts and all(starts) else None


# -- what came in between ----------------------------------------------------------------------

def _between(key: Key, before: Look, now: Look, server: str, span_s: float | None,
             cleanup_s: int | None) -> tuple[TargetLoad, str]:
    """
    (Part of what came in between two Looks of a target, why it may be too low); `cleanup_s`: None
    where nothing tells it, and no other entry is known to be one that came after an expiry.
    """
    gained, skipped, lost = {}, 0, 0
    interval_s = _CLEANUP_S if cleanup_s is None else cleanup_s
    for id, lives in now.entries.items():
        known = before.entries.get(id)
        if known is lives:
            continue                                # not a byte has changed
        if known is None and 0 < lives[0][0] < before.latest_ns - _LATE_NS:
            skipped += 1                            # it was there: a racing reader skips entries
            continue
        first = lives[0]
        if known and _is_another(known[-1], first):
            lost += not _expired(known[-1], first[0] or first[1], cleanup_s or 0)
        elif known:
            first = _gain(known[-1], first)
        gained[id] = [first, *lives[1:]]
    lost += sum(not _expired(lives[-1], now.latest_ns, interval_s)
                for id, lives in before.entries.items() if id not in now.entries)
    whys = [f"{skipped} {'entry was' if skipped == 1 else 'entries were'} skipped by an earlier "
            f"look"] if skipped else []
    if lost:
        whys.append(f"{lost} {'entry' if lost == 1 else 'entries'} went or began again in between: "
                    f"what came before that is not known")
    if interval_s and span_s is not None and span_s >= interval_s:
        whys.append(f"{span_s:.0f} s apart: what came and expired in between is not known")
    whys += [now.bad or before.bad] if now.bad or before.bad else []
    return _part(key, gained, server, span_s), "; ".join(whys)


def _is_another(before: Life, now: Life) -> bool:
    """Whether an entry began again, as far as it shows."""
    (started, _, old), (again, _, new) = before, now
    if started and again:
        return started != again
    return any(name not in new or new[name][0] < samples or (total or 0) > (new[name][1] or 0)
               for name, (samples, total) in old.items())


def _expired(before: Life, made_ns: int, cleanup_s: int) -> bool:
    """Whether an entry may have expired before the one that was made then, or before that look."""
    return cleanup_s > 0 and made_ns + _LATE_NS >= before[1] + cleanup_s * 10**9


def _gain(before: Life, now: Life) -> Life:
    """(start, last request, counters) of what `now`, the same entry, has more than `before`."""
    (_, _, old), (started, seen, new) = before, now
    return started, seen, {
        name: (samples - old.get(name, (0, 0))[0],
               None if total is None else total - (old.get(name, (0, 0))[1] or 0))
        for name, (samples, total) in new.items()}


def _part(key: Key, entries: dict[str, list[Life]], server: str,
          span_s: float | None) -> TargetLoad:
    """The loads.Part of {id: [Life]}."""
    ids: list[str] = []
    columns: list[list[int]] = [[] for _ in (*METRICS, *MORE)]
    for id, lives in entries.items():
        amounts = [0] * len(columns)
        for _, _, counters in lives:
            for place, amount in enumerate((*amounts_of(counters, key[1]),
                                            *more_amounts_of(counters))):
                amounts[place] += amount
        if any(amounts):
            ids.append(id)
            for column, amount in zip(columns, amounts):
                column.append(amount)
    return TargetLoad(*key, server, span_s, ids, columns)
