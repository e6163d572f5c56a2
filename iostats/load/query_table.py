"""
What the storage servers counted, as tables for a terminal of any width: the answer of `query` ->
lines.

Bytes are scaled, as in `iostats jobs`; the forms of a cell are those of table.py.
"""

from __future__ import annotations

from iostats.base.errors import one_line
from iostats.base.text import cut
from iostats.base.units import bytes_text, count_text, share_text
from iostats.load import levels, table
from iostats.load.amounts import LONG_TITLES
from iostats.load.cells import ago, label_of, name_of
from iostats.load.columns import TextColumn, drawn, fitted, wrapped
from iostats.load.levels import BOTH, EVERYTHING, IDS, ONE_TARGET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Optional

    Cell = Callable[[dict[str, Any]], str]
    # (title, text of a row, what it is narrowed to at the least, its metric)
    CellsOf = tuple[str, Cell, Optional[int], Optional[str]]

_MOST_NAMED = 5                 # rows that a note names
_TARGET: tuple[CellsOf, ...] = (("TARGET", lambda row: row["target"], 7, None),
                                ("OSS/MDS", lambda row: row["server"], 6, None))


def lines(answer: dict[str, Any], width: int | None = None, units: str = "binary",
          labels: Any = (), page: int = 1) -> list[str]:
    """
    [line] of all tables and notes.

    `width`: characters in a line, None for as many as it takes; `labels`: the site's names for its
    file systems; `page`: which one of several answers it is.
    """
    labels = dict(labels)
    found = wrapped(table.title(answer, labels, ""), width)
    rows = answer["rows"]
    found += _table(_columns(answer, units, labels), rows, width, answer["sort"]) if rows else [
        "(no rows)"]
    left = answer["left_off"]
    if left:
        found += wrapped(f"({count_text(left, 'more row')}: --page {page + 1}, or --all)", width)
    if answer.get("targets"):
        found += ["", *_table(_of_targets(labels), answer["targets"], width, "requests")]
    for note in _notes(answer, labels):
        found += wrapped(one_line(f"note: {note}"), width)
    return found


def _table(columns: Sequence[CellsOf], rows: Sequence[dict[str, Any]], width: int | None,
           sort: str) -> list[str]:
    made = []
    for place, (title, text, least, metric) in enumerate(columns):
        cells = [one_line(text(row)) or "-" for row in rows]
        if place == 0 or metric or title == "FS" or set(cells) - {"-"}:     # else unknown
            made.append(TextColumn(title, cells, least, least is None, metric))
    gap = fitted(made, width, sort)
    return [cut(line, width) for line in drawn(made, gap)]


def _columns(answer: dict[str, Any], units: str,
             labels: Mapping[str, str]) -> list[CellsOf]:
    level, (_, query) = levels.named(answer["by"]), levels.query_of(answer["level"])
    row = (answer["rows"] or [{}])[0]
    found: list[CellsOf] = [
        (level.title, lambda row: name_of(row, level.row_member, labels), level.least, None)]
    if level.over != EVERYTHING and level.row_member != "file_system":
        found.append(_file_system(labels))
    if level.rows_of == IDS and level.over == ONE_TARGET:
        found += _TARGET
    for suffix, bound in (("", "lower_bound"), ("_per_s", "rates_lower_bound"
                                                if query.kind == BOTH else "lower_bound")):
        found += [(title + ("/S" if suffix else ""), _amounts(metric + suffix, bound, units), None,
                   metric) for metric, title in LONG_TITLES.items() if metric + suffix in row]
    return [*found, *((one.title, one.text, one.least, None) for one in level.details)]


def _file_system(labels: Mapping[str, str]) -> CellsOf:
    return "FS", lambda row: label_of(row["file_system"], labels), 8, None


def _of_targets(labels: Mapping[str, str]) -> list[CellsOf]:
    """The table of targets below the rows."""
    return [_file_system(labels), *_TARGET,
            ("REQUESTS", lambda row: _number(row["requests"], row["lower_bound"]), None,
             "requests"),
            ("NO JOB", lambda row: _number(row["no_job_requests"], row["lower_bound"]), None,
             None),
            ("SHARE", lambda row: share_text(row["no_job_share"]), None, None),
            ("SWEPT", lambda row: ago(row["age_s"]), None, None)]


def _amounts(name: str, bound: str, units: str) -> Cell:
    is_bytes, is_rate = "_bytes" in name, name.endswith("_per_s")

    def text(row: dict[str, Any]) -> str:
        value, low = row[name], row[bound]
        mark = ("~ " if value is not None and is_rate and row.get("rates_estimated") else "")
        if value is None or not is_bytes:
            return mark + _number(value, low, is_rate)
        if low and 0 < value < 1:                       # there is something
            return mark + "> 0 bytes"
        return (">= " if low else "") + mark + bytes_text(value, units)
    return text


def _number(value: float | None, low: bool, is_rate: bool = False) -> str:
    if value is None:
        return "-"
    if is_rate and 0 < value < 0.05:
        return "> 0.0" if low else "< 0.1"
    return (">= " if low else "") + (f"{value:,.1f}" if is_rate else count_text(int(value)))


def _notes(answer: dict[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    of: dict[str, dict[str, None]] = {}                 # note -> its jobs or clients, each once
    member = levels.named(answer["by"]).row_member
    for row in answer["rows"]:
        for note in row.get("notes", ()):
            of.setdefault(note, {})[row[member]] = None
    for note, rows in of.items():
        names = " ".join(list(rows)[:_MOST_NAMED]) + (" ..." if len(rows) > _MOST_NAMED else "")
        yield f"{names}: {note}: lower bounds (>=)"
    yield from table.notes_of(answer, labels)

