"""
The OSTs and MDTs of this storage server, and their job_stats, as the kernel gives them.

    obdfilter/FS-OST000a/job_stats, mdt/FS-MDT0000/job_stats, and beside it job_cleanup_interval,
    in proc/fs/lustre, sys/fs/lustre or sys/kernel/debug/lustre
"""

from __future__ import annotations

import errno
import os
import time
from collections import namedtuple
from functools import partial

from iostats.base.errors import JobStatsSyntaxError
from iostats.base.private_files import open_regular, read_text
from iostats.lustre import job_stats
from iostats.lustre.job_stats_rows import check
from iostats.lustre.paths import PLACES
from iostats.lustre.quoted_ids import QuotedIds
from iostats.node.identity import seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

KINDS = ("obdfilter", "mdt")
_DIRECTORY = {"OST": "obdfilter", "MDT": "mdt"}
_CHUNK = 1 << 16
# Of one job_stats, whose entries have 2.3 kB (an OST's) to 3.9 kB (an MDT's of 2.17; 4.8 kB with
# histograms): 800,000 of the longest; and how long read(2) may take for all of it.
MOST_BYTES, READ_WITHIN_S = 4 << 30, 300.0
_TRICKLE = 512                         # bytes of a read(2) after which the time is looked at

LocalTarget = namedtuple("LocalTarget", "file_system name directories cleanup_s")
LocalTarget.__doc__ = """
One OST or MDT of this machine.

Attributes:
    name: "OST000a", "MDT0000".
    directories: where its files may be, the best place first, and those that are closed to us
        last.
    cleanup_s: its job_cleanup_interval in seconds, 0 for never; None where it can't be read.
"""

Inspection = namedtuple("Inspection", "target path entries jobs bad why")
Inspection.__doc__ = """
What there is to read of one LocalTarget.

Attributes:
    path: of its job_stats, or of the directory where it should be.
    entries: how many there are; None where it cannot be read: then `why` says so.
    jobs: those of them that are of jobs.
    bad: those that could not be understood; `why`: the first of them.
"""


def local_targets(root: str, file_systems: Sequence[str] = ()) -> list[LocalTarget]:
    """[LocalTarget], of these file systems or of all, in the order of their names."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        closed: list[str] = []
        for place in PLACES:
            directory = os.path.join(root, place, kind)
            try:
                names = os.listdir(directory)
            except PermissionError:                 # debugfs, of which 2.17 has the exports in
                closed.append(directory)
                continue
            except OSError:
                continue
            for name in names:
                key = split_name(name)
                if key is not None and (not file_systems or key[0] in file_systems):
                    found.setdefault(key, []).append(os.path.join(directory, name))
        for (file_system, target), directories in found.items():
            if _DIRECTORY[target[:3]] == kind:
                directories += [f"{directory}/{file_system}-{target}" for directory in closed]
    return [LocalTarget(*key, found[key], _cleanup_s(found[key])) for key in sorted(found)]


def split_name(name: str) -> tuple[str, str] | None:
    """
    (file system, target) of a directory below obdfilter/ or mdt/, or None.

    >>> split_name("my-fs-OST000f")
    ('my-fs', 'OST000f')
    """
    file_system, _, target = name.rpartition("-")
    is_target = target[:3] in ("OST", "MDT") and len(target) == 7 and all(
        c in "0123456789abcdef" for c in target[3:])
    is_name = len(file_system) <= 64 and all(
        (c.isascii() and c.isalnum()) or c in "_.-" for c in file_system)
    return (file_system, target) if is_target and file_system and is_name else None


def _cleanup_s(directories: Iterable[str]) -> int | None:
    for directory in directories:
        try:
            text = read_text(os.path.join(directory, "job_cleanup_interval")).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 12:
            return int(text)
    return None


def booted_at_ns() -> int:
    """When this machine was booted, ns of the wall clock; 2.15.0 counts from then."""
    return time.time_ns() - round(seconds_since_boot() * 1e9)


def is_there(directories: Iterable[str]) -> bool:
    """Whether one of a target's directories is there, or may be."""
    for path in directories:
        try:
            os.stat(path)
            return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return True
    return False


def exports_of(target: LocalTarget) -> str:
    """The directory of its exports, in the first place that has it; OSError."""
    failed: OSError | None = None
    for directory in target.directories:
        path = os.path.join(directory, "exports")
        try:
            os.stat(path)
            return path
        except OSError as error:
            if failed is None or isinstance(failed, FileNotFoundError):
                failed = error                 # "permission denied" says more
    raise failed  # type: ignore[misc]     # a target has directories


def instance_of(target: LocalTarget) -> str:
    """How often it was started, on whatever storage server; "" where that cannot be read."""
    for directory in target.directories:
        try:
            text = read_text(os.path.join(directory, "instance")).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 20:
            return text
    return ""


def open_job_stats(target: LocalTarget) -> tuple[int, str]:
    """(handle, path) of a target's job_stats, from the first place that has it; OSError."""
    failed: OSError | None = None
    for directory in target.directories:
        path = os.path.join(directory, "job_stats")
        try:
            return open_regular(path), path
        except OSError as error:
            if failed is None or isinstance(failed, FileNotFoundError):
                failed = error                 # "permission denied" says more
    raise failed  # type: ignore[misc]     # a target has directories


def chunks(handle: int, path: str,
           rest: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """
    The bytes of the job_stats `path`, of which a read gives one of the kernel's buffers; `rest`:
    between.  OSError for one that does not end, or trickles.
    """
    buffer, held, got = memoryview(bytearray(_CHUNK)), 0, -1
    size, waited_s = 0, 0.0
    while got:
        began = time.monotonic()
        # Many reads into one buffer: an object for each, and a look at the time, cost as much as
        # what is then done with them.
        while held < _CHUNK and (got := os.readv(handle, [buffer[held:]])):
            held += got
            if got < _TRICKLE and time.monotonic() - began > READ_WITHIN_S:
                break
        size, waited_s = size + held, waited_s + time.monotonic() - began
        if size > MOST_BYTES or waited_s > READ_WITHIN_S:
            raise OSError(*((errno.EFBIG, "it does not end") if size > MOST_BYTES else
                            (errno.ETIMEDOUT, "it takes too long")), path)
        if held:
            yield bytes(buffer[:held])
            rest()
        held = 0


def chunks_of(path: str, rest: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """chunks() of a job_stats that is opened once more; OSError."""
    handle = open_regular(path)
    try:
        yield from chunks(handle, path, rest)
    finally:
        os.close(handle)


def inspect(target: LocalTarget,
            job_of: Callable[[str], str] = lambda job_id: job_id) -> Inspection:
    """Read a target's job_stats; `job_of`: the job that an id is of, "" for none."""
    path, entries, jobs, bad, why = target.directories[0], 0, 0, 0, ""
    quotes = QuotedIds()
    try:
        handle, path = open_job_stats(target)
        try:
            for piece in quotes.pieces(chunks(handle, path), partial(chunks_of, path)):
                entries += 1
                try:
                    entry = job_stats.parse(piece, 0, path, quotes.are_kernels)
                    check(entry, path)
                    jobs += bool(job_of(entry.job_id))
                except JobStatsSyntaxError as error:
                    bad, why = bad + 1, why or str(error)
        finally:
            os.close(handle)
    except OSError as error:
        return Inspection(target, error.filename or path, None, 0, 0, error.strerror or str(error))
    return Inspection(target, path, entries, jobs, bad, why)


def listing(root: str, file_systems: Sequence[str] = (),
            more: Callable[[LocalTarget], str] = lambda target: "") -> str:
    """
    What is there to harvest, for a person: a line for each target; `more`: what else to say of it.
    """
    lines = []
    for target in local_targets(root, file_systems):
        found = inspect(target)
        state = (f"not readable: {found.path}: {found.why}" if found.entries is None else
                f"{found.entries} entries"
                + (f", {found.bad} not understood: {found.why}" if found.bad else ""))
        cleanup = "-" if target.cleanup_s is None else f"{target.cleanup_s} s"
        lines.append(f"{target.file_system:<10} {target.name}  cleanup {cleanup:<7} "
                     f"{'; '.join(filter(None, (state, more(target))))}\n")
    return "".join(lines) or "no target of Lustre on this machine\n"
