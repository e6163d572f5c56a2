"""
Check the disks of the directories that this host writes to, for the doctor.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from iostats.base.free_space import explain_full, find_existing_part, find_mount_point
from iostats.doctor.check import PROBLEM, Check, quote_path
from iostats.node import start_files
from iostats.storage.targets import find_local_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

OWN_STATE_DIR = "export IOSTATS_NODE_STATE_DIR=~/.iostats/state"


class _Directory(NamedTuple):
    """A directory that this host writes to."""

    path: str
    name: str       # in site.cfg
    loss: str       # what it means that the disk has no room


def examine(config: Config, root: str) -> list[Check]:
    """Return [Check] of the full disks, one for each; [] where all have room."""
    by_mount: dict[str, list[_Directory]] = {}
    why: dict[str, str] = {}
    for directory in _list_directories(config, root):
        there = find_existing_part(directory.path)
        lacking = explain_full(there)
        if lacking:
            mount_point = find_mount_point(there)
            why[mount_point] = lacking
            by_mount.setdefault(mount_point, []).append(directory)
    return [Check(PROBLEM, "disk", (
        f"{mount_point}: {why[mount_point]}; without room " + ", ".join(
            f"{directory.loss} ({directory.name} {directory.path})" for directory in directories)),
        OWN_STATE_DIR if os.geteuid() else f"du -xd1 {quote_path(mount_point)}")
        for mount_point, directories in by_mount.items()]


def _list_directories(config: Config, root: str) -> list[_Directory]:
    """Return [_Directory] of this host, as far as this user can see them."""
    directories = [_Directory(config.node.state_dir or start_files.TMP, "[node] state_dir",
                              "`start` stores nothing")]
    if not os.geteuid() and (config.site.host or os.path.lexists(config.node.hook_dir)):
        directories.append(_Directory(config.node.hook_dir, "[node] hook_dir",
                                      "no job is measured"))
    if find_local_targets(root):
        directories.append(_Directory(
            config.harvest.spool_dir, "[harvest] spool_dir",
            "sweeps are left out while the site's server is not there"))
    if os.path.lexists(config.site.store):
        directories.append(_Directory(
            config.site.store, "[site] store",
            "the site's server stores nothing"))
    return directories
