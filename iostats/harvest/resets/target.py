"""
One target: receives the blocks of its job_stats, and returns each job's totals and gains, and why
these may be too low.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets import codec
from iostats.harvest.resets.comparison import Comparison
from iostats.harvest.resets.counters import (
    GAIN_NAMES,
    MORE_GAINS,
    WHOLE_GAINS,
    CounterTotals,
    Gains,
)
from iostats.harvest.resets.entries import GONE_FOR_CERTAIN, MOST_ABSENT, NO_ENTRY, Entries
from iostats.harvest.resets.gaps import (
    AT_LIMIT,
    CLOCK_SET,
    LATE,
    NO_INTERVAL,
    RESTARTED,
    Gap,
    Losses,
)
from iostats.harvest.resets.readings import NO_GAINS, OpenReading, Readings, make_boot_key
from iostats.harvest.resets.rules import NS, reduce_ns, were_removed_too_early
from iostats.wire.messages.arrays import differs, list_integers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.harvest.resets.job_ids import JobIds
    from iostats.wire.messages.arrays import Array, Integers
    from iostats.wire.messages.sweep import BlockHead, BlockRows


_NOTHING_GAINED: Any = ([], NO_GAINS[:, :len(WHOLE_GAINS)], {})


class CorrectedTarget:
    """
    The totals of each job at one target, corrected for counter resets.

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
        self._gained: tuple[list[str], Integers, dict[str, Array]] = _NOTHING_GAINED
        self._arrived: tuple[list[str], Integers] | None = None
        self._span = 0.0, False             # of compute_span_s

    @property
    def read_at(self) -> float | None:
        """The begin of the last whole reading, s by the storage server's clock; None before it."""
        return self.readings.read_at

    @property
    def swept_since(self) -> float | None:
        """The time of the first whole reading, by the site's clock; None before it."""
        return self.readings.swept_since

    @property
    def swept_until(self) -> float | None:
        """The time of the last whole reading, by the site's clock; None before it."""
        return self.readings.swept_until

    @property
    def cleanup_s(self) -> int | None:
        """job_cleanup_interval; None if it cannot be read."""
        return self.readings.cleanup_s

    # ---- what comes in

    def add_block(self, rows: BlockRows, node: str, boot_id: str, full: bool, ahead_s: float = 0.0,
                  kernel_ahead_s: float | None = None) -> bool:
        """Add a block; False if it is outdated, or of a file that could not be read.

        Blocks of one reading come in their order, readings in theirs.

        Args:
            node, boot_id: who has read it.
            full: what is in no block of this reading is not there.
            ahead_s: the storage server's clock less the site's when it was read; as the agent has
                it, whose clock goes slower and not back.
            kernel_ahead_s: the same of the kernel's clock, where that is known.
        """
        block, readings = rows.head, self.readings
        if block.unreadable:
            return False
        source = make_boot_key(node, boot_id)
        last_read_at = readings.heard.get(source, float("-inf"))
        if block.read_at == last_read_at or (block.read_at < last_read_at and not full):
            return False
        if source != make_boot_key(self.node, self.boot_id):
            self._start_new_boot(block.read_at - ahead_s)
            readings.since_boot_s = None
        elif full and block.read_at < (readings.open.read_at if readings.open else last_read_at):
            self._set_back(block.read_at - ahead_s)
        if block.read_at < last_read_at:
            del readings.heard[source]
        self.node, self.boot_id = node, boot_id
        reading = readings.open
        if reading is None or reading.read_at != block.read_at:
            if reading is not None:
                if block.read_at < reading.read_at:
                    return False
                readings.whole = 0                      # its last block never came
                self.losses.add_doubts(reading)
            before, reading = reading, readings.begin(block, full, ahead_s, kernel_ahead_s)
            if before is not None:
                reading.cleared = before.cleared
        key = (block.ids[0], rows.seen_ns.item(0), len(block.ids)) if block.ids else None
        if key is None or key not in reading.done:      # else it has come before
            reading.done.add(key)
            if block.bad:
                self._refuse(block, reading)
            if block.ids:
                if self.losses.refused:
                    self.losses.understand(block.ids, reading.now,
                                           readings.get_cleanup_interval_s())
                Comparison(rows, self.tables, readings, self.losses, reading).store()
        if block.ended:
            self._end(block, reading)
        return True

    def _refuse(self, block: BlockHead, reading: OpenReading) -> None:
        """Handle invalid entries by rule 12."""
        since = reading.now if self.swept_until is None else self.swept_until
        reading.bad = True
        all_named = self.losses.refuse(block.refused, since, reading.now)
        reading.nameless |= block.bad > len(block.refused) or not all_named

    def _start_new_boot(self, now: float) -> None:
        """Rule 7: handle another server, or another boot of it; `now`: by the site's clock."""
        self._break_series()
        if self.swept_until is not None or self.tables.used:    # parts of a first reading
            self.tables.end_all()
        self._add_move(now)

    def note_late(self, now: float) -> None:
        """
        Rule 7: handle another server's reading of `now`, by the site's clock, that arrives after
        later ones of this server: what it shows is not counted.
        """
        if not any(RESTARTED in gap.why and gap.began <= now <= gap.ended
                   for gap in self.losses.gaps):
            self._add_move(now)

    def _add_move(self, now: float) -> None:
        """Add the gap of a target that another server or boot has read at `now`."""
        last = self.swept_until
        if last is not None:
            self.losses.add(Gap(self.readings.get_last_whole(now), max(last, now), RESTARTED))

    def _set_back(self, now: float) -> None:
        """Rule 11: handle a clock that was set back; `now`: by the site's clock."""
        self._break_series()
        self.losses.add(Gap(self.readings.get_last_whole(now), now, CLOCK_SET))

    def _break_series(self) -> None:
        """The next readings do not continue the earlier ones: begin a new series."""
        reading = self.readings.open
        self.losses.add_doubts(reading)
        if reading is not None and reading.cleared:
            self.losses.add_deletion(reading, self.readings)
        self.readings.break_off()
        if self.tables.has_places:
            self.tables.place[:] = self.tables.not_in[:] = -1

    # ---- the end of a reading

    def _end(self, block: BlockHead, reading: OpenReading) -> None:
        tables, readings = self.tables, self.readings
        used, slots = tables.used, reading.list_all_slots()
        here = numpy.zeros(used, bool)
        here[slots] = True
        absent = tables.absent[:used]                   # NO_ENTRY in a free slot as well
        missing = ~here
        if not reading.full:
            missing &= absent > 0
            if block.gone:
                removed = tables.known(block.gone)
                missing[removed] = ~here[removed]
        missing &= differs(absent, NO_ENTRY)
        if missing.any():
            self._note_absent(numpy.flatnonzero(missing), reading)
        readings.whole = 0 if reading.bad else readings.whole + 1
        self.losses.add_doubts(reading)
        self.losses.find(reading, tables, readings)
        self.entries = block.entries
        self._arrived = None
        self._gained = _NOTHING_GAINED if not len(slots) else self._split_gains(
            *reading.split_gains(slots, int(here.sum()) < len(slots)))
        self._span = readings.compute_span_s(reading)
        readings.end(reading, make_boot_key(self.node, self.boot_id))
        if tables.forgotten[:used].any():
            self._release(numpy.flatnonzero(tables.forgotten[:used]
                                            & (tables.absent[:used] >= GONE_FOR_CERTAIN)))

    def _note_absent(self, slots: Integers, reading: OpenReading) -> None:
        """Note the entries that this reading lacks; rule 4 for those that are certainly removed."""
        tables, readings = self.tables, self.readings
        count = tables.absent[slots]
        tables.absent_at_s[slots[~differs(count, 0)]] = reading.read_at
        if reading.bad:
            tables.absent[slots] = numpy.maximum(count, 1)
            return
        tables.absent[slots] = count = numpy.minimum(numpy.maximum(count, 1) + 1, MOST_ABSENT)
        again = slots[~differs(count, GONE_FOR_CERTAIN)]
        if not len(again):
            return
        seen_ns = tables.seen_ns[again]
        early = again[were_removed_too_early(tables.absent_at_s[again], seen_ns,
                                             readings.shortest_ns(seen_ns))]
        if len(early):
            # Before it was absent for the first time, unless all was cleared once more since.
            first = float(tables.absent_at_s[early].max())
            used = slice(tables.used)
            stayed = ((tables.id_number[used] >= 0) & (tables.absent[used] == 0)
                      & tables.dated[used] & (tables.made_ns[used] < reduce_ns(first)))
            reading.clear_between(readings.find_last_reading_before_loss(tables, early,
                                                                         tables.absent[early]),
                                  first if stayed.any() else reading.read_at)

    def _split_gains(self, slots: Integers,
                  gains: Integers) -> tuple[list[str], Integers, dict[str, Array]]:
        """Return (ids of these slots; [id, of WHOLE_GAINS]; {name: column} of more)."""
        whole, has_gains, ids = len(WHOLE_GAINS), self.tables.layout.gains, self.tables.ids(slots)
        self._arrived = ids, gains
        return (ids, gains[:, :whole].copy(),
                {name: gains[:, column].astype(numpy.float32)
                 for column, name in enumerate(GAIN_NAMES)
                 if name in MORE_GAINS and has_gains[:, column].any()})

    # ---- what comes out

    @property
    def gaps(self) -> list[tuple[float, float, str]]:
        """Return [(from, to, why)] of times in which I/O may be lost; s, by the site's clock."""
        return [(gap.began, gap.ended, gap.why) for gap in self.losses.gaps]

    def ids(self) -> list[str]:
        """All known ids that are not dropped."""
        return self.tables.ids(self.tables.list_remembered_slots())

    def changed(self) -> list[str]:
        """The ids that changed in the last whole reading."""
        return self._gained[0]

    def gains(self) -> Gains:
        """The Gains of the last whole reading, which later readings do not change."""
        span_s, is_measured = self._span
        if not span_s:
            return Gains._make((_NOTHING_GAINED[0], *_NOTHING_GAINED[1].T, 0.0, {}, False))
        ids, gains, more = self._gained
        return Gains._make((ids, *gains.T, span_s, more, is_measured))

    def pop_arrived(self) -> tuple[list[str], Integers, float]:
        """
        The gains of the last whole reading, once: (ids, int64 [id, of GAIN_NAMES], seconds since
        the reading before; 0: the time of the gains is unknown).
        """
        (ids, gains), self._arrived = self._arrived or ([], NO_GAINS), None
        return ids, gains, self._span[0]

    def totals(self, ids: Iterable[str] | None = None) -> CounterTotals:
        """CounterTotals of these jobs (default: all); 0 for an unknown one."""
        tables = self.tables
        if ids is None:
            slots = tables.list_remembered_slots()
            return tables.totals(tables.ids(slots), slots)
        ids = list(ids)
        return tables.totals(ids, tables.find(ids)) if tables.used else CounterTotals(ids, {})

    def find_first_entry_time(self, job_id: str) -> float | None:
        """
        Return the creation time, or first reading, of a job's first entry here; s, by the site's
        clock; or None.
        """
        return self._get_origin_s(self.tables.find([job_id]).item(0)) or None

    def _get_origin_s(self, slot: int) -> float:
        return self.tables.origin_ns.item(slot) / NS if slot >= 0 else 0.0

    def marks(self, job_id: str, began: float, ended: float | None, earliest: float | None = None,
              latest: float | None = None) -> list[str]:
        """
        Return [why]: each reason for which this id's total here may be too low; [] when there is
        none.

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
        slot = self.tables.find([job_id]).item(0)
        origin_s = self._get_origin_s(slot)
        why = []
        if began < readings.swept_since or (
                earliest is not None and 0 < origin_s <= readings.swept_since):
            why.append(LATE)
        earliest = began if earliest is None else min(began, earliest)
        # Before its first entry it cannot have had another one that expired.
        is_whole = bool(origin_s) and origin_s < earliest + readings.shortest_s(
            earliest + min(readings.aheads, default=readings.ahead_s))
        why += self.losses.marks(slot, job_id, (earliest, began, ended, latest), origin_s, is_whole,
                                 readings.open)
        if readings.cleanup_s is None:
            why.append(NO_INTERVAL)
        if slot >= 0 and self.tables.is_at_limit(slot):
            why.append(AT_LIMIT)
        return list(dict.fromkeys(why))

    def list_suspect_ids(self) -> list[str]:
        """The few ids for which marks() may return more than LATE, NO_INTERVAL and gaps."""
        slots = numpy.array(sorted({*self.losses.doubts, *self.tables.list_slots_near_limit()}),
                            numpy.intp)
        return self.tables.ids(slots[self.tables.id_number[slots] >= 0])

    # ---- forgetting

    def drop_ids(self, ids: Iterable[str]) -> None:
        """
        Count from 0 again for these jobs, and free their memory.  An entry that job_stats still
        show stays until it is removed there, so that it is not counted again: by a full sweep, or
        because job_cleanup_interval is 0.
        """
        ids = list(ids)
        for job_id in ids if self.losses.refused else ():
            self.losses.refused.pop(job_id, None)
        slots = numpy.unique(self.tables.known(ids))
        there = self.tables.absent[slots] < GONE_FOR_CERTAIN
        if there.any():
            self.tables.drop_slots(slots[there])
            for slot in list_integers(slots[there]):
                self.losses.doubts.pop(slot, None)
        self._release(slots[~there])

    def _release(self, slots: Integers) -> None:
        if not len(slots):
            return
        tables, reading = self.tables, self.readings.open
        in_use = tables.release(slots)
        self.losses.drop(in_use)
        if reading is not None:
            reading.renumber(lambda numbers: in_use[numbers], None)
        if tables.is_sparse():
            used, (live, now) = tables.used, tables.renumber_slots()
            tables.compact(live, now)
            self.losses.renumber(used, live, now)
            if reading is not None:
                reading.renumber(lambda numbers: now[numbers] >= 0, now)

    # ---- to bytes and back

    def state(self) -> bytes:
        """The target as bytes, without gains(): codec.encode()."""
        return codec.encode(self)

    @classmethod
    def from_state(cls, job_ids: JobIds, data: bytes) -> CorrectedTarget:
        """The target of state()'s bytes; StateError if they are not valid."""
        return codec.decode(lambda *names: cls(job_ids, *names), data)
