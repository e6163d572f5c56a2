"""
Rules about how programs call: the sizes of reads and writes, and the operations.
"""

from __future__ import annotations

from iostats.base.units import brief_seconds, bytes_text, percent_text
from iostats.report.advice.interval import (
    Interval,
    added_up,
    exactly,
    ratio,
    share_of,
    surely_at_least,
    surely_at_most,
)
from iostats.report.advice.rule import (
    Held,
    at_least,
    cost_of,
    count_text,
    node_time_text,
    of_time,
    rate_text,
    share_of_it,
    weight_of,
)
from iostats.report.job_summary import NODES

_MOST = 0.5
_OF_A_FILE = 2              # calls, or requests, for each open: it is the files that are small
_WORTH_NAMING = 0.1         # of the time in all calls
_OFTEN = 0.1                # of the job's time between a close and the next open, on average

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from iostats.report.advice.known import KnownIO
    from iostats.report.advice.rule import Limits


def small_reads(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Reads whose mean is small, that take their time."""
    return _small_calls(known, limits, "read", limits["small_reads_bytes"])


def small_writes(known: KnownIO, limits: Limits) -> Optional[Held]:
    """The same of writes."""
    return _small_calls(known, limits, "write", limits["small_writes_bytes"])


def _small_calls(known: KnownIO, limits: Limits, way: str, most: int) -> Optional[Held]:
    calls, moved = known.of(f"{way}_calls"), known.of(f"{way}_bytes")
    mean = ratio(moved, calls)
    if not (known.side == NODES and surely_at_least(calls, limits["from_operations"])
            and surely_at_most(mean, most) and limits.matters(known, way)):
        return None
    size = bytes_text(round(mean.high), limits.units)
    up_to = "" if mean.low == mean.high else "up to "
    return Held(weight_of(known, way),
                f"{count_text(calls)} {way}s of {up_to}{size} on average{of_time(known, way)}",
                {"calls": calls.low, "mean_bytes": round(mean.high, 1),
                 "seconds": known.times_s[way].low if known.is_timed(way) else None},
                cost=cost_of(known, way))


_OF_SMALL_READS = ("Nothing gathers them on the node (O_DIRECT, or reads all over a file).",
                   "Read 1 MiB or more at a time, in the file's order.")


def small_requests(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Bulk requests as small, and nearly as many, as the calls: nothing gathers them."""
    found = [held for held in (_small_requests(known, limits, way) for way in ("write", "read"))
             if held]
    return max(found, key=lambda held: held.weight, default=None)


def _small_requests(known: KnownIO, limits: Limits, way: str) -> Optional[Held]:
    rpcs, moved = (known.of_data(f"{way}_{what}") for what in ("rpcs", "bytes"))
    mean = ratio(moved, rpcs)
    if not (surely_at_least(rpcs, limits["from_operations"])
            and surely_at_most(mean, limits["small_requests_bytes"])):
        return None
    # Whole pages of which little was asked for: reads here and there; see random_reads.
    if way == "read" and known.side == NODES and surely_at_least(
            ratio(moved, known.of("read_bytes")), limits["random_reads_times"]):
        return None
    if surely_at_most(rpcs, _OF_A_FILE * known.of("open").low):
        return None
    size = bytes_text(round(mean.high), limits.units)
    up_to = "" if mean.low == mean.high else "up to "
    text = f"{count_text(rpcs)} {way} requests of {up_to}{size} on average"
    evidence = {"requests": rpcs.low, "mean_bytes": round(mean.high, 1)}
    if known.side != NODES:
        rate = ratio(rpcs, known.elapsed_s)
        if rate.low < limits["untimed_per_second"]:
            return None
        return Held(0.3, f"{text} came to the storage servers, {at_least(rate)}"
                    f"{rate_text(rate.low)} a second", evidence)
    calls, waits_in = known.of(f"{way}_calls"), way
    # write() returns at once where fsync() does the waiting, and has it in it with O_SYNC.
    if way == "write" and known.time_share("write").low < known.time_share("fsync").low:
        waits_in = "fsync"
    if not (surely_at_least(ratio(rpcs, calls), 0.5) and limits.matters(known, waits_in)):
        return None
    time = of_time(known, waits_in) + (" in fsync()" if waits_in == "fsync" else "")
    meaning, advice = _OF_SMALL_READS if way == "read" else ("", "")
    return Held(weight_of(known, waits_in),
                f"{count_text(calls)} {way}s became {text[:-len(' on average')]}{time}",
                {**evidence, "calls": calls.low}, (f"small_{way}s",), meaning, advice,
                cost=cost_of(known, way, *("fsync",) * (way == "write")))


# -- opens and other metadata ----------------------------------------------------------------------

def repeated_opens(known: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Opens of files that were open on the same node before: since 2.15 each is a sample of
    openclosetime, the time since the file was closed there (ll_track_file_opens(),
    lustre/llite/file.c).  Of one that an earlier job has closed that is a long time, mostly.
    """
    opens, again = known.of("open"), known.of("openclosetime")
    share = ratio(again, opens)
    apart_s = ratio(known.of("openclosetime_us"), again).high / 1e6
    if not ("openclosetime" in known.numbers and surely_at_least(opens, limits["from_operations"])
            and surely_at_least(share, limits["repeated_opens_percent"] / 100)
            and apart_s <= _OFTEN * known.elapsed_s.low and limits.matters(known, "open", "close")):
        return None
    return Held(weight_of(known, "open", "close"),
                f"{share_of_it(share)} of {count_text(opens)} opens were of files that "
                f"the same node had closed before{of_time(known, 'open', 'close')}",
                {"opens": opens.low, "again": again.low, "apart_s": round(apart_s, 3)},
                ("many_opens", *_covered(known), *_are_the_storm(known, 2 * opens.low)),
                cost=cost_of(known, "open", "close"))


def many_opens(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Opens for little I/O each."""
    opens = known.of("open")
    moved = known.at_most_moved("read") + known.at_most_moved("write")
    each = ratio(exactly(moved), opens)
    if not (surely_at_least(opens, limits["from_operations"])
            and surely_at_most(each, limits["many_opens_bytes"])
            and limits.matters(known, "open", "close")):
        return None
    up_to = "" if each.low == each.high and moved == known.moved_bytes().low else "up to "
    return Held(weight_of(known, "open", "close"),
                f"{count_text(opens)} opens for {up_to}{bytes_text(round(each.high), limits.units)}"
                f" read and written each{of_time(known, 'open', 'close')}",
                {"opens": opens.low, "bytes_each": round(each.high, 1)},
                (*_covered(known), *_are_the_storm(known, 2 * opens.low)),
                cost=cost_of(known, "open", "close"))


def _covered(known: KnownIO) -> tuple[str, ...]:
    """Small reads and writes of which there are hardly more than opens: the files are small."""
    opens = known.of("open").low
    return tuple(f"small_{way}s" for way in ("read", "write")
                 if known.of(f"{way}_calls").high <= _OF_A_FILE * opens)


def _are_the_storm(known: KnownIO, requests: float) -> tuple[str, ...]:
    """Whether most of what MDTs were asked is these: then they are what to change."""
    asked = sum(number.low for number in known.mdt_requests.values())
    return ("metadata_storm",) if asked and requests >= _MOST * asked else ()


def stat_storm(known: KnownIO, limits: Limits) -> Optional[Held]:
    """stat() calls that take their time."""
    return _storm(known, limits, ("getattr",),
                  f"{'calls of' if known.side == NODES else 'requests for'} stat()")


def unlink_storm(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Files and directories that are removed one by one."""
    return _storm(known, limits, ("unlink", "rmdir"), "files and directories removed")


def _storm(known: KnownIO, limits: Limits, calls: tuple[str, ...], what: str) -> Optional[Held]:
    count = added_up(map(known.of, calls))
    if not (surely_at_least(count, limits["from_operations"]) and limits.matters(known, *calls)):
        return None
    rate = ratio(count, known.elapsed_s)
    return Held(weight_of(known, *calls),
                f"{count_text(count)} {what}, {at_least(rate)}{rate_text(rate.low)} a second"
                f"{of_time(known, *calls)}", {"count": count.low, "per_second": rate.low},
                _are_the_storm(known, count.low), cost=cost_of(known, *calls))


# Those of the system calls that the kernel's counters have under other names.
_KNOWN_AS = {"setattr": "chmod(), chown() and utime()", "truncate": "truncate() and O_TRUNC"}
_OTHER_CALLS = ("readdir", "mkdir", "setattr", "truncate", "rename", "link", "symlink", "statfs",
                "getxattr", "setxattr", "listxattr", "removexattr")


def other_calls(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Of the other calls that move no data the one that takes most time."""
    every = (_storm(known, limits, (call,), f"calls of {_KNOWN_AS.get(call, f'{call}()')}")
             for call in _OTHER_CALLS if known.is_timed(call))
    return max(filter(None, every), key=lambda held: held.weight, default=None)


def flock(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Waiting for locks of files."""
    count = known.of("flock")
    if not (known.is_timed("flock") and surely_at_least(count, limits["flock_count"])
            and limits.matters(known, "flock")):
        return None
    each = ratio(known.times_s["flock"], count)
    return Held(weight_of(known, "flock"),
                f"{count_text(count)} locks and unlocks of files (flock, fcntl)"
                + (f" took {at_least(each)}{brief_seconds(each.low)} each" if each.low else "")
                + of_time(known, "flock"),
                {"locks": count.low, "seconds": known.times_s["flock"].low},
                cost=cost_of(known, "flock"))


def polling(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Operations, opens and stat() mostly, for a long time without a byte (of `watch`)."""
    series = known.series
    asked = added_up(map(known.of, ("getattr", "open", "close")))
    if not (series and known.elapsed_s.high and surely_at_least(
            share_of(asked, _less(known.operations, asked)), 0.5)):
        return None
    least = limits["polling_per_second"] * series.every_s
    empty = [number for read, written, number in zip(
        series.read_bytes, series.write_bytes, series.operations)
        if number >= least and not read and not written]
    share = len(empty) * series.every_s / known.elapsed_s.high
    if share * 100 < limits["polling_percent"]:
        return None
    rate = sum(empty) / (len(empty) * series.every_s)
    return Held(min(1.0, share) * 0.5,
                f"in {percent_text(min(1.0, share))} of the time no byte was read or written, and "
                f"there were {rate_text(rate)} operations a second, opens and stat() mostly",
                {"share": round(share, 3), "per_second": round(rate, 3)}, ("stat_storm",),
                cost=cost_of(known, "getattr", "open", "close"))


def _less(whole: Interval, part: Interval) -> Interval:
    return Interval(max(0, whole.low - part.low), whole.high - part.low)


# -- time ------------------------------------------------------------------------------------------

def time_in_lustre(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Much of the nodes' time in Lustre, whatever it was."""
    share = known.whole_time_share()
    if not (known.side == NODES and surely_at_least(share, limits["time_percent"] / 100)):
        return None
    whole = sum(seconds for _, seconds in known.longest())
    first, *others = ((name, seconds / whole) for name, seconds in known.longest()[:2])
    either = "" if share.low == share.high else "~ "
    most = " and ".join(f"{either}{percent_text(part)} of it in {name}" for name, part in (
        first, *(other for other in others if other[1] >= _WORTH_NAMING)))
    return Held(min(1.0, share.low) * 0.5,
                f"{node_time_text(share)} was spent in Lustre, {most}",
                {"share": round(share.low, 3), "seconds": round(whole, 3)},
                cost=cost_of(known, *(name for name, _ in known.longest())))
