"""
Which target is kept on a device that the kernel's log names.

    /proc/fs/lustre/osd-ldiskfs/scratch-OST0003/mntdev     /dev/mapper/ost3   (later in /sys)
    /proc/fs/lustre/osd-zfs/scratch-OST0004/mntdev         ost4pool/ost4
    /sys/block/dm-3/slaves/sdb, /sys/dev/block/8:16        what a device is made of

A device is a target's where it is the target's own, or a part of it: a path of a multipath device,
a disk of an array.  One that several targets have in common is of none.

Source: mntdev_show(), lustre/osd-ldiskfs/osd_lproc.c, lustre/osd-zfs/osd_lproc.c.
"""

from __future__ import annotations

import os
import re
import time

from iostats.base.private_files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PLACES = ("sys/fs/lustre", "proc/fs/lustre")
_KINDS = ("osd-ldiskfs", "osd-zfs", "osd-wbcfs")
_FRESH_S = 60.0
_DEEPEST = 4                        # dm on md on multipath on disks
_JOURNAL = re.compile(r"(.+)-\d+")          # of a device: "dm-3-8"
_CONTROLLER = re.compile(r"(nvme\d+)n\d")
_PARTITION = re.compile(r"(nvme\d+n\d+|.*\D)p?\d+")


class BackingDevices:
    """The devices of this machine's targets; read again each minute, when one is asked for."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._targets: dict[str, str] = {}          # device or pool -> target, "" for several
        self._read_at: float | None = None

    def target_of(self, device: str) -> str:
        """
        The target on a device ("dm-3", "sdb1", a journal's "dm-3-8", a path's "8:16"), or in a ZFS
        pool; "" where that is not known.
        """
        now = self._clock()
        if self._read_at is None or now - self._read_at >= _FRESH_S:
            self._read_at, self._targets = now, self._read()
        return next((self._targets[name] for name in self._names_of(device)
                     if name in self._targets), "")

    def _names_of(self, device: str) -> Iterator[str]:
        """The names by which a device may be known, the most exact first."""
        yield device
        if ":" in device:
            yield os.path.basename(self._real(f"sys/dev/block/{device}"))
        for form in (_JOURNAL, _PARTITION):
            found = form.fullmatch(device)
            if found:
                yield found[1]

    def _read(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for target, mounted in self._mounted():
            pool, slash, _ = mounted.partition("/")
            names = {pool} if pool and slash else self._parts(
                os.path.basename(self._real(mounted.lstrip("/"))), _DEEPEST)
            for name in names:
                found[name] = target if found.get(name, target) == target else ""
        return found

    def _mounted(self) -> Iterator[tuple[str, str]]:
        """(target, its device or ZFS dataset)."""
        for place in (f"{place}/{kind}" for place in _PLACES for kind in _KINDS):
            try:
                targets = os.listdir(os.path.join(self._root, place))
            except OSError:
                continue
            for target in targets:
                try:
                    text = read_text(os.path.join(self._root, place, target, "mntdev")).strip()
                except OSError:
                    continue
                if text:
                    yield target, text

    def _parts(self, device: str, depth: int) -> set[str]:
        """A device, and all that it is made of."""
        found = {device}
        try:
            slaves = os.listdir(os.path.join(self._root, "sys/class/block", device, "slaves"))
        except OSError:
            slaves = []
        for slave in slaves if depth else ():
            found |= self._parts(slave, depth - 1)
        partition = _PARTITION.fullmatch(device)
        if partition and os.path.exists(os.path.join(
                self._root, "sys/class/block", device, "partition")):
            found.add(partition[1])
        controller = _CONTROLLER.match(device)
        return found | {controller[1]} if controller else found

    def _real(self, path: str) -> str:
        return os.path.realpath(os.path.join(self._root, path))
