"""
iostats query: what the storage servers have counted, from the site's server, level by level.
"""

from __future__ import annotations

import csv
import io
import json

from iostats.base import config as site
from iostats.base.errors import DONE, NotDelivered, UsageError, one_line
from iostats.cli.parser import parser, put_out, status_of, table_width, whole_number
from iostats.cli.site_client import ask_site, form_checked
from iostats.load import levels, query_table
from iostats.load.amounts import SORT
from iostats.load.ranking import MOST_ROWS
from iostats.report import json_and_csv

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

HELP = f"""\
usage: iostats query LEVEL [options]

Print what the storage servers have counted, from the site's server.

LEVEL is a letter or its word:
{levels.query_help()}

Totals are of the jobs that are not settled yet, since their entries began;
finished ones are in `iostats report` and `iostats jobs`.  {levels.with_targets()} also show the
share of each target's requests that belongs to no job.

SWEPT is how long ago the agents on the storage servers last read the targets.
">=" is a lower bound: a target was not read for longer than two sweeps, or its
counters were reset; the notes say which.

options:
  --fs NAME             this file system only
  --job ID              this job only, or all tasks of an array
  --user NAME           this user's jobs only
  --sort WHAT           write, read, requests or metadata (default: write)
  --count N             up to N rows (default: 1000)
  --page N              the N-th page of --count rows (default: 1)
  --all                 all rows
  --json                a JSON document, with what each counter has counted
  --csv                 comma-separated values
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats query b --user alice
  iostats query targets --job 4711 --json
  iostats query e --csv
  iostats query a --count 100 --page 2

exit status:
  0 printed   1 it could not be written   2 bad usage or site.cfg
  3 the site's server was not reached, or refused
"""

_WITHIN_S = 60.0
_NOT_IN_TABLES = ("counters", "notes", "is_job")


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats query", HELP,
                          ("--fs", "--job", "--user", "--sort", "--count", "--page", "--config"),
                          ("--json", "--csv", "--all"))
    command_line.add_argument("level", nargs="*")
    return status_of(lambda: _run(command_line.parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if len(options.level) != 1 or options.level[0] not in levels.QUERY_WORDS:
        raise UsageError(f"LEVEL: expected one of {' '.join(levels.QUERY_WORDS)}, got "
                         f"{' '.join(options.level)[:40] or 'none'}")
    if options.sort is not None and options.sort not in SORT:
        raise UsageError(f"--sort: expected {', '.join(SORT)}, got {options.sort[:40]!r}")
    if options.json and options.csv:
        raise UsageError("expected --json or --csv, got both")
    if options.all and (options.count or options.page):
        raise UsageError("--all: expected neither --count nor --page with it")
    count = whole_number("--count", options.count or str(MOST_ROWS if options.all else 1000),
                    MOST_ROWS)
    page = whole_number("--page", options.page or "1", 10**6)
    answer = _answer(config, {
        "level": options.level[0], "file_system": options.fs or "", "user": options.user or "",
        "job": options.job or "", "sort": options.sort or "write", "count": count}, page,
        options.all)
    with form_checked("a row"):
        if options.json:
            put_out([json.dumps(answer, indent=2), "\n"])
        elif options.csv:
            put_out([_csv(answer["rows"])])
        else:
            put_out(f"{line}\n" for line in query_table.lines(
                answer, table_width(), config["report.units"], config.labels, page))
    return DONE


def _answer(config: site.Config, params: dict[str, Any], page: int,
            is_all: bool) -> dict[str, Any]:
    """The answer of one page, or of all: with the rows of all."""
    answer = _asked(config, params)
    rows, number = answer["rows"], 1
    while answer["next"] is not None and (is_all or number < page):
        answer = _asked(config, {**params, "after": answer["next"]})
        rows = [*(rows if is_all else ()), *answer["rows"]]
        number += 1
    if number < page and not is_all:
        raise UsageError(f"--page: expected a number from 1 to {number}, got {page}: there are no "
                         f"more rows")
    return {**answer, "rows": rows}


def _asked(config: site.Config, params: dict[str, Any]) -> dict[str, Any]:
    answer = ask_site(config, "query", params, _WITHIN_S)
    if not isinstance(answer, dict) or not {"rows", "left_off", "level", "next"} <= set(answer):
        raise NotDelivered("the site's server answers in another form: use one release of iostats "
                           "here and there")
    return answer


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
    return one_line(json_and_csv.csv_cell(value))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return [name for name in rows[0] if name not in _NOT_IN_TABLES] if rows else []

