"""
`watch`: a process that reads the mounts' counters now and then, so that the report has rates.

It keeps up to time_bins.MOST_BINS amounts of each file system in one small file beside the start
snapshot, whatever the length of the job:

    {"seq": "9f2c31d0a4b85e67", "file_systems": {"scratch": {"began": ..., "every_s": ..., ...}}}

and ends when the start snapshot `seq` is removed, or that file: with the job's `stop`.
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
from iostats.totals.snapshot import parse_readings
from iostats.totals.time_bins import MOST_BINS, Series

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from iostats.lustre.stats import Reading
    from iostats.node.start_files import StartFiles
    from iostats.totals.received_report import SentReport, SentSeries
    from iostats.totals.snapshot import CounterSource, Snapshot

    class Watched(TypedDict):
        """The watch file of the start `seq`."""

        seq: str
        file_systems: dict[str, SentSeries]

METRICS = ("read_bytes", "write_bytes", "operations")
LOOK_EVERY_S = 1.0


def run(files: StartFiles, seq: str, take: Callable[[], Snapshot],
        sources: dict[str, CounterSource],
        every_s: float, now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        check: Callable[[], float] = lambda: math.inf) -> None:
    """
    Read counters until the start snapshot `seq` of `files` is removed, or a signal arrives.

    `take()` gives a Snapshot of the mounts; `sources` has the sources that it reads; `check()`
    sees what went wrong, and tells in how many seconds to look again.
    """
    stopped: list[bool] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.append(True))
    series: dict[str, Series] = {}
    start, written = _find_identity(files.loaded_from), False

    def store() -> bool:
        try:
            files.store_watch(encode(seq, series))
            return True
        except IostatsError:
            return written                # a full disk: the next look may fit again

    check_in = check()
    check_at = now() + check_in
    began = now()
    before, due, written = parse_readings(take(), sources)[0], began + every_s, store()
    # A `stop` removes root's start for root alone, and what we wrote for everybody.
    while start and start == _find_identity(files.loaded_from) and (
            not written or os.path.lexists(files.watch_path)):
        at, is_last = now(), bool(stopped)      # a signal in the midst of a look: one more
        due = min(due, at + every_s)      # the clock was set back
        if at >= due or is_last:
            before = _add_gains(series, before, take, sources, every_s, at, began)
            due += every_s * (1 + max(0, int((at - due) / every_s)))       # what was missed is
            written = store()
        check_at = min(check_at, at + check_in)
        if at >= check_at:
            check_in = check()
            check_at = at + check_in
        if is_last:
            break
        sleep(max(0.0, min(LOOK_EVERY_S, due - now())))
    if _find_identity(files.loaded_from) is None:
        files.delete_watch()               # `stop` may have been between two lines of ours
        files.leave()


def _find_identity(path: str) -> tuple[int, int, int] | None:
    """
    The identity of a start's file, which a later start of the same name does not share; None if
    removed.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _add_gains(series: dict[str, Series], before: dict[tuple[str, str], Reading],
               take: Callable[[], Snapshot], sources: dict[str, CounterSource], every_s: float,
               at: float, began: float) -> dict[tuple[str, str], Reading]:
    """Add the gains since `before` to `series`, and return the present readings."""
    after = parse_readings(take(), sources)[0]
    for (source, name), reading in after.items():
        place = sources[source].split(name)
        if place is None or (source, name) not in before:
            continue                      # mounted since: its rate begins with the next look
        module = sources[source]
        gain = delta.compute_gains(before[source, name], reading, module.CALLS_SUFFIX)
        only_if_used = getattr(module, "ONLY_IF_USED", False)
        if not gain.values and only_if_used:
            continue
        # What is used later on was not used before.
        file_system_series = series.setdefault(place[0], Series(
            every_s, METRICS, began if only_if_used else at - every_s))
        # In the middle of the time that it is of: a look is never on time to the microsecond.
        if gain.values is not None:
            file_system_series.add(at - every_s / 2, _sum_amounts(module, gain.values))
    return after


def add_remaining_gains(watched_text: bytes, report: SentReport) -> dict[str, SentSeries]:
    """
    Return what the watch file has, with the gains after the last reading in the last bin, so
    that the bins' sums are those of `report`; {} where that file is damaged, or another start's.
    """
    try:
        last: Watched = strict_json.loads(watched_text)
        watched = node_sources.read_at("watch")
        stored = last["file_systems"] if last["seq"] == report["seq"] else {}
        for name, entry in stored.items():
            if not _is_sound(entry) or len(name) > 128:       # which the server would refuse
                return {}
            began = entry["began"]
            series = Series(entry["every_s"], METRICS, began)
            series.bins = dict(zip(METRICS, _list_amounts(entry)))
            whole = dict.fromkeys(METRICS, 0)
            for one_delta in report["deltas"]:
                if one_delta["source"] in watched and one_delta["file_system"] == name:
                    for metric, amount in _sum_amounts(watched[one_delta["source"]],
                                                       one_delta["values"] or {}).items():
                        whole[metric] += amount
            series.add(max(report["ended"], began), {
                metric: max(0, whole[metric] - sum(series.bins[metric])) for metric in METRICS})
            stored[name] = {"began": began, "every_s": series.every_s,
                            "read_bytes": series.bins["read_bytes"],
                            "write_bytes": series.bins["write_bytes"],
                            "operations": series.bins["operations"]}
        return stored
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _list_amounts(entry: SentSeries) -> tuple[list[int], ...]:
    """The amounts of METRICS."""
    return entry["read_bytes"], entry["write_bytes"], entry["operations"]


def _is_sound(entry: SentSeries) -> bool:
    """True if a server accepts it: a damaged file must not block the report."""
    amounts = _list_amounts(entry)
    return ({type(entry["every_s"]), type(entry["began"])} <= {int, float}
            and 1 <= entry["every_s"] <= 1e9 and 0 <= entry["began"] <= 1e12
            and len(set(map(len, amounts))) == 1 and len(amounts[0]) <= MOST_BINS
            and all(type(amount) is int and 0 <= amount < 2**63 for row in amounts
                    for amount in row))


def _sum_amounts(module: CounterSource, values: dict[str, int]) -> dict[str, int]:
    return {"read_bytes": values.get("read_bytes", 0),
            "write_bytes": values.get("write_bytes", 0),
            "operations": module.count_operations(values)}


def encode(seq: str, series: dict[str, Series]) -> bytes:
    """The watch file of the start `seq` and {file system: Series}; `stop` sends the latter on."""
    return json.dumps({"seq": seq, "file_systems": {name: one_series.as_dict()
                                                    for name, one_series in series.items()}},
                      separators=(",", ":")).encode()
