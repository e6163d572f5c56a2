"""
Counter files below a root: which there are, and what is in them.

Lustre's folders are PLACE/KIND/NAME/FILE, with NAME a mount or a target.  Which place has a
file changed with the releases (lprocfs to debugfs, 2.12 and 2.17), so all are tried, debugfs
first; the first readable one counts.  A NAME that some place lists, and whose file no place
lets us read, is kept with its errno: "may not be read" is not "did nothing".
"""

from __future__ import annotations

import errno
import os
import stat
import time

from iostats import lustre
from iostats.snapshot import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PLACES = ("sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre")

_MOST_BYTES = 64 << 20                 # real ones have some kB; a report of a long job is larger
_READ_WITHIN_S = 2.0

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)


def read_all(root: str, source: str, kind: str, filename: str, only: Sequence[str] = (),
             always: Callable[[str], object] | None = None) -> list[File]:
    """
    [File] of PLACE/kind/NAME/filename below `root`.

    `only`: globs of the names of file systems (site.cfg: [node] file_systems); none for all.
    `always`: true for a NAME that has this file in every release: where it is not, it is kept
    with ENOENT.
    """
    found: dict[str, File] = {}
    refused: dict[str, int | None] = {}
    listed: set[str] = set()
    for folder, names, code in _folders(root, kind):
        if code:
            refused.setdefault("", code)
        for name in _of_file_systems(names, kind, only):
            listed.add(name)
            if name in found:
                continue
            path = f"{folder}/{name}/{filename}"
            try:
                found[name] = File(source, name, path, 0, read_text(os.path.join(root, path)))
            except OSError as error:
                if error.errno not in _ABSENT:
                    refused[name] = error.errno
    for name in listed - set(found):
        code = refused.get(name, refused.get(""))
        if not code and always and always(name):
            code = errno.ENOENT
        if code:
            found[name] = File(source, name, "-", code, "")
    return [found[name] for name in sorted(found)]


def _folders(root: str, kind: str) -> Iterator[tuple[str, Sequence[str], int | None]]:
    """(directory from the root, names in it, errno or 0) of each place to look at."""
    for place in PLACES:
        folder = f"{place}/{kind}"
        try:
            yield folder, os.listdir(os.path.join(root, folder)), 0
        except OSError as error:
            # debugfs's own root is closed to users (0700): the folder may be there or not.
            if error.errno not in _ABSENT:
                yield folder, (), error.errno


def _of_file_systems(names: Sequence[str], kind: str, only: Sequence[str]) -> Sequence[str]:
    """Those of `names` whose file system is one of `only`; all where that is empty."""
    if not only:
        return names
    from fnmatch import fnmatchcase      # costs a third of a start; only with a choice
    split = lustre.split_llite_name if kind == "llite" else lustre.split_target_name
    return [name for name, place in zip(names, map(split, names))
            if place and any(fnmatchcase(place[0], pattern) for pattern in only)]


def open_regular(path: str) -> int:
    """
    A handle of the regular file `path`; OSError.

    A FIFO, or a device, is neither waited for nor read; the files of /proc and debugfs, whose size
    is 0, are regular.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(code, "Is a directory" if code == errno.EISDIR else "Not a regular file",
                      path)
    return handle


def read_text(path: str, of_any_kind: bool = False) -> str:
    """
    The whole file as text, one character a byte; `of_any_kind`: a pipe too, as of a shell's <(...).

    A statistics file gives at most one of the kernel's buffers for each read(2), and its size
    is 0, so it is read until there is no more (seq_read(), fs/seq_file.c).  One that does not end,
    or that trickles, is refused: it would keep all others back.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if of_any_kind else open_regular(path)
    try:
        parts: list[bytes] = []
        size, ends = 0, None
        while True:
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts).decode("latin-1")
            parts.append(part)
            size += len(part)
            if of_any_kind:
                continue
            now = time.monotonic()
            ends = now + _READ_WITHIN_S if ends is None else ends
            if size > _MOST_BYTES or now > ends:
                code = errno.EFBIG if size > _MOST_BYTES else errno.ETIMEDOUT
                raise OSError(code, os.strerror(code), path)
    finally:
        os.close(handle)


def has_lustre(root: str) -> bool:
    """True where a Lustre client is, or could be hidden from us by permissions."""
    for place in PLACES:
        try:
            if os.listdir(os.path.join(root, place, "llite")):
                return True
        except OSError:
            continue
    return False


def jobs_here(root: str) -> list[str]:
    """
    Ids of the jobs that have processes on this node, by their cgroups; [] where none are kept.

    Slurm with proctrack/cgroup, PBS with its cgroups hook, LSF with LSF_PROCESS_TRACKING.
    """
    found: set[str] = set()
    top = os.path.join(root, "sys/fs/cgroup")
    for controller in ("", "memory", "cpuset", "freezer", "devices"):
        base = os.path.join(top, controller) if controller else top
        if not os.path.isdir(base):                         # v1's, on a node with v2
            continue
        # v2: system.slice/slurmstepd.scope/job_4711; v1: memory/slurm/uid_1000/job_4711
        for scope in _entries(os.path.join(base, "system.slice")):
            if scope.endswith("slurmstepd.scope"):
                found.update(_slurm_jobs(os.path.join(base, "system.slice", scope)))
        if controller:
            for slurm in _entries(base):
                if slurm == "slurm" or slurm.startswith("slurm_"):
                    for user in _entries(os.path.join(base, slurm)):
                        found.update(_slurm_jobs(os.path.join(base, slurm, user)))
        # v1: memory/pbs_jobs.service/jobid/4711.pbs01; v2: pbs_jobs.service/jobs/4711.pbs01
        for service in ("pbs_jobs.service", "pbspro.service"):
            for jobs in ("jobid", "jobs"):
                found.update(_folders_in(os.path.join(base, service, jobs)))
        for cluster in _entries(os.path.join(base, "lsf")):
            found.update(name.split(".")[1] for name in _entries(os.path.join(base, "lsf", cluster))
                         if name.startswith("job.") and name.count(".") >= 2)
    return sorted(found)


def _slurm_jobs(folder: str) -> list[str]:
    return [name[len("job_"):] for name in _entries(folder) if name.startswith("job_")]


def _folders_in(folder: str) -> list[str]:
    """Names of its folders: each cgroup has files of the kernel's beside them."""
    return [name for name in _entries(folder) if os.path.isdir(os.path.join(folder, name))]


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def mount_points(root: str) -> dict[str, list[str]]:
    """
    {file system: [mount points]} of the Lustre mounts that this process sees.

    From /proc/self/mounts, or ROOT/proc/mounts for another root; {} where there is none.
    """
    path = "/proc/self/mounts" if root == "/" else os.path.join(root, "proc/mounts")
    try:
        text = read_text(path)
    except OSError:
        return {}
    points: dict[str, list[str]] = {}
    for line in text.splitlines():
        # 10.99.0.2@tcp:10.99.0.3@tcp:/scratch/home /home lustre rw,... (NIDs, fs, subfolder)
        device, point, kind = (line.split(" ") + ["", "", ""])[:3]
        if kind == "lustre" and ":/" in device:
            name = device.rpartition(":/")[2].partition("/")[0]
            point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            points.setdefault(name, []).append(point)
    return points
