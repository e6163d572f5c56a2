"""
Events on this node between a job's start and its end.

The start has `state` and `import` of each target at that time (sources/state.py).  Changes since
then are read at the end, and during the job by a process that runs anyway, `watch` or that of
`iostats run`, since a target that is down fills its history in half a minute.  After changes it
writes this beside the start:

    {"seq": "9f2c31d0a4b85e67",         of the start
     "state": {...},                    of the last reading, as in events/import_changes.py
     "events": [...],                   so far, as JSON; at most 1,000
     "dropped": 0,                      how many more there were
     "gone": {"scratch-OST0003": 1795333379.0},         its states are unknown up to then
     "at": 1795333379.0,                the time of the last reading
     "joined": {...}}                   reported events, as in events/joining.py

The kernel's log is read at the end, if this user may read it: every user, or with
kernel.dmesg_restrict=1 users with CAP_SYSLOG.  An event in both the log and a history is reported
once.  What LNet dropped and resent is the difference of its counters at the start and the end.

Only /dev/kmsg is read: journalctl would be one more process on each node, at each job's end.
The ring is read from its oldest line; if that is later than the start, the report notes it.  A
process that runs during the job has it open, and loses lines only to a flood, which is an event
itself.

Source: devkmsg_open(), check_syslog_permissions(), kernel/printk/printk.c.
"""

from __future__ import annotations

import os
import re
import time

from iostats.base import strict_json
from iostats.base.errors import IostatsError
from iostats.base.private_files import explain_error
from iostats.events import dev_kmsg, event, import_changes, lnet_changes
from iostats.events.joining import LOG, Joiner
from iostats.events.kinds import LNET_DROPS, LNET_RESENDS
from iostats.events.log_grouping import LogGrouper
from iostats.events.wall_clock import WallClock
from iostats.lustre import import_files, kernel_log
from iostats.lustre.kernel_log import EVICTED
from iostats.node import lnet_counts
from iostats.totals.snapshot import explain_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.lustre.paths import File
    from iostats.node.start_files import StartFiles
    from iostats.totals.received_report import SentReport
    from iostats.totals.snapshot import Snapshot

_LINES = 512                            # between two checks of the clock
_MOST_LINES = 200_000                   # in one reading: more than any ring has
_CLOCKS_S = 5.0                         # the log's clock and that of the boot are so far apart
_DEACTIVATED = b" INACTIVE by adm"      # cheaper than to parse each line
_MOST_DEACTIVATED = 1000
# Of a file whose data was thrown away.  It may be of another job on the node; `lfs fid2path` tells
# who may know it.
_PATH = re.compile(r"(/fid: \[[0-9a-fx:]{1,60}\]/).*( may get corrupted)")


class KernelLogSince:
    """
    The kernel's log since a job's start, held open.

    Attributes:
        unseen: why its events during the job are unknown; "" if they are known.
        deactivated: {target: [when an administrator deactivated it, s since 1970]}.
    """

    def __init__(self, root: str, config: Config, start: Snapshot, boot_id: str) -> None:
        self.unseen, self.deactivated = "", {}          # type: str, dict[str, list[float]]
        self._since_s = start.wall_ns / 1e9
        self._since_up_s = start.boot_ns / 1e9 if start.boot_id == boot_id else 0.0
        self._is_first = root == "/"
        self._log: dev_kmsg.KernelMessages | None = None
        boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._clock = WallClock([(0, time.time() - time.clock_gettime(boot))])
        self._grouper = LogGrouper(boot_id, start.node, int(config.events.max_kept), self._clock)
        if config.events.kernel_log == "no":
            self.unseen = "the kernel's log is not read ([events] kernel_log)"
            return
        try:
            self._log = dev_kmsg.KernelMessages(os.path.join(root, "dev/kmsg"))
        except OSError as error:
            self.unseen = f"the kernel's log (/dev/kmsg): {explain_error(error)}"

    def read(self) -> list[Event]:
        """Return [Event] that are new, or have grown, and were not over before the start."""
        if self._log is None:
            return []
        now = time.time()
        self._clock.set_interval(None, now)
        try:
            for _ in range(0, _MOST_LINES, _LINES):
                if self._log.read(self._add_record, self._grouper.add_lost_lines, _LINES):
                    break
        except OSError as error:
            self.unseen = f"the kernel's log (/dev/kmsg): {explain_error(error)}"
            self._log.close()
            self._log = None
        return [_drop_path(log_event) for log_event in self._grouper.list_changed()
                if max(log_event.last, log_event.over or 0) >= self._since_s]

    def _add_record(self, data: bytes) -> None:
        if self._is_first:
            self._is_first = False
            record = kernel_log.parse_record(data)
            if record and record.sequence and (
                    (record.usec or 0) / 1e6 > self._since_up_s + _CLOCKS_S):
                self.unseen = "the kernel's log does not reach back to the start"
        self._grouper.add_record(data)
        if _DEACTIVATED in data:
            record = kernel_log.parse_record(data)
            message = kernel_log.parse_message(record) if record else None
            if record and record.usec is not None and message and (
                    message.kind == kernel_log.DEACTIVATED) and (
                    message.target in self.deactivated
                    or len(self.deactivated) < _MOST_DEACTIVATED):
                self.deactivated.setdefault(message.target, []).append(
                    self._clock.compute_time(record.usec))


def _drop_path(log_event: Event) -> Event:
    return log_event if log_event.kind != kernel_log.DATA_LOST else log_event._replace(
        message=_PATH.sub(r"\1...\2", log_event.message))


MOST_KEPT, MOST_SENT = 1000, 100
SCAN_EVERY_S, SCAN_AGAIN_S = 60.0, 15.0         # all connected; one of the targets is not
_LONGEST_UNSEEN = 500
_MOST_IDS = 100_000
_WHOLE_START = ("osc", "mdc")                   # a start of any release that saw a target has one


_at_hand: dict[str, NodeEvents] = {}            # by seq: of the process that scans and ends


def collect_node_events(files: StartFiles, start: Snapshot, root: str,
                        config: Config) -> NodeEvents:
    """The NodeEvents since a start: of this process, or from the file."""
    events = _at_hand.get(start.seq)
    if events is None:
        events = _at_hand[start.seq] = NodeEvents(files, start, root, config)
    return events


class NodeEvents:
    """
    The events since one start.

    Attributes:
        events: {id: Event}.
        dropped: how many more there were.
        gone: {target: the time up to which its states are unknown}.
        is_connected: whether all targets were, at the last look.
        emit: gets a line about a file in an unexpected format.
    """

    emit: Callable[[str], None] = staticmethod(lambda text: None)

    def __init__(self, files: StartFiles, start: Snapshot, root: str, config: Config) -> None:
        self._files, self._start, self._root, self._config = files, start, root, config
        self._log: KernelLogSince | None = None
        self._joiner = Joiner()
        self._ids_dropped: set[str] = set()     # a target that is down is reported again and again
        self._at = start.wall_ns / 1e9          # of the last look
        self.events: dict[str, Event] = {}
        self.dropped = 0
        self.gone: dict[str, float] = {}
        self.has_bad = False
        self.refused: dict[int, int] = {}
        self.is_connected = True
        self._state: dict[str, Any] | None = None
        self._load()

    def _load(self) -> None:
        """Read the state of an earlier reading, or the start."""
        try:
            stored = strict_json.loads(self._files.load(self._files.events_path) or b"{}")
            if stored.get("seq") == self._start.seq:
                events = [event.from_json(value) for value in stored["events"]]
                self._state = dict(stored["state"])
                joiner, at = Joiner(stored["joined"]), float(stored["at"])
                self.dropped = int(stored["dropped"])
                self.gone = {str(name): float(at) for name, at in stored["gone"].items()}
                self.events = {stored_event.id: stored_event for stored_event in events}
                self._joiner, self._at = joiner, at
                return
        except (IostatsError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass                                # damaged: the start still stands
        self._state = None

    def add_reading(self, files: list[File], boot_id: str, now: float) -> bool:
        """
        Compare `state` and `import`, read at `now`, with the last reading; True if something is
        new.
        """
        since = self._start.wall_ns / 1e9
        if self._log is None:
            self._log = KernelLogSince(self._root, self._config, self._start, boot_id)
        logged = self._log.read()
        deactivated = {target: [at for at in times if self._at < at <= now]
                       for target, times in self._log.deactivated.items()}
        self._at = now
        before = self._state
        readable: list[File] = files
        unknown: list[File] = []
        if before is None:
            before = {}
            if self._start.boot_id == boot_id:
                before = import_changes.make_unparsed_state(self._start.files)
                # Those which the start could not read, or a start of an earlier release.
                listed = {file.name for file in self._start.files
                          if file.source in (import_files.STATE, *_WHOLE_START)}
                unknown = [file for file in files if file.name in listed
                           and file.name not in before]
                readable = [file for file in files if file.name not in listed
                            or file.name in before]
        node = self._start.node
        changes = import_changes.find_changes(readable, before, boot_id, node, now, deactivated)
        late = import_changes.find_changes(unknown, None, boot_id, node, now, deactivated)
        # Only the clock tells which of these are of this job.
        new_events = changes.events + [late_event for late_event in late.events
                                       if late_event.time > since]
        self.gone.update(changes.gone_before)
        self.gone.update({target: at for target, at in late.gone_before.items() if at > since})
        for problem in changes.bad + late.bad:
            self.has_bad = True
            self.emit(problem)
        self.refused = {code: changes.refused.get(code, 0) + late.refused.get(code, 0)
                        for code in (*changes.refused, *late.refused)}
        self._state = {**changes.state, **late.state}
        self.is_connected = all(import_changes.is_connected(connection)
                                for connection in self._state.values())
        new_events += self._find_lnet_faults(files, boot_id, now)
        joined_events = [joined for new_event in new_events
                         for joined in self._joiner.add(new_event, import_changes.NAME)]
        joined_events += [joined for log_event in logged
                          for joined in self._joiner.add(log_event, LOG)]
        return self._add(joined_events) or bool(changes.gone_before)

    def _find_lnet_faults(self, files: list[File], boot_id: str, now: float) -> list[Event]:
        """Events, if LNet dropped or resent many messages of this node since the start."""
        start = self._start
        if start.boot_id != boot_id:
            return []
        try:
            stats = lnet_counts.compare_stats(start, files)
            resends = lnet_counts.compare_answers(start, files, now)
        except ValueError as error:
            self.emit(f"LNet: {error}")
            return []
        shares = [(LNET_DROPS, lnet_changes.describe_drops,
                   stats and lnet_changes.Share(stats.dropped, sum(stats[:4]))),
                  (LNET_RESENDS, lnet_changes.describe_resends, resends and resends.share)]
        return [event.make_event(boot_id, start.node, ("lnet", kind, start.seq), kind,
                                 start.wall_ns / 1e9, last=now, over=now, count=share.number,
                                 message=describe(share))
                for kind, describe, share in shares
                if share is not None and lnet_changes.is_much(share)]

    def _add(self, new_events: Iterable[Event]) -> bool:
        """
        Add events; True if any is new or has grown.  Beyond a limit the most severe ones remain.
        """
        has_news = False
        for new_event in new_events:
            before = self.events.get(new_event.id)
            after = new_event if before is None else event.merge_copies(before, new_event)
            if after != before and new_event.id not in self._ids_dropped:
                has_news = True
                self.events[new_event.id] = after
        if len(self.events) > MOST_KEPT:
            for least_severe in _sort_by_severity(self.events.values())[MOST_KEPT:]:
                del self.events[least_severe.id]
                self.dropped += 1
                if len(self._ids_dropped) < _MOST_IDS:
                    self._ids_dropped.add(least_severe.id)
        return has_news

    def store(self) -> None:
        """Store the state for the end of the job; a full disk is ignored until then."""
        import json
        try:
            self._files.store_events(json.dumps(
                {"seq": self._start.seq, "state": self._state, "dropped": self.dropped,
                 "gone": self.gone, "at": self._at, "joined": self._joiner.as_json(),
                 "events": [event.as_json(stored_event) for stored_event in self.events.values()]},
                separators=(",", ":")).encode())
        except IostatsError:
            pass

    def scan(self, boot_id: str, keep: bool = False) -> float:
        """
        Read now, and store the news, or everything with `keep`; the seconds until the next reading.
        """
        files = import_files.read(self._root, self._config.node.file_systems)
        has_news = self.add_reading(files, boot_id, time.time())
        if has_news or keep:
            self.store()
        return SCAN_EVERY_S if self.is_connected else SCAN_AGAIN_S

    def report_members(self) -> SentReport:
        """
        Members of the report: `events_unseen`, and `events` and `events_dropped` unless nothing
        could be seen.
        """
        unseen_log = self._log.unseen if self._log is not None else "it was not checked"
        by_severity = _sort_by_severity(self.events.values())
        sent = sorted(by_severity[:MOST_SENT],
                      key=lambda sent_event: (sent_event.time, sent_event.target, sent_event.kind))
        unseen = self._explain_missing_events(unseen_log)
        members: SentReport = {"events_unseen": unseen} if unseen else {}
        if unseen_log and self.refused and not self._state and not by_severity:
            return members
        return {**members, "events": [event.as_json(sent_event) for sent_event in sent],
                "events_dropped": self.dropped + len(by_severity) - len(sent)}

    def evictions(self) -> dict[str, int]:
        """Return {file system: how often a target of it evicted this node since the start}."""
        since, counts = self._start.wall_ns // 1_000_000_000, {}     # type: int, dict[str, int]
        for node_event in self.events.values():
            if node_event.kind == EVICTED and not node_event.cause and node_event.last >= since:
                counts[node_event.file_system] = counts.get(node_event.file_system,
                                                            0) + node_event.count
        return counts

    def _explain_missing_events(self, log: str) -> str:
        """
        The reasons why events may be missing: without names or times, so that all nodes have the
        same text.
        """
        parts = []
        if log and self.refused:
            code, _ = max(self.refused.items(), key=lambda item: item[1])
            parts.append(f"the connections with targets may not be seen: {explain_code(code)}")
        elif log and self.gone:
            parts.append("the kernel stores 16 states of a connection, and some were overwritten")
        if parts:
            parts.append(log)
        if self.has_bad:
            parts.append("a file `state` or `import` has an unexpected format")
        return "; ".join(parts)[:_LONGEST_UNSEEN]


def _sort_by_severity(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (-event.severity, event.time))
