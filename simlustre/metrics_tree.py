"""
Where the files of metrics are, of targets and services of a storage server (server_metrics.py), in
each release: namespaces are in sysfs from 2.10 on, services and pools of objects from 2.12 on; an
MDT has tot_granted and archive_count from 2.12 on.
"""
from __future__ import annotations

import time

from . import text
from .counters import Release
from .server_metrics import (
    KIND_OF_SERVICES,
    PLACES_OF_SERVICES,
    POLICIES,
    QUOTA_KINDS,
    copytool_text,
    disk_requests_text,
    quota_text,
)
from .target import Target
from .tree import File, fixed

GRANT_BYTES = 2 << 20
THREADS, MOST_THREADS = 64, 512
NEXT_OBJECT = 4711
_OLD = ("2.10", "2.12")


def files_of_target(target: Target) -> dict:
    """path -> File of a Target."""
    release, name, is_mdt = target.release, target.name, target.kind == "MDT"
    version = release.version[:4]
    directory = f"{'mdt' if is_mdt else 'obdfilter'}/{name}"
    space = f"sys/fs/lustre/ldlm/namespaces/{'mdt' if is_mdt else 'filter'}-{name}_UUID"
    metrics = target.metrics
    in_debugfs = "proc/fs/lustre" if version in _OLD else "sys/kernel/debug/lustre"
    files = {
        f"{in_debugfs}/osd-ldiskfs/{name}/brw_stats": File(
            lambda: disk_requests_text(metrics, release, time.time_ns()),
            lambda data: metrics.clear()),
        f"{space}/lock_count": File(lambda: f"{max(0, target.inodes_used)}\n"),
        f"{space}/lock_timeouts": fixed("0\n")}
    if not is_mdt or version != "2.10":
        files[f"{release.cleanup_in}/{directory}/tot_granted"] = File(
            lambda: f"{target.connected() * GRANT_BYTES}\n")
        files[f"{release.cleanup_in}/{directory}/tot_dirty"] = fixed("0\n")
    if is_mdt:
        files[f"{in_debugfs}/{directory}/hsm/agents"] = File(lambda: copytool_text(metrics))
        if version != "2.10":
            for action in ("archive", "restore", "remove"):
                files[f"{release.cleanup_in}/{directory}/hsm/{action}_count"] = fixed("0\n")
    return files


def files_of_services(services: dict, kinds: set, release: Release) -> dict:
    """path -> File of {service: ServiceMetrics}; `kinds`: of the targets here, OST and MDT."""
    is_old = release.version.startswith("2.10")
    numbers_in = "proc/fs/lustre" if is_old else "sys/fs/lustre"
    stats_in = "proc/fs/lustre" if is_old else "sys/kernel/debug/lustre"
    files = {}
    for name, metrics in services.items():
        if KIND_OF_SERVICES[name] not in kinds:
            continue
        directory = f"{PLACES_OF_SERVICES[name]}/{name}"
        files[f"{numbers_in}/{directory}/threads_started"] = fixed(f"{THREADS}\n")
        files[f"{numbers_in}/{directory}/threads_max"] = fixed(f"{MOST_THREADS}\n")
        files[f"{stats_in}/{directory}/nrs_policies"] = File(lambda: POLICIES)
        files[f"{stats_in}/{directory}/stats"] = File(
            lambda metrics=metrics: text.stats(metrics.file, release, time.time_ns()),
            lambda data, metrics=metrics: metrics.file.clear())
    return files


def files_of_quotas(quotas: dict, file_system: str, release: Release) -> dict:
    """path -> File; `quotas`: {(kind, id): (KiB hard, KiB granted)}, which may change."""
    return {f"proc/fs/lustre/qmt/{file_system}-QMT0000/dt-0x0/glb-{short}": File(
        lambda kind=kind: quota_text(quotas, kind, release)) for kind, short in QUOTA_KINDS.items()}


def files_of_pools(server, mdt: Target) -> dict:
    """path -> File of the objects that the OSTs of its file system make for an MDT."""
    file_system, _, short = mdt.name.rpartition("-")
    is_old = mdt.release.version.startswith("2.10")
    files = {}
    for number in range(server.network.targets(file_system)[0]):
        ost = f"{file_system}-OST{number:04x}"
        place = f"{'proc' if is_old else 'sys'}/fs/lustre/osp/{ost}-osc-{short}"
        files.update({f"{place}/{name}": fixed(content) for name, content in (
            ("max_create_count", "20000\n"), ("prealloc_next_id", f"{NEXT_OBJECT}\n"),
            ("prealloc_next_seq", "0x100000000\n"), ("prealloc_last_seq", "0x100000000\n"))})
        files[f"{place}/prealloc_status"] = File(lambda ost=ost: f"{-server.pools.get(ost, 0)}\n")
        files[f"{place}/prealloc_last_id"] = File(
            lambda ost=ost: f"{NEXT_OBJECT - 1 + server.objects(mdt.name, ost)}\n")
    return files
