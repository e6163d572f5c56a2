"""
What the kernel of one node has counted, printed as its counter files.

Two releases: 2.15 times the calls of programs, 2.12 counts them only.  The forms are those of
tests/data (its README names the functions of the kernel); what was there before the job is an empty
file of the same start_time.
"""

from __future__ import annotations

import math

from iostats.lustre.paths import File
from iostats.totals.snapshot import Snapshot

MIB, GIB, PAGE = 1 << 20, 1 << 30, 4096
BEGAN_S = 1_795_176_000
_INSTANCE = "ff110000b3c36000"
_WRAP = 1 << 64
_PLAIN = ("ioctl", "opencount", "getxattr_hits")         # llite counters that no release times


class Counter:
    """One line of a stats file: samples, and the least, most, sum and squares of their amounts."""

    def __init__(self):
        self.samples = self.total = self.squares = self.most = 0
        self.least = math.inf

    def add(self, samples, mean, spread=0.0):
        """`samples` amounts around `mean`; `spread`: their standard deviation by their mean."""
        if samples < 1:
            return
        # The extremes of so many lognormal amounts.
        sigma = math.sqrt(math.log1p(spread * spread))
        reach = sigma * math.sqrt(2 * math.log(samples + 1))
        middle = mean * math.exp(-sigma * sigma / 2)
        self.samples += samples
        self.total += round(samples * mean)
        self.squares += round(samples * mean * mean * (1 + spread * spread))
        self.least = min(self.least, int(middle * math.exp(-reach)))
        self.most = max(self.most, math.ceil(middle * math.exp(reach)), math.ceil(mean))

    def line(self, name, unit, has_squares):
        """As the kernel prints it; `unit` "" for samples alone."""
        head = f"{name:<25} {self.samples} samples"
        if not unit:
            return f"{head} [reqs]\n"
        amounts = f"{self.least} {self.most} {self.total}"
        return f"{head} [{unit}] {amounts}{f' {self.squares % _WRAP}' if has_squares else ''}\n"


class NodeCounters:
    """
    The counters of one node, and of as many others as have counted the same.

    Attributes:
        copies: how many nodes have counted this.
        speed: times of this node's calls are multiplied with it.
    """

    def __init__(self, file_system, osts, mdts, copies=1):
        self.file_system, self.copies = file_system, copies
        self._targets = [f"OST{number:04x}" for number in range(osts)]
        self._mdts = [f"MDT{number:04x}" for number in range(mdts)]
        self._llite, self._osc = {}, {name: {} for name in self._targets}
        self._md = {name: {} for name in self._mdts}
        self._pages = {name: {} for name in self._targets}

    # -- what programs do --------------------------------------------------------------------------

    def call(self, name, samples, each_s=0.0, spread=0.5):
        """Calls of one kind, with the time of each."""
        self._counter(self._llite, name).add(int(samples), each_s * 1e6, spread)

    def moved(self, way, calls, size, each_s, spread=0.5, uncounted=0, size_spread=0.0):
        """read() or write() of `size` bytes; `uncounted`: how many are in no byte counter."""
        self.call(way, calls, each_s, spread)
        self._counter(self._llite, f"{way}_bytes").add(int(calls) - int(uncounted), size,
                                                       size_spread)

    # -- what the node asks the servers for --------------------------------------------------------

    def requests(self, way, size_bytes, rpc_bytes, osts, each_s):
        """Bulk requests for `size_bytes`, spread over `osts` (numbers of OSTs) evenly."""
        total = max(1, int(size_bytes / rpc_bytes)) if size_bytes else 0
        for place, number in enumerate(osts):
            count = total // len(osts) + (place < total % len(osts))
            if not count:
                continue
            name = self._targets[number]
            self._counter(self._osc[name], f"{way}_bytes").add(count, rpc_bytes, 0.0)
            self._counter(self._osc[name], f"ost_{way}").add(count, each_s * 1e6, 0.4)
            pages = 1 << max(0, math.ceil(math.log2(max(1, rpc_bytes / PAGE))))
            sizes = self._pages[name].setdefault(pages, {"read": 0, "write": 0})
            sizes[way] += count

    def locks(self, kind, count, osts):
        """Locks of objects on OSTs: "extent" to read or write, "glimpse" for a size."""
        for number in osts:
            if count / len(osts) >= 1:
                self._counter(self._osc[self._targets[number]], f"ldlm_{kind}_enqueue").add(
                    int(count / len(osts)), 1)

    def asked(self, name, count, mdts):
        """Requests to MDTs (md_stats), spread over `mdts` evenly."""
        for number in mdts:
            self._counter(self._md[self._mdts[number]], name).add(int(count / len(mdts)), 1)

    @staticmethod
    def _counter(counters, name):
        return counters.setdefault(name, Counter())

    # -- its files ---------------------------------------------------------------------------------

    def snapshots(self, release, elapsed_s):
        """(Snapshot at the start, at the end) of this node."""
        return self._snapshot(release, 0, False), self._snapshot(release, elapsed_s, True)

    def _snapshot(self, release, after_s, is_end):
        is_timed = release == "2.15"
        now_s = BEGAN_S + after_s
        head = f"snapshot_time             {now_s:.9f} secs.nsecs\n"
        if is_timed:
            head += (f"start_time                {BEGAN_S - 86_400}.000000456 secs.nsecs\n"
                     f"elapsed_time              {after_s + 86_400:.9f} secs.nsecs\n")
        mount = f"{self.file_system}-{_INSTANCE}"
        files = [self._file("llite", mount, head, self._lines(
            self._llite, lambda name: _unit_of_llite(name, is_timed), is_timed) if is_end else "")]
        for name in self._targets:
            target = f"{self.file_system}-{name}-osc-{_INSTANCE}"
            files.append(self._file("osc", target, head, self._lines(
                self._osc[name], _unit_of_osc, True) if is_end else ""))
            files.append(self._file("rpc_stats", target, head.replace("_time ", "_time:"),
                                    _histogram(self._pages[name] if is_end else {})))
            files.append(File("dirty", target, "cur_dirty_bytes", 0, "0\n"))
        for name in self._mdts:
            files.append(self._file(
                "md_stats", f"{self.file_system}-{name}-mdc-{_INSTANCE}", head,
                self._lines(self._md[name], lambda name: "", False) if is_end else ""))
        return Snapshot("4711", "", "", "boot", now_s * 10**9 if not is_end else round(
            now_s * 1e9), round(after_s * 1e9), tuple(files))

    @staticmethod
    def _file(source, name, head, lines):
        return File(source, name, f"proc/fs/lustre/{source}/{name}", 0, head + lines)

    @staticmethod
    def _lines(counters, unit_of, has_squares):
        lines = []
        for name, counter in counters.items():
            unit = unit_of(name)
            if counter.samples and unit is not None:
                lines.append(counter.line(name, unit, has_squares and unit != "reqs"))
        return "".join(lines)


def _unit_of_llite(name, is_timed):
    """As that release prints it; None for a line that it has not."""
    if name.endswith("_bytes"):
        return "bytes"
    if not is_timed and name in ("read", "write", "openclosetime"):
        return None
    return "usec" if is_timed and name not in _PLAIN else ""


def _unit_of_osc(name):
    return "bytes" if name.endswith("_bytes") else "usec" if name.startswith("ost_") else "reqs"


def _histogram(sizes):
    """The part of rpc_stats that is read: pages per RPC."""
    rows = "".join(f"{pages}:\t\t{row['read']:10} 0 0   | {row['write']:10} 0 0\n"
                   for pages, row in sorted(sizes.items()))
    return (f"read RPCs in flight:  0\nwrite RPCs in flight: 0\n\n\t\t\tread\t\t\twrite\n"
            f"pages per rpc         rpcs   % cum % |       rpcs   % cum %\n{rows}")
