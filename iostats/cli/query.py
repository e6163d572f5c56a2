"""
iostats query: the storage servers' counts, from the site's server, level by level.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, NotDelivered, UsageError, sanitize
from iostats.cli import CONFIG, Options, flag, operands, option
from iostats.cli.parser import (
    choose_table_width,
    parse_options,
    parse_whole_number,
    run_role,
    write_output,
)
from iostats.cli.site_client import ask_site, check_format
from iostats.load import levels, query_table
from iostats.load.amounts import SORT
from iostats.load.ranking import MOST_ROWS
from iostats.report import json_and_csv
from iostats.report.site_methods import QUERY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.load.answer import Answer, Row


class QueryOptions(Options, help=f"""\
usage: iostats query LEVEL [options]

Print the storage servers' counts, from the site's server.

LEVEL is a letter or its word:
{levels.query_help()}

Totals are of jobs that are not settled yet, since their entries began; settled
jobs are in `iostats report` and `iostats jobs`.  {levels.list_target_letters()} also show the
share of each target's requests that belongs to no job.

SWEPT is how long ago the agents on the storage servers last read the targets.
">=" is a lower bound: a target was not read for longer than two sweeps, or its
counters were reset; the notes say which.

options:
{{options}}

examples:
  iostats query b --user alice
  iostats query targets --job 4711 --json
  iostats query e --csv
  iostats query a --limit 100

exit status:
  0 printed   1 it could not be written   2 bad usage or site.cfg
  3 the site's server was not reached, or refused
"""):
    level = operands("LEVEL")
    fs = option("--fs NAME", "only this file system")
    job = option("--job ID", "only this job, or all tasks of an array")
    user = option("--user NAME", "only this user's jobs")
    sort = option("--sort WHAT", "write, read, requests or metadata (default: write)")
    limit = option("--limit N", "the first N rows in that order (default: 1000)")
    json = flag("--json", "a JSON document, with the value of each counter")
    csv = flag("--csv", "comma-separated values")
    config = CONFIG

_WITHIN_S = 60.0
_NOT_IN_TABLES = ("counters", "notes", "is_job")


def main(arguments: list[str] | None = None) -> int:
    """Print the storage servers' counts; returns the exit status."""
    return run_role(lambda: _run(parse_options(QueryOptions, arguments)))


def _run(options: QueryOptions) -> int:
    config = site.load(options.config)
    if len(options.level) != 1 or options.level[0] not in levels.QUERY_WORDS:
        raise UsageError(f"LEVEL: expected one of {' '.join(levels.QUERY_WORDS)}, got "
                         f"{' '.join(options.level)[:40] or 'none'}")
    if options.sort is not None and options.sort not in SORT:
        raise UsageError(f"--sort: expected {', '.join(SORT)}, got {options.sort[:40]!r}")
    if options.json and options.csv:
        raise UsageError("expected --json or --csv, got both")
    limit = parse_whole_number("--limit", options.limit or "1000", 999_999_999)
    answer = _fetch_rows(config, {
        "level": options.level[0], "file_system": options.fs or "", "user": options.user or "",
        "job": options.job or "", "sort": options.sort or "write"}, limit)
    with check_format("a row"):
        if options.json:
            write_output([json.dumps(answer, indent=2), "\n"])
        elif options.csv:
            write_output([_as_csv(answer["rows"])])
        else:
            write_output(f"{line}\n" for line in query_table.format_lines(
                answer, choose_table_width(), config.report.units, config.labels))
    return DONE


def _fetch_rows(config: site.Config, params: dict[str, Any], limit: int) -> Answer:
    """The answer with up to `limit` rows, fetched in parts."""
    rows: list[Row] = []
    after = None
    while True:
        answer = _fetch_part(config, {**params, "after": after,
                                      "count": min(MOST_ROWS, limit - len(rows))})
        rows += answer["rows"]
        after = answer["next"]
        if after is None or len(rows) >= limit or not answer["rows"]:
            return {**answer, "rows": rows}


def _fetch_part(config: site.Config, params: dict[str, Any]) -> Answer:
    answer = ask_site(config, QUERY, params, _WITHIN_S)
    if not isinstance(answer, dict) or not {"rows", "left_off", "level", "next"} <= set(answer):
        raise NotDelivered("unexpected format of the site's server's answer; use the same release "
                           "of iostats here and there")
    return answer


def _as_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _list_column_names(rows)
    writer.writerow(columns)
    for members in rows:
        row: Mapping[str, object] = members
        writer.writerow(["" if row[name] is None else _format_csv_cell(row[name])
                         for name in columns])
    return text.getvalue()


def _format_csv_cell(value: object) -> object:
    """A text that no spreadsheet takes for a formula, and no terminal for a command."""
    if not isinstance(value, str):
        return int(value) if isinstance(value, bool) else value
    return sanitize(json_and_csv.escape_csv_cell(value))


def _list_column_names(rows: list[Row]) -> list[str]:
    return [name for name in rows[0] if name not in _NOT_IN_TABLES] if rows else []

