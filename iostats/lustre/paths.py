"""
Counter files below a root: which there are, and what is in them.

Lustre's directories are PLACE/KIND/NAME/FILE, with NAME a mount or a target.  Which place has a
file changed with the releases (lprocfs to debugfs, 2.12 and 2.17), so all are tried, debugfs
first; the first readable one counts.  A NAME that some place lists, and whose file no place
lets us read, is returned with its errno: "may not be read" is not "did nothing".
"""

from __future__ import annotations

import errno
import os

from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_if_readable, read_text
from iostats.lustre import stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence


class File(NamedTuple):
    """A counter file of a snapshot: its source, its name, and its bytes as they were read."""

    source: str     # which of sources/ reads it: "llite", "osc", ...
    name: str       # the directory it lies in: "scratch-ffff9a3c5d1e0800"
    path: str       # where it was found, from the root; "-" where it was not
    errno: int      # 0, or why it was not read (EACCES, EPERM, EIO, ...)
    text: str       # what was read; "" with an errno


PLACES = ("sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre")
LNET_PLACES = ("sys/kernel/debug/lnet", "proc/sys/lnet")
LNETCTL_PATH = "run/iostats/lnetctl"        # lnetctl.py


_ESCAPED = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)


def read_all(root: str, source: str, kind: str, filename: str, only: Sequence[str] = (),
             always: Callable[[str], object] | None = None) -> list[File]:
    """
    Return [File] of PLACE/kind/NAME/filename below `root`.

    `only`: globs of the names of file systems (site.cfg: [node] file_systems); none for all.
    `always`: true for a NAME that has this file in every release: a missing one is returned with
    ENOENT.
    """
    files: dict[str, File] = {}
    refused: dict[str, int | None] = {}
    listed: set[str] = set()
    for directory, names, code in list_directories(root, kind):
        if code:
            refused.setdefault("", code)
        for name in select_file_systems(names, kind, only):
            listed.add(name)
            if name in files:
                continue
            path = f"{directory}/{name}/{filename}"
            try:
                files[name] = File(source, name, path, 0, read_text(os.path.join(root, path)))
            except OSError as error:
                if error.errno not in ABSENT:
                    refused[name] = error.errno
    for name in listed - set(files):
        code = refused.get(name, refused.get(""))
        if not code and always and always(name):
            code = errno.ENOENT
        if code:
            files[name] = File(source, name, "-", code, "")
    return [files[name] for name in sorted(files)]


def list_directories(root: str, kind: str) -> Iterator[tuple[str, Sequence[str], int | None]]:
    """Yield (directory from the root, names in it, errno or 0) of each place to read."""
    for place in PLACES:
        directory = f"{place}/{kind}"
        try:
            # A snapshot has a name as one word of UTF-8; Lustre's own are ASCII (mkfs.lustre).
            # Names such as scratch-OST0000-osc-MDT0000 below osc/ are links to an MDT's own
            # devices (lustre/osp/lproc_osp.c), not a client's.
            yield directory, [name for name in os.listdir(os.path.join(root, directory))
                              if name.isprintable() and " " not in name
                              and not name.rpartition("-")[2].startswith("MDT")], 0
        except OSError as error:
            # debugfs's own root is closed to users (0700): the directory may be there or not.
            if error.errno not in ABSENT:
                yield directory, (), error.errno


def select_file_systems(names: Sequence[str], kind: str, only: Sequence[str]) -> Sequence[str]:
    """Select the `names` whose file system is in `only`; all if that is empty."""
    if not only:
        return names
    split, is_chosen = (stats.split_llite_name if kind == "llite" else stats.split_target_name,
                        make_choice(only))
    return [name for name, place in zip(names, map(split, names)) if place and is_chosen(place[0])]


def make_choice(only: Sequence[str]) -> Callable[[str], bool]:
    """A function for whether a file system is one of `only`; all are where that is empty."""
    if not only:
        return lambda name: True
    from fnmatch import fnmatchcase  # costs a third of a start; only with a choice
    return lambda name: any(fnmatchcase(name, pattern) for pattern in only)


def list_mount_points(root: str, also: Collection[str] = ()) -> dict[str, list[str]]:
    """
    Return {file system: [mount points]} of the Lustre mounts that this process sees, and of those
    of NFS whose names are in `also`.

    From /proc/self/mounts, or ROOT/proc/mounts for another root; {} where there is none.
    """
    path = "/proc/self/mounts" if root == "/" else os.path.join(root, "proc/mounts")
    points: dict[str, list[str]] = {}
    for line in read_if_readable(path).splitlines():
        # 10.99.0.2@tcp:10.99.0.3@tcp:/scratch/home /home lustre rw,... (NIDs, fs, subdirectory)
        device, point, kind = (line.split(" ") + ["", "", ""])[:3]
        if kind == "lustre" and ":/" in device:
            name = device.rpartition(":/")[2].partition("/")[0]
        elif kind in ("nfs", "nfs4") and device in also:
            name = device
        else:
            continue
        if point:
            points.setdefault(name, []).append(unescape(point))
    return points


def unescape(path: str) -> str:
    """A path of /proc/mounts or mountinfo as it is.  Source: mangle(), fs/proc_namespace.c."""
    for escaped, c in _ESCAPED:
        path = path.replace(escaped, c)
    return path
