"""
io.stat of the job's own cgroup (v2): what its processes read from and wrote to local disks.

    259:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0

It is of the job alone, also where jobs share a node, and of disks alone, without what the page
cache served and what is still to be written.  The kernel has it where the io controller is on for
the job: with Slurm by EnableExtraControllers=io in cgroup.conf.  A prolog is in no job's cgroup, so
only `start` and `stop` in a job, and `iostats run`, have it.

A logical volume (LVM) on disks passes each request on, in the job's name, so its disks have all of
it, and it is not counted.  Neither is a volume on volumes, nor what RAID and LUKS read, where those
below have the same number: LUKS and RAID write as the kernel, and other bytes than the job.

A disk without I/O has no line, or only its number, with or without an end of line; an I/O policy
adds words of its own.  `(unknown)` is a path of an NVMe disk with several, whose I/O the disk has
as well.  Every user may read it.

The file is never cleared: a cgroup of this name with another inode number is a new one, and of a
disk that counts from 0 again nothing else restarts.

Source: blkcg_print_one_stat(), before that blkcg_print_stat(), block/blk-cgroup.c.
"""

from __future__ import annotations

import os

from iostats.base.errors import StatsSyntaxError
from iostats.base.private_files import read_if_readable, read_text
from iostats.lustre.paths import File
from iostats.lustre.stats import Counter, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "cgroup_io"
LAYER, TITLE, LETTER = "", "job's cgroup", "g"
READ_AT = ("start", "mark", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = True
_TOPS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")      # the second beside v1
_LVM, _OF_LVM, _ON = "LVM-", "lvm", "on"    # of dm/uuid; in a line of what a device is built of
_METRICS = {"rbytes": "read_bytes", "wbytes": "write_bytes", "rios": "reads", "wios": "writes"}


def read(root: str, config: Config) -> list[File]:
    """[File] of each cgroup of this process that may be a job's, with names for device numbers."""
    files: list[File] = []
    for line in read_if_readable(os.path.join(root, "proc/self/cgroup")).split("\n"):
        if not line.startswith("0::/"):
            continue
        parts = line[len("0::/"):].split("/")
        for depth in range(1, len(parts) + 1):
            cgroup = "/".join(parts[:depth])
            # Names of jobs have numbers, and those of services do not matter.
            if any(c.isdigit() for c in parts[depth - 1]) and " " not in cgroup:
                for top in _TOPS:
                    path = f"{top}/{cgroup}/io.stat"
                    try:
                        text = read_text(os.path.join(root, path))
                        inode = os.stat(os.path.join(root, top, cgroup)).st_ino
                    except OSError:
                        continue
                    files.append(File(NAME, cgroup, path, 0,
                                      f"io.stat {inode}\n{_name_disks(root, text)}"))
                    break
    return files


def _name_disks(root: str, text: str) -> str:
    """
    The words of io.stat, one device in a line, named nvme0n1 instead of 259:0; without devices that
    are on no disk.  What is built of others has a line more: `dm-0 lvm sda`, `md0 on sda sdb`.
    """
    from iostats.node.block_devices import BUILT, is_on_disk, list_below
    lines, device, built = [""], "", []
    for word in text.split():
        if "=" in word:
            lines[-1] += f" {word}" if device else ""
            continue
        directory = os.path.realpath(os.path.join(root, "sys/dev/block", word))
        device = os.path.basename(directory) if ":" in word and is_on_disk(directory) else ""
        lines.append(device)
        below = list_below(directory) if device and BUILT in directory else []
        if below:
            is_volume = read_if_readable(f"{directory}/dm/uuid").startswith(_LVM)
            built.append(" ".join((device, _OF_LVM if is_volume else _ON, *below)))
    return "\n".join(filter(None, [*lines, *built])) + "\n"


def parse(text: str, origin: str = NAME) -> Reading:
    """The Reading of one cgroup: {DISK_read_bytes, ..., DISK_writes}."""
    counters, inode = {}, text.partition("\n")[0].partition(" ")[2]
    below = {}
    for lineno, line in enumerate(text.split("\n"), 1):
        disk, *words = line.split() or [""]
        if words[:1] in ([_ON], [_OF_LVM]):
            below[disk] = tuple(words)
        for name, _, number in (word.partition("=") for word in words):
            if name not in _METRICS:
                continue
            if not (number.isdigit() and number.isascii() and len(number) < 20
                    and int(number) < 2**63):
                raise StatsSyntaxError(origin, lineno, line, f"{name}= and a number below 2**63")
            counters[f"{disk}_{_METRICS[name]}"] = Counter(int(number), "reqs")
    return Reading(counters, 0, int(inode) if inode.isdigit() else None, below=below)


def corrected(values: dict[str, int], reading: Reading) -> dict[str, int]:
    """The gains without those of devices of which the disks have all."""
    from iostats.totals.disk_values import is_whole_disk  # a start needs none of it
    passed: set[str] = set()
    for what, *below in set(reading.below.values()):
        same = [name for name, (_, *parts) in reading.below.items() if parts == below]
        for direction in ("read", "write"):
            of_built, of_parts = (sum(values.get(f"{name}_{direction}_bytes", 0)
                                      for name in names) for names in (same, below))
            if (what == _OF_LVM and all(map(is_whole_disk, below))) or (of_built == of_parts and (
                    what == _OF_LVM or direction == "read")):
                passed.update(f"{name}_{direction}{unit}" for name in same
                              if reading.below[name][0] == what for unit in ("_bytes", "s"))
    return {metric: gain for metric, gain in values.items() if metric not in passed}


def split(name: str) -> tuple[str, str, str] | None:
    """Return (LOCAL_DISKS, "", the cgroup); None for a cgroup outside of jobs, or of a step."""
    from iostats.node import identity  # a start needs no scheduler
    from iostats.totals.disk_values import LOCAL_DISKS
    return (LOCAL_DISKS, "", name) if identity.parse_job_list(name) else None
