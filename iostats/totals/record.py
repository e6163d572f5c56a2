"""
The record of a job: what `--json` writes, what is stored, and what all reports are made from.

Each class is one JSON object of docs/record.schema.json, which tools/docs.py makes from these
classes: its annotations are the members and their types, in their order, and its docstring says
what is not plain from a name.  Members are read as attributes; the value is a dict with the same
members, so any encoder writes it as it is, and `of` makes it of what was stored.

Why not a msgspec.Struct, or a dataclass: `show` and `--mpi` make records on compute nodes, where
neither may be imported; and a record that an older or newer release has stored, with fewer or more
members, comes back as it was written.

New members may be added within schema 1; `_absent` has what they are in records without them.

Long because: it is data, one list of every member of the record, with what it means.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from iostats.totals.bounds import NUMBERS, UPPER_BOUNDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass
    from typing import Any, TypeVar

    _Part = TypeVar("_Part", bound="RecordPart")

    # What tools/docs.py makes of each, see LIMITS.
    Count = int
    Positive = int
    SchemaNumber = int
    Moment = float
    Seconds = float
    Width = float
    Share = float
    Amount = float
    JobName = str
    Numbers = list[str]
    Severity = int
    Teller = str
    DataLoss = str
else:
    def dataclass(cls):
        """Tells type checkers that the annotations are members; nothing, when it runs."""
        return cls

SCHEMA = 1

# Names of types in the annotations, as JSON Schema.
LIMITS: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "Count": {"type": "integer", "minimum": 0},
    "Positive": {"type": "integer", "minimum": 1},
    "Moment": {"type": "number"},
    "Seconds": {"type": "number", "minimum": 0},
    "Width": {"type": "number", "exclusiveMinimum": 0},
    "Share": {"type": "number", "minimum": 0, "maximum": 1},
    "Amount": {"type": "number"},
    "JobName": {"type": "string", "minLength": 1, "maxLength": 128},
    "Numbers": {"type": "array", "uniqueItems": True,
                "items": {"enum": [*NUMBERS, *UPPER_BOUNDS]}},
    "SchemaNumber": {"const": SCHEMA},
    "Severity": {"type": "integer", "minimum": 0, "maximum": 3},
    "Teller": {"enum": ["nodes", "servers", "both"]},
    "DataLoss": {"enum": ["", "lost", "may be lost"]},
}

CLASSES: dict[str, type[RecordPart]] = {}           # by name


class RecordPart(dict):                             # type: ignore[type-arg]
    """A JSON object of the record, whose members are attributes; it is made by their names."""

    _inner: dict[str, Callable[[Any], Any]] = {}    # member -> what makes its parts of JSON
    _absent: Mapping[str, Any] = {}     # member that older records lack -> what it is in those

    def __init_subclass__(cls) -> None:
        CLASSES[cls.__name__] = cls
        cls._inner = {}
        for name, annotation in cls.__annotations__.items():
            setattr(cls, name, _member(name, cls._absent))
            convert = _converter(annotation)
            if convert is not None:
                cls._inner[name] = convert

    @classmethod
    def of(cls: type[_Part], form: Mapping[str, Any]) -> _Part:
        """The part of the JSON object `form`, which is left as it is; itself, if it is one."""
        if isinstance(form, cls):
            return form
        found = dict.__new__(cls)
        found.update(form)
        for name in cls._inner:
            if found.get(name) is not None:
                found[name] = found[name]
        return found

    def replaced(self: _Part, **members: Any) -> _Part:
        """The same with other values for some members."""
        found = dict.__new__(type(self))
        found.update(self)
        for name, value in members.items():
            found[name] = value
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        """JSON that is put in becomes parts as well."""
        convert = self._inner.get(name)
        super().__setitem__(name, value if convert is None or value is None else convert(value))


def _member(name: str, absent: Mapping[str, Any]) -> property:
    if name in absent:
        return property(lambda self: self.get(name, absent[name]))
    return property(itemgetter(name))


def _converter(annotation: str) -> Callable[[Any], Any] | None:
    """What makes the parts of a member of JSON; None where it has none."""
    kind = annotation.replace(" | None", "")
    if kind.startswith("list["):
        each = _converter(kind[len("list["):-1])
        return None if each is None else partial(_list_of, each)
    if kind.startswith("dict[str, "):
        each = _converter(kind[len("dict[str, "):-1])
        return None if each is None else partial(_dict_of, each)
    return CLASSES[kind].of if kind in CLASSES else None


def _list_of(make: Callable[[Any], Any], several: list[Any]) -> list[Any]:
    return [make(one) for one in several]


def _dict_of(make: Callable[[Any], Any], named: dict[str, Any]) -> dict[str, Any]:
    # Nodes may be JSON text, of which a server has thousands: see job_totals.Totals.
    return {name: make(one) if isinstance(one, dict) else one for name, one in named.items()}


# -- of one file system --------------------------------------------------------------------------

@dataclass
class ApplicationIO(RecordPart):
    """
    What programs asked for (llite).

    Attributes:
        lower_bound: one of these numbers, or of `operations`, may be too low; `too_low` of the
            file system says which
    """

    read_bytes: Count
    write_bytes: Count
    read_calls: Count
    write_calls: Count
    lower_bound: bool


@dataclass
class NetworkIO(RecordPart):
    """
    What went to and came from the servers (osc and mdc).

    Attributes:
        read_bytes: null when osc could not be read; the RPCs are then those of rpc_stats
        write_bytes: null when osc could not be read; the RPCs are then those of rpc_stats
    """

    read_bytes: Count | None
    write_bytes: Count | None
    read_rpcs: Count
    write_rpcs: Count
    lower_bound: bool


@dataclass
class OperationRow(RecordPart):
    """
    One operation of programs.

    Attributes:
        seconds: time in this operation, of all threads of all nodes; null where the release does
            not time it (up to 2.13)
        stddev_s: standard deviation of one call's time; null where the kernel's sum of squares may
            have wrapped, or is not there
    """

    count: Count
    seconds: Seconds | None
    stddev_s: Seconds | None


@dataclass
class MetadataPeak(RecordPart):
    """The node that asked an MDT most."""

    node: str
    per_second: Seconds


@dataclass
class MetadataRequests(RecordPart):
    """
    What one MDT was asked.

    Attributes:
        requests: without what the client does for itself, such as revalidate_lock
        per_second_per_node: requests by seconds of the nodes that asked; null when that is no time
        peak: the busiest node, over its whole time; null when no node's time is known
    """

    operations: dict[str, Count]
    requests: Count
    per_second_per_node: Seconds | None
    peak: MetadataPeak | None


@dataclass
class OstBalance(RecordPart):
    """
    How the network bytes were spread over the OSTs.

    Attributes:
        busiest: the OST with the most bytes; empty when no byte was moved
        busiest_share: of all bytes over the network to OSTs; null when there were none
    """

    osts: Count
    used: Count
    busiest: str
    busiest_share: Share | None


@dataclass
class RequestPages(RecordPart):
    """Upper limit of the pages of a bulk RPC -> number of RPCs."""

    read: dict[str, Count]
    write: dict[str, Count]


@dataclass
class RecordSeries(RecordPart):
    """
    Amounts in equal bins of time.

    Attributes:
        nodes: how many nodes it is of
        began: seconds since 1970 of the begin of the first bin
        every_s: width of a bin in seconds
    """

    nodes: Positive
    began: Moment
    every_s: Width
    read_bytes: list[Count]
    write_bytes: list[Count]
    operations: list[Count]


@dataclass
class NodeSpread(RecordPart):
    """
    One metric over the nodes.

    Attributes:
        busiest: the node with the most; empty when all are 0
    """

    min: Count
    median: Count
    max: Count
    busiest: str


@dataclass
class SourceTotals(RecordPart):
    """
    What one source counted that has no place of its own in the record.

    Attributes:
        totals: metric: total; `_bytes`, `_us` microseconds, otherwise a count
    """

    totals: dict[str, Count]
    lower_bound: bool


@dataclass
class IdleIO(RecordPart):
    """
    What the nodes do by themselves, measured while no job ran there, as much of it as falls into
    the job's time: so much of each number may not be the job's.

    Attributes:
        nodes: how many of the job's nodes it is known of
        seconds: idle time that was looked at, of all of these
        expected: amount in the job's time, of bytes, calls and operations of programs, named as in
            `nodes` of the record; what is 0 is left out
    """

    nodes: Positive
    seconds: Seconds
    expected: dict[str, Count]


@dataclass
class FileSystemRecord(RecordPart):
    """
    One file system, as the job's nodes saw it.

    Attributes:
        label: the site's name for it (site.cfg: [labels])
        mounts: mount points on any node, where they could be seen
        application: what programs asked for (llite); null when no node could read it
        network: what went to and came from the servers (osc and mdc); null when no node could read
            it
        operations: operation: how often, and how long; null when no node could read llite
        calls: read and write, where the release times them (since 2.14); null when no node could
            read llite
        other: llite metrics that are neither bytes nor operations, and those that this release of
            iostats does not know; see docs/counters.md for their names; null when no node could
            read llite
        metadata: MDT: what it was asked, from md_stats, which every user may read
        balance: how the network bytes were spread over the OSTs; null when no node could read them
        request_pages: way: {pages: bulk RPCs of up to that number of pages}; null when no node
            could read it
        unproved: sources whose files show no start time, so that a clear followed by more work than
            before it can't be seen
        cached_read_bytes: of read_bytes, what was in the page cache when it was asked for; null
            where the release does not tell (up to 2.17.56) or there was none
        dirty_bytes: written, and not yet sent at the end, of the nodes where it could be read; null
            when none could
        series: of `watch`, all nodes that ran it together: amounts in equal bins; null when none
            did
        idle: what the nodes do there by themselves; null where no node knows, as without prolog
            and epilog
        targets: OST or MDT: metrics of osc, mdc and md_stats
        lower_bound: some number of this file system may be too low; notes and coverage say why
        too_low: numbers of programs that may be too low (of `application`, and `operations` for all
            counts of `operations`); notes and coverage say why
        too_high: numbers of programs that may be too high: what an eviction threw away was written,
            and is not in the file system; `flock` of `operations` has unlocks that the kernel makes
        write_bytes_max: the most that programs have written: write_bytes, and what the calls that
            are not in it can have written at most; null where there is no such limit
        incomplete: a node, or a part of one's work, is missing; then every number may be too low
        low: sources with a lower bound
        sources: source (iostats/node/sources): what it counted, of those that have no place of
            their own here, mostly of other file systems than Lustre
    """

    _absent = {"too_high": [], "write_bytes_max": None, "sources": {}, "idle": None}

    name: str
    label: str
    mounts: list[str]
    application: ApplicationIO | None
    network: NetworkIO | None
    operations: dict[str, OperationRow] | None
    calls: dict[str, OperationRow] | None
    other: dict[str, Count] | None
    metadata: dict[str, MetadataRequests]
    balance: OstBalance | None
    request_pages: RequestPages | None
    unproved: list[str]
    cached_read_bytes: Count | None
    dirty_bytes: Count | None
    series: RecordSeries | None
    idle: IdleIO | None
    targets: dict[str, dict[str, Count]]
    per_node: dict[str, NodeSpread]
    lower_bound: bool
    too_low: Numbers
    too_high: Numbers
    write_bytes_max: Count | None
    incomplete: bool
    low: list[str]
    sources: dict[str, SourceTotals]
    notes: list[str]


@dataclass
class PhaseFileSystem(RecordPart):
    """
    What programs did on one file system in a part of the job.

    Attributes:
        application: what programs asked for (llite); null when no node could read it
        operations: operation: how often, and how long; null when no node could read llite
        too_low: as of the whole job
        too_high: as of the whole job
        write_bytes_max: as of the whole job; null where there is no such limit
    """

    _absent = {"too_high": [], "write_bytes_max": None}

    name: str
    label: str
    application: ApplicationIO | None
    operations: dict[str, OperationRow] | None
    lower_bound: bool
    too_low: Numbers
    too_high: Numbers
    write_bytes_max: Count | None


# -- at the storage servers ----------------------------------------------------------------------

@dataclass
class TimedCount(RecordPart):
    """
    One operation at the storage servers.

    Attributes:
        seconds: null where the release does not time them (up to 2.13)
    """

    count: Count
    seconds: Seconds | None


@dataclass
class ServersFileSystem(RecordPart):
    """
    What the storage servers of one file system counted under the job's id.

    Attributes:
        read_bytes: bytes that OSTs (and MDTs with data) sent under the job's id
        write_bytes: bytes that they took under the job's id
        read_rpcs: bulk read requests
        write_rpcs: bulk write requests
        read_seconds: that the servers took for them; null where the release does not time them (up
            to 2.13)
        write_seconds: the same for writes; null where the release does not time them
        operations: operation, as the storage servers call it -> how often, and how long all of them
            took together
        targets: OST or MDT -> metric -> number; metrics as in docs/counters.md
        lower_bound: the true numbers may be higher; the notes say why
    """

    name: str
    label: str
    read_bytes: Count
    write_bytes: Count
    read_rpcs: Count
    write_rpcs: Count
    read_seconds: Seconds | None
    write_seconds: Seconds | None
    operations: dict[str, TimedCount]
    targets: dict[str, dict[str, Count]]
    lower_bound: bool
    notes: list[str]


@dataclass
class ServersRecord(RecordPart):
    """
    What the storage servers counted under the job's id.

    Attributes:
        final: the job is settled: nothing more will come
        ids: what the job is called in job_stats
        began: seconds since 1970 of the first sweep that saw it
        ended: of the last one in which it changed
        notes: what may be missing on file systems where nothing was seen of it
        lower_bound: some number may be too low
    """

    final: bool
    ids: list[str]
    began: Moment
    ended: Moment
    file_systems: list[ServersFileSystem]
    notes: list[str]
    lower_bound: bool


# -- at the storage servers, by node --------------------------------------------------------------

@dataclass
class ClientsIO(RecordPart):
    """
    What some clients of one file system have asked its storage servers for.

    Attributes:
        read_bytes: bytes that OSTs (and MDTs with data) sent them
        write_bytes: bytes that they took
        reads: requests that moved the bytes read
        writes: requests that moved the bytes written
        ost_operations: all other requests to OSTs
        mdt_operations: all other requests to MDTs
    """

    read_bytes: Count
    write_bytes: Count
    reads: Count
    writes: Count
    ost_operations: Count
    mdt_operations: Count


@dataclass
class NodesFileSystem(RecordPart):
    """
    What the job's nodes have asked one file system for while the job had them.

    Attributes:
        low: in the intervals between two sweeps that lie wholly in the job's time
        high: with those that began before the job, or ended after it; null where something may be
            missing, so that there is no upper bound
        later_write_bytes: what the same nodes have written in whole intervals of the minute after
            that, before another job began there: the job's own data, as far as it was still in the
            nodes' memory at its end; null where that is not known
        lower_bound: something may be missing in `low`; the notes say what
    """

    name: str
    label: str
    low: ClientsIO
    high: ClientsIO | None
    later_write_bytes: Count | None
    lower_bound: bool
    notes: list[str]


@dataclass
class NodesRecord(RecordPart):
    """
    What the job's nodes have asked the storage servers for (exports), where it had them alone.

    Attributes:
        why_none: why there are no numbers, such as "it shared node7 with another job"; "" where
            there are
        alone: how it is known that it had its nodes alone.  exclusive: the batch system had given
            it whole nodes; listed: no other job ran on any of them, of all that the batch system
            knows; "" where there are no numbers
        began: seconds since 1970 by the site's clock, of the batch system's start of the job; null
            where it is not known
        ended: the same of its end
        clocks_within_s: by how much the two clocks may differ from what was taken; null where that
            could not be measured
        unknown_nodes: the job's nodes of which no client is known, as node[1-3]; they are not in
            the numbers
        nodes_used_before: those that another job had up to less than a minute before: what it had
            not written back by then is in the numbers
        notes: what is true of all file systems
    """

    why_none: str
    alone: str
    began: Moment | None
    ended: Moment | None
    clocks_within_s: Seconds | None
    unknown_nodes: str
    nodes_used_before: str
    file_systems: list[NodesFileSystem]
    notes: list[str]


# -- of the job ----------------------------------------------------------------------------------

@dataclass
class RecordedJob(RecordPart):
    """
    The job.

    Attributes:
        user: of the first node that told; null when none has
        started: seconds since 1970 of the first node's start; null when no node has reported
        ended: seconds since 1970 of the last node's stop; null when no node has reported
        elapsed_s: from the first node's start to the last one's stop; null when no node has
            reported
        attempt: how often the batch system had started it again before; null where that is not
            known
    """

    id: JobName
    attempt: Count | None
    user: str | None
    started: Moment | None
    ended: Moment | None
    elapsed_s: Seconds | None


@dataclass
class BatchRecord(RecordPart):
    """
    What the batch system says of the job.

    Attributes:
        system: slurm, pbs, lsf, flux, sge or none
        cluster: its cluster or server
        account: the account or project
        partition: the partition or queue
        name: the job's name
        nodes: its nodes, as nid[00001-00128]
        outcome: in Slurm's words: COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, REQUEUED for a
            run that was followed by another one, ...
        exit_status: of the batch script; null where it is not known
        exit_signal: the signal that ended it, 0 for none; null where it is not known
        array_job: of an array's task: the array's id
        array_task: of an array's task: its index
        het_job: of a heterogeneous job's component: the job's id
        het_offset: of a heterogeneous job's component: its place
        raw_job: the id that prologs see; another one than job.id for array tasks and components
    """

    system: str
    cluster: str
    account: str
    partition: str
    name: str
    nodes: str
    outcome: str
    exit_status: Count | None
    exit_signal: Count | None
    array_job: str
    array_task: str
    het_job: str
    het_offset: str
    raw_job: str


@dataclass
class Coverage(RecordPart):
    """
    Which nodes are in the totals, and which are not, and why.

    Attributes:
        expected: nodes of the job; null when not known
        missing: node: why it has no numbers
        missing_count: more than the names in `missing` when the nodes were given as a number
        complete: all nodes are known and have reported
        refused: why: messages that were not taken
        shared: node: how many other jobs were on it, so that its numbers are not this job's alone
        node_seconds: seconds between start and stop, of all nodes together; null in a short form
    """

    expected: Positive | None
    reported: Count
    missing: dict[str, str]
    missing_count: Count
    complete: bool
    refused: dict[str, Positive]
    shared: dict[str, Positive]
    node_seconds: Seconds | None


@dataclass
class PhaseRecord(RecordPart):
    """
    A part of the job.

    Attributes:
        elapsed_s: of the node that took longest
    """

    name: str
    nodes: Positive
    elapsed_s: Seconds
    file_systems: list[PhaseFileSystem]


@dataclass
class NodeRecord(RecordPart):
    """
    What one node did; the JSON text of it where a server keeps many.

    Attributes:
        file_systems: file system: bytes, calls and counts of operations of this node, by the
            application; what is 0 is left out
    """

    elapsed_s: Seconds
    file_systems: dict[str, dict[str, Count]]


@dataclass
class JobEvent(RecordPart):
    """
    Something that went wrong while the job ran: on its nodes, or on a file system that it used.

    Attributes:
        id: of the event, as `iostats events` shows it: of the storage server's, where one tells of
            it, or else of the first node's
        time: when it began, by the server's clock
        last: when it happened last, of what is several times
        over: when all of it was over: connected again, recovered; null where that is not known
        longest_s: how long it was for one node, or for the target; the longest; null where not
            known
        severity: 0 info, 1 warning, 2 critical, 3 fatal
        kind: evicted, connection_lost, target_down, ...: docs/events.md
        cause: of an eviction, where it is known: silent, lock, administrator, recovery
        file_system: as Lustre calls it; "" where it is about none
        target: scratch-OST0003; "" where it is about no single one
        nodes: the job's nodes that it hit, as nid[00001-00004]; "" where it is about a target, and
            so about all of them, or where it is not known
        node_count: how many these are
        told_by: who tells of it
        is_certain: false where it is not known whether it hit this job: a target evicted more
            clients than are named
        count: how often it happened, on these nodes or else on the target
        clients: how many clients a target tells of, of all nodes; null where it is not about
            clients, or the nodes tell of it alone
        data: what became of data that the job had written and that was not yet sent: lost, where
            a node tells that it threw it away; may be lost, by an eviction
        message: what the kernel of one of these nodes said; "" where that may be about others
    """

    id: str
    time: Moment
    last: Moment
    over: Moment | None
    longest_s: Seconds | None
    severity: Severity
    kind: str
    cause: str
    file_system: str
    target: str
    nodes: str
    node_count: Count
    told_by: Teller
    is_certain: bool
    count: Count
    clients: Count | None
    data: DataLoss
    message: str


@dataclass
class RecordedFinding(RecordPart):
    """
    What a rule says of the job: docs/advice.md.

    Attributes:
        id: of the rule, such as small_writes
        file_system: as Lustre calls it; "" where it is about the whole job
        number: what made the rule hold
        meaning: what that means
        advice: what to do
        link: where more is said; "" for nowhere
        evidence: {name: number} of what the rule has looked at; null where one is not known
        cost: at most this part of the run time, from 0 to 1: all calls that it is about, as if no
            two had been at the same time; null where that was not measured
    """

    id: str
    file_system: str
    number: str
    meaning: str
    advice: str
    link: str
    evidence: dict[str, Amount | None]
    cost: Share | None


@dataclass
class RecordedCause(RecordPart):
    """
    What explains most of a job's run time: docs/why.md.

    Attributes:
        kind: not_in_lustre, fault, busy_target, slow_target or own_pattern
        headline: the same in words
        confidence: high, medium or low
        cost: at most this part of the run time, from 0 to 1; null where that was not measured
    """

    kind: str
    headline: str
    confidence: str
    cost: Share | None


@dataclass
class Record(RecordPart):
    """
    The JSON record of one job.

    Attributes:
        short: made from the short form in the batch system's accounting: what that does not have is
            null, {} or []
        batch: what the batch system says of the job, "" where it does not; null in a record of a
            job's own server, which does not ask
        harvest: what the storage servers counted under the job's id (job_stats); null where there
            is no harvest, or it has not seen the job
        by_node: what its nodes have asked the storage servers for (exports), between two bounds;
            null where there are no exports, or the job is not over
        phases: parts of the job, from `mark`; empty for a job in one piece
        events: what went wrong while it ran, in the order of time, the most severe of very many;
            null where nothing has looked for it
        events_more: how many more there were
        findings: what its numbers mean and what to do, the most important first, in what is
            printed; null in what is stored, as they are made anew for each report
        main_cause: what explains most of its run time, as far as this record shows it, in what is
            printed; null where that is not known, and in what is stored
    """

    _absent = {"harvest": None, "by_node": None, "events": None, "events_more": 0,
               "findings": None, "main_cause": None}

    schema: SchemaNumber
    short: bool
    job: RecordedJob
    batch: BatchRecord | None
    harvest: ServersRecord | None
    by_node: NodesRecord | None
    coverage: Coverage
    file_systems: list[FileSystemRecord]
    phases: list[PhaseRecord]
    nodes: dict[str, NodeRecord]
    notes: list[str]
    events: list[JobEvent] | None
    events_more: Count
    findings: list[RecordedFinding] | None
    main_cause: RecordedCause | None
