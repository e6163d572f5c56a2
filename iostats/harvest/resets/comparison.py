"""
The entries of one block, compared with those that are known: which of them are new, and of which
that cannot be decided; then they are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets import rules
from iostats.harvest.resets.counters import ArrivedValues
from iostats.harvest.resets.entries import I64, NO_ENTRY
from iostats.wire.messages.arrays import differs, list_integers

if TYPE_CHECKING:
    from iostats.harvest.resets.entries import Entries
    from iostats.harvest.resets.gaps import Losses
    from iostats.harvest.resets.readings import OpenReading, Readings
    from iostats.wire.messages.arrays import Bools
    from iostats.wire.messages.sweep import BlockRows


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

    def __init__(self, block: BlockRows, entries: Entries, readings: Readings, losses: Losses,
                 reading: OpenReading) -> None:
        self._entries, self._readings, self._losses = entries, readings, losses
        self._reading = reading
        self.slots = slots = entries.assign_slots(block.head.ids)
        self.seen_ns, self.started_ns = block.seen_ns, block.started_ns
        self.old_seen_ns, self.absent = entries.seen_ns[slots], entries.absent[slots]
        self.known = differs(self.absent, NO_ENTRY)
        self.dated = self.started_ns > 0
        self.was_dated = self.known & entries.dated[slots]
        self._both = self.was_dated & self.dated
        self.blind = self.known & ~self._both
        all_dated, any_blind = bool(self.dated.all()), bool(self.blind.any())
        entries.learn(block, all_dated)
        self._arrived = ArrivedValues(block, entries.layout, all_dated)
        if not all_dated or any_blind:
            entries.need_places()
        self._has_places = entries.has_places
        if self._has_places:
            self._place, self._not_in = entries.place[slots], entries.not_in[slots]
        self.new = rules.has_new_start(self._both, entries.made_ns[slots], self.started_ns)
        if any_blind:
            self.new |= self._find_new_without_start()

    def store(self) -> None:
        """Store the block's values in the entries, and add them to the reading."""
        entries, reading, slots, new = self._entries, self._reading, self.slots, self.new
        seen_ns, started_ns, dated, absent = self.seen_ns, self.started_ns, self.dated, self.absent
        if new.any():
            self._note_deletions()
            entries.fold(slots[new])
        begun = new | ~self.known
        entries.seen_ns[slots] = seen_ns
        if not self._both.all() or new.any():
            entries.made_ns[slots] = numpy.where(begun | (dated & ~self.was_dated),
                                                 numpy.where(dated, started_ns, seen_ns),
                                                 entries.made_ns[slots])
            entries.dated[slots] = dated
            first = slots[~differs(entries.origin_ns[slots], 0)]
            ahead_s = min(reading.ahead_s, reading.kernel_ahead_s)
            entries.origin_ns[first] = entries.made_ns[first] - I64(ahead_s * NS)
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
        moved = begun | differs(seen_ns, self.old_seen_ns)
        gained = entries.store(slots, self._arrived)
        moved |= (gained > 0).any(axis=1)
        entries.forgotten[slots[moved]] = False
        reading.rows += len(slots)
        reading.slots.append(slots)
        reading.moved.append(moved)
        reading.gains.append(gained @ entries.layout.gains)

    def _find_new_without_start(self) -> Bools:
        """Find the new entries among those of `blind`: rules 2 and 3; doubtful ones are noted."""
        entries, reading, slots, blind = self._entries, self._reading, self.slots, self.blind
        place, not_in = numpy.copy(self._place), numpy.copy(self._not_in)
        seen_ns, absent = self.seen_ns, self.absent
        new = blind & rules.find_decreased(entries.layout.at, entries.values.get(slots),
                                           *self._arrived.table(), ~entries.dated[slots])
        twice = ~differs(place >> 32, reading.number)   # an id twice in this reading
        place[twice] = not_in[twice] = -1
        before = [numpy.maximum.accumulate(numpy.concatenate(([top], numbers)))[:-1]
                  for top, numbers in zip(reading.top, (place, not_in))]
        moved_back = blind & ~new & rules.were_created_after(before[0], before[1], place)
        sure = blind & ~new & rules.are_same_within_interval(seen_ns - self.old_seen_ns,
                                                             self._readings.shortest_ns(
                                                                 self.old_seen_ns))
        rest = blind & ~new & ~sure
        if moved_back.any():
            new |= moved_back & ~sure
            rest &= ~new
            # It is a new one, but since when?  A deletion by hand went unseen, and the new entry
            # has overtaken the old one since.
            for slot in list_integers(slots[moved_back & sure]):
                self._losses.add_doubt(
                    slot, *self._readings.convert_to_site_clock(entries.made_ns.item(slot) / NS,
                                                                reading.read_at))
            self._put_in_place(moved_back & sure)
        if rest.any():
            proved = rest & (absent >= 2)
            if proved.any():
                proved &= rules.is_proved_removed(
                    absent, (self._readings.read_at or 0) - entries.absent_at_s[slots],
                    self._readings.shortest_ns(entries.seen_ns[slots]))
                new |= proved
                rest &= ~proved
        certain = sure | (self.known & ~blind & ~self.new)         # dated ones are certain, too
        after = [numpy.where(certain, numbers, -1) for numbers in (place, not_in)]
        reading.settle_doubts([int(numbers.max()) for numbers in after])
        if rest.any():
            behind = [numpy.concatenate((numpy.maximum.accumulate(numbers[::-1])[::-1][1:], [-1]))
                      for numbers in after]
            same = rest & rules.were_created_after(behind[0], behind[1], place)
            rest &= ~same
            for at in list_integers(numpy.flatnonzero(rest)):
                if self._is_impossible(at):
                    new[at] = True
                    rest[at] = False
            if rest.any():
                reading.doubts.append((slots[rest], place[rest],
                                       *self._readings.convert_to_site_clock(
                    self.old_seen_ns[rest] / NS,
                    numpy.maximum(seen_ns[rest] / NS, reading.read_at))))
                self._put_in_place(rest)                # it may be new from now on
            reading.same.append(slots[same])
        reading.same.append(slots[sure])
        return new

    def _is_impossible(self, at: int) -> bool:
        """
        Rule 2: whether one entry cannot have gained this much.  False if an RPC was in progress.
        """
        slot, entries = self.slots.item(at), self._entries
        if entries.dated.item(slot) or not (
                rules.is_quiet(self.seen_ns.item(at), self._reading.read_at)
                and rules.is_quiet(entries.seen_ns.item(slot), self._readings.read_at or 0)):
            return False
        columns, was = entries.layout.at, list_integers(entries.values.get(slot))
        for name, numbers in self._arrived.of(at):
            before = [was[columns[name, kind]] if (name, kind) in columns else None
                      for kind in ("samples", "sums", "squares")]
            if rules.is_gain_impossible(before, numbers):
                return True
        return False

    def _put_in_place(self, chosen: Bools) -> None:
        """Note the positions of these entries of the block in the file."""
        reading = self._reading
        places = (reading.number << 32) + reading.rows + numpy.flatnonzero(chosen)
        self._entries.place[self.slots[chosen]] = places

    def _note_deletions(self) -> None:
        """Rule 4 for entries whose position has a new entry."""
        entries, readings, new = self._entries, self._readings, self.new
        slots, absent = self.slots[new], self.absent[new]
        made_ns = numpy.where(self.dated, self.started_ns, self.seen_ns)[new]
        seen_ns = entries.seen_ns[slots]
        early = rules.were_created_too_early(made_ns, seen_ns, readings.shortest_ns(seen_ns))
        if early.any() and readings.read_at is not None:
            self._reading.clear_between(
                readings.find_last_reading_before_loss(entries, slots[early], absent[early]),
                int(made_ns[early].max()) / NS + 1)
