"""
Gaps of llite's counters, and the bounds of a file system's numbers that follow.

A node (`correct_values`, `compare_with_network`) adds to what one mount gained

    uncounted_write_calls     write() calls that `write` has and `write_bytes` has not
    uncounted_write_bytes     the most that these have written
    unexplained_read_bytes    bytes over the network that were asked for by no call that is counted
    unexplained_write_bytes
    evictions                 connections to a target that were lost with what was not sent yet

which are added up like everything else.  `compute_bounds` derives from the sums what may
be too low, what may be too high, and the largest it can be.

Source: do_file_read_iter(), do_file_write_iter(), ll_do_tiny_write() and ll_file_io_generic(),
lustre/llite/file.c; docs/reference/counters.md says by release what they count.
"""

from __future__ import annotations

from iostats.base.errors import IostatsError
from iostats.lustre import stats
from iostats.lustre.stats import split_llite_name, split_target_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Optional, TypedDict

    from iostats.lustre.paths import File
    from iostats.totals.delta import Delta
    from iostats.totals.snapshot import Snapshot

    class Bounds(TypedDict):
        """The numbers of a file system that may be wrong; members of its record."""

        too_low: list[str]              # of NUMBERS
        too_high: list[str]             # of NUMBERS and UPPER_BOUNDS
        write_bytes_max: Optional[int]

    OfMounts = dict[tuple[str, str], int]           # (file system, instance) -> number

LUSTRE = "lustre"               # the kind of most file systems
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

def correct_values(values: dict[str, int], page_bytes: int) -> dict[str, int]:
    """
    Correct the values of one mount: calls as programs made them, and bytes that it does not count.

    `read` and `write` (since 2.14) have one sample a call that moved data.  `read_bytes` has two of
    a read() that was partly in the page cache; `write_bytes` has none of a tiny write since 2.14.56
    (5208135f43, LU-15197): less than a page, within one page that is dirty.
    """
    corrected = dict(values)
    if "read" in values:
        corrected["read_calls"] = values["read"]
    missing = values.get("write", 0) - values.get("write_calls", 0)
    if missing > 0:
        corrected["write_calls"] = values["write"]
        corrected["uncounted_write_calls"] = missing
        corrected["uncounted_write_bytes"] = min(missing * (page_bytes - 1), 2**63 - 1)
    return corrected


def compare_with_network(deltas: list[Delta], start: Snapshot | None, end: Snapshot,
                         page_bytes: int) -> list[Delta]:
    """
    Return [Delta] of one node, those of llite with what the network moved and no counted call
    explains, with evictions, and marked where a cache on the node may have served files.

    A read() or write() moves whole pages at both of its ends, a write() of a part of a page may
    read it first, and a read() reads ahead; what was dirty at the start is sent later.  One part in
    64 may differ, since a node's files are not read in the same moment.  Without a start nothing is
    compared: each file has one of its own.
    """
    dirty = _read_dirty(start.files) if start else {}
    read_ahead = _compute_read_ahead(start, end) if start else {}
    lost = _count_evictions(end.files, start.wall_ns // 1_000_000_000 if start else 0)
    caches = _find_cached_mounts(end.files)
    moved: dict[tuple[str, str], list[int]] = {}
    for delta in deltas:
        if delta.source in ("osc", "mdc") and delta.values is not None:
            sums = moved.setdefault((delta.file_system, delta.instance), [0, 0])
            sums[0] += delta.values.get("read_bytes", 0)
            sums[1] += delta.values.get("write_bytes", 0)
    compared = []
    for delta in deltas:
        place = delta.file_system, delta.instance
        if delta.source == "llite" and delta.values is not None:
            if start and place in moved and not delta.lower_bound:
                pages = read_ahead.get(place)
                delta = _add_bounds(delta, moved[place], dirty.get(place, 0), page_bytes,
                                    None if pages is None else pages * page_bytes)
            if delta.values is not None and (
                    place in caches or any(name.startswith("pcc_") for name in delta.values)):
                delta = delta._replace(lower_bound=True,
                                       why="; ".join(filter(None, (delta.why, _PCC))))
            if delta.values is not None and place in lost:
                delta = delta._replace(values={**delta.values, "evictions": lost[place]})
        compared.append(delta)
    return compared


def _read_dirty(files: Iterable[File]) -> OfMounts:
    """The sum of the bytes not yet sent, over the readable files."""
    dirty: OfMounts = {}
    for file in files:
        place = split_target_name(file.name) if file.source == "dirty" else None
        if place and file.text.strip().isdigit():
            key = place[0], place[2]
            dirty[key] = dirty.get(key, 0) + int(file.text)
    return dirty


def _find_cached_mounts(files: Iterable[File]) -> set[tuple[str, str]]:
    """{(file system, instance)} of mounts whose files may be attached to a cache on the node."""
    return {place for file in files if file.source == "pcc" and file.text.strip()
            for place in [split_llite_name(file.name)] if place}


def _count_evictions(files: Iterable[File], since_s: int) -> OfMounts:
    """Count the evictions of the node by a target since then, from the `state` files."""
    counts: OfMounts = {}
    for file in files:
        place = split_target_name(file.name) if file.source == "state" else None
        for line in file.text.split("\n") if place else ():
            when, _, state = line.strip(" -[]").partition(",")     # " - [ 1795226294, EVICTED ]"
            if place and state.strip() == "EVICTED" and when.isdigit() and int(when) >= since_s:
                key = place[0], place[2]
                counts[key] = counts.get(key, 0) + 1
    return counts


def _compute_read_ahead(start: Snapshot, end: Snapshot) -> OfMounts:
    """
    Return {(file system, instance): pages read ahead} of the mounts whose client counts them.

    A client whose counters have `readahead_pages` or `hybrid_...` (2.15.62 and later) counts what
    it reads ahead; without either line it is not known whether it does.  A mount whose file was
    cleared, or was not readable at the start, is left out.
    """
    counts = {split_llite_name(file.name) for file in end.files
              if file.source == "llite" and "\nhybrid_" in file.text}
    then, now = _read_ahead_readings(start), _read_ahead_readings(end)
    mounted = {file.name for file in start.files if file.source == "llite"}
    pages_of: OfMounts = {}
    for name, (began, pages, has_line) in now.items():
        place = split_llite_name(name)
        before = then.get(name) if name in mounted else (began, 0, False)
        if place and before and before[0] == began and (has_line or place in counts):
            pages_of[place] = max(0, pages - before[1])
    return pages_of


def _read_ahead_readings(snapshot: Snapshot) -> dict[str, tuple[int | None, int, bool]]:
    """Return {llite directory: (start_time in ns, pages read ahead, the file has this counter)}."""
    readings = {}
    for file in snapshot.files:
        if file.source == "read_ahead" and not file.errno:
            try:
                reading = stats.parse(file.text, file.path)
            except IostatsError:
                continue
            counter = reading.counters.get("readahead_pages")
            readings[file.name] = (reading.start_ns, counter.sum or 0 if counter else 0,
                                   counter is not None)
    return readings


def _add_bounds(llite: Delta, moved: list[int], dirty_bytes: int, page_bytes: int,
                read_ahead_bytes: int | None) -> Delta:
    values, (received, transmitted) = llite.values or {}, moved
    at_ends = 2 * page_bytes * values.get("write_calls", 0)
    more = {"read_ahead_bytes": read_ahead_bytes} if read_ahead_bytes else {}
    sent = (transmitted - dirty_bytes - values.get("write_bytes", 0)
            - values.get("uncounted_write_bytes", 0)
            - values.get("page_mkwrite", 0) * page_bytes)
    if sent > at_ends + values.get("write_bytes", 0) // 64:
        more["unexplained_write_bytes"] = sent
    got = received - values.get("read_bytes", 0)
    reads, faults = values.get("read_calls", 0), values.get("page_fault", 0)
    if read_ahead_bytes is None:
        requested = (reads + faults) * _READ_AHEAD_STEP_BYTES
    else:
        got -= read_ahead_bytes
        requested = page_bytes * (2 * reads + faults) + values.get("read_bytes", 0) // 64
    if got > at_ends + requested:
        more["unexplained_read_bytes"] = got
    return llite._replace(values={**values, **more}) if more else llite


# -- of all nodes --------------------------------------------------------------------------------

def compute_bounds(llite: Mapping[str, int] | None, is_low: bool) -> Bounds:
    """
    Return {too_low: names of NUMBERS; too_high: those, or of UPPER_BOUNDS; write_bytes_max} of a
    file system.

    `is_low`: a node is missing, or some file of llite was reset or could not be read.
    """
    if llite is None:
        return {"too_low": [], "too_high": [], "write_bytes_max": None}
    wrote = llite.get("write_bytes", 0)
    low = set(NUMBERS) if is_low else {
        f"{direction}_{quantity}" for direction in ("read", "write")
        if llite.get(f"unexplained_{direction}_bytes")
        for quantity in ("bytes", "calls")}
    upper = None if "write_bytes" in low else wrote + llite.get("uncounted_write_bytes", 0)
    if llite.get("uncounted_write_calls"):
        low.add("write_bytes")
    return {"too_low": [name for name in NUMBERS if name in low],
            "too_high": [*(["write_bytes"] if wrote and llite.get("evictions") else []),
                         *(name for name in UPPER_BOUNDS if llite.get(name))],
            "write_bytes_max": upper}


def list_notes_on_sums(llite: Mapping[str, int], limit: int | None, sent: int | None = None,
                       dirty: int | None = None) -> list[str]:
    """
    Sentences on the bounds of `compute_bounds`, without those in the nodes' own notes.

    `limit`: write_bytes_max; `sent`, `dirty`: bytes that went over the network, and that did not
    yet at the end; None where not known.
    """
    from iostats.base.units import format_bytes  # a node makes no notes
    notes = []
    missing, wrote = llite.get("uncounted_write_calls", 0), llite.get("write_bytes", 0)
    if missing:
        up_to = "" if limit is None else f" and at most {format_bytes(limit)}"
        notes.append(f"{missing} of {llite.get('write_calls', 0)} write() calls are not in the "
                     f"bytes written: Lustre does not count {_TINY} (llite.*.tiny_write); at least "
                     f"{format_bytes(wrote)}{up_to} were written"
                     + (f"; {format_bytes(sent)} went over the network" if sent is not None else "")
                     + (f", {format_bytes(dirty)} were not sent yet" if sent is not None and dirty
                        else ""))
    if llite.get("evictions") and wrote:
        number = llite["evictions"]
        notes.append(f"{number} eviction{'s' * (number > 1)} by targets: what was written and not "
                     f"sent was thrown away, and is in the bytes written")
    if any(llite.get(name) for name in UPPER_BOUNDS):
        notes.append("flock has in it what the kernel unlocks by itself at close()")
    for call, moved in (("read", "came"), ("write", "went")):
        more = llite.get(f"unexplained_{call}_bytes")
        if more:
            notes.append(f"{format_bytes(more)} {moved} over the network that no counted {call}() "
                         f"asked for: the {call} calls and bytes may be too low (Lustre 2.14 and "
                         f"later counts no asynchronous direct I/O: libaio, io_uring, loop "
                         f"devices)")
    return notes


def list_too_low_numbers(fs: Mapping[str, object]) -> Iterable[str]:
    """The NUMBERS of a file system of a record that may be too low; also of an older record."""
    if fs.get("too_low") is not None:
        return _get_names(fs, "too_low")
    application = fs["application"]
    return NUMBERS if isinstance(application, dict) and application.get("lower_bound") else ()


def _get_names(fs: Mapping[str, object], member: str) -> Sequence[str]:
    names = fs.get(member)
    return names if isinstance(names, (list, tuple)) else ()


def mark(fs: Mapping[str, object], number: str) -> str:
    """Return ">= ", "<= ", "~ " or "": in which direction a number of programs may be wrong."""
    return get_mark(number in list_too_low_numbers(fs), number in _get_names(fs, "too_high"))


def mark_operation(fs: Mapping[str, object], name: str) -> str:
    """Return the mark of the count of one operation."""
    return get_mark("operations" in list_too_low_numbers(fs), name in _get_names(fs, "too_high"))


def count_at_least(name: str, count: int) -> int:
    """Return how often programs called an operation at least, if llite counted `count`."""
    return -(-count // 2) if name in UPPER_BOUNDS else count


def get_mark(low: object, high: object) -> str:
    """The mark of a number that may be too low, too high, or both."""
    return "~ " if low and high else ">= " if low else "<= " if high else ""


def mark_ratio(of_one: str, of_other: str) -> str:
    """
    Return the mark of a quotient (a mean, a rate, a share) from the marks of its two numbers.

    >>> mark_ratio(">= ", ""), mark_ratio("", ">= "), mark_ratio(">= ", ">= ")
    ('>= ', '<= ', '~ ')
    """
    of_inverse = {">= ": "<= ", "<= ": ">= "}.get(of_other, of_other)
    if not of_one or not of_inverse or of_one == of_inverse:
        return of_one or of_inverse
    return "~ "


def mark_spread(fs: Mapping[str, object], metric: str) -> tuple[str, str, str]:
    """
    The marks of the least, median and most of a node.

    A node that is missing, or that lost counters, may have had any number of them: it can only
    raise the most.  Then all numbers are too low; GPFS' calls alone are so on each node.
    """
    low = list_too_low_numbers(fs)
    mark_of_max = mark(fs, metric) if metric in NUMBERS else mark_operation(fs, metric)
    return (("~ ", "~ ", mark_of_max) if {"operations", "read_bytes"}.issubset(low) else
            (mark_of_max, mark_of_max, mark_of_max))


def mark_metadata(fs: Mapping[str, object]) -> tuple[str, str]:
    """The marks of the requests to MDTs or to the NFS server, and of their mean over the nodes."""
    source = choose_metadata_source(fs)
    return mark_source(fs, source), mark_node_mean(fs, source)


def choose_metadata_source(fs: Mapping[str, object]) -> str:
    """The source that counted the requests to the MDTs, or to the NFS server."""
    kind = fs.get("kind", LUSTRE)
    return "md_stats" if kind == LUSTRE else str(kind)


def mark_node_mean(fs: Mapping[str, object], source: str) -> str:
    """
    Return the mark of a mean over all nodes: a missing node may have had more than others, or less.
    """
    return "~ " if fs["incomplete"] else mark_source(fs, source)


def mark_layer(numbers: Mapping[str, object] | None) -> str:
    """
    Return ">= " or "": the mark of a layer's numbers (application, network) or of a storage
    server's.
    """
    return ">= " if (numbers or {}).get("lower_bound") else ""


def mark_source(fs: Mapping[str, object], source: str) -> str:
    """Return the mark of the numbers of a source, such as "rpc_stats": ">= " or ""."""
    return ">= " if fs["incomplete"] or source in _get_names(fs, "low") else ""
