"""
Gaps of a target, and the jobs that each may concern: they make a total a lower bound, with a
sentence that explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets import rules
from iostats.wire.messages.arrays import differs, list_integers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.harvest.resets.entries import Entries
    from iostats.harvest.resets.readings import OpenReading, Readings
    from iostats.wire.messages.arrays import Bools, Integers


# Why a total may be too low, in the words of marks() and gaps: what is proved, and no more.
NO_SWEEP = "no sweep for job_cleanup_interval or longer"
CLOCK_SET = "the storage server's clock was set"
CLEARED = ("entries were removed before their time (job_stats cleared, the target started again, "
           "or the clock set)")
RESTARTED = "read by another storage server, or after another boot"
DOUBTFUL = "an entry may have expired unseen and been made again"
LATE = "first read after the job began"
NO_INTERVAL = "job_cleanup_interval cannot be read"
NOT_UNDERSTOOD = "an entry could not be understood"
AT_LIMIT = "a sum has reached the kernel's limit"
# Added to the reason of a gap at a time when it is not known whether the job ran.
BEFORE_SEEN = ", before the job was first seen; its begin is unknown"
AFTER_SEEN = ", after the job was last seen; the time of its end is unknown"

MOST_GAPS = 64
_MOST_REFUSED = 1000            # ids that are known not to be understood
_OR = "; or "                              # between the reasons of merged gaps
_NONE = numpy.zeros(0, bool)


class Gap:
    """
    A time in which counts may be lost, and the slots that certainly lost nothing.

    Attributes:
        began, ended: s, by the site's clock; `why`: one of the reasons above.
        by_expiry: nothing else can have taken anything.
        spared: bits, one for each slot: it has lost nothing.
    """

    __slots__ = ("began", "by_expiry", "ended", "spared", "why")

    def __init__(self, began: float, ended: float, why: str, spared: Bools = _NONE,
                 by_expiry: bool = False) -> None:
        self.began, self.ended, self.why = float(began), float(ended), why
        self.by_expiry = by_expiry
        self.spared = numpy.packbits(spared)

    def has_no_loss(self, slot: int) -> bool:
        """True if this slot has lost nothing."""
        byte = slot >> 3
        return byte < len(self.spared) and bool(self.spared[byte] >> (7 - (slot & 7)) & 1)

    def select_slots(self, length: int) -> Bools:
        """Return for each of `length` slots whether it has lost nothing."""
        bits = numpy.zeros(length, bool)
        spared = numpy.unpackbits(self.spared)[:length]
        bits[:len(spared)] = spared
        return bits


class Losses:
    """
    The possible losses of one target.

    Attributes:
        gaps: [Gap], in the order in which they were found.
        doubts: {slot: (from, to)}: when its entry may have been replaced by a new one.
        refused: {id: (from, to)}: when its entry could not be understood; the site's clock.
    """

    __slots__ = ("doubts", "gaps", "refused")

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.doubts: dict[int, tuple[float, float]] = {}
        self.refused: dict[str, tuple[float, float]] = {}

    def add(self, gap: Gap) -> None:
        """Add a gap; beyond MOST_GAPS the two oldest are merged."""
        last = self.gaps[-1] if self.gaps else None
        if gap.why == NOT_UNDERSTOOD and last is not None and last.why == gap.why and (
                last.ended >= gap.began):               # the same one, sweep after sweep
            last.ended = gap.ended
            return
        self.gaps.append(gap)
        if len(self.gaps) > MOST_GAPS:
            a, b = self.gaps[:2]
            reasons = dict.fromkeys((*a.why.split(_OR), *b.why.split(_OR)))
            merged = Gap(min(a.began, b.began), max(a.ended, b.ended), _OR.join(reasons))
            both = min(len(a.spared), len(b.spared))
            merged.spared = a.spared[:both] & b.spared[:both]
            self.gaps[:2] = [merged]

    def add_doubt(self, slot: int, began: float, ended: float) -> None:
        """Note that a new entry may have replaced that of a slot between these times."""
        if slot in self.doubts:
            began, ended = (min(began, self.doubts[slot][0]), max(ended, self.doubts[slot][1]))
        self.doubts[slot] = (began, ended)

    def add_doubts(self, reading: OpenReading | None) -> None:
        """Add the doubts of the open reading that are not settled."""
        if reading is not None:
            for slots, _, since_s, until_s in reading.doubts:
                for doubt in zip(slots.tolist(), since_s.tolist(), until_s.tolist()):
                    self.add_doubt(*doubt)

    # ---- entries that cannot be understood: rule 12

    def refuse(self, ids: Sequence[str], since: float, now: float) -> bool:
        """
        Note that entries of these ids have an unexpected format; False if there are too many ids.
        """
        for job_id in ids[:max(0, _MOST_REFUSED - len(self.refused))]:
            self.refused[job_id] = (self.refused.get(job_id, (since,))[0], now)
        return self.refused.keys() >= set(ids)

    def understand(self, ids: Iterable[str], now: float, interval_s: float) -> None:
        """Drop ids whose entries are valid again within the interval: they have lost nothing."""
        for job_id in self.refused.keys() & set(ids):
            if rules.is_understood_in_time(self.refused[job_id][0], now, interval_s):
                del self.refused[job_id]

    # ---- gaps that a reading shows

    def find(self, reading: OpenReading, entries: Entries, readings: Readings) -> None:
        """Add the gaps between the last whole reading and this one, which is complete."""
        if readings.read_at is None:
            return
        last, interval_s = readings.read_at, rules.compute_expiry_s(
            readings.shortest_s(readings.read_at))
        if reading.nameless:
            self.add(Gap(last - readings.ahead_s, reading.now, NOT_UNDERSTOOD))
        late = bool(readings.times) and readings.compute_longest_span_s(reading) >= interval_s
        if not late and not reading.cleared:
            return
        used = entries.used
        there = (entries.id_number[:used] >= 0) & (entries.absent[:used] == 0)
        made_ns, dated = entries.made_ns[:used], entries.dated[:used]
        # What was made since then may have an earlier time where the kernel's clock was set back.
        lag_s = max(0.0, reading.ahead_s - reading.kernel_ahead_s,
                    readings.ahead_s - reading.kernel_ahead_s)
        if reading.cleared:
            self.add_deletion(reading, readings, there & dated & (
                made_ns < rules.reduce_ns(reading.cleared[0] - lag_s)))
        if late:                                        # not for the first one of another boot
            self._add_silence(reading, entries, readings, there, lag_s, last)

    def add_deletion(self, reading: OpenReading, readings: Readings,
                     spared: Bools = _NONE) -> None:
        """Rule 4: add the gap of a manual deletion that a reading has noted."""
        if reading.cleared:
            self.add(Gap(*readings.convert_to_site_clock(*reading.cleared), CLEARED, spared))

    def _add_silence(self, reading: OpenReading, entries: Entries, readings: Readings,
                     there: Bools, lag_s: float, last_read: float) -> None:
        """Rules 6 and 13: the reading is I or more after `last_read`; `there`: its slots."""
        used = entries.used
        made_ns, dated = entries.made_ns[:used], entries.dated[:used]
        seen_ns = entries.seen_ns[:used]
        interval_s = rules.compute_expiry_s(readings.shortest_s(last_read))
        same = there & (made_ns < rules.reduce_ns(last_read - lag_s)) & (dated | (
            seen_ns < (last_read + interval_s) * rules.NS))
        for slots in reading.same:                      # the same since the last block that came
            same[slots] |= made_ns[slots] < rules.reduce_ns(last_read - lag_s)
        # An entry without start_time that was used in the gap may be a new one after a `clear`.
        proves = same & (dated | (seen_ns < rules.reduce_ns(last_read) - rules.NS))
        last, now = last_read - readings.ahead_s, reading.now
        is_set = rules.was_clock_set(reading.ahead_s, readings.ahead_s, interval_s)
        why = CLOCK_SET if is_set and now - last < interval_s else NO_SWEEP
        if proves.any():
            self.add(Gap(last, max(last, now) if is_set else now - interval_s, why,
                         same | (there & (made_ns < (last_read + interval_s - lag_s) * rules.NS)),
                         True))
        else:
            self.add(Gap(last, max(last, now), why, proves))

    # ---- which jobs they concern

    def marks(self, slot: int, job_id: str, times: tuple[float, float, float, float],
              origin_s: float, is_whole: bool, reading: OpenReading | None) -> list[str]:
        """
        Return [why]: what the id `job_id` in this slot (-1: not known here) may have lost in a
        time.

        Args:
            times: (earliest, began, ended, latest) of the job, s by the site's clock.
            origin: when its first entry was made; 0: not known.
            is_whole: before that it cannot have had another one that expired.
            reading: the open one, or None.
        """
        earliest, began, ended, latest = times
        why = []
        for gap in self.gaps:
            if gap.began > latest or gap.ended < earliest or (
                    slot >= 0 and gap.has_no_loss(slot)) or (
                    is_whole and gap.by_expiry and gap.ended <= origin_s):
                continue
            why.append(gap.why + (BEFORE_SEEN if gap.ended < began else
                                  AFTER_SEEN if gap.began > ended else ""))
        doubts = [self.doubts[slot]] if slot in self.doubts else []
        for slots, _, since_s, until_s in reading.doubts if reading is not None else ():
            doubts += [(since_s.item(at), until_s.item(at))
                       for at in list_integers(numpy.flatnonzero(~differs(slots, slot)))]
        if any(doubt[0] <= latest and doubt[1] >= earliest for doubt in doubts):
            why.append(DOUBTFUL)
        since, until = self.refused.get(job_id, (latest + 1, earliest - 1))
        if since <= latest and until >= earliest:
            why.append(NOT_UNDERSTOOD)
        return why

    # ---- slots that are freed, or moved

    def drop(self, in_use: Bools) -> None:
        """Drop all slots but those of `in_use`, array of bool."""
        for gap in self.gaps:
            gap.spared = numpy.packbits(gap.select_slots(len(in_use)) & in_use)
        for slot in [slot for slot in self.doubts if not in_use[slot]]:
            del self.doubts[slot]

    def renumber(self, used: int, live: Integers, now: Integers) -> None:
        """Give the slots `live` of `used` their new numbers, `now` by the old ones."""
        for gap in self.gaps:
            gap.spared = numpy.packbits(gap.select_slots(used)[live])
        self.doubts = {now.item(slot): doubt for slot, doubt in self.doubts.items()}
