"""
Who loads the file systems, as a table for a terminal of any width: what ranking.answer returns
-> lines.

"-" is what is not known, ">=" a lower bound, "~" an estimate: a job's load in equal parts on its
nodes, or a rate over a time that was not measured.
"""

from __future__ import annotations

from datetime import datetime

from iostats.base.errors import one_line
from iostats.base.text import cut
from iostats.base.units import count_text, duration_in_words, share_text, zone_form
from iostats.load import levels
from iostats.load.amounts import (
    LATENCY,
    METRICS,
    SHORT_TITLES,
    SORTED_BY,
    share,
)
from iostats.load.cells import label_of, name_of
from iostats.load.columns import TextColumn, drawn, fitted, wrapped
from iostats.load.levels import GAINS, IDS, RATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    _Sum = tuple[str, str, dict[str, Any], tuple[bool, bool], str, str]

_UNIT = {"binary": ("MiB", 1 << 20), "decimal": ("MB", 10**6), "bytes": ("B", 1)}
_MOST_SUMS = 4                # file systems that have their sums on top; more have them together


def lines(answer: dict[str, Any], width: int | None = None, units: str = "binary", labels: Any = (),
          most: int | None = None, origin: str = "", shares: bool = False) -> list[str]:
    """
    [line] of the whole table.

    `width`: characters in a line; None for as many as it takes.  `labels`: the site's names for its
    file systems.  `most`: rows below the heading.  `origin`: what it was read from.  `shares`: each
    row's numbers as part of its file system's sums, in percent.
    """
    _, heading, sums, rows, notes = parts(answer, width, units, labels, most, origin, shares)
    return [*wrapped(title(answer, dict(labels), origin), width), heading, *sums, *rows, *notes]


def parts(answer: dict[str, Any], width: int | None = None, units: str = "binary", labels: Any = (),
          most: int | None = None, origin: str = "",
          shares: bool = False) -> tuple[str, str, list[str], list[str], list[str]]:
    """The same in parts: (title, heading, [sums of file systems], [rows], [notes])."""
    labels = dict(labels)
    columns, sums, _, notes = grid(answer, units, labels, most, shares)
    gap = fitted(columns, width, answer["sort"])
    found = drawn(columns, gap)
    for place, (*_, part, _) in enumerate(sums, 1):
        for text in (f"{part} of requests", part) if part else ():
            longer = f"{found[place]}{gap}{text}"
            if width is None or len(longer) <= width:
                found[place] = longer
                break
    found = [cut(line, width) for line in found]
    return (cut(title(answer, labels, origin), width), found[0], found[1:1 + len(sums)],
            found[1 + len(sums):], [line for note in notes for line in wrapped(note, width)])


def grid(answer: dict[str, Any], units: str, labels: Mapping[str, str], most: int | None = None,
         shares: bool = False) -> tuple[list[TextColumn], list[_Sum], list[dict[str, Any]],
                                        list[str]]:
    """
    The table before it is drawn: (columns, the sums on top, the rows below them, [note]).

    A column's cells are those of the sums, then those of the rows.
    """
    shown = [row for row in answer["rows"] if not _is_on_top(row, answer)]
    rows = shown[:most]
    left_off = answer["left_off"] + len(shown) - len(rows)
    sums = _sums(answer, labels, "_per_s" if answer["kind"] == RATES else "")
    notes = [] if rows else [_no_rows(answer)]
    if left_off:
        notes.append(f"({count_text(left_off, 'more row')})")
    bound = "shares are of what was counted" if shares else "numbers are lower bounds (>=)"
    notes += [f"note: {note}" for note in notes_of(answer, labels, bound)]
    return _columns(answer, sums, rows, units, labels, shares), sums, rows, notes


def title(answer: dict[str, Any], labels: Mapping[str, str], origin: str) -> str:
    """The line above a table: of when the numbers are, by what, and what was asked for."""
    at = answer["at"]
    words = [] if at is None else [datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")]
    ages = [answer[name] for name in ("newest_reading_s", "oldest_reading_s")
            if answer.get(name) is not None]
    if ages:
        words.append("swept " + " to ".join(dict.fromkeys(map(duration_in_words, ages))) + " ago")
    if answer["kind"] == RATES:
        words.append(f"rates over {answer['span_s']:.{0 if answer['span_s'] >= 10 else 1}f} s")
    elif answer["kind"] == GAINS:
        words.append("I/O between the two (time between them not known: --every S)")
    elif answer["began"] is not None:
        words.append("totals since " + _start_text(answer["began"], at))
    else:
        words.append("totals since the entries began")
    words += [f"by {levels.named(answer['by']).words}",
              f"{SORTED_BY.get(answer['sort'], answer['sort'])} first"]
    if answer["file_system"]:
        words.append(labels.get(answer["file_system"], answer["file_system"]))
    if answer["user"]:
        words.append(f"user {answer['user']}")
    if answer["text"]:
        words.append(f"with {answer['text']!r}")
    if origin:
        words.append(origin)
    return one_line(", ".join(words))


def _start_text(began: float, at: float | None) -> str:
    """When the totals began; with the date if that was not on the day of `at`."""
    start = datetime.fromtimestamp(began).astimezone()
    is_same_day = at is not None and start.date() == datetime.fromtimestamp(at).date()
    return start.strftime(("%H:%M:%S" if is_same_day else "%Y-%m-%d %H:%M:%S")
                          + zone_form(began, at))


def _no_rows(answer: dict[str, Any]) -> str:
    if answer["file_system"] and not answer["file_systems"]:
        return "(no rows: nothing is known about this file system)"
    if answer["text"] or answer["user"]:
        return "(no rows: no I/O matches)"
    return f"(no rows: no I/O {'in this time' if answer['kind'] == RATES else 'yet'})"


def notes_of(answer: dict[str, Any], labels: Mapping[str, str],
             bound: str = "numbers are lower bounds (>=)") -> Iterator[str]:
    """Sentences on what the rows are, and why numbers may be too low; `bound`: what follows."""
    if answer["only"]:
        yield (f"rows are {answer['only']}'s jobs only; (all) and (no job) are everybody's")
    if any(row.get("is_shared") for row in answer["rows"]):
        yield "~ job_stats do not tell a job's nodes apart: each has an equal share of its load"
    if any(row["lower_bound"] and row.get("nids") and not answer["missing"].get(row["file_system"])
           for row in answer["rows"]):
        yield (">=: some I/O of these nodes may not have been counted (iostats nodes says why)")
    if answer.get("is_old"):
        yield (f"no sweep for {duration_in_words(answer['newest_reading_s'])}: these rates are "
               f"that old")
    for places, what in ((answer["missing"], bound),
                         (answer.get("estimated", {}), "rates are estimates (~)")):
        for fs, found in places.items():
            by_why: dict[str, list[str]] = {}
            for target, why in found.items():
                by_why.setdefault(why, []).append(target)
            for why, targets in by_why.items():
                named = " ".join(targets[:8]) + (f" and {len(targets) - 8} more"
                                                 if len(targets) > 8 else "")
                yield one_line(f"{label_of(fs, labels)}: {named}: {why}; {what}")


# -- columns -----------------------------------------------------------------------------------

def _columns(answer: dict[str, Any], sums: list[_Sum], rows: list[dict[str, Any]], units: str,
             labels: Mapping[str, str], shares: bool) -> list[TextColumn]:
    level, per_second = levels.named(answer["by"]), answer["kind"] == RATES
    unit, per = _UNIT[units][0], "/S" if per_second else ""
    is_fs = level.row_member == "file_system"
    columns = [TextColumn(level.title, [f"{name} {fs}" if is_fs else name
                                        for name, fs, *_ in sums] + [
        name_of(row, level.row_member, labels) for row in rows], level.least, False)]
    if not is_fs:
        columns.append(TextColumn("FS", [fs for _, fs, *_ in sums] + [
            label_of(row["file_system"], labels) for row in rows], 8, False))
    wholes = {fs["file_system"]: fs for fs in answer["file_systems"]}
    for place, metric in enumerate((*METRICS, *answer["show"])):
        name = metric + ("_per_s" if per_second else "")
        if metric == LATENCY:
            columns.append(TextColumn("MS/REQ", [_milliseconds(amounts["latency_ms"])
                                             for _, _, amounts, *_ in sums] + [
                _milliseconds(row["latency_ms"]) for row in rows], metric=metric))
            continue
        title = SHORT_TITLES.get(metric, metric.upper())
        title += " %" if shares else f"_{unit}{per}" if place < 2 else per
        columns.append(TextColumn(title, [
            _part_of(amounts[name], wholes.get(fs, amounts)[name]) if shares else
            _amount(amounts[name], place, per_second, units, *marks)
            for _, _, amounts, marks, _, fs in sums] + [
            _part_of(row[name], wholes[row["file_system"]][name]) if shares else
            _amount(row[name], place, per_second, units, row["lower_bound"],
                    row.get("is_shared") or row.get("rates_estimated"))
            for row in rows], metric=metric))
    for detail in level.details:
        cells = [one_line(detail.text(row)) or "-" for row in rows]
        if detail.is_in_top and set(cells) - {"-"}:         # else unknown
            columns.append(TextColumn(detail.title, [""] * len(sums) + cells, detail.least,
                                      detail.least is None))
    return columns


def _sums(answer: dict[str, Any], labels: Mapping[str, str], suffix: str) -> list[_Sum]:
    """
    [(name, file system in words, amounts, (is a lower bound, is estimated), share of no jobs, file
    system)].
    """
    found = answer["file_systems"]
    if levels.named(answer["by"]).row_member == "file_system" and not answer["user"]:
        return []                                   # the rows are the sums
    if len(found) > _MOST_SUMS:
        found = [_together(found, suffix)]
    lines: list[_Sum] = []
    for fs in found:
        name = label_of(fs["file_system"], labels)
        marks = fs["lower_bound"], fs.get("rates_estimated", False)
        key = fs["file_system"] if len(answer["file_systems"]) <= _MOST_SUMS else ""
        lines.append(("(all)", name, fs, marks, "", key))
        if fs.get("storage_servers"):
            lines.append(("(storage servers)", name, fs["storage_servers"], marks, "", key))
        elif fs["no_job"]:
            lines.append(("(no job)", name, fs["no_job"], marks, ""
                          if fs["no_job_share"] is None else share_text(fs["no_job_share"]), key))
    return lines


def _part_of(part: float | None, whole: float | None) -> str:
    return "-" if part is None or whole is None else share_text(share(part, whole))


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.01" if 0 < value < 0.005 else f"{value:.2f}"


def _is_on_top(row: dict[str, Any], answer: dict[str, Any]) -> bool:
    """True for the (no job) row of users or nodes, which the sums on top show already."""
    level = levels.named(answer["by"])
    return (level.rows_of == IDS and not level.is_of_jobs and not row["is_job"]
            and not answer["text"] and len(answer["file_systems"]) <= _MOST_SUMS)


def _together(found: list[dict[str, Any]], suffix: str) -> dict[str, Any]:
    names = [name for name in found[0]["no_job"] if name != "latency_ms"]
    known = [fs for fs in found if fs[names[0]] is not None]

    def added(rows: list[dict[str, Any]]) -> dict[str, Any]:
        # A mean of means is none, and how many requests were timed is not known.
        return {"latency_ms": None, **{
            name: None if not known or any(row[name] is None for row in rows)
            else sum(row[name] for row in rows) for name in names}}
    by_client = [fs for fs in known if fs.get("storage_servers")]
    whole, no_job, servers = added(known), added([fs["no_job"] for fs in known]), added(
        [fs["storage_servers"] for fs in by_client])
    return {"file_system": f"({len(found)})", **whole,
            "no_job": {} if by_client else no_job,
            "storage_servers": servers if len(by_client) == len(known) and known else None,
            "lower_bound": any(fs["lower_bound"] for fs in found),
            "rates_estimated": any(fs.get("rates_estimated") for fs in found),
            "no_job_share": None if by_client else share(no_job[names[2]], whole[names[2]])}


# -- cells -------------------------------------------------------------------------------------

def _amount(value: float | None, place: int, per_second: bool, units: str, low: bool = False,
            estimated: bool | None = False) -> str:
    if value is None:
        return "-"
    mark = ">=" if low else ""
    mark += "~" if estimated else ""
    unit = _UNIT[units][1] if place < 2 else 1
    if unit == 1 and (not per_second or place < 2):
        return f"{mark}{value:,.0f}"
    value /= unit
    if 0 < value < 0.05:                            # there is something
        return ">0.0" if low else f"{mark}<0.1"
    return f"{mark}{value:,.1f}"
