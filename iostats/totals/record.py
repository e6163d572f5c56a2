"""
The record of a job: what `--json` writes, what is stored, and what all reports are made from.

Each class is one JSON object of docs/reference/record.schema.json, which tools/docs.py makes from
these classes: the docstring and the comments say what is not plain from a name.

New members may be added within schema 1; `_absent` has what they are in records without them.
"""

from __future__ import annotations

from iostats.totals.bounds import LUSTRE
from iostats.totals.record_additions import ImportedRecord, RecordedLnet, RecordedQuotas
from iostats.totals.record_part import PARTS, RecordPart, dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record_part import (
        Amount,
        Count,
        DataLoss,
        JobName,
        Moment,
        Numbers,
        Positive,
        SchemaNumber,
        Seconds,
        Severity,
        Share,
        Teller,
        Width,
    )

    Mixed = Any                 # members of several types


# -- of one file system --------------------------------------------------------------------------

@dataclass
class ApplicationIO(RecordPart["Count | None"]):
    """The I/O that programs requested (llite, nfs)."""

    read_bytes: Count
    write_bytes: Count
    read_calls: Count | None    # null where the kernel does not count them, as of NFS
    write_calls: Count | None   # null where the kernel does not count them, as of NFS
    # one of these numbers, or of `operations`, may be too low; `too_low` of the file system says
    # which
    lower_bound: bool


@dataclass
class NetworkIO(RecordPart["Count | None"]):
    """The I/O between nodes and servers (osc and mdc, nfs)."""

    # null when osc could not be read; the RPCs are then those of rpc_stats
    read_bytes: Count | None
    # null when osc could not be read; the RPCs are then those of rpc_stats
    write_bytes: Count | None
    read_rpcs: Count
    write_rpcs: Count
    lower_bound: bool


@dataclass
class OperationRow(RecordPart["Mixed"]):
    """An operation of programs, such as open: how often, and how long it took."""

    count: Count
    # time in this operation, of all threads of all nodes; null where the release does not time it
    # (up to 2.13)
    seconds: Seconds | None
    # standard deviation of one call's time; null where the kernel's sum of squares may have
    # wrapped, or is not there
    stddev_s: Seconds | None


@dataclass
class MetadataPeak(RecordPart["Mixed"]):
    """The node that asked an MDT most."""

    node: str
    per_second: Seconds


@dataclass
class MetadataRequests(RecordPart["Mixed"]):
    """The requests to one MDT or NFS server."""

    operations: dict[str, Count]
    # without what the client does for itself, such as revalidate_lock, and of NFS without READ and
    # WRITE
    requests: Count
    # requests by seconds of the nodes that asked; null when that is no time
    per_second_per_node: Seconds | None
    # the busiest node, over its whole time; null when no node's time is known
    peak: MetadataPeak | None


@dataclass
class OstBalance(RecordPart["Mixed"]):
    """The spread of the network bytes over the OSTs."""

    osts: Count
    used: Count
    busiest: str                 # the OST with the most bytes; empty when no byte was moved
    busiest_share: Share | None  # of all bytes over the network to OSTs; null when there were none


@dataclass
class RequestPages(RecordPart["dict[str, Count]"]):
    """Upper limit of the pages of a bulk RPC -> number of RPCs."""

    read: dict[str, Count]
    write: dict[str, Count]


@dataclass
class RecordSeries(RecordPart["Mixed"]):
    """Amounts in equal bins of time."""

    nodes: Positive     # how many nodes it is of
    began: Moment       # seconds since 1970 of the begin of the first bin
    every_s: Width      # width of a bin in seconds
    read_bytes: list[Count]
    write_bytes: list[Count]
    operations: list[Count]


@dataclass
class NodeSpread(RecordPart["Mixed"]):
    """A metric over the nodes of a job: minimum, median and maximum, with the nodes."""

    _absent = {"second": None}

    min: Count
    median: Count
    second: Count   # the most of any other node than the busiest; 0 where there is none
    max: Count
    busiest: str    # the node with the most; empty when all are 0


@dataclass
class SlowNodes(RecordPart["Mixed"]):
    """Nodes that took at least 2.5 times as long as the others to read or write as much."""

    call: str               # read or write
    nodes: str              # their names, as nid[00001-00004]
    node_count: Positive    # the number of these nodes
    slowest: str            # the one that lost most time
    seconds: Seconds        # its time in these calls, of all its threads
    # what the others took at most for as many bytes and calls: their upper quartile
    usual_seconds: Seconds


@dataclass
class SourceTotals(RecordPart["Mixed"]):
    """The counters of one source without members of their own in the record."""

    totals: dict[str, Count]    # metric: total; `_bytes`, `_us` microseconds, otherwise a count
    lower_bound: bool


@dataclass
class IdleIO(RecordPart["Mixed"]):
    """
    The idle I/O of the nodes, measured while no job ran there, for as long as the job took: this
    part of each number may not be the job's.
    """

    nodes: Positive     # the number of the job's nodes with data
    seconds: Seconds    # measured idle time of all of these
    # amount in the job's time, of bytes, calls and operations of programs, named as in `nodes` of
    # the record; what is 0 is left out
    expected: dict[str, Count]


@dataclass
class FileSystemRecord(RecordPart["Mixed"]):
    """One file system, as measured by the job's nodes."""

    _absent = {"too_high": [], "write_bytes_max": None, "sources": {}, "idle": None,
               "slow_nodes": [], "kind": LUSTRE}

    name: str
    label: str          # the site's name for it (site.cfg: [labels])
    kind: str           # lustre, or the source that counted it (iostats/node/sources), such as nfs
    mounts: list[str]   # mount points on any node, where they could be seen
    # what programs asked for (llite); null when no node could read it
    application: ApplicationIO | None
    # what went to and came from the servers (osc and mdc); null when no node could read it
    network: NetworkIO | None
    # operation: how often, and how long; null when no node could read llite
    operations: dict[str, OperationRow] | None
    # read and write, where the release times them (since 2.14); null when no node could read llite
    calls: dict[str, OperationRow] | None
    # llite metrics that are neither bytes nor operations, and those that this release of iostats
    # does not know; see docs/reference/counters.md for their names; null when no node could read
    # llite
    other: dict[str, Count] | None
    # MDT or NFS server: what it was asked, from md_stats or nfs, which every user may read
    metadata: dict[str, MetadataRequests]
    # how the network bytes were spread over the OSTs; null when no node could read them
    balance: OstBalance | None
    # way: {pages: bulk RPCs of up to that number of pages}; null when no node could read it
    request_pages: RequestPages | None
    # sources whose files show no start time, so that a clear followed by more work than before it
    # can't be seen
    unproved: list[str]
    # of read_bytes, what was in the page cache when it was asked for; null where the release does
    # not tell (up to 2.17.56) or there was none
    cached_read_bytes: Count | None
    # written, and not yet sent at the end, of the nodes where it could be read; null when none
    # could
    dirty_bytes: Count | None
    # of `watch`, all nodes that ran it together: amounts in equal bins; null when none did
    series: RecordSeries | None
    # what the nodes do there by themselves; null where no node knows, as without prolog and epilog
    idle: IdleIO | None
    targets: dict[str, dict[str, Count]]  # OST or MDT: metrics of osc, mdc and md_stats
    per_node: dict[str, NodeSpread]
    # nodes that took much longer than the others, of those that reported
    slow_nodes: list[SlowNodes]
    lower_bound: bool   # some number of this file system may be too low; notes and coverage say why
    # numbers of programs that may be too low (of `application`, and `operations` for all counts of
    # `operations`); notes and coverage say why
    too_low: Numbers
    # numbers of programs that may be too high: what an eviction threw away was written, and is not
    # in the file system; `flock` of `operations` has unlocks that the kernel makes
    too_high: Numbers
    # the most that programs have written: write_bytes, and what the calls that are not in it can
    # have written at most; null where there is no such limit
    write_bytes_max: Count | None
    # a node, or a part of one's work, is missing; then every number may be too low
    incomplete: bool
    low: list[str]      # sources with a lower bound
    # source (iostats/node/sources): what it counted, of those that have no place of their own here,
    # mostly of other file systems than Lustre
    sources: dict[str, SourceTotals]
    notes: list[str]


@dataclass
class PhaseFileSystem(RecordPart["Mixed"]):
    """The I/O of programs on one file system in a part of the job."""

    _absent = {"too_high": [], "write_bytes_max": None}

    name: str
    label: str
    # what programs asked for (llite); null when no node could read it
    application: ApplicationIO | None
    # operation: how often, and how long; null when no node could read llite
    operations: dict[str, OperationRow] | None
    lower_bound: bool
    too_low: Numbers                # as of the whole job
    too_high: Numbers               # as of the whole job
    write_bytes_max: Count | None   # as of the whole job; null where there is no such limit


# -- at the storage servers ----------------------------------------------------------------------

@dataclass
class TimedCount(RecordPart["Mixed"]):
    """An operation at the storage servers: how often, and how long it took."""

    count: Count
    seconds: Seconds | None     # null where the release does not time them (up to 2.13)


@dataclass
class ServersFileSystem(RecordPart["Mixed"]):
    """The counts of one file system's storage servers under the job's id."""

    _absent = {"programs": {}, "steps": {}}

    name: str
    label: str
    read_bytes: Count               # bytes that OSTs (and MDTs with data) sent under the job's id
    write_bytes: Count              # bytes that they took under the job's id
    read_rpcs: Count                # bulk read requests
    write_rpcs: Count               # bulk write requests
    # that the servers took for them; null where the release does not time them (up to 2.13)
    read_seconds: Seconds | None
    write_seconds: Seconds | None   # the same for writes; null where the release does not time them
    # operation, as the storage servers call it -> how often, and how long all of them took together
    operations: dict[str, TimedCount]
    # OST or MDT -> metric -> number; metrics as in docs/reference/counters.md
    targets: dict[str, dict[str, Count]]
    # program -> metric -> number, the same requests by the program that made them; empty where the
    # job's ids in job_stats do not have it (jobid_name with %e)
    programs: dict[str, dict[str, Count]]
    # step of a Slurm job -> metric -> number, the same requests by step; empty where the job's ids
    # do not have it ([harvest] job_id with %s)
    steps: dict[str, dict[str, Count]]
    lower_bound: bool               # the true numbers may be higher; the notes say why
    notes: list[str]


@dataclass
class ServersRecord(RecordPart["Mixed"]):
    """The counts of the storage servers under the job's id."""

    final: bool         # the job is settled: nothing more will come
    ids: list[str]      # what the job is called in job_stats
    began: Moment       # seconds since 1970 of the first sweep that saw it
    ended: Moment       # of the last one in which it changed
    file_systems: list[ServersFileSystem]
    notes: list[str]    # what may be missing on file systems where nothing was seen of it
    lower_bound: bool   # some number may be too low


# -- at the storage servers, by node --------------------------------------------------------------

@dataclass
class ClientsIO(RecordPart["Count"]):
    """The requests of some clients to the storage servers of one file system."""

    read_bytes: Count       # bytes that OSTs (and MDTs with data) sent them
    write_bytes: Count      # bytes that they took
    reads: Count            # requests that moved the bytes read
    writes: Count           # requests that moved the bytes written
    ost_operations: Count   # all other requests to OSTs
    mdt_operations: Count   # all other requests to MDTs


@dataclass
class NodesFileSystem(RecordPart["Mixed"]):
    """The requests of the job's nodes to one file system while the job had them."""

    name: str
    label: str
    low: ClientsIO      # in the intervals between two sweeps that lie wholly in the job's time
    # with those that began before the job, or ended after it; null where something may be missing,
    # so that there is no upper bound
    high: ClientsIO | None
    # what the same nodes have written in whole intervals of the minute after that, before another
    # job began there: the job's own data, as far as it was still in the nodes' memory at its end;
    # null if unknown
    later_write_bytes: Count | None
    lower_bound: bool   # something may be missing in `low`; the notes say what
    notes: list[str]


@dataclass
class NodesRecord(RecordPart["Mixed"]):
    """The requests of the job's nodes to the storage servers (exports), if it had them alone."""

    # why there are no numbers, such as "it shared node7 with another job"; "" where there are
    why_none: str
    # how it is known that it had its nodes alone.  exclusive: the batch system had given it whole
    # nodes; listed: no other job ran on any of them, of all that the batch system knows; "" where
    # there are no numbers
    alone: str
    # seconds since 1970 by the site's clock, of the batch system's start of the job; null where it
    # is not known
    began: Moment | None
    ended: Moment | None    # the same of its end
    # by how much the two clocks may differ from what was taken; null where that could not be
    # measured
    clocks_within_s: Seconds | None
    # the job's nodes of which no client is known, as node[1-3]; they are not in the numbers
    unknown_nodes: str
    # those that another job had up to less than a minute before: data it had not written back by
    # then are in the numbers
    nodes_used_before: str
    file_systems: list[NodesFileSystem]
    notes: list[str]        # what is true of all file systems


# -- of the job ----------------------------------------------------------------------------------

@dataclass
class RecordedJob(RecordPart["Mixed"]):
    """The job: its id, name, user and times."""

    _absent = {"command": ""}

    id: JobName
    # how often the batch system had started it again before; null if unknown
    attempt: Count | None
    user: str | None    # of the first node that reported it; null when none has
    # seconds since 1970 of the first node's start; null when no node has reported
    started: Moment | None
    # seconds since 1970 of the last node's stop; null when no node has reported
    ended: Moment | None
    # from the first node's start to the last one's stop; null when no node has reported
    elapsed_s: Seconds | None
    # the command that `iostats run` has measured, and nothing else of the job; "" for a whole job
    command: str


@dataclass
class BatchRecord(RecordPart["Mixed"]):
    """The batch facts of the job."""

    _absent = {"tasks": None, "cpus": None}

    system: str                 # slurm, pbs, lsf, flux, sge or none
    cluster: str                # its cluster or server
    account: str                # the account or project
    partition: str              # the partition or queue
    name: str                   # the job's name
    nodes: str                  # its nodes, as nid[00001-00128]
    # in Slurm's words: COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, REQUEUED for a run that
    # was followed by another one, ...
    outcome: str
    exit_status: Count | None   # of the batch script; null if unknown
    exit_signal: Count | None   # the signal that ended it, 0 for none; null if unknown
    array_job: str              # of an array's task: the array's id
    array_task: str             # of an array's task: its index
    het_job: str                # of a heterogeneous job's component: the job's id
    het_offset: str             # of a heterogeneous job's component: its place
    raw_job: str  # the id that prologs see; another one than job.id for array tasks and components
    # its tasks (MPI ranks) on all nodes, as requested; null if it does not report them
    tasks: Positive | None
    cpus: Positive | None       # its CPUs on all nodes; null if it does not report them


@dataclass
class Coverage(RecordPart["Mixed"]):
    """The nodes in the totals, the missing ones, and the reasons."""

    _absent = {"cpus_of_node": None}

    expected: Positive | None       # nodes of the job; null when not known
    reported: Count
    missing: dict[str, str]         # node: why it has no numbers
    missing_count: Count  # more than the names in `missing` when the nodes were given as a number
    complete: bool                  # all nodes are known and have reported
    refused: dict[str, Positive]    # why: messages that were not taken
    # node: how many other jobs were on it, so that its numbers are not this job's alone
    shared: dict[str, Positive]
    # seconds between start and stop, of all nodes together; null in a short form
    node_seconds: Seconds | None
    # online CPUs, hardware threads each, of the node with most of them; null where no node reports
    # them
    cpus_of_node: Positive | None


@dataclass
class PhaseRecord(RecordPart["Mixed"]):
    """A part of the job."""

    name: str
    nodes: Positive
    elapsed_s: Seconds  # of the node that took longest
    file_systems: list[PhaseFileSystem]


@dataclass
class NodeRecord(RecordPart["Mixed"]):
    """The I/O of one node; a server with many nodes stores its JSON text."""

    elapsed_s: Seconds
    # file system: bytes, calls, counts of operations, and microseconds in each timed call
    # (`write_us`) of this node, by the application; what is 0 is left out
    file_systems: dict[str, dict[str, Count]]


@dataclass
class JobEvent(RecordPart["Mixed"]):
    """
    Something that went wrong while the job ran: on its nodes, or on a file system that it used.
    """

    # id of the event, as `iostats events` shows it: the storage server's event if a storage server
    # reported it, or else the first node's
    id: str
    time: Moment        # when it began, by the server's clock
    last: Moment        # when it happened last, of what is several times
    # when all of it was over: connected again, recovered; null if unknown
    over: Moment | None
    # how long it was for one node, or for the target; the longest; null where not known
    longest_s: Seconds | None
    severity: Severity  # 0 info, 1 warning, 2 critical, 3 fatal
    kind: str           # evicted, connection_lost, target_down, ...: docs/reference/events.md
    cause: str          # of an eviction, where it is known: silent, lock, administrator, recovery
    file_system: str    # as Lustre calls it; "" where it is about none
    target: str         # scratch-OST0003; "" where it is about no single one
    # the job's nodes that it hit, as nid[00001-00004]; "" where it is about a target, and so about
    # all of them, or where it is not known
    nodes: str
    node_count: Count   # how many these are
    told_by: Teller     # where it was reported from
    # false where it is not known whether it hit this job: a target evicted more clients than are
    # named
    is_certain: bool
    count: Count        # how often it happened, on these nodes or else on the target
    # how many clients, of all nodes, a target reports; null where it is not about clients, or only
    # nodes report it
    clients: Count | None
    # what became of data that the job had written and that was not yet sent: lost, where a node
    # reports that it dropped them; may be lost, by an eviction
    data: DataLoss
    # what the kernel of one of these nodes said, or how many messages LNet dropped or resent, and
    # where; "" where that may be about others
    message: str


@dataclass
class RecordedFinding(RecordPart["Mixed"]):
    """A finding about the job: docs/reference/findings.md."""

    id: str             # of the rule, such as small_writes
    file_system: str    # as Lustre calls it; "" where it is about the whole job
    number: str         # what made the rule hold
    meaning: str        # what that means
    advice: str         # what to do
    link: str           # its section in the documentation; "" for none
    # {name: number} that the rule used; null where one is unknown
    evidence: dict[str, Amount | None]
    # at most this part of the run time, from 0 to 1: all calls that it is about, as if no two had
    # been at the same time; null where that was not measured
    cost: Share | None


@dataclass
class RecordedCause(RecordPart["Mixed"]):
    """The cause of most of a job's run time: docs/explanation/why.md."""

    kind: str           # not_in_lustre, fault, busy_target, slow_target, slow_node or own_pattern
    headline: str       # the same in words
    confidence: str     # high, medium or low
    # at most this part of the run time, from 0 to 1; null where that was not measured
    cost: Share | None


@dataclass
class Record(RecordPart["Mixed"]):
    """The JSON record of one job."""

    _absent = {"harvest": None, "by_node": None, "imported": None, "events": None, "events_more": 0,
               "lnet": None, "quotas": None,
               "findings": None, "main_cause": None}

    schema: SchemaNumber
    # made from the short form in the batch system's accounting: what that does not have is null, {}
    # or []
    short: bool
    job: RecordedJob
    # what the batch system says of the job, "" where it does not; in a record of a job's own server
    # what the job's environment says, and null outside of a batch system
    batch: BatchRecord | None
    # what the storage servers counted under the job's id (job_stats); null where there is no
    # harvest, or it has not seen the job
    harvest: ServersRecord | None
    # what its nodes have asked the storage servers for (exports), between two bounds; null where
    # there are no exports, or the job is not over
    by_node: NodesRecord | None
    # what another tool has stored, of a job that iostats did not measure; null otherwise
    imported: ImportedRecord | None
    coverage: Coverage
    file_systems: list[FileSystemRecord]
    phases: list[PhaseRecord]   # parts of the job, from `mark`; empty for a job in one piece
    nodes: dict[str, NodeRecord]
    lnet: RecordedLnet | None   # null where no node may read LNet's messages
    notes: list[str]
    # what went wrong while it ran, in the order of time, the most severe of very many; null where
    # nothing has looked for it
    events: list[JobEvent] | None
    events_more: Count          # how many more there were
    # quotas that were nearly used up at its end; null where no agent on an MDS had reported any of
    # its file systems within the hour, or none is asked for
    quotas: RecordedQuotas | None
    # problems in the job's I/O and their remedies, the most important first, in a printed record;
    # null in a stored one, as they are computed for each report
    findings: list[RecordedFinding] | None
    # what explains most of its run time, as far as this record shows it, in what is printed; null
    # where that is not known, and in what is stored
    main_cause: RecordedCause | None

    @property
    def lustre(self) -> list[FileSystemRecord]:
        """The file systems that are Lustre's."""
        return [fs for fs in self.file_systems if fs.kind == LUSTRE]


CLASSES = PARTS                 # by name: those above
