"""
A load as a table for a terminal of any width: the value of ranking.answer -> lines.

"-" is what is not known, ">=" a lower bound, "~" an estimate: a job's load in equal parts on its
nodes, or a rate over a time that was not measured.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.text import cut
from iostats.base.units import describe_duration, find_zone_format, format_count, format_share
from iostats.load import levels
from iostats.load.amounts import (
    LATENCY,
    METRICS,
    SHORT_TITLES,
    SORTED_BY,
    compute_share,
)
from iostats.load.answer import get_amounts, make_sums_row
from iostats.load.columns import TextColumn, draw_column, fit_columns, wrap_text
from iostats.load.levels import GAINS, IDS, RATES, get_label, get_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Optional

    from iostats.load.answer import Amounts, Answer, FileSystemSums, Row

    _Sum = tuple[str, str, Mapping[str, Optional[float]], tuple[bool, bool], str, str]

_UNIT = {"binary": ("MiB", 1 << 20), "decimal": ("MB", 10**6), "bytes": ("B", 1)}
_MOST_SUMS = 4                # file systems that have their sums on top; more have them together


def format_lines(answer: Answer, width: int | None = None, units: str = "binary",
                 labels: Mapping[str, str] | None = None, limit: int | None = None,
                 origin: str = "",
                 shares: bool = False) -> list[str]:
    """
    Return [line] of the whole table.

    `width`: characters in a line; None for as many as it takes.  `labels`: the site's names for its
    file systems.  `limit`: rows below the heading.  `origin`: the source of the numbers.  `shares`:
    each row's numbers as part of its file system's sums, in percent.
    """
    _, heading, sums, rows, notes = parts(answer, width, units, labels, limit, origin, shares)
    return [*wrap_text(format_title(answer, labels or {}, origin), width), heading, *sums, *rows,
            *notes]


def parts(answer: Answer, width: int | None = None, units: str = "binary",
          labels: Mapping[str, str] | None = None, limit: int | None = None, origin: str = "",
          shares: bool = False) -> tuple[str, str, list[str], list[str], list[str]]:
    """The parts of the table: (title, heading, [sums of file systems], [rows], [notes])."""
    labels = labels or {}
    columns, sums, _, notes = make_grid(answer, units, labels, limit, shares)
    gap = fit_columns(columns, width, answer["sort"])
    table_lines = draw_column(columns, gap)
    for place, (*_, part, _) in enumerate(sums, 1):
        for text in (f"{part} of requests", part) if part else ():
            longer = f"{table_lines[place]}{gap}{text}"
            if width is None or len(longer) <= width:
                table_lines[place] = longer
                break
    table_lines = [cut(line, width) for line in table_lines]
    return (cut(format_title(answer, labels, origin), width), table_lines[0],
            table_lines[1:1 + len(sums)],
            table_lines[1 + len(sums):],
            [line for note in notes for line in wrap_text(note, width)])


def make_grid(answer: Answer, units: str, labels: Mapping[str, str], limit: int | None = None,
              shares: bool = False) -> tuple[list[TextColumn], list[_Sum], list[Row],
                                             list[str]]:
    """
    The table before it is drawn: (columns, the sums on top, the rows below them, [note]).

    A column's cells are those of the sums, then those of the rows.
    """
    shown = [row for row in answer["rows"] if not _is_on_top(row, answer)]
    rows = shown[:limit]
    left_off = answer["left_off"] + len(shown) - len(rows)
    sums = _build_sums(answer, labels, "_per_s" if answer["kind"] == RATES else "")
    notes = [] if rows else [_explain_no_rows(answer)]
    if left_off:
        notes.append(f"({format_count(left_off, 'more row')})")
    bound = "shares are of what was counted" if shares else "numbers are lower bounds (>=)"
    notes += [f"note: {note}" for note in list_notes(answer, labels, bound)]
    return _make_columns(answer, sums, rows, units, labels, shares), sums, rows, notes


def format_title(answer: Answer, labels: Mapping[str, str], origin: str) -> str:
    """The line above a table: time, level and filter of its numbers."""
    at = answer["at"]
    words = [] if at is None else [datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")]
    ages = [age_s for age_s in (answer.get("newest_reading_s"), answer.get("oldest_reading_s"))
            if age_s is not None]
    if ages:
        words.append("swept " + " to ".join(dict.fromkeys(map(describe_duration, ages))) + " ago")
    if answer["kind"] == RATES:
        span_s = answer["span_s"] or 0.0
        words.append(f"rates over {span_s:.{0 if span_s >= 10 else 1}f} s")
    elif answer["kind"] == GAINS:
        words.append("I/O between the two (time between them unknown: --every S)")
    elif answer["began"] is not None:
        words.append("totals since " + _start_text(answer["began"], at))
    else:
        words.append("totals since the entries began")
    words += [f"by {levels.find_level(answer['by']).words}",
              f"{SORTED_BY.get(answer['sort'], answer['sort'])} first"]
    if answer["file_system"]:
        words.append(labels.get(answer["file_system"], answer["file_system"]))
    if answer["user"]:
        words.append(f"user {answer['user']}")
    if answer["text"]:
        words.append(f"with {answer['text']!r}")
    if origin:
        words.append(origin)
    return sanitize(", ".join(words))


def _start_text(began: float, at: float | None) -> str:
    """Format the time at which the totals begin; with the date if that is another day than `at`."""
    start = datetime.fromtimestamp(began).astimezone()
    is_same_day = at is not None and start.date() == datetime.fromtimestamp(at).date()
    return start.strftime(("%H:%M:%S" if is_same_day else "%Y-%m-%d %H:%M:%S")
                          + find_zone_format(began, at))


def _explain_no_rows(answer: Answer) -> str:
    if answer["file_system"] and not answer["file_systems"]:
        return "(no rows: no data for this file system)"
    if answer["text"] or answer["user"]:
        return "(no rows: no I/O matches)"
    return f"(no rows: no I/O {'in this time' if answer['kind'] == RATES else 'yet'})"


def list_notes(answer: Answer, labels: Mapping[str, str],
             bound: str = "numbers are lower bounds (>=)") -> Iterator[str]:
    """Sentences on the rows, and reasons why numbers may be too low; `bound`: the consequence."""
    if answer["only"]:
        yield (f"rows are {answer['only']}'s jobs only; (all) and (no job) are everybody's")
    if any(row.get("is_shared") for row in answer["rows"]):
        yield "~ job_stats do not tell a job's nodes apart: each has an equal share of its load"
    if any(row["lower_bound"] and row.get("nids") and not answer["missing"].get(row["file_system"])
           for row in answer["rows"]):
        yield (">=: some I/O of these nodes may not have been counted (iostats nodes says why)")
    if answer.get("is_old"):
        yield (f"no sweep for {describe_duration(answer['newest_reading_s'] or 0)}: these rates "
               f"are that old")
    for places, consequence in ((answer["missing"], bound),
                                (answer.get("estimated", {}), "rates are estimates (~)")):
        for fs, reasons in places.items():
            by_why: dict[str, list[str]] = {}
            for target, why in reasons.items():
                by_why.setdefault(why, []).append(target)
            for why, targets in by_why.items():
                named = " ".join(targets[:8]) + (f" and {len(targets) - 8} more"
                                                 if len(targets) > 8 else "")
                yield sanitize(f"{get_label(fs, labels)}: {named}: {why}; {consequence}")


# -- columns -----------------------------------------------------------------------------------

def _make_columns(answer: Answer, sums: list[_Sum], rows: list[Row], units: str,
                  labels: Mapping[str, str], shares: bool) -> list[TextColumn]:
    level, per_second = levels.find_level(answer["by"]), answer["kind"] == RATES
    unit, per = _UNIT[units][0], "/S" if per_second else ""
    is_fs = level.row_member == "file_system"
    columns = [TextColumn(level.title, [f"{name} {fs}" if is_fs else name
                                        for name, fs, *_ in sums] + [
        get_name(row, level.row_member, labels) for row in rows], level.least, False)]
    if not is_fs:
        columns.append(TextColumn("FS", [fs for _, fs, *_ in sums] + [
            get_label(row["file_system"], labels) for row in rows], 8, False))
    wholes = {fs["file_system"]: get_amounts(fs) for fs in answer["file_systems"]}
    for place, metric in enumerate((*METRICS, *answer["show"])):
        name = metric + ("_per_s" if per_second else "")
        if metric == LATENCY:
            columns.append(TextColumn("MS/REQ", [_format_milliseconds(amounts["latency_ms"])
                                                 for _, _, amounts, *_ in sums] + [
                _format_milliseconds(row["latency_ms"]) for row in rows], metric=metric))
            continue
        title = SHORT_TITLES.get(metric, metric.upper())
        title += " %" if shares else f"_{unit}{per}" if place < 2 else per
        columns.append(TextColumn(title, [
            _format_part(amounts[name], wholes.get(fs, amounts)[name]) if shares else
            _format_amount(amounts[name], place, per_second, units, *marks)
            for _, _, amounts, marks, _, fs in sums] + [
            _format_part(get_amounts(row)[name], wholes[row["file_system"]][name]) if shares else
            _format_amount(get_amounts(row)[name], place, per_second, units, row["lower_bound"],
                           row.get("is_shared") or row.get("rates_estimated"))
            for row in rows], metric=metric))
    for detail in level.details:
        cells = [sanitize(detail.text(row)) or "-" for row in rows]
        if detail.is_in_top and set(cells) - {"-"}:         # else unknown
            columns.append(TextColumn(detail.title, [""] * len(sums) + cells, detail.least,
                                      detail.least is None))
    return columns


def _build_sums(answer: Answer, labels: Mapping[str, str], suffix: str) -> list[_Sum]:
    """
    Return [(name, file system in words, amounts, (is a lower bound, is estimated), share of no
    jobs, file system)].
    """
    file_systems = answer["file_systems"]
    if levels.find_level(answer["by"]).row_member == "file_system" and not answer["user"]:
        return []                                   # the rows are the sums
    if len(file_systems) > _MOST_SUMS:
        file_systems = [_sum_file_systems(file_systems, suffix)]
    lines: list[_Sum] = []
    for fs in file_systems:
        name = get_label(fs["file_system"], labels)
        marks = fs["lower_bound"], fs.get("rates_estimated", False)
        key = fs["file_system"] if len(answer["file_systems"]) <= _MOST_SUMS else ""
        lines.append(("(all)", name, get_amounts(fs), marks, "", key))
        servers = fs.get("storage_servers")
        if servers:
            lines.append(("(storage servers)", name, servers, marks, "", key))
        elif fs["no_job"]:
            lines.append(("(no job)", name, fs["no_job"], marks, ""
                          if fs["no_job_share"] is None else format_share(fs["no_job_share"]), key))
    return lines


def _format_part(part: float | None, whole: float | None) -> str:
    return "-" if part is None or whole is None else format_share(compute_share(part, whole))


def _format_milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.01" if 0 < value < 0.005 else f"{value:.2f}"


def _is_on_top(row: Row, answer: Answer) -> bool:
    """True for the (no job) row of users or nodes, which the sums on top show already."""
    level = levels.find_level(answer["by"])
    return (level.rows_of == IDS and not level.is_of_jobs and not row["is_job"]
            and not answer["text"] and len(answer["file_systems"]) <= _MOST_SUMS)


def _sum_file_systems(sums: list[FileSystemSums], suffix: str) -> FileSystemSums:
    names = [name for name in sums[0]["no_job"] if name != "latency_ms"]
    counted = [fs for fs in sums if get_amounts(fs)[names[0]] is not None]

    def added(rows: Sequence[Mapping[str, float | None]]) -> Amounts:
        # A mean of means is none, and how many requests were timed is not known.
        return {"latency_ms": None, **{
            name: None if not counted or any(row[name] is None for row in rows)
            else sum(row[name] or 0 for row in rows) for name in names}}
    by_client = [fs for fs in counted if fs.get("storage_servers")]
    whole, no_job = added([*map(get_amounts, counted)]), added([fs["no_job"] for fs in counted])
    servers = added([fs["storage_servers"] or {} for fs in by_client])
    return make_sums_row({"file_system": f"({len(sums)})", **whole,
            "no_job": {} if by_client else no_job,
            "storage_servers": servers if len(by_client) == len(counted) and counted else None,
            "lower_bound": any(fs["lower_bound"] for fs in sums),
            "rates_estimated": any(fs.get("rates_estimated") for fs in sums),
            "no_job_share": None if by_client else compute_share(
                no_job[names[2]] or 0, whole[names[2]] or 0)})


# -- cells -------------------------------------------------------------------------------------

def _format_amount(value: float | None, place: int, per_second: bool, units: str, low: bool = False,
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
