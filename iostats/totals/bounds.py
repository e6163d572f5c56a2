"""
What llite does not count, and which way the numbers of a file system may be wrong for it.

A node (`corrected`, `compared`) adds to what one mount gained

    uncounted_write_calls     write() calls that `write` has and `write_bytes` has not
    uncounted_write_bytes     the most that these have written
    unexplained_read_bytes    bytes over the network that were asked for by no call that is counted
    unexplained_write_bytes
    evictions                 connections to a target that were lost with what was not sent yet

which are added up like everything else.  `of_sums` derives from the sums what may be too low, what
may be too high, and the largest it can be.

Source: do_file_read_iter(), do_file_write_iter(), ll_do_tiny_write() and ll_file_io_generic(),
lustre/llite/file.c; docs/counters.md says by release what they count.
"""

from __future__ import annotations

from iostats.base.errors import IostatsError
from iostats.lustre import stats
from iostats.lustre.stats import split_llite_name, split_target_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.lustre.paths import File
    from iostats.totals.delta import Delta
    from iostats.totals.snapshot import Snapshot

    OfMounts = dict[tuple[str, str], int]           # (file system, instance) -> number

# What may be too low or too high; "operations": all that are counted as calls of other kinds.
NUMBERS = ("read_bytes", "write_bytes", "read_calls", "write_calls", "operations")
# Operations of which the kernel makes some itself: it unlocks at close() what is still locked
# (locks_remove_flock() and locks_remove_posix(), fs/locks.c), which llite counts as well.
UPPER_BOUNDS = ("flock",)
# Beside the numbers of programs, in the values of llite.
BESIDE = ("uncounted_write_calls", "uncounted_write_bytes", "read_ahead_bytes",
          "unexplained_read_bytes", "unexplained_write_bytes", "evictions")

# By which one read() or page fault extends the read-ahead window, at most: PTLRPC_MAX_BRW_SIZE, see
# ras_increase_window(), lustre/llite/rw.c.  For clients that do not count what they read ahead.
_READ_AHEAD_STEP_BYTES = 64 << 20
_TINY = "small writes into pages that were not sent yet"
_PCC = "there is a cache on the node (PCC), whose reads and writes are in no byte counter"


# -- on a node -----------------------------------------------------------------------------------

def corrected(values: dict[str, int], page_bytes: int) -> dict[str, int]:
    """
    What one mount gained, with calls as they were made and what its bytes lack.

    `read` and `write` (since 2.14) have one sample a call that moved data.  `read_bytes` has two of
    a read() that was partly in the page cache; `write_bytes` has none of a tiny write since 2.14.56
    (5208135f43, LU-15197): less than a page, within one page that is dirty.
    """
    found = dict(values)
    if "read" in values:
        found["read_calls"] = values["read"]
    missing = values.get("write", 0) - values.get("write_calls", 0)
    if missing > 0:
        found["write_calls"] = values["write"]
        found["uncounted_write_calls"] = missing
        found["uncounted_write_bytes"] = min(missing * (page_bytes - 1), 2**63 - 1)
    return found


def compared(deltas: list[Delta], start: Snapshot | None, end: Snapshot,
             page_bytes: int) -> list[Delta]:
    """
    [Delta] of one node, those of llite with what the network moved and no counted call explains,
    with evictions, and marked where a cache on the node may have served files.

    A read() or write() moves whole pages at both of its ends, a write() of a part of a page may
    read it first, and a read() reads ahead; what was dirty at the start is sent later.  One part in
    64 may differ, since a node's files are not read in the same moment.  Without a start nothing is
    compared: each file has one of its own.
    """
    dirty = _dirty(start.files) if start else {}
    read_ahead = _read_ahead_pages(start, end) if start else {}
    lost = _evictions(end.files, start.wall_ns // 1_000_000_000 if start else 0)
    caches = _with_caches(end.files)
    moved: dict[tuple[str, str], list[int]] = {}
    for one in deltas:
        if one.source in ("osc", "mdc") and one.values is not None:
            sums = moved.setdefault((one.file_system, one.instance), [0, 0])
            sums[0] += one.values.get("read_bytes", 0)
            sums[1] += one.values.get("write_bytes", 0)
    found = []
    for one in deltas:
        place = one.file_system, one.instance
        if one.source == "llite" and one.values is not None:
            if start and place in moved and not one.lower_bound:
                pages = read_ahead.get(place)
                one = _beside(one, moved[place], dirty.get(place, 0), page_bytes,
                              None if pages is None else pages * page_bytes)
            if place in caches or any(name.startswith("pcc_") for name in one.values):
                one = one._replace(lower_bound=True, why="; ".join(filter(None, (one.why, _PCC))))
            if place in lost:
                one = one._replace(values={**one.values, "evictions": lost[place]})
        found.append(one)
    return found


def _dirty(files: Iterable[File]) -> OfMounts:
    """Bytes that were not yet sent, of what could be read."""
    found: OfMounts = {}
    for file in files:
        place = split_target_name(file.name) if file.source == "dirty" else None
        if place and file.text.strip().isdigit():
            key = place[0], place[2]
            found[key] = found.get(key, 0) + int(file.text)
    return found


def _with_caches(files: Iterable[File]) -> set[tuple[str, str]]:
    """{(file system, instance)} of mounts whose files may be attached to a cache on the node."""
    return {place for file in files if file.source == "pcc" and file.text.strip()
            for place in [split_llite_name(file.name)] if place}


def _evictions(files: Iterable[File], since_s: int) -> OfMounts:
    """How often a target has evicted the node since then, as the `state` files remember."""
    found: OfMounts = {}
    for file in files:
        place = split_target_name(file.name) if file.source == "state" else None
        for line in file.text.split("\n") if place else ():
            when, _, state = line.strip(" -[]").partition(",")     # " - [ 1795226294, EVICTED ]"
            if place and state.strip() == "EVICTED" and when.isdigit() and int(when) >= since_s:
                key = place[0], place[2]
                found[key] = found.get(key, 0) + 1
    return found


def _read_ahead_pages(start: Snapshot, end: Snapshot) -> OfMounts:
    """
    {(file system, instance): pages read ahead} of the mounts whose client counts them.

    A client whose counters have `readahead_pages` or `hybrid_...` (2.15.62 and later) counts what
    it reads ahead; without either line it is not known whether it does.  A mount whose file was
    cleared, or was not readable at the start, is left out.
    """
    counts = {split_llite_name(file.name) for file in end.files
              if file.source == "llite" and "\nhybrid_" in file.text}
    then, now = _read_ahead_readings(start), _read_ahead_readings(end)
    mounted = {file.name for file in start.files if file.source == "llite"}
    found: OfMounts = {}
    for name, (began, pages, has_line) in now.items():
        place = split_llite_name(name)
        before = then.get(name) if name in mounted else (began, 0, False)
        if place and before and before[0] == began and (has_line or place in counts):
            found[place] = max(0, pages - before[1])
    return found


def _read_ahead_readings(snapshot: Snapshot) -> dict[str, tuple[int | None, int, bool]]:
    """{llite directory: (start_time in ns, pages read ahead, the file has this counter)}."""
    found = {}
    for file in snapshot.files:
        if file.source == "read_ahead" and not file.errno:
            try:
                reading = stats.parse(file.text, file.path)
            except IostatsError:
                continue
            counter = reading.counters.get("readahead_pages")
            found[file.name] = (reading.start_ns, counter.sum or 0 if counter else 0,
                                counter is not None)
    return found


def _beside(llite: Delta, moved: list[int], dirty: int, page_bytes: int,
            read_ahead: int | None) -> Delta:
    values, (came, went) = llite.values or {}, moved
    at_ends = 2 * page_bytes * values.get("write_calls", 0)
    more = {"read_ahead_bytes": read_ahead} if read_ahead else {}
    sent = (went - dirty - values.get("write_bytes", 0) - values.get("uncounted_write_bytes", 0)
            - values.get("page_mkwrite", 0) * page_bytes)
    if sent > at_ends + values.get("write_bytes", 0) // 64:
        more["unexplained_write_bytes"] = sent
    got = came - values.get("read_bytes", 0)
    reads, faults = values.get("read_calls", 0), values.get("page_fault", 0)
    if read_ahead is None:
        asked = (reads + faults) * _READ_AHEAD_STEP_BYTES
    else:
        got -= read_ahead
        asked = page_bytes * (2 * reads + faults) + values.get("read_bytes", 0) // 64
    if got > at_ends + asked:
        more["unexplained_read_bytes"] = got
    return llite._replace(values={**values, **more}) if more else llite


# -- of all nodes --------------------------------------------------------------------------------

def of_sums(llite: Mapping[str, int] | None, is_low: bool) -> dict[str, Any]:
    """
    {too_low: names of NUMBERS; too_high: those, or of UPPER_BOUNDS; write_bytes_max} of a file
    system.

    `is_low`: a node is missing, or some file of llite began again or could not be read.
    """
    if llite is None:
        return {"too_low": [], "too_high": [], "write_bytes_max": None}
    wrote = llite.get("write_bytes", 0)
    low = set(NUMBERS) if is_low else {
        f"{way}_{what}" for way in ("read", "write") if llite.get(f"unexplained_{way}_bytes")
        for what in ("bytes", "calls")}
    most = None if "write_bytes" in low else wrote + llite.get("uncounted_write_bytes", 0)
    if llite.get("uncounted_write_calls"):
        low.add("write_bytes")
    return {"too_low": [name for name in NUMBERS if name in low],
            "too_high": [*(["write_bytes"] if wrote and llite.get("evictions") else []),
                         *(name for name in UPPER_BOUNDS if llite.get(name))],
            "write_bytes_max": most}


def notes_of_sums(llite: Mapping[str, int], most: int | None, sent: int | None = None,
                  dirty: int | None = None) -> list[str]:
    """
    Sentences on what `of_sums` found, but for what the nodes' own notes say.

    `most`: write_bytes_max; `sent`, `dirty`: bytes that went over the network, and that did not yet
    at the end; None where not known.
    """
    from iostats.base.units import bytes_text  # a node makes no notes
    found = []
    missing, wrote = llite.get("uncounted_write_calls", 0), llite.get("write_bytes", 0)
    if missing:
        up_to = "" if most is None else f" and at most {bytes_text(most)}"
        found.append(f"{missing} of {llite.get('write_calls', 0)} write() calls are not in the "
                     f"bytes written: Lustre does not count {_TINY} (llite.*.tiny_write); at least "
                     f"{bytes_text(wrote)}{up_to} were written"
                     + (f"; {bytes_text(sent)} went over the network" if sent is not None else "")
                     + (f", {bytes_text(dirty)} were not sent yet" if sent is not None and dirty
                        else ""))
    if llite.get("evictions") and wrote:
        number = llite["evictions"]
        found.append(f"{number} eviction{'s' * (number > 1)} by targets: what was written and not "
                     f"sent was thrown away, and is in the bytes written")
    if any(llite.get(name) for name in UPPER_BOUNDS):
        found.append("flock has in it what the kernel unlocks by itself at close()")
    for way, moved in (("read", "came"), ("write", "went")):
        more = llite.get(f"unexplained_{way}_bytes")
        if more:
            found.append(f"{bytes_text(more)} {moved} over the network that no counted {way}() "
                         f"asked for: the {way} calls and bytes may be too low (Lustre 2.14 and "
                         f"later counts no asynchronous direct I/O: libaio, io_uring, loop "
                         f"devices)")
    return found


def numbers_too_low(fs: Mapping[str, Any]) -> Iterable[str]:
    """The NUMBERS of a file system of a record that may be too low; also of an older record."""
    low: Iterable[str] | None = fs.get("too_low")
    if low is None:
        low = NUMBERS if (fs["application"] or {}).get("lower_bound") else ()
    return low


def mark(fs: Mapping[str, Any], number: str) -> str:
    """">= ", "<= ", "~ " or "": which way a number of programs may be wrong."""
    return mark_of(number in numbers_too_low(fs), number in fs.get("too_high", ()))


def mark_of_operation(fs: Mapping[str, Any], name: str) -> str:
    """The same of the count of one operation."""
    return mark_of("operations" in numbers_too_low(fs), name in fs.get("too_high", ()))


def least_by_programs(name: str, count: int) -> int:
    """How often programs have called an operation, at least, where llite counted `count`."""
    return -(-count // 2) if name in UPPER_BOUNDS else count


def mark_of(low: object, high: object) -> str:
    """The mark of a number that may be too low, too high, or both."""
    return "~ " if low and high else ">= " if low else "<= " if high else ""


def mark_of_ratio(of_one: str, of_other: str) -> str:
    """
    The mark of one number divided by another, of theirs: a mean, a rate, a share.

    >>> mark_of_ratio(">= ", ""), mark_of_ratio("", ">= "), mark_of_ratio(">= ", ">= ")
    ('>= ', '<= ', '~ ')
    """
    of_inverse = {">= ": "<= ", "<= ": ">= "}.get(of_other, of_other)
    if not of_one or not of_inverse or of_one == of_inverse:
        return of_one or of_inverse
    return "~ "


def marks_of_spread(fs: Mapping[str, Any], metric: str) -> tuple[str, str, str]:
    """
    The marks of the least, median and most of a node.

    A node that is missing, or that lost counters, may have had any number of them: it can only
    raise the most.
    """
    low = numbers_too_low(fs)
    most = mark(fs, metric) if metric in NUMBERS else mark_of_operation(fs, metric)
    return ("~ ", "~ ", most) if "operations" in low else (most, most, most)


def mark_of_node_mean(fs: Mapping[str, Any], source: str) -> str:
    """Of a mean of all nodes: one that is missing may have had more than others, or less."""
    return "~ " if fs["incomplete"] else mark_of_source(fs, source)


def mark_of_layer(numbers: Mapping[str, Any] | None) -> str:
    """">= " or "": of the numbers of a layer (application, network) or of a storage server's."""
    return ">= " if (numbers or {}).get("lower_bound") else ""


def mark_of_source(fs: Mapping[str, Any], source: str) -> str:
    """">= " or "": of a number of a source, such as "rpc_stats"."""
    return ">= " if fs["incomplete"] or source in fs["low"] else ""
