"""
When something of a target may have been lost, and which jobs it may concern: what makes a total a
lower bound, and the sentence that says so.
"""

from __future__ import annotations

import numpy

from iostats.site.resets import rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import numpy.typing

    from iostats.site.resets.entries import Entries
    from iostats.site.resets.readings import OpenReading, Readings

    _Array = numpy.typing.NDArray[Any]

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
BEFORE_SEEN = ", before the job was first seen; when it began is not known"
AFTER_SEEN = ", after the job was last seen; when it ended is not known"

MOST_GAPS = 64
_MOST_REFUSED = 1000                       # ids that are known not to be understood
_OR = "; or "                              # between the reasons of merged gaps
_NONE = numpy.zeros(0, bool)


class Gap:
    """
    When something may have been lost, and which slots are known to have lost nothing.

    Attributes:
        began, ended: s, by the site's clock; `why`: one of the reasons above.
        by_expiry: nothing else can have taken anything.
        spared: bits, one for each slot: it has lost nothing.
    """

    __slots__ = ("began", "by_expiry", "ended", "spared", "why")

    def __init__(self, began: float, ended: float, why: str, spared: _Array = _NONE,
                 by_expiry: bool = False) -> None:
        self.began, self.ended, self.why = float(began), float(ended), why
        self.by_expiry = by_expiry
        self.spared = numpy.packbits(spared)

    def spares(self, slot: int) -> bool:
        """True where this slot has lost nothing."""
        byte = slot >> 3
        return byte < len(self.spared) and bool(self.spared[byte] >> (7 - (slot & 7)) & 1)

    def bits(self, length: int) -> _Array:
        """`spared` as array of bool, one for each of `length` slots."""
        bits = numpy.zeros(length, bool)
        spared = numpy.unpackbits(self.spared)[:length]
        bits[:len(spared)] = spared
        return bits


class Losses:
    """
    What may have been lost at one target.

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
            one = Gap(min(a.began, b.began), max(a.ended, b.ended), _OR.join(reasons))
            both = min(len(a.spared), len(b.spared))
            one.spared = a.spared[:both] & b.spared[:both]
            self.gaps[:2] = [one]

    def doubt(self, slot: int, began: float, ended: float) -> None:
        """Between these times a new entry may have replaced that of a slot."""
        if slot in self.doubts:
            began, ended = (min(began, self.doubts[slot][0]), max(ended, self.doubts[slot][1]))
        self.doubts[slot] = (began, ended)

    def keep_doubts(self, reading: OpenReading | None) -> None:
        """Keep the doubts that the open reading has not settled."""
        if reading is not None:
            for slots, _, *times in reading.doubts:
                for doubt in zip(slots.tolist(), *(some.tolist() for some in times)):
                    self.doubt(*doubt)

    # ---- entries that cannot be understood: rule 12

    def refuse(self, ids: Sequence[str], since: float, now: float) -> bool:
        """Entries of these ids could not be understood now; False where they are too many."""
        for one in ids[:max(0, _MOST_REFUSED - len(self.refused))]:
            self.refused[one] = (self.refused.get(one, (since,))[0], now)
        return self.refused.keys() >= set(ids)

    def understand(self, ids: Iterable[str], now: float, interval_s: float) -> None:
        """An id that is understood again within the interval has lost nothing: drop it."""
        for one in self.refused.keys() & set(ids):
            if rules.is_understood_in_time(self.refused[one][0], now, interval_s):
                del self.refused[one]

    # ---- gaps that a reading shows

    def find(self, reading: OpenReading, entries: Entries, readings: Readings) -> None:
        """Add the gaps between the last whole reading and this one, whose last block has come."""
        if readings.read_at is None:
            return
        last, interval = readings.read_at, rules.expires_within_s(
            readings.shortest_s(readings.read_at))
        if reading.nameless:
            self.add(Gap(last - readings.ahead, reading.now, NOT_UNDERSTOOD))
        late = bool(readings.times) and readings.apart_s(reading) >= interval
        if not late and not reading.cleared:
            return
        used = entries.used
        there = (entries.id_number[:used] >= 0) & (entries.absent[:used] == 0)
        made, dated = entries.made[:used], entries.dated[:used]
        # What was made since then may have an earlier time where the kernel's clock was set back.
        lag = max(0.0, *(ahead - reading.kernel_ahead for ahead in (reading.ahead, readings.ahead)))
        if reading.cleared:
            self.add_deletion(reading, readings, there & dated & (
                made < rules.before_ns(reading.cleared[0] - lag)))
        if late:                                        # not for the first one of another boot
            self._add_silence(reading, entries, readings, there, lag)

    def add_deletion(self, reading: OpenReading, readings: Readings,
                     spared: _Array = _NONE) -> None:
        """Rule 4: the gap of a deletion by hand that a reading has noted."""
        cleared: Any = reading.cleared
        self.add(Gap(*readings.by_site(*cleared), CLEARED, spared))

    def _add_silence(self, reading: OpenReading, entries: Entries, readings: Readings,
                     there: _Array, lag: float) -> None:
        """Rules 6 and 13: the reading is I or more after the last one; `there`: its slots."""
        last_read: Any = readings.read_at
        used = entries.used
        made, dated, seen = entries.made[:used], entries.dated[:used], entries.seen[:used]
        interval = rules.expires_within_s(readings.shortest_s(last_read))
        same = there & (made < rules.before_ns(last_read - lag)) & (dated | (
            seen < (last_read + interval) * rules.NS))
        for slots in reading.same:                      # the same since the last block that came
            same[slots] |= made[slots] < rules.before_ns(last_read - lag)
        # An entry without start_time that was used meanwhile may be a new one after a `clear`.
        proves = same & (dated | (seen < rules.before_ns(last_read) - rules.NS))
        last, now = last_read - readings.ahead, reading.now
        is_set = rules.clock_was_set(reading.ahead, readings.ahead, interval)
        why = CLOCK_SET if is_set and now - last < interval else NO_SWEEP
        if proves.any():
            self.add(Gap(last, max(last, now) if is_set else now - interval, why,
                         same | (there & (made < (last_read + interval - lag) * rules.NS)), True))
        else:
            self.add(Gap(last, max(last, now), why, proves))

    # ---- which jobs they concern

    def marks(self, slot: int, one: str, times: tuple[float, float, float, float],
              origin: float, is_whole: bool, reading: OpenReading | None) -> list[str]:
        """
        [why]: what the id `one` in this slot (-1: not known here) may have lost in a time.

        Args:
            times: (earliest, began, ended, latest) of the job, s by the site's clock.
            origin: when its first entry was made; 0: not known.
            is_whole: before that it cannot have had another one that expired.
            reading: the open one, or None.
        """
        earliest, began, ended, latest = times
        why = []
        for gap in self.gaps:
            if gap.began > latest or gap.ended < earliest or (slot >= 0 and gap.spares(slot)) or (
                    is_whole and gap.by_expiry and gap.ended <= origin):
                continue
            why.append(gap.why + (BEFORE_SEEN if gap.ended < began else
                                  AFTER_SEEN if gap.began > ended else ""))
        doubts: list[Any] = [self.doubts[slot]] if slot in self.doubts else []
        for slots, _, *when in reading.doubts if reading is not None else ():
            doubts += [[some[at] for some in when] for at in numpy.flatnonzero(slots == slot)]
        if any(doubt[0] <= latest and doubt[1] >= earliest for doubt in doubts):
            why.append(DOUBTFUL)
        since, until = self.refused.get(one, (latest + 1, earliest - 1))
        if since <= latest and until >= earliest:
            why.append(NOT_UNDERSTOOD)
        return why

    # ---- slots that are freed, or moved

    def drop(self, kept: _Array) -> None:
        """Of all slots those remain that are `kept`, array of bool."""
        for gap in self.gaps:
            gap.spared = numpy.packbits(gap.bits(len(kept)) & kept)
        for slot in [one for one in self.doubts if not kept[one]]:
            del self.doubts[slot]

    def renumber(self, used: int, live: _Array, now: _Array) -> None:
        """The slots `live` of `used` have got new numbers, `now` by the old ones."""
        for gap in self.gaps:
            gap.spared = numpy.packbits(gap.bits(used)[live])
        self.doubts = {int(now[slot]): doubt for slot, doubt in self.doubts.items()}
