"""
A node with block devices and cgroups, as the kernel counts their I/O, and the Snapshot of these.

What the kernel does, by block/blk-cgroup.c, block/genhd.c, drivers/md and drivers/block/loop.c:

* A request counts at each device on its way, for the cgroup that it carries.  LVM and mirrors pass
  it on; LUKS writes blocks of its own, as the kernel; a loop device reads a file, on any file
  system, as the cgroup.
* io.stat has no line of a device whose disk is no longer there, and begins with 0 when there is a
  new one of that number.  A cgroup that is removed takes its counters along.
* A disk of several paths (NVMe) has a path below it, which io.stat shows as `(unknown)`.
* diskstats counts requests of all processes; a partition's as the disk's, too.

It knows nothing of iostats but how to read the files that it writes.
"""
from __future__ import annotations

import os
import shutil

from iostats.base.config import Config
from iostats.node.sources import cgroup_io, diskstats
from iostats.totals.snapshot import Snapshot

JOB = "system.slice/slurmstepd.scope/job_4711"
OTHER, KERNEL = "system.slice/slurmstepd.scope/job_4713", ""
DIRECTIONS = ("read", "write")


class Device:
    """A block device; `through`: how it gives requests to those below; "" and "paths": a disk."""

    def __init__(self, name, number, directory, through="", below=()):
        self.name, self.number, self.directory = name, number, directory
        self.through, self.below = through, list(below)
        self.of_cgroup = {}             # cgroup's number -> [bytes, requests] by direction
        self.of_all = {direction: [0, 0] for direction in DIRECTIONS}


class Node:
    """A node; a job's I/O since `begin_job` is in `caused` and `charged`, by disk."""

    def __init__(self, root):
        self.root, self.boot, self.now, self.numbers = root, 0, 1000, 0
        self.devices, self.cgroups, self.removed = {}, {}, []
        self.begin_job()
        for name in (JOB, OTHER):
            self.add_cgroup(name)
        shutil.rmtree(root, ignore_errors=True)

    def begin_job(self):
        """Forget what was done before."""
        self.removed.clear()
        self.caused = {direction: 0 for direction in DIRECTIONS}    # at disks, by the job
        self.charged = {}               # (device name, direction) -> bytes that carry the job

    def add_device(self, name, through="", below=()):
        """Add a device below /sys/devices; its counters begin at 0."""
        top = {"": "pci0000:00/0000:00:1f.2", "paths": "virtual/nvme-subsystem"}.get(
            through, "virtual")
        self.numbers += 1
        kind = "block" if through else "ata1/block"
        device = Device(name, f"253:{self.numbers}", f"{top}/{kind}/{name}", through, [
            self.devices[disk] for disk in below])
        self.devices[name] = device
        return device

    def remove_device(self, name):
        """Remove a device, with its counters; nothing that is built of it may be there."""
        self.removed.append(self.devices.pop(name))

    def add_cgroup(self, name):
        """Add a cgroup, or one with the name of one before, which then is gone."""
        self.numbers += 1
        self.cgroups[name] = self.numbers

    def restart(self):
        """Boot the node: all counters are 0, cgroups and devices are there again."""
        self.boot += 1
        for device in self.devices.values():
            device.of_cgroup, device.of_all = {}, {direction: [0, 0] for direction in DIRECTIONS}
        for name in list(self.cgroups):
            self.add_cgroup(name)

    def move(self, name, direction, size, by=JOB):
        """Read or write: the job's, or another one's."""
        self._count(self.devices[name], direction, size, by, by == JOB)

    def _count(self, device, direction, size, carried, is_jobs):
        number = self.cgroups.get(carried, 0)
        for counts in (device.of_all, device.of_cgroup.setdefault(
                number, {direction: [0, 0] for direction in DIRECTIONS})):
            counts[direction][0] += size
            counts[direction][1] += 1
        if carried == JOB:
            key = device.name, direction
            self.charged[key] = self.charged.get(key, 0) + size
        if device.through in ("", "paths") and is_jobs:
            self.caused[direction] += size
        if device.through == "mirror" and direction == "write":
            below = device.below
        else:
            below = device.below[:1]
        for disk in below:
            if disk.name != device.name:
                self._count(disk, direction, size, KERNEL if (
                    device.through == "luks" and direction == "write") else carried, is_jobs)

    # -- the files ---------------------------------------------------------------------------

    def snapshot(self):
        """Write the files, and read them as the product does."""
        shutil.rmtree(self.root / "sys", ignore_errors=True)
        for path in ("proc/self", "sys/dev/block"):
            (self.root / path).mkdir(parents=True, exist_ok=True)
        (self.root / "proc/self/cgroup").write_text(f"0::/{JOB}/step_0/user/task_0\n")
        (self.root / "proc/diskstats").write_text("".join(map(self._diskstats_line,
                                                              self.devices.values())))
        for device in self.devices.values():
            directory = self.root / "sys/devices" / device.directory
            (directory / "slaves").mkdir(parents=True, exist_ok=True)
            (self.root / "sys/dev/block" / device.number).symlink_to(directory)
        for device in self.devices.values():
            for disk in device.below if device.through != "loop" else ():
                (self.root / "sys/devices" / device.directory / "slaves" / disk.name).symlink_to(
                    self.root / "sys/devices" / disk.directory)
            if device.through == "lvm":
                uuid = self.root / "sys/devices" / device.directory / "dm/uuid"
                uuid.parent.mkdir()
                uuid.write_text(f"LVM-{device.name}\n")
        # Another directory for each cgroup, so that the inode number is another one.
        real = self.root / "cgroups" / str(self.cgroups[JOB])
        real.mkdir(parents=True, exist_ok=True)
        (real / "io.stat").write_text("".join(map(self._io_stat_line, self.devices.values())))
        link = self.root / "sys/fs/cgroup" / JOB
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(real, link)
        ns = self.now * 10**9
        files = [file for source in (cgroup_io, diskstats)
                 for file in source.read(str(self.root), Config())]
        return Snapshot("4711", "node001", "seq", f"boot {self.boot}", 10**18 + ns, ns,
                        tuple(files))

    def _io_stat_line(self, device):
        counts = device.of_cgroup.get(self.cgroups[JOB])
        if counts is None:
            return f"{device.number} "
        (read, reads), (written, writes) = (counts[direction] for direction in DIRECTIONS)
        line = f"rbytes={read} wbytes={written} rios={reads} wios={writes} dbytes=0 dios=0\n"
        return f"{device.number} {line}" + (
            f"(unknown) {line}" if device.through == "paths" else "")

    def _diskstats_line(self, device):
        (read, reads), (written, writes) = (device.of_all[direction] for direction in DIRECTIONS)
        return (f" 253 {device.number.partition(':')[2]} {device.name} {reads} 0 {read // 512} 0 "
                f"{writes} 0 {written // 512} 0 0 0 0\n")
