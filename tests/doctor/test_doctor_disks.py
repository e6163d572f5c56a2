"""`iostats doctor` on a host with a full disk: one line for the disk, before all others."""
from __future__ import annotations

import os
import shutil

import pytest
from processes import BEFORE, Desk, TinyDisk
from storage import StorageServer

from iostats.base import free_space

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")]


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as made:
        yield made


@pytest.fixture
def disk(tmp_path):
    disk = TinyDisk(str(tmp_path / "disk"), size="41m")
    yield disk
    disk.close()


def lines(desk, root, **choices):
    """[(state, name, text, fix or check)] of the doctor, in its order."""
    config = desk.directory / "site.cfg"
    config.write_text("".join(f"[{section}]\n{key} = {value}\n" for (section, key), value in (
        (name.split("_", 1), value) for name, value in choices.items())))
    done = desk.client("doctor", "--json", "--config", config, "--root", root, job=False)
    return [(one["state"], one["name"], one["text"], one["fix"] or one["check"])
            for one in done.record["checks"]]


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_a_full_disk_is_the_first_line_with_all_that_is_on_it(desk, disk):
    """Its mount point, what was expected and found, and a command; each directory is named once."""
    server = StorageServer(desk)
    server.show("OST0000", {})
    choices = {"node_state_dir": f"{disk.path}/state", "node_hook_dir": f"{disk.path}/hooks/node",
               "harvest_spool_dir": f"{disk.path}/spool", "site_store": f"{disk.path}/site.sqlite"}
    for name in ("state", "spool"):
        os.mkdir(f"{disk.path}/{name}", 0o700)
    os.makedirs(f"{disk.path}/hooks/node", 0o700)
    open(f"{disk.path}/site.sqlite", "w").close()
    found = lines(desk, server.root, **choices)
    names = [name for _, name, _, _ in found]
    assert "python" == names[0] and {"state directory", "hook_dir", "spool"} <= set(names)
    disk.fill()
    found = lines(desk, server.root, **choices)
    assert ("problem", "disk", (
        f"{disk.path}: expected 16 MiB free, found 0 MiB; without room `start` stores nothing "
        f"([node] state_dir {disk.path}/state), no job is measured ([node] hook_dir "
        f"{disk.path}/hooks/node), sweeps are left out while the site's server is not there "
        f"([harvest] spool_dir {disk.path}/spool), the site's server stores nothing ([site] store "
        f"{disk.path}/site.sqlite)"), f"du -xd1 {disk.path}") == found[0]
    assert not {"state directory", "hook_dir", "spool"} & {name for _, name, _, _ in found}
    assert ["disk", "agent"] == [name for _, name, text, _ in found if disk.path in text]


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_a_disk_without_inodes_is_full(tmp_path):
    disk = TinyDisk(str(tmp_path / "disk"), size="41m,nr_inodes=7")
    try:
        assert "" == free_space.explain_full(disk.path)
        for number in range(6):
            open(f"{disk.path}/{number}", "w").close()
        assert "expected free inodes, found none of 7" == free_space.explain_full(disk.path)
    finally:
        disk.close()


def test_a_host_with_room_has_no_line(desk):
    if free_space.explain_full(str(desk.directory)) or shutil.disk_usage("/tmp").free < 1 << 25:
        pytest.skip("the disk of this machine is full")
    assert "disk" not in [name for _, name, _, _ in lines(desk, desk.tree(**BEFORE),
                                                          node_state_dir=desk.directory)]
