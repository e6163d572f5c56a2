"""
All that `iostats ldms status` shows, read from etcd: descriptions, groups, instances, agents.

What cannot be understood is left out, and said in a line.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base import strict_json
from iostats.base.errors import IostatsError, one_line
from iostats.etcd.client import Etcd
from iostats.ldms.description.problems import DescriptionError
from iostats.ldms.description.read import description
from iostats.ldms.published import descriptions
from iostats.ldms.status.document import AGGREGATOR, GroupStatus, decoded
from iostats.ldms.status.groups import groups_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.ldms.published.descriptions import Revision
    from iostats.ldms.status.groups import GroupKind

ClusterSeen = namedtuple(
    "ClusterSeen", "prefix revision groups owners instances agents unread trouble", defaults=("",))
ClusterSeen.__doc__ = """
What is in etcd.

Attributes:
    prefix: the cluster's name in etcd.
    revision: the published.descriptions.Revision that is valid, or None.
    groups: [document.GroupStatus]: samplers, then aggregators by their levels.  One that is
        described, and that no instance has told of, has the time 0 and all daemons unlisted.
    owners: {group: instance} now.
    instances: {name: {"host", "pid", "since", "version", "ready"}} that are there now.
    agents: {storage server: {"revision", "group", "settings", "time", "version", "problem"}}.
    unread: [line] of what could not be understood.
    trouble: one line where there is a description that could not be understood.
"""
_LONGEST = 300


class Described:
    """The groups of the valid description: its text is read when it is another one."""

    def __init__(self) -> None:
        self._of: tuple[Revision, dict[str, GroupKind]] | None = None

    def groups(self, etcd: Etcd, revision: Revision) -> dict[str, GroupKind]:
        """{group: its GroupKind}; EtcdAway, EtcdRefused, NotPublished, DescriptionError."""
        if self._of is None or self._of[0] != revision:
            text = descriptions.text_of(etcd, revision)
            self._of = revision, groups_of(description(text, f"description {revision.number}")[0])
        return self._of[1]


def seen_in(etcd: Etcd, described: Described) -> ClusterSeen:
    """The ClusterSeen of now; EtcdAway, EtcdRefused."""
    unread: list[str] = []
    revision, trouble = None, ""
    try:
        revision = descriptions.current(etcd)
    except descriptions.NotPublished as error:
        trouble = str(error)
    groups = []
    for found in etcd.range(etcd.below("status"))[0]:
        try:
            groups.append(decoded(found.value))
        except (ValueError, IostatsError) as error:
            unread.append(f"{one_line(found.key)[:_LONGEST]}: {error}")
    groups += _untold(etcd, revision, described, {one.group for one in groups}, unread)
    groups.sort(key=lambda one: (one.role == AGGREGATOR, one.level, one.group))
    owners = {_last(found.key): one_line(found.value.decode("utf-8", "replace"))[:_LONGEST]
              for found in etcd.range(etcd.below("owners"))[0]}
    return ClusterSeen(etcd.prefix, revision, groups, owners,
                dict(_objects(etcd, "instances", unread)),
                dict(_objects(etcd, "agents_seen", unread)), unread, trouble)


def _untold(etcd: Etcd, revision: Revision | None, described: Described, told: set[str],
            unread: list[str]) -> list[GroupStatus]:
    """Of the groups that are described, and not told of."""
    if revision is None:
        return []
    try:
        found = described.groups(etcd, revision)
    except (descriptions.NotPublished, DescriptionError) as error:
        unread.append(f"groups that no instance has told of are not known: "
                      f"{one_line(error)[:_LONGEST]}")
        return []
    return [GroupStatus(one_line(name), kind.role, kind.level, unlisted=kind.daemons)
            for name, kind in found.items() if one_line(name) not in told]


def _objects(etcd: Etcd, directory: str, unread: list[str]) -> Iterator[tuple[str, Any]]:
    for found in etcd.range(etcd.below(directory))[0]:
        try:
            value = strict_json.loads(found.value)
            if not isinstance(value, dict):
                raise ValueError("expected an object")
        except (ValueError, RecursionError) as error:
            unread.append(f"{one_line(found.key)[:_LONGEST]}: {one_line(error)[:_LONGEST]}")
        else:
            yield _last(found.key), value


def _last(key: str) -> str:
    return one_line(Etcd.last_part(key))[:_LONGEST]
