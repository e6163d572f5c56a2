"""
What one mounted Lustre file system counts when a program does something to it.

The VFS side (llite) follows ll_file_open(), ll_file_read_iter(), ll_setattr_raw() and so on.
The network side is a MODEL, simple and the same every time; it shows plausible RPCs that add
up, not the timing or the merging of a real client:

  * a file lives on one OST (inode number modulo the number of OSTs), a name on one MDT;
  * no cache: each read of the program is RPCs of up to 4 MiB, in whole 4 KiB pages
    (23 reads of 37,888 bytes were 23 x 40,960 bytes on a real client, too);
  * writes to one open file gather to RPCs of 4 MiB; fsync, close, and a write that does not
    begin where the last one ended send what there is.  Their sizes are exact bytes;
  * of what was read only the last page stays in memory, for the open file that read it; a read()
    that begins in it is two samples of `read_bytes`, as one that is partly cached is in Lustre;
  * the pages of what gathers are dirty: a write() of less than a page into one of them is a tiny
    write, which `write_bytes` does not have since 2.14.56 (unless `tiny_write` is 0);
  * a file whose name ends with ".libaio" is read and written as by io_submit() with O_DIRECT;
  * one RPC is in flight at a time; its latency is the time of the operations below it;
  * every open, create, getattr and getxattr is an intent lock, every other metadata
    operation its own RPC; nothing is sent at mount time or by a timer (no obd_ping).

mds_reint RPCs (mkdir, unlink, setattr, ...) are in req_waittime, but have no line of their
own: on a real 2.15.8, req_waittime was larger than all other lines by exactly their number.
"""
from __future__ import annotations

import time
import uuid
import weakref

from . import counters
from .counters import CounterFile, Release, RpcHistograms, log2_row

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
MODIFIES = {INTENT: ("open",), "mds_close": ("close",)}       # and every REINT


class Osc:
    """Counters of one OST as this client sees it."""

    def __init__(self, release: Release):
        self.stats = CounterFile(counters.rpc_table(release, *counters.OSC_OPCODES))
        self.rpc_stats = RpcHistograms(release.rpc_start_known)
        self.history = [(int(time.time()), state) for state in ("CONNECTING", "FULL")]
        self.runs: weakref.WeakSet = weakref.WeakSet()

    def evict(self) -> None:
        """The OST throws this client out: what was not sent is gone."""
        self.history += [(int(time.time()), state) for state in (
            "DISCONN", "CONNECTING", "EVICTED", "RECOVER", "FULL")]
        for run in self.runs:
            run.size_bytes = 0

    def dirty_bytes(self) -> int:
        """What was written and not yet sent, in whole pages."""
        return PAGE_BYTES * sum(run.dirty_pages() for run in list(self.runs))

    def bulk(self, direction: str, offset: int, size_bytes: int, us: int, times: int = 1):
        """`times` RPCs that move `size_bytes` each, which is whole pages for a read."""
        pages = (offset % PAGE_BYTES + size_bytes + PAGE_BYTES - 1) // PAGE_BYTES
        moved_bytes = pages * PAGE_BYTES if direction == "read" else size_bytes
        self.sent("ost_" + direction, us, times)
        self.stats.add(direction + "_bytes", moved_bytes, times)
        add = self.rpc_stats.add
        add("pages", direction, log2_row(pages), times)
        add("flight", direction, 1, times)
        add("offset", direction, log2_row(offset // PAGE_BYTES + 1), times)
        add("latency", direction, log2_row(us), times)

    def sent(self, opcode: str, us: int, times: int = 1) -> None:
        self.stats.add("req_waittime", us, times)
        self.stats.add("req_active", 1, times)
        self.stats.add(opcode, us, times)


class Mdc:
    """Counters of one MDT as this client sees it."""

    def __init__(self, release: Release):
        self.stats = CounterFile(counters.rpc_table(release, *counters.MDC_OPCODES))
        self.md_stats = CounterFile(counters.MD_TABLE)
        self.rpc_stats = RpcHistograms(start_known=True)

    def did(self, operation: str, us: int, times: int) -> None:
        md_name, opcode = METADATA[operation]
        if md_name:
            self.md_stats.add(md_name, 1, times)
        if opcode:
            self.stats.add("req_waittime", us, times)
            self.stats.add("req_active", 1, times)
            self.stats.add(opcode, 1 if opcode == INTENT else us, times)
        if opcode == REINT or operation in MODIFIES.get(opcode, ()):
            self.rpc_stats.add("flight", "modify", 1, times)


class WriteRun:
    """Bytes of one open file that were written one after the other and not yet sent."""

    def __init__(self, osc: Osc):
        self.osc, self.offset, self.size_bytes, self.us = osc, 0, 0, 0
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
        if offset != self.offset + self.size_bytes:
            self.send()
            self.offset = offset
        self.size_bytes += size_bytes
        self.us += us
        while self.size_bytes >= RPC_BYTES:
            self._send(RPC_BYTES)

    def send(self) -> None:
        if self.size_bytes:
            self._send(self.size_bytes)

    def _send(self, size_bytes: int) -> None:
        self.osc.bulk("write", self.offset, size_bytes, self.us)
        self.offset += size_bytes
        self.size_bytes -= size_bytes
        self.us = 0


class Client:
    """
    One file system on one node, with all its counters.

    Attributes:
        name: file system name and instance, as in "llite/<name>".
        uuid: new for every mount; the remount detector of readers.
    """

    def __init__(self, fs: str, instance: str, release: Release, osts: int, mdts: int):
        self.fs, self.instance = fs, instance
        self.name = f"{fs}-{instance}"
        self.uuid = str(uuid.uuid4())
        self.release, self.tiny_write = release, release.tiny_write
        self.llite = CounterFile(counters.llite_table(release))
        self.osc = [Osc(release) for _ in range(osts)]
        self.mdc = [Mdc(release) for _ in range(mdts)]
        self._opens: dict = {}              # inode -> opens of it so far
        self._closed_ns: dict = {}          # inode -> when it was last closed

    def osc_of(self, inode: int) -> Osc:
        return self.osc[inode % len(self.osc)]

    def did(self, operation: str, us: int = 0, mdt: int = 0, times: int = 1) -> None:
        """A metadata operation that succeeded."""
        us += LOCK_US if operation == "flock" else 0
        self.llite.add(LLITE.get(operation, operation), us, times)
        self.mdc[mdt % len(self.mdc)].did(operation, us, times)

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

    def read(self, osc: Osc, offset: int, size_bytes: int, us: int = 0, times: int = 1,
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
        for start in range(cached, size_bytes, RPC_BYTES):
            osc.bulk("read", offset + start, min(RPC_BYTES, size_bytes - start), us, times)

    def wrote(self, run: WriteRun, offset: int, size_bytes: int, us: int = 0, tiny: bool = True,
              libaio: bool = False) -> None:
        """
        One write; counted here at once, on its OST when the run is sent.

        `tiny`: it may be a tiny write, as its file has no O_APPEND, O_SYNC or O_DIRECT.
        """
        if not size_bytes:
            return
        page, first = divmod(offset, PAGE_BYTES)
        tiny = (tiny and self.tiny_write and size_bytes < PAGE_BYTES
                and first + size_bytes <= PAGE_BYTES and run.has_dirty(page))
        if self.release.counts_libaio or not libaio:
            if self.release.counts_tiny or not tiny:
                self.llite.add("write_bytes", size_bytes)
            self.llite.add("write", us)
        run.write(offset, size_bytes, us)
