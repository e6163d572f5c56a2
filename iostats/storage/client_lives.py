"""
The I/O of a client at a target between two readings of its exports/NID/stats: pure rules.

What the kernel does, read in v2_5_3, v2_10_8, v2_12_9, v2_15_8, v2_16_1 and v2_17_0
(lustre/obdclass/lprocfs_status_server.c; lprocfs_status.c before 2.6):

* A NID's file is made when the first export of that NID connects (lprocfs_exp_setup()), with all
  counters at 0.  Each later export of the NID finds it and shares it.
* An export keeps the file of the NID from which it connected first, whatever NID it reconnects
  from: exp_nid_stats is set once.
* Disconnection and eviction let go of the file (lprocfs_exp_cleanup()) and no more: it stays, and
  counts on with the next export of the NID.
* A write to exports/clear (lprocfs_nid_stats_clear_seq_write()) removes the files of NIDs without
  an export, and sets the counters of the others to 0.  So does a write to the file itself, to it
  alone (lprocfs_stats_seq_write()).
* When the target stops all files go (lprocfs_free_per_client_stats()); `instance` of the target
  counts its starts, on whatever storage server (tgt_server_data_init()).
* start_time is set when a file is made and when it is cleared, both by the wall clock (ls_init;
  2.15.2 and later).  Before that, a clear shows by a number that went back alone.
* The counters are read one after the other, each under the lock that a clear holds for all of them:
  a reading into which a clear falls has the old start_time, old numbers in its first lines, and new
  ones in the rest.

So: another start_time, or another `instance`, is another life, which began at 0 after the last
reading.  The same start_time is the same life; if a number went back in it, a clear fell into this
reading, which then counts nothing.  Without start_time each counter is compared by itself: one that
decreased was reset, one that did not has gained the difference, which is too little at most.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.exports import ClientAmounts
from iostats.lustre.metrics import is_operation
from iostats.wire.messages.clients_encoder import (
    MAYBE_RESET,
    NOT_UNDERSTOOD,
    RESET,
    UNREADABLE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Optional

    from iostats.lustre.exports import ClientFile

    Amounts = Sequence[Optional[int]]
    Counts = Mapping[str, tuple[int, ...]]

# Where the clocks of a file and of its reader are the same one, and a reading takes microseconds.
SLACK_NS = 1_000_000_000
NOTHING = (0, 0, 0, 0, 0)
NOT_KNOWN = ClientAmounts(*[None] * 5)


class Life(NamedTuple):
    """The contents of a client's file at its last reading."""

    # start_ns, counts: as in exports.ClientFile
    start_ns: int
    amounts: ClientAmounts  # ClientAmounts; None for what could not be read, or understood
    counts: dict[str, tuple[int, ...]] | None


class ClientGain(NamedTuple):
    """The gain between two readings."""

    amounts: tuple[int, ...]    # five integers: not more than was done since the reading before
    life: Life                  # the Life to compare the next reading with
    why: str                    # where it may be less: one of clients_encoder.LOSSES; else ""


def start_unknown_life(now: ClientFile) -> ClientGain:
    """
    Return the life of a file that existed before the first reading: nothing is known about its
    earlier I/O.
    """
    return ClientGain(NOTHING, Life(*now[:3]), NOT_UNDERSTOOD if now.why else "")


def start_new_life(now: ClientFile) -> ClientGain:
    """Return the life of a file that was created after the last reading."""
    return ClientGain(_replace_unknown(now.amounts), Life(*now[:3]), NOT_UNDERSTOOD if now.why
                      else "")


def compare_readings(before: Life, now: ClientFile, is_restarted: bool,
                     read_ns: tuple[int, int]) -> ClientGain:
    """
    The ClientGain of a file that was there before.

    Args:
        is_restarted: the target was started since then, by its `instance`.
        read_ns: when the reading before began and ended, ns of the wall clock.
    """
    if before.start_ns and now.start_ns:
        if before.start_ns == now.start_ns:
            return _continue_life(before, now)
        if not is_restarted:
            return _begin_life(before, now, read_ns)
    if is_restarted:
        return start_new_life(now)
    if before.start_ns or now.start_ns:
        return _compare_with_other_header(before, now, read_ns)
    return _compare_by_counters(before, now)


def _replace_unknown(amounts: Amounts) -> tuple[int, ...]:
    return tuple(amount or 0 for amount in amounts)


def _subtract(before: Amounts, now: Amounts) -> tuple[int, ...]:
    return tuple(0 if old is None or new is None else new - old for old, new in zip(before, now))


def _explain_gaps(before: Life, now: ClientFile) -> str:
    """Why the difference of two readings of one life is too little; ""."""
    return NOT_UNDERSTOOD if now.why else UNREADABLE if None in before.amounts else ""


def _continue_life(before: Life, now: ClientFile) -> ClientGain:
    gained = _subtract(before.amounts, now.amounts)
    if min(gained) < 0:
        return ClientGain(NOTHING, Life(now.start_ns, NOT_KNOWN, None), RESET)
    return ClientGain(gained, Life(*now[:3]), _explain_gaps(before, now))


def _begin_life(before: Life, now: ClientFile, read_ns: tuple[int, int]) -> ClientGain:
    # 0 for what was never read: it may have begun before that try, and start_time does not prove
    # that it did not, as the clock may have been set.
    amounts = tuple(0 if old is None else new
                    for new, old in zip(_replace_unknown(now.amounts), before.amounts))
    if read_ns[0] - SLACK_NS <= now.start_ns <= read_ns[1] + SLACK_NS:
        # The clear may have fallen into the reading before: that one may have counted some.
        amounts = tuple(max(0, new - (old or 0)) for new, old in zip(amounts, before.amounts))
    return ClientGain(amounts, Life(*now[:3]), RESET)


def _compare_with_other_header(before: Life, now: ClientFile,
                               read_ns: tuple[int, int]) -> ClientGain:
    """
    Compare two readings between which enable_stats_header was set or unset: only one has a
    start_time.
    """
    if now.start_ns > read_ns[0] - SLACK_NS:
        return _begin_life(before, now, read_ns)
    gained = _subtract(before.amounts, now.amounts)
    if min(gained) < 0:
        return ClientGain(NOTHING, Life(*now[:3]), RESET)
    return ClientGain(gained, Life(*now[:3]),
                      _explain_gaps(before, now) or ("" if now.start_ns else MAYBE_RESET))


def _compare_by_counters(before: Life, now: ClientFile) -> ClientGain:
    if before.counts is None or now.counts is None:
        return ClientGain(NOTHING, Life(*now[:3]), NOT_UNDERSTOOD if now.why else UNREADABLE)
    gains = dict.fromkeys(ClientAmounts._fields, 0)
    began_again = any(name not in now.counts for name in before.counts)
    for name, numbers in now.counts.items():
        old = before.counts.get(name)
        samples, total = numbers[0], numbers[-1]
        if old is not None and _has_decreased(old, numbers):
            began_again = True
        elif old is not None:
            samples, total = samples - old[0], total - old[-1]
        if name == "read_bytes":
            gains["reads"], gains["read_bytes"] = samples, total
        elif name == "write_bytes":
            gains["writes"], gains["write_bytes"] = samples, total
        elif is_operation(name):
            gains["operations"] += samples
    return ClientGain(tuple(gains.values()), Life(*now[:3]), RESET if began_again else "")


def _has_decreased(old: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether a counter was reset: (samples,), or (samples, min, max, sum)."""
    return now[0] < old[0] or (len(now) == len(old) == 4 and (
        now[1] > old[1] or now[2] < old[2] or now[3] < old[3]))
