"""
The entries of one block, compared with those that are known: which of them are new, and of which
that cannot be decided; then they are stored.
"""

from __future__ import annotations

import numpy

from iostats.site.resets import rules
from iostats.site.resets.counters import ArrivedValues
from iostats.site.resets.entries import I64, NO_ENTRY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing

    from iostats.site.resets.entries import Entries
    from iostats.site.resets.gaps import Losses
    from iostats.site.resets.readings import OpenReading, Readings

    _Array = numpy.typing.NDArray[Any]

NS = rules.NS


class Comparison:
    """
    One block of the open reading beside the entries of its target, whose slots have the values of
    before until store() has put the block's there.

    Attributes:
        slots: of the block's entries; all other arrays are in this order.
        seen, started: as in the block; old_seen, absent: as they were.
        known: there was an entry before; blind: ... and start_time does not say whether it is new.
        dated: they have start_time; was_dated: they had it before.
        new: those that are new entries of known jobs.
    """

    def __init__(self, block: Any, entries: Entries, readings: Readings, losses: Losses,
                 reading: OpenReading) -> None:
        self._entries, self._readings, self._losses = entries, readings, losses
        self._reading = reading
        self.slots = slots = entries.slots_for(block.head.ids)
        self.seen, self.started = block.seen, block.started
        self.old_seen, self.absent = entries.seen[slots], entries.absent[slots]
        self.known = self.absent != NO_ENTRY
        self.dated = self.started > 0
        self.was_dated = self.known & entries.dated[slots]
        self._both = self.was_dated & self.dated
        self.blind = self.known & ~self._both
        all_dated, any_blind = bool(self.dated.all()), bool(self.blind.any())
        entries.learn(block, all_dated)
        self._arrived = ArrivedValues(block, entries.layout, all_dated)
        if not all_dated or any_blind:
            entries.need_places()
        self._has_places = entries.place is not None
        if self._has_places:
            self._place, self._not_in = entries.place[slots], entries.not_in[slots]
        self.new = rules.has_new_start(self._both, entries.made[slots], self.started)
        if any_blind:
            self.new |= self._new_without_start()

    def store(self) -> None:
        """Let the entries have what the block says of them, and add it to the reading."""
        entries, reading, slots, new = self._entries, self._reading, self.slots, self.new
        seen, started, dated, absent = self.seen, self.started, self.dated, self.absent
        if new.any():
            self._note_deletions()
            entries.fold(slots[new])
        begun = new | ~self.known
        entries.seen[slots] = seen
        if not self._both.all() or new.any():
            entries.made[slots] = numpy.where(begun | (dated & ~self.was_dated),
                                              numpy.where(dated, started, seen),
                                              entries.made[slots])
            entries.dated[slots] = dated
            first = slots[entries.origin[slots] == 0]
            ahead = min(reading.ahead, reading.kernel_ahead)
            entries.origin[first] = entries.made[first] - I64(ahead * NS)
        entries.absent[slots] = 0
        if self._has_places:
            place, not_in = self._place, self._not_in
            reading.top = (max(reading.top[0], int(place.max())),
                           max(reading.top[1], int(not_in.max())))
            self._put_in_place(begun | (place < 0))
            # The entry before it was in the last reading, or in the one before; one that is not
            # known was absent from both, which proves it (rule 5).
            if self._readings.whole >= 2:
                before = reading.number - numpy.where(new & (absent == 0), 1, 2)
            else:
                before = numpy.where(new, place >> 32, -1)
            entries.not_in[slots] = numpy.where(begun, before, not_in)
        moved = begun | (seen != self.old_seen)
        gained = entries.store(slots, self._arrived)
        moved |= (gained > 0).any(axis=1)
        entries.forgotten[slots[moved]] = False
        reading.rows += len(slots)
        reading.slots.append(slots)
        reading.moved.append(moved)
        reading.gains.append(gained @ entries.layout.gains)

    def _new_without_start(self) -> _Array:
        """Which of the entries `blind` are new: rules 2 and 3; those in doubt are noted."""
        entries, reading, slots, blind = self._entries, self._reading, self.slots, self.blind
        place, not_in, seen, absent = (self._place.copy(), self._not_in.copy(), self.seen,
                                       self.absent)
        new: _Array = blind & rules.went_back(entries.layout.at, entries.values.get(slots),
                                              *self._arrived.table(), ~entries.dated[slots])
        twice = place >> 32 == reading.number           # an id twice in this reading
        place[twice] = not_in[twice] = -1
        before = [numpy.maximum.accumulate(numpy.concatenate(([top], some)))[:-1]
                  for top, some in zip(reading.top, (place, not_in))]
        moved_back = blind & ~new & rules.made_after(before[0], before[1], place)
        sure = blind & ~new & rules.same_within_interval(seen - self.old_seen,
                                                         self._readings.shortest_ns(self.old_seen))
        rest = blind & ~new & ~sure
        if moved_back.any():
            new |= moved_back & ~sure
            rest &= ~new
            # It is a new one, but since when?  A deletion by hand went unseen, and the new entry
            # has overtaken the old one since.
            for slot in slots[moved_back & sure].tolist():
                self._losses.doubt(slot, *self._readings.by_site(int(entries.made[slot]) / NS,
                                                               reading.read_at))
            self._put_in_place(moved_back & sure)
        if rest.any():
            gone = rest & (absent >= 2)
            if gone.any():
                gone &= rules.is_proved_gone(
                    absent, (self._readings.read_at or 0) - entries.absent_at[slots],
                    self._readings.shortest_ns(entries.seen[slots]))
                new |= gone
                rest &= ~gone
        certain = sure | (self.known & ~blind & ~self.new)         # dated ones are certain, too
        after = [numpy.where(certain, some, -1) for some in (place, not_in)]
        reading.settle_doubts([int(some.max()) for some in after])
        if rest.any():
            behind = [numpy.concatenate((numpy.maximum.accumulate(some[::-1])[::-1][1:], [-1]))
                      for some in after]
            same = rest & rules.made_after(behind[0], behind[1], place)
            rest &= ~same
            for at in numpy.flatnonzero(rest).tolist():
                if self._is_impossible(at):
                    new[at] = True
                    rest[at] = False
            if rest.any():
                reading.doubts.append((slots[rest], place[rest], *self._readings.by_site(
                    self.old_seen[rest] / NS, numpy.maximum(seen[rest] / NS, reading.read_at))))
                self._put_in_place(rest)                # it may be new from now on
            reading.same.append(slots[same])
        reading.same.append(slots[sure])
        return new

    def _is_impossible(self, at: int) -> bool:
        """Rule 2: can one entry not have gained what it has?  False where an RPC was under way."""
        slot, entries = int(self.slots[at]), self._entries
        if entries.dated[slot] or not (
                rules.is_quiet(int(self.seen[at]), self._reading.read_at)
                and rules.is_quiet(int(entries.seen[slot]), self._readings.read_at or 0)):
            return False
        columns, was = entries.layout.at, entries.values.get(slot).tolist()
        for name, numbers in self._arrived.of(at):
            before = [was[columns[name, kind]] if (name, kind) in columns else None
                      for kind in ("samples", "sums", "squares")]
            if rules.gain_is_impossible(before, numbers):
                return True
        return False

    def _put_in_place(self, which: _Array) -> None:
        """Note where these entries of the block stand in the file."""
        reading = self._reading
        places = (reading.number << 32) + reading.rows + numpy.flatnonzero(which)
        self._entries.place[self.slots[which]] = places

    def _note_deletions(self) -> None:
        """Rule 4 for the entries in whose place there are new ones."""
        entries, readings, new = self._entries, self._readings, self.new
        slots, absent = self.slots[new], self.absent[new]
        made = numpy.where(self.dated, self.started, self.seen)[new]
        seen = entries.seen[slots]
        early = rules.made_too_early(made, seen, readings.shortest_ns(seen))
        if early.any() and readings.read_at is not None:
            self._reading.clear_between(
                readings.last_before_loss(entries, slots[early], absent[early]),
                int(made[early].max()) / NS + 1)
