"""
Counter files below a root: which there are, and what is in them.

Lustre's directories are PLACE/KIND/NAME/FILE, with NAME a mount or a target.  Which place has a
file changed with the releases (lprocfs to debugfs, 2.12 and 2.17), so all are tried, debugfs
first; the first readable one counts.  A NAME that some place lists, and whose file no place
lets us read, is kept with its errno: "may not be read" is not "did nothing".
"""

from __future__ import annotations

import errno
import os
from collections import namedtuple

from iostats.base.private_files import read_text
from iostats.lustre import stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

File = namedtuple("File", "source name path errno text")
File.__doc__ = """
One file of a snapshot.

Attributes:
    source: which of sources/ reads it: "llite", "osc", ...
    name: the directory it lies in: "scratch-ffff9a3c5d1e0800".
    path: where it was found, from the root; "-" where it was not.
    errno: 0, or why it was not read (EACCES, EPERM, EIO, ...).
    text: what was read; "" with an errno.
"""

PLACES = ("sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre")


ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)


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
    for directory, names, code in directories(root, kind):
        if code:
            refused.setdefault("", code)
        for name in of_file_systems(names, kind, only):
            listed.add(name)
            if name in found:
                continue
            path = f"{directory}/{name}/{filename}"
            try:
                found[name] = File(source, name, path, 0, read_text(os.path.join(root, path)))
            except OSError as error:
                if error.errno not in ABSENT:
                    refused[name] = error.errno
    for name in listed - set(found):
        code = refused.get(name, refused.get(""))
        if not code and always and always(name):
            code = errno.ENOENT
        if code:
            found[name] = File(source, name, "-", code, "")
    return [found[name] for name in sorted(found)]


def directories(root: str, kind: str) -> Iterator[tuple[str, Sequence[str], int | None]]:
    """(directory from the root, names in it, errno or 0) of each place to look at."""
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


def of_file_systems(names: Sequence[str], kind: str, only: Sequence[str]) -> Sequence[str]:
    """Those of `names` whose file system is one of `only`; all where that is empty."""
    if not only:
        return names
    from fnmatch import fnmatchcase  # costs a third of a start; only with a choice
    split = stats.split_llite_name if kind == "llite" else stats.split_target_name
    return [name for name, place in zip(names, map(split, names))
            if place and any(fnmatchcase(place[0], pattern) for pattern in only)]


def has_lustre(root: str) -> bool:
    """True where a Lustre client is, or could be hidden from us by permissions."""
    for place in PLACES:
        try:
            if os.listdir(os.path.join(root, place, "llite")):
                return True
        except OSError:
            continue
    return False


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
        # 10.99.0.2@tcp:10.99.0.3@tcp:/scratch/home /home lustre rw,... (NIDs, fs, subdirectory)
        device, point, kind = (line.split(" ") + ["", "", ""])[:3]
        if kind == "lustre" and ":/" in device:
            name = device.rpartition(":/")[2].partition("/")[0]
            point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            points.setdefault(name, []).append(point)
    return points
