"""
What is in the way of a node's counter files, for the doctor: each source, kernel lockdown, the
release, and what its counters leave out.  Changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat

from iostats import schedulers
from iostats.base.private_files import read_text
from iostats.doctor.check import NOTE, OK, PROBLEM, Check
from iostats.lustre import paths as lustre_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.lustre.stats import Reading
    from iostats.totals.snapshot import Readings, Snapshot

_INSTALL_READER = "make install-reader && systemctl enable --now iostats-reader.socket"
_MOUNT_DEBUGFS = "mount -t debugfs none /sys/kernel/debug"
_FIRST_WALL_CLOCK_NS = 10 ** 18                    # see lustre/stats.py


def examine(now: Snapshot, known: dict[str, ModuleType], counters: list[File], readings: Readings,
            root: str, config: Config, by_reader: set[str]) -> list[Check]:
    """
    [Check] of the counter files `counters` of the snapshot `now`.

    `known`: source -> module; `readings`: of `now`; `by_reader`: the sources that the reader read.
    """
    read, refused = readings
    lockdown = _Lockdown(root)
    checks = [_source(module, [file for file in counters if file.source == source], refused, read,
                      root, source in by_reader, lockdown)
              for source, module in known.items() if hasattr(module, "parse")]
    return [*checks, lockdown.check(counters), _release(root, counters, read, known),
            _start_time(root, read, known), _stats_track(now), *_tiny_write(root, read),
            _jobid_var(root, config)]


def _source(module: ModuleType, found: list[File], refused: dict[tuple[str, str], str],
            read: dict[tuple[str, str], Reading], root: str, by_reader: bool,
            lockdown: _Lockdown) -> Check:
    """The Check of one kind of counter file."""
    line = module.TITLE
    if not found:
        return Check(NOTE, line, "no file")
    good = [file for file in found if (file.source, file.name) in read]
    bad = [file for file in found if (file.source, file.name) in refused]
    lines = [why for file in good for why in read[file.source, file.name].bad.values()]
    if not bad and lines:
        return Check(PROBLEM, line, f"not counted: {lines[0]}" + (
            f", and {len(lines) - 1} more" if lines[1:] else "") + "; please send us what this "
            "prints", "iostats_client.py show --json")
    if not bad:
        who = ("by the reader: this user may not read it" if by_reader
               else _who_may_read(root, good[0].path))
        return Check(OK, line, f"{len(good)} in /{_place(good[0])}; {who}; "
                                 f"{_in_short(read, good)}")
    code, why = bad[0].errno, refused[bad[0].source, bad[0].name]
    text = f"{len(bad)} of {len(found)} not read: {why}"
    if code == errno.EACCES:
        closed = _closed_by(root, getattr(module, "DIRECTORY", ""))
        return Check(PROBLEM, line, text + (f" by {closed}" if closed else "") + " (or use root)",
                     lockdown.fix or _INSTALL_READER)
    if code == errno.EPERM:
        return Check(PROBLEM, line, text, lockdown.fix or lockdown.last_resort)
    if code == errno.ENOENT:
        if os.path.exists(os.path.join(root, "sys/kernel/debug/lustre")):
            return Check(PROBLEM, line, f"{len(bad)} of {len(found)} not in debugfs, which is "
                                          f"mounted", "umount -a -t lustre && mount -a -t lustre")
        return Check(PROBLEM, line, text, _MOUNT_DEBUGFS)
    return Check(PROBLEM, line, text + "; please send us what this prints",
                 "iostats_client.py show --json")


def _place(file: File) -> str:
    place: str = file.path.rpartition(f"/{file.name}/")[0]
    return place or file.path


def _who_may_read(root: str, path: str) -> str:
    """Who may read a file, by its mode and those of the directories above it."""
    above = ""
    for part in path.split("/"):
        above = f"{above}/{part}"
        found = os.stat(root.rstrip("/") + above)
        needed = stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IROTH
        if not found.st_mode & needed:
            return f"for root alone ({above} is {stat.S_IMODE(found.st_mode):04o})"
    return f"for everybody ({stat.S_IMODE(found.st_mode):04o})"


def _closed_by(root: str, kind: str) -> str:
    """The directory or file that this process may not enter or read, and its mode; "" for none."""
    for place in lustre_paths.PLACES if kind else ():
        above = root.rstrip("/")
        for part in [*place.split("/"), kind]:
            above = f"{above}/{part}"
            if not os.path.exists(above):
                break
            if not os.access(above, os.R_OK | os.X_OK):
                found = os.stat(above)
                return f"{above} ({stat.S_IMODE(found.st_mode):04o}, user {found.st_uid})"
    return ""


def _in_short(read: dict[tuple[str, str], Reading], found: list[File]) -> str:
    """How many counters, and the units of some that differ between releases."""
    counters = {}
    for file in found:
        counters.update(read[file.source, file.name].counters)
    shown = [f"{name} [{counters[name].unit}]" for name in
             ("read_bytes", "write_bytes", "open", "ost_read", "mds_close", "close", "create")
             if name in counters][:3]
    return f"{len(counters)} counters" + (f": {', '.join(shown)} ..." if shown else "")


class _Lockdown:
    """
    Kernel lockdown: from "integrity" on, debugfs files that can be written are closed to root, too.

    Attributes:
        state: "none", "integrity", "confidentiality", or "" where the kernel does not tell.
        fix: the command that ends it with the next boot; "" where it is not in force.
    """

    def __init__(self, root: str) -> None:
        # none [integrity] confidentiality
        text = text_below(root, "sys/kernel/security/lockdown")
        self.state = text.partition("[")[2].partition("]")[0]
        by_boot = "lockdown=" in text_below(root, "proc/cmdline")
        self.last_resort = ("grubby --update-kernel=ALL --remove-args=lockdown" if by_boot
                            else "mokutil --disable-validation")
        self.fix = self.last_resort if self.state not in ("", "none") else ""

    def check(self, counters: list[File]) -> Check:
        if not self.state:
            return Check(NOTE, "lockdown", "the kernel does not tell "
                                           "(/sys/kernel/security/lockdown)")
        if self.state == "none":
            return Check(OK, "lockdown", "none")
        if any(file.errno in (errno.EPERM, errno.EACCES) for file in counters):
            return Check(PROBLEM, "lockdown", f"{self.state}: counters in debugfs are closed, even "
                                              f"to root and the reader, until the next boot",
                         self.fix)
        return Check(NOTE, "lockdown", f"{self.state}, and no counter file is closed by it")


def looks_like(signs: list[tuple[int, int, str]]) -> str:
    """
    Words for the releases that all `signs` have in common; a sign is (first, last, what it is),
    as minor numbers of 2.x.

    >>> looks_like([(12, 17, "debugfs"), (5, 14, "no start_time")])
    '2.12 to 2.14'
    """
    first, last = max([5, *(sign[0] for sign in signs)]), min([17, *(sign[1] for sign in signs)])
    if first > last:
        return f"2.{first} with some of 2.{last} (a vendor's backports)"
    if last == 17:
        return f"2.{first} or newer"
    return f"2.{first}" + ("" if first == last else f" {'or' if last == first + 1 else 'to'} "
                                                    f"2.{last}")


def _release(root: str, counters: list[File], read: dict[tuple[str, str], Reading],
             known: dict[str, ModuleType]) -> Check:
    """By what the files show; where a file is only refused, by where it is not."""
    signs = []
    for source, module in known.items():
        proc_until = getattr(module, "IN_PROC_UNTIL", None)
        if proc_until is None:
            continue
        path = next((file.path for file in counters if file.source == source), "")
        if path.startswith("proc/"):
            signs.append((5, proc_until, f"{source} in /proc"))
        elif path.startswith("sys/kernel/debug/"):
            signs.append((proc_until + 1, 17, f"{source} in debugfs"))
        elif path and os.path.isdir(os.path.join(root, "sys/fs/lustre/llite")):
            signs.append((proc_until + 1, 17, f"{source} not in /proc"))
    units = {counter.unit for (source, _), reading in read.items() if source == "llite"
             for counter in reading.counters.values()}
    for unit, first, last in (("regs", 5, 13), ("usec", 14, 15), ("usecs", 15, 17)):
        if unit in units:
            signs.append((first, last, f"[{unit}]"))
    header = next((file.text for file in counters if file.source in ("llite", "md_stats")
                   and (file.source, file.name) in read), "")
    if header:
        old = "secs.usecs" in header
        signs.append((5, 9, "secs.usecs") if old else (10, 17, "secs.nsecs"))
        if "start_time" in header:
            signs.append((15, 17, "start_time"))
        elif not text_below(root, "sys/fs/lustre/enable_stats_header"):
            signs.append((5, 14, "no start_time"))
    boot_clock = any(0 < reading.snapshot_ns < _FIRST_WALL_CLOCK_NS for reading in read.values())
    release = "2.15.0 or 2.15.1" if boot_clock else looks_like(signs)
    version = text_below(root, "sys/fs/lustre/version",
                         "proc/fs/lustre/version").strip().partition("\n")
    reasons = [what for _, _, what in signs] + ["seconds since boot"] * boot_clock
    return Check(NOTE, "release", (
        f"looks like {release}: {', '.join(reasons)}" if reasons else
        "no counter file shows which") + f"; the version file says {version[0] or 'nothing'}")


def _start_time(root: str, read: dict[tuple[str, str], Reading],
                known: dict[str, ModuleType]) -> Check:
    stats = {(source, name): one for (source, name), one in read.items()
             if known[source].LAYER and not hasattr(known[source], "START_TIME_LATE")}
    if stats and all(one.start_ns for one in stats.values()):
        return Check(OK, "start_time", "shown: that nothing was cleared can be proved")
    off = text_below(root, "sys/fs/lustre/enable_stats_header").strip() == "0"
    return Check(NOTE, "start_time", "not shown: a clear is seen only by counters that went back",
                 "lctl set_param enable_stats_header=1" if off else "")


def _stats_track(now: Snapshot) -> Check:
    found = [file for file in now.files if file.source.startswith("stats_track_")
             and not file.errno]
    # Of the three the one with a number filters; the others then say `untracked`.
    off = sorted((file for file in found if file.text.strip() != "0 (all)"),
                 key=lambda file: not file.text.strip().isdigit())
    if off:
        return Check(PROBLEM, "stats_track", f"{off[0].name}: {off[0].source} is "
                     f"{off[0].text.strip()!r}: llite counts that alone, not the whole node",
                     f"lctl set_param llite.*.{off[0].source}=0")
    if not found:
        return Check(NOTE, "stats_track", "not shown")
    return Check(OK, "stats_track", "0 (all): the whole node is counted")


def _tiny_write(root: str, read: dict[tuple[str, str], Reading]) -> list[Check]:
    """Whether small writes are counted; nothing where the release always does (up to 2.14)."""
    found = {}
    for (source, name), one in read.items():
        # start_time came with the release that does not count them any more, 2.14.56.
        if source == "llite" and one.start_ns is not None:
            found[name] = text_below(root, f"sys/fs/lustre/llite/{name}/tiny_write").strip()
    if "1" not in found.values():
        return [Check(OK, "tiny_write", "0: small writes are in the bytes written")] * (
            "0" in found.values())
    calls = missing = 0
    for name, switched in found.items():
        counters = read["llite", name].counters
        if switched == "1" and "write" in counters:
            calls += counters["write"].samples
            missing += max(0, counters["write"].samples - (
                counters["write_bytes"].samples if "write_bytes" in counters else 0))
    return [Check(NOTE, "tiny_write", f"1: small writes into unsent pages are not in the bytes "
                  f"written, {missing} of {calls} write() calls so far; 0 counts them, and makes "
                  f"each of them 2 to 9 times as slow (docs/counters.md)",
                  "lctl set_param llite.*.tiny_write=0")]


def _jobid_var(root: str, config: Config) -> Check:
    value = text_below(root, "sys/fs/lustre/jobid_var", "proc/fs/lustre/jobid_var").strip()
    variables = config["node.job_id_variables"]
    here = [name for name in variables if os.environ.get(name)] or variables
    command = f"lctl set_param jobid_var={here[0] if here else 'SLURM_JOB_ID'}"
    if not value:
        return Check(NOTE, "jobid_var", "not shown")
    if value == "disable":
        return Check(NOTE, "jobid_var", "disable: the servers' job_stats do not know this node's "
                                        "jobs", command)
    if value in variables or value in ("nodelocal", "session") or value in (
            schedulers.named(name).JOB_ID_VARIABLE for name in schedulers.names()):
        return Check(OK, "jobid_var", value)
    return Check(NOTE, "jobid_var", f"{value}: the servers' job_stats have no job ids from here",
                 command)


def text_below(root: str, *paths: str) -> str:
    """The first of `paths` below `root` that can be read, or ""."""
    for path in paths:
        try:
            return read_text(os.path.join(root, path))
        except OSError:
            continue
    return ""
