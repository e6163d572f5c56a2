"""
/proc/diskstats of the device below $TMPDIR, for all processes together.

     253       2 dm-2 1021 37 81234 410 2300 41 614791 9123 0 5120 9533 0 0 0 0 23 7

The numbers are those of `diskstats`, of the device that the file system is on: a disk, a partition,
a logical volume, RAID or LUKS on disks.  It is an upper bound of what the job did in $TMPDIR, as
others may use the same file system.

/proc/self/mountinfo names the device, so that no mount is asked, which may hang; links in the path
are followed on file systems of block devices alone.  Of tmpfs, network file systems, Btrfs (of many
devices it names none), XFS with a log elsewhere, and devices on no disk there is no number.  Every
user may read it.

Source: show_mountinfo(), fs/proc_namespace.c; diskstats_show(), block/genhd.c.
"""

from __future__ import annotations

import os

from iostats.base.errors import StatsSyntaxError
from iostats.base.private_files import read_if_readable
from iostats.lustre.paths import File, unescape
from iostats.lustre.stats import Counter, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "tmpdir"
LAYER, TITLE, LETTER = "", "disk of $TMPDIR", "t"
READ_AT = ("start", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = UPPER_BOUND = True
PATH = "proc/diskstats"
_MOUNT_TABLE = "proc/self/mountinfo"
_MOST_LINKS = 8
_ELSEWHERE = ("logdev=", "rtdev=")      # mount options of XFS: devices of which there is no line


def read(root: str, config: Config) -> list[File]:
    """Return [File] of the device below $TMPDIR, named after it; [] where there is none."""
    path = os.environ.get("TMPDIR", "")
    if not path.startswith("/"):
        return []
    from iostats.node import block_devices  # a start without $TMPDIR needs none of it
    mounts = _parse_mounts(read_if_readable(os.path.join(root, _MOUNT_TABLE)))
    real = _follow_links(root, path, mounts)
    number = "" if real is None else _find_mount(mounts, real)
    if not _is_block_device(number):
        return []
    directory = os.path.realpath(os.path.join(root, "sys/dev/block", number))
    if not block_devices.is_on_disk(directory):
        return []
    name = os.path.basename(directory)
    return [File(NAME, name, PATH, 0, f"{line}\n")
            for line in read_if_readable(os.path.join(root, PATH)).split("\n")
            if line.split()[2:3] == [name]]


def _parse_mounts(text: str) -> dict[str, str]:
    """Return {mount point: device number}; "" where there may be other devices."""
    mounts = {}
    for line in text.split("\n"):
        mount, _, about = line.partition(" - ")
        fields, options = mount.split(" "), about.rpartition(" ")[2].split(",")
        if len(fields) > 4:
            is_elsewhere = any(option.startswith(_ELSEWHERE) for option in options)
            mounts[unescape(fields[4])] = "" if is_elsewhere else fields[2]
    return mounts


def _find_mount(mounts: dict[str, str], path: str) -> str:
    """The device number of the file system that has this path; "" if unknown."""
    while path and path not in mounts:
        path = path.rpartition("/")[0]
    return mounts.get(path or "/", "")


def _is_block_device(number: str) -> bool:
    return bool(number) and not number.startswith("0:")


def _follow_links(root: str, path: str, mounts: dict[str, str]) -> str | None:
    """
    The path without links, as far as they are on file systems of block devices; None with too many.
    """
    names, done = path.split("/"), ""
    for _ in range(_MOST_LINKS):
        while names:
            name = names.pop(0)
            if name == "..":
                done = done.rpartition("/")[0]
            elif name not in ("", "."):
                here = f"{done}/{name}"
                link = "" if here in mounts or not _is_block_device(
                    _find_mount(mounts, done)) else _read_link(root + here)
                if link:
                    names, done = link.split("/") + names, "" if link.startswith("/") else done
                    break
                done = here
        else:
            return done
    return None


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def parse(text: str, origin: str = PATH) -> Reading:
    """The Reading of one device: {read_bytes, write_bytes, reads, writes, requests_us}."""
    from iostats.node import block_devices
    numbers = block_devices.parse_numbers(text.split())
    if numbers is None:
        raise StatsSyntaxError(origin, 1, text.strip(), block_devices.EXPECTED)
    numbers["requests_us"] = numbers.pop("us")
    return Reading({metric: Counter(number, "reqs") for metric, number in numbers.items()}, 0,
                   block_devices.IN_BOOT_NS)


def split(name: str) -> tuple[str, str, str] | None:
    """Return (LOCAL_DISKS, "", device) of a device's name."""
    from iostats.totals.disk_values import LOCAL_DISKS  # a start needs none of it
    return LOCAL_DISKS, "", name
