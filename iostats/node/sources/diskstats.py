"""
/proc/diskstats: what the node's local disks did, for all processes together.

     259       0 nvme0n1 1021 37 81234 410 2300 41 614791 9123 0 5120 9533 0 0 0 0 23 7

Behind the name: reads, those merged, sectors of 512 bytes read, milliseconds of these reads; the
same four of writes; requests in flight, milliseconds with any in flight, and more with newer
kernels.  A request's milliseconds go from its begin to its end, queues included; the kernel prints
32 bits of their sum, so that it restarts at 0 after 49.7 days of them.

It is an upper bound of what a job did.  Whole disks alone are taken: not their partitions, and not
what is built of them (md, dm) or has no medium of its own (loop, ram, zram).  Every user may read
it.  Source: diskstats_show(), block/genhd.c.
"""

from __future__ import annotations

import os

from iostats.base.private_files import read_text
from iostats.lustre.paths import File
from iostats.lustre.stats import Counter, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "diskstats"
LAYER, TITLE, LETTER = "", "node's disks", "k"
READ_AT = ("start", "mark", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = UPPER_BOUND = True
PATH = "proc/diskstats"


def read(root: str, config: Config) -> list[File]:
    """Return [File], or [] where it is not there."""
    try:
        return [File(NAME, "disks", PATH, 0, read_text(os.path.join(root, PATH)))]
    except OSError:
        return []


def parse(text: str, origin: str = PATH) -> Reading:
    """The Reading: {DISK_read_bytes, DISK_write_bytes, DISK_reads, DISK_writes, DISK_us}."""
    from iostats.node import block_devices  # a start needs none of these
    from iostats.totals.disk_values import is_whole_disk
    counters, bad = {}, {}
    for lineno, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if len(words) < 3 or not is_whole_disk(words[2]):
            continue
        disk, numbers = words[2], block_devices.parse_numbers(words)
        if numbers is None:
            bad[disk] = (f"{origin}:{lineno}: expected {block_devices.EXPECTED}, got "
                         f"{line.strip()!r}")
            continue
        for metric, number in numbers.items():
            counters[f"{disk}_{metric}"] = Counter(number, "reqs")
    return Reading(counters, 0, block_devices.IN_BOOT_NS, {}, bad)


def split(name: str) -> tuple[str, str, str] | None:
    """Return (LOCAL_DISKS, "", "") of the only file."""
    from iostats.totals.disk_values import LOCAL_DISKS  # a start needs none of it
    return LOCAL_DISKS, "", name
