"""
The answer to `query`, the storage servers' counts, as tables for a terminal of any width.

Bytes are scaled, as in `iostats jobs`; the forms of a cell are those of table.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.text import cut
from iostats.base.units import format_bytes, format_count, format_share
from iostats.load import levels, table
from iostats.load.amounts import LONG_TITLES
from iostats.load.answer import get_amounts, get_names
from iostats.load.columns import TextColumn, draw_column, fit_columns, wrap_text
from iostats.load.levels import BOTH, EVERYTHING, IDS, ONE_TARGET, format_age, get_label, get_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Optional

    from iostats.load.answer import Answer, Row

    Cell = Callable[[Row], str]
    # (title, text of a row, what it is narrowed to at the least, its metric)
    CellsOf = tuple[str, Cell, Optional[int], Optional[str]]

_MOST_NAMED = 5                 # rows that a note names
_TARGET: tuple[CellsOf, ...] = (("TARGET", lambda row: row["target"], 7, None),
                                ("OSS/MDS", lambda row: row["server"], 6, None))


def format_lines(answer: Answer, width: int | None = None, units: str = "binary",
                 labels: Mapping[str, str] | None = None) -> list[str]:
    """
    Return the lines of all tables and notes.

    `width`: characters in a line, None for as many as it takes; `labels`: the site's names for its
    file systems.
    """
    labels = labels or {}
    output = wrap_text(table.format_title(answer, labels, ""), width)
    rows = answer["rows"]
    output += _format_table(_make_columns(answer, units, labels), rows, width,
                            answer["sort"]) if rows else [
        "(no rows)"]
    left = answer["left_off"]
    if left:
        output.append(f"({left:,} more)")
    if answer.get("targets"):
        output += ["",
                   *_format_table(_list_target_cells(labels), answer["targets"], width, "requests")]
    for note in _list_notes(answer, labels):
        output += wrap_text(sanitize(f"note: {note}"), width)
    return output


def _format_table(columns: Sequence[CellsOf], rows: Sequence[Row], width: int | None,
                  sort: str) -> list[str]:
    made = []
    for place, (title, text, least, metric) in enumerate(columns):
        cells = [sanitize(text(row)) or "-" for row in rows]
        if place == 0 or metric or title == "FS" or set(cells) - {"-"}:     # else unknown
            made.append(TextColumn(title, cells, least, least is None, metric))
    gap = fit_columns(made, width, sort)
    return [cut(line, width) for line in draw_column(made, gap)]


def _make_columns(answer: Answer, units: str,
                  labels: Mapping[str, str]) -> list[CellsOf]:
    level, (_, query) = levels.find_level(answer["by"]), levels.find_query(answer["level"])
    row = (answer["rows"] or [{}])[0]
    columns: list[CellsOf] = [
        (level.title, lambda row: get_name(row, level.row_member, labels), level.least, None)]
    if level.over != EVERYTHING and level.row_member != "file_system":
        columns.append(_make_file_system_cell(labels))
    if level.rows_of == IDS and level.over == ONE_TARGET:
        columns += _TARGET
    for suffix, bound in (("", "lower_bound"), ("_per_s", "rates_lower_bound"
                                                if query.kind == BOTH else "lower_bound")):
        columns += [
            (title + ("/S" if suffix else ""), _make_amount_cell(metric + suffix, bound, units),
             None,
                     metric) for metric, title in LONG_TITLES.items() if metric + suffix in row]
    return [*columns,
            *((detail.title, detail.text, detail.least, None) for detail in level.details)]


def _make_file_system_cell(labels: Mapping[str, str]) -> CellsOf:
    return "FS", lambda row: get_label(row["file_system"], labels), 8, None


def _list_target_cells(labels: Mapping[str, str]) -> list[CellsOf]:
    """The table of targets below the rows."""
    return [_make_file_system_cell(labels), *_TARGET,
            ("REQUESTS", lambda row: _format_number(row["requests"], row["lower_bound"]), None,
             "requests"),
            ("NO JOB", lambda row: _format_number(row["no_job_requests"], row["lower_bound"]), None,
             None),
            ("SHARE", lambda row: format_share(row["no_job_share"]), None, None),
            ("SWEPT", lambda row: format_age(row["age_s"]), None, None)]


def _make_amount_cell(name: str, bound: str, units: str) -> Cell:
    is_bytes, is_rate = "_bytes" in name, name.endswith("_per_s")

    def text(row: Row) -> str:
        value = get_amounts(row)[name]
        low = row["lower_bound"] if bound == "lower_bound" else row["rates_lower_bound"]
        mark = ("~ " if value is not None and is_rate and row.get("rates_estimated") else "")
        if value is None or not is_bytes:
            return mark + _format_number(value, low, is_rate)
        if low and 0 < value < 1:                       # there is something
            return mark + "> 0 bytes"
        return (">= " if low else "") + mark + format_bytes(value, units)
    return text


def _format_number(value: float | None, low: bool, is_rate: bool = False) -> str:
    if value is None:
        return "-"
    if is_rate and 0 < value < 0.05:
        return "> 0.0" if low else "< 0.1"
    return (">= " if low else "") + (f"{value:,.1f}" if is_rate else format_count(int(value)))


def _list_notes(answer: Answer, labels: Mapping[str, str]) -> Iterator[str]:
    # note -> its jobs or clients, each once
    subjects_of: dict[str, dict[str, None]] = {}
    member = levels.find_level(answer["by"]).row_member
    for row in answer["rows"]:
        for note in row.get("notes", ()):
            subjects_of.setdefault(note, {})[get_names(row)[member] or ""] = None
    for note, rows in subjects_of.items():
        names = " ".join(list(rows)[:_MOST_NAMED]) + (" ..." if len(rows) > _MOST_NAMED else "")
        yield f"{names}: {note}: lower bounds (>=)"
    yield from table.list_notes(answer, labels)

