"""
iostats ldms status: print the status of daemons, instances and storage servers' agents.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from iostats.base import strict_json
from iostats.base.errors import DONE, IostatsError, UsageError, sanitize
from iostats.cli import flag
from iostats.cli.parser import get_terminal_width, parse_options, run_role, write_output
from iostats.etcd.client import Etcd, EtcdAway
from iostats.events.event import as_json
from iostats_ldms import published
from iostats_ldms.cli.sources import EtcdOptions, open_etcd_by_options
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description
from iostats_ldms.published import Revision
from iostats_ldms.status import table
from iostats_ldms.status.document import (
    AGGREGATOR,
    GroupInfo,
    GroupStatus,
    decode_status,
    list_groups,
)


class ClusterStatus(NamedTuple):
    """The status of the cluster."""

    prefix: str                           # the cluster's name in etcd
    revision: Revision | None             # the published.Revision that is valid, or None
    # [document.GroupStatus]: samplers, then aggregators by level.  A described group without a
    # status has time 0 and all daemons unlisted.
    groups: list[GroupStatus]
    owners: dict[str, str]                # {group: instance} now
    instances: dict[str, dict[str, Any]]  # {name: {"host", "pid", "since", "version", "ready"}} now
    # {storage server: {"revision", "group", "settings", "time", "version", "problem"}}
    agents: dict[str, dict[str, Any]]
    unread: list[str]                     # [line] for each value that could not be parsed
    trouble: str = ""                     # one line if the description could not be read


_LONGEST = 300


class DescriptionCache:
    """The groups of the valid description; its text is read only if the revision changed."""

    def __init__(self) -> None:
        self._cached: tuple[Revision, dict[str, GroupInfo]] | None = None

    def groups(self, etcd: Etcd, revision: Revision) -> dict[str, GroupInfo]:
        """Return {group: GroupInfo}; EtcdAway, EtcdRefused, DescriptionUnavailable, or invalid."""
        if self._cached is None or self._cached[0] != revision:
            text = published.read_text(etcd, revision)
            self._cached = revision, list_groups(read_description(text,
                                                             f"description {revision.number}")[0])
        return self._cached[1]


def read_cluster(etcd: Etcd, described: DescriptionCache) -> ClusterStatus:
    """Read the ClusterStatus; EtcdAway, EtcdRefused."""
    unread: list[str] = []
    revision, trouble = None, ""
    try:
        revision = published.read_current_revision(etcd)
    except published.DescriptionUnavailable as error:
        trouble = str(error)
    groups = []
    for result in etcd.range(etcd.below("status"))[0]:
        try:
            groups.append(decode_status(result.value))
        except (ValueError, IostatsError) as error:
            unread.append(f"{sanitize(result.key)[:_LONGEST]}: {error}")
    groups += _make_unreported(etcd, revision, described, {item.group for item in groups}, unread)
    groups.sort(key=lambda item: (item.role == AGGREGATOR, item.level, item.group))
    owners = {_get_name(result.key): sanitize(result.value.decode("utf-8", "replace"))[:_LONGEST]
              for result in etcd.range(etcd.below("owners"))[0]}
    return ClusterStatus(etcd.prefix, revision, groups, owners,
                         dict(_read_objects(etcd, "instances", unread)),
                         dict(_read_objects(etcd, "agents_seen", unread)), unread, trouble)


def _make_unreported(etcd: Etcd, revision: Revision | None, described: DescriptionCache,
                     reported: set[str],
                     unread: list[str]) -> list[GroupStatus]:
    """Make a GroupStatus for each described group without a status."""
    if revision is None:
        return []
    try:
        result = described.groups(etcd, revision)
    except (published.DescriptionUnavailable, DescriptionError) as error:
        unread.append(f"groups without a status are unknown: "
                      f"{sanitize(error)[:_LONGEST]}")
        return []
    return [GroupStatus(sanitize(name), kind.role, kind.level, unlisted=kind.daemons)
            for name, kind in result.items() if sanitize(name) not in reported]


def _read_objects(etcd: Etcd, directory: str, unread: list[str]) -> Iterator[tuple[str, Any]]:
    for result in etcd.range(etcd.below(directory))[0]:
        try:
            value = strict_json.loads(result.value)
            if not isinstance(value, dict):
                raise ValueError("expected an object")
        except (ValueError, RecursionError) as error:
            unread.append(f"{sanitize(result.key)[:_LONGEST]}: {sanitize(error)[:_LONGEST]}")
        else:
            yield _get_name(result.key), value


def _get_name(key: str) -> str:
    return sanitize(Etcd.last_part(key))[:_LONGEST]


WATCH_EVERY_S = 2.0


class StatusOptions(EtcdOptions, help="""\
usage: iostats ldms status [options]

Print the status that `iostats ldms run` reports: the description in force and
the instances; state, producers, sets and load of aggregators; samplers that are
not as described; the last events; and the settings in force at storage servers'
agents.  Load is relative to an aggregator's fair share by weight: 1.00 is fair.

options:
{options}

exit status:
  0 done   2 bad usage or site.cfg   3 etcd was not reached
"""):
    watch = flag("--watch", f"print it every {WATCH_EVERY_S:.0f} seconds, until Ctrl-C")
    json = flag("--json", "as JSON")
    all = flag("--all",
               f"all samplers, agents and events (default: up to {table.MOST_SAMPLERS}, "
               f"{table.MOST_AGENTS} and {table.LAST_EVENTS})")


def main(arguments: list[str] | None = None) -> int:
    """Print the status; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(StatusOptions, arguments)
    if options.watch and options.json:
        raise UsageError("expected --watch or --json, got both")
    described = DescriptionCache()
    with open_etcd_by_options(options) as etcd:
        if options.json:
            write_output([json.dumps(to_json_object(read_cluster(etcd, described), time.time()),
                                indent=2), "\n"])
            return DONE
        try:
            while True:
                try:
                    result = [*table.format_lines(read_cluster(etcd, described), time.time(),
                                                  get_terminal_width(), options.all)]
                except EtcdAway as error:
                    if not options.watch:
                        raise
                    result = [str(error)]
                clear = "\x1b[H\x1b[2J" if options.watch and sys.stdout.isatty() else ""
                write_output([clear, *(f"{line}\n" for line in result)])
                if not options.watch:
                    return DONE
                time.sleep(WATCH_EVERY_S)
        except KeyboardInterrupt:
            return DONE


def to_json_object(cluster: ClusterStatus, now: float) -> dict[str, object]:
    """Return the output of --json; times are seconds since 1970."""
    item = cluster.revision
    groups = []
    for status in cluster.groups:
        result = msgspec.structs.asdict(status)
        groups.append({**result, "rows": [msgspec.structs.asdict(row) for row in status.rows],
                       "owner": cluster.owners.get(status.group),
                       "age_s": round(table.compute_age(status, now), 3) if status.time else None,
                       "daemons": status.daemons, "up": status.count("up"),
                       "events": [as_json(event) for event in status.events]})
    return {"prefix": cluster.prefix, "time": round(now, 3),
            "description": None if item is None else {
                "revision": item.number, "time": item.at, "by": item.by, "note": item.note},
            "groups": groups, "instances": cluster.instances, "agents": cluster.agents,
            "not_understood": [*filter(None, [cluster.trouble]), *cluster.unread]}
