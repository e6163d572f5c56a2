"""
Block devices of a node: whether they are on a disk, and their numbers in /proc/diskstats.

Source: diskstats_show(), block/genhd.c.
"""

from __future__ import annotations

import os

from iostats.lustre.stats import are_digits

BUILT = "/virtual/block/"               # what is no disk is there, below /sys/devices
_SECTOR_BYTES = 512                     # of /proc/diskstats, whatever the disk's own are
_FIELDS = 8
IN_BOOT_NS = 1                          # of all readings: the counters begin with the boot
EXPECTED = f"{_FIELDS} numbers below 2**54"


def is_on_disk(directory: str) -> bool:
    """
    Whether a device, by its directory in /sys, is a disk or built of some (LVM, LUKS, RAID).  Not a
    loop, which reads a file on any file system, nor memory (zram), nor a device of Ceph.
    """
    if BUILT not in directory:
        return "/devices/rbd/" not in directory
    return any(is_on_disk(path) for path in _list_paths_below(directory) or _list_paths_below(
        os.path.dirname(directory)))                                # of a partition: its device


def list_below(directory: str) -> list[str]:
    """The devices that a device is built of; of a partition its disk."""
    return [os.path.basename(os.path.dirname(path) if os.path.exists(f"{path}/partition") else path)
            for path in _list_paths_below(directory)]


def _list_paths_below(directory: str) -> list[str]:
    try:
        names = sorted(os.listdir(f"{directory}/slaves"))
    except OSError:
        return []
    return [os.path.realpath(f"{directory}/slaves/{name}") for name in names]


def parse_numbers(words: list[str]) -> dict[str, int] | None:
    """
    Return {read_bytes, write_bytes, reads, writes, us} of the words of a line of /proc/diskstats;
    None for any other line.
    """
    words = words[3:3 + _FIELDS]
    if len(words) < _FIELDS or not are_digits(words) or max(map(int, words)) >= 2**54:
        return None
    reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms = map(int, words)
    return {"reads": reads, "read_bytes": read_sectors * _SECTOR_BYTES, "writes": writes,
            "write_bytes": write_sectors * _SECTOR_BYTES, "us": (read_ms + write_ms) * 1000}
