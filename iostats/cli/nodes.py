"""
iostats nodes: what each compute node did in a time, from the site's server; options as those of
`iostats jobs`.
"""

from __future__ import annotations

import sys
import time

from iostats.base import config as site
from iostats.base.errors import DONE, UsageError
from iostats.base.units import zone_form
from iostats.cli.list_options import (
    ListOptions,
    command_line,
    limit_of,
    notes_on_room,
    number_form,
    without_descending,
)
from iostats.cli.parser import moments_of, put_out, status_of, table_width
from iostats.cli.site_client import ask_site, form_checked
from iostats.report import json_and_csv, listing, node_fields, node_list, node_sets
from iostats.report.listing import ALL, FieldColumn

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

_WITHIN_S = 60.0
_MOST_NODES = 10_000            # in one question
_MOST_ROWS = 5_000              # in one answer
_LONGEST_NAME = 256

HELP = """\
usage: iostats nodes [options] [NODES ...]
       iostats nodes --down [options] [NODES ...]

Print a line for each compute node with what it read, wrote and asked for, as
the storage servers counted it by client, from the site's server.  Whatever ran
there is in it: jobs, daemons, users' shells.

Without -S: today.  Without NODES: every node that did something.  NODES is a
node list, nid[001-004],login1, or the NID of a client, 10.9.0.11@o2ib.
For root and [site] readers alone: a node's numbers are of all who used it.

With --down: the nodes that are not connected to their targets now, since when,
and who says so (docs/events.md); without -S: those of the last week.

which nodes, and when:
  -S, --starttime, --since TIME    from TIME on (default: 00:00 of today)
  -E, --endtime, --until TIME      up to TIME (default: the last sweep)
  -f, --fs NAME         on this file system only
  -x, --each-fs         a line for each file system of a node
  --down                nodes that are not connected now

what is shown:
  -o, --format FIELDS   such as Node,ReadBytes%12,NIDs%-30: %12 is 12 wide,
                        right-aligned, %-30 is 30 wide, left-aligned; text that
                        is too long ends with +, numbers are never cut; ALL for
                        every field
  -l, --long            -o ALL
  -e, --helpformat      list the fields
  --sort FIELD          the smallest first; -FIELD: the largest (default: Node)
  --reverse             reverse the order
  --limit N             the first N nodes in that order
  -n, --noheader        no heading
  -p, --parsable        | after every field
  -P, --parsable2       | between fields
  --delimiter TEXT      with -p and -P: TEXT instead of |
  --units UNIT          bytes in K, M, G, T or P
  --noconvert           bytes as plain numbers
  --json                one JSON document (docs/clients.md)

  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

"1.2-1.4 TiB": a sweep of the storage servers began before the time and ended in
it, or the other way round; what it saw is in the larger number alone.  ">=":
some of it may not have been counted; the notes say why.  "-": not known.

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
"""

VALUES: ListOptions = ((("-f", "--fs"), "file_system"),)
FLAGS: ListOptions = ((("-x", "--each-fs"), "apart"), (("--down",), "down"))


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = command_line("iostats nodes", HELP, VALUES, (), FLAGS)
    parser.add_argument("nodes", nargs="*")
    return status_of(lambda: _run(parser.parse_intermixed_args(without_descending(arguments))))


def _run(options: argparse.Namespace) -> int:
    if options.down:
        from iostats.cli import nodes_down
        return nodes_down.run(options, _nodes(options.nodes), site.load(options.config))
    if options.helpformat:
        put_out([node_fields.TABLE.help()])
        return DONE
    config = site.load(options.config)
    columns, how = _columns(options), number_form(options, config)
    delimiter = listing.checked_delimiter("|" if options.delimiter is None else options.delimiter)
    answer = _answer(config, _question(options, time.time()), limit_of(options))
    rows = answer["nodes"]
    with form_checked("a node"):
        if options.json:
            put_out([json_and_csv.as_json({"schema": 1, **answer})])
            return DONE
        for row in rows:
            row["file_systems"] = [config.labels.get(name, name) for name in row["file_systems"]]
        if options.parsable or options.parsable2:
            put_out(listing.parsable(rows, columns, node_list.cell_of(how), not options.noheader,
                                     delimiter, not options.parsable2))
            return DONE
        put_out(_table(answer, columns, options, how))
    return DONE


def _table(answer: dict[str, Any], columns: list[FieldColumn], options: argparse.Namespace,
           how: listing.NumberForm) -> Iterable[str]:
    """The lines for people: of when it is, the table, and notes."""
    rows, width = answer["nodes"], table_width()
    without: list[str] = []
    if not (options.format or options.long):
        columns, without = node_list.fitting(rows, columns, how, width)
    if not options.noheader:
        form = "%Y-%m-%dT%H:%M:%S" + zone_form(answer["since"], answer["until"])
        yield " to ".join(time.strftime(form, time.localtime(answer[end]))
                          for end in ("since", "until")) + "\n"
    yield from listing.table(rows, columns, node_list.cell_of(how), not options.noheader)
    if not rows:
        yield "(no client activity recorded in this period)\n"
    if answer["next"] is not None:
        yield f"({answer['count'] - len(rows)} more)\n"
    for line in node_list.notes(rows, width):
        yield line + "\n"
    for note in notes_on_room(without):
        print(f"iostats: {note}", file=sys.stderr)


def _columns(options: argparse.Namespace) -> list[FieldColumn]:
    text = ",".join(options.format) or (ALL if options.long else node_fields.DEFAULT_APART
                                        if options.apart else node_fields.DEFAULT)
    return node_fields.TABLE.columns_of(text)


def _question(options: argparse.Namespace, now: float) -> dict[str, Any]:
    """The params of the site server's `nodes`, as a dict."""
    sort, descending = node_fields.TABLE.sort_of("Node" if options.sort is None else options.sort)
    if sort not in node_fields.SORTED_BY:
        raise UsageError(f"--sort: expected {', '.join(node_fields.SORTED_BY)}, got {sort}")
    since, until = moments_of(options, now, "today")
    return {"since": max(0.0, since or 0.0), "until": until, "nodes": _nodes(options.nodes),
            "file_system": options.file_system or "", "apart": options.apart, "sort": sort,
            "descending": descending != options.reverse}


def _nodes(words: list[str]) -> list[str]:
    """[node or NID] of node lists, each once."""
    found: dict[str, None] = {}
    for word in words:
        if "@" in word:                             # which ClusterShell takes for a group of nodes
            names = [name for name in word.split(",") if name]
        else:
            try:
                names = node_sets.unfolded(word, _MOST_NODES)
            except ValueError as error:
                raise UsageError(f"NODES: expected a list of up to {_MOST_NODES:,} nodes such as "
                                 f"nid[001-004],login1, got {word[:40]!r}: {error}") from None
        found.update(dict.fromkeys(names))
        if len(found) > _MOST_NODES:
            raise UsageError(f"NODES: expected up to {_MOST_NODES} nodes, got more: "
                             f"{word[:40]!r}")
    for name in found:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(f"NODES: expected names of up to {_LONGEST_NAME} printable "
                             f"characters, got {name[:40]!r}")
    return list(found)


def _answer(config: site.Config, question: dict[str, Any], limit: int) -> dict[str, Any]:
    """The answer with up to `limit` rows, asked for in parts."""
    rows: list[dict[str, Any]] = []
    after: Any = 0
    while True:
        part = min(_MOST_ROWS, limit - len(rows))
        answer = ask_site(config, "nodes", {**question, "count": part, "after": after}, _WITHIN_S)
        with form_checked("a list of nodes"):
            found, before, after = answer["nodes"], after, answer["next"]
            if after is not None and (not found or after <= before):
                raise ValueError("no other nodes, but more are announced")
            rows += found
            question = {**question, "until": answer["until"]}
        if after is None or len(rows) >= limit:
            return {**answer, "nodes": rows}
