"""
`watch`: a process that reads the mounts' counters now and then, so that the report has rates.

It keeps up to time_bins.MOST_BINS amounts of each file system in one small file beside the start
snapshot, whatever the length of the job:

    {"seq": "9f2c31d0a4b85e67", "file_systems": {"scratch": {"began": ..., "every_s": ..., ...}}}

and ends when the start snapshot `seq` is gone, or that file: with the job's `stop`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time

from iostats.base import strict_json
from iostats.base.errors import IostatsError
from iostats.node import sources as node_sources
from iostats.totals import delta
from iostats.totals.llite_values import operations_of
from iostats.totals.snapshot import readings
from iostats.totals.time_bins import MOST_BINS, Series

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from iostats.lustre.stats import Reading
    from iostats.node.start_files import StartFiles
    from iostats.totals.snapshot import Snapshot

METRICS = ("read_bytes", "write_bytes", "operations")
LOOK_EVERY_S = 1.0


def run(kept: StartFiles, seq: str, take: Callable[[], Snapshot], sources: dict[str, ModuleType],
        every_s: float, now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        look: Callable[[], float] = lambda: math.inf) -> None:
    """
    Watch until the start snapshot `seq` of `kept` is gone, or a signal says so.

    `take()` gives a Snapshot of the mounts; `sources` has the one source that it reads; `look()`
    sees what went wrong, and tells in how many seconds to look again.
    """
    stopped: list[bool] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.append(True))
    series: dict[str, Series] = {}
    start, written = _identity(kept.loaded_from), False

    def keep() -> bool:
        try:
            kept.keep_watch(encode(seq, series))
            return True
        except IostatsError:
            return written                # a full disk: the next look may fit again

    look_in = look()
    look_at = now() + look_in
    before, due, written = readings(take(), sources)[0], now() + every_s, keep()
    # A `stop` removes root's start for root alone, and what we wrote for everybody.
    while start and start == _identity(kept.loaded_from) and (
            not written or os.path.lexists(kept.watch_path)):
        at, is_last = now(), bool(stopped)      # a signal in the midst of a look: one more
        due = min(due, at + every_s)      # the clock was set back
        if at >= due or is_last:
            before = _look(series, before, take, sources, every_s, at)
            due += every_s * (1 + max(0, int((at - due) / every_s)))       # what was missed is
            written = keep()
        look_at = min(look_at, at + look_in)
        if at >= look_at:
            look_in = look()
            look_at = at + look_in
        if is_last:
            break
        sleep(max(0.0, min(LOOK_EVERY_S, due - now())))
    if _identity(kept.loaded_from) is None:
        kept.forget_watch()               # `stop` may have been between two lines of ours
        kept.leave()


def _identity(path: str) -> tuple[int, int, int] | None:
    """What another start of the same name does not have in common with this one; None: gone."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _look(series: dict[str, Series], before: dict[tuple[str, str], Reading],
          take: Callable[[], Snapshot], sources: dict[str, ModuleType], every_s: float,
          at: float) -> dict[tuple[str, str], Reading]:
    """Add what was gained since `before` to `series`; the readings of now."""
    after = readings(take(), sources)[0]
    for (source, name), reading in after.items():
        place = sources[source].split(name)
        if place is None or (source, name) not in before:
            continue                      # mounted since: its rate begins with the next look
        gain = delta.gains(before[source, name], reading, sources[source].CALLS_SUFFIX)
        mine = series.setdefault(place[0], Series(every_s, METRICS, at - every_s))
        # In the middle of the time that it is of: a look is never on time to the microsecond.
        mine.add(at - every_s / 2, _amounts(gain.values))
    return after


def with_tail(seen: Any, report: dict[str, Any]) -> dict[str, Any]:
    """
    `seen`, the watch file's text, with what was done after the last look in the last bin, so that
    the bins' sums are those of `report`; {} where that file is damaged, or another start's.
    """
    try:
        seen = strict_json.loads(seen)
        watched = node_sources.read_at("watch")
        found: dict[str, Any] = seen["file_systems"] if seen["seq"] == report["seq"] else {}
        for name, one in found.items():
            if not _is_sound(one) or len(name) > 128:       # which the server would refuse
                return {}
            series = Series(one["every_s"], METRICS, one["began"])
            series.bins = {metric: one[metric] for metric in METRICS}
            whole = dict.fromkeys(METRICS, 0)
            for one_delta in report["deltas"]:
                if one_delta["source"] in watched and one_delta["file_system"] == name:
                    for metric, amount in _amounts(one_delta["values"] or {}).items():
                        whole[metric] += amount
            series.add(max(report["ended"], series.began), {
                metric: max(0, whole[metric] - sum(series.bins[metric])) for metric in METRICS})
            found[name] = series.as_dict()
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_sound(one: dict[str, Any]) -> bool:
    """True when a server takes it: a damaged file must not keep the report from it."""
    amounts = [one[metric] for metric in METRICS]
    return ({type(one["every_s"]), type(one["began"])} <= {int, float}
            and 1 <= one["every_s"] <= 1e9 and 0 <= one["began"] <= 1e12
            and len(set(map(len, amounts))) == 1 and len(amounts[0]) <= MOST_BINS
            and all(type(each) is int and 0 <= each < 2**63 for row in amounts for each in row))


def _amounts(values: dict[str, int]) -> dict[str, int]:
    return {"read_bytes": values.get("read_bytes", 0),
            "write_bytes": values.get("write_bytes", 0),
            "operations": sum(operations_of(values).values())}


def encode(seq: str, series: dict[str, Series]) -> bytes:
    """The watch file of the start `seq` and {file system: Series}; `stop` sends the latter on."""
    return json.dumps({"seq": seq, "file_systems": {name: one.as_dict()
                                                    for name, one in series.items()}},
                      separators=(",", ":")).encode()
