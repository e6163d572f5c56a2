"""
What one mounted Lustre file system counts when a program does something to it.

The VFS side (llite) follows ll_file_open(), ll_file_read_iter(), ll_setattr_raw() and so on.
The network side is a MODEL, simple and the same every time; it shows plausible RPCs that add
up, not the timing or the merging of a real client:

  * a file lives on `stripe_count` OSTs (1), of which its inode number chooses the first one, in
    stripes of `stripe_bytes` (1 MiB); a name on one MDT;
  * no cache: each read of the program is RPCs of up to 4 MiB (`rpc_bytes`), in whole 4 KiB pages
    (23 reads of 37,888 bytes were 23 x 40,960 bytes on a real client, too);
  * writes to one object of an open file gather to RPCs of that size; fsync, close, and a write
    that does not begin where the last one ended send what there is.  Their sizes are exact bytes;
  * of what was read only the last page stays in memory, for the open file that read it; a read()
    that begins in it is two samples of `read_bytes`, as one that is partly cached is in Lustre;
  * the pages of what gathers are dirty: a write() of less than a page into one of them is a tiny
    write, which `write_bytes` does not have since 2.14.56 (unless `tiny_write` is 0);
  * a file whose name ends with ".libaio" is read and written as by io_submit() with O_DIRECT;
  * one RPC is in flight at a time; its latency is the time of the operations below it;
  * every open, create, getattr and getxattr is an intent lock, every other metadata
    operation its own RPC; nothing is sent by a timer (no obd_ping).

Where there are simulated storage servers (network.py), each RPC is sent to its target, with the job
id of the process that asks, and of what was written by the process that wrote it last.  A client
that was evicted learns of it by its next request: what it has written to that OST and not sent is
lost, and the next fsync of such a file fails with EIO; other requests are sent again.

mds_reint RPCs (mkdir, unlink, setattr, ...) are in req_waittime, but have no line of their
own: on a real 2.15.8, req_waittime was larger than all other lines by exactly their number.
"""
from __future__ import annotations

import time
import uuid
import weakref
from dataclasses import dataclass

from . import counters
from .counters import CounterFile, Release, RpcHistograms, log2_row
from .imports import Import

PAGE_BYTES = 4096
RPC_BYTES = 4 << 20
LOCK_US = 37                # at least: a lock is a request to an MDT

# llite operation -> (name in md_stats, opcode in mdc stats; REINT has no line of its own).
REINT = "mds_reint"
INTENT = "ldlm_ibits_enqueue"
# llite's counter of an operation, where it is not the one of its name.
LLITE = {"mknod(2)": "mknod"}
METADATA = {
    "open": ("intent_lock", INTENT),
    "close": ("close", "mds_close"),
    "mknod": ("create", None),              # sent with the open that creates
    "create": ("create", REINT),
    "mknod(2)": ("create", REINT),
    "mkdir": ("create", REINT),
    "symlink": ("create", REINT),
    "link": ("link", REINT),
    "unlink": ("unlink", REINT),
    "rmdir": ("unlink", REINT),
    "rename": ("rename", REINT),
    "setattr": ("setattr", REINT),
    "truncate": ("setattr", REINT),
    "setxattr": ("setxattr", REINT),
    "removexattr": ("setxattr", REINT),
    "getattr": ("intent_lock", INTENT),
    "getxattr": ("intent_lock", INTENT),
    "listxattr": ("intent_lock", INTENT),
    "fsync": ("fsync", "mds_sync"),
    "readdir": ("read_page", "mds_readpage"),
    "statfs": (None, "mds_statfs"),
    "flock": (None, None),
}
# What an MDT counts of it, by its names: mdt_counter_incr() in lustre/mdt, 2.10 to 2.17.
OF_MDT = {
    "open": "open", "close": "close", "mknod": "mknod", "create": "mknod", "mknod(2)": "mknod",
    "symlink": "mknod", "mkdir": "mkdir", "link": "link", "unlink": "unlink", "rmdir": "rmdir",
    "rename": "rename", "setattr": "setattr", "truncate": "setattr", "setxattr": "setxattr",
    "removexattr": "setxattr", "getattr": "getattr", "getxattr": "getxattr",
    "listxattr": "getxattr", "fsync": "sync", "readdir": "readpage", "statfs": "statfs",
}
MODIFIES = {INTENT: ("open",), "mds_close": ("close",)}       # and every REINT


class Osc:
    """Counters of one OST as this client sees it; `wire`: to the simulated one, or None."""

    def __init__(self, release: Release, wire=None):
        self.wire = wire
        self.stats = CounterFile(counters.rpc_table(release, *counters.OSC_OPCODES))
        self.messages = 0               # of LNet, sent: a request each
        self.rpc_stats = RpcHistograms(release.rpc_start_known)
        self.connection = wire.connection if wire else Import()
        self.runs: weakref.WeakSet = weakref.WeakSet()
        self.rpc_bytes = RPC_BYTES

    def evict(self) -> None:
        """The OST throws this client out: what was not sent is gone."""
        self.connection.evicted(time.time())
        self.drop()

    def drop(self) -> None:
        """What was not sent is gone."""
        for run in list(self.runs):
            run.drop()

    def dirty_bytes(self) -> int:
        """What was written and not yet sent, in whole pages."""
        return PAGE_BYTES * sum(run.dirty_pages() for run in list(self.runs))

    def bulk(self, direction: str, offset: int, size_bytes: int, us: int, times: int = 1,
             job: str | None = None) -> bool:
        """
        `times` RPCs that move `size_bytes` each, which is whole pages for a read; False where the
        OST had evicted this client, and what was to be written is lost.  `job`: see Wire.sent.
        """
        pages = (offset % PAGE_BYTES + size_bytes + PAGE_BYTES - 1) // PAGE_BYTES
        moved_bytes = pages * PAGE_BYTES if direction == "read" else size_bytes
        counts = [[direction + "_bytes", moved_bytes, times], [direction, us, times]]
        while self.wire and not self.wire.sent(counts, job):
            self.drop()
            if direction == "write":
                return False
        self._waited("ost_" + direction, us, times)
        self.stats.add(direction + "_bytes", moved_bytes, times)
        add = self.rpc_stats.add
        add("pages", direction, log2_row(pages), times)
        add("flight", direction, 1, times)
        add("offset", direction, log2_row(offset // PAGE_BYTES + 1), times)
        add("latency", direction, log2_row(us), times)
        return True

    def sent(self, opcode: str, us: int, times: int = 1) -> None:
        """Another RPC: ost_punch, ost_sync."""
        while self.wire and not self.wire.sent([[opcode[len("ost_"):], us, times]]):
            self.drop()
        self._waited(opcode, us, times)

    def _waited(self, opcode: str, us: int, times: int) -> None:
        self.stats.add("req_waittime", us, times)
        self.messages += times
        self.stats.add("req_active", 1, times)
        self.stats.add(opcode, us, times)


class Mdc:
    """Counters of one MDT as this client sees it; `wire`: to the simulated one, or None."""

    def __init__(self, release: Release, wire=None):
        self.wire = wire
        self.connection = wire.connection if wire else Import()
        self.stats = CounterFile(counters.rpc_table(release, *counters.MDC_OPCODES))
        self.messages = 0               # as of an Osc
        self.md_stats = CounterFile(counters.MD_TABLE)
        self.rpc_stats = RpcHistograms(start_known=True)

    def evict(self) -> None:
        """The MDT throws this client out."""
        self.connection.evicted(time.time())

    def did(self, operation: str, us: int, times: int, job: str | None = None, also=(),
            objects=()) -> None:
        if self.wire and operation in OF_MDT:
            counts = [[name, us, times] for name in (OF_MDT[operation], *also)]
            while not self.wire.sent(counts, job, objects):
                pass
        md_name, opcode = METADATA[operation]
        if md_name:
            self.md_stats.add(md_name, 1, times)
        if opcode:
            self.stats.add("req_waittime", us, times)
            self.messages += times
            self.stats.add("req_active", 1, times)
            self.stats.add(opcode, 1 if opcode == INTENT else us, times)
        if opcode == REINT or operation in MODIFIES.get(opcode, ()):
            self.rpc_stats.add("flight", "modify", 1, times)


class WriteRun:
    """
    Bytes of one object of an open file that were written one after the other and not yet sent.

    Attributes:
        job: the job id of who wrote last, as the inode of a Lustre client keeps it (lli_jobid).
        is_lost: something was thrown away since `lost()` was asked last.
    """

    def __init__(self, osc: Osc):
        self.osc, self.offset, self.size_bytes, self.us = osc, 0, 0, 0
        self.job, self.is_lost = None, False
        osc.runs.add(self)

    def has_dirty(self, page: int) -> bool:
        """True where something of that page is not yet sent."""
        first = self.offset // PAGE_BYTES
        return first <= page < first + self.dirty_pages()

    def dirty_pages(self) -> int:
        """How many pages that are."""
        return (self.offset % PAGE_BYTES + self.size_bytes + PAGE_BYTES - 1) // PAGE_BYTES * bool(
            self.size_bytes)

    def write(self, offset: int, size_bytes: int, us: int) -> None:
        if self.osc.wire and self.osc.wire.was_evicted():       # a ping has told it
            self.osc.drop()
        if offset != self.offset + self.size_bytes:
            self.send()
            self.offset = offset
        self.size_bytes += size_bytes
        self.us += us
        if self.osc.wire:
            self.job = self.osc.wire.caller()
        while self.size_bytes >= self.osc.rpc_bytes:
            self._send(self.osc.rpc_bytes)

    def send(self) -> None:
        if self.size_bytes:
            self._send(self.size_bytes)

    def drop(self) -> None:
        """What there is is gone."""
        self.is_lost = self.is_lost or bool(self.size_bytes)
        self.size_bytes = self.us = 0

    def _send(self, size_bytes: int) -> None:
        if self.osc.bulk("write", self.offset, size_bytes, self.us, job=self.job):
            self.offset += size_bytes
            self.size_bytes -= size_bytes
            self.us = 0


class Layout:
    """The objects of a file: one on each of `oscs`, in stripes of `stripe_bytes`."""

    def __init__(self, oscs: list, stripe_bytes: int = 1 << 20):
        self.oscs, self.stripe_bytes = oscs, stripe_bytes

    def pieces(self, offset: int, size_bytes: int):
        """Yield (number of the object, offset in it, bytes), in the order of the file."""
        if len(self.oscs) == 1:
            yield 0, offset, size_bytes
            return
        while size_bytes:
            stripe, begin = divmod(offset, self.stripe_bytes)
            row, at = divmod(stripe, len(self.oscs))
            part = min(size_bytes, self.stripe_bytes - begin)
            yield at, row * self.stripe_bytes + begin, part
            offset, size_bytes = offset + part, size_bytes - part


class Unsent:
    """What was written to an open file and not yet sent: a WriteRun for each object."""

    def __init__(self, layout: Layout):
        self.layout, self._runs = layout, [WriteRun(osc) for osc in layout.oscs]

    def has_dirty(self, offset: int) -> bool:
        """True where something of the page at this offset of the file is not yet sent."""
        [(at, begin, _)] = self.layout.pieces(offset, 1)
        return self._runs[at].has_dirty(begin // PAGE_BYTES)

    def write(self, offset: int, size_bytes: int, us: int) -> None:
        for at, begin, part in self.layout.pieces(offset, size_bytes):
            self._runs[at].write(begin, part, us)
            us = 0

    def send(self) -> None:
        for run in self._runs:
            run.send()

    def was_lost(self) -> bool:
        """True once after something was thrown away by an eviction."""
        lost = any(run.is_lost for run in self._runs)
        for run in self._runs:
            run.is_lost = False
        return lost


def ping(clients: list, every_s: float) -> None:
    """Ask all targets of [Client], for ever: what obd_ping is for."""
    while True:
        time.sleep(every_s)
        for client in clients:
            for one in client.osc + client.mdc:
                if one.wire:
                    one.wire.ping()


@dataclass(frozen=True)
class Stripes:
    """How the files of a file system lie on its OSTs, and how much one RPC moves."""

    count: int = 1
    size_bytes: int = 1 << 20
    rpc_bytes: int = RPC_BYTES


class Client:
    """
    One file system on one node, with all its counters.

    Attributes:
        name: file system name and instance, as in "llite/<name>".
        uuid: new for every mount; the remount detector of readers.
    """

    def __init__(self, fs: str, instance: str, release: Release, osts: int, mdts: int,
                 stripes: Stripes | None = None, wires=lambda target, uuid: None):
        """`wires(target, uuid)` gives the Wire to a simulated target, or None."""
        self.fs, self.instance = fs, instance
        self.name = f"{fs}-{instance}"
        self.uuid = str(uuid.uuid4())
        self.release, self.tiny_write = release, release.tiny_write
        self.llite = CounterFile(counters.llite_table(release))
        self.stripes = stripes or Stripes()
        self.osc = [Osc(release, wires(f"{fs}-OST{index:04x}", self.uuid))
                    for index in range(osts)]
        self.mdc = [Mdc(release, wires(f"{fs}-MDT{index:04x}", self.uuid))
                    for index in range(mdts)]
        for osc in self.osc:
            osc.rpc_bytes = self.stripes.rpc_bytes
        self._opens: dict = {}              # inode -> opens of it so far
        self._closed_ns: dict = {}          # inode -> when it was last closed

    def _osts_of(self, inode: int) -> list:
        count = min(self.stripes.count, len(self.osc))
        return [(inode + index) % len(self.osc) for index in range(count)]

    def layout_of(self, inode: int) -> Layout:
        return Layout([self.osc[index] for index in self._osts_of(inode)], self.stripes.size_bytes)

    def objects_of(self, inode: int) -> list:
        """The OSTs that the MDT asks for a file's objects, or to destroy them."""
        return [f"{self.fs}-OST{index:04x}" for index in self._osts_of(inode)]

    def did(self, operation: str, us: int = 0, mdt: int = 0, times: int = 1,
            job: str | None = None, also=(), objects=()) -> None:
        """
        A metadata operation that succeeded.

        Args:
            job: see Wire.sent.
            also: other counters of an MDT that count the same request.
            objects: ["create" or "destroy", [OSTs]], what the MDT asks of OSTs for it.
        """
        us += LOCK_US if operation == "flock" else 0
        self.llite.add(LLITE.get(operation, operation), us, times)
        self.mdc[mdt % len(self.mdc)].did(operation, us, times, job, also, objects)

    def left(self) -> None:
        """Unmounted."""
        for one in self.osc + self.mdc:
            if one.wire:
                one.wire.disconnect()

    def opened(self, inode: int) -> None:
        """
        opencount and openclosetime of 2.15: how often the inode was opened so far, and how
        long it had been closed.  Read off real captures: 26 files, opened 1, 2 and 3 times,
        gave max 3, the exact sumsq, and one openclosetime per re-open.
        """
        self._opens[inode] = self._opens.get(inode, 0) + 1
        self.llite.add("opencount", self._opens[inode])
        if inode in self._closed_ns:
            self.llite.add("openclosetime",
                           (time.monotonic_ns() - self._closed_ns[inode]) // 1000)

    def closed(self, inode: int) -> None:
        self._closed_ns[inode] = time.monotonic_ns()

    def forget(self, inode: int) -> None:
        """The inode is gone; its number may come back for another file."""
        self._opens.pop(inode, None)
        self._closed_ns.pop(inode, None)

    def locking(self, times: int = 1) -> None:
        """flock() was called; whether it will succeed is not known yet."""
        if self.release.flock_twice:
            self.llite.add("flock", 1, times)

    def read(self, layout: Layout, offset: int, size_bytes: int, us: int = 0, times: int = 1,
             cached: int = 0, libaio: bool = False) -> None:
        """
        `times` reads of the same `size_bytes`, the first `cached` of them from memory.  A read
        that returns 0 bytes (end of file) is not counted at all: ll_file_read_iter() tallies only
        a result > 0.
        """
        if not size_bytes:
            return
        if self.release.counts_libaio or not libaio:
            for part in filter(None, (cached, size_bytes - cached)):
                self.llite.add("read_bytes", part, times)
            self.llite.add("read", us, times)
        most = self.stripes.rpc_bytes
        for at, begin, part in layout.pieces(offset + cached, size_bytes - cached):
            for start in range(0, part, most):
                layout.oscs[at].bulk("read", begin + start, min(most, part - start), us, times)

    def wrote(self, unsent: Unsent, offset: int, size_bytes: int, us: int = 0, tiny: bool = True,
              libaio: bool = False) -> None:
        """
        One write; counted here at once, on its OSTs when it is sent.

        `tiny`: it may be a tiny write, as its file has no O_APPEND, O_SYNC or O_DIRECT.
        """
        if not size_bytes:
            return
        tiny = (tiny and self.tiny_write and size_bytes < PAGE_BYTES
                and offset % PAGE_BYTES + size_bytes <= PAGE_BYTES and unsent.has_dirty(offset))
        if self.release.counts_libaio or not libaio:
            if self.release.counts_tiny or not tiny:
                self.llite.add("write_bytes", size_bytes)
            self.llite.add("write", us)
        unsent.write(offset, size_bytes, us)
