"""
A table as text, and the cells that several tables have.

tabulate draws it; what is done here is to fit it to a width.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base.text import measure_width, wrap
from iostats.base.units import format_bytes
from iostats.report.blocks import draw_table, is_number
from iostats.report.job_numbers import get_bytes
from iostats.report.screen import BLOCKS, GRID, MARKDOWN, PLAIN, Drawn
from iostats.totals.bounds import get_mark, mark
from iostats.totals.kinds import measure_bytes
from iostats.totals.record import FileSystemRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol, TypeVar

    from iostats.base.config import Config
    from iostats.report.screen import Screen
    from iostats.totals.record import NodeSpread, PhaseFileSystem

    class Named(Protocol):
        @property
        def name(self) -> str: ...

    FsT = TypeVar("FsT", bound=Named, covariant=True)

    class HasFileSystems(Protocol[FsT]):
        """A record, or its phases, or harvest."""

        @property
        def file_systems(self) -> Sequence[FsT]: ...

_MARKS = ((">=", "may be too low"), ("<=", "may be too high"), ("~", "may be either"),
          ("-", "unknown"))
_FILLER = "\ue000"              # which no text has that is fit for a terminal: errors.sanitize
_TABLEFMT = {GRID: "grid", PLAIN: "plain", MARKDOWN: "pipe"}
_LEAST_TEXT = 16                # columns of a text that is broken into lines


class TableText(str):
    """The lines of a table."""

    __slots__ = ()


def format_table(headers: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen,
                 align: Sequence[str] | None = None) -> str:
    """
    Rows of texts as a table in the screen's form, no wider than the screen: texts are broken into
    lines, and what still has no room stands in further tables below the first one, each with the
    first column.  Markdown has no limit.

    `align`: "left", "right" of each.
    """
    form = screen.form
    if form == BLOCKS:
        return draw_table(headers, list(rows), screen, align)
    cells = [[cell.strip() for cell in row] for row in rows]
    if form == MARKDOWN:
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    is_right = [bool(cells and align and align[at] == "right") for at in range(len(headers))]
    excess = 0 if form == MARKDOWN else _find_table_width(_find_widths(headers, cells),
                                                          form) - screen.width
    if excess > 0:
        cells = _break_texts(headers, cells, excess)
    widths = _find_widths(headers, cells)
    tables: list[str] = []
    left = list(range(1, len(headers)))
    while left or not tables:
        end = len(left)
        while (end > 1 and form != MARKDOWN
               and _find_table_width([widths[at] for at in (0, *left[:end])], form) > screen.width):
            end -= 1
        part = [0, *left[:end]]
        tables.append(_draw_with_tabulate([headers[at] for at in part],
                                          [[row[at] for at in part] for row in cells], form,
                                          ["right" if is_right[at] else "left" for at in part]))
        left = left[end:]
    return TableText("\n".join(tables))


def _find_widths(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column, including its heading."""
    return [max([2 + measure_width(name), *(measure_width(line) for row in cells
                                            for line in row[at].split("\n"))])
            for at, name in enumerate(headers)]


def _find_table_width(widths: Sequence[int], form: str) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(widths) + (2 * len(widths) - 2 if form == PLAIN else 3 * len(widths) + 1)


def _break_texts(headers: Sequence[str], cells: Sequence[Sequence[str]],
                 excess: int) -> list[list[str]]:
    """The cells with their texts broken into lines, the widest ones first, to save `excess`."""
    natural = _find_widths(headers, cells)
    texts = {at: natural[at] for at in range(len(headers))
             if not all(is_number(row[at]) for row in cells)}
    least = {at: max(_LEAST_TEXT, measure_width(headers[at]) + 2) for at in texts}
    while excess > 0:
        at = max(texts, key=lambda at: texts[at] - least[at], default=None)
        if at is None or texts[at] <= least[at]:
            break
        texts[at] -= 1
        excess -= 1
    return [["\n".join(wrap(cell, texts[at], "")) if at in texts else cell
             for at, cell in enumerate(row)] for row in cells]


def _draw_with_tabulate(headers: Sequence[str], cells: Sequence[Sequence[str]], form: str,
                        align: Sequence[str]) -> str:
    import tabulate  # 40 ms, of which a page has no use
    tabulate.WIDE_CHARS_MODE = False   # where wcwidth is there: a wide letter's filler is counted
    # Everything is text by now: tabulate must not read numbers into it (it would print
    # 16777216 as 1.67772e+07 in a column with a "-").
    return str(tabulate.tabulate(
        [list(map(_add_fillers, row)) for row in cells], [*map(_add_fillers, headers)],
        tablefmt=_TABLEFMT[form], disable_numparse=True,
        colalign=align if cells else None)).replace(_FILLER, "")


def _add_fillers(text: str) -> str:
    """A text with as many characters as it takes columns, for tabulate: wide letters take two."""
    return text if text.isascii() else "".join(
        c + _FILLER * (measure_width(c) - 1) for c in text)


def add_legend(parts: Sequence[str]) -> list[str]:
    """Add the meaning of the marks below the last table of a report."""
    tables = [at for at, part in enumerate(parts) if isinstance(part, (TableText, Drawn))]
    # Neither bars over time nor the terminal's commands for colours.
    text = "\n".join(re.sub(r"\|.*\||\x1b\[[\d;]*m", " ", parts[at])
                     if isinstance(parts[at], Drawn) else parts[at] for at in tables)
    words = set(text.replace("|", " ").split())
    meant = [f"{sign} {meaning}" for sign, meaning in _MARKS if sign in words]
    if not meant:
        return list(parts)
    end = tables[-1] + 1
    return [*parts[:end], f"Marks: {', '.join(meant)}", *parts[end:]]


def format_program_bytes(fs: FileSystemRecord | PhaseFileSystem, metric: str, units: str) -> str:
    """The bytes that programs read or wrote, or what stands for them: of disks, or in requests."""
    if isinstance(fs, FileSystemRecord):
        known = measure_bytes(fs, metric)
        return "-" if known is None else get_mark(*known[1:]) + format_bytes(known[0], units)
    if fs.application is None:
        return "-"
    return mark(fs, metric) + format_bytes(
        get_bytes(fs.application, metric.partition("_")[0]), units)


METRIC_WORDS = {"read_bytes": "bytes read", "write_bytes": "bytes written", "read_calls": "reads",
                "write_calls": "writes", "reads": "reads", "writes": "writes"}


def format_metric_name(metric: str) -> str:
    """
    Name a metric in words, behind the name of its disk or other part, if any.

    >>> format_metric_name("write_us"), format_metric_name("open"), format_metric_name("read_calls")
    ('time in write', 'open', 'reads')
    >>> format_metric_name("nvme0n1_write_bytes"), format_metric_name("sda_us")
    ('nvme0n1: bytes written', 'time in sda')
    >>> format_metric_name("metadata_us"), format_metric_name("metadata_rtt_us")
    ('time in metadata requests', 'time in metadata requests, until the answer')
    """
    if metric.endswith("_us"):
        name, rtt, _ = metric[:-len("_us")].partition("_rtt")
        name = "metadata requests" if name == "metadata" else name
        return f"time in {name}{', until the answer' if rtt else ''}"
    for name, words in METRIC_WORDS.items():
        if f"_{metric}".endswith(f"_{name}"):
            part = metric[:-len(name)].rstrip("_")
            return f"{part}: {words}" if part else words
    return metric


def find_busiest(spread: NodeSpread, marks: Sequence[str]) -> str:
    """Return the node with the maximum; "all" if the minimum is the same and no number is a bound.
    """
    if spread.min == spread.max and not any(marks):
        return "all"
    return spread.busiest or "-"


def select_file_systems(whole: HasFileSystems[FsT], config: Config) -> list[FsT]:
    """The file systems of a record (or of its phases, or harvest) that site.cfg names; or all."""
    by_name = {fs.name: fs for fs in whole.file_systems}
    listed = config.report.file_systems or list(by_name)
    return [by_name[name] for name in listed if name in by_name]
