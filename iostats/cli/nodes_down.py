"""
iostats nodes --down: which nodes are not connected now, from the site's server.
"""

from __future__ import annotations

import sys
import time

from iostats.base.errors import DONE, UsageError
from iostats.cli.list_options import limit_of, notes_on_room
from iostats.cli.parser import moments_of, put_out, table_width
from iostats.cli.site_client import ask_site, form_checked
from iostats.report import json_and_csv, listing, nodes_down
from iostats.report.listing import ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from iostats.base.config import Config

_WITHIN_S = 60.0


def run(options: argparse.Namespace, nodes: list[str], config: Config) -> int:
    """Print; the exit status.  `nodes`: names and NIDs, [] for all."""
    if options.until is not None:
        raise UsageError("--until: expected no --down with it, which is of now")
    if options.helpformat:
        put_out([nodes_down.TABLE.help()])
        return DONE
    columns = nodes_down.TABLE.columns_of(",".join(options.format) or (
        ALL if options.long else nodes_down.DEFAULT))
    delimiter = listing.checked_delimiter("|" if options.delimiter is None else options.delimiter)
    sort, descending = nodes_down.TABLE.sort_of(
        "-Since" if options.sort is None else options.sort)
    if sort not in nodes_down.SORTED_BY:
        raise UsageError(f"--sort: expected {', '.join(nodes_down.SORTED_BY)}, got {sort}")
    since, _ = moments_of(options, time.time(), None)
    question = {"nodes": nodes, "since": since,
                "file_systems": [options.file_system] if options.file_system else []}
    answer = ask_site(config, "events_status", question, _WITHIN_S)
    with form_checked("who is connected"):
        if options.json:
            put_out([json_and_csv.as_json({"schema": 1, **answer})])
            return DONE
        is_parsable = options.parsable or options.parsable2
        rows = nodes_down.rows_of(answer, apart=is_parsable)
        rows.sort(key=lambda row: row[sort], reverse=descending != options.reverse)
        count, rows = len(rows), rows[:limit_of(options)]
        if is_parsable:
            put_out(listing.parsable(rows, columns, nodes_down.exact_cell, not options.noheader,
                                     delimiter, not options.parsable2))
        else:
            put_out(_table(answer, rows, count, columns, options))
    return DONE


def _table(answer: dict[str, Any], rows: list[dict[str, Any]], count: int,
           columns: list[listing.FieldColumn], options: argparse.Namespace) -> Iterable[str]:
    width, without = table_width(), list[str]()
    if not (options.format or options.long):
        columns, without = listing.fitting(rows, columns, nodes_down.cell, width,
                                           nodes_down.DISPENSABLE)
    if rows:
        yield from listing.table(rows, columns, nodes_down.cell, not options.noheader)
    else:
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(answer["since"]))
        yield f"(no connection was lost since {since} that is not back, as far as was told)\n"
    if count > len(rows):
        yield f"({count - len(rows)} more)\n"
    for line in nodes_down.notes(answer, width):
        yield line + "\n"
    for note in notes_on_room(without):
        print(f"iostats: {note}", file=sys.stderr)
