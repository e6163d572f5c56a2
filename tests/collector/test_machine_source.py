"""What a collector on a storage server knows of its machine: targets, clients, space."""
from __future__ import annotations

import os

import pytest
from collector_desk import asked
from processes import until
from server_files import PLACES, ServerFiles

SPACE = {"kbytestotal": 41_000, "kbytesfree": 37_000, "kbytesavail": 23_000}


def space(machine, place, kind, target, **files):
    directory = machine.root / place / kind / target
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in (files or SPACE).items():
        (directory / name).write_text(f"{value}\n")


def client(machine, target, *nids):
    for nid in nids:
        (machine.root / "proc/fs/lustre/obdfilter" / target / "exports" / nid).mkdir(parents=True)


def files_of(machine, release="2.15"):
    files = ServerFiles(machine.root, release)
    for target in ("scratch-OST0003", "scratch-MDT0000", "home-OST0001"):
        files.start(target, clients=37)
    for directory, below, names in os.walk(machine.root):        # another user reads them
        for name in below + names:
            os.chmod(os.path.join(directory, name), 0o755)
    return files


@pytest.mark.parametrize("release", PLACES)
def test_a_storage_servers_targets_and_their_space_are_known(machine, release):
    files_of(machine, release)
    space(machine, "sys/fs/lustre", "obdfilter", "scratch-OST0003")
    space(machine, "proc/fs/lustre", "osd-zfs", "home-OST0001", kbytesavail=7)
    client(machine, "scratch-OST0003", "10.9.0.11@o2ib2", "10.9.0.37@o2ib2", "0@lo", "clear")
    one = machine.start(config=machine.configured())
    [node] = asked(one.port, "getNodesNames", ["home"])
    assert ["10.9.0.11@o2ib2", "10.9.0.37@o2ib2", node] == asked(
        one.port, "getNodesNames", ["scratch"]) == asked(one.port, "getNodesNames", [""])
    assert ["home", "scratch"] == asked(one.port, "getFileSystems", [])
    info = until(lambda: (lambda found: found["health"] and found)(
        asked(one.port, "getNodeInfo", [node])))
    assert ("healthy", ["home", "scratch"]) == (info["health"], info["fileSystems"])
    targets = {one["name"]: one for one in info["targets"]}
    assert {"totalBytes": 41_984_000, "freeBytes": 37_888_000, "availableBytes": 23_552_000}.items(
        ) <= targets["scratch-OST0003"].items()
    assert 7168 == targets["home-OST0001"]["availableBytes"]
    assert "totalBytes" not in targets["home-OST0001"]
    assert info["freeDiskSpace"] is None               # the MDT's is not known
    space(machine, "sys/fs/lustre", "osd-ldiskfs", "scratch-MDT0000")
    assert 23_552_000 * 2 + 7168 == asked(one.port, "getNodeInfo", [node])["freeDiskSpace"]
    assert 2 == asked(one.port, "getNodeInfo", ["10.9.0.11@o2ib2"])["traps"] + 2
    assert {"traps": 0, "notResponding": []}.items() <= asked(
        one.port, "getFileSystemInfo", ["home"]).items()


def test_a_target_that_is_stopped_is_a_trap(machine):
    files = files_of(machine)
    one = machine.start(config=machine.configured(), env={"IOSTATS_EVENTS_EVERY": "1"})
    [node] = asked(one.port, "getNodesNames", ["home"])
    until(lambda: asked(one.port, "getNodeInfo", [node])["health"])
    files.stop("home-OST0001")
    until(lambda: [message for message, _, _ in one.traps()[0]
                   if "target_down home-OST0001" in message])
