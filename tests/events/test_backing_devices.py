"""Which target is kept on a device."""
from __future__ import annotations

import os

import pytest

from iostats.events.backing_devices import BackingDevices


def put(root, path, text="", link=""):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if link:
        place.symlink_to(os.path.relpath(root / link, place.parent))
    else:
        place.write_text(text)


@pytest.fixture
def server(tmp_path):
    """OST0003: multipath on sdb and sdc; OST0004: a pool; OST0005 and OST0006: parts of nvme0n1."""
    for target, device, kind in (
            ("OST0003", "/dev/mapper/ost3", "ldiskfs"), ("OST0004", "ost4pool/ost4", "zfs"),
            ("OST0005", "/dev/nvme0n1p1", "ldiskfs"), ("OST0006", "/dev/nvme0n1p2", "ldiskfs"),
            ("OST0007", "/dev/md7", "ldiskfs")):
        put(tmp_path, f"sys/fs/lustre/osd-{kind}/scratch-{target}/mntdev", f"{device}\n")
    put(tmp_path, "dev/dm-3")
    put(tmp_path, "dev/mapper/ost3", link="dev/dm-3")
    for device, slaves in (("dm-3", ("sdb", "sdc")), ("md7", ("sdd1", "sde1")), ("sdd1", ())):
        (tmp_path / f"sys/class/block/{device}/slaves").mkdir(parents=True)
        for slave in slaves:
            put(tmp_path, f"sys/class/block/{device}/slaves/{slave}")
    for device in ("sdd1", "nvme0n1p1", "nvme0n1p2"):
        put(tmp_path, f"sys/class/block/{device}/partition", "1\n")
    (tmp_path / "sys/class/block/sdb").mkdir()
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/8:16").symlink_to("../../class/block/sdb")
    return tmp_path


@pytest.mark.parametrize("device, target", [
    ("dm-3", "OST0003"), ("dm-3-8", "OST0003"), ("sdc", "OST0003"), ("8:16", "OST0003"),
    ("ost4pool", "OST0004"), ("nvme0n1p2", "OST0006"), ("nvme0n1", None), ("nvme0", None),
    ("md7", "OST0007"), ("sdd1", "OST0007"), ("sdd", "OST0007"), ("sda", None), ("8:0", None),
    ("", None), ("../../x", None)])
def test_the_target_on_a_device(server, device, target):
    """What two targets have in common is of neither."""
    assert (f"scratch-{target}" if target else "") == BackingDevices(str(server)).find_target(
        device)


def test_a_machine_without_targets_has_none(tmp_path):
    assert "" == BackingDevices(str(tmp_path)).find_target("sda")


def test_devices_are_read_again_after_a_minute(server):
    now = [23.0]
    devices = BackingDevices(str(server), lambda: now[0])
    assert "" == devices.find_target("sdz")
    put(server, "sys/fs/lustre/osd-ldiskfs/scratch-OST0041/mntdev", "/dev/sdz\n")
    now[0] += 59
    assert "" == devices.find_target("sdz")
    now[0] += 1
    assert "scratch-OST0041" == devices.find_target("sdz")
