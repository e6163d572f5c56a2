"""
One target: blocks of its job_stats in; out come each job's totals and gains, and why these may be
too low.
"""

from __future__ import annotations

import numpy

from iostats.site.resets import codec
from iostats.site.resets.comparison import Comparison
from iostats.site.resets.counters import (
    GAIN_NAMES,
    MORE_GAINS,
    WHOLE_GAINS,
    CounterTotals,
    Gains,
)
from iostats.site.resets.entries import (
    GONE_FOR_CERTAIN,
    MOST_ABSENT,
    NO_ENTRY,
    Entries,
)
from iostats.site.resets.gaps import (
    AT_LIMIT,
    CLOCK_SET,
    LATE,
    NO_INTERVAL,
    RESTARTED,
    Gap,
    Losses,
)
from iostats.site.resets.readings import NO_GAINS, OpenReading, Readings, machine
from iostats.site.resets.rules import NS, before_ns, gone_too_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import numpy.typing

    from iostats.site.resets.job_ids import JobIds

    _Array = numpy.typing.NDArray[Any]

_NOTHING_GAINED: Any = ([], NO_GAINS[:, :len(WHOLE_GAINS)], {})


class CorrectedTarget:
    """
    What each job did at one target, corrected for counter resets.

    Attributes:
        file_system, target: names, "scratch" and "OST000a".
        node, boot_id: the storage server that read it last, and that server's boot.
        entries: how many were in the file at the last whole reading.
        tables: the Entries; `readings`: the Readings; `losses`: the Losses.
    """

    __slots__ = ("_arrived", "_gained", "_span", "boot_id", "entries", "file_system", "losses",
                 "node", "readings", "tables", "target")

    def __init__(self, job_ids: JobIds, file_system: str, target: str) -> None:
        self.file_system, self.target = file_system, target
        self.node: str | None = None
        self.boot_id: str | None = None
        self.entries = 0
        self.tables, self.readings, self.losses = Entries(job_ids), Readings(), Losses()
        # The ids that changed, what they gained [id, of WHOLE_GAINS], and {name: column} of more.
        self._gained: tuple[list[str], _Array, dict[str, _Array]] = _NOTHING_GAINED
        self._arrived: tuple[list[str], _Array] | None = None
        self._span = 0.0, False             # of Readings.span_s

    @property
    def read_at(self) -> float | None:
        """When the last whole reading began, s by the storage server's clock; None before it."""
        return self.readings.read_at

    @property
    def swept_since(self) -> float | None:
        """When the first whole reading was, by the site's clock; None before it."""
        return self.readings.swept_since

    @property
    def swept_until(self) -> float | None:
        """When the last whole reading was, by the site's clock; None before it."""
        return self.readings.swept_until

    @property
    def cleanup_s(self) -> int | None:
        """job_cleanup_interval; None where it cannot be read."""
        return self.readings.cleanup_s

    # ---- what comes in

    def take(self, block: Any, node: str, boot_id: str, full: bool, ahead: float = 0.0,
             kernel_ahead: float | None = None) -> bool:
        """
        Take one block; True, or False for one that is old, or of a file that could not be read.

        Blocks of one reading come in their order, readings in theirs.

        Args:
            block: a message's block, or its arrays (wire/messages/sweep.py).
            node, boot_id: who has read it.
            full: what is in no block of this reading is not there.
            ahead: the storage server's clock less the site's when it was read, s; as the agent has
                it, whose clock goes slower and not back.
            kernel_ahead: the same of the kernel's clock, where that is known.
        """
        rows, readings = block.rows(), self.readings
        block = rows.head
        if block.unreadable:
            return False
        who = machine(node, boot_id)
        heard = readings.heard.get(who, float("-inf"))
        if block.read_at == heard or (block.read_at < heard and not full):
            return False
        if who != machine(self.node, self.boot_id):
            self._begin_anew(block.read_at - ahead)
            readings.since_boot_s = None
        elif full and block.read_at < (readings.open.read_at if readings.open else heard):
            self._set_back(block.read_at - ahead)
        if block.read_at < heard:
            del readings.heard[who]
        self.node, self.boot_id = node, boot_id
        reading = readings.open
        if reading is None or reading.read_at != block.read_at:
            if reading is not None:
                if block.read_at < reading.read_at:
                    return False
                readings.whole = 0                      # its last block never came
                self.losses.keep_doubts(reading)
            before, reading = reading, readings.begin(block, full, ahead, kernel_ahead)
            if before is not None:
                reading.cleared = before.cleared
        key = (block.ids[0], int(rows.seen[0]), len(block.ids)) if block.ids else None
        if key is None or key not in reading.done:      # else it has come before
            reading.done.add(key)
            if block.bad:
                self._refuse(block, reading)
            if block.ids:
                if self.losses.refused:
                    self.losses.understand(block.ids, reading.now, readings.interval_s())
                Comparison(rows, self.tables, readings, self.losses, reading).store()
        if block.ended:
            self._end(block, reading)
        return True

    def _refuse(self, block: Any, reading: OpenReading) -> None:
        """Rule 12."""
        since = reading.now if self.swept_until is None else self.swept_until
        reading.bad = True
        all_named = self.losses.refuse(block.refused, since, reading.now)
        reading.nameless |= block.bad > len(block.refused) or not all_named

    def _begin_anew(self, now: float) -> None:
        """Rule 7: another server, or another boot of it; `now`: by the site's clock."""
        self._lose_sight()
        last = self.swept_until
        if last is not None or self.tables.used:        # parts of a first reading may be there
            self.tables.end_all()
        if last is not None:
            self.losses.add(Gap(self.readings.unknown_since(now), max(last, now), RESTARTED))

    def _set_back(self, now: float) -> None:
        """Rule 11; `now`: by the site's clock."""
        self._lose_sight()
        self.losses.add(Gap(self.readings.unknown_since(now), now, CLOCK_SET))

    def _lose_sight(self) -> None:
        """What comes next does not follow what was read."""
        reading = self.readings.open
        self.losses.keep_doubts(reading)
        if reading is not None and reading.cleared:
            self.losses.add_deletion(reading, self.readings)
        self.readings.break_off()
        if self.tables.place is not None:
            self.tables.place[:] = self.tables.not_in[:] = -1

    # ---- the end of a reading

    def _end(self, block: Any, reading: OpenReading) -> None:
        tables, readings = self.tables, self.readings
        used, slots = tables.used, reading.all_slots()
        here = numpy.zeros(used, bool)
        here[slots] = True
        absent = tables.absent[:used]                   # NO_ENTRY in a free slot as well
        missing = ~here
        if not reading.full:
            missing &= absent > 0
            if block.gone:
                gone = tables.known(block.gone)
                missing[gone] = ~here[gone]
        missing &= absent != NO_ENTRY
        if missing.any():
            self._miss(numpy.flatnonzero(missing), reading)
        readings.whole = 0 if reading.bad else readings.whole + 1
        self.losses.keep_doubts(reading)
        self.losses.find(reading, tables, readings)
        self.entries = block.entries
        self._arrived = None
        self._gained = _NOTHING_GAINED if not len(slots) else self._gains_of(
            *reading.gained(slots, int(here.sum()) < len(slots)))
        self._span = readings.span_s(reading)
        readings.end(reading, machine(self.node, self.boot_id))
        if tables.forgotten[:used].any():
            self._release(numpy.flatnonzero(tables.forgotten[:used]
                                            & (tables.absent[:used] >= GONE_FOR_CERTAIN)))

    def _miss(self, slots: _Array, reading: OpenReading) -> None:
        """Note which entries this reading has not; rule 4 for those that are gone for certain."""
        tables, readings = self.tables, self.readings
        count = tables.absent[slots]
        tables.absent_at[slots[count == 0]] = reading.read_at
        if reading.bad:
            tables.absent[slots] = numpy.maximum(count, 1)
            return
        tables.absent[slots] = count = numpy.minimum(numpy.maximum(count, 1) + 1, MOST_ABSENT)
        again = slots[count == GONE_FOR_CERTAIN]
        if not len(again):
            return
        seen = tables.seen[again]
        early = again[gone_too_early(tables.absent_at[again], seen, readings.shortest_ns(seen))]
        if len(early):
            # Before it was absent for the first time, unless all was cleared once more since.
            first = float(tables.absent_at[early].max())
            used = slice(tables.used)
            stayed = ((tables.id_number[used] >= 0) & (tables.absent[used] == 0)
                      & tables.dated[used] & (tables.made[used] < before_ns(first)))
            reading.clear_between(readings.last_before_loss(tables, early, tables.absent[early]),
                                  first if stayed.any() else reading.read_at)

    def _gains_of(self, slots: _Array,
                  gains: _Array) -> tuple[list[str], _Array, dict[str, _Array]]:
        """(ids of these slots; [id, of WHOLE_GAINS]; {name: column} of more)."""
        whole, known, ids = len(WHOLE_GAINS), self.tables.layout.gains, self.tables.ids(slots)
        self._arrived = ids, gains
        return (ids, gains[:, :whole].copy(),
                {name: gains[:, column].astype(numpy.float32)
                 for column, name in enumerate(GAIN_NAMES)
                 if name in MORE_GAINS and known[:, column].any()})

    # ---- what comes out

    @property
    def gaps(self) -> list[tuple[float, float, str]]:
        """[(from, to, why)]: when something may have been lost; s, by the site's clock."""
        return [(gap.began, gap.ended, gap.why) for gap in self.losses.gaps]

    def ids(self) -> list[str]:
        """All that are known and not forgotten."""
        return self.tables.ids(self.tables.remembered())

    def changed(self) -> list[str]:
        """Those that changed in the last whole reading."""
        return self._gained[0]

    def gains(self) -> Gains:
        """What was gained in the last whole reading: Gains, which no later one changes."""
        span_s, is_measured = self._span
        if not span_s:
            return Gains._make((_NOTHING_GAINED[0], *_NOTHING_GAINED[1].T, 0.0, {}, False))
        ids, gains, more = self._gained
        return Gains._make((ids, *gains.T, span_s, more, is_measured))

    def pop_arrived(self) -> tuple[list[str], _Array, float]:
        """
        What came in the last whole reading, once: (ids, int64 [id, of GAIN_NAMES], seconds since
        the reading before; 0: it is not known in which time it was gained).
        """
        (ids, gains), self._arrived = self._arrived or ([], NO_GAINS), None
        return ids, gains, self._span[0]

    def totals(self, ids: Iterable[str] | None = None) -> CounterTotals:
        """CounterTotals of these jobs (default: all); 0 for one that is not known."""
        tables = self.tables
        if ids is None:
            slots = tables.remembered()
            return tables.totals(tables.ids(slots), slots)
        ids = list(ids)
        return tables.totals(ids, tables.find(ids)) if tables.used else CounterTotals(ids, {})

    def origin(self, one: str) -> float | None:
        """When its first entry here was made, or first seen; s, by the site's clock; or None."""
        return self._origin_s(int(self.tables.find([one])[0])) or None

    def _origin_s(self, slot: int) -> float:
        return int(self.tables.origin[slot]) / NS if slot >= 0 else 0.0

    def marks(self, one: str, began: float, ended: float | None, earliest: float | None = None,
              latest: float | None = None) -> list[str]:
        """
        [why]: each reason for which this id's total here may be too low; [] when there is none.

        Args:
            began, ended: of the job, s of the site's clock; ended: None while it runs.
            earliest, latest: where these are not known, but when it was seen: the time in which it
                may have run.
        """
        readings = self.readings
        if readings.swept_since is None:
            return [LATE]
        ended = float("inf") if ended is None else ended
        latest = ended if latest is None else max(ended, latest)
        slot = int(self.tables.find([one])[0])
        origin = self._origin_s(slot)
        why = []
        if began < readings.swept_since or (
                earliest is not None and 0 < origin <= readings.swept_since):
            why.append(LATE)
        earliest = began if earliest is None else min(began, earliest)
        # Before its first entry it cannot have had another one that expired.
        is_whole = bool(origin) and origin < earliest + readings.shortest_s(
            earliest + min(readings.aheads, default=readings.ahead))
        why += self.losses.marks(slot, one, (earliest, began, ended, latest), origin, is_whole,
                                 readings.open)
        if readings.cleanup_s is None:
            why.append(NO_INTERVAL)
        if slot >= 0 and self.tables.is_at_limit(slot):
            why.append(AT_LIMIT)
        return list(dict.fromkeys(why))

    def suspects(self) -> list[str]:
        """The few ids for which marks() may return more than LATE, NO_INTERVAL and gaps."""
        slots = numpy.array(sorted({*self.losses.doubts, *self.tables.near_limit()}), numpy.intp)
        return self.tables.ids(slots[self.tables.id_number[slots] >= 0])

    # ---- forgetting

    def forget(self, ids: Iterable[str]) -> None:
        """
        Begin to count from 0 for these jobs, and leave nothing of them in memory.

        What job_stats still show of one stays until it is gone there, so that it is not counted
        again: by a full sweep, or because job_cleanup_interval is 0.
        """
        ids = list(ids)
        for one in ids if self.losses.refused else ():
            self.losses.refused.pop(one, None)
        slots = numpy.unique(self.tables.known(ids))
        there = self.tables.absent[slots] < GONE_FOR_CERTAIN
        if there.any():
            self.tables.forget(slots[there])
            for slot in slots[there].tolist():
                self.losses.doubts.pop(slot, None)
        self._release(slots[~there])

    def _release(self, slots: _Array) -> None:
        if not len(slots):
            return
        tables, reading = self.tables, self.readings.open
        kept = tables.release(slots)
        self.losses.drop(kept)
        if reading is not None:
            reading.renumber(lambda some: kept[some], None)
        if tables.is_sparse():
            used, (live, now) = tables.used, tables.renumbered()
            tables.compact(live, now)
            self.losses.renumber(used, live, now)
            if reading is not None:
                reading.renumber(lambda some: now[some] >= 0, now)

    # ---- to bytes and back

    def state(self) -> bytes:
        """All of it but gains(), as bytes: codec.encoded()."""
        return codec.encoded(self)

    @classmethod
    def from_state(cls, job_ids: JobIds, data: bytes) -> CorrectedTarget:
        """The target that state() made `data` of; StateError when these are not such bytes."""
        return codec.decoded(lambda *names: cls(job_ids, *names), data)
