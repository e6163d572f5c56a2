"""
A node's own I/O between two jobs: daemons, a health checker that calls stat all day.  As much of it
is in the numbers of every job.

    DIRECTORY/NODE.quiet            llite's counters after the last job, a snapshot
    DIRECTORY/KEY%20NODE.quiet      the same, when a job's prolog has taken it for that job
    DIRECTORY/NODE.idle             what was measured in this boot, as JSON

An epilog that leaves no job behind keeps the counters as it has just read them.  The next prolog,
if its job is alone, takes that file for the job: one rename, and nothing is read.  The epilog of
that job then has both ends of an idle interval, this file and the job's start snapshot, and adds
it to NODE.idle.  So an interval is in one job's hands at most, and whatever is in doubt (two
prologs at once, a prolog or epilog that was killed) leaves none.

Not used: less than SHORTEST_S, since what follows a job is not what a node does all day; more than
LONGEST_S, since then hooks may have been switched off, and jobs have run unseen; an interval with
another job's cgroup, or a user's session, at either end; file systems whose counters were reset.
A user who comes and goes in between is not seen, and the processes that a job leaves behind are
the node's.

What is measured counts for MEMORY_S of idle time, and the older the less, so that jobs that follow
each other closely have it as well.  All times are by the clock since boot, which is never set.
"""

from __future__ import annotations

import os

from iostats.base import private_files
from iostats.base.job_id import make_filename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from iostats.totals.received_report import SentIdle, SentReport
    from iostats.totals.snapshot import Snapshot

    class Idle(SentIdle):
        """The idle I/O of a file system; `at`: when it was measured last, seconds since boot."""

        at: float

    Known = dict[str, Idle]             # by file system

    class Stored(TypedDict):
        """The contents of NODE.idle: the idle I/O of this node so far, by file system."""

        boot_id: str
        file_systems: Known

SHORTEST_S, LONGEST_S = 60.0, 86400.0
MEMORY_S = 4 * 3600.0
_KEPT_S = 7 * 86400.0               # since it was measured last
_MOST = 2.0**62                     # as in totals/file_system.py: no node does as much
_MOST_NAMES, _LONGEST_NAME = 1000, 128
_FIRST_USER = 1000                  # uids below are the system's


# -- a prolog ------------------------------------------------------------------------------------

def claim(directory: str, node: str, start_path: str, root: str) -> None:
    """Claim the idle time before the job whose start will be `start_path`, if there is one."""
    job_path = _make_claimed_path(start_path)
    try:
        os.rename(_make_idle_path(directory, node), job_path)
    except OSError:
        return                                              # the first job that is measured here
    if has_users(root):
        _delete(job_path)


def is_over(directory: str, node: str, start_path: str, is_alone: bool = True) -> None:
    """
    End the idle time: a job is here, so the counters that another job left no longer begin one.

    `is_alone`: no other job has begun at the same time as the one of `start_path`.
    """
    _delete(_make_idle_path(directory, node))
    if not is_alone:
        _delete(_make_claimed_path(start_path))


# -- an epilog -----------------------------------------------------------------------------------

def report_idle_io(directory: str, node: str, start_path: str, start: Snapshot,
                   is_alone: bool) -> SentReport:
    """
    The node's own I/O, including the time before `start`, as members of the report.

    `is_alone`: there was no other job at the start, as far as cgroups tell.
    """
    path = os.path.join(directory, make_filename(node) + ".idle")
    now_s = start.boot_ns / 1e9
    known = _load(path, start.boot_id, now_s)
    idle = _load_gains(_make_claimed_path(start_path), start) if is_alone else None
    if idle:
        seconds, gains = idle
        for name, values in gains.items():
            known[name] = _add_interval(known.get(name), seconds, values, now_s)
        _store(path, {"boot_id": start.boot_id, "file_systems": known})
    return {"idle": {name: {"seconds": entry["seconds"], "values": entry["values"]}
                     for name, entry in known.items()}} if known else {}


def store_idle_start(directory: str, node: str, end: Snapshot, root: str) -> None:
    """Store the counters of `end`, the last reading of a job, if no user is left on the node."""
    from iostats.totals import snapshot as snapshots
    path = _make_idle_path(directory, node)
    if has_users(root):
        return
    files = tuple(file for file in end.files if file.source in ("llite", "uuid")
                  or file.source.startswith("stats_track_"))
    if files:
        _write(path, snapshots.encode(end._replace(files=files)))


def has_users(root: str) -> bool:
    """True if a user has a session on the node, by systemd's cgroups (v1 or v2)."""
    for above in ("user.slice", "systemd/user.slice"):
        try:
            names = os.listdir(os.path.join(root, "sys/fs/cgroup", above))
        except OSError:
            continue
        for name in names:
            uid = name[len("user-"):-len(".slice")]
            if (name.startswith("user-") and name.endswith(".slice") and uid.isascii()
                    and uid.isdigit() and int(uid[:12]) >= _FIRST_USER):
                return True
    return False


def _load_gains(path: str, start: Snapshot) -> tuple[float, dict[str, dict[str, int]]] | None:
    """(seconds, {file system: {metric: gain}}) between a stored snapshot and `start`, if usable."""
    from iostats.base.errors import IostatsError
    from iostats.node import sources
    from iostats.totals import delta
    from iostats.totals import snapshot as snapshots
    from iostats.totals.llite_values import compute_once, is_time, select_short
    try:
        quiet = snapshots.decode(private_files.read_text(path).encode("latin-1"), path)
    except (OSError, IostatsError):
        return None
    seconds = (start.boot_ns - quiet.boot_ns) / 1e9
    if (not start.boot_id or quiet.boot_id != start.boot_id
            or not SHORTEST_S <= seconds <= LONGEST_S):
        return None
    gains: dict[str, dict[str, int]] = {}
    doubtful = set()
    for change in delta.compute_deltas(quiet, start, {"llite": sources.list_sources()["llite"]}):
        if change.values is None or change.why or change.lower_bound:
            doubtful.add(change.file_system)
            continue
        sums = gains.setdefault(change.file_system, {})
        for metric, gain in select_short(compute_once(change.values)).items():
            if not is_time(metric):
                sums[metric] = sums.get(metric, 0) + gain
    return seconds, {name: sums for name, sums in gains.items() if name not in doubtful}


def _add_interval(idle: Idle | None, seconds: float, values: dict[str, int],
                  now_s: float) -> Idle:
    """A file system's idle I/O with one interval more; at most MEMORY_S of it."""
    before: Idle = idle or {"seconds": 0.0, "values": {}, "at": now_s}
    left = max(0.0, MEMORY_S - seconds)
    share = min(1.0, left / before["seconds"]) if before["seconds"] else 0.0
    sums = {metric: value * share for metric, value in before["values"].items()}
    for metric, value in values.items():
        sums[metric] = sums.get(metric, 0) + value
    rounded = {metric: round(value, 3) for metric, value in sums.items()}
    return {"seconds": round(before["seconds"] * share + seconds, 3), "at": round(now_s, 3),
            "values": {metric: value for metric, value in rounded.items() if 0 < value < _MOST}}


def _load(path: str, boot_id: str, now_s: float) -> Known:
    """The idle I/O stored in this boot that is recent enough; damaged parts are skipped."""
    from iostats.base import strict_json
    try:
        stored: Stored = strict_json.loads(private_files.read_text(path).encode("latin-1"))
        if not boot_id or stored["boot_id"] != boot_id:
            return {}
        entries = {name: entry for name, entry in stored["file_systems"].items()
                   if _is_name(name) and _is_valid_entry(entry)
                   and 0 <= now_s - entry["at"] <= _KEPT_S}
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return {}
    return entries if len(entries) <= _MOST_NAMES else {}


def _is_valid_entry(entry: Idle) -> bool:
    return (set(entry) == {"seconds", "values", "at"} and _is_number(entry["at"])
            and _is_number(entry["seconds"]) and SHORTEST_S <= entry["seconds"] <= LONGEST_S
            and len(entry["values"]) <= _MOST_NAMES
            and all(_is_name(metric) and _is_number(value) and 0 <= value < _MOST
                    for metric, value in entry["values"].items()))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME


def _store(path: str, stored: Stored) -> None:
    import json
    _write(path, json.dumps(stored, separators=(",", ":")).encode())


def _write(path: str, data: bytes | bytearray) -> None:
    """
    Write a file completely or not at all, without sync: it is invalid after a crash of the machine
    anyway.
    """
    try:
        private_files.write_atomically(path, data, sync=False)
    except OSError:                                         # the disk is full
        _delete(path)


def delete(start_path: str) -> None:
    """Remove the idle time that the prolog of this job has claimed: the job is over."""
    _delete(_make_claimed_path(start_path))


def _delete(path: str) -> None:
    try:
        private_files.remove_if_present(path)
    except OSError:
        pass                                                # its other files report it


def _make_idle_path(directory: str, node: str) -> str:
    return os.path.join(directory, make_filename(node) + ".quiet")


def _make_claimed_path(start_path: str) -> str:
    return start_path[:-len(".start")] + ".quiet"
