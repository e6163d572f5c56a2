"""
What came in between two readings of a target's job_stats, without any server.

An entry that began again is known by its start_time, or by a counter that went back: all that it
has by then is new, and what the one before it did after the first reading is lost, unless it
expired: then it had done nothing for job_cleanup_interval.  So an entry that went or began again
earlier than that, and two readings that are as far apart, make lower bounds.  From 2.15.2 on
nothing can be mistaken; before, an entry that began again and has overtaken its old values between
two readings counts too little.
"""

from __future__ import annotations

from iostats.load.amounts import METRICS, MORE, amounts_of, more_amounts_of
from iostats.load.sums import TargetLoad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.storage.entries import EntriesRead, Key, Life

_LATE_NS = 2 * 10**9             # a clock is no better than that
CLEANUP_S = 600                  # job_cleanup_interval where it is not known; Lustre's default


def between(key: Key, before: EntriesRead, now: EntriesRead, server: str, span_s: float | None,
            cleanup_s: int | None) -> tuple[TargetLoad, str]:
    """
    (TargetLoad of what came in between two readings of a target, why it may be too low).

    `cleanup_s`: job_cleanup_interval; None where it is not known, and no other entry is known to
    be one that came after an expiry.
    """
    gained, skipped, lost = {}, 0, 0
    interval_s = CLEANUP_S if cleanup_s is None else cleanup_s
    for id, lives in now.entries.items():
        known = before.entries.get(id)
        if known is lives:
            continue                                # not a byte has changed
        if known is None and 0 < lives[0][0] < before.latest_ns - _LATE_NS:
            skipped += 1                            # it was there: a racing reader skips entries
            continue
        first = lives[0]
        if known and _is_another(known[-1], first):
            lost += not _expired(known[-1], first[0] or first[1], cleanup_s or 0)
        elif known:
            first = _gain(known[-1], first)
        gained[id] = [first, *lives[1:]]
    lost += sum(not _expired(lives[-1], now.latest_ns, interval_s)
                for id, lives in before.entries.items() if id not in now.entries)
    whys = [f"{skipped} {'entry was' if skipped == 1 else 'entries were'} missing from an earlier "
            f"reading"] if skipped else []
    if lost:
        whys.append(f"{lost} {'entry' if lost == 1 else 'entries'} removed or reset in between: "
                    f"{'its' if lost == 1 else 'their'} I/O before that is not known")
    if interval_s and span_s is not None and span_s >= interval_s:
        whys.append(f"{span_s:.0f} s apart: I/O of entries that expired in between is not known")
    whys += [now.bad or before.bad] if now.bad or before.bad else []
    return target_load(key, gained, server, span_s), "; ".join(whys)


def _is_another(before: Life, now: Life) -> bool:
    """Whether an entry began again, as far as it shows."""
    (started, _, old), (again, _, new) = before, now
    if started and again:
        return started != again
    return any(name not in new or new[name][0] < samples or (total or 0) > (new[name][1] or 0)
               for name, (samples, total) in old.items())


def _expired(before: Life, made_ns: int, cleanup_s: int) -> bool:
    """Whether an entry may have expired before another was made, or before that reading."""
    return cleanup_s > 0 and made_ns + _LATE_NS >= before[1] + cleanup_s * 10**9


def _gain(before: Life, now: Life) -> Life:
    """(start, last request, counters) of what `now`, the same entry, has more than `before`."""
    (_, _, old), (started, seen, new) = before, now
    return started, seen, {
        name: (samples - old.get(name, (0, 0))[0],
               None if total is None else total - (old.get(name, (0, 0))[1] or 0))
        for name, (samples, total) in new.items()}


def target_load(key: Key, entries: dict[str, list[Life]], server: str,
                span_s: float | None) -> TargetLoad:
    """The TargetLoad of {id: [Life]}."""
    ids: list[str] = []
    columns: list[list[int]] = [[] for _ in (*METRICS, *MORE)]
    for id, lives in entries.items():
        amounts = [0] * len(columns)
        for _, _, counters in lives:
            for place, amount in enumerate((*amounts_of(counters, key[1]),
                                            *more_amounts_of(counters))):
                amounts[place] += amount
        if any(amounts):
            ids.append(id)
            for column, amount in zip(columns, amounts):
                column.append(amount)
    return TargetLoad(*key, server, span_s, ids, columns)
