"""
The sources of a collector's events: this machine's kernel log and files, or the site's server.

A source is a thread of its own, which waits, reads events, and passes them to the collector's loop.
It continues after these have been stored.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Optional, TypedDict

from iostats.base.config import Config
from iostats.base.errors import IostatsError, sanitize
from iostats.base.ids import Nid
from iostats.base.logs import log_internal_error
from iostats.events.event import Event, from_json, make_event
from iostats.events.gather import Gathering, ScanResult
from iostats.events.kinds import EVENTS_DROPPED
from iostats.harvest.events.connections import UNCLEAR
from iostats.lustre.exports import is_server_itself
from iostats.lustre.paths import PLACES
from iostats.lustre.stats import parse_file_system
from iostats.report.site_methods import EVENTS_STATUS
from iostats.storage import targets
from iostats.wire import auth, protocol
from iostats.wire.protocol import EVENTS
from iostats.wire.site_servers import make_site_servers

if TYPE_CHECKING:
    from iostats.events.status import ServerStatus, TargetStatus
    from iostats.wire.method_name import MethodName

# (events, where to go on or None, in whose numbers): kept, when it returns.
Give = Callable[[Iterable[Event], Optional[int], str], None]

_AGAIN_S = 5.0


class NodeFacts(TypedDict, total=False):
    """The facts of a node, as getNodeInfo names them."""

    fileSystems: list[str]
    targets: list[dict[str, object]]
    health: Optional[str]
    kernelLogNotRead: Optional[str]
    freeDiskSpace: Optional[int]


class EventSource:
    """
    A source of events; a subclass has `work`, which its thread calls until `ended` is set.

    Attributes:
        node: the name of the machine where the collector runs.
        next, of: where to go on, and in whose numbers, for a source that has places.
        ended: set when the thread is to end; `wake`, a file that can be read then, for select().
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.next, self.of = 0, ""
        self.ended = threading.Event()
        self.wake, self._waker = os.pipe()
        self._thread: threading.Thread | None = None

    def work(self, give: Give) -> None:
        """Read once, wait for the next events, and pass them on."""
        raise NotImplementedError

    def begin(self, loop: asyncio.AbstractEventLoop,
              take: Callable[[Iterable[Event], Optional[int], str], object], next: int,
              origin: str) -> None:
        """Start the thread, which continues at `next`; it calls `take` in the event loop."""
        self.next, self.of = next, origin

        def give(new_events: Iterable[Event], next: int | None = None, origin: str = "") -> None:
            done = threading.Event()

            def take_now() -> None:
                try:
                    take(new_events, next, origin)
                finally:
                    done.set()
            loop.call_soon_threadsafe(take_now)
            while not done.wait(0.5):
                if self.ended.is_set():
                    raise _SourceEnded

        def run() -> None:
            while not self.ended.is_set():
                try:
                    self.work(give)
                except (_SourceEnded, RuntimeError):         # the loop is closed
                    return
                except Exception as error:
                    log_internal_error(error)
                    self.ended.wait(_AGAIN_S)
        self._thread = threading.Thread(target=run, name="events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, unless it waits for a disk or a network that does not answer."""
        self.ended.set()
        os.write(self._waker, b"\0")
        if self._thread is not None:
            self._thread.join(2.0)

    # -- what is known beside events

    def list_nodes(self, file_system: str) -> Iterable[str]:
        """The names of the nodes of a file system; of all for ""."""
        raise NotImplementedError

    def file_systems(self) -> Iterable[str]:
        """List the names of the known file systems."""
        raise NotImplementedError

    def about_node(self, name: str) -> NodeFacts | None:
        """The facts of a node; None for an unknown one."""
        raise NotImplementedError

    def list_not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        """Disconnected nodes, and the number of others; None if only the events have them."""
        raise NotImplementedError


class _SourceEnded(BaseException):
    """The collector ends: passed events are no longer stored."""


# Its own directory of a target, where statfs is that of the disk; sends nothing anywhere.
# Source: lprocfs_obd_attrs and dt_def_attrs, obdclass/lprocfs_status.c and dt_object.c, 2.12 on;
# lprocfs_ofd_obd_vars and lprocfs_osd_obd_vars before.
_SPACE_OF = ("obdfilter", "osd-ldiskfs", "osd-zfs", "osd-wbcfs")
_SPACE = (("totalBytes", "kbytestotal"), ("freeBytes", "kbytesfree"),
          ("availableBytes", "kbytesavail"))
_SOONEST_S = 1.0                # between two looks, while the log goes on
_PAUSE_S = 0.1                  # behind a reading of the log, or a flood is read line by line


class MachineSource(EventSource):
    """Reads this machine every `every_s` seconds, and soon after the log has grown."""

    def __init__(self, gathering: Gathering, root: str, node: str, boot_id: str, every_s: float,
                 emit: Callable[[str], None]) -> None:
        """`gathering`: opened, if need be with rights that this process has no longer."""
        super().__init__(node)
        self._gathering, self._root, self._every_s = gathering, root, max(0.1, every_s)
        self._boot_id, self._emit, self._logged = boot_id, emit, ""
        self._why = ""                                 # the log is not read
        self._nodes: dict[str, set[str]] = {}          # file system: names
        self._nodes_until = 0.0
        self._status: ServerStatus = {}

    def work(self, give: Give) -> None:
        reading = self._gathering.scan()
        self._status = reading.status
        for line in self._gathering.unused:
            self._emit(line)
        self._gathering.unused.clear()
        self._log_unreadable_files()
        give([*reading.events, *self._make_dropped_event(reading)], None, "")
        self._acknowledge()
        if reading.more:
            return
        began = time.monotonic()
        until = began + self._every_s
        while not self.ended.is_set() and time.monotonic() < until:
            if self._log_is_ready(until - time.monotonic()):
                self._gathering.read_log()
                until = min(until, began + _SOONEST_S)
                self.ended.wait(_PAUSE_S)

    def _log_is_ready(self, within_s: float) -> bool:
        """True if the log can be read; waits for it."""
        handle = self._gathering.fileno()
        if handle < 0:                                 # a file in its place, or none
            self.ended.wait(max(0.0, within_s if self._why else min(within_s, _SOONEST_S)))
            return not self._why and not self.ended.is_set()
        ready, _, _ = select.select([handle, self.wake], [], [], max(0.0, within_s))
        return handle in ready

    def _log_unreadable_files(self) -> None:
        log = self._status.get("log") or {}
        why = str(log.get("why") or "") if log.get("source") == "none" else ""
        if why != self._why:
            self._why = why
            self._emit(f"the kernel's log is not read: {why}; evictions and lost connections are "
                       f"not seen" if why else "the kernel's log is read again")

    def _acknowledge(self) -> None:
        try:
            self._gathering.acknowledge()
        except OSError as error:
            text = (f"{error.filename or '[collector] state_dir'}: cannot be written: "
                    f"{error.strerror}; after a restart the kernel's log is read from an earlier "
                    f"place")
            if text != self._logged:
                self._logged = text
                self._emit(text)

    def _make_dropped_event(self, reading: ScanResult) -> list[Event]:
        """An event for events that were dropped for lack of space."""
        if not reading.dropped:
            return []
        now = time.time()
        return [make_event(self._boot_id, self.node, ("collector", str(now)), EVENTS_DROPPED, now,
                           count=reading.dropped, message=(
                               "1 event arrived faster than it could be stored"
                               if reading.dropped == 1 else
                               f"{reading.dropped:,} events arrived faster than they could be "
                               f"stored"))]

    def list_nodes(self, file_system: str) -> Iterable[str]:
        """List this machine and the clients of its targets."""
        now = time.monotonic()
        if now >= self._nodes_until:                   # 100,000 names take a while
            self._nodes = self._list_all_nodes()
            self._nodes_until = time.monotonic() + max(self._every_s, 10 * (time.monotonic() - now))
        if not file_system:
            return set().union({self.node}, *self._nodes.values())
        return self._nodes.get(file_system, ())

    def _list_all_nodes(self) -> dict[str, set[str]]:
        nodes_by_file_system: dict[str, set[str]] = {}
        for local_target in targets.find_local_targets(self._root):
            names = nodes_by_file_system.setdefault(local_target.file_system, {self.node})
            for directory in local_target.directories:
                try:
                    there = os.listdir(os.path.join(directory, "exports"))
                except OSError:
                    continue
                names.update(name for name in there
                             if "@" in name and not is_server_itself(Nid(name)))
        return nodes_by_file_system

    def file_systems(self) -> Iterable[str]:
        return {local_target.file_system for local_target in targets.find_local_targets(self._root)}

    def about_node(self, name: str) -> NodeFacts | None:
        """
        This machine's targets, and the space on their disks, in bytes, if readable.

        freeDiskSpace is what users can still write on all of them, as `df` has it; it is there only
        where each is known.
        """
        if name != self.node:
            return None if name not in self.list_nodes("") else {}
        states = self._status.get("targets") or {}
        targets_here: list[dict[str, object]] = []
        for local_target in targets.find_local_targets(self._root):
            full = f"{local_target.file_system}-{local_target.name}"
            state: TargetStatus = states.get(full) or {}
            targets_here.append(
                {"name": full, "state": state.get("state"), "clients": state.get("clients"),
                                 **self._read_space(full)})
        free = [target_state.get("availableBytes") for target_state in targets_here]
        known = [number for number in free if isinstance(number, int)]
        return {"fileSystems": sorted(self.file_systems()), "targets": targets_here,
                "health": self._status.get("health") or None,
                "kernelLogNotRead": self._why or None,
                "freeDiskSpace": sum(known) if free and len(known) == len(free) else None}

    def _read_space(self, target: str) -> dict[str, int]:
        for kind in _SPACE_OF:
            for place in PLACES:
                space = {}
                for key, file in _SPACE:
                    number = _read_number(os.path.join(self._root, place, kind, target, file))
                    if number is not None:
                        space[key] = number * 1024
                if space:
                    return space
        return {}

    def list_not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        return None

    def close(self) -> None:
        super().close()
        self._gathering.close()


def _read_number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


_ASK_EVERY_S, _STATUS_EVERY_S, _WITHIN_S = 3.0, 30.0, 30.0
_AT_ONCE, _LONGEST = 1000, 64 << 20
_BACK_S = 2 * 3600              # of the first question: what happened before is not asked for


class SiteSource(EventSource):
    """Queries the site's server every few seconds, and at once while more is left."""

    def __init__(self, config: Config, node: str, emit: Callable[[str], None],
                 every_s: float = _ASK_EVERY_S) -> None:
        """NotDelivered, or StateError, where this process cannot authenticate itself."""
        super().__init__(node)
        self._emit, self._logged, self._every_s = emit, "", every_s
        self._site = make_site_servers(config)
        self._status: dict[str, object] = {}
        self._servers: dict[str, dict[str, object]] = {}
        self._status_at = -_STATUS_EVERY_S
        # Read once: who starts as root may not read it later.
        self._signs = auth.load_client_credentials(config, protocol.SITE, config.site.secret)

    def work(self, give: Give) -> None:
        try:
            more = self._ask(give)
            if time.monotonic() - self._status_at >= _STATUS_EVERY_S:
                self._status_at = time.monotonic()
                self._status = self._call(EVENTS_STATUS, {})
                self._servers = {str(server.get("node")): server
                                 for server in _get_rows(self._status, "servers")}
            if self._logged:
                self._emit("the site's server answers again")
                self._logged = ""
        except IostatsError as error:
            more = False
            if str(error) != self._logged:
                self._logged = str(error)
                self._emit(f"{error}; trying again")
        if not more:
            self.ended.wait(self._every_s)

    def _ask(self, give: Give) -> bool:
        params: dict[str, object] = {"after": self.next, "limit": _AT_ONCE}
        if not self.next:
            params["since"] = time.time() - _BACK_S
        answer = self._call(EVENTS, params)
        try:
            numbering = str(answer.get("places", ""))
            next: object = answer["next"]
            more: object = answer["more"]
            if not isinstance(next, int) or not isinstance(more, bool):
                raise ValueError("next: expected a number, more: true or false")
            if self.next and (numbering != self.of or next < self.next):
                # Its places restarted, such as with a new store; ids show which events are known.
                self.next, self.of = 0, numbering
                return True
            rows: list[dict[str, object]] = answer["events"]
            new_events = [_replace_nids(row) for row in rows]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise IostatsError(f"unexpected format of the site's server's answer ({error!s:.200}); "
                               f"use "
                               f"one release of iostats here and there") from None
        give(new_events, next, numbering)
        self.next, self.of = next, numbering
        return more

    def _call(self, method: MethodName[Any], params: dict[str, object]) -> dict[str, Any]:
        if self._site.should_try_preferred():
            self._site.try_preferred_servers(self._signs, self.node, _WITHIN_S)
        answer: object = self._site.call(self._signs, self.node, method, params, _WITHIN_S,
                                         _LONGEST)
        if not isinstance(answer, dict):
            raise IostatsError(f"unexpected format of the site's server's answer to `{method}`; "
                               f"use one "
                               f"release of iostats here and there")
        return answer

    # -- what `events_status` has

    def list_nodes(self, file_system: str) -> Iterable[str]:
        return [name for name, status in self._servers.items()
                if not file_system or file_system in _list_file_systems(status)]

    def file_systems(self) -> Iterable[str]:
        return {file_system for server in self._servers.values()
                for file_system in _list_file_systems(server)}

    def about_node(self, name: str) -> NodeFacts | None:
        """A storage server's targets, and the space on their disks, if it was reported."""
        status = self._servers.get(name)
        if status is None:
            return None
        health = status.get("health")
        return {"health": health if isinstance(health, str) and health else None,
                "fileSystems": sorted(_list_file_systems(status)),
                "targets": [{"name": target, **_parse_facts(target_state)}
                            for target, target_state in sorted(_get_targets(status).items())]}

    def list_not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        """The nodes of `iostats nodes --down`; None before the first answer."""
        if not self._status:
            return None
        rows = [row for row in _get_rows(self._status, "down") + _get_rows(self._status,
                                                                          "unnamed")
                if row.get("file_system") == file_system]
        return ({str(row["node"]) for row in rows if "node" in row
                 and row.get("state") != UNCLEAR},
                sum(count for row in rows if isinstance(count := row.get("count"), int)))


_SPACE_IN_STATUS = {"totalBytes": "bytes_total", "freeBytes": "bytes_free",
                    "availableBytes": "bytes_available"}


def _parse_facts(target_state: object) -> dict[str, int | str]:
    """Return the facts of a target from the site's server, if they have the expected format."""
    if not isinstance(target_state, dict):
        return {}
    capacity: object = target_state.get("capacity")
    space = capacity if isinstance(capacity, dict) else {}
    facts: dict[str, object] = {
        **{key: target_state.get(key) for key in ("state", "clients")},
        **{key: space.get(name) for key, name in _SPACE_IN_STATUS.items()}}
    return {key: value for key, value in facts.items() if isinstance(value, (int, str))}


def _get_rows(answer: dict[str, object], name: str) -> list[dict[str, object]]:
    rows = answer.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _get_targets(status: dict[str, object]) -> dict[str, object]:
    targets = status.get("targets")
    return targets if isinstance(targets, dict) else {}


def _list_file_systems(status: dict[str, object]) -> set[str]:
    """The file systems of a storage server's targets."""
    return {parse_file_system(name) for name in _get_targets(status) if "-" in name}


def _replace_nids(row: dict[str, object]) -> Event:
    """The Event of a row, with the names of nodes instead of NIDs, where the site knows them."""
    event, names = from_json(row), row.get("clients_names")
    if isinstance(names, list) and len(names) == len(event.clients):
        names = dict(zip(event.clients, names))
    if not isinstance(names, dict):
        return event
    return event._replace(clients=tuple(dict.fromkeys(
        sanitize(str(names.get(nid) or nid))[:255] for nid in event.clients)))
