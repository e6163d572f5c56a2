"""
The files of a storage server, of itself and of its targets, where each release has them.

    server = ServerFiles(tmp_path, "2.17")
    server.start("scratch-OST0003", evictions=23, clients=37)
    server.health("NOT HEALTHY")
    server.stop("scratch-OST0003")
"""

import shutil
from pathlib import Path

from iostats.events.sources import Place

BOOT, NODE = "b" * 32, "oss1"
INACTIVE = "status: INACTIVE\n"
_DEBUGFS, _PROC, _SYSFS = "sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre"
# release: {file: place}; no place: that release has no such file
PLACES = {
    "2.5": {"health_check": _PROC, "recovery_status": _PROC, "num_exports": _PROC,
            "instance": _PROC, "job_stats": _PROC},
    "2.10": {"health_check": _SYSFS, "recovery_status": _PROC, "num_exports": _PROC,
             "instance": _PROC, "job_stats": _PROC},
    "2.12": {"health_check": _SYSFS, "recovery_status": _PROC, "num_exports": _PROC,
             "instance": _PROC, "job_stats": _PROC},
    "2.15": {"health_check": _SYSFS, "recovery_status": _PROC, "num_exports": _SYSFS,
             "instance": _SYSFS, "job_stats": _PROC},
    "2.16": {"health_check": _SYSFS, "recovery_status": _PROC, "num_exports": _SYSFS,
             "instance": _SYSFS, "eviction_count": _SYSFS, "job_stats": _PROC},
    "2.17": {"health_check": _SYSFS, "recovery_status": _DEBUGFS, "num_exports": _SYSFS,
             "instance": _SYSFS, "eviction_count": _SYSFS, "job_stats": _PROC}}


def recovering(began, left, connected, of, evicted=0):
    return (f"status: RECOVERING\nrecovery_start: {began}\ntime_remaining: {left}\n"
            f"connected_clients: {connected}/{of}\nreq_replay_clients: 0\nlock_repay_clients: 0\n"
            f"completed_clients: {connected}\nevicted_clients: {evicted}\nreplayed_requests: 0\n"
            f"queued_requests: 0\nnext_transno: 41\n")


def complete(began, took, clients, of):
    return (f"status: COMPLETE\nrecovery_start: {began}\nrecovery_duration: {took}\n"
            f"completed_clients: {clients}/{of}\nreplayed_requests: 0\nlast_transno: 41\n"
            f"VBR: DISABLED\nIR: ENABLED\n")


def quota_text(*records, width=20):
    """glb-usr and so on; `width`: 20 up to 2.16, later 12, and 15 of the time."""
    return "global_pool0_dt_usr\n" + "".join(
        f"- id:      {number}\n  limits:   {{ hard: {hard:>{width}}, soft: {soft:>{width}}, "
        f"granted: {granted:>{width}}, time: {time:>{15 if width == 12 else width}} }}\n"
        for number, hard, soft, granted, time in records)


def service_stats(requests, wait_us, queued, enqueues=0):
    return (f"snapshot_time             1795333379.288590977 secs.nsecs\n"
            f"req_waittime              {requests} samples [usecs] 3 6638 {wait_us} 41\n"
            f"req_qdepth                {requests} samples [reqs] 0 3 {queued} 43\n"
            f"req_active                {requests} samples [reqs] 1 3 53 59\n"
            + f"ldlm_extent_enqueue       {enqueues} samples [reqs] 1 1 {enqueues} 61\n"
            * bool(enqueues))


class ServerFiles:
    """One storage server below the directory `root`."""

    def __init__(self, root, release="2.17"):
        self.root, self._places = Path(root), PLACES[release]
        self.place = Place(str(root), None, NODE, BOOT, {})
        self.health("healthy")

    def health(self, word, *devices):
        """`devices`: those that are not healthy; only some releases show them."""
        lines = "".join(f"device {one} reported unhealthy\n" for one in devices)
        if self._places["health_check"] == _PROC:
            self._write(f"{_PROC}/health_check", f"{lines}{word}\n")
        else:
            self._write(f"{_SYSFS}/health_check", f"{word}\n")
            if "2.15" in PLACES and self._places in (PLACES["2.15"], PLACES["2.16"]):
                self._write(f"{_DEBUGFS}/health_check", lines)

    def start(self, target, **files):
        """A target is mounted; `files`: as of `show`."""
        self.show(target, **{"recovery": INACTIVE, "instance": 1, "evictions": 0, "clients": 0,
                             "job_stats": "job_stats:\n", **files})

    def show(self, target, **files):
        """recovery: text; instance, evictions, clients: numbers."""
        names = {"recovery": "recovery_status", "evictions": "eviction_count",
                 "clients": "num_exports"}
        kind = ("mgs" if target == "MGS" else "mdt" if "-MDT" in target else "obdfilter")
        for name, value in files.items():
            file = names.get(name, name)
            if file in self._places and not (kind == "mgs" and file in (
                    "recovery_status", "instance", "job_stats")):
                text = value if isinstance(value, str) else f"{value}\n"
                self._write(f"{self._places[file]}/{kind}/{target}/{file}", text)

    def capacity(self, target, total, free, available, inodes, inodes_free, kind="osd-ldiskfs"):
        """What the backing file system of a target counts: KiB, and inodes."""
        place = _SYSFS if self._places["num_exports"] == _SYSFS else _PROC
        for file, value in (("kbytestotal", total), ("kbytesfree", free),
                            ("kbytesavail", available), ("filestotal", inodes),
                            ("filesfree", inodes_free)):
            self._write(f"{place}/{kind}/{target}/{file}", f"{value}\n")

    def changelog_users(self, mdt, text):
        place = _PROC if self._places in (PLACES["2.5"], PLACES["2.10"]) else _DEBUGFS
        self._write(f"{place}/mdd/{mdt}/changelog_users", text)

    def metrics(self, target, brw=None, agents=None, **numbers):
        """tot_granted, lock_count ...: numbers; brw, agents: texts of brw_stats and hsm/agents."""
        kind, of = (("mdt", "mdt") if "-MDT" in target else ("obdfilter", "filter"))
        is_late = self._places["num_exports"] == _SYSFS
        for file, value in numbers.items():
            place, directory = (
                (_SYSFS, f"ldlm/namespaces/{of}-{target}_UUID") if file.startswith("lock_") else
                (_SYSFS if is_late else _PROC,
                 f"{kind}/{target}" + ("" if file.startswith("tot_") else "/hsm")))
            self._write(f"{place}/{directory}/{file}", f"{value}\n")
        for path, text in ((f"osd-ldiskfs/{target}/brw_stats", brw),
                           (f"mdt/{target}/hsm/agents", agents)):
            if text is not None:
                self._write(f"{_DEBUGFS if is_late else _PROC}/{path}", text)

    def service(self, name, threads, threads_max, stats, of="ost/OSS", policies=None):
        """A service of the storage server; `stats`, `policies`: the texts of its files."""
        is_early = self._places in (PLACES["2.5"], PLACES["2.10"])
        for file, value in (("threads_started", threads), ("threads_max", threads_max)):
            self._write(f"{_PROC if is_early else _SYSFS}/{of}/{name}/{file}", f"{value}\n")
        self._write(f"{_PROC if is_early else _DEBUGFS}/{of}/{name}/stats", stats)
        if policies is not None:
            self._write(f"{_PROC if is_early else _DEBUGFS}/{of}/{name}/nrs_policies", policies)

    def pool(self, ost, mdt="MDT0000", status=0, next_id=37, last_id=64, most=20000,
             last_seq="0x100000000"):
        """What an MDT shows of the objects that an OST makes in advance."""
        place = _PROC if self._places in (PLACES["2.5"], PLACES["2.10"]) else _SYSFS
        for file, value in (("prealloc_status", status), ("prealloc_next_id", next_id),
                            ("prealloc_last_id", last_id), ("max_create_count", most),
                            ("prealloc_next_seq", "0x100000000"), ("prealloc_last_seq", last_seq)):
            self._write(f"{place}/osp/{ost}-osc-{mdt}/{file}", f"{value}\n")

    def quota(self, file_system, pool, file, *records):
        """(id, hard, soft, granted, time) of ids, in the units of the file."""
        self._write(f"{_PROC}/qmt/{file_system}-QMT0000/{pool}/{file}", quota_text(*records))

    def stop(self, target):
        for found in self.root.glob(f"*/**/{target}"):
            shutil.rmtree(found)

    def _write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
