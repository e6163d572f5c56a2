"""
The files of a storage server, where its release keeps them.

    proc/fs/lustre/obdfilter/scratch-OST0000/job_stats                      in all releases
    proc/fs/lustre/obdfilter/scratch-OST0000/exports/10.77.0.11@tcp/stats   from 2.17 on in debugfs
    sys/fs/lustre/obdfilter/scratch-OST0000/job_cleanup_interval            in /proc up to 2.12
    proc/fs/lustre/obdfilter/scratch-OST0000/recovery_status                from 2.17 on in debugfs
    sys/fs/lustre/osd-ldiskfs/scratch-OST0000/kbytesfree                    in /proc up to 2.12
    sys/kernel/debug/lnet/stats, nis, routers, peers                        up to 2.10 in /proc/sys
    run/iostats/lnetctl                     what iostats-lnetctl.service stores
    dev/kmsg                                                                the kernel's log
    and the files of metrics_tree.py
    proc/sys/kernel/random/boot_id          its own: two of them on one machine are two machines

Writing does what it does in Lustre: `clear` or a job's id to job_stats, anything to `stats` and
`exports/clear`, seconds to job_cleanup_interval.
"""
from __future__ import annotations

import errno
import time

from . import text
from .counters import Release
from .metrics_tree import files_of_pools, files_of_quotas, files_of_services, files_of_target
from .storage_server import StorageServer
from .target import RESERVED_KBYTES, TOTAL_INODES, TOTAL_KBYTES, Target
from .tree import File, fixed

LNET = "sys/kernel/debug/lnet"
CLEAR = "Write into this file to clear all nid stats and stale nid entries\n"


def files_of(server: StorageServer) -> dict:
    """path below `root` -> File, of what is there now."""
    files = {f"sys/fs/lustre/{name}": fixed(content) for name, content in (
        ("version", server.release.version + "\n"), ("jobid_var", server.jobid_var + "\n"),
        ("jobid_name", "%e.%u\n"))}
    files["sys/fs/lustre/health_check"] = File(lambda: server.health + "\n")
    files["proc/sys/kernel/random/boot_id"] = fixed(f"{server.boot_id}\n")
    files.update(_files_of_lnet(server))
    files["dev/kmsg"] = File(lambda: "", read_at=server.log.read, size=server.log.size)
    files.update(files_of_services(
        server.services, {target.kind for target in server.targets.values()}, server.release))
    for target in server.targets.values():
        files.update(_files_of_target(target))
        files.update(files_of_target(target))
        if target.kind == "MDT":
            files.update(files_of_pools(server, target))
        file_system, _, short = target.name.rpartition("-")
        if short == "MDT0000":
            files.update(files_of_quotas(server.quotas.setdefault(file_system, {}), file_system,
                                         server.release))
    return files


def _changelog_users(records: int, release: Release) -> str:
    """Of one user, who cleared all up to record 1000 an hour ago."""
    if release.version.startswith("2.10"):
        return f"current index: {1000 + records}\nID    index\ncl1   1000\n"
    if release.version.startswith("2.12"):
        return (f"current index: {1000 + records}\nID    index (idle seconds)\n"
                f"cl1   1000 (3600)\n")
    return (f"current_index: {1000 + records}\n{'ID':<24} {'index':>10} (idle) mask\n"
            f"{'cl1':<24} {1000:>10} (3600)\n")


def _files_of_lnet(server: StorageServer) -> dict:
    """As of one interface and one CPU partition; a message has 4096 bytes."""
    place = "proc/sys/lnet" if server.release.version.startswith("2.10") else LNET

    def stats():
        count, dropped = server.messages, server.dropped
        return f"0 1 0 {count} {count} 0 {dropped} {count << 12} {count << 12} 0 {dropped << 12}\n"

    def nis():
        return (f"{'nid':<24} status alive refs peer  rtr   max    tx   min\n" + "".join(
            f"{nid:<24}     up {alive:>5}    2 {peer:>4}    0 {most:>5} {most:>5} {most:>5}\n"
            for nid, alive, peer, most in (("0@lo", 0, 0, 0), (server.nid, -1, 8, 256))))

    def peers():
        nids = sorted({nid for target in server.targets.values() for nid in target.exports})
        now, lowest = (-count or 8 for count in (server.waiting, server.most_waiting))
        return ("nid                      refs state  last   max   rtr   min    tx   min queue\n"
                + "".join(f"{nid:<24}    1    NA    -1     8     8     8 {now:>5} {lowest:>5} "
                          f"{server.waiting << 12}\n" for nid in nids))

    def routers():
        # Up to 2.12 there are more columns.
        is_old = server.release.version.startswith(("2.10", "2.12"))
        heading, row = (
            ("ref  rtr_ref alive_cnt  state    last_ping ping_sent deadline down_ni router\n",
             "4          1         3 {:>6}           41         1       NA       0 {}\n") if is_old
            else ("ref  rtr_ref alive router\n", "4          1 {:>5} {}\n"))
        return heading + "".join(row.format(state, nid) for nid, state in server.routers.items())

    def lnetctl():
        # Resends and health begin with 2.12.
        has_health = not server.release.version.startswith(("2.5", "2.7", "2.10"))
        return (f"time: {int(time.time())}\nstatistics:\n    send_count: {server.messages}\n" + (
            f"    resend_count: {server.resent}\n    response_timeout_count: 0\n" if has_health
            else "") + "net:\n" + "".join(
            f"    - net type: {nid.partition('@')[2]}\n      local NI(s):\n        - nid: {nid}\n"
            f"          status: up\n" + (
                f"          health stats:\n              health value: {health}\n" if has_health
                else "") for nid, health in (("0@lo", 942), (server.nid, server.lnet_health))))
    return {**{f"{place}/{name}": File(render) for name, render in (
        ("stats", stats), ("nis", nis), ("routers", routers), ("peers", peers))},
        "run/iostats/lnetctl": File(lnetctl)}


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
    backing = f"{release.cleanup_in}/osd-ldiskfs/{target.name}"
    for file, value in (
            ("kbytestotal", lambda: TOTAL_KBYTES), ("kbytesfree", target.kbytes_free),
            ("kbytesavail", lambda: max(0, target.kbytes_free() - RESERVED_KBYTES)),
            ("filestotal", lambda: TOTAL_INODES),
            ("filesfree", lambda: TOTAL_INODES - max(0, target.inodes_used))):
        files[f"{backing}/{file}"] = File(lambda value=value: f"{value()}\n")
    if target.kind == "MDT":
        is_old = release.version.startswith("2.10")
        place = "proc/fs/lustre" if is_old else "sys/kernel/debug/lustre"
        files[f"{place}/mdd/{target.name}/changelog_users"] = File(
            lambda: _changelog_users(target.changelog_records, release))
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
