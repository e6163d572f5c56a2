"""
The files of a storage server, where its release keeps them.

    proc/fs/lustre/obdfilter/scratch-OST0000/job_stats                      in all releases
    proc/fs/lustre/obdfilter/scratch-OST0000/exports/10.77.0.11@tcp/stats   from 2.17 on in debugfs
    sys/fs/lustre/obdfilter/scratch-OST0000/job_cleanup_interval            in /proc up to 2.12
    proc/fs/lustre/obdfilter/scratch-OST0000/recovery_status                from 2.17 on in debugfs
    dev/kmsg                                                                the kernel's log
    proc/sys/kernel/random/boot_id          its own: two of them on one machine are two machines

Writing does what it does in Lustre: `clear` or a job's id to job_stats, anything to `stats` and
`exports/clear`, seconds to job_cleanup_interval.
"""
from __future__ import annotations

import errno
import time

from . import text
from .storage_server import StorageServer
from .target import Target
from .tree import File, fixed

CLEAR = "Write into this file to clear all nid stats and stale nid entries\n"


def files_of(server: StorageServer) -> dict:
    """path below `root` -> File, of what is there now."""
    files = {f"sys/fs/lustre/{name}": fixed(content) for name, content in (
        ("version", server.release.version + "\n"), ("jobid_var", server.jobid_var + "\n"),
        ("jobid_name", "%e.%u\n"))}
    files["sys/fs/lustre/health_check"] = File(lambda: server.health + "\n")
    files["proc/sys/kernel/random/boot_id"] = fixed(f"{server.boot_id}\n")
    files["dev/kmsg"] = File(lambda: "", read_at=server.log.read, size=server.log.size)
    for target in server.targets.values():
        files.update(_files_of_target(target))
    return files


def _files_of_target(target: Target) -> dict:
    release = target.release
    name = f"{'obdfilter' if target.kind == 'OST' else 'mdt'}/{target.name}"
    exports = f"{release.exports_in}/{name}/exports"
    in_all = f"{release.exports_in}/{name}/stats"
    if target.kind == "MDT":
        in_all = f"proc/fs/lustre/{name}/md_stats"
    files = {
        f"proc/fs/lustre/{name}/job_stats": File(
            target.job_stats, target.clear_job_stats, lambda: target.expire(time.time_ns())),
        f"{release.cleanup_in}/{name}/job_cleanup_interval": File(
            lambda: f"{target.cleanup_s}\n", lambda data: _set_cleanup(target, data)),
        f"{release.cleanup_in}/{name}/uuid": fixed(f"{target.name}_UUID\n"),
        f"{release.cleanup_in}/{name}/instance": fixed(f"{target.instance}\n"),
        f"{release.cleanup_in}/{name}/num_exports": File(lambda: f"{target.connected()}\n"),
        f"{release.exports_in}/{name}/recovery_status": File(
            lambda: target.recovery.status(time.time())),
        in_all: File(lambda: text.stats(target.stats, release, time.time_ns()),
                     lambda data: target.stats.clear()),
        f"{exports}/clear": File(lambda: CLEAR, lambda data: target.clear_exports()),
    }
    if release.counts_evictions:
        files[f"sys/fs/lustre/{name}/eviction_count"] = File(lambda: f"{target.evicted}\n")
    for nid in target.exports:
        files.update(_files_of_export(target, f"{exports}/{nid}", nid))
    return files


def _files_of_export(target: Target, where: str, nid: str) -> dict:
    def uuids():
        if not target.exports[nid].uuids:
            raise OSError(errno.ENODEV, nid)
        return "".join(f"{uuid}\n" for uuid in target.exports[nid].uuids)
    return {
        f"{where}/stats": File(lambda: target.stats_of(nid, time.time_ns()),
                               lambda data: target.exports[nid].file.clear()),
        f"{where}/uuid": File(uuids),
    }


def _set_cleanup(target: Target, data: bytes) -> None:
    if not data.strip().isdigit():
        raise OSError(errno.EINVAL, "job_cleanup_interval")
    target.cleanup_s = int(data)
