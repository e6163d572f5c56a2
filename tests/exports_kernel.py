"""
A model of what the kernel keeps in `exports` of one target, which knows the truth.

    ExportsKernel   mounts come and go, requests are counted, counters are cleared, the target is
                    started here or there; the text of each file, also of one that a clear meets
    Account         adds up what an agent's messages say, as docs/reference/wire.md has it

It follows lprocfs_exp_setup(), lprocfs_exp_cleanup(), lprocfs_nid_stats_clear_seq_write(),
lprocfs_stats_clear() and lprocfs_free_per_client_stats() of 2.5 to 2.17
(lustre/obdclass/lprocfs_status_server.c, lprocfs_status.c).  Times are ns since 1970 (int).

    kernel = ExportsKernel("2.17", "OST", now)
    kernel.mount(now, "10.0.0.7@tcp", "a")
    kernel.read(now, "a", 4096, times=23)
    kernel.truth["10.0.0.7@tcp"]               [94208, 0, 23, 0, 0]: the fields of ClientAmounts
    kernel.save(now, root)                     the files below a directory
"""
from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections import defaultdict
from pathlib import Path

from iostats.wire.messages.clients_encoder import WENT_DOWN

NS = 1_000_000_000
_NO_MINIMUM = 2**63 - 1                    # LC_MIN_INIT
RELEASES = ("2.5", "2.10", "2.12", "2.14", "2.15.0", "2.15.2", "2.16", "2.16-plain", "2.17")
WITHOUT_START = ("2.5", "2.10", "2.12", "2.14", "2.15.0", "2.16-plain")
_COUNTS_INSIDE = ("2.5", "2.10")           # preprw, commitrw and pings of OSTs
_TIMED = ("2.14", "2.15.0", "2.15.2", "2.16", "2.16-plain", "2.17")
_SQUARES = _TIMED


class _NidStats:
    """struct nid_stat: its counters, and how many exports hold it."""

    def __init__(self, now):
        self.began, self.mounts = now, set()
        self.counters = {}                 # name -> [samples, min, max, sum, sumsq]

    def add(self, name, amount, times=1):
        value = self.counters.setdefault(name, [0, _NO_MINIMUM, 0, 0, 0])
        value[0] += times
        value[1], value[2] = min(value[1], amount), max(value[2], amount)
        value[3] += amount * times
        value[4] = (value[4] + amount * amount * times) % 2**64

    def clear(self, now):
        self.began, self.counters = now, {}


class ExportsKernel:
    """
    One target's exports.

    Attributes:
        truth: {NID: [read_bytes, write_bytes, reads, writes, operations]}, of all that was ever
            counted, on whatever server.
        instance: how often the target was started.
        is_here: it is started, on the server that `save` is for.
    """

    def __init__(self, release, kind="OST", now=0, file_system="scratch", target=None, number=0):
        self.release, self.kind, self.file_system = release, kind, file_system
        self.target = target or f"{kind}{number:04x}"
        self.truth = defaultdict(lambda: [0] * 5)
        self.instance, self.is_here = 1, True
        self._nids, self._of_mount = {}, {}
        self._order = []                   # of the counters in the file
        self.booted = now - 41 * NS

    @property
    def has_start(self):
        """The files show when they began."""
        return self.release not in WITHOUT_START

    @property
    def mounts(self):
        return sorted(self._of_mount)

    @property
    def nids(self):
        return sorted(self._nids)

    # -- what happens to it

    def mount(self, now, nid, mount):
        """A client connects; `mount`: its export, whichever NID it reconnects from."""
        if mount not in self._of_mount:
            self._nids.setdefault(nid, _NidStats(now)).mounts.add(mount)
            self._of_mount[mount] = nid

    def unmount(self, mount):
        """It disconnects, or is evicted: the file stays."""
        nid = self._of_mount.pop(mount, None)
        if nid is not None:
            self._nids[nid].mounts.discard(mount)

    def read(self, now, mount, amount, times=1):
        self._transfer(now, mount, "read", amount, times, 0)

    def write(self, now, mount, amount, times=1):
        self._transfer(now, mount, "write", amount, times, 1)

    def _transfer(self, now, mount, way, amount, times, place):
        nid, stats = self._stats(now, mount)
        stats.add(f"{way}_bytes", amount, times)
        if self.release in _TIMED:
            stats.add(way, 37, times)
        if self.release in _COUNTS_INSIDE and self.kind == "OST":
            stats.add("preprw", 1, times)
            stats.add("commitrw", 1, times)
        true = self.truth[nid]
        true[place] += amount * times
        true[place + 2] += times

    def request(self, now, mount, name="statfs", times=1):
        """An operation that moves no data: open, punch, ..."""
        nid, stats = self._stats(now, mount)
        stats.add(name, 31, times)
        self.truth[nid][4] += times

    def ping(self, now, mount):
        """What up to 2.11 is counted as well, and is no operation of a program."""
        _, stats = self._stats(now, mount)
        if self.release in _COUNTS_INSIDE and self.kind == "OST":
            stats.add("ping", 1)

    def nid_of(self, mount):
        """The NID from which it connected first."""
        return self._of_mount[mount]

    def counters(self, nid):
        """{counter: [samples, min, max, sum, sumsq]} of a file, a copy; {} where there is none."""
        stats = self._nids.get(nid)
        return {} if stats is None else {
            name: list(value) for name, value in stats.counters.items()}

    def _stats(self, now, mount):
        nid = self._of_mount[mount]
        return nid, self._nids[nid]

    def clear(self, now):
        """Somebody writes to exports/clear."""
        for nid, stats in list(self._nids.items()):
            if stats.mounts:
                stats.clear(now)
            else:
                del self._nids[nid]

    def clear_one(self, now, nid):
        """Somebody writes to exports/NID/stats."""
        self._nids[nid].clear(now)

    def stop(self):
        """The target is stopped here; `start` starts it, here or elsewhere."""
        self.is_here = False
        self._nids, self._of_mount = {}, {}

    def start(self, now):
        self.is_here = True
        self.instance += 1

    # -- how it is read

    def text(self, now, nid, between=None):
        """
        The bytes of exports/NID/stats.

        `between`: (number, function): called before the line of that number is printed, as where a
        clear comes while a reader is at it.
        """
        stats = self._nids[nid]
        lines = [self._header(now, stats)]
        names = list(stats.counters)
        for number, name in enumerate(names):
            if between is not None and number == between[0]:
                between[1]()
            value = stats.counters.get(name)
            if value is not None:
                lines.append(self._line(name, value))
        return "".join(lines).encode()

    def _header(self, now, stats):
        at, began = f"{now // NS}.{now % NS:09d}", f"{stats.began // NS}.{stats.began % NS:09d}"
        pad = 36 if self.release == "2.17" else 26
        if self.release == "2.5":
            return f"{'snapshot_time':<26}{now // NS}.{now % NS // 1000} secs.usecs\n"
        if self.release in ("2.10", "2.12", "2.14", "2.16-plain"):
            return f"{'snapshot_time':<26}{at} secs.nsecs\n"
        if self.release == "2.15.0":
            since = now - self.booted
            at = f"{since // NS}.{since % NS:09d}"
            began, elapsed = "0.000000000", at
        else:
            elapsed = f"{(now - stats.began) // NS}.{(now - stats.began) % NS:09d}"
        return (f"{'snapshot_time':<{pad}}{at} secs.nsecs\n"
                f"{'start_time':<{pad}}{began} secs.nsecs\n"
                f"{'elapsed_time':<{pad}}{elapsed} secs.nsecs\n")

    def _line(self, name, value):
        samples, low, high, total, squares = value
        pad = 35 if self.release == "2.17" else 25
        unit, numbers = "reqs", ()
        if name.endswith("_bytes"):
            unit = "reqs" if (self.release, self.kind) == ("2.12", "MDT") else "bytes"
            numbers = (low, high, total) + ((squares,) if self.release in _SQUARES else ())
        elif self.release in _TIMED:
            unit, numbers = "usecs", (low, high, total, squares)
        return (f"{name:<{pad}} {samples} samples [{unit}]"
                + "".join(f" {number}" for number in numbers) + "\n")

    def save(self, now, root, texts=None):
        """
        Write its files where the kernel has them, below `root`; none where it is not there.

        `texts`: {NID: bytes} of files that are to say something else; None: cannot be read.
        """
        directory = "obdfilter" if self.kind == "OST" else "mdt"
        name = f"{directory}/{self.file_system}-{self.target}"
        proc = Path(root, "proc/fs/lustre", name)
        exports = (Path(root, "sys/kernel/debug/lustre", name) if self.release == "2.17"
                   else proc) / "exports"
        if not self.is_here:
            for path in (proc, exports.parent, Path(root, "sys/fs/lustre", name)):
                shutil.rmtree(path, ignore_errors=True)
            return
        instance = (proc if self.release in ("2.5", "2.10", "2.12") else
                    Path(root, "sys/fs/lustre", name)) / "instance"
        for path, content in ((proc / "job_stats", b"job_stats:\n"),
                              (proc / "job_cleanup_interval", b"600\n"),
                              (instance, b"%d\n" % self.instance), (exports / "clear", b"\n")):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for nid in [path.name for path in exports.iterdir() if path.is_dir()]:
            if nid not in self._nids:
                shutil.rmtree(exports / nid)
        for nid in list(self._nids):
            (exports / nid).mkdir(exist_ok=True)
            path = exports / nid / "stats"
            content = (texts or {}).get(nid, b"") if nid in (texts or {}) else self.text(now, nid)
            if path.is_dir():
                path.rmdir()
            if content is None:
                path.unlink(missing_ok=True)
                path.mkdir()               # reading it fails with EISDIR, for root as well
            else:
                path.write_bytes(content)


def messages_of(packed):
    """(head, [(block's head, {NID: its five amounts})]) of the bytes of a packed_clients."""
    magic, rest = b"iostats clients 1\n", zlib.decompress(packed)
    assert rest.startswith(magic)
    line, _, rest = rest[len(magic):].partition(b"\n")
    head, blocks = json.loads(line), []
    for _ in range(head["blocks"]):
        line, _, rest = rest.partition(b"\n")
        block = json.loads(line)
        count, columns = len(block["nids"]), [()] * 5
        for width in (8, 4, 2, 1):
            for column in range(5):
                if block["widths"][column] == width:
                    columns[column] = struct.unpack_from(
                        f"<{count}{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[width]}", rest)
                    rest = rest[count * width:]
        blocks.append((block, dict(zip(block["nids"], zip(*columns)))))
    assert rest == b""
    return head, blocks


class Account:
    """
    What one agent's messages say, added up by who does nothing else.  A number that went down stays
    what it was, and may lack something until it is larger again: the agent goes on from a state
    that is older than what it has told.

    Attributes:
        totals: {(file system, kind, NID): five amounts} of all sweeps.
        epochs: {(file system, kind): its epoch}.
        losses: {(file system, kind): [loss]}, those of all sweeps, each once.
    """

    def __init__(self):
        self.totals = defaultdict(lambda: [0] * 5)
        self.epochs, self._last, self._behind = {}, {}, set()
        self.losses = defaultdict(list)

    def take(self, packed):
        """
        Add up one message; {(file system, kind): {NID: what it gained}}, and the new losses in the
        same form: {(file system, kind): [loss]}.
        """
        gains, news = {}, {}
        for block, clients in messages_of(packed)[1]:
            key = block["file_system"], block["kind"]
            if self.epochs.get(key) != block["epoch"]:
                self.epochs[key] = block["epoch"]
                self._last = {of: last for of, last in self._last.items() if of[:2] != key}
            found = gains.setdefault(key, {})
            for nid, amounts in clients.items():
                last = self._last.get((*key, nid), [0] * 5)
                gained = [max(0, now - before) for now, before in zip(amounts, last)]
                if (*key, nid) in self._behind or any(map(int.__lt__, amounts, last)):
                    news.setdefault(key, []).append({
                        "since": block["read_from"], "until": block["read_until"], "target": "",
                        "nid": nid, "why": WENT_DOWN})
                    self._behind.discard((*key, nid))
                if any(map(int.__lt__, amounts, last)):
                    self._behind.add((*key, nid))
                self._last[(*key, nid)] = list(map(max, amounts, last))
                found[nid] = gained
                for place, amount in enumerate(gained):
                    self.totals[(*key, nid)][place] += amount
            for loss in block["losses"]:
                if loss not in self.losses[key]:
                    self.losses[key].append(loss)
                    news.setdefault(key, []).append(loss)
        return gains, news
