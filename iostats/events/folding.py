"""
From lines of the kernel's log to events: many lines, one event.

    4,444,758211829,-;Lustre: scratch-OST0003: haven't heard from client f15aa50c ... (at NID) ...
    4,445,758211921,-;Lustre: Skipped 23 previous similar messages

What is of one kind, at one target, in the same ten seconds of the log's clock, is one event with a
count.  So its id does not depend on when and by whom the log was read.  What is more than a line:

* A lock's eviction prints two lines, and one for each lock: a client is counted once.
* A recovery is one event, from its first line to `Recovery over`; those that it evicts are another,
  whether they are told one by one, by number, or both.
* `Failing over X` and `server umount X complete` are one, and so are ASSERTION and LBUG.
* A target that an administrator had deactivated says, when it is activated, that the connection
  was lost and that this client was evicted: neither was.
* `Skipped N` belongs to the line before it of the same label.

A flood is counted, not parsed: what of a line is the same for all clients, threads and times (its
shape) is parsed once for each target.  Other parts of the kernel (system_log.py) print few lines.

Long because: a line is looked at once, and that decides how it is folded.
"""

from __future__ import annotations

from iostats.events.event import MOST_CLIENTS, Event, made
from iostats.events.fold import (
    BY_NID,
    COUNTED,
    ONE_BY_ONE,
    PASSED_OVER,
    SLOWLY,
    Fold,
    Shape,
    lost_fold,
    restored_fold,
    target_in,
)
from iostats.events.kinds import EVENTS_DROPPED
from iostats.events.pieces import LABELS, Pieces
from iostats.events.remembered import RECOVERY_US, WINDOW_US, Remembered
from iostats.events.windows import Windows
from iostats.lustre import kernel_log, system_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.events.wall_clock import WallClock

_HEX = b"0123456789abcdef"
_LONGEST = 8192                         # bytes of a record
_COMPARED = 320                         # characters of a line that tell what it says
_MOST_SHAPES = _MOST_RECOVERIES = 4096
_MOST_TRIES = 16                        # lines of an event that are looked at for clients
_LARGEST_US = 2**53
_OVER = "Recovery over after "
OF_CLIENTS = (kernel_log.CONNECTION_LOST, kernel_log.CONNECTION_RESTORED, kernel_log.EVICTED)


def _usec_of(data: bytes, at: int) -> int | None:
    """
    The timestamp of a record, in us of the log's clock; its text begins after `at`.  None: damaged.
    """
    ends = data.find(b",-", 0, at)
    try:
        usec = int(data[data.rfind(b",", 0, ends) + 1:ends])
    except ValueError:
        return None
    return usec if 0 <= usec < _LARGEST_US else None


class Folder:
    """
    The events of one machine's log, as it is read.

    Attributes:
        lines: lines of Lustre and LNet taken.
        skipped: lines that the kernel says it did not print.
        activated: {target that was deactivated: when it was activated, s since 1970}.
        windows: the Windows that are open, and how much there is room for.
        replaced: [(target, s since 1970)] of storage servers that came back; the caller clears it.
    """

    def __init__(self, boot_id: str, node: str, most: int, clock: WallClock,
                 kept: dict[str, object] | None = None,
                 target_of: Callable[[str], str] = lambda device: "") -> None:
        """
        `most`: room for different events in one window; `kept`: what as_json() gave before;
        `target_of`: returns the target on a device or ZFS pool, or "".

        `kept` of another form raises ValueError, TypeError, KeyError or AttributeError.
        """
        self._boot_id, self._node, self._clock = boot_id, node, clock
        self._target_of = target_of
        self.lines = self.skipped = 0
        self.replaced: list[tuple[str, float]] = []
        self._shapes: dict[tuple[bytes, bytes], Shape] = {}
        self._kinds: dict[bytes, str] = {}              # of shapes, for a window that is full
        self._full: dict[bytes, tuple[int, Fold, str]] = {}     # shape -> (window, Fold, label)
        self.windows = self._windows = Windows(most)
        self._changed: list[Fold] = []
        self._last: dict[str, Fold | None] = {}
        self._pieces = Pieces()
        self._known = Remembered()
        self._recoveries: dict[str, Fold] = {}
        self.activated: dict[str, float] = {}
        if kept is not None:
            self._restore(kept)

    # -- lines -----------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """One record of /dev/kmsg: what one read(2) gives."""
        at = data.find(b";")
        if at < 7 or data[1] != 44 or data[0] > 55:     # facility 0: the kernel's own
            return
        if self._pieces.waiting or data.find(b",-", 0, at) < 0:
            self._take_whole(self._pieces.add(data, at))
        elif data.startswith(LABELS, at + 1):
            self._take_line(data, at)
        elif data.startswith(system_log.STARTS, at + 1):
            self._take_system_line(data, at)

    def _take_whole(self, records: list[bytes]) -> None:
        for data in records:
            at = data.find(b";")
            if data.startswith(LABELS, at + 1):
                self._take_line(data, at)
            elif data.startswith(system_log.STARTS, at + 1):
                self._take_system_line(data, at)

    def _take_system_line(self, data: bytes, at: int) -> None:
        """Fold a line of another part of the kernel: there are few, so each of them is parsed."""
        usec, record = _usec_of(data, at), kernel_log.record(data[:_LONGEST])
        message = system_log.message(record.text) if record else None
        if usec is None or message is None:
            return
        self.lines += 1
        target = self._target_of(message.device) if message.kind in system_log.OF_STORAGE else ""
        window = self._windows.open(usec // WINDOW_US)
        origin = ("log", message.kind, "", target or message.device, str(window))
        fold = self._windows.folds[window].get(origin)
        if fold is None:
            if self._windows.is_full(message.kind, window):
                self._overflow(message.kind, usec, window).count += 1
                return
            fold = Fold(origin, message.kind, "", target.rpartition("-")[0], target, usec,
                        self._clock.wall(usec), message.text)
            self._windows.add(window, fold)
        fold.count += 1
        self._touch(fold, usec)

    def _take_line(self, data: bytes, at: int) -> None:
        usec = _usec_of(data, at)
        if usec is None:
            return
        self.lines += 1
        body = data[at + 1:at + _COMPARED]
        shape = body.translate(None, _HEX)
        colon = body.find(b": ") + 2
        name = body[colon:body.find(b": ", colon)]
        if b" " in name:
            name = target_in(body)
        line = self._shapes.get((name, shape))
        window = usec // WINDOW_US
        if line is None:
            full = self._full.get(shape)
            if full is None or full[0] != window:
                line = self._learn(data, at, name, shape, usec)
                full = self._full.get(shape)
            if line is None and full is not None:
                full[1].count += 1
                self._touch(full[1], usec)
                self._last[full[2]] = full[1]
        if line is None:
            return
        way = line.way
        if way == SLOWLY:
            self._take_slowly(data, line, usec, window)
            return
        if way == PASSED_OVER:
            self._last[line.label] = None
            return
        known = self._known
        if (known.deactivated and line.kind in OF_CLIENTS and not line.cause
                and known.was_deactivated(line, usec)):
            self._last[line.label] = None
            self.activated[line.target] = self._clock.wall(usec)
            return
        fold = line.fold if line.window == window else None
        if fold is None:
            fold = line.fold = self._fold(line, data, usec, window)
            line.window = window
        self._last[line.label] = fold
        if way == BY_NID and fold.kind == kernel_log.EVICTED:
            timer = body.find(b"evicting client at ")
            begins = timer + 19 if timer >= 0 else body.find(b" on nid ") + 8
            nid = body[begins:body.find(b" ", begins)]
            if not known.is_new_lock(line.key + nid, usec, timer >= 0):
                return
        fold.count += 1
        if usec > fold.last:
            fold.last = usec
        if not fold.is_changed:
            fold.is_changed = True
            self._changed.append(fold)
        if len(fold.clients) < MOST_CLIENTS and fold.tries < _MOST_TRIES:
            fold.tries += 1
            self._add_clients(fold, data)

    def lost(self, count: int, sequence: int, usec: int) -> None:
        """`count` lines are gone, behind the one numbered `sequence`; `usec`: of the next."""
        self._touch(lost_fold(count, sequence, usec, self._clock.wall(usec)), usec)

    @property
    def waiting(self) -> int:
        """Events that changed() would give."""
        return len(self._changed)

    def is_recovering(self, target: str) -> bool:
        """Whether the log has begun a recovery of `target`, and not ended it."""
        return target in self._recoveries

    # -- what comes out --------------------------------------------------------------------------

    def changed(self) -> list[Event]:
        """The events that are new or have grown since the last call."""
        self._take_whole(self._pieces.flush())
        found, self._changed = self._changed, []
        events = []
        dropped: dict[str, list[Fold]] = {}
        for fold in found:
            fold.is_changed = False
            if fold.origin[1] == EVENTS_DROPPED:
                dropped.setdefault(fold.origin[2], []).append(fold)
            else:
                events.append(self._event(fold))
        for window in dropped:
            of_window = [one for one in self._windows.folds.get(int(window), {}).values()
                         if one.origin[1] == EVENTS_DROPPED] or dropped[window]
            events.append(self._dropped_event(window, of_window))
        return events

    def as_json(self) -> dict[str, object]:
        """What a restart has to know; it is whole only after changed()."""
        return {"windows": self._windows.as_json(),
                "recoveries": [[name, fold.as_json()] for name, fold in self._recoveries.items()],
                "last": [[label, fold.origin] for label, fold in self._last.items() if fold],
                "known": self._known.as_json()}

    def _restore(self, kept: dict[str, object]) -> None:
        self._windows.restore(kept["windows"])                                  # type: ignore
        for name, value in kept["recoveries"]:                                  # type: ignore
            fold = restored_fold(value)
            # The same object, where its window is still open.
            for folds in self._windows.folds.values():
                fold = folds.get(fold.origin, fold)
            self._recoveries[name] = fold
        for label, origin in kept["last"]:                                      # type: ignore
            known = [one for open_ in self._windows.folds.values() for one in open_.values()]
            for one in (*self._recoveries.values(), *known):
                if one.origin == tuple(origin):
                    self._last[str(label)] = one
        self._known.restore(kept["known"])                                      # type: ignore

    def _event(self, fold: Fold) -> Event:
        return made(self._boot_id, self._node, fold.origin, fold.kind, fold.time,
                    last=self._clock.wall(fold.last) if fold.last > fold.first else None,
                    over=fold.over, cause=fold.cause, file_system=fold.file_system,
                    target=fold.target, clients=fold.clients, count=max(1, fold.count),
                    skipped=fold.skipped, message=fold.message)

    def _dropped_event(self, window: str, folds: list[Fold]) -> Event:
        kinds = ", ".join(f"{fold.count:,} {fold.origin[3]}"
                          for fold in sorted(folds, key=lambda one: (-one.count, one.origin)))
        first = min(folds, key=lambda one: one.first)
        return made(self._boot_id, self._node, ("log", EVENTS_DROPPED, window), EVENTS_DROPPED,
                    first.time, last=self._clock.wall(max(fold.last for fold in folds)),
                    count=sum(fold.count for fold in folds),
                    skipped=sum(fold.skipped for fold in folds),
                    message=f"lines of more than {self._windows.most:,} different events in ten "
                            f"seconds: {kinds}")

    # -- shapes and folds ------------------------------------------------------------------------

    def _learn(self, data: bytes, at: int, name: bytes, shape: bytes, usec: int) -> Shape | None:
        """
        The Shape of a line of a new form, or at a new target; None where there is no room for its
        event in its window, and it is only to be counted.
        """
        label = data[at + 1:data.find(b": ", at)].decode("ascii")
        kind, window = self._kinds.get(shape), usec // WINDOW_US
        if kind and kind not in ONE_BY_ONE and self._windows.is_full(kind, window) and (
                self._windows.open(window) == window):
            self._full[shape] = (window, self._overflow(kind, usec, window), label)
            return None
        found = kernel_log.record(data[:_LONGEST])
        line = Shape(label, shape, kernel_log.message(found) if found else None)
        if len(self._shapes) >= _MOST_SHAPES:
            for known in (self._shapes, self._kinds, self._full):
                known.clear()
        self._shapes[name, shape] = line
        self._kinds[shape] = line.kind
        return line

    def _fold(self, line: Shape, data: bytes, usec: int, window: int) -> Fold:
        """The Fold that a line belongs to; a new one where there is none."""
        at = self._windows.open(window)
        is_of_all = line.kind == kernel_log.DATA_LOST           # it names no target
        place = line.file_system if is_of_all else line.target or line.device
        origin: tuple[str, ...] = ("log", line.kind, line.cause, place, str(at))
        if line.kind == kernel_log.OTHER:
            origin = (*origin, line.shape)
        fold = self._windows.folds[at].get(origin)
        if fold is None:
            if self._windows.is_full(line.kind, at):
                return self._overflow(line.kind, usec, at)
            found = kernel_log.record(data[:_LONGEST])
            told = kernel_log.message(found) if found else None
            fold = Fold(origin, line.kind, line.cause, line.file_system, line.target, usec,
                        self._clock.wall(usec, told.wall_s if told else None),
                        told.text if told else "")
            self._windows.add(at, fold)
        return fold

    def _overflow(self, kind: str, usec: int, window: int) -> Fold:
        """The Fold that counts lines of `kind` that have none of their own."""
        at = self._windows.open(window)
        origin = ("log", EVENTS_DROPPED, str(at), kind)
        fold = self._windows.folds[at].get(origin)
        if fold is None:
            fold = self._windows.folds[at][origin] = Fold(
                origin, EVENTS_DROPPED, "", "", "", usec, self._clock.wall(usec), "")
        self._touch(fold, usec)
        return fold

    def _touch(self, fold: Fold, usec: int) -> None:
        fold.last = max(fold.last, usec)
        if not fold.is_changed:
            fold.is_changed = True
            self._changed.append(fold)

    def _add_clients(self, fold: Fold, data: bytes) -> None:
        found = kernel_log.record(data[:_LONGEST])
        told = kernel_log.message(found) if found else None
        if told is None or not told.nids or told.speaker != "server":
            return
        is_about_clients = (told.kind in (kernel_log.EVICTED, kernel_log.CLIENT_RECONNECTING)
                            or (told.kind == kernel_log.OTHER and told.device == told.target))
        if is_about_clients and fold.kind != EVENTS_DROPPED:
            fold.clients = tuple(dict.fromkeys((*fold.clients, *told.nids)))[:MOST_CLIENTS]

    # -- what needs more than its shape ----------------------------------------------------------

    def _take_slowly(self, data: bytes, line: Shape, usec: int, window: int) -> None:
        found = kernel_log.record(data[:_LONGEST])
        told = kernel_log.message(found) if found else None
        if told is None:
            return
        if told.kind == kernel_log.SKIPPED:
            self._take_skipped(told, usec)
            return
        self._last[line.label] = None
        if (told.kind, told.cause) != (line.kind, line.cause):      # one letter, or digit, is wrong
            line = Shape(line.label, told.text.encode(), told)
            if line.way in (COUNTED, BY_NID):
                self._count(line, data, usec, window)
            if line.way != SLOWLY:
                return
        if told.kind == kernel_log.DEACTIVATED:
            self._known.keep("deactivated", told.target, [0])
        elif told.kind == kernel_log.REPLACED:
            self.replaced.append((told.device, self._clock.wall(usec)))
            del self.replaced[_MOST_SHAPES:]
        elif told.kind == kernel_log.RECOVERY:
            self._take_recovery(told, line, data, usec, window)
        elif told.kind == kernel_log.EVICTED:
            self._take_evicted_after_recovery(told, line, data, usec, window, 1, "named")
        elif not self._known.is_second(told, usec):
            self._count(line, data, usec, window)

    def _count(self, line: Shape, data: bytes, usec: int, window: int, count: int = 1) -> Fold:
        fold = self._fold(line, data, usec, window)
        fold.count += count
        self._last[line.label] = fold
        self._touch(fold, usec)
        return fold

    def _take_skipped(self, told: kernel_log.Message, usec: int) -> None:
        self.skipped += told.count
        fold = self._last.get(told.label)
        if fold is not None and abs(usec - fold.last) <= 1_000_000:
            fold.skipped += told.count
            self._touch(fold, fold.last)
        self._last[told.label] = None

    def _take_recovery(self, told: kernel_log.Message, line: Shape, data: bytes, usec: int,
                       window: int) -> None:
        """One of the lines between a target's start and `Recovery over`."""
        rest = told.text.partition(": ")[2]
        fold = self._recoveries.get(told.target)
        if fold is not None and (rest.startswith("Will be in recovery")
                                 or not 0 <= usec - fold.last < RECOVERY_US):
            del self._recoveries[told.target]
            self._known.recovery_ended(told.target)
            fold = None
        if fold is None:
            fold = self._fold(line, data, usec, window)
            if fold.kind == kernel_log.RECOVERY:
                if len(self._recoveries) >= _MOST_RECOVERIES:
                    self._recoveries.pop(next(iter(self._recoveries)))
                self._recoveries[told.target] = fold
        fold.count = 1 if fold.kind == kernel_log.RECOVERY else fold.count + 1
        self._touch(fold, usec)
        self._last[line.label] = fold
        is_over = rest.startswith(_OVER)
        if is_over and fold.kind == kernel_log.RECOVERY:
            fold.over, fold.message = max(fold.time, self._clock.wall(usec)), told.text
            self._recoveries.pop(told.target, None)
        if is_over or rest.startswith("disconnecting "):
            form = "over" if is_over else "number"
            self._take_evicted_after_recovery(told, line, data, usec, window, told.count, form)
        if is_over:
            self._known.recovery_ended(told.target)

    def _take_evicted_after_recovery(self, told: kernel_log.Message, line: Shape, data: bytes,
                                     usec: int, window: int, count: int, form: str) -> None:
        """Those that a recovery evicts: told one by one, by number, or both, and once more."""
        more = self._known.more_evicted(told.target, count, form, usec)
        if told.kind == kernel_log.EVICTED or more:
            one = Shape(line.label, b"", told._replace(kind=kernel_log.EVICTED, cause="recovery"))
            fold = self._fold(one, data, usec, window)
            fold.count += more
            if fold.kind == kernel_log.EVICTED and len(fold.clients) < MOST_CLIENTS:
                self._add_clients(fold, data)
            if fold.count:                      # none: told in a window before, by number
                self._touch(fold, usec)
