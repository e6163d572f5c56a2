"""
One simulated OST or MDT, as far as its counters go: job_stats, exports, stats.

    target = Target("scratch-OST0000", RELEASES["2.17"])
    target.connect("10.77.0.11@tcp", uuid)
    target.count(now_ns, "10.77.0.11@tcp", "4711", [["write_bytes", 4096, 23], ["write", 37, 23]])
    target.job_stats(), target.stats_of("10.77.0.11@tcp", now_ns)

An entry of job_stats is made by a job's first request, and is gone when it was silent for
job_cleanup_interval and somebody looks: a request of a job that has no entry, or a reader that
closes the file; at most once in half an interval.  lprocfs_job_cleanup() and
lprocfs_jobstats_seq_release() in lustre/obdclass/lprocfs_jobstats.c, 2.10 to 2.17.

What exports have stays when a client is evicted or leaves; `exports/clear` removes those without a
mount and begins the others anew: lprocfs_nid_stats_clear_seq_write(), 2.10 to 2.17.
"""
from __future__ import annotations

import errno
import re

from . import job_stats_text, text
from .counters import INSIDE, TRANSFERS, CounterFile, Release, log2_row, target_table
from .recovery import Recovery
from .server_metrics import TargetMetrics

NS = 10**9
NAME = re.compile(r"([A-Za-z0-9_-]{1,8})-((?:OST|MDT)[0-9a-f]{4})")
MOST_OF_JOB_ID = 31                 # LUSTRE_JOBID_SIZE, with its NUL, is 32
WHOLE_SECONDS = ("2.8", "2.12")
TOTAL_KBYTES, TOTAL_INODES = 1 << 30, 1 << 20       # 1 TiB; a twentieth is reserved
RESERVED_KBYTES = TOTAL_KBYTES // 20
# Requests that make an inode, or remove one.
_MAKE, _REMOVE = ("create", "mknod", "mkdir"), ("destroy", "unlink", "rmdir")


class Entry:
    """What one job has done here since its entry was made."""

    def __init__(self, now_ns: int, table: dict):
        self.started_ns = self.seen_ns = now_ns
        self.file = CounterFile(table)
        self.sizes: dict = {}               # counter of bytes -> {exponent of 2: samples}

    def add(self, name: str, amount: int, times: int) -> None:
        self.file.add(name, amount, times)
        if name in TRANSFERS:
            sizes = self.sizes.setdefault(name, {})
            sizes[log2_row(amount)] = sizes.get(log2_row(amount), 0) + times

    def shown(self, release: Release) -> dict:
        """name -> job_stats_text.Value."""
        return {name: job_stats_text.Value(
            one.samples, one.min, one.max, text.sum_of(one.sum, release),
            text.sumsq_of(one.sumsq, release), tuple(sorted(self.sizes.get(name, {}).items())))
            for name, one in self.file.counters.items()}


class Export:
    """One client, by its NID: what it has done, and the mounts that are connected."""

    def __init__(self, table: dict):
        self.file, self.uuids = CounterFile(table), []


class Target:
    """
    Counters of one target since it was started.

    Attributes:
        name, kind: "scratch-OST0000", "OST".
        cleanup_s: job_cleanup_interval.
        instance: how often it was started.
        evicted: how many clients since then.
        recovery: the Recovery of this start.
        inodes_used: made by requests and not removed.
        metrics: its TargetMetrics.
    """

    def __init__(self, name: str, release: Release, now_ns: int, cleanup_s: int = 600,
                 instance: int = 1, recovery: Recovery | None = None):
        self.name, self.release, self.cleanup_s = name, release, cleanup_s
        self.instance = instance
        self.recovery = recovery or Recovery(name, {}, 0, "", None)
        self.kind = NAME.fullmatch(name)[2][:3]
        self.changelog_records = 0          # that its one user has not cleared
        self.evicted = self._written = self._filled_kbytes = self.inodes_used = 0
        self.table = target_table(release, self.kind)
        of_exports = dict(self.table)
        if release.counts_inside and self.kind == "OST":
            of_exports.update((inside, ("reqs", 0)) for inside in INSIDE)
        self._of_exports = of_exports
        self.stats, self.metrics = CounterFile(self.table), TargetMetrics()
        self.exports: dict = {}             # NID -> Export
        self._evicted_uuids: set = set()
        self._entries: dict = {}            # job id -> Entry, in the order of the file
        self._scanned_ns = now_ns
        self.version = 0                    # goes up when exports come or go

    # -- clients

    def connect(self, nid: str, uuid: str) -> None:
        if nid not in self.exports:
            self.exports[nid] = Export(self._of_exports)
            self.version += 1
        if uuid not in self.exports[nid].uuids:
            self.exports[nid].uuids.append(uuid)
        self._evicted_uuids.discard(uuid)

    def disconnect(self, nid: str, uuid: str) -> None:
        if self.is_connected(nid, uuid):
            self.exports[nid].uuids.remove(uuid)

    def is_connected(self, nid: str, uuid: str) -> bool:
        return nid in self.exports and uuid in self.exports[nid].uuids

    def was_evicted(self, uuid: str) -> bool:
        return uuid in self._evicted_uuids

    def evict(self, nid: str) -> list:
        """UUIDs of the mounts that were thrown out; each learns of it by its next request."""
        uuids = self.exports[nid].uuids if nid in self.exports else []
        gone, uuids[:] = list(uuids), []
        self.evict_uuids(gone)
        return gone

    def evict_uuids(self, uuids) -> None:
        """The same of mounts that are not connected any more."""
        self._evicted_uuids.update(uuids)
        self.evicted += len(uuids)

    def clients(self) -> dict:
        """{uuid: NID} of the mounts that are connected; no MDT, which connects when it has to."""
        return {uuid: nid for nid, export in self.exports.items() for uuid in export.uuids
                if not uuid.endswith("-mdtlov_UUID")}

    def connected(self) -> int:
        return sum(len(export.uuids) for export in self.exports.values())

    def clear_exports(self) -> None:
        for nid, export in list(self.exports.items()):
            if export.uuids:
                export.file.clear()
            else:
                del self.exports[nid]
        self.version += 1

    # -- requests

    def count(self, now_ns: int, nid: str, job: str, counts: list) -> None:
        """`counts`: [[counter, amount, times], ...] of one request; `job`: "" for none."""
        export = self.exports[nid].file
        self.metrics.count(counts)
        for name, amount, times in counts:
            if name == "write_bytes":
                self._written += amount * times
            self.inodes_used += times * ((name in _MAKE) - (name in _REMOVE))
            self.stats.add(name, amount, times)
            export.add(name, amount, times)
            if name in TRANSFERS:
                for inside in INSIDE:
                    export.add(inside, 1, times)
        job = job[:MOST_OF_JOB_ID]
        if not job:
            return
        if job not in self._entries:
            self.expire(now_ns)
            self._entries[job] = Entry(now_ns, self.table)
        entry = self._entries[job]
        entry.seen_ns = now_ns
        for name, amount, times in counts:
            entry.add(name, amount, times)

    # -- capacity

    def fill(self, percent: int) -> None:
        """So much of the space is used by files that no client writes here."""
        self._filled_kbytes = TOTAL_KBYTES * percent // 100

    def kbytes_free(self) -> int:
        """What is free after all that was ever written: as if no file were written twice."""
        return max(0, TOTAL_KBYTES - self._filled_kbytes - self._written // 1024)

    # -- job_stats

    def expire(self, now_ns: int) -> None:
        now = self._clock(now_ns)
        if not self.cleanup_s or now < self._clock(self._scanned_ns) + self.cleanup_s * NS // 2:
            return
        for job, entry in list(self._entries.items()):
            if self._clock(entry.seen_ns) < now - self.cleanup_s * NS:
                del self._entries[job]
        self._scanned_ns = now_ns

    def _clock(self, now_ns: int) -> int:
        return now_ns // NS * NS if self.release.job_stats in WHOLE_SECONDS else now_ns

    def job_stats(self) -> bytes:
        """The whole file."""
        return job_stats_text.text(
            [job_stats_text.Job(job.encode("latin-1", "replace"), entry.started_ns, entry.seen_ns,
                                entry.shown(self.release))
             for job, entry in self._entries.items()], self.release.job_stats, self.kind)

    def clear_job_stats(self, data: bytes) -> None:
        """`clear`, or a job's id; EINVAL for what is neither."""
        word = data.decode("latin-1")
        word = word[:-1] if word.endswith("\n") else word
        if word == "clear":
            self._entries.clear()
        elif word in self._entries:
            del self._entries[word]
        else:
            raise OSError(errno.EINVAL, f"no job {word!r}")

    def stats_of(self, nid: str, now_ns: int) -> str:
        """exports/NID/stats."""
        return text.stats(self.exports[nid].file, self.release, now_ns)
