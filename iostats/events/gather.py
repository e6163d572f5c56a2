"""
The events of one machine from all sources, each of them once.

    gathering = Gathering(root, config, node, boot_id, state_path, roles=("server",))
    found = gathering.scan()

A scan reads the sources, then the log to its end, and joins their events.  New events wait until
acknowledge() is called; that writes the state: the position in the log, the events that can still
grow, the state of each source.  A process that is killed restarts with the last state, reads the
same lines once more, and makes the same events with the same ids.
"""

from __future__ import annotations

import json
import os
import time
from math import inf

from iostats.base import private_files
from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.events import dev_kmsg, sources
from iostats.events.backing_devices import BackingDevices
from iostats.events.event import Event, as_json, from_json, merge_copies
from iostats.events.joining import COUNTED, LOG, Joiner
from iostats.events.log_grouping import OF_CLIENTS, LogGrouper
from iostats.events.sources import Place
from iostats.events.wall_clock import WallClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.status import LogStatus, ServerStatus


class ScanResult(NamedTuple):
    """The result of one scan: events to report, and the new state."""

    # [Event], up to 1,000: new ones, and those that have grown since they were reported
    events: list[Event]
    dropped: int    # events since the last acknowledge() that there was no room for
    # {"health": "healthy", "targets": {name: {"state": "up", "clients": 37}}, "log": {"source":
    # "kmsg", "why": "", "lines": 23, "lost": 0}}; health and targets only where a source knows.
    # `source` of the log is "none" where it cannot be read, and `why` says it.
    status: ServerStatus
    more: bool      # call scan() again, after acknowledge(), without a pause


MOST_AT_ONCE = 1000
_MOST_UNTOLD = 20_000
_LINES = 512                            # between two readings of the clock
_MOST_LINES = 200_000                   # in one look: more than any ring has
_OPEN_AGAIN_S = 60.0                    # a log that could not be read
_ACTIVATION_S = 10.0                    # from its first line to its last one
_VERSION = 2                            # 1: without `series`


class Gathering:
    """
    The events of one machine.

    Attributes:
        unused: states that could not be used, a line each; the caller clears it.
    """

    def __init__(self, root: str, config: Config, node: str, boot_id: str,
                 state_path: str | None = None, roles: tuple[str, ...] = sources.ROLES,
                 since: float | None = None) -> None:
        """
        `state_path`: the file of the state; None for none, so that the log is read from its oldest
        line.  `since`: events that ended before it are not reported.

        A log that cannot be read is no error: status["log"] has the reason.  Nor is a state that
        is damaged, or of a later release: the log's events are reported again, with the same
        ids, and the sources restart, with ids that they have not used before.
        """
        self.unused: list[str] = []
        self._place = Place(root, config, node, boot_id, {})
        self._state_path, self._since = state_path, since
        self._sources = sources.list_sources(roles)
        self._limit = int(config.events.max_kept)
        self._log: dev_kmsg.KernelMessages | dev_kmsg.JournalMessages | None = None
        self._why = ""
        self._end_s: float | None = None
        self._unreported: dict[str, Event] = {}
        self._given: list[Event] = []
        self._dropped = 0
        self._pending: list[tuple[Event, str]] = []     # of sources, until the log was read
        self._held: list[tuple[Event, str]] = []        # until the next look
        self._status: ServerStatus = {}
        self._seen: dict[str, object] = {}              # source -> its state
        self._series: dict[str, str] = {}               # source -> Place.series
        self._lines = self._lost = 0
        self._clock = WallClock(_read_anchors(root))
        self._devices = BackingDevices(root)
        self._grouper = LogGrouper(boot_id, node, self._limit, self._clock,
                                   find_target=self._devices.find_target)
        self._joiner = Joiner()
        self._opens_at = 0.0                            # time.monotonic(), where it failed before
        self._position = self._restore()
        self._open()

    # -- what callers use ------------------------------------------------------------------------

    def scan(self, now: float | None = None) -> ScanResult:
        """Read everything that is new; see ScanResult."""
        if not self._pending and len(self._unreported) < MOST_AT_ONCE:
            self._read_sources(time.time() if now is None else now)
        if self._log is None and time.monotonic() >= self._opens_at:
            self._open()
        at_end = self.read_log(_MOST_LINES)
        self._collect()
        if at_end:
            pending, self._pending = self._pending, []
            held, self._held = self._held, []
            for event, name in held:
                self._add_events(self._joiner.add(event, name))
            for event, name in pending:
                # A recovery counts those that it evicts before it prints them.
                if event.cause == COUNTED and self._grouper.is_recovering(event.target):
                    self._held.append((event, name))
                elif not self._is_activation(event):
                    self._add_events(self._joiner.add(event, name))
        self._given = sorted(list(self._unreported.values())[:MOST_AT_ONCE],
                             key=lambda event: (event.time, event.id))
        return ScanResult(list(self._given), self._dropped,
                          {**self._status, "log": self.log_status()},
                          not at_end or len(self._unreported) > len(self._given))

    def acknowledge(self) -> None:
        """
        Confirm the result of the last scan(): it is stored safely, so a restart continues after it.

        OSError where the state cannot be written; then the next one begins with the state before.
        """
        for event in self._given:
            if self._unreported.get(event.id) == event:
                del self._unreported[event.id]
        self._given = []
        self._dropped = 0
        self._save_state()

    def _save_state(self) -> None:
        self._collect()                                 # what was read before is in the state, too
        if self._state_path is not None:
            state = json.dumps(self._make_state(), separators=(",", ":")).encode()
            private_files.write_atomically(self._state_path, state)

    def fileno(self) -> int:
        """
        The log's descriptor for select(); -1 if there is nothing to wait for.

        Wait a hundredth of a second behind each read_log(), or a flood is read line by line; not
        longer, or the ring goes round.
        """
        return self._log.fileno() if self._log is not None else -1

    def read_log(self, max_lines: int = 20_000) -> bool:
        """
        Read up to `max_lines` lines of the log; True if the end was reached, or there is no log.
        """
        if self._log is None:
            return True
        for _ in range(0, max_lines, _LINES):
            began = time.time()
            after = self._end_s if self._end_s is not None and self._end_s <= began else None
            self._clock.set_interval(after, began)
            last = self._log.usec
            try:
                at_end = self._log.read(self._grouper.add_record, self._grouper.add_lost_lines,
                                        _LINES)
            except OSError as error:
                self._close_log(f"{self._log.path}: {private_files.explain_error(error)}")
                return True
            if self._log.usec != last:                  # a line that came now, and no older one
                self._clock.compute_time(self._log.usec)        # it ties the log's clock to ours
            if at_end:
                self._end_s = began
                return True
            if self._grouper.waiting >= self._limit:
                self._collect()
                if len(self._unreported) >= MOST_AT_ONCE:
                    return False                        # these are reported first
        return False

    def limit_events(self, max_events: int) -> None:
        """Change [events] max_kept."""
        self._limit = max_events
        self._grouper.windows.most = max_events

    def close(self) -> None:
        """Close the log; the state is that of the last acknowledge()."""
        if self._log is not None:
            self._log.close()
            self._log = None

    # -- sources and log -------------------------------------------------------------------------

    def _read_sources(self, now: float) -> None:
        self._status, known = {}, dict(self._series)
        for name, source in self._sources.items():
            reading = self._read_source(name, source, now)
            self._seen[name] = reading.state
            self._pending += [(event, name) for event in reading.events]
            targets = self._status.get("targets", {})   # several sources have parts of each
            for target, about in reading.status.get("targets", {}).items():
                targets[target] = {**targets.get(target, {}), **about}
            self._status.update(reading.status)
            if targets:
                self._status["targets"] = targets
        if self._series != known:
            # Before anything is reported: after a kill, the same events have the same ids.
            try:
                self._save_state()
            except OSError:
                pass                                    # acknowledge() reports it

    def _read_source(self, name: str, source: sources.EventSource,
                     now: float) -> sources.SourceResult:
        before = self._seen.get(name)
        if name in self._series:
            try:
                return self._call_source(name, source, before, now)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                if before is None:
                    raise
                # A state that another release kept, or that is damaged, is none.
                self.unused.append(f"{self._state_path}: its state of {name} cannot be used; "
                                   f"changes there since the last scan are not reported")
        self._series[name] = os.urandom(8).hex()
        return self._call_source(name, source, None, now)

    def _call_source(self, name: str, source: sources.EventSource, before: object,
                     now: float) -> sources.SourceResult:
        place = self._place._replace(series=self._series[name])
        reading: sources.SourceResult = source.scan(place, before, now)
        return reading

    def _is_activation(self, event: Event) -> bool:
        """True if the client was disconnected by its administrator, according to the log."""
        when = self._grouper.activated.get(event.target)
        return (when is not None and abs(event.time - when) < _ACTIVATION_S
                and event.kind in OF_CLIENTS and not event.cause)

    def _collect(self) -> None:
        self._clock.set_interval(None, None)              # these came at any time since the last
        for target, when in self._grouper.replaced:
            self._joiner.add_duplicates(target, when, 1)
        self._grouper.replaced.clear()
        counted_since: dict[str, float] = {}
        for name, source in self._sources.items():
            if hasattr(source, "counted_since"):
                counted_since.update(source.counted_since(self._seen.get(name)))
        for event in self._grouper.list_changed():
            # The targets' counters include what "Skipped N" stands for, at whichever target.
            if event.time >= counted_since.get(event.kind, inf):
                event = event._replace(skipped=0)
            self._add_events(self._joiner.add(event, LOG))

    def _add_events(self, events: list[Event]) -> None:
        for event in events:
            if self._since is not None and max(event.last, event.over or 0) < self._since:
                continue
            before = self._unreported.pop(event.id, None)
            if before is None and len(self._unreported) >= _MOST_UNTOLD:
                self._dropped += 1
                continue
            self._unreported[event.id] = merge_copies(before, event) if before else event

    def log_status(self) -> LogStatus:
        """The `log` of ScanResult.status."""
        log = self._log
        return {"source": log.NAME if log else "none", "why": self._why,
                "lines": self._lines + self._grouper.lines,
                "lost": self._lost + (log.lost if log else 0)}

    def _open(self) -> None:
        """Open the log that [events] kernel_log names, behind where it was read to."""
        log_source, position = self._place.config.events.kernel_log, self._position
        self._opens_at = time.monotonic() + _OPEN_AGAIN_S
        if log_source == "no":
            self._why = "[events] kernel_log is no"
            return
        sequence, usec = int(str(position.get("sequence", -1))), int(str(position.get("usec", -1)))
        if log_source in ("auto", dev_kmsg.NAME):
            path = os.path.join(self._place.root, "dev/kmsg")
            try:
                self._log = dev_kmsg.KernelMessages(path, sequence, usec)
                self._why = ""
                return
            except OSError as error:
                self._why = f"{path}: {private_files.explain_error(error)}"
        if log_source in ("auto", dev_kmsg.JOURNALD) and self._place.root == "/":
            try:
                self._log = dev_kmsg.JournalMessages(str(position.get("cursor", "")), usec)
                self._why = ""
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
                self._why = "; ".join(filter(None, (self._why, why)))
        elif log_source == dev_kmsg.JOURNALD:
            self._why = f"journalctl shows the log of this machine, and not of {self._place.root}"

    def _close_log(self, why: str) -> None:
        if self._log is not None:
            self._lost += self._log.lost
            self._position = self._get_log_position()
            self._log.close()
        self._log, self._why = None, sanitize(why)

    # -- the state -------------------------------------------------------------------------------

    def _get_log_position(self) -> dict[str, object]:
        """The position in the log."""
        log = self._log
        return self._position if log is None else {
            "sequence": log.sequence, "usec": log.usec, "cursor": getattr(log, "cursor", "")}

    def _make_state(self) -> dict[str, object]:
        log = self._log
        return {"version": _VERSION, "boot_id": self._place.boot_id,
                "position": self._get_log_position(),
                "grouper": self._grouper.as_json(), "joined": self._joiner.as_json(),
                "sources": self._seen, "series": self._series,
                "anchors": self._clock.anchors, "end": self._end_s,
                "untold": [as_json(event) for event in self._unreported.values()],
                "pending": [[as_json(event), name] for event, name in self._pending],
                "held": [[as_json(event), name] for event, name in self._held],
                "lines": self._lines + self._grouper.lines,
                "lost": self._lost + (log.lost if log else 0)}

    def _restore(self) -> dict[str, object]:
        """Continue from the stored state; the log's position, {} if there is none of this boot."""
        if self._state_path is None:
            return {}
        try:
            return self._restore_state(json.loads(private_files.read_text(self._state_path)))
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = private_files.explain_error(error)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError,
                RecursionError) as error:
            why = sanitize(f"{type(error).__name__}: {error}")[:200]
        self.unused.append(
            f"{self._state_path}: cannot be used: {why}; the kernel's log is read again from its "
            f"oldest line, with the same ids; changes in the files of health, targets and "
            f"connections since the last scan are not reported")
        return {}

    def _restore_state(self, stored: dict[str, Any]) -> dict[str, object]:
        """
        The source's part of a stored state; ValueError, TypeError and the like for a damaged one,
        of which nothing is used.
        """
        if not isinstance(stored, dict) or stored.get("version") not in range(1, _VERSION + 1):
            raise ValueError(f"expected a state of version 1 to {_VERSION}")
        joiner = Joiner(stored.get("joined"))
        unreported = {event.id: event for event in map(from_json, stored.get("untold", []))}
        if stored["boot_id"] != self._place.boot_id:
            self._joiner, self._unreported = joiner, unreported
            return {}
        clock = WallClock((int(usec), float(wall)) for usec, wall in stored.get("anchors", []))
        for usec, wall in self._clock.anchors[1:]:
            clock.tie(usec, wall)
        grouper = LogGrouper(self._place.boot_id, self._place.node, self._limit, clock,
                             stored.get("grouper"), self._devices.find_target)
        pending, held = ([(from_json(event), str(name)) for event, name in stored.get(key, [])]
                         for key in ("pending", "held"))
        # Without the events of an open window, it is counted from its beginning.
        position = dict(stored.get("position", {})) if "grouper" in stored else {}
        int(str(position.get("sequence", -1))), int(str(position.get("usec", -1)))
        states, end = dict(stored.get("sources", {})), stored.get("end")
        series = dict(stored.get("series", {}))
        lines, lost = int(stored.get("lines", 0)), int(stored.get("lost", 0))
        end = None if end is None else float(end)
        self._joiner, self._unreported = joiner, unreported
        self._clock, self._grouper = clock, grouper
        self._pending, self._held, self._seen, self._end_s = pending, held, states, end
        # What version 1 had open keeps its ids.
        self._series = {name: str(series.get(name, "")) for name, state in states.items()
                        if state is not None and (name in series or stored["version"] == 1)}
        self._lines, self._lost = lines, lost
        return position


def _read_anchors(root: str) -> list[tuple[int, float]]:
    """The boot, and where root may read it the log's clock now, each with the wall clock."""
    now = time.time()
    anchors = [(0, now - time.clock_gettime(time.CLOCK_BOOTTIME))]
    for name in ("sys/kernel/debug/sched/debug", "proc/sched_debug"):
        try:
            with open(os.path.join(root, name), "rb", buffering=0) as file:
                text = file.read(2048)
            now = time.time()
        except OSError:
            continue
        for line in text.split(b"\n"):
            key, _, value = line.partition(b":")
            if key.strip() == b"cpu_clk":               # local_clock(), ms: what printk() shows
                try:
                    anchors.append((int(float(value) * 1000), now))
                except ValueError:
                    pass
                return anchors
    return anchors
