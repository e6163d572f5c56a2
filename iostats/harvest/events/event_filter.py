"""
The params of `events` and `events_status`, and which events an answer has.

An ordinary user gets events of targets that storage servers report and that name no client; and, in
a query about an own job, the events of that job's nodes during the job.  All other events name
nodes of others, and are for root, the server's user and [site] readers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, NamedTuple, Optional

import msgspec

from iostats.base.ids import Nid, NodeName
from iostats.events.event import Event
from iostats.events.kinds import (
    LNET_DOWN,
    LNET_DROPS,
    LNET_RESENDS,
    LNET_UNHEALTHY,
    NO_GRANTS,
    NO_OBJECTS,
    QUOTA_FULL,
    REQUESTS_WAIT,
    ROUTER_DOWN,
    SEVERITIES,
    TARGET_FULL,
)
from iostats.lustre.kernel_log import EVICTED
from iostats.lustre.system_log import HUNG_TASK, OF_STORAGE

MOST_ROWS = 5_000               # in one answer
MOST_NAMES = 10_000             # nodes in one query
EVER = 1e12

# Events that concern all users of a file system or a target, and name no client.
OF_ALL = frozenset(("target_down", "target_up", "recovery", "not_healthy", "lbug", HUNG_TASK,
                    TARGET_FULL, LNET_DROPS, LNET_DOWN, LNET_RESENDS, LNET_UNHEALTHY, ROUTER_DOWN,
                    NO_GRANTS, NO_OBJECTS, REQUESTS_WAIT, *OF_STORAGE))

IS_OF_ALL = f"kind IN ({', '.join(map(repr, sorted(OF_ALL)))})"             # SQL
# An eviction may be of clients that it does not name.
_OR_MAY_BE = f" OR {IS_OF_ALL} OR kind = '{EVICTED}'"
_MAX_SOUGHT = 30                # names

_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=1_000)]
_Moment = Annotated[float, msgspec.Meta(ge=-EVER, le=EVER)]


class EventsParams(msgspec.Struct):
    """
    The params of `events`: which events.

    Attributes:
        since, until: s since 1970: events that were not over before, and began not later; None for
        no limit.
        severity: this one and worse, 0 to 3.
        file_systems, targets, kinds: any of these; [] for all.
        nodes: names of nodes or storage servers, or NIDs: events reported by them or about them.
        job: events of this job.
        after: `next` of the previous answer: later events, and those that have grown since.
        last: N: the N latest matches; 0 for all.
        limit: up to this many in one answer.
    """

    since: Optional[_Moment] = None
    until: Optional[_Moment] = None
    severity: Annotated[int, msgspec.Meta(ge=0, le=len(SEVERITIES) - 1)] = 0
    file_systems: _Names = []
    targets: _Names = []
    kinds: _Names = []
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)] = []
    job: _Name = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    last: Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 1000

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.until < self.since:
            raise ValueError("until: expected no moment before `since`")


class EventsStatusParams(msgspec.Struct):
    """The params of `events_status`."""

    # file_systems, nodes: names of these; [] for all
    file_systems: _Names = []
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)] = []
    since: Optional[_Moment] = None     # connections that were lost since then; None for a week


class JobPart(NamedTuple):
    """A run of a job, as far as the selection of its events needs it: user, nodes and times."""

    nodes: AbstractSet[str]                 # names of its nodes
    nids: AbstractSet[str]                  # their NIDs, as far as known
    file_systems: AbstractSet[str] | None   # names of those that it used; None if unknown: all
    # since, until: when it ran, s since 1970
    since: float
    until: float
    user: str = ""                          # as events of quotas have it: "user:4711"


def build_clause(params: EventsParams, since: float, until: float,
                 list_nids: Callable[[NodeName], list[Nid]],
                 parts: Collection[JobPart] | None = None) -> tuple[str, list[object]]:
    """
    Return (SQL, values) that exclude most rows of `events` that do not match; `make_filter` decides
    exactly.

    `list_nids(node)`: its NIDs; `parts`: of the job in the query.
    """
    conditions = ["ended >= ?", "time <= ?", "severity >= ?"]
    values: list[Any] = [since, until, params.severity]
    for column, names in (("kind", params.kinds), ("file_system", params.file_systems)):
        if 0 < len(names) <= 100:               # SQLite before 3.32 accepts 999 values
            names = [*names, ""]                # of a storage server itself
            conditions.append(f"{column} IN ({','.join('?' * len(names))})")
            values += names
    named = [] if len(params.nodes) > _MAX_SOUGHT else [
        name for node in params.nodes for name in (node, *list_nids(NodeName(node)))]
    for names, alternative in ((params.targets, ""), (named, ""),
                               ([] if parts is None else _list_names(parts), _OR_MAY_BE)):
        # Names are in the body as they are; searching for many takes longer than decoding it.
        if 0 < len(names) <= _MAX_SOUGHT:
            sought = " OR ".join(["instr(body, ?) > 0"] * len(names))
            conditions.append(f"({sought}{alternative})")
            values += [name.encode("utf-8", "surrogatepass") for name in names]
    return "AND " + " AND ".join(conditions), values


def _list_names(parts: Iterable[JobPart]) -> list[str]:
    names: set[str] = set()
    for part in parts:
        names.update(part.nodes, part.nids, {part.user} - {""})
        if len(names) > _MAX_SOUGHT:
            break
    return sorted(names)


def make_filter(params: EventsParams, find_node: Callable[[str], str],
                runs: Iterable[JobPart] | None,
                served: Callable[[str], Collection[str] | None]) -> Callable[[Event], bool]:
    """
    A function: whether an Event matches a query, except for time and severity.

    `find_node(nid)`: the node's name, or the NID; `runs`: of the job in the query; `served(node)`:
    the file systems of a storage server, None for another machine.
    """
    file_systems, kinds = frozenset(params.file_systems), frozenset(params.kinds)
    targets, nodes = frozenset(params.targets), frozenset(params.nodes)
    parts = None if runs is None else list(runs)

    def is_match(event: Event) -> bool:
        if file_systems and event.file_system not in file_systems and (
                event.file_system or file_systems.isdisjoint(served(event.node) or ())):
            return False
        if (kinds and event.kind not in kinds) or (targets and event.target not in targets):
            return False
        if nodes and event.node not in nodes and not any(
                client in nodes or find_node(client) in nodes for client in event.clients):
            return False
        return parts is None or any(is_about_job(event, part, served) for part in parts)

    return is_match


def is_about_job(event: Event, part: JobPart,
                 served: Callable[[str], Collection[str] | None]) -> bool:
    """
    Whether an event concerns a run of a job: during the run, reported by or about one of its nodes;
    about a quota of its user on one of its file systems; or reported by a storage server about a
    target that its whole file system depends on.
    """
    end = max(event.last, event.time if event.over is None else event.over)
    if end < part.since or event.time > part.until:
        return False
    if event.kind == QUOTA_FULL:
        return part.user in event.clients and (part.file_systems is None
                                               or event.file_system in part.file_systems)
    if event.node in part.nodes or any(
            client in part.nids or client in part.nodes for client in event.clients):
        return True
    if event.clients or event.kind not in OF_ALL:
        return False
    here = served(event.node)
    # A disk that belongs to no target may be the storage server's own.
    if here is None or (event.kind in OF_STORAGE and not event.file_system):
        return False
    used = {event.file_system} if event.file_system else here
    return bool(used) if part.file_systems is None else not part.file_systems.isdisjoint(used)


def redact_for_user(event: Event, is_storage_server: Callable[[str], bool],
                    parts: Iterable[JobPart]) -> Event | None:
    """
    Return the part of an event that an ordinary user may see; None if there is none.

    `parts`: those of the user's own job that the event concerns, in a query about a job.  Only
    clients of the job are named, and a text that may name others is left out.
    """
    parts = list(parts)
    if any(event.node in part.nodes for part in parts):
        return event
    own = tuple(client for client in event.clients if any(
        client in part.nids or client in part.nodes or client == part.user for part in parts))
    if not is_storage_server(event.node):
        return None
    if own == tuple(event.clients) and event.count <= len(own) and event.kind not in _FREE:
        return event
    if own:
        return event._replace(clients=own, message="")
    if event.clients or event.kind not in OF_ALL:
        return None
    return event._replace(message="")


_FREE = frozenset(("other", "data_lost"))       # texts of any content
