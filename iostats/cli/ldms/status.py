"""
iostats ldms status: daemons, loads, what moved; instances; storage servers' agents.
"""

from __future__ import annotations

import json
import sys
import time

import msgspec

from iostats.base.errors import DONE
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, etcd_of
from iostats.cli.parser import parser, put_out, status_of, terminal_width
from iostats.etcd.client import EtcdAway
from iostats.events.event import as_json
from iostats.ldms.status import table
from iostats.ldms.status.seen import Described, seen_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.ldms.status.seen import ClusterSeen

WATCH_EVERY_S = 2.0
HELP = f"""\
usage: iostats ldms status [--watch | --json] [--all] [--etcd URL,URL]
                           [--prefix NAME] [--config FILE]

Print what `iostats ldms run` knows: which description is carried out, by which
instances; of aggregators their state, producers, sets and load; of samplers
those that are not as they should be; what happened last; and which settings
storage servers' agents have in force.  Load is an aggregator's part of its fair
share by weight: 1.00 is fair.

options:
  --watch          print it again each {WATCH_EVERY_S:.0f} seconds, until Ctrl-C
  --json           as JSON
  --all            all samplers, agents and events that are known; else up to
                   {table.MOST_SAMPLERS}, {table.MOST_AGENTS} and {table.LAST_EVENTS}
{ETCD_HELP}\
  -h, --help       this text

exit status:
  0 done   2 bad usage or site.cfg   3 etcd was not reached
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the status; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    taken = parser("iostats ldms status", HELP, ETCD_OPTIONS, ("--watch", "--json", "--all"))
    options = taken.parse_args(arguments)
    if options.watch and options.json:
        taken.error("expected --watch or --json, got both")
    described = Described()
    with etcd_of(options) as etcd:
        if options.json:
            put_out([json.dumps(as_object(seen_in(etcd, described), time.time()), indent=2), "\n"])
            return DONE
        try:
            while True:
                try:
                    found = [*table.lines(seen_in(etcd, described), time.time(),
                                          terminal_width(), options.all)]
                except EtcdAway as error:
                    if not options.watch:
                        raise
                    found = [str(error)]
                clear = "\x1b[H\x1b[2J" if options.watch and sys.stdout.isatty() else ""
                put_out([clear, *(f"{line}\n" for line in found)])
                if not options.watch:
                    return DONE
                time.sleep(WATCH_EVERY_S)
        except KeyboardInterrupt:
            return DONE


def as_object(seen: ClusterSeen, now: float) -> dict[str, Any]:
    """What --json prints; times are seconds since 1970."""
    one = seen.revision
    groups = []
    for status in seen.groups:
        found = msgspec.structs.asdict(status)
        groups.append({**found, "rows": [msgspec.structs.asdict(row) for row in status.rows],
                       "owner": seen.owners.get(status.group),
                       "age_s": round(max(0.0, now - status.time), 3) if status.time else None,
                       "daemons": status.daemons, "up": status.count("up"),
                       "events": [as_json(event) for event in status.events]})
    return {"prefix": seen.prefix, "time": round(now, 3),
            "description": None if one is None else {
                "revision": one.number, "time": one.at, "by": one.by, "note": one.note},
            "groups": groups, "instances": seen.instances, "agents": seen.agents,
            "not_understood": [*filter(None, [seen.trouble]), *seen.unread]}
