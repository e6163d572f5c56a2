"""
A job's report as a page, and its charts as files: `iostats report --html`, --chart.
"""

from __future__ import annotations

import sys
import time

from iostats.base.errors import StateError, UsageError
from iostats.cli.parser import put_out
from iostats.cli.report_file import check_writable, write_report
from iostats.report import job_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iostats.base.config import Config
    from iostats.load.time_lines import JobHistory
    from iostats.report.charts.chart import Chart
    from iostats.totals.record import FileSystemRecord, Record

_KINDS = ("time", "osts", "mdts", "nodes", "sizes")
_ENDS = (".svg", ".png")
_NO_CAIROSVG = (f"PNG needs CairoSVG, which is not installed: {sys.executable} -m pip install "
                f"CairoSVG, or name a file that ends with .svg")


def is_wanted(options: argparse.Namespace) -> bool:
    """Whether a file is wanted and no text; UsageError for what cannot be, before any work."""
    if (options.chart is None) != (options.output is None):
        raise UsageError("expected --chart and --output together, as in: --chart time --output "
                         "FILE.svg")
    if options.chart is not None and options.chart not in _KINDS:
        raise UsageError(f"--chart: expected one of {', '.join(_KINDS)}, got "
                         f"{options.chart[:40]!r}")
    if options.output not in (None, "-") and not options.output.endswith(_ENDS):
        raise UsageError(f"--output: expected a file that ends with .svg or .png, got "
                         f"{options.output[:200]!r}")
    if options.output and options.output.endswith(".png"):
        _png_of("")
    if options.file_system is not None and options.chart is None:
        raise UsageError("--file-system is for --chart")
    for path in (options.html, options.output):
        if path not in (None, "-"):
            check_writable(path)
    return options.html is not None or options.chart is not None


def write(records: Sequence[Record], options: argparse.Namespace, config: Config,
          from_site: bool) -> None:
    """
    Write what `options` want of the one record; UsageError where there are several.  `from_site`:
    the site's server has it, and may have more of it.
    """
    if len(records) != 1:
        names = ", ".join(record.job.id for record in records[:8])
        raise UsageError(f"{'--html' if options.html else '--chart'}: expected one run of one job, "
                         f"got {len(records)}; name one of them: {names}"
                         + (", ..." if len(records) > 8 else ""))
    record = job_tables.labelled(records[0], config)
    history, like = None, []
    if from_site:
        from iostats.cli import why
        history, _ = why.history_of_job(record, config)
        like = why.runs_like(record, why.LIKE, config) if history and options.html else []
    if options.html is not None:
        _put(options.html, page_of(record, config, history, like))
    if options.chart is not None:
        _put(options.output, _picture(record, options, config, history))


def page_of(record: Record, config: Config, history: JobHistory | None = None,
            like: Sequence[Record] = ()) -> str:
    """The page of a labelled record."""
    from iostats.report.advice.findings import looked_at
    from iostats.report.html.page import page
    from iostats.report.why.causes import judgement_of
    found = judgement_of(record, config, history, like)
    return page(record, config, found.findings, found.causes, history, time.time(),
                looked_at(record, config))


def _put(path: str, data: str | bytes) -> None:
    if path != "-":
        write_report(path, data)
    elif isinstance(data, str):
        put_out([data])
    else:
        sys.stdout.buffer.write(data)


def _picture(record: Record, options: argparse.Namespace, config: Config,
             history: JobHistory | None) -> str | bytes:
    """One chart as a file."""
    from iostats.report.charts import svg
    fs, chart = _chart_of(record, options.chart, options.file_system, history)
    name = f" ({record.batch.name})" if record.batch and record.batch.name else ""
    source = f"job {record.job.id}{name}, {fs.label}; iostats"
    text = svg.alone(chart, source, config["report.units"])
    return _png_of(text) if options.output.endswith(".png") else text


def _chart_of(record: Record, kind: str, name: str | None,
              history: JobHistory | None) -> tuple[FileSystemRecord, Chart]:
    """The chart of the file system that is named, or else of the busiest one that has one."""
    from iostats.report.job_charts import CHARTS, by_importance
    found = by_importance(record.file_systems)
    if name is not None:
        found = [fs for fs in found if name in (fs.name, fs.label)]
        if not found:
            there = ", ".join(fs.label for fs in record.file_systems[:8])
            raise UsageError(f"--file-system: job {record.job.id} has no {name[:80]!r}; there are: "
                             f"{there}")
    for fs in found:
        chart = CHARTS[kind](record, fs, history)
        if chart is not None:
            return fs, chart
    raise StateError(f"job {record.job.id}: no chart of {kind}: {_WHY_NONE[kind]}")


_WHY_NONE = {
    "time": "there are no numbers over its time: nodes tell them with watch, storage servers with "
            "harvest",
    "osts": "there are no two OSTs of which something is known, or nothing was read and written",
    "mdts": "there are no two MDTs of which something is known, or none was asked",
    "nodes": "there are no two nodes of which something is known",
    "sizes": "the sizes of requests are not known (rpc_stats)"}


def _png_of(text: str) -> bytes:
    """The PNG of an SVG, twice as many pixels wide; b"" of "", where it can be made."""
    try:
        import cairosvg
    except ImportError:
        raise UsageError(_NO_CAIROSVG) from None
    except OSError:                                # no libcairo.so
        raise UsageError("PNG needs the library cairo: apt-get install libcairo2, or name a file "
                         "that ends with .svg") from None
    if not text:
        return b""
    found: bytes = cairosvg.svg2png(bytestring=text.encode(), scale=2)
    return found
