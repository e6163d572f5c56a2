"""
The target on a block device or ZFS pool that the kernel log names.

    /proc/fs/lustre/osd-ldiskfs/scratch-OST0003/mntdev     /dev/mapper/ost3   (later in /sys)
    /proc/fs/lustre/osd-zfs/scratch-OST0004/mntdev         ost4pool/ost4
    /sys/block/dm-3/slaves/sdb, /sys/dev/block/8:16        what a device is built on

A device belongs to a target if the target is mounted from it, or from a device built on it: a path
of a multipath device, a disk of an array.  A device that several targets share belongs to none.

Source: mntdev_show(), lustre/osd-ldiskfs/osd_lproc.c, lustre/osd-zfs/osd_lproc.c.
"""

from __future__ import annotations

import os
import re
import time

from iostats.base.private_files import read_text
from iostats.lustre.capacity import OSD_KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PLACES = ("sys/fs/lustre", "proc/fs/lustre")
_REREAD_S = 60.0
_DEEPEST = 4                        # dm on md on multipath on disks
_JOURNAL = re.compile(r"(.+)-\d+")          # the thread jbd2/dm-3-8 of a device's journal
_CONTROLLER = re.compile(r"(nvme\d+)n\d")
_PARTITION = re.compile(r"(nvme\d+n\d+|.*\D)p?\d+")


class BackingDevices:
    """The devices of this machine's targets, read again if the last reading is a minute old."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._targets: dict[str, str] = {}          # device or pool -> target, "" for several
        self._read_at: float | None = None

    def find_target(self, device: str) -> str:
        """
        The target on a device ("dm-3", "sdb1", the journal "dm-3-8", the path "8:16") or in a ZFS
        pool; "" if that is unknown.
        """
        now = self._clock()
        if self._read_at is None or now - self._read_at >= _REREAD_S:
            self._read_at, self._targets = now, self._read()
        return next((self._targets[name] for name in self._list_names(device)
                     if name in self._targets), "")

    def _list_names(self, device: str) -> Iterator[str]:
        """The names that a device may have in self._targets, the most exact first."""
        yield device
        if ":" in device:
            yield os.path.basename(self._resolve_path(f"sys/dev/block/{device}"))
        for pattern in (_JOURNAL, _PARTITION):
            match = pattern.fullmatch(device)
            if match:
                yield match[1]

    def _read(self) -> dict[str, str]:
        targets: dict[str, str] = {}
        for target, mounted in self._iterate_mounted():
            pool, slash, _ = mounted.partition("/")
            names = {pool} if pool and slash else self._list_underlying_devices(
                os.path.basename(self._resolve_path(mounted.lstrip("/"))), _DEEPEST)
            for name in names:
                targets[name] = target if targets.get(name, target) == target else ""
        return targets

    def _iterate_mounted(self) -> Iterator[tuple[str, str]]:
        """Yield (target, its device or ZFS dataset)."""
        for directory in (f"{place}/{kind}" for place in _PLACES for kind in OSD_KINDS):
            try:
                targets = os.listdir(os.path.join(self._root, directory))
            except OSError:
                continue
            for target in targets:
                try:
                    text = read_text(os.path.join(self._root, directory, target, "mntdev")).strip()
                except OSError:
                    continue
                if text:
                    yield target, text

    def _list_underlying_devices(self, device: str, depth: int) -> set[str]:
        """The names of a device and of all devices that it is built on."""
        names = {device}
        try:
            slaves = os.listdir(os.path.join(self._root, "sys/class/block", device, "slaves"))
        except OSError:
            slaves = []
        for slave in slaves if depth else ():
            names |= self._list_underlying_devices(slave, depth - 1)
        partition = _PARTITION.fullmatch(device)
        if partition and os.path.exists(os.path.join(
                self._root, "sys/class/block", device, "partition")):
            names.add(partition[1])
        controller = _CONTROLLER.match(device)
        return names | {controller[1]} if controller else names

    def _resolve_path(self, path: str) -> str:
        return os.path.realpath(os.path.join(self._root, path))
