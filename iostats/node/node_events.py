"""
What went wrong on this node between a job's start and its end.

The start has `state` and `import` of each target as they were (sources/state.py).  What comes after
that is found at the end, and on the way by a process that is there anyway, `watch` or the one of
`iostats run`, since a target that is down fills its history in half a minute.  It keeps beside the
start, when there is news:

    {"seq": "9f2c31d0a4b85e67",         of the start
     "state": {...},                    of the last look, as events/import_changes.py has it
     "events": [...],                   so far, as JSON; at most 1,000
     "dropped": 0,                      how many more there were
     "gone": {"scratch-OST0003": 1795333379.0},         up to when its states are not known
     "at": 1795333379.0,                when the last look was
     "joined": {...}}                   what was told, as events/joining.py has it

The kernel's log is read at the end, where it may be (kernel_log_since.py); what it and a history
say of the same thing is one event.
"""

from __future__ import annotations

import time

from iostats.base import strict_json
from iostats.base.errors import IostatsError
from iostats.events import event, import_changes
from iostats.events.joining import LOG, Joiner
from iostats.lustre import import_files
from iostats.lustre.kernel_log import EVICTED
from iostats.node.kernel_log_since import KernelLogSince
from iostats.totals.snapshot import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.lustre.paths import File
    from iostats.node.start_files import StartFiles
    from iostats.totals.snapshot import Snapshot

MOST_KEPT, MOST_SENT = 1000, 100
LOOK_EVERY_S, LOOK_AGAIN_S = 60.0, 15.0         # all connected; one of the targets is not
_LONGEST_UNSEEN = 500
_MOST_IDS = 100_000
_WHOLE_START = ("osc", "mdc")                   # a start of any release that saw a target has one


_at_hand: dict[str, NodeEvents] = {}            # by seq: of the process that looks and ends


def since(kept: StartFiles, start: Snapshot, root: str, config: Config) -> NodeEvents:
    """What is known since a start: what this process has seen, or what is kept."""
    found = _at_hand.get(start.seq)
    if found is None:
        found = _at_hand[start.seq] = NodeEvents(kept, start, root, config)
    return found


class NodeEvents:
    """
    What is known so far since one start.

    Attributes:
        events: {id: Event}.
        dropped: how many more there were.
        gone: {target: up to when its states are not known}.
        is_connected: whether all targets were, at the last look.
        say: gets a line about a file that is not of its form.
    """

    say: Callable[[str], None] = staticmethod(lambda text: None)

    def __init__(self, kept: StartFiles, start: Snapshot, root: str, config: Config) -> None:
        self._kept, self._start, self._root, self._config = kept, start, root, config
        self._log: KernelLogSince | None = None
        self._joiner = Joiner()
        self._ids_dropped: set[str] = set()     # a target that is away is told again and again
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
        """What an earlier look has kept, or the start."""
        try:
            found = strict_json.loads(self._kept.load(self._kept.events_path) or b"{}")
            if found.get("seq") == self._start.seq:
                events = [event.from_json(one) for one in found["events"]]
                self._state = dict(found["state"])
                joiner, at = Joiner(found["joined"]), float(found["at"])
                self.dropped = int(found["dropped"])
                self.gone = {str(name): float(at) for name, at in found["gone"].items()}
                self.events = {one.id: one for one in events}
                self._joiner, self._at = joiner, at
                return
        except (IostatsError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass                                # damaged: the start still stands
        self._state = None

    def take(self, files: list[File], boot_id: str, now: float) -> bool:
        """Take one look's `state` and `import`, read at `now`; whether there is news."""
        since = self._start.wall_ns / 1e9
        if self._log is None:
            self._log = KernelLogSince(self._root, self._config, self._start, boot_id)
        logged = self._log.read()
        deactivated = {target: [at for at in times if self._at < at <= now]
                       for target, times in self._log.deactivated.items()}
        self._at = now
        before = self._state
        known: list[File] = files
        unknown: list[File] = []
        if before is None:
            before = {}
            if self._start.boot_id == boot_id:
                before = import_changes.texts_of(self._start.files)
                # Those which the start could not read, or a start of an earlier release.
                listed = {one.name for one in self._start.files
                          if one.source in (import_files.STATE, *_WHOLE_START)}
                unknown = [one for one in files if one.name in listed and one.name not in before]
                known = [one for one in files if one.name not in listed or one.name in before]
        node = self._start.node
        seen = import_changes.changes(known, before, boot_id, node, now, deactivated)
        late = import_changes.changes(unknown, None, boot_id, node, now, deactivated)
        # Only the clock tells which of these are of this job.
        found = seen.events + [one for one in late.events if one.time > since]
        self.gone.update(seen.gone_before)
        self.gone.update({target: at for target, at in late.gone_before.items() if at > since})
        for why in seen.bad + late.bad:
            self.has_bad = True
            self.say(why)
        self.refused = {code: seen.refused.get(code, 0) + late.refused.get(code, 0)
                        for code in (*seen.refused, *late.refused)}
        self._state = {**seen.state, **late.state}
        self.is_connected = all(import_changes.is_connected(one) for one in self._state.values())
        told = [each for one in found for each in self._joiner.take(one, import_changes.NAME)]
        told += [each for one in logged for each in self._joiner.take(one, LOG)]
        return self._add(told) or bool(seen.gone_before)

    def _add(self, found: Iterable[Event]) -> bool:
        """Whether any of these was not known, or knows more; the most severe are kept."""
        has_news = False
        for one in found:
            before = self.events.get(one.id)
            after = one if before is None else event.latest(before, one)
            if after != before and one.id not in self._ids_dropped:
                has_news = True
                self.events[one.id] = after
        if len(self.events) > MOST_KEPT:
            for one in _most_severe_first(self.events.values())[MOST_KEPT:]:
                del self.events[one.id]
                self.dropped += 1
                if len(self._ids_dropped) < _MOST_IDS:
                    self._ids_dropped.add(one.id)
        return has_news

    def keep(self) -> None:
        """Keep it for the end; a full disk is no trouble now."""
        import json
        try:
            self._kept.keep_events(json.dumps(
                {"seq": self._start.seq, "state": self._state, "dropped": self.dropped,
                 "gone": self.gone, "at": self._at, "joined": self._joiner.as_json(),
                 "events": [event.as_json(one) for one in self.events.values()]},
                separators=(",", ":")).encode())
        except IostatsError:
            pass

    def look(self, boot_id: str, keep: bool = False) -> float:
        """Look now, and keep what is news, or, with `keep`, all; in how many s to look again."""
        files = import_files.read(self._root, self._config["node.file_systems"])
        has_news = self.take(files, boot_id, time.time())
        if has_news or keep:
            self.keep()
        return LOOK_EVERY_S if self.is_connected else LOOK_AGAIN_S

    def of_report(self) -> dict[str, Any]:
        """
        Members of the report: `events_unseen`, and `events` and `events_dropped` unless nothing
        could be seen.
        """
        unseen_log = self._log.unseen if self._log is not None else "it was not looked for"
        most = _most_severe_first(self.events.values())
        sent = sorted(most[:MOST_SENT], key=lambda one: (one.time, one.target, one.kind))
        unseen = self._unseen(unseen_log)
        found: dict[str, Any] = {"events_unseen": unseen} if unseen else {}
        if unseen_log and self.refused and not self._state and not most:
            return found
        return {**found, "events": [event.as_json(one) for one in sent],
                "events_dropped": self.dropped + len(most) - len(sent)}

    def evictions(self) -> dict[str, int]:
        """{file system: how often a target of it evicted this node since the start}."""
        since, found = self._start.wall_ns // 1_000_000_000, {}     # type: int, dict[str, int]
        for one in self.events.values():
            if one.kind == EVICTED and not one.cause and one.last >= since:
                found[one.file_system] = found.get(one.file_system, 0) + one.count
        return found

    def _unseen(self, log: str) -> str:
        """What could not be seen, and why: no names or times, so that nodes say the same."""
        parts = []
        if log and self.refused:
            code, _ = max(self.refused.items(), key=lambda item: item[1])
            parts.append(f"the connections with targets may not be seen: {reason(code)}")
        elif log and self.gone:
            parts.append("the kernel keeps 16 states of a connection, and some were gone")
        if parts:
            parts.append(log)
        if self.has_bad:
            parts.append("a file `state` or `import` is not of its form")
        return "; ".join(parts)[:_LONGEST_UNSEEN]


def _most_severe_first(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (-one.severity, one.time))
