"""
Events from lines of the kernel's log: many lines, one event.

    4,444,758211829,-;Lustre: scratch-OST0003: haven't heard from client f15aa50c ... (at NID) ...
    4,445,758211921,-;Lustre: Skipped 23 previous similar messages
    4,446,758211929,c;LustreError: a          the flag c, and + in older kernels: a piece of a line
    4,447,758211941,+; and b

Lines of one kind, at one target, within the same ten seconds of the log's clock (a Window), are one
event with a count.  So its id does not depend on the time and the reader of the log.  Two windows
are open, since lines of several CPUs may be slightly out of order.  Special cases:

* A lock's eviction prints two lines, and one for each lock: a client is counted once.
* A recovery is one event, from its first line to `Recovery over`; its evictions are another,
  whether they are logged singly, as a number, or both.
* `Failing over X` and `server umount X complete` are one, and so are ASSERTION and LBUG.
* When an administrator activates a target, the log has a lost connection and an eviction of this
  client: neither is true.
* `Skipped N` belongs to the line before it of the same label.
* Kernels join the pieces of a line where they can; lines of others may stand between two pieces.

A flood is counted, not parsed: the common text of a line for all clients, threads and times (its
shape) is parsed once for each target.  Other parts of the kernel (system_log.py) print few lines.

Source: Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

from iostats.events.event import MOST_CLIENTS, Event, make_event
from iostats.events.grouping_state import (
    BY_NID,
    COUNTED,
    ONE_BY_ONE,
    PASSED_OVER,
    RECOVERY_US,
    SLOWLY,
    WINDOW_US,
    EarlierLines,
    EventGroup,
    Shape,
    find_target_name,
    make_group_of_lost_lines,
    restore_group,
)
from iostats.events.kinds import CRITICAL, EVENTS_DROPPED, FATAL, KINDS
from iostats.lustre import kernel_log, system_log
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from iostats.events.grouping_state import StoredGroup
    from iostats.events.wall_clock import WallClock

    class StoredWindows(TypedDict):
        """The state of Windows as JSON."""

        newest: int
        windows: list[tuple[int, int, list[StoredGroup]]]    # window, events in it, events

_JUMPED = 6                             # windows back: the log's clock is another one


class Windows:
    """
    The open windows.

    Attributes:
        groups: {window: {origin: EventGroup}}.
    """

    def __init__(self, max_events: int) -> None:
        """`max_events`: different events in one window."""
        self.most, self._newest = max_events, 0
        self.groups: dict[int, dict[tuple[str, ...], EventGroup]] = {}
        self._used: dict[int, int] = {}

    def open(self, window: int) -> int:
        """Open the window for a line of `window`, which closes older ones."""
        if window > self._newest:
            self._newest = window
        elif window < self._newest - _JUMPED:
            self.groups.clear()
            self._used.clear()
            self._newest = window
        elif window < self._newest - 1:
            window = self._newest - 1
        if window not in self.groups:
            self.groups[window] = {}
            self._used[window] = 0
            for old in [window for window in self.groups if not self._newest - 2 < window]:
                del self.groups[old], self._used[old]
        return window

    def is_full(self, kind: str, window: int) -> bool:
        """True if there is no room for an event of `kind`; severe ones have more room."""
        severity = KINDS[kind].severity
        share = 10 if severity >= FATAL else 9 if severity >= CRITICAL else 7
        return self._used.get(window, 0) * 10 >= self.most * share

    def add(self, window: int, group: EventGroup) -> None:
        """Add an event to an open window that has room."""
        self.groups[window][group.origin] = group
        self._used[window] += 1

    def as_json(self) -> StoredWindows:
        return {"newest": self._newest,
                "windows": [(window, self._used[window],
                             [group.as_json() for group in groups.values()])
                            for window, groups in self.groups.items()]}

    def restore(self, state: StoredWindows) -> None:
        """
        Continue from the value of as_json(); ValueError, TypeError and the like for an unexpected
        format.
        """
        self._newest = int(state["newest"])
        for window, used, groups in state["windows"]:
            self.groups[int(window)] = {group.origin: group for group in map(restore_group, groups)}
            self._used[int(window)] = int(used)


LABELS = (b"Lustre: ", b"LustreError: ", b"LNet: ", b"LNetError: ")


class Pieces:
    """The pieces of one line, until it ends."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    def add(self, data: bytes, at: int) -> list[bytes]:
        """
        Add `data`, a piece or a whole record with its text at `at`; the records that are complete
        now.
        """
        fields = data[:at].split(b",")
        is_piece = len(fields) > 3 and fields[3][:1] in (b"c", b"+")
        text = data[at + 1:].partition(b"\n")[0]
        if is_piece and self.waiting and not text.startswith(LABELS):
            if sum(map(len, self.waiting)) < _LONGEST:
                self.waiting.append(text)
            return []
        whole = self.flush()
        if is_piece:
            self.waiting = [b",".join((*fields[:3], b"-;")) + text]
        else:
            whole.append(data)
        return whole

    def flush(self) -> list[bytes]:
        """Return the record of the collected pieces, if any."""
        pieces, self.waiting = self.waiting, []
        return [b"".join(pieces)] if pieces else []


_HEX = b"0123456789abcdef"
_LONGEST = 8192                         # bytes of a record
_COMPARED = 320                         # characters of a line that tell what it says
_MOST_SHAPES = _MOST_RECOVERIES = 4096
_MOST_TRIES = 16                        # lines of an event that are searched for clients
_LARGEST_US = 2**53
_OVER = "Recovery over after "
OF_CLIENTS = (kernel_log.CONNECTION_LOST, kernel_log.CONNECTION_RESTORED, kernel_log.EVICTED)


class LogGrouper:
    """
    The events of one machine's log.

    Attributes:
        lines: lines of Lustre and LNet taken.
        skipped: lines that the kernel says it did not print.
        activated: {target that was deactivated: when it was activated, s since 1970}.
        windows: the Windows that are open, and how much there is room for.
        replaced: [(target, s since 1970)] of storage servers that came back; the caller clears it.
    """

    def __init__(self, boot_id: str, node: str, max_events: int, clock: WallClock,
                 state: dict[str, object] | None = None,
                 find_target: Callable[[str], str] = lambda device: "") -> None:
        """
        `max_events`: room for different events in one window; `state`: what as_json() gave before;
        `find_target`: returns the target on a device or ZFS pool, or "".

        A `state` of an unexpected format raises ValueError, TypeError, KeyError or AttributeError.
        """
        self._boot_id, self._node, self._clock = boot_id, node, clock
        self._find_target = find_target
        self.lines = self.skipped = 0
        self.replaced: list[tuple[str, float]] = []
        self._shapes: dict[tuple[bytes, bytes], Shape] = {}
        self._kinds: dict[bytes, str] = {}              # of shapes, for a window that is full
        # shape -> (window, EventGroup, label)
        self._full: dict[bytes, tuple[int, EventGroup, str]] = {}
        self.windows = self._windows = Windows(max_events)
        self._changed: list[EventGroup] = []
        self._last: dict[str, EventGroup | None] = {}
        self._pieces = Pieces()
        self._known = EarlierLines()
        self._recoveries: dict[str, EventGroup] = {}
        self.activated: dict[str, float] = {}
        if state is not None:
            self._restore(state)

    # -- lines -----------------------------------------------------------------------------------

    def add_record(self, data: bytes) -> None:
        """Process one record of /dev/kmsg: the result of one read(2)."""
        at = data.find(b";")
        if at < 7 or data[1] != 44 or data[0] > 55:     # facility 0: the kernel's own
            return
        ends = data.find(b",-", 0, at)
        if ends < 0 or self._pieces.waiting:
            self._take_whole(self._pieces.add(data, at))
        else:
            self._take_record(data, at, ends)

    def _take_whole(self, records: list[bytes]) -> None:
        for data in records:
            at = data.find(b";")
            self._take_record(data, at, data.find(b",-", 0, at))

    def _take_system_line(self, data: bytes, usec: int) -> None:
        """Group a line of another part of the kernel: there are few, so each of them is parsed."""
        record = kernel_log.parse_record(data[:_LONGEST])
        message = system_log.parse_message(record.text) if record else None
        if message is None:
            return
        self.lines += 1
        target = self._find_target(message.device) if message.kind in system_log.OF_STORAGE else ""
        window = self._windows.open(usec // WINDOW_US)
        origin = ("log", message.kind, "", target or message.device, str(window))
        group = self._windows.groups[window].get(origin)
        if group is None:
            if self._windows.is_full(message.kind, window):
                self._get_overflow_group(message.kind, usec, window).count += 1
                return
            group = EventGroup(origin, message.kind, "", parse_file_system(target), target, usec,
                        self._clock.compute_time(usec), message.text)
            self._windows.add(window, group)
        group.count += 1
        self._mark_changed(group, usec)

    def _take_record(self, data: bytes, at: int, ends: int) -> None:
        """`at`: where its text begins; `ends`: where its timestamp ends; in us of the log's clock.
        """
        is_lustres = data.startswith(LABELS, at + 1)
        if not is_lustres and not data.startswith(system_log.STARTS, at + 1):
            return
        try:
            usec = int(data[data.rfind(b",", 0, ends) + 1:ends])
        except ValueError:                              # damaged
            return
        if not 0 <= usec < _LARGEST_US:
            return
        if not is_lustres:
            self._take_system_line(data, usec)
            return
        self.lines += 1
        body = data[at + 1:at + _COMPARED]
        shape = body.translate(None, _HEX)
        colon = body.find(b": ") + 2
        name = body[colon:body.find(b": ", colon)]
        if b" " in name:
            name = find_target_name(body)
        line = self._shapes.get((name, shape))
        window = usec // WINDOW_US
        if line is None:
            full = self._full.get(shape)
            if full is None or full[0] != window:
                line = self._learn(data, at, name, shape, usec)
                full = self._full.get(shape)
            if line is None and full is not None:
                full[1].count += 1
                self._mark_changed(full[1], usec)
                self._last[full[2]] = full[1]
        if line is None:
            return
        path = line.way
        if path == SLOWLY:
            self._take_slowly(data, line, usec, window)
            return
        if path == PASSED_OVER:
            self._last[line.label] = None
            return
        earlier_lines = self._known
        if (earlier_lines.deactivated and line.kind in OF_CLIENTS and not line.cause
                and earlier_lines.was_deactivated(line, usec)):
            self._last[line.label] = None
            self.activated[line.target] = self._clock.compute_time(usec)
            return
        group = line.group if line.window == window else None
        if group is None:
            group = line.group = self._find_or_make_group(line, data, usec, window)
            line.window = window
        self._last[line.label] = group
        if path == BY_NID and group.kind == kernel_log.EVICTED:
            timer = body.find(b"evicting client at ")
            begins = timer + 19 if timer >= 0 else body.find(b" on nid ") + 8
            nid = body[begins:body.find(b" ", begins)]
            if not earlier_lines.is_new_lock(line.key + nid, usec, timer >= 0):
                return
        group.count += 1
        if usec > group.last:
            group.last = usec
        if not group.is_changed:
            group.is_changed = True
            self._changed.append(group)
        if group.tries < _MOST_TRIES and len(group.clients) < MOST_CLIENTS:
            group.tries += 1
            self._add_clients(group, data)

    def add_lost_lines(self, count: int, sequence: int, usec: int) -> None:
        """
        Count `count` lost lines after the line with number `sequence`; `usec`: of the next line.
        """
        self._mark_changed(make_group_of_lost_lines(
            count, sequence, usec, self._clock.compute_time(usec)), usec)

    @property
    def waiting(self) -> int:
        """Count the events that list_changed() would return."""
        return len(self._changed)

    def is_recovering(self, target: str) -> bool:
        """Whether the log has begun a recovery of `target`, and not ended it."""
        return target in self._recoveries

    # -- what comes out --------------------------------------------------------------------------

    def list_changed(self) -> list[Event]:
        """The events that are new or have grown since the last call."""
        self._take_whole(self._pieces.flush())
        changed_groups, self._changed = self._changed, []
        events = []
        dropped: dict[str, list[EventGroup]] = {}
        for group in changed_groups:
            group.is_changed = False
            if group.origin[1] == EVENTS_DROPPED:
                dropped.setdefault(group.origin[2], []).append(group)
            else:
                events.append(self._make_event(group))
        for window in dropped:
            of_window = [dropped_group
                         for dropped_group in self._windows.groups.get(int(window), {}).values()
                         if dropped_group.origin[1] == EVENTS_DROPPED] or dropped[window]
            events.append(self._make_dropped_event(window, of_window))
        return events

    def as_json(self) -> dict[str, object]:
        """The state for a restart; complete only after list_changed()."""
        return {"windows": self._windows.as_json(),
                "recoveries": [[name, group.as_json()] for name, group in self._recoveries.items()],
                "last": [[label, group.origin] for label, group in self._last.items() if group],
                "known": self._known.as_json()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._windows.restore(state["windows"])
        for name, value in state["recoveries"]:
            group = restore_group(value)
            # The same object, where its window is still open.
            for groups in self._windows.groups.values():
                group = groups.get(group.origin, group)
            self._recoveries[name] = group
        for label, origin in state["last"]:
            open_groups = [open_group for open_ in self._windows.groups.values()
                          for open_group in open_.values()]
            for open_group in (*self._recoveries.values(), *open_groups):
                if open_group.origin == tuple(origin):
                    self._last[str(label)] = open_group
        self._known.restore(state["known"])

    def _make_event(self, group: EventGroup) -> Event:
        return make_event(self._boot_id, self._node, group.origin, group.kind, group.time,
                          last=(self._clock.compute_time(group.last)
                                if group.last > group.first else None),
                          over=group.over, cause=group.cause, file_system=group.file_system,
                          target=group.target, clients=group.clients, count=max(1, group.count),
                          skipped=group.skipped, message=group.message)

    def _make_dropped_event(self, window: str, groups: list[EventGroup]) -> Event:
        kinds = ", ".join(f"{group.count:,} {group.origin[3]}"
                          for group in sorted(groups, key=lambda group: (-group.count,
                                                                         group.origin)))
        first = min(groups, key=lambda group: group.first)
        return make_event(self._boot_id, self._node, ("log", EVENTS_DROPPED, window),
                          EVENTS_DROPPED,
                          first.time,
                          last=self._clock.compute_time(max(group.last for group in groups)),
                          count=sum(group.count for group in groups),
                          skipped=sum(group.skipped for group in groups),
                          message=f"lines of more than {self._windows.most:,} different events in "
                                  f"ten seconds: {kinds}")

    # -- shapes and groups ------------------------------------------------------------------------

    def _learn(self, data: bytes, at: int, name: bytes, shape: bytes, usec: int) -> Shape | None:
        """
        The Shape of a line of a new form, or at a new target; None if its window has no room for
        the event, which is then only counted.
        """
        label = data[at + 1:data.find(b": ", at)].decode("ascii")
        kind, window = self._kinds.get(shape), usec // WINDOW_US
        if kind and kind not in ONE_BY_ONE and self._windows.is_full(kind, window) and (
                self._windows.open(window) == window):
            self._full[shape] = (window, self._get_overflow_group(kind, usec, window), label)
            return None
        record = kernel_log.parse_record(data[:_LONGEST])
        line = Shape(label, shape, kernel_log.parse_message(record) if record else None)
        if len(self._shapes) >= _MOST_SHAPES:
            for cache in (self._shapes, self._kinds, self._full):
                cache.clear()
        self._shapes[name, shape] = line
        self._kinds[shape] = line.kind
        return line

    def _find_or_make_group(self, line: Shape, data: bytes, usec: int, window: int) -> EventGroup:
        """The EventGroup that a line belongs to, or a new one."""
        at = self._windows.open(window)
        is_of_all = line.kind == kernel_log.DATA_LOST           # it names no target
        place = line.file_system if is_of_all else line.target or line.device
        origin: tuple[str, ...] = ("log", line.kind, line.cause, place, str(at))
        if line.kind == kernel_log.OTHER:
            origin = (*origin, line.shape)
        group = self._windows.groups[at].get(origin)
        if group is None:
            if self._windows.is_full(line.kind, at):
                return self._get_overflow_group(line.kind, usec, at)
            record = kernel_log.parse_record(data[:_LONGEST])
            message = kernel_log.parse_message(record) if record else None
            group = EventGroup(origin, line.kind, line.cause, line.file_system, line.target, usec,
                        self._clock.compute_time(usec, message.wall_s if message else None),
                        message.text if message else "")
            self._windows.add(at, group)
        return group

    def _get_overflow_group(self, kind: str, usec: int, window: int) -> EventGroup:
        """Return the EventGroup that counts the lines of `kind` without a group of their own."""
        at = self._windows.open(window)
        origin = ("log", EVENTS_DROPPED, str(at), kind)
        group = self._windows.groups[at].get(origin)
        if group is None:
            group = self._windows.groups[at][origin] = EventGroup(
                origin, EVENTS_DROPPED, "", "", "", usec, self._clock.compute_time(usec), "")
        self._mark_changed(group, usec)
        return group

    def _mark_changed(self, group: EventGroup, usec: int) -> None:
        group.last = max(group.last, usec)
        if not group.is_changed:
            group.is_changed = True
            self._changed.append(group)

    def _add_clients(self, group: EventGroup, data: bytes) -> None:
        record = kernel_log.parse_record(data[:_LONGEST])
        message = kernel_log.parse_message(record) if record else None
        if message is None or not message.nids or message.speaker != "server":
            return
        is_about_clients = (message.kind in (kernel_log.EVICTED, kernel_log.CLIENT_RECONNECTING)
                            or (message.kind == kernel_log.OTHER
                                and message.device == message.target))
        if is_about_clients and group.kind != EVENTS_DROPPED:
            group.clients = tuple(dict.fromkeys((*group.clients, *message.nids)))[:MOST_CLIENTS]

    # -- what needs more than its shape ----------------------------------------------------------

    def _take_slowly(self, data: bytes, line: Shape, usec: int, window: int) -> None:
        record = kernel_log.parse_record(data[:_LONGEST])
        message = kernel_log.parse_message(record) if record else None
        if message is None:
            return
        if message.kind == kernel_log.SKIPPED:
            self._take_skipped(message, usec)
            return
        self._last[line.label] = None
        # one letter, or digit, is wrong
        if (message.kind, message.cause) != (line.kind, line.cause):
            line = Shape(line.label, message.text.encode(), message)
            if line.way in (COUNTED, BY_NID):
                self._count(line, data, usec, window)
            if line.way != SLOWLY:
                return
        if message.kind == kernel_log.DEACTIVATED:
            self._known.remember("deactivated", message.target, [0])
        elif message.kind == kernel_log.REPLACED:
            self.replaced.append((message.device, self._clock.compute_time(usec)))
            del self.replaced[_MOST_SHAPES:]
        elif message.kind == kernel_log.RECOVERY:
            self._take_recovery(message, line, data, usec, window)
        elif message.kind == kernel_log.EVICTED:
            self._take_evicted_after_recovery(message, line, data, usec, window, 1, "named")
        elif not self._known.is_second(message, usec):
            self._count(line, data, usec, window)

    def _count(self, line: Shape, data: bytes, usec: int, window: int,
               count: int = 1) -> EventGroup:
        group = self._find_or_make_group(line, data, usec, window)
        group.count += count
        self._last[line.label] = group
        self._mark_changed(group, usec)
        return group

    def _take_skipped(self, message: kernel_log.Message, usec: int) -> None:
        self.skipped += message.count
        group = self._last.get(message.label)
        if group is not None and abs(usec - group.last) <= 1_000_000:
            group.skipped += message.count
            self._mark_changed(group, group.last)
        self._last[message.label] = None

    def _take_recovery(self, message: kernel_log.Message, line: Shape, data: bytes, usec: int,
                       window: int) -> None:
        """Process a line between a target's start and `Recovery over`."""
        rest = message.text.partition(": ")[2]
        group = self._recoveries.get(message.target)
        if group is not None and (rest.startswith("Will be in recovery")
                                 or not 0 <= usec - group.last < RECOVERY_US):
            del self._recoveries[message.target]
            self._known.note_recovery_end(message.target)
            group = None
        if group is None:
            group = self._find_or_make_group(line, data, usec, window)
            if group.kind == kernel_log.RECOVERY:
                if len(self._recoveries) >= _MOST_RECOVERIES:
                    self._recoveries.pop(next(iter(self._recoveries)))
                self._recoveries[message.target] = group
        group.count = 1 if group.kind == kernel_log.RECOVERY else group.count + 1
        self._mark_changed(group, usec)
        self._last[line.label] = group
        is_over = rest.startswith(_OVER)
        if is_over and group.kind == kernel_log.RECOVERY:
            group.over, group.message = max(group.time,
                                            self._clock.compute_time(usec)), message.text
            self._recoveries.pop(message.target, None)
        if is_over or rest.startswith("disconnecting "):
            form = "over" if is_over else "number"
            self._take_evicted_after_recovery(message, line, data, usec, window, message.count,
                                              form)
        if is_over:
            self._known.note_recovery_end(message.target)

    def _take_evicted_after_recovery(self, message: kernel_log.Message, line: Shape, data: bytes,
                                     usec: int, window: int, count: int, form: str) -> None:
        """Count evictions of a recovery, which the log may have singly, as a number, or both."""
        more = self._known.count_more_evicted(message.target, count, form, usec)
        if message.kind == kernel_log.EVICTED or more:
            evictions = Shape(line.label, b"",
                              message._replace(kind=kernel_log.EVICTED, cause="recovery"))
            group = self._find_or_make_group(evictions, data, usec, window)
            group.count += more
            if group.kind == kernel_log.EVICTED and len(group.clients) < MOST_CLIENTS:
                self._add_clients(group, data)
            if group.count:                      # 0: reported in an earlier window, by number
                self._mark_changed(group, usec)
