"""
Events of a client's connections, by comparing two readings of its imports.

    {name: [text of `state`, text of `import`, OpenTrouble or null]}

is the state from one reading to the next, as JSON; the texts are those of lustre/import_files.py, a
character a byte.

The kernel keeps the 16 latest states of an import, each with its second:

    FULL                                                      connected
    FULL CONNECTING IDLE CONNECTING FULL                      nothing to do, and work again: 2.12
    FULL DISCONN CONNECTING RECOVER FULL                      lost and restored
    FULL DISCONN CONNECTING EVICTED RECOVER FULL              lost, evicted and restored
    FULL DISCONN CONNECTING REPLAY REPLAY_LOCKS REPLAY_WAIT RECOVER FULL      the target restarted
    CONNECTING DISCONN CONNECTING FULL                        from the mount on: no event

New entries are those after the entries of the earlier reading, whatever the clock shows.  A
target that is down has two entries every 4 to 5 s, so that 16 are less than a minute; if all of
them are new, earlier ones are lost.  The counters of `import` then show whether there were more: a
try to connect counts in connection_attempts; a connection given up as idle and taken up again
counts once in that and once in generation, and so does an eviction.  So an eviction among lost
entries is not detected here; the kernel's log has it.

An outage that is ongoing at a reading (OpenTrouble) is carried to the next one: the second in which
a connection was lost leaves the history long before it is restored.

An administrator who activates a deactivated target makes it lose its connection and be evicted, by
these states; that is no event.  It shows at the earlier reading alone (import_flags), or in the
kernel's log.

Source: import_set_state_nolock(), ptlrpc_set_import_discon(), ptlrpc_connect_import_locked(),
ptlrpc_connect_interpret(), ptlrpc_disconnect_idle_interpret(), ptlrpc_activate_import(),
lustre/ptlrpc/import.c; ptlrpc_set_import_active(), recover.c; ptlrpc_expire_one_request(),
client.c; read in 2.5.3, 2.12.9, 2.15.6 and 2.17.0.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.events import event
from iostats.lustre import import_files, imports, stats
from iostats.lustre.imports import CONNECTED
from iostats.lustre.kernel_log import CONNECTION_LOST, CONNECTION_RESTORED, EVICTED, TIMEOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Optional

    from iostats.events.event import Event
    from iostats.lustre.paths import File

    Entry = tuple[int, str]
    # The texts of `state` and of `import`, and an OpenTrouble or null.
    StoredReading = tuple[str, str, Optional[list[Any]]]


class ImportReading(NamedTuple):
    """The state of a client's connection to a target; None: unknown."""

    state: str | None                   # of imports.STATES
    history: Sequence[tuple[int, str]]  # [(s since 1970, state)], oldest first, at most 16
    is_deactivated: bool | None         # by an administrator
    # timeouts, attempts, generation: of its `import`; numbers that grow
    timeouts: int | None
    attempts: int | None
    generation: int | None
    bad: list[str]                      # [what was not understood]


class TargetChange(NamedTuple):
    """One event of one target, as events.event.make_event() takes it."""

    kind: str                   # "evicted", "connection_lost", "connection_restored" or "timeouts"
    # time, last, over: as of an Event, in s
    time: float
    last: float
    over: float | None
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    origin: tuple[str, ...]     # texts that are the same for all who read this history
    message: str


class OpenTrouble(NamedTuple):
    """The state of a connection at a reading, with its open events, for the next reading."""

    is_connected: bool | None   # FULL or IDLE; None: never since the mount, or not known
    # lost, evicted: the TargetChange that is not over, or None
    lost: TargetChange | None
    evicted: TargetChange | None
    is_older: bool  # that the connection was lost when `lost` says, or before, or never was there
    # it may have been restored and lost again since `lost`, in states that were overwritten
    is_doubtful: bool
    is_activated: bool          # a deactivated target is activated; what that does is no event


class ChangesBetween(NamedTuple):
    """The changes between two readings."""

    # [TargetChange]: what happened, and what was open before and is still, or is over now
    changes: list[TargetChange]
    gone_before: float | None   # up to when states are not known, s since 1970; None where all are
    open: OpenTrouble           # the OpenTrouble of the later reading


MOST_STATES = 16                    # IMP_STATE_HIST_LEN, lustre/include/lustre_import.h
_LARGEST_TIME = 2**40


def parse_reading(state: bytes, import_text: bytes | None) -> ImportReading:
    """The ImportReading of the bytes of `state`, and of `import`; None: it may not be read."""
    parsed = imports.parse_state(state)
    import_data = imports.parse_import(import_text or b"")
    return ImportReading(
        parsed.state or import_data.state, parsed.history[-MOST_STATES:],
        import_data.is_deactivated,
        import_data.timeouts, import_data.attempts, import_data.generation,
        [f"line {number}: {why}" for number, why in parsed.bad.items()]
        + [f"{key}: {why}" for key, why in import_data.bad.items()])


def between(name: str, target: str, before: ImportReading | None, after: ImportReading, now: float,
            opened: OpenTrouble | None = None, deactivated: Iterable[float] = ()) -> ChangesBetween:
    """
    Changes between two readings of an import; `now`: the time of the later one.

    `name`: of the import, with its instance; `target`: for the messages.  `before`: None for one
    mounted between the two.  `opened`: of the earlier reading, where that was a later one, too.
    `deactivated`: when the kernel's log has the target deactivated between the two.

    >>> full = parse_reading(b"current_state: FULL\\nstate_history:\\n - [ 23, FULL ]\\n", None)
    >>> lost = full._replace(state="DISCONN", history=full.history + [(37, "DISCONN")])
    >>> [(one.kind, one.time, one.over) for one in between("a", "b", full, lost, 41.0).changes]
    [('connection_lost', 37, None)]
    """
    earlier = before.history if before is not None else []
    new = _count_new(earlier, after.history)
    if new is None:                                 # mounted again, under the same name
        before, opened, earlier, new = None, None, [], len(after.history)
    walk = _Walk(name, target, now, deactivated)
    if before is not None:
        walk.begin(before, opened)
    entries = after.history[len(after.history) - new:]
    gone_before = None
    if new == MOST_STATES:
        gone_before = walk.limit_time(entries[0][0])
        walk.gap()
    for entry in entries:
        walk.add_state(*entry)
    if gone_before is not None and before is not None:
        walk.hidden(_count_tries_after_losses(before, after) - _count_tries(entries), gone_before)
    changes_found = walk.end(after)
    more = _count_more_timeouts(before, after)
    if more:
        lost = next((change.time for change in changes_found if change.kind == CONNECTION_LOST),
                    None)
        at = walk.limit_time(now)
        changes_found.append(
            TargetChange(TIMEOUTS, at if lost is None else min(lost, at), at, None, more,
                         (name, TIMEOUTS, str(after.timeouts)),
                            f"{more:,} request{'s' if more > 1 else ''} to {target} timed out"))
    return ChangesBetween(changes_found, gone_before, walk.open())


def _count_new(earlier: Sequence[Entry], later: Sequence[Entry]) -> int | None:
    """
    The number of entries in `later` after those of `earlier`, the smallest that fits; None if they
    are of two imports.
    """
    for new in range(len(later)):
        common = later[:len(later) - new]
        # Entries leave the history only where it is full.
        if list(common) == list(earlier[-len(common):]) and (
                len(common) == len(earlier) or len(later) == MOST_STATES):
            return new
    return len(later) if not earlier or len(later) == MOST_STATES else None


def _count_more_timeouts(before: ImportReading | None, after: ImportReading) -> int:
    if after.timeouts is None or after.is_deactivated:
        return 0
    if before is not None and before.is_deactivated:
        return 0
    if before is None:
        return int(after.timeouts)
    return 0 if before.timeouts is None else max(0, after.timeouts - before.timeouts)


def _count_tries_after_losses(before: ImportReading, after: ImportReading) -> int:
    """
    The number of connection attempts that belong neither to an idle target nor to an eviction; 0 if
    unknown.
    """
    if (after.attempts is None or before.attempts is None or after.generation is None
            or before.generation is None):
        return 0
    return after.attempts - before.attempts - (after.generation - before.generation)


def _count_tries(entries: Sequence[Entry]) -> int:
    """
    The number of connection attempts in known entries; an entry without a number counts as one.
    """
    states = [state for _, state in entries]
    tries = 0
    for place, state in enumerate(states):
        if state == "CONNECTING" and states[place + 1:place + 2] not in (["IDLE"], ["NEW"]):
            tries += not (place and states[place - 1] in ("IDLE", "NEW"))
        elif state == "EVICTED":
            tries -= 1
    return tries


class _Walk:
    """Processes the states of one import, oldest first."""

    def __init__(self, name: str, target: str, now: float, deactivated: Iterable[float]) -> None:
        self._name, self._target, self._now = name, target, now
        self._deactivated = sorted(deactivated)
        self._reported: dict[tuple[str, ...], TargetChange] = {}      # by origin
        self._is_connected: bool | None = None
        self._lost: TargetChange | None = None
        self._evicted: TargetChange | None = None
        self._is_older = self._is_doubtful = self._replays = False
        self._is_activation = self._after_gap = False
        self._is_new = True
        self._may_hide = False              # that it was lost where states are not known

    def limit_time(self, seconds: float) -> float:
        """A time limited to values that a message can have: the clock may have had any value."""
        return seconds if 0 <= seconds < _LARGEST_TIME else max(0.0, self._now)

    def begin(self, before: ImportReading, opened: OpenTrouble | None) -> None:
        """Set the state of the earlier reading, without reporting it."""
        if opened is not None:
            (self._is_connected, self._lost, self._evicted, self._is_older,
             self._is_doubtful, self._is_activation) = opened
        else:
            self._is_new = False
            for entry in before.history:
                self.add_state(*entry)
            self._is_new = True
            if (self._is_connected is None and len(before.history) == MOST_STATES
                    and before.state not in imports.CONNECTED):
                self._lose(self.limit_time(before.history[0][0]), is_older=True)
                self._reported.clear()
        self._is_activation |= bool(before.is_deactivated)

    def gap(self) -> None:
        """Note that states before the next entry are unknown."""
        self._after_gap, self._may_hide = True, bool(self._is_connected)

    def add_state(self, seconds: int, state: str) -> None:
        """Process the next state."""
        at = self.limit_time(seconds)
        if (self._deactivated and self._deactivated[0] < at + 1
                and state not in imports.CONNECTED):
            self._is_activation = True
            self._deactivated = [moment for moment in self._deactivated if moment >= at + 1]
        if state in imports.CONNECTED:
            if state == "FULL" or self._after_gap:
                self._restore(at)
            self._is_connected, self._replays, self._after_gap = True, False, False
            if state == "FULL":                     # it was activated since
                self._deactivated = [moment for moment in self._deactivated if moment >= at]
        elif state in ("DISCONN", "EVICTED", "RECOVER") or state.startswith("REPLAY"):
            self._replays |= state.startswith("REPLAY")
            # From the mount on it never was connected; and in a gap, it may have been lost before.
            if self._lost is None and state != "EVICTED" and (
                    self._is_connected or self._after_gap):
                self._lose(at, self._after_gap)
            elif self._after_gap:
                self._is_doubtful, self._evicted = True, None
            self._after_gap = False
            if state == "EVICTED":
                self._evict(at)

    def hidden(self, tries: int, at: float) -> None:
        """The number of repeated connection attempts before `at`, among unknown states."""
        if tries > 0 and self._may_hide:
            self._add_change(self._make_change(CONNECTION_LOST, at, (
                f"connection to {self._target} was lost, once or more, some time before")))

    def end(self, after: ImportReading) -> list[TargetChange]:
        """All changes, and an outage that began earlier and is not over."""
        if self._lost is not None and not after.is_deactivated:
            self._add_change(self._lost)          # unless it is being activated
        return sorted(self._reported.values(), key=lambda change: change.time)

    def open(self) -> OpenTrouble:
        """Return the OpenTrouble for the next reading."""
        return OpenTrouble(self._is_connected, self._lost, self._evicted, self._is_older,
                           self._is_doubtful, self._is_activation or bool(self._deactivated))

    def _lose(self, at: float, is_older: bool = False) -> None:
        self._is_connected, self._is_older = False, is_older
        self._may_hide &= not is_older
        self._lost = self._make_change(CONNECTION_LOST, at, (
            f"there is no connection to {self._target}, since an unknown time" if is_older else
            f"connection to {self._target} was lost"))
        self._add_change(self._lost)

    def _evict(self, at: float) -> None:
        self._is_connected = False
        self._evicted = self._make_change(
            EVICTED, at, f"evicted by {self._target}; operations in progress failed")
        self._add_change(self._evicted)

    def _restore(self, at: float) -> None:
        lost, evicted, is_older = self._lost, self._evicted, self._is_older
        is_doubtful = self._is_doubtful or self._after_gap
        self._lost, self._evicted, self._is_older, self._is_doubtful = None, None, False, False
        if lost is not None or evicted is not None:
            how_long = ""
            for change in (None if is_doubtful else lost, None if self._after_gap else evicted):
                if change is not None and change.time <= at:          # else the clock was set back
                    self._add_change(change._replace(over=at))
            if not is_doubtful and lost is not None and lost.time <= at:
                how_long = f" after {at - lost.time:.0f} s" + (" or more" if is_older else "")
            self._add_change(self._make_change(CONNECTION_RESTORED, at, (
                f"connection to {self._target} was restored{how_long}"
                + (", or some time before" if self._after_gap else "")
                + ("; its requests were replayed" if self._replays else ""))))
        self._is_activation = False

    def _add_change(self, change: TargetChange) -> None:
        if self._is_new and not self._is_activation:
            self._reported[change.origin] = change

    def _make_change(self, kind: str, at: float, message: str) -> TargetChange:
        return TargetChange(kind, at, at, None, 1, (self._name, kind, f"{at:.0f}"), message)


NAME = "imports"                        # the source, in the ids of events


class ImportScan(NamedTuple):
    """The result of one scan of the imports."""

    events: list[Event]         # [Event], in the order of time
    state: dict[str, StoredReading]     # for the next scan
    # {target: up to when its states are not known, s since 1970}, where that is so
    gone_before: dict[str, float]
    bad: list[str]              # [what was not understood in a file, with its path], at most 20
    refused: dict[int, int]     # {errno: how many targets}, of those whose `state` may not be read


_MOST_BAD = 20
_CONNECTED = tuple(f"current_state: {state}\n" for state in CONNECTED)


def make_unparsed_state(files: Iterable[File]) -> dict[str, StoredReading]:
    """The state after a reading without comparison, as at a job's start."""
    texts: dict[str, StoredReading] = {}
    for file in files:
        if file.source == import_files.STATE and not file.errno:
            texts[file.name] = file.text, "", None
    for file in files:
        if file.source == import_files.IMPORT and file.name in texts:
            texts[file.name] = texts[file.name][0], file.text, None
    return texts


def find_changes(files: Iterable[File], before: Mapping[str, object] | None, boot_id: str,
                 node: str, now: float,
                 deactivated: Mapping[str, Iterable[float]] | None = None) -> ImportScan:
    """
    Changes since the reading that left the state `before`, by the files that were read at `now`.

    `before`: None for the first look of all; then a history tells, and no counter does.
    `deactivated`: {target: when the kernel's log has it deactivated}.
    """
    files = list(files)
    events: list[Event] = []
    state: dict[str, StoredReading] = {}
    unknown_until: dict[str, float] = {}
    bad: list[str] = []
    refused: dict[int, int] = {}
    paths: dict[str, str] = {}
    for file in files:
        if file.source == import_files.STATE:
            paths[file.name] = file.path
            if file.errno:
                refused[file.errno] = refused.get(file.errno, 0) + 1
    for name, (text, more, _) in make_unparsed_state(files).items():
        place = stats.split_target_name(name)
        if place is None:
            continue
        earlier = _get_previous(before, name)
        if earlier is not None and earlier[:2] == (text, more) and _is_plain(text, earlier[2]):
            state[name] = earlier
            continue
        file_system, target = place[0], f"{place[0]}-{place[1]}"
        after = _parse_reading_texts(text, more)
        bad += [f"{paths[name]}: {why}" for why in after.bad[:_MOST_BAD - len(bad)]]
        target_changes = between(
            name, target, None if earlier is None else _parse_reading_texts(earlier[0], earlier[1]),
            after,
            now, None if earlier is None else _open(earlier[2]),
            (deactivated or {}).get(target, ()))
        state[name] = text, more, _as_json(target_changes.open)
        if target_changes.gone_before is not None:
            unknown_until[target] = target_changes.gone_before
        events += [event.make_event(boot_id, node, (NAME, *change.origin), change.kind, change.time,
                                    last=change.last, over=change.over, file_system=file_system,
                                    target=target,
                                    count=change.count, message=change.message)
                   for change in target_changes.changes if before is not None
                   or change.kind != TIMEOUTS]
    return ImportScan(sorted(events, key=lambda event: (event.time, event.target, event.kind)),
                      state, unknown_until, bad, refused)


def is_connected(state: StoredReading) -> bool:
    """True if the target was FULL or IDLE, or inactive, according to the state of a reading."""
    text, more, opened = state
    return text.startswith(_CONNECTED) or (opened is not None and not opened[1] and not opened[2]
                                           and bool(_parse_reading_texts(text,
                                                                         more).is_deactivated))


def _parse_reading_texts(text: str, more: str) -> ImportReading:
    return parse_reading(text.encode("latin-1", "replace"), more.encode("latin-1", "replace"))


def _is_plain(text: str, opened: Any) -> bool:
    """True if the text is unchanged and no outage is ongoing."""
    return (opened is None or not (opened[1] or opened[2])) and text.startswith(_CONNECTED)


def _get_previous(before: Mapping[str, object] | None, name: str) -> StoredReading | None:
    """
    Return [text, text, OpenTrouble or null] of the last reading; None if there is none that is
    usable.
    """
    stored = (before or {}).get(name)
    if (isinstance(stored, (list, tuple)) and len(stored) == 3
            and isinstance(stored[0], str) and isinstance(stored[1], str)):
        return stored[0], stored[1], stored[2]
    return None


def _as_json(opened: OpenTrouble) -> list[Any]:
    return [opened.is_connected, opened.lost and list(opened.lost),
            opened.evicted and list(opened.evicted), *opened[3:]]


def _open(value: Any) -> OpenTrouble | None:
    """Return the OpenTrouble of a stored state; None for another value: the file may be damaged."""
    if not isinstance(value, list) or len(value) != 6 or value[0] not in (True, False, None):
        return None
    try:
        return OpenTrouble(value[0], _restore_change(value[1]), _restore_change(value[2]),
                           *map(bool, value[3:]))
    except (TypeError, ValueError):
        return None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 2**53


_FORM: tuple[Callable[[Any], bool], ...] = (
    lambda kind: kind in (EVICTED, CONNECTION_LOST), _is_time, _is_time,
    lambda over: over is None or _is_time(over), lambda count: isinstance(count, int),
    lambda origin: isinstance(origin, (list, tuple)) and all(isinstance(part, str)
                                                             for part in origin),
    lambda message: isinstance(message, str))


def _restore_change(value: Any) -> TargetChange | None:
    if value is None:
        return None
    if len(value) != len(_FORM) or not all(is_so(part) for is_so, part in zip(_FORM, value)):
        raise ValueError
    change = TargetChange(*value)
    return change._replace(origin=tuple(change.origin))
