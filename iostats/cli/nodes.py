"""
iostats nodes: each compute node's I/O in a period, from the site's server; options as those of
`iostats jobs`.
"""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, UsageError
from iostats.base.units import find_zone_format
from iostats.cli import flag, operands, option, repeated
from iostats.cli.list_options import (
    ByFileSystem,
    ListOptions,
    format_list,
    make_number_form,
    parse_delimiter,
    parse_limit,
    run_list_command,
    select_file_system,
)
from iostats.cli.parser import Times, parse_times, write_output
from iostats.cli.site_client import ask_site, check_format
from iostats.report import json_and_csv, listing, node_list, node_sets
from iostats.report.listing import ALL, FieldColumn
from iostats.report.site_methods import EVENTS_STATUS, NODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.report.node_list import ListedNode, ListedNodes, NodesQuery

_WITHIN_S = 60.0
_MAX_NODES = 10_000             # in one query
_MAX_ROWS = 5_000               # in one answer
_MAX_NAME_LENGTH = 256


class NodesOptions(ListOptions, Times, ByFileSystem, help="""\
usage: iostats nodes [options] [NODES ...]
       iostats nodes --down [options] [NODES ...]

Print a line for each compute node with its reads, writes and requests, as the
storage servers counted them by client, from the site's server.  The counts
include everything that ran there: jobs, daemons, users' shells.

Without -S: today.  Without NODES: every node with I/O.  NODES is a
node list, nid[001-004],login1, or the NID of a client, 10.9.0.11@o2ib.
Only for root and [site] readers: a node's numbers include all its users.

With --down: the nodes that are not connected to their targets now, since when,
and who reported it (docs/reference/events.md); without -S: of the last week.

which nodes, and when:
{common}
{which}

what is shown:
{shown}

{options}

"1.2-1.4 TiB": a sweep of the storage servers began before the period and ended
in it, or the other way round; its I/O is only in the larger number.  ">=": some
I/O may not have been counted; the notes have the reason.  "-": unknown.

times:
  YYYY-MM-DD[THH:MM[:SS]]  MMDD[YY][-HH:MM]  HH:MM[:SS]  today  yesterday
  midnight  noon  1121-noon  now-3days  now-2hours  utsSECONDS ...

examples:
  iostats nodes --sort -WriteBytes --limit 10
  iostats nodes -S now-1hour 'nid[00001-00016]'
  iostats nodes -S yesterday -E today -f scratch -P --noconvert
  iostats nodes --down -f scratch

exit status:
  0 printed, also if no node was found   1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""):
    nodes = operands("NODES")
    file_system = option("-f, --fs NAME", "on this file system only", "common")
    apart = flag("-x, --each-fs", "a line for each file system of a node", "which")
    down = flag("--down", "nodes that are not connected now", "which")
    format = repeated("-o, --format FIELDS",
                      "such as Node,ReadBytes%12,NIDs%-30: %12 is 12 wide, right-aligned, %-30 is "
                      "30 wide, left-aligned; text that is too long ends with +, numbers are never "
                      "cut; ALL for every field", "shown")
    sort = option("--sort FIELD",
                  "the smallest first; -FIELD: the largest (default: Node)", "shown")
    json = flag("--json", "one JSON document (docs/how-to/clients.md)", "shown")


def main(arguments: list[str] | None = None) -> int:
    """Print the list of nodes; returns the exit status."""
    return run_list_command(NodesOptions, _run, arguments)


def _run(options: NodesOptions) -> int:
    if options.down:
        return print_unconnected(options, _parse_nodes(options.nodes), site.load(options.config))
    if options.helpformat:
        write_output([node_list.TABLE.help()])
        return DONE
    config = site.load(options.config)
    columns, form = _select_columns(options), make_number_form(options, config)
    delimiter = parse_delimiter(options)
    answer = _fetch_rows(config, _make_params(options, time.time()), parse_limit(options))
    rows = answer["nodes"]
    with check_format("a node"):
        if options.json:
            write_output([json_and_csv.format_json({"schema": 1, **answer})])
            return DONE
        for row in rows:
            row["file_systems"] = [config.labels.get(name, name) for name in row["file_systems"]]
        if options.parsable or options.parsable2:
            write_output(listing.format_parsable(rows, columns, node_list.make_formatter(form),
                                                 not options.noheader,
                                                 delimiter, not options.parsable2))
            return DONE
        write_output(_format_table(answer, columns, options, form))
    return DONE


def _format_table(answer: ListedNodes, columns: list[FieldColumn], options: NodesOptions,
                  form: listing.NumberForm) -> Iterable[str]:
    """The lines for people: the period, the table, and notes."""
    rows = answer["nodes"]
    if not options.noheader:
        time_format = "%Y-%m-%dT%H:%M:%S" + find_zone_format(answer["since"], answer["until"])
        yield " to ".join(time.strftime(time_format, time.localtime(end))
                          for end in (answer["since"], answer["until"])) + "\n"
    yield from format_list(
        rows, columns, node_list.make_formatter(form), node_list.DISPENSABLE, options,
        "no client activity recorded in this period",
        0 if answer["next"] is None else answer["count"] - len(rows),
        lambda width: node_list.list_notes(rows, width))


def _select_columns(options: NodesOptions) -> list[FieldColumn]:
    text = ",".join(options.format) or (ALL if options.long else node_list.DEFAULT_APART
                                        if options.apart else node_list.DEFAULT)
    return node_list.TABLE.parse_columns(text)


def _make_params(options: NodesOptions, now: float) -> NodesQuery:
    """The params of the site server's `nodes`, as a dict."""
    sort, descending = node_list.TABLE.parse_sort("Node" if options.sort is None
                                                  else options.sort)
    if sort not in node_list.SORTED_BY:
        raise UsageError(f"--sort: expected {', '.join(node_list.SORTED_BY)}, got {sort}")
    since, until = parse_times(options, now, "today")
    return {"since": max(0.0, since or 0.0), "until": until, "nodes": _parse_nodes(options.nodes),
            "file_system": options.file_system or "", "apart": options.apart, "sort": sort,
            "descending": descending != options.reverse}


def _parse_nodes(words: list[str]) -> list[str]:
    """Return [node or NID] of node lists, each once."""
    node_names: dict[str, None] = {}
    for word in words:
        if "@" in word:  # which ClusterShell would take for a group of nodes
            names = [name for name in word.split(",") if name]
        else:
            try:
                names = node_sets.unfold_nodes(word, _MAX_NODES)
            except ValueError as error:
                raise UsageError(f"NODES: expected a list of up to {_MAX_NODES:,} nodes such as "
                                 f"nid[001-004],login1, got {word[:40]!r}: {error}") from None
        node_names.update(dict.fromkeys(names))
        if len(node_names) > _MAX_NODES:
            raise UsageError(f"NODES: expected up to {_MAX_NODES} nodes, got more: "
                             f"{word[:40]!r}")
    for name in node_names:
        if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
            raise UsageError(f"NODES: expected names of up to {_MAX_NAME_LENGTH} printable "
                             f"characters, got {name[:40]!r}")
    return list(node_names)


def _fetch_rows(config: site.Config, params: NodesQuery, limit: int) -> ListedNodes:
    """The answer with up to `limit` rows, fetched in parts."""
    rows: list[ListedNode] = []
    after = 0
    while True:
        part = min(_MAX_ROWS, limit - len(rows))
        answer = ask_site(config, NODES, {**params, "count": part, "after": after},
                                       _WITHIN_S)
        with check_format("a list of nodes"):
            new_rows, following = answer["nodes"], answer["next"]
            if following is not None and not (new_rows and following > after):
                raise ValueError("no other nodes, but more are announced")
            rows += new_rows
            params["until"] = answer["until"]
        if following is None or len(rows) >= limit:
            answer["nodes"] = rows
            return answer
        after = following


def print_unconnected(options: NodesOptions, nodes: list[str], config: Config) -> int:
    """
    Print the nodes that are down; returns the exit status.  `nodes`: names and NIDs, [] for all.
    """
    from iostats.report import nodes_down
    if options.until is not None:
        raise UsageError("--until: expected no --down with it, which shows the present")
    if options.helpformat:
        write_output([nodes_down.TABLE.help()])
        return DONE
    columns = nodes_down.TABLE.parse_columns(",".join(options.format) or (
        ALL if options.long else nodes_down.DEFAULT))
    delimiter = parse_delimiter(options)
    sort, descending = nodes_down.TABLE.parse_sort(
        "-Since" if options.sort is None else options.sort)
    if sort not in nodes_down.SORTED_BY:
        raise UsageError(f"--sort: expected {', '.join(nodes_down.SORTED_BY)}, got {sort}")
    since, _ = parse_times(options, time.time(), None)
    params = {"nodes": nodes, "since": since,
              "file_systems": select_file_system(options)}
    answer = ask_site(config, EVENTS_STATUS, params, _WITHIN_S)
    with check_format("the list of connections"):
        if options.json:
            write_output([json_and_csv.format_json({"schema": 1, **answer})])
            return DONE
        is_parsable = options.parsable or options.parsable2
        rows = nodes_down.make_rows(answer, apart=is_parsable)
        rows.sort(key=itemgetter(sort), reverse=descending != options.reverse)
        count, rows = len(rows), rows[:parse_limit(options)]
        if is_parsable:
            write_output(listing.format_parsable(rows, columns, nodes_down.format_exact_cell,
                                                 not options.noheader,
                                                 delimiter, not options.parsable2))
        else:
            lost_since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(answer["since"]))
            write_output(format_list(
                rows, columns, nodes_down.format_cell, nodes_down.DISPENSABLE, options,
                f"all connections lost since {lost_since} are restored, by the reports received",
                count - len(rows), lambda width: nodes_down.list_notes(answer, width),
                heading_alone=False))
    return DONE
