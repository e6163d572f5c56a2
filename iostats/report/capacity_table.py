"""
The table of the targets' capacity for `iostats capacity`.

    the answer of `capacity`  ->  a row for each target, and one for each file system  ->  cells;
                                  and notes

Unknown is "-".  A forecast begins with "~", because it assumes that the last week goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.units import ISO_TIME, describe_duration, format_moment
from iostats.load.columns import wrap_text
from iostats.lustre.capacity import BYTES
from iostats.report.listing import (
    AS_FITS,
    Field,
    FieldTable,
    NumberForm,
    as_number,
    format_number,
    format_whole_percent,
    format_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional, TypedDict

    from iostats.report.listing import Cell, Row

    class CapacityRow(TypedDict, total=False):
        """A target in the answer of `capacity`, or a row of the table; the names are of FIELDS."""

        target: str
        file_system: str
        node: str
        time: float
        bytes_total: int
        bytes_used: int
        bytes_available: int
        bytes_used_percent: float
        inodes_total: int
        inodes_used: int
        inodes_free: int
        inodes_used_percent: float
        bytes_per_day: Optional[float]
        inodes_per_day: Optional[float]
        full_at: Optional[float]
        full_earliest: Optional[float]
        full_latest: Optional[float]
        full_range: Optional[float]     # `full_earliest`
        full_first: Optional[str]
        history_since: Optional[float]
        now: float                      # the time of the answer

    class CapacityAnswer(TypedDict):
        """The answer of `capacity`."""

        time: float
        targets: list[CapacityRow]

FIELDS = (
    Field("Target", "target", "text", "", "the OST or MDT; `scratch OSTs`: all OSTs of scratch"),
    Field("FileSystem", "file_system", "text", "", "its file system"),
    Field("Server", "node", "text", "", "the storage server that reported it"),
    Field("Time", "time", "time", "", "when it was read"),
    Field("Size", "bytes_total", "bytes", "", "the space in all"),
    Field("Used", "bytes_used", "bytes", "", "the space that is used"),
    Field("Avail", "bytes_available", "bytes", "", "the space that is available to users"),
    Field("UsePct", "bytes_used_percent", "share", "", "used, of what is used and available"),
    Field("Inodes", "inodes_total", "count", "", "inodes in all; of ZFS an estimate"),
    Field("IUsed", "inodes_used", "count", "", "inodes that are used"),
    Field("IFree", "inodes_free", "count", "", "inodes that are free; of ZFS an estimate"),
    Field("IUsePct", "inodes_used_percent", "share", "", "used inodes, as a share of all"),
    Field("PerDay", "bytes_per_day", "bytes", "", "growth of the used space a day, in the last "
          "week; - with less than a day of readings"),
    Field("IPerDay", "inodes_per_day", "count", "", "growth of the used inodes a day"),
    Field("FullIn", "full_at", "forecast", "", "when it is full at this week's rate; - where it "
          "does not grow"),
    Field("Range", "full_range", "forecast", "", "the same at the rates of the week's fastest and "
          "slowest day"),
    Field("FullOf", "full_first", "text", "", "what is used up first: space or inodes"),
    Field("Since", "history_since", "time", "", "the first reading that the forecast is made of"),
)
DEFAULT = "Target,Size,Used,Avail,UsePct,IFree,IUsePct,PerDay,FullIn,Range"
TABLE = FieldTable(FIELDS, "iostats capacity")
# What a narrow terminal can do without, the first one first.
DISPENSABLE = ("full_range", "inodes_free", "bytes_total", "bytes_per_day")
UNBALANCED = 20.0                   # percent between the fullest and the emptiest OST
_SOON_S = 30 * 86_400.0
_OLD_S = 3600.0


def build_rows(answer: CapacityAnswer, with_sums: bool = True) -> list[CapacityRow]:
    """The rows of an answer, and after those of a file system's OSTs, or MDTs, their sum."""
    rows: list[CapacityRow] = []
    groups: dict[tuple[str, str], list[CapacityRow]] = {}
    for row in answer["targets"]:
        key = row["file_system"], row["target"].rpartition("-")[2][:3]
        groups.setdefault(key, []).append({**row, "now": answer["time"],
                                           "full_range": row["full_earliest"]})
    for (file_system, kind), targets in sorted(groups.items()):
        rows += targets
        if with_sums and len(targets) > 1:
            rows.append(_sum(f"{file_system} {kind}s", file_system, targets))
    return rows


def _sum(name: str, file_system: str, targets: Sequence[CapacityRow]) -> CapacityRow:
    used, inodes = (sum(row["bytes_used"] for row in targets),
                    sum(row["inodes_used"] for row in targets))
    available, free = (sum(row["bytes_available"] for row in targets),
                       sum(row["inodes_free"] for row in targets))
    return {"target": name, "file_system": file_system, "node": "", "now": targets[0]["now"],
            "time": min(row["time"] for row in targets),
            "bytes_total": sum(row["bytes_total"] for row in targets), "bytes_used": used,
            "bytes_available": available, "bytes_used_percent": _percent(used, available),
            "inodes_total": sum(row["inodes_total"] for row in targets), "inodes_used": inodes,
            "inodes_free": free, "inodes_used_percent": _percent(inodes, free),
            "bytes_per_day": _add_rates([row["bytes_per_day"] for row in targets]),
            "inodes_per_day": _add_rates([row["inodes_per_day"] for row in targets]),
            "full_at": None, "full_range": None, "full_first": None, "history_since": None}


def _percent(used: int, left: int) -> float:
    return 100.0 * used / (used + left) if used + left else 0.0


def _add_rates(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None


def cell(row: Row, field: Field, how: NumberForm = AS_FITS) -> str:
    """The text of a field of a row; for programs (`how.has_commas` is false) without words."""
    value = row[field.name]
    is_exact = not how.has_commas
    if field.name == "full_range" and value is not None:
        return _format_time_range(row.get("full_earliest"), row.get("full_latest"), row["now"],
                                  is_exact)
    words = format_words(value, field.kind)
    if words is not None:
        return words
    number = as_number(value)
    if field.kind == "share":                       # never 100 % while something is available
        return f"{number:.2f}" if is_exact else format_whole_percent(number)
    if field.kind == "forecast":
        return (format_moment(number, ISO_TIME) if is_exact else
                f"~{_format_time_left(number - as_number(row['now']))}")
    if number < 0:
        return "-" + format_number(-number, field.kind, how)
    return format_number(number, field.kind, how)


def make_cell(how: NumberForm) -> Cell:
    """Return `cell` with numbers in this form."""
    return lambda row, field: cell(row, field, how)


def format_notes(rows: Iterable[CapacityRow], width: int | None) -> Iterator[str]:
    """Lines on what will be full soon, on OSTs that are filled unevenly, and on old readings."""
    osts: dict[str, list[CapacityRow]] = {}
    for row in rows:
        if not row["node"]:                         # a sum
            continue
        if "-OST" in row["target"]:
            osts.setdefault(row["file_system"], []).append(row)
        full_at, since = row["full_at"], row["history_since"]
        if full_at is not None and since is not None and full_at - row["now"] < _SOON_S:
            resource = "space" if row["full_first"] == BYTES else "inodes"
            span = _format_time_range(row["full_earliest"], row["full_latest"], row["now"])
            left = _format_time_left(full_at - row["now"])
            yield from _note(
                f"{row['target']}: {resource} used up in ~{left} at the mean rate since "
                f"{format_moment(since, ISO_TIME)}"
                + (f" ({span} at the rates of the fastest and the slowest day)"
                   if span != "-" else ""), width)
        if row["now"] - row["time"] > _OLD_S:
            yield from _note(f"{row['target']}: {row['node']} has not reported it since "
                             f"{format_moment(row['time'], ISO_TIME)}", width)
    for name, targets in osts.items():
        targets.sort(key=lambda row: row["bytes_used_percent"])
        least, fullest = targets[0], targets[-1]
        if fullest["bytes_used_percent"] - least["bytes_used_percent"] >= UNBALANCED:
            yield from _note(
                f"{name}: its OSTs are filled unevenly: {fullest['target']} "
                f"{int(fullest['bytes_used_percent'])} %, {least['target']} "
                f"{int(least['bytes_used_percent'])} %", width)


def _format_time_range(earliest: object, latest: object, now: object,
                       is_exact: bool = False) -> str:
    if earliest is None:
        return "-"
    return " to ".join(
        "never" if end is None else format_moment(as_number(end), ISO_TIME) if is_exact else
        _format_time_left(as_number(end) - as_number(now)) for end in (earliest, latest))


def _format_time_left(seconds: float) -> str:
    return describe_duration(max(0.0, seconds))


def _note(text: str, width: int | None) -> Sequence[str]:
    return wrap_text(sanitize(f"note: {text}"), width)
