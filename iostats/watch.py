"""
`watch`: a process that reads the mounts' counters now and then, so that the report has rates.

It keeps at most series.MOST_BINS amounts of each file system in one small file beside the start
snapshot, whatever the length of the job, and ends when the start snapshot is gone: with the job.
"""

import json
import os
import signal
import time

from iostats import delta
from iostats.aggregate import operations_of
from iostats.errors import IostatsError
from iostats.series import Series
from iostats.snapshot import readings

METRICS = ("read_bytes", "write_bytes", "operations")
_LOOK_EVERY_S = 1.0


def run(kept, take, sources, every_s, now=time.time, sleep=time.sleep):
    """
    Watch until the start snapshot of `kept` is gone, or a signal says so.

    `take()` gives a Snapshot of the mounts; `sources` has the one source that it reads.
    """
    stopped = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.append(True))
    series, before = {}, readings(take(), sources)[0]
    due = now() + every_s
    while not stopped and os.path.lexists(kept.loaded_from):
        sleep(max(0.0, min(_LOOK_EVERY_S, due - now())))
        if now() < due and not stopped:
            continue
        due += every_s
        before = _look(series, before, take, sources, every_s, now())
        try:
            kept.keep_watch(encode(series))
        except IostatsError:
            pass                          # a full disk: the next look may fit again
    if not os.path.lexists(kept.loaded_from):
        kept.forget_start()               # `stop` may have been between two lines of ours
        kept.leave()


def _look(series, before, take, sources, every_s, at):
    """Add what was gained since `before` to `series`; the readings of now."""
    after = readings(take(), sources)[0]
    for (source, name), reading in after.items():
        place = sources[source].split(name)
        if place is None:
            continue
        gain = delta.gains(before.get((source, name)), reading, sources[source].CALLS_SUFFIX)
        if (source, name) not in before:
            continue                      # mounted since: its rate begins with the next look
        mine = series.setdefault(place[0], Series(every_s, METRICS))
        # In the middle of the time that it is of.
        mine.add(at - every_s / 2, _amounts(gain.values))
    return after


def with_tail(seen, report):
    """
    `seen`, the watch file's text, with what was done after the last look in the last bin, so that
    the bins' sums are those of `report`; {} where `watch` did not run, or its file is damaged.
    """
    try:
        found = json.loads(seen)
        for name, one in found.items():
            series = Series(one["every_s"], METRICS)
            series.began, series.bins = one["began"], {metric: one[metric] for metric in METRICS}
            whole = dict.fromkeys(METRICS, 0)
            for one_delta in report["deltas"]:
                if (one_delta["source"], one_delta["file_system"]) == ("llite", name):
                    for metric, amount in _amounts(one_delta["values"] or {}).items():
                        whole[metric] += amount
            series.add(max(report["ended"], series.began), {
                metric: max(0, whole[metric] - sum(series.bins[metric])) for metric in METRICS})
            found[name] = series.as_dict()
        return found
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _amounts(values):
    return {"read_bytes": values.get("read_bytes", 0),
            "write_bytes": values.get("write_bytes", 0),
            "operations": sum(operations_of(values).values())}


def encode(series):
    """{file system: Series} as the bytes of the watch file, which `stop` sends on."""
    return json.dumps({name: one.as_dict() for name, one in series.items()},
                      separators=(",", ":")).encode()
