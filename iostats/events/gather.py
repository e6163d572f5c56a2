"""
What went wrong on this machine, from all sources, each event once.

    gathering = Gathering(root, config, node, boot_id, state_path, roles=("server",))
    found = gathering.look()

A look reads the sources, then the log to its end, and joins what they say.  What it found stays to
be told until told() is called; that writes the state: where the log was read to, the events that
can still grow, what each source saw.  A process that is killed begins again with the last state,
reads the same lines once more, and makes the same events with the same ids.
"""

from __future__ import annotations

import json
import os
import time
from collections import namedtuple
from math import inf

from iostats.base import private_files
from iostats.base.errors import one_line
from iostats.events import dev_kmsg, journald, sources
from iostats.events.backing_devices import BackingDevices
from iostats.events.event import Event, as_json, from_json, latest
from iostats.events.folding import OF_CLIENTS, Folder
from iostats.events.joining import COUNTED, LOG, Joiner
from iostats.events.sources import Place
from iostats.events.wall_clock import WallClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config

Look = namedtuple("Look", "events dropped status more")
Look.__doc__ = """
What there is to be told.

Attributes:
    events: [Event], up to 1,000: new ones, and those that have grown since they were told.
    dropped: events since the last told() that there was no room for.
    status: {"health": "healthy", "targets": {name: {"state": "up", "clients": 37}}, "log":
        {"source": "kmsg", "why": "", "lines": 23, "lost": 0}}; health and targets only where a
        source knows.  `source` of the log is "none" where it cannot be read, and `why` says it.
    more: call look() again, after told(), without a pause.
"""

MOST_AT_ONCE = 1000
_MOST_UNTOLD = 20_000
_LINES = 512                            # between two looks at the clock
_MOST_LINES = 200_000                   # in one look: more than any ring has
_OPEN_AGAIN_S = 60.0                    # a log that could not be read
_ACTIVATION_S = 10.0                    # from its first line to its last one
_VERSION = 2                            # 1: without `series`
_LONGEST_STATE = 64 << 20


class Gathering:
    """
    One machine's events.

    Attributes:
        unused: states that could not be used, a line each; the caller clears it.
    """

    def __init__(self, root: str, config: Config, node: str, boot_id: str,
                 state_path: str | None = None, roles: tuple[str, ...] = sources.ROLES,
                 since: float | None = None) -> None:
        """
        `state_path`: where the state is kept; None: nowhere, so that the log is told from the
        oldest line that is there.  `since`: events that were over before it are not told.

        A log that cannot be read is no error: status["log"] says why.  Nor is a state that is
        damaged, or of a later release: the log is told once more, with the same ids, and the
        sources begin anew, with ids that they never gave.
        """
        self.unused: list[str] = []
        self._place = Place(root, config, node, boot_id)
        self._state_path, self._since = state_path, since
        self._sources = sources.known(roles)
        self._most = int(config["events.max_kept"])
        self._log: dev_kmsg.KernelMessages | journald.JournalMessages | None = None
        self._why = ""
        self._is_at_end, self._end_s = False, None      # type: bool, float | None
        self._untold: dict[str, Event] = {}
        self._given: list[Event] = []
        self._dropped = 0
        self._pending: list[tuple[Event, str]] = []     # of sources, until the log was read
        self._held: list[tuple[Event, str]] = []        # until the next look
        self._status: dict[str, object] = {}
        self._seen: dict[str, object] = {}              # source -> its state
        self._series: dict[str, str] = {}               # source -> Place.series
        self._lines = self._lost = 0
        self._clock = WallClock(_anchors(root))
        self._devices = BackingDevices(root)
        self._folder = Folder(boot_id, node, self._most, self._clock,
                              target_of=self._devices.target_of)
        self._joiner = Joiner()
        self._opens_at = 0.0                            # time.monotonic(), where it failed before
        self._position = self._restore()
        self._open()

    # -- what callers use ------------------------------------------------------------------------

    def look(self, now: float | None = None) -> Look:
        """Read everything that is new; see Look."""
        if not self._pending and len(self._untold) < MOST_AT_ONCE:
            self._look_at_sources(time.time() if now is None else now)
        if self._log is None and time.monotonic() >= self._opens_at:
            self._open()
        at_end = self.read_log(_MOST_LINES)
        self._collect()
        if at_end:
            pending, self._pending = self._pending, []
            held, self._held = self._held, []
            for event, name in held:
                self._tell(self._joiner.take(event, name))
            for event, name in pending:
                # A recovery counts those that it evicts before it prints them.
                if event.cause == COUNTED and self._folder.is_recovering(event.target):
                    self._held.append((event, name))
                elif not self._is_of_activation(event):
                    self._tell(self._joiner.take(event, name))
        self._given = sorted(list(self._untold.values())[:MOST_AT_ONCE],
                             key=lambda one: (one.time, one.id))
        return Look(list(self._given), self._dropped, {**self._status, "log": self.log_status()},
                    not at_end or len(self._untold) > len(self._given))

    def told(self) -> None:
        """
        What the last look() gave is where it cannot be lost: go on from here, also after a kill.

        OSError where the state cannot be written; then the next one begins with the state before.
        """
        for event in self._given:
            if self._untold.get(event.id) == event:
                del self._untold[event.id]
        self._given = []
        self._dropped = 0
        self._keep()

    def _keep(self) -> None:
        self._collect()                                 # what was read before is in the state, too
        if self._state_path is not None:
            state = json.dumps(self._state(), separators=(",", ":")).encode()
            private_files.write_whole(self._state_path, state)

    def fileno(self) -> int:
        """
        Of the log, for select(); -1 where there is nothing to wait for.

        Wait a hundredth of a second behind each read_log(), or a flood is read line by line; not
        longer, or the ring goes round.
        """
        return self._log.fileno() if self._log is not None else -1

    def read_log(self, most: int = 20_000) -> bool:
        """Read up to `most` lines of the log; whether it came to its end, or there is none."""
        if self._log is None:
            return True
        self._is_at_end = False
        for _ in range(0, most, _LINES):
            began = time.time()
            after = self._end_s if self._end_s is not None and self._end_s <= began else None
            self._clock.lines_came(after, began)
            last = self._log.usec
            try:
                at_end = self._log.read(self._folder.take, self._folder.lost, _LINES)
            except OSError as error:
                self._close_log(f"{self._log.path}: {private_files.why(error)}")
                return True
            if self._log.usec != last:                  # a line that came now, and no older one
                self._clock.wall(self._log.usec)        # it ties the log's clock to ours
            if at_end:
                self._is_at_end, self._end_s = True, began
                return True
            if self._folder.waiting >= self._most:
                self._collect()
                if len(self._untold) >= MOST_AT_ONCE:
                    return False                        # what was found is told first
        return False

    def keep_at_most(self, most: int) -> None:
        """Another [events] max_kept, from now on."""
        self._most = most
        self._folder.windows.most = most

    def close(self) -> None:
        """Close the log; the state is as told() left it."""
        if self._log is not None:
            self._log.close()
            self._log = None

    # -- sources and log -------------------------------------------------------------------------

    def _look_at_sources(self, now: float) -> None:
        self._status, known = {}, dict(self._series)
        for name, source in self._sources.items():
            found = self._found_by(name, source, now)
            self._seen[name] = found.state
            self._pending += [(event, name) for event in found.events]
            for key, value in found.status.items():
                if isinstance(value, dict):
                    into = self._status.setdefault(key, {})
                    for target, about in value.items():
                        into.setdefault(target, {}).update(about)       # type: ignore
                else:
                    self._status[key] = value
        if self._series != known:
            # Before anything is told: after a kill, what was found now has the same ids.
            try:
                self._keep()
            except OSError:
                pass                                    # told() says it

    def _found_by(self, name: str, source: ModuleType, now: float) -> sources.Found:
        before = self._seen.get(name)
        if name in self._series:
            try:
                return self._looked_by(name, source, before, now)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                if before is None:
                    raise
                # A state that another release kept, or that is damaged, is none.
                self.unused.append(f"{self._state_path}: what it has of {name} cannot be used; "
                                   f"what changed there since the last look is not told")
        self._series[name] = os.urandom(8).hex()
        return self._looked_by(name, source, None, now)

    def _looked_by(self, name: str, source: ModuleType, before: object,
                   now: float) -> sources.Found:
        place = self._place._replace(series=self._series[name])
        found: sources.Found = source.look(place, before, now)
        return found

    def _is_of_activation(self, event: Event) -> bool:
        """Whether a client was disconnected by its administrator, as the log has it."""
        when = self._folder.activated.get(event.target)
        return (when is not None and abs(event.time - when) < _ACTIVATION_S
                and event.kind in OF_CLIENTS and not event.cause)

    def _collect(self) -> None:
        self._clock.lines_came(None, None)              # these came at any time since the last
        for target, when in self._folder.replaced:
            self._joiner.counted_too(target, when, 1)
        self._folder.replaced.clear()
        counted_since: dict[str, float] = {}
        for name, source in self._sources.items():
            if hasattr(source, "counted_since"):
                counted_since.update(source.counted_since(self._seen.get(name)))
        for event in self._folder.changed():
            # The targets' counters include what "Skipped N" stands for, at whichever target.
            if event.time >= counted_since.get(event.kind, inf):
                event = event._replace(skipped=0)
            self._tell(self._joiner.take(event, LOG))

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            if self._since is not None and max(event.last, event.over or 0) < self._since:
                continue
            before = self._untold.pop(event.id, None)
            if before is None and len(self._untold) >= _MOST_UNTOLD:
                self._dropped += 1
                continue
            self._untold[event.id] = latest(before, event) if before else event

    def log_status(self) -> dict[str, object]:
        """The `log` of Look.status."""
        log = self._log
        return {"source": log.NAME if log else "none", "why": self._why,
                "lines": self._lines + self._folder.lines,
                "lost": self._lost + (log.lost if log else 0)}

    def _open(self) -> None:
        """Open the log that [events] kernel_log names, behind where it was read to."""
        way, position = self._place.config["events.kernel_log"], self._position
        self._opens_at = time.monotonic() + _OPEN_AGAIN_S
        if way == "no":
            self._why = "[events] kernel_log is no"
            return
        sequence, usec = int(str(position.get("sequence", -1))), int(str(position.get("usec", -1)))
        if way in ("auto", dev_kmsg.NAME):
            path = os.path.join(self._place.root, "dev/kmsg")
            try:
                self._log = dev_kmsg.KernelMessages(path, sequence, usec)
                self._why = ""
                return
            except OSError as error:
                self._why = f"{path}: {private_files.why(error)}"
        if way in ("auto", journald.NAME) and self._place.root == "/":
            try:
                self._log = journald.JournalMessages(str(position.get("cursor", "")), usec)
                self._why = ""
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
                self._why = "; ".join(filter(None, (self._why, why)))
        elif way == journald.NAME:
            self._why = f"journalctl shows the log of this machine, and not of {self._place.root}"

    def _close_log(self, why: str) -> None:
        if self._log is not None:
            self._lost += self._log.lost
            self._position = self._where()
            self._log.close()
        self._log, self._why = None, one_line(why)

    # -- the state -------------------------------------------------------------------------------

    def _where(self) -> dict[str, object]:
        """Where the log was read to."""
        log = self._log
        return self._position if log is None else {
            "sequence": log.sequence, "usec": log.usec, "cursor": getattr(log, "cursor", "")}

    def _state(self) -> dict[str, object]:
        log = self._log
        return {"version": _VERSION, "boot_id": self._place.boot_id, "position": self._where(),
                "folder": self._folder.as_json(), "joined": self._joiner.as_json(),
                "sources": self._seen, "series": self._series,
                "anchors": self._clock.anchors, "end": self._end_s,
                "untold": [as_json(event) for event in self._untold.values()],
                "pending": [[as_json(event), name] for event, name in self._pending],
                "held": [[as_json(event), name] for event, name in self._held],
                "lines": self._lines + self._folder.lines,
                "lost": self._lost + (log.lost if log else 0)}

    def _restore(self) -> dict[str, object]:
        """Go on from the kept state; the log's position, {} where it has none of this boot."""
        if self._state_path is None:
            return {}
        try:
            return self._restored(json.loads(private_files.read_text(self._state_path)))
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = private_files.why(error)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError,
                RecursionError) as error:
            why = one_line(f"{type(error).__name__}: {error}")[:200]
        self.unused.append(
            f"{self._state_path}: cannot be used: {why}; the kernel's log is told again from its "
            f"oldest line, by the same ids; what changed in the files of health, targets and "
            f"connections since the last look is not told")
        return {}

    def _restored(self, kept: dict[str, Any]) -> dict[str, object]:
        """The same; of a damaged state ValueError, TypeError and the like, and nothing is taken."""
        if not isinstance(kept, dict) or kept.get("version") not in range(1, _VERSION + 1):
            raise ValueError(f"expected a state of version 1 to {_VERSION}")
        joiner = Joiner(kept.get("joined"))
        untold = {one.id: one for one in map(from_json, kept.get("untold", []))}
        if kept["boot_id"] != self._place.boot_id:
            self._joiner, self._untold = joiner, untold
            return {}
        clock = WallClock((int(usec), float(wall)) for usec, wall in kept.get("anchors", []))
        for usec, wall in self._clock.anchors[1:]:
            clock.tie(usec, wall)
        folder = Folder(self._place.boot_id, self._place.node, self._most, clock,
                        kept.get("folder"), self._devices.target_of)
        pending, held = ([(from_json(event), str(name)) for event, name in kept.get(key, [])]
                         for key in ("pending", "held"))
        # Without what was folded, an open window is counted from its beginning.
        position = dict(kept.get("position", {})) if "folder" in kept else {}
        int(str(position.get("sequence", -1))), int(str(position.get("usec", -1)))
        seen, end = dict(kept.get("sources", {})), kept.get("end")
        series = dict(kept.get("series", {}))
        lines, lost = int(kept.get("lines", 0)), int(kept.get("lost", 0))
        end = None if end is None else float(end)
        self._joiner, self._untold, self._clock, self._folder = joiner, untold, clock, folder
        self._pending, self._held, self._seen, self._end_s = pending, held, seen, end
        # What version 1 had open keeps its ids.
        self._series = {name: str(series.get(name, "")) for name, state in seen.items()
                        if state is not None and (name in series or kept["version"] == 1)}
        self._lines, self._lost = lines, lost
        return position


def _anchors(root: str) -> list[tuple[int, float]]:
    """The boot, and where root may read it the log's clock now, each with the wall clock."""
    now = time.time()
    found = [(0, now - time.clock_gettime(time.CLOCK_BOOTTIME))]
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
                    found.append((int(float(value) * 1000), now))
                except ValueError:
                    pass
                return found
    return found
