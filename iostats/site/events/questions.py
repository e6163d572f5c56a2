"""
The questions `events` and `events_status`, and which events an answer has.

An ordinary user is answered with what storage servers tell of targets, of which no client is named;
and, who asks for a job of their own, with what happened to the nodes of that job in its time.  All
else names nodes of others, and is for root, the server's user and [site] readers.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Annotated, Any, Optional

import msgspec

from iostats.events.kinds import SEVERITIES
from iostats.lustre.kernel_log import EVICTED
from iostats.lustre.system_log import HUNG_TASK, OF_STORAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from iostats.events.event import Event

MOST_ROWS = 5_000                   # in one answer
MOST_NAMES = 10_000                 # nodes in one question
EVER = 1e12

# What concerns all who use a file system, or a target of it, though it names no client.
OF_ALL = frozenset(("target_down", "target_up", "recovery", "not_healthy", "lbug", HUNG_TASK,
                    *OF_STORAGE))

IS_OF_ALL = f"kind IN ({', '.join(map(repr, sorted(OF_ALL)))})"             # SQL
# An eviction may be of clients that it does not name.
_OR_MAY_BE = f" OR {IS_OF_ALL} OR kind = '{EVICTED}'"
_MOST_SOUGHT = 30                   # names

_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=1_000)]
_Moment = Annotated[float, msgspec.Meta(ge=-EVER, le=EVER)]


class EventsParams(msgspec.Struct):
    """
    Which events: the params of `events`.

    Attributes:
        since, until: s since 1970: events that were not over before, and began not later; None
            for no limit.
        severity: this one and worse, 0 to 3.
        file_systems, targets, kinds: any of these; [] for all.
        nodes: names of nodes or storage servers, or NIDs: what they tell, or is told of them.
        job: what happened to this job.
        after: `next` of the previous answer: events behind it, and those that have grown since.
        last: N: the N latest of those that are asked for; 0 for all.
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
    """
    The params of `events_status`.

    Attributes:
        file_systems, nodes: names of these; [] for all.
        since: connections that were lost since then; None for a week.
    """

    file_systems: _Names = []
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)] = []
    since: Optional[_Moment] = None


JobPart = namedtuple("JobPart", "nodes nids file_systems since until")
JobPart.__doc__ = """
One run of a job.

Attributes:
    nodes: names of its nodes; nids: those of them that are known.
    file_systems: names of those that it used; None where that is not known: all.
    since, until: when it ran, s since 1970.
"""


def clause(ask: EventsParams, since: float, until: float, nids_of: Callable[[str], list[str]],
           parts: Collection[JobPart] | None = None) -> tuple[str, list[Any]]:
    """
    (SQL, values) that leave out most rows of `events` that are not asked for; `filter_of` knows.

    `nids_of(node)`: its NIDs; `parts`: of the job that is asked for.
    """
    found = ["ended >= ?", "time <= ?", "severity >= ?"]
    values: list[Any] = [since, until, ask.severity]
    for column, names in (("kind", ask.kinds), ("file_system", ask.file_systems)):
        if 0 < len(names) <= 100:               # SQLite before 3.32 accepts 999 values
            names = [*names, ""]                # of a storage server as such
            found.append(f"{column} IN ({','.join('?' * len(names))})")
            values += names
    named = [] if len(ask.nodes) > _MOST_SOUGHT else [
        name for node in ask.nodes for name in (node, *nids_of(node))]
    for some, or_else in ((ask.targets, ""), (named, ""),
                          ([] if parts is None else _named_in(parts), _OR_MAY_BE)):
        # Names stand in the body as they are; to look for many takes longer than to decode it.
        if 0 < len(some) <= _MOST_SOUGHT:
            sought = " OR ".join(["instr(body, ?)"] * len(some))
            found.append(f"({sought}{or_else})")
            values += [name.encode("utf-8", "surrogatepass") for name in some]
    return "AND " + " AND ".join(found), values


def _named_in(parts: Iterable[JobPart]) -> list[str]:
    found: set[str] = set()
    for part in parts:
        found.update(part.nodes, part.nids)
        if len(found) > _MOST_SOUGHT:
            break
    return sorted(found)


def filter_of(ask: EventsParams, node_of: Callable[[str], str],
              runs: Iterable[JobPart] | None,
              served: Callable[[str], Collection[str] | None]) -> Callable[[Event], bool]:
    """
    Whether an Event is asked for, but for its time and severity.

    `node_of(nid)`: the node's name, or the NID; `runs`: of the job that is asked for;
    `served(node)`: the file systems of a storage server, None for another machine.
    """
    file_systems, kinds = frozenset(ask.file_systems), frozenset(ask.kinds)
    targets, nodes = frozenset(ask.targets), frozenset(ask.nodes)
    parts = None if runs is None else list(runs)

    def is_asked(event: Event) -> bool:
        if file_systems and event.file_system not in file_systems and (
                event.file_system or file_systems.isdisjoint(served(event.node) or ())):
            return False
        if (kinds and event.kind not in kinds) or (targets and event.target not in targets):
            return False
        if nodes and event.node not in nodes and not any(
                client in nodes or node_of(client) in nodes for client in event.clients):
            return False
        return parts is None or any(is_of_job(event, part, served) for part in parts)

    return is_asked


def is_of_job(event: Event, part: JobPart,
              served: Callable[[str], Collection[str] | None]) -> bool:
    """
    Whether an event concerns a run of a job: in its time, told by a node of it or of such a node;
    or of a target that all of its file system depend on, as a storage server tells.
    """
    end = max(event.last, event.time if event.over is None else event.over)
    if end < part.since or event.time > part.until:
        return False
    if event.node in part.nodes or any(
            client in part.nids or client in part.nodes for client in event.clients):
        return True
    if event.clients or event.kind not in OF_ALL:
        return False
    here = served(event.node)
    # A disk that is no target's may be the storage server's own.
    if here is None or (event.kind in OF_STORAGE and not event.file_system):
        return False
    used = {event.file_system} if event.file_system else here
    return bool(used) if part.file_systems is None else not part.file_systems.isdisjoint(used)


def for_user(event: Event, is_storage_server: Callable[[str], bool],
             parts: Iterable[JobPart]) -> Event | None:
    """
    What an ordinary user may see of an event; None for nothing.

    `parts`: of their own job, where they ask for one, those that the event concerns.  Of clients
    only those of the job are named, and a text that may name others is left out.
    """
    parts = list(parts)
    if any(event.node in part.nodes for part in parts):
        return event
    own = tuple(client for client in event.clients if any(
        client in part.nids or client in part.nodes for part in parts))
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
