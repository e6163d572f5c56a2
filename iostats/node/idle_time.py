"""
What a node does to its file systems while no job is there: daemons, a health checker that stats
all day.  As much of it is in the numbers of every job.

    DIRECTORY/NODE.quiet            llite's counters after the last job, a snapshot
    DIRECTORY/KEY%20NODE.quiet      the same, when a job's prolog has taken it for that job
    DIRECTORY/NODE.idle             what was measured in this boot, as JSON

An epilog that leaves no job behind keeps the counters as it has just read them.  The next prolog,
if its job is alone, takes that file for the job: one rename, and nothing is read.  The epilog of
that job then has both ends of an idle interval, this file and the job's start snapshot, and adds
it to NODE.idle.  So an interval is in one job's hands at most, and whatever is in doubt (two
prologs at once, a prolog or epilog that was killed) leaves none.

Not used: less than SHORTEST_S, since what follows a job is not what a node does all day; more than
LONGEST_S, since then hooks may have been switched off, and jobs gone by unseen; an interval with
another job's cgroup, or a user's session, at either end; file systems whose counters began again.
A user who comes and goes in between is not seen, and the processes that a job leaves behind are
the node's.

What is measured counts for MEMORY_S of idle time, and the older the less, so that jobs that follow
each other closely have it as well.  All times are by the clock since boot, which is never set.
"""

from __future__ import annotations

import os

from iostats.base import private_files
from iostats.base.job_id import as_filename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.snapshot import Snapshot

    # file system -> {"seconds": of idle time, "values": {metric: amount}, "at": seconds since boot}
    Known = dict[str, dict[str, Any]]

SHORTEST_S, LONGEST_S = 60.0, 86400.0
MEMORY_S = 4 * 3600.0
_KEPT_S = 7 * 86400.0               # since it was measured last
_MOST = 2.0**62                     # as in totals/file_system.py: no node does as much
_MOST_NAMES, _LONGEST_NAME = 1000, 128
_FIRST_USER = 1000                  # uids below are the system's


# -- a prolog ------------------------------------------------------------------------------------

def take(directory: str, node: str, start_path: str, root: str) -> None:
    """The job whose start will be `start_path` is the first one after an idle time, if any."""
    mine = _of_job(start_path)
    try:
        os.rename(_quiet(directory, node), mine)
    except OSError:
        return                                              # the first job that is measured here
    if has_users(root):
        _forget(mine)


def is_over(directory: str, node: str, start_path: str, is_alone: bool = True) -> None:
    """
    A job is there: what one that has left keeps meanwhile begins no idle time.

    `is_alone`: no other job has begun at the same time as the one of `start_path`.
    """
    _forget(_quiet(directory, node))
    if not is_alone:
        _forget(_of_job(start_path))


# -- an epilog -----------------------------------------------------------------------------------

def measured(directory: str, node: str, start_path: str, start: Snapshot,
             is_alone: bool) -> dict[str, Any]:
    """
    What is known of the node's own I/O, with the time before `start`, as members of the report.

    `is_alone`: there was no other job at the start, as far as cgroups tell.
    """
    path = os.path.join(directory, as_filename(node) + ".idle")
    now_s = start.boot_ns / 1e9
    known = _loaded(path, start.boot_id, now_s)
    found = _since(_of_job(start_path), start) if is_alone else None
    if found:
        seconds, gains = found
        for name, values in gains.items():
            known[name] = _with(known.get(name), seconds, values, now_s)
        _keep(path, {"boot_id": start.boot_id, "file_systems": known})
    return {"idle": {name: {"seconds": one["seconds"], "values": one["values"]}
                     for name, one in known.items()}} if known else {}


def keep_quiet(directory: str, node: str, end: Snapshot, root: str) -> None:
    """Keep the counters of `end`, the last thing that a job did here, where no user is left."""
    from iostats.totals import snapshot as snapshots
    path = _quiet(directory, node)
    if has_users(root):
        return
    files = tuple(file for file in end.files if file.source in ("llite", "uuid")
                  or file.source.startswith("stats_track_"))
    if files:
        _write(path, snapshots.encode(end._replace(files=files)))


def has_users(root: str) -> bool:
    """Whether a user has a session on the node, as far as systemd's cgroups tell (v1 or v2)."""
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


def _since(path: str, start: Snapshot) -> tuple[float, dict[str, dict[str, int]]] | None:
    """(seconds, {file system: {metric: gain}}) between a kept snapshot and `start`, if usable."""
    from iostats.base.errors import IostatsError
    from iostats.node import sources
    from iostats.totals import delta
    from iostats.totals import snapshot as snapshots
    from iostats.totals.llite_values import in_short, made_once
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
    for one in delta.between(quiet, start, {"llite": sources.known()["llite"]}):
        if one.values is None or one.why or one.lower_bound:
            doubtful.add(one.file_system)
            continue
        sums = gains.setdefault(one.file_system, {})
        for metric, gain in in_short(made_once(one.values)).items():
            sums[metric] = sums.get(metric, 0) + gain
    return seconds, {name: sums for name, sums in gains.items() if name not in doubtful}


def _with(known: dict[str, Any] | None, seconds: float, values: dict[str, int],
          now_s: float) -> dict[str, Any]:
    """What is known of a file system with one interval more; MEMORY_S of it at most."""
    before = known or {"seconds": 0.0, "values": {}}
    left = max(0.0, MEMORY_S - seconds)
    share = min(1.0, left / before["seconds"]) if before["seconds"] else 0.0
    sums = {metric: value * share for metric, value in before["values"].items()}
    for metric, value in values.items():
        sums[metric] = sums.get(metric, 0) + value
    rounded = {metric: round(value, 3) for metric, value in sums.items()}
    return {"seconds": round(before["seconds"] * share + seconds, 3), "at": round(now_s, 3),
            "values": {metric: value for metric, value in rounded.items() if 0 < value < _MOST}}


def _loaded(path: str, boot_id: str, now_s: float) -> Known:
    """What was kept in this boot, and is not too old; what is damaged is left out."""
    from iostats.base import strict_json
    try:
        kept = strict_json.loads(private_files.read_text(path).encode("latin-1"))
        if not boot_id or kept["boot_id"] != boot_id:
            return {}
        found = {name: one for name, one in kept["file_systems"].items()
                 if _is_name(name) and _is_of_its_form(one) and 0 <= now_s - one["at"] <= _KEPT_S}
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return {}
    return found if len(found) <= _MOST_NAMES else {}


def _is_of_its_form(one: Any) -> bool:
    return (set(one) == {"seconds", "values", "at"} and _is_number(one["at"])
            and _is_number(one["seconds"]) and SHORTEST_S <= one["seconds"] <= LONGEST_S
            and len(one["values"]) <= _MOST_NAMES
            and all(_is_name(metric) and _is_number(value) and 0 <= value < _MOST
                    for metric, value in one["values"].items()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME


def _keep(path: str, kept: dict[str, Any]) -> None:
    import json
    _write(path, json.dumps(kept, separators=(",", ":")).encode())


def _write(path: str, data: bytes) -> None:
    """Whole or not at all; a crash of the machine ends the boot, and with it what this is for."""
    try:
        private_files.write_whole(path, data, sync=False)
    except OSError:                                         # the disk is full
        _forget(path)


def forget(start_path: str) -> None:
    """The job has gone, and what its prolog has taken with it."""
    _forget(_of_job(start_path))


def _forget(path: str) -> None:
    try:
        private_files.forget(path)
    except OSError:
        pass                                                # of its other files it is told


def _quiet(directory: str, node: str) -> str:
    return os.path.join(directory, as_filename(node) + ".quiet")


def _of_job(start_path: str) -> str:
    return start_path[:-len(".start")] + ".quiet"
