"""
Which counter files a node has, where its release keeps them, and what they hold now.

Paths are relative to `MNT/root`, so that a reader's `--root MNT/root` finds them where a real
node has them.  llite moved to debugfs with LU-8066 (2.12), osc and mdc rpc_stats with 2.17;
md_stats stayed in /proc; version, health_check and jobid_var are in /sys since 2.10.
"""
from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

from . import text
from .client import Client, Mdc, Osc
from .counters import Release
from .imports import import_text
from .jobid import JobIds

# The root of debugfs is closed to all but root (DEBUGFS_DEFAULT_MODE in fs/debugfs/inode.c).
DEBUGFS = "sys/kernel/debug"
DEBUGFS_MODE = 0o700


@dataclass(frozen=True)
class File:
    """
    `render` gives the text (or bytes) of this moment; `clear` is what a write does, None:
    read-only; `closed` is called when a reader closes it; `read_at(size, offset)` is there for a
    file that grows while it is open, in place of `render`, with `size()`.
    """

    render: Callable[[], str]
    clear: Optional[Callable[[bytes], None]] = None
    closed: Optional[Callable[[], None]] = None
    read_at: Optional[Callable[[int, int], bytes]] = None
    size: Callable[[], int] = int

    @property
    def mode(self) -> int:
        return 0o644 if self.clear else 0o444


def files_of(mount_point: str, release: Release, clients: list, job_ids: JobIds) -> dict:
    """path -> File, for all files of a node."""
    in_sys = "sys/fs/lustre/"
    files = {
        "proc/mounts": fixed(text.mounts(mount_point, [client.fs for client in clients])),
        in_sys + "version": fixed(release.version + "\n"),
        in_sys + "health_check": fixed("healthy\n"),
        in_sys + "jobid_var": _setting(job_ids, "var"),
        in_sys + "jobid_name": _setting(job_ids, "name"),
    }
    for client in clients:
        files.update(_files_of_client(release, client))
    lnet = "proc/sys/lnet" if release.version.startswith("2.10") else f"{DEBUGFS}/lnet"
    files[f"{lnet}/stats"] = File(lambda: _lnet_text(clients))
    return files


def _lnet_text(clients: list) -> str:
    """LNet's messages: a request of 4 KiB each, and its answer."""
    count = sum(of_target.messages for client in clients
                for of_target in (*client.osc, *client.mdc))
    return f"0 1 0 {count} {count} 0 0 {count << 12} {count << 12} 0 0\n"


def _files_of_client(release: Release, client: Client) -> dict:
    llite = f"{release.info_in}/llite/{client.name}"
    files = {f"{llite}/uuid": fixed(client.uuid + "\n"),
             f"{release.llite_in}/llite/{client.name}/stats":
                 _counters(text.stats, client.llite, release)}
    for what in ("pid", "ppid", "gid"):
        files[f"{llite}/stats_track_{what}"] = fixed("0 (all)\n")
    if release.tiny_write:
        files[f"{llite}/tiny_write"] = File(lambda: f"{client.tiny_write:d}\n",
                                            lambda data: _set_tiny_write(client, data))
    for index, osc in enumerate(client.osc):
        name = f"osc/{client.fs}-OST{index:04x}-osc-{client.instance}"
        files[f"{release.stats_in}/{name}/stats"] = _counters(text.stats, osc.stats, release)
        files[f"{release.rpc_in}/{name}/rpc_stats"] = _counters(
            text.osc_rpc_stats, osc.rpc_stats, release)
        files[f"{release.rpc_in}/{name}/state"] = _state(osc)
        files[f"{release.rpc_in}/{name}/import"] = _import(release, osc, name, index, "OST", client)
        files[f"{release.info_in}/{name}/cur_dirty_bytes"] = _dirty(osc)
    for index, mdc in enumerate(client.mdc):
        name = f"mdc/{client.fs}-MDT{index:04x}-mdc-{client.instance}"
        files[f"{release.stats_in}/{name}/stats"] = _counters(text.stats, mdc.stats, release)
        files[f"proc/fs/lustre/{name}/md_stats"] = _counters(text.stats, mdc.md_stats, release)
        files[f"{release.rpc_in}/{name}/rpc_stats"] = _counters(
            text.mdc_rpc_stats, mdc.rpc_stats, release)
        files[f"{release.rpc_in}/{name}/state"] = _state(mdc)
        files[f"{release.rpc_in}/{name}/import"] = _import(release, mdc, name, index, "MDT", client)
    return files


def fixed(content: str) -> File:
    return File(lambda: content)


def _counters(form, file, release: Release) -> File:
    return File(lambda: form(file, release, time.time_ns()), lambda data: file.clear())


def _setting(job_ids: JobIds, name: str) -> File:
    """jobid_var or jobid_name; writing sets it."""
    return File(lambda: getattr(job_ids, name) + "\n",
                lambda data: setattr(job_ids, name, data.decode("latin-1").strip("\n")))


def _set_tiny_write(client: Client, data: bytes) -> None:
    client.tiny_write = data.strip() != b"0"


def _dirty(osc: Osc) -> File:
    return File(lambda: f"{osc.dirty_bytes()}\n")


def _state(of_target: Osc | Mdc) -> File:
    """Whatever is written to it, which Lustre does not know, the target evicts this client."""
    return File(lambda: text.state(of_target.connection.history), lambda data: of_target.evict())


def _import(release: Release, of_target: Osc | Mdc, name: str, index: int, kind: str,
            client: Client) -> File:
    target = f"{client.fs}-{kind}{index:04x}"
    return File(lambda: import_text(of_target.connection, name.partition("/")[2], target,
                                    ".".join(release.version.split(".")[:2]), time.time()))
