"""
The OSTs and MDTs of this storage server, and their job_stats, as the kernel gives them.

    obdfilter/FS-OST000a/job_stats, mdt/FS-MDT0000/job_stats, and beside it job_cleanup_interval,
    in proc/fs/lustre, sys/fs/lustre or sys/kernel/debug/lustre
"""

from __future__ import annotations

import errno
import os
import time
from functools import partial

from iostats.base.errors import JobStatsSyntaxError
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import open_regular, read_text
from iostats.lustre import job_stats
from iostats.lustre.job_stats_rows import check
from iostats.lustre.paths import PLACES
from iostats.lustre.quoted_ids import QuotedIds
from iostats.node.identity import read_seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

KINDS = ("obdfilter", "mdt")
_DIRECTORY = {"OST": "obdfilter", "MDT": "mdt"}
_CHUNK = 1 << 16
# Of one job_stats, whose entries have 2.3 kB (an OST's) to 3.9 kB (an MDT's of 2.17; 4.8 kB with
# histograms): 800,000 of the longest; and how long read(2) may take for all of it.
MOST_BYTES, READ_WITHIN_S = 4 << 30, 300.0
_TRICKLE = 512                         # bytes of a read(2) after which the time is checked


class LocalTarget(NamedTuple):
    """An OST or MDT of this machine."""

    file_system: str
    name: str   # "OST000a", "MDT0000"
    # where its files may be, the best place first, and those that are closed to us last
    directories: list[str]
    # its job_cleanup_interval in seconds, 0 for never; None where it can't be read
    cleanup_s: int | None


class Inspection(NamedTuple):
    """The readable contents of one LocalTarget."""

    target: LocalTarget
    path: str               # of its job_stats, or of the directory where it should be
    entries: int | None     # how many there are; None where it cannot be read: then `why` says so
    jobs: int               # those of them that are of jobs
    bad: int                # those that could not be understood
    why: str                # the first of them


def find_local_targets(root: str, file_systems: Sequence[str] = ()) -> list[LocalTarget]:
    """Return [LocalTarget], of these file systems or of all, in the order of their names."""
    directories_of: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        closed: list[str] = []
        for place in PLACES:
            directory = os.path.join(root, place, kind)
            try:
                # proc_readdir_de() of the kernel ends early if the entry that it shows is removed
                # just then, and a target that one sweep misses is new in the next: so list twice.
                names = {*os.listdir(directory), *os.listdir(directory)}
            except PermissionError:                 # debugfs, of which 2.17 has the exports in
                closed.append(directory)
                continue
            except OSError:
                continue
            for name in names:
                key = split_name(name)
                if key is not None and (not file_systems or key[0] in file_systems):
                    directories_of.setdefault(key, []).append(os.path.join(directory, name))
        for (file_system, target), directories in directories_of.items():
            if _DIRECTORY[target[:3]] == kind:
                directories += [f"{directory}/{file_system}-{target}" for directory in closed]
    return [LocalTarget(*key, directories_of[key], _read_cleanup_s(directories_of[key]))
            for key in sorted(directories_of)]


def split_name(name: str) -> tuple[str, str] | None:
    """
    Return (file system, target) of a directory below obdfilter/ or mdt/, or None.

    >>> split_name("my-fs-OST000f")
    ('my-fs', 'OST000f')
    """
    file_system, _, target = name.rpartition("-")
    is_target = target[:3] in ("OST", "MDT") and len(target) == 7 and all(
        c in "0123456789abcdef" for c in target[3:])
    is_name = len(file_system) <= 64 and all(
        (c.isascii() and c.isalnum()) or c in "_.-" for c in file_system)
    return (file_system, target) if is_target and file_system and is_name else None


def _read_cleanup_s(directories: Iterable[str]) -> int | None:
    for directory in directories:
        try:
            text = read_text(os.path.join(directory, "job_cleanup_interval")).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 12:
            return int(text)
    return None


def find_boot_time_ns() -> int:
    """Return when this machine booted, ns of the wall clock; 2.15.0 counts from then."""
    return time.time_ns() - round(read_seconds_since_boot() * 1e9)


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


def find_exports(target: LocalTarget) -> str:
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


def read_instance(target: LocalTarget) -> str:
    """
    Return how often the target was started, on any storage server; "" if that cannot be read, or is
    still 0, as until the target has read it from its disk (tgt_server_data_init()).
    """
    for directory in target.directories:
        try:
            text = read_text(os.path.join(directory, "instance")).strip()
        except OSError:
            continue
        if text.isascii() and text.isdigit() and len(text) < 16 and int(text):
            return text
    return ""


def open_job_stats(target: LocalTarget) -> tuple[int, str]:
    """Return (handle, path) of a target's job_stats, from the first place that has it; OSError."""
    failed: OSError | None = None
    for directory in target.directories:
        path = os.path.join(directory, "job_stats")
        try:
            return open_regular(path), path
        except OSError as error:
            if failed is None or isinstance(failed, FileNotFoundError):
                failed = error                 # "permission denied" says more
    raise failed  # type: ignore[misc]     # a target has directories


def read_chunks(handle: int, path: str,
                rest: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """
    Yield the bytes of the job_stats `path`, one kernel buffer for each read; `rest` is called in
    between.  OSError for a file that is endless, or too slow.
    """
    buffer, held, got = memoryview(bytearray(_CHUNK)), 0, -1
    size_bytes, waited_s = 0, 0.0
    while got:
        began = time.monotonic()
        # Many reads into one buffer: an object for each, and a check of the time, cost as much as
        # what is then done with them.
        while held < _CHUNK and (got := os.readv(handle, [buffer[held:]])):
            held += got
            if got < _TRICKLE and time.monotonic() - began > READ_WITHIN_S:
                break
        size_bytes, waited_s = size_bytes + held, waited_s + time.monotonic() - began
        if size_bytes > MOST_BYTES or waited_s > READ_WITHIN_S:
            raise OSError(*((errno.EFBIG, "it does not end") if size_bytes > MOST_BYTES else
                            (errno.ETIMEDOUT, "it takes too long")), path)
        if held:
            yield bytes(buffer[:held])
            rest()
        held = 0


def read_file_chunks(path: str, rest: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """Open the job_stats at `path` again, and yield its read_chunks(); OSError."""
    handle = open_regular(path)
    try:
        yield from read_chunks(handle, path, rest)
    finally:
        os.close(handle)


def inspect(target: LocalTarget,
            find_job: Callable[[str], str] = lambda job_id: job_id) -> Inspection:
    """Read a target's job_stats; `find_job`: maps an id to its job, "" for none."""
    path, entries, jobs, bad, why = target.directories[0], 0, 0, 0, ""
    quotes = QuotedIds()
    try:
        handle, path = open_job_stats(target)
        try:
            for piece in quotes.split_entries(read_chunks(handle, path),
                                              partial(read_file_chunks, path)):
                entries += 1
                try:
                    entry = job_stats.parse(piece, 0, path, quotes.is_printed_by_kernel)
                    check(entry, path)
                    jobs += bool(find_job(entry.job_id))
                except JobStatsSyntaxError as error:
                    bad, why = bad + 1, why or str(error)
        finally:
            os.close(handle)
    except OSError as error:
        return Inspection(target, error.filename or path, None, 0, 0, error.strerror or str(error))
    return Inspection(target, path, entries, jobs, bad, why)


def describe_targets(root: str, file_systems: Sequence[str] = (),
                     more: Callable[[LocalTarget], str] = lambda target: "") -> str:
    """
    Describe the targets on this machine for a person, a line for each; `more`: text to add to the
    line of a target.
    """
    lines = []
    for target in find_local_targets(root, file_systems):
        inspection = inspect(target)
        state = (f"not readable: {inspection.path}: {inspection.why}"
                 if inspection.entries is None else
                 f"{inspection.entries} entries"
                 + (f", {inspection.bad} not understood: {inspection.why}"
                    if inspection.bad else ""))
        cleanup = "-" if target.cleanup_s is None else f"{target.cleanup_s} s"
        lines.append(f"{target.file_system:<10} {target.name}  cleanup {cleanup:<7} "
                     f"{'; '.join(filter(None, (state, more(target))))}\n")
    return "".join(lines) or "no target of Lustre on this machine\n"
