"""
A table as text, and the cells that several tables have.
"""

from __future__ import annotations

from tabulate import tabulate

from iostats.base.units import bytes_text
from iostats.totals.bounds import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.totals.record import FileSystemRecord, PhaseFileSystem

_TABLEFMT = {"grid": "grid", "plain": "plain", "markdown": "pipe"}


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], form: str,
           align: Sequence[str] | None = None) -> str:
    """Rows of texts as a table in a form of options.FORMATS; `align`: "left", "right" of each."""
    # Everything is text by now: tabulate must not read numbers into it (it would print
    # 16777216 as 1.67772e+07 in a column with a "-").
    if form == "markdown":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return str(tabulate(rows, headers, tablefmt=_TABLEFMT[form], disable_numparse=True,
                        colalign=align if rows else None))


def bytes_of_programs(fs: FileSystemRecord | PhaseFileSystem, metric: str, units: str) -> str:
    """The bytes that programs read or wrote."""
    if fs.application is None:
        return "-"
    return mark(fs, metric) + bytes_text(fs.application[metric], units)


def moved(numbers: dict[str, Any] | None, calls: str) -> list[tuple[str, int | None]]:
    """[(name, number or None)] of what was moved, and by how many calls or RPCs."""
    names = ("read_bytes", "write_bytes", f"read_{calls}", f"write_{calls}")
    return [(name, None if numbers is None else numbers[name]) for name in names]


def file_systems_of(whole: Any, config: Any) -> list[Any]:
    """The file systems of a record (or of its phases, or harvest) that site.cfg names; or all."""
    by_name = {fs.name: fs for fs in whole.file_systems}
    wanted = config["report.file_systems"] or list(by_name)
    return [by_name[name] for name in wanted if name in by_name]
