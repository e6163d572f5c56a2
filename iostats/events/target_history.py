"""
What happened to a client's connection with one target between two readings of its `state`.

The kernel keeps the 16 latest states of an import, each with its second:

    FULL                                                      connected
    FULL CONNECTING IDLE CONNECTING FULL                      nothing to do, and work again: 2.12
    FULL DISCONN CONNECTING RECOVER FULL                      lost and restored
    FULL DISCONN CONNECTING EVICTED RECOVER FULL              lost, evicted and restored
    FULL DISCONN CONNECTING REPLAY REPLAY_LOCKS REPLAY_WAIT RECOVER FULL      the target restarted
    CONNECTING DISCONN CONNECTING FULL                        from the mount on: no event

What is new is what stands behind the entries of the earlier reading, whatever the clock says.  A
target that is down has two entries every 4 to 5 s, so that 16 are less than a minute; if all of
them are new, those before are gone.  The counters of `import` then tell whether there was more: a
try to connect counts in connection_attempts; a connection given up as idle and taken up again
counts once in that and once in generation, and so does an eviction.  So an eviction among entries
that are gone is not seen here; the kernel's log has it.

What is open at a reading (OpenTrouble) is carried to the next one: the second in which a connection
was lost leaves the history long before it is restored.

An administrator who activates a deactivated target makes it lose its connection and be evicted, by
these states; that is no event.  It shows at the earlier reading alone (import_flags), or in the
kernel's log.

Source: import_set_state_nolock(), ptlrpc_set_import_discon(), ptlrpc_connect_import_locked(),
ptlrpc_connect_interpret(), ptlrpc_disconnect_idle_interpret(), ptlrpc_activate_import(),
lustre/ptlrpc/import.c; ptlrpc_set_import_active(), recover.c; ptlrpc_expire_one_request(),
client.c; read in 2.5.3, 2.12.9, 2.15.6 and 2.17.0.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.lustre import imports
from iostats.lustre.kernel_log import CONNECTION_LOST, CONNECTION_RESTORED, EVICTED, TIMEOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Entry = tuple[int, str]

ImportReading = namedtuple("ImportReading", "state history is_deactivated timeouts attempts "
                                            "generation bad")
ImportReading.__doc__ = """
How a client stands with a target.  What is not known is None.

Attributes:
    state: of imports.STATES.
    history: [(s since 1970, state)], oldest first, at most 16.
    is_deactivated: by an administrator.
    timeouts, attempts, generation: of its `import`; numbers that grow.
    bad: [what was not understood].
"""

TargetChange = namedtuple("TargetChange", "kind time last over count origin message")
TargetChange.__doc__ = """
One event of one target, as events.event.made() takes it.

Attributes:
    kind: "evicted", "connection_lost", "connection_restored" or "timeouts".
    time, last, over: as of an Event, in s.
    origin: texts that are the same for all who read this history.
"""

OpenTrouble = namedtuple("OpenTrouble", "is_connected lost evicted is_older is_doubtful "
                                        "is_activated")
OpenTrouble.__doc__ = """
How things stood at a reading, for the next one.

Attributes:
    is_connected: FULL or IDLE; None: never since the mount, or not known.
    lost, evicted: the TargetChange that is not over, or None.
    is_older: that the connection was lost when `lost` says, or before, or never was there.
    is_doubtful: it may have been restored and lost again since `lost`, in states that are gone.
    is_activated: a deactivated target is activated; what that does is no event.
"""

FoundBetween = namedtuple("FoundBetween", "changes gone_before open")
FoundBetween.__doc__ = """
What is known of the time between two readings.

Attributes:
    changes: [TargetChange]: what happened, and what was open before and is still, or is over now.
    gone_before: up to when states are not known, s since 1970; None where all are.
    open: the OpenTrouble of the later reading.
"""

MOST_STATES = 16                    # IMP_STATE_HIST_LEN, lustre/include/lustre_import.h
_LARGEST_TIME = 2**40


def reading(state: bytes, found: bytes | None) -> ImportReading:
    """The ImportReading of the bytes of `state`, and of `import`; None: it may not be read."""
    said = imports.parse_state(state)
    other = imports.parse_import(found or b"")
    return ImportReading(
        said.state or other.state, said.history[-MOST_STATES:], other.is_deactivated,
        other.timeouts, other.attempts, other.generation,
        [f"line {number}: {why}" for number, why in said.bad.items()]
        + [f"{key}: {why}" for key, why in other.bad.items()])


def between(name: str, target: str, before: ImportReading | None, after: ImportReading, now: float,
            opened: OpenTrouble | None = None, deactivated: Iterable[float] = ()) -> FoundBetween:
    """
    What happened between two readings of an import; `now`: the time of the later one.

    `name`: of the import, with its instance; `target`: for the messages.  `before`: None for one
    that was mounted meanwhile.  `opened`: of the earlier reading, where that was a later one, too.
    `deactivated`: when the kernel's log has the target deactivated between the two.

    >>> full = reading(b"current_state: FULL\\nstate_history:\\n - [ 23, FULL ]\\n", None)
    >>> lost = full._replace(state="DISCONN", history=full.history + [(37, "DISCONN")])
    >>> [(one.kind, one.time, one.over) for one in between("a", "b", full, lost, 41.0).changes]
    [('connection_lost', 37, None)]
    """
    earlier = before.history if before is not None else []
    new = _how_many_new(earlier, after.history)
    if new is None:                                 # mounted again, under the same name
        before, opened, earlier, new = None, None, [], len(after.history)
    walk = _Walk(name, target, now, deactivated)
    if before is not None:
        walk.begin(before, opened)
    entries = after.history[len(after.history) - new:]
    gone_before = None
    if new == MOST_STATES:
        gone_before = walk.time_of(entries[0][0])
        walk.gap()
    for entry in entries:
        walk.take(*entry)
    if gone_before is not None and before is not None:
        walk.hidden(_tries_after_losses(before, after) - _tries_in(entries), gone_before)
    found = walk.end(after)
    more = _more_timeouts(before, after)
    if more:
        lost = next((one.time for one in found if one.kind == CONNECTION_LOST), None)
        at = walk.time_of(now)
        found.append(TargetChange(TIMEOUTS, at if lost is None else min(lost, at), at, None, more,
                            (name, TIMEOUTS, str(after.timeouts)),
                            f"{more:,} request{'s' if more > 1 else ''} to {target} timed out"))
    return FoundBetween(found, gone_before, walk.open())


def _how_many_new(earlier: Sequence[Entry], later: Sequence[Entry]) -> int | None:
    """
    How many entries of `later` came after those of `earlier`, the fewest that fit; None where they
    are of two imports.
    """
    for new in range(len(later)):
        kept = later[:len(later) - new]
        # Entries leave the history only where it is full.
        if list(kept) == list(earlier[-len(kept):]) and (
                len(kept) == len(earlier) or len(later) == MOST_STATES):
            return new
    return len(later) if not earlier or len(later) == MOST_STATES else None


def _more_timeouts(before: ImportReading | None, after: ImportReading) -> int:
    if after.timeouts is None or after.is_deactivated:
        return 0
    if before is not None and before.is_deactivated:
        return 0
    if before is None:
        return int(after.timeouts)
    return 0 if before.timeouts is None else max(0, after.timeouts - before.timeouts)


def _tries_after_losses(before: ImportReading, after: ImportReading) -> int:
    """How many tries to connect were none of an idle target's, nor ended in an eviction; 0: ?."""
    counts = (after.attempts, before.attempts, after.generation, before.generation)
    if None in counts:
        return 0
    return int(after.attempts - before.attempts - (after.generation - before.generation))


def _tries_in(entries: Sequence[Entry]) -> int:
    """The same of entries that are known; where one does not tell, it is one."""
    states = [state for _, state in entries]
    tries = 0
    for place, state in enumerate(states):
        if state == "CONNECTING" and states[place + 1:place + 2] not in (["IDLE"], ["NEW"]):
            tries += not (place and states[place - 1] in ("IDLE", "NEW"))
        elif state == "EVICTED":
            tries -= 1
    return tries


class _Walk:
    """Goes through the states of one import, oldest first."""

    def __init__(self, name: str, target: str, now: float, deactivated: Iterable[float]) -> None:
        self._name, self._target, self._now = name, target, now
        self._deactivated = sorted(deactivated)
        self._told: dict[tuple[str, ...], TargetChange] = {}      # by origin
        self._is_connected: bool | None = None
        self._lost: TargetChange | None = None
        self._evicted: TargetChange | None = None
        self._is_older = self._is_doubtful = self._replays = False
        self._is_activation = self._after_gap = False
        self._is_new = True
        self._may_hide = False              # that it was lost where states are not known

    def time_of(self, seconds: float) -> float:
        """A time that can be sent: the clock may have had any value."""
        return seconds if 0 <= seconds < _LARGEST_TIME else max(0.0, self._now)

    def begin(self, before: ImportReading, opened: OpenTrouble | None) -> None:
        """Take what the earlier reading knew; nothing of it is told."""
        if opened is not None:
            (self._is_connected, self._lost, self._evicted, self._is_older,
             self._is_doubtful, self._is_activation) = opened
        else:
            self._is_new = False
            for entry in before.history:
                self.take(*entry)
            self._is_new = True
            if (self._is_connected is None and len(before.history) == MOST_STATES
                    and before.state not in imports.CONNECTED):
                self._lose(self.time_of(before.history[0][0]), is_older=True)
                self._told.clear()
        self._is_activation |= bool(before.is_deactivated)

    def gap(self) -> None:
        """States up to the next entry are not known."""
        self._after_gap, self._may_hide = True, bool(self._is_connected)

    def take(self, seconds: int, state: str) -> None:
        """The next entry."""
        at = self.time_of(seconds)
        if (self._deactivated and self._deactivated[0] < at + 1
                and state not in imports.CONNECTED):
            self._is_activation = True
            self._deactivated = [one for one in self._deactivated if one >= at + 1]
        if state in imports.CONNECTED:
            if state == "FULL" or self._after_gap:
                self._restored(at)
            self._is_connected, self._replays, self._after_gap = True, False, False
            if state == "FULL":                     # it was activated since
                self._deactivated = [one for one in self._deactivated if one >= at]
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
        """How many tries to connect again were before `at`, among states that are not known."""
        if tries > 0 and self._may_hide:
            self._tell(self._change(CONNECTION_LOST, at, (
                f"connection to {self._target} was lost, once or more, some time before")))

    def end(self, after: ImportReading) -> list[TargetChange]:
        """All that is told, and what was lost before and is not over."""
        if self._lost is not None and not after.is_deactivated:
            self._tell(self._lost)          # unless it is being activated
        return sorted(self._told.values(), key=lambda one: one.time)

    def open(self) -> OpenTrouble:
        """For the next reading."""
        return OpenTrouble(self._is_connected, self._lost, self._evicted, self._is_older,
                    self._is_doubtful, self._is_activation or bool(self._deactivated))

    def _lose(self, at: float, is_older: bool = False) -> None:
        self._is_connected, self._is_older = False, is_older
        self._may_hide &= not is_older
        self._lost = self._change(CONNECTION_LOST, at, (
            f"there is no connection to {self._target}; since when is not known" if is_older else
            f"connection to {self._target} was lost"))
        self._tell(self._lost)

    def _evict(self, at: float) -> None:
        self._is_connected = False
        self._evicted = self._change(
            EVICTED, at, f"evicted by {self._target}; operations in progress failed")
        self._tell(self._evicted)

    def _restored(self, at: float) -> None:
        lost, evicted, is_older = self._lost, self._evicted, self._is_older
        is_doubtful = self._is_doubtful or self._after_gap
        self._lost, self._evicted, self._is_older, self._is_doubtful = None, None, False, False
        if lost is not None or evicted is not None:
            how_long = ""
            for one in (None if is_doubtful else lost, None if self._after_gap else evicted):
                if one is not None and one.time <= at:          # else the clock was set back
                    self._tell(one._replace(over=at))
            if not is_doubtful and lost is not None and lost.time <= at:
                how_long = f" after {at - lost.time:.0f} s" + (" or more" if is_older else "")
            self._tell(self._change(CONNECTION_RESTORED, at, (
                f"connection to {self._target} was restored{how_long}"
                + (", or some time before" if self._after_gap else "")
                + ("; its requests were replayed" if self._replays else ""))))
        self._is_activation = False

    def _tell(self, one: TargetChange) -> None:
        if self._is_new and not self._is_activation:
            self._told[one.origin] = one

    def _change(self, kind: str, at: float, message: str) -> TargetChange:
        return TargetChange(kind, at, at, None, 1, (self._name, kind, f"{at:.0f}"), message)
