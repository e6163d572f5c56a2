"""
Events of this machine, with no server: as the agent reads them, for an MDS or OSS.
"""

from __future__ import annotations

import os
import select
import time

from iostats.collector.sources import EventSource
from iostats.events.event import made
from iostats.events.kinds import EVENTS_DROPPED
from iostats.lustre.exports import is_server_itself
from iostats.lustre.paths import PLACES
from iostats.storage import targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.collector.sources import Give
    from iostats.events.event import Event
    from iostats.events.gather import Gathering, Look

# Its own directory of a target, where statfs is that of the disk; sends nothing anywhere.
# Source: lprocfs_obd_attrs and dt_def_attrs, obdclass/lprocfs_status.c and dt_object.c, 2.12 on;
# lprocfs_ofd_obd_vars and lprocfs_osd_obd_vars before.
_SPACE_OF = ("obdfilter", "osd-ldiskfs", "osd-zfs", "osd-wbcfs")
_SPACE = (("totalBytes", "kbytestotal"), ("freeBytes", "kbytesfree"),
          ("availableBytes", "kbytesavail"))
_SOONEST_S = 1.0                    # between two looks, while the log goes on
_PAUSE_S = 0.1                      # behind a reading of the log, or a flood is read line by line


class MachineSource(EventSource):
    """Looks each `every_s`, and soon after something was logged."""

    def __init__(self, gathering: Gathering, root: str, node: str, boot_id: str, every_s: float,
                 say: Callable[[str], None]) -> None:
        """`gathering`: opened, if need be with rights that this process has no longer."""
        super().__init__(node)
        self._gathering, self._root, self._every_s = gathering, root, max(0.1, every_s)
        self._boot_id, self._say, self._said = boot_id, say, ""
        self._why = ""                                 # the log is not read
        self._nodes: dict[str, set[str]] = {}          # file system: names
        self._nodes_until = 0.0
        self._status: dict[str, Any] = {}

    def work(self, give: Give) -> None:
        found = self._gathering.look()
        self._status = found.status
        for line in self._gathering.unused:
            self._say(line)
        self._gathering.unused.clear()
        self._say_what_cannot_be_read()
        give([*found.events, *self._dropped(found)], None, "")
        self._told()
        if found.more:
            return
        began = time.monotonic()
        until = began + self._every_s
        while not self.ended.is_set() and time.monotonic() < until:
            if self._log_is_ready(until - time.monotonic()):
                self._gathering.read_log()
                until = min(until, began + _SOONEST_S)
                self.ended.wait(_PAUSE_S)

    def _log_is_ready(self, within_s: float) -> bool:
        """Whether the log can be read, which is waited for."""
        handle = self._gathering.fileno()
        if handle < 0:                                 # a file in its place, or none
            self.ended.wait(max(0.0, within_s if self._why else min(within_s, _SOONEST_S)))
            return not self._why and not self.ended.is_set()
        ready, _, _ = select.select([handle, self.wake], [], [], max(0.0, within_s))
        return handle in ready

    def _say_what_cannot_be_read(self) -> None:
        log = self._status.get("log") or {}
        why = str(log.get("why") or "") if log.get("source") == "none" else ""
        if why != self._why:
            self._why = why
            self._say(f"the kernel's log is not read: {why}; evictions and lost connections are "
                      f"not seen" if why else "the kernel's log is read again")

    def _told(self) -> None:
        try:
            self._gathering.told()
        except OSError as error:
            text = (f"{error.filename or '[collector] state_dir'}: cannot be written: "
                    f"{error.strerror}; after a restart the kernel's log is read from an earlier "
                    f"place")
            if text != self._said:
                self._said = text
                self._say(text)

    def _dropped(self, found: Look) -> list[Event]:
        """That there was no room for some events is one, too."""
        if not found.dropped:
            return []
        now = time.time()
        return [made(self._boot_id, self.node, ("collector", str(now)), EVENTS_DROPPED, now,
                     count=found.dropped, message=(
                         "1 event came faster than it could be kept" if found.dropped == 1 else
                         f"{found.dropped:,} events came faster than they could be kept"))]

    def nodes_of(self, file_system: str) -> Iterable[str]:
        """This machine, and the clients that its targets know."""
        now = time.monotonic()
        if now >= self._nodes_until:                   # 100,000 names take a while
            self._nodes = self._all_nodes()
            self._nodes_until = time.monotonic() + max(self._every_s, 10 * (time.monotonic() - now))
        if not file_system:
            return set().union({self.node}, *self._nodes.values())
        return self._nodes.get(file_system, ())

    def _all_nodes(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for one in targets.local_targets(self._root):
            names = found.setdefault(one.file_system, {self.node})
            for directory in one.directories:
                try:
                    there = os.listdir(os.path.join(directory, "exports"))
                except OSError:
                    continue
                names.update(name for name in there
                             if "@" in name and not is_server_itself(name))
        return found

    def file_systems(self) -> Iterable[str]:
        return {one.file_system for one in targets.local_targets(self._root)}

    def about_node(self, name: str) -> dict[str, Any] | None:
        """
        Of this machine: its targets, and the space on their disks, in bytes, where it can be read.

        freeDiskSpace is what users can still write on all of them, as `df` has it; it is there only
        where each is known.
        """
        if name != self.node:
            return None if name not in self.nodes_of("") else {}
        states, its = self._status.get("targets") or {}, []
        for one in targets.local_targets(self._root):
            full = f"{one.file_system}-{one.name}"
            state = states.get(full) or {}
            its.append({"name": full, "state": state.get("state"), "clients": state.get("clients"),
                        **self._space_of(full)})
        free = [one.get("availableBytes") for one in its]
        return {"fileSystems": sorted(self.file_systems()), "targets": its,
                "health": self._status.get("health") or None,
                "kernelLogNotRead": self._why or None,
                "freeDiskSpace": sum(free) if free and None not in free else None}

    def _space_of(self, target: str) -> dict[str, int]:
        for kind in _SPACE_OF:
            for place in PLACES:
                found = {}
                for key, file in _SPACE:
                    number = _number_in(os.path.join(self._root, place, kind, target, file))
                    if number is not None:
                        found[key] = number * 1024
                if found:
                    return found
        return {}

    def not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        return None

    def close(self) -> None:
        super().close()
        self._gathering.close()


def _number_in(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None
