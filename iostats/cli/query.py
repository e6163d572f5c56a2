"""
iostats query: what the site's server knows of the jobs on the storage servers, at five levels of
detail.
"""

from __future__ import annotations

import csv
import io
import json

from iostats import config as site
from iostats import loads, report
from iostats.cli.parser import parser, put_out, status_of
from iostats.cli.report import asked, of_its_form
from iostats.errors import DONE, NotDelivered, UsageError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import Any

HELP = """\
usage: iostats query LEVEL [options]

Print what the storage servers have counted, from the site's server.

LEVEL is a letter or its word:
  a  targets            totals of each job on each target
  b  jobs               totals of each job on each file system
  c  rates              rates of each job on each file system, of the last sweep
  d  rates-summed       rates of each job, all file systems together
  e  file-systems       totals and rates of each file system

Totals are of the jobs that are not settled yet, since their entries began;
finished ones are in `iostats report` and `iostats jobs`.  a and e also say which
part of each target's requests came under ids that are no job's.

options:
  --fs NAME             this file system alone
  --job ID              this job alone, or all of an array
  --user NAME           this user's jobs alone
  --sort WHAT           write, read, requests or metadata (default: write)
  --count N             so many rows at most (default: 1000)
  --json                a JSON document, with what each counter has counted
  --csv                 comma-separated values
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats query b --user alice
  iostats query targets --job 4711 --json
  iostats query e --csv

exit status:
  0 printed   1 it could not be written   2 bad usage or site.cfg
  3 the site's server was not reached, or refused
"""

_LEVELS = ("a", "b", "c", "d", "e", "targets", "jobs", "rates", "rates-summed", "file-systems")
_WITHIN_S = 60.0
_NOT_IN_TABLES = ("counters", "notes", "is_job")
_TARGETS = ("file_system", "target", "server", "requests", "no_job_requests", "no_job_share")


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats query", HELP,
                          ("--fs", "--job", "--user", "--sort", "--count", "--config"),
                          ("--json", "--csv"))
    command_line.add_argument("level", nargs="*")
    return status_of(lambda: _run(command_line.parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if len(options.level) != 1 or options.level[0] not in _LEVELS:
        raise UsageError(f"LEVEL: expected one of {' '.join(_LEVELS)}, got "
                         f"{' '.join(options.level)[:40] or 'none'}")
    if options.sort is not None and options.sort not in loads.SORT:
        raise UsageError(f"--sort: expected {', '.join(loads.SORT)}, got {options.sort[:40]!r}")
    if options.json and options.csv:
        raise UsageError("expected --json or --csv, got both")
    count = options.count or "1000"
    if not (count.isascii() and count.isdigit() and len(count) < 10
            and 1 <= int(count) <= loads.MOST_ROWS):
        raise UsageError(f"--count: expected a number from 1 to {loads.MOST_ROWS}, got "
                         f"{count[:40]!r}")
    answer = asked(config, "query", {
        "level": options.level[0], "file_system": options.fs or "", "user": options.user or "",
        "job": options.job or "", "sort": options.sort or "write", "count": int(count)}, _WITHIN_S)
    if not isinstance(answer, dict) or not {"rows", "left_off", "level"} <= set(answer):
        raise NotDelivered("the site's server answers in another form: use one release of iostats "
                           "here and there")
    with of_its_form("a row"):
        if options.json:
            put_out([json.dumps(answer, indent=2), "\n"])
        elif options.csv:
            put_out([_csv(answer["rows"])])
        else:
            put_out(f"{line}\n" for line in _tables(answer, config))
    return DONE


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _columns(rows)
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else int(row[name])
                         if isinstance(row[name], bool) else _cell(row[name]) for name in columns])
    return text.getvalue()


def _cell(value: object) -> object:
    """A text that a spreadsheet does not take for a formula, nor a terminal for a command."""
    if not isinstance(value, str):
        return value
    return one_line(report.cell(value))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return [name for name in rows[0] if name not in _NOT_IN_TABLES] if rows else []


def _tables(answer: dict[str, Any], config: site.Config) -> Iterator[str]:
    from tabulate import tabulate
    form = {"grid": "grid", "markdown": "pipe"}.get(config["report.format"], "plain")
    rows = answer["rows"]
    names = [name for name in _columns(rows) if name != "lower_bound"]
    low = loads.METRICS + tuple(f"{metric}_per_s" for metric in loads.METRICS)

    def table(some: list[dict[str, Any]], names: Sequence[str]) -> str:
        text: str = tabulate(
            [[_shown(row, name, name in low and row.get("lower_bound")) for name in names]
             for row in some], names, form, disable_numparse=True,
            colalign=["left" if any(isinstance(row[name], str) for row in some) else "right"
                      for name in names])
        return text
    if rows:
        yield table(rows, names)
    else:
        yield "(no row)"
    if answer["left_off"]:
        yield f"({answer['left_off']} more)"
    if answer.get("targets"):
        yield ""
        yield table(answer["targets"], _TARGETS)
    notes: dict[str, dict[str, None]] = {}              # with its jobs, each once
    for row in rows:
        for note in row.get("notes", ()):
            notes.setdefault(note, {})[row["job"]] = None
    for note, jobs in notes.items():
        yield one_line(f"note: {' '.join(list(jobs)[:5])}{' ...' if len(jobs) > 5 else ''}: "
                       f"{note}: lower bounds (>=)")
    for fs in answer["file_systems"]:
        for target, why in fs["missing"].items():
            yield one_line(f"note: {fs['file_system']}: {target}: {why}; numbers are lower bounds "
                           f"(>=)")


def _shown(row: dict[str, Any], name: str, low: object) -> str:
    value = row[name]
    if value is None or value == "":
        return "(empty)" if name == "job" else "-"
    if name == "no_job_share":
        return f"{100 * value:.1f} %"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        value = f"{value:.1f}"
    return f">= {value}" if low else one_line(value)
