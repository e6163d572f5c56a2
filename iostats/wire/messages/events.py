"""
The params of the method packed_events (docs/reference/wire.md), decoded: the events of a storage
server, and its present state.

    ReceivedEvents      a message: its EventsHead, and its events

A message is checked before it is used: its inflated length, the number of events and targets,
names, numbers and times.  Times are converted to the server's clock, by the difference that the
agent knew when it made the message, or else by the one it knows now.
"""

from collections.abc import Generator
from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec.structs import replace

from iostats.base.cooperative import run_to_end
from iostats.base.job_id import LONGEST_NODE_NAME
from iostats.base.named_tuple import NamedTuple
from iostats.wire.messages.events_encoder import MAGIC, MOST_EVENTS, MOST_TARGETS, PROTOCOL
from iostats.wire.messages.report import ReportedEvent, tidy_event
from iostats.wire.messages.sweep import Count, Seconds, TargetName
from iostats.wire.messages.sweep_decoder import (
    PackedSweep,
    check_magic,
    check_protocol,
    inflate_message,
)

_Text = Annotated[str, msgspec.Meta(max_length=200)]


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]             # of the kernel, in 64 bits


class CapacityStatus(msgspec.Struct, frozen=True):
    """The capacity of one target, as of lustre.capacity.Capacity."""

    bytes_total: _Amount
    bytes_free: _Amount
    bytes_available: _Amount
    inodes_total: _Amount
    inodes_free: _Amount


class RecoveryProgress(msgspec.Struct, frozen=True):
    """A recovery under way."""

    # clients, of: those that are back, of all
    clients: Count
    of: Count
    left_s: Count   # seconds until the others are evicted


class TargetStatus(msgspec.Struct, frozen=True):
    """The state of one target of a storage server."""

    # "down" is one that was here since the boot, and is not
    state: Literal["up", "recovering", "down"]
    clients: Optional[Count] = None     # how many are connected; None where that cannot be read
    # UNSET where that is not known
    capacity: Union[CapacityStatus, msgspec.UnsetType] = msgspec.UNSET
    # UNSET where none is under way
    recovery: Union[RecoveryProgress, msgspec.UnsetType] = msgspec.UNSET


class LogStatus(msgspec.Struct, frozen=True):
    """The state of reading the kernel's log."""

    source: Literal["kmsg", "journald", "none"] = "none"
    why: _Text = ""     # it is not, or not all of it; "" where it is
    # lines, lost: since the agent's start
    lines: Count = 0
    lost: Count = 0


_Credits = Annotated[int, msgspec.Meta(ge=-2**31, lt=2**31)]


class LnetCredits(msgspec.Struct, frozen=True):
    """Credits of a storage server's interfaces in one LNet, and of its peers there."""

    # messages that wait for one of an interface; the fewest of one of its CPU partitions so far
    waiting: Count
    lowest: _Credits
    # UNSET where peers are not known; waiting_peers: for how many of them messages wait
    peers: Union[Count, msgspec.UnsetType] = msgspec.UNSET
    waiting_peers: Union[Count, msgspec.UnsetType] = msgspec.UNSET
    peer_waiting: Union[Count, msgspec.UnsetType] = msgspec.UNSET   # for one of a peer
    peer_lowest: Union[_Credits, msgspec.UnsetType] = msgspec.UNSET


class LnetStatus(msgspec.Struct, frozen=True):
    """
    LNet on a storage server.

    Attributes:
        sent ... dropped_bytes: as of lustre.lnet.LnetStats.
        waiting: messages that wait for a credit of an interface.
        down: NIDs of interfaces and routers that are down.
        resent, response_timeouts, health: of lustre.lnetctl.LnetHealth; UNSET where unknown.
        credits: {LNet: LnetCredits}; UNSET from an agent of a release before.
        short_peers: {NID: (messages that wait for a credit of it, the fewest so far)} of up to 100
            peers that had too few; UNSET where peers are not known.
    """

    sent: Count
    received: Count
    routed: Count
    dropped: Count
    sent_bytes: _Bytes
    received_bytes: _Bytes
    routed_bytes: _Bytes
    dropped_bytes: _Bytes
    waiting: Count = 0
    down: Annotated[list[_Text], msgspec.Meta(max_length=100)] = []
    resent: Union[Count, msgspec.UnsetType] = msgspec.UNSET
    response_timeouts: Union[Count, msgspec.UnsetType] = msgspec.UNSET
    health: Union[Annotated[dict[_Text, Count], msgspec.Meta(max_length=100)],
                  msgspec.UnsetType] = msgspec.UNSET
    credits: Union[Annotated[dict[_Text, LnetCredits], msgspec.Meta(max_length=1_000)],
                   msgspec.UnsetType] = msgspec.UNSET
    short_peers: Union[Annotated[dict[_Text, tuple[Count, _Credits]], msgspec.Meta(max_length=100)],
                       msgspec.UnsetType] = msgspec.UNSET


_Word = Annotated[str, msgspec.Meta(max_length=64)]
_Numbers = Annotated[dict[_Word, _Bytes], msgspec.Meta(max_length=100)]


class MetricsOfOne(msgspec.Struct, frozen=True):
    """The metrics of a target or a service, by the names in lustre/server_metrics.py."""

    values: _Numbers = {}
    # what counters have gained since the reading before; {} where that is not known
    gained: _Numbers = {}


class MetricsOfService(MetricsOfOne, frozen=True):
    """Those of a service."""

    policy: _Word = ""      # of its request scheduler (NRS); "" where it is not known


class MetricsStatus(msgspec.Struct, frozen=True):
    """The metrics of a storage server."""

    # between the last two readings; 0 for only one
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    targets: Annotated[dict[TargetName, MetricsOfOne], msgspec.Meta(max_length=MOST_TARGETS)] = {}
    services: Annotated[dict[_Word, MetricsOfService], msgspec.Meta(max_length=1_000)] = {}


class QuotaStatus(msgspec.Struct, frozen=True):
    """The quota of one user, group or project, as of lustre.quota.Quota."""

    file_system: _Word
    pool: _Word
    kind: Literal["user", "group", "project"]
    id: _Amount
    resource: Literal["space", "inodes"]
    granted: _Amount
    soft: _Amount
    hard: _Amount
    grace_end: Count


class QuotasStatus(msgspec.Struct, frozen=True):
    """The quotas of a file system."""

    read_at: Seconds    # when they were read, s since 1970
    count: Count
    # those of them that are nearest to their limits
    nearest: Annotated[list[QuotaStatus], msgspec.Meta(max_length=1_000)] = []


class ServerStatus(msgspec.Struct, frozen=True):
    """The state of a storage server."""

    # what health_check says, such as "healthy", "NOT HEALTHY", "LBUG"; "" where it cannot be read
    health: _Text = ""
    # {"scratch-OST0003", "MGS": TargetStatus}
    targets: Annotated[dict[TargetName, TargetStatus], msgspec.Meta(max_length=MOST_TARGETS)] = {}
    log: LogStatus = LogStatus()
    # UNSET where they are not known; quotas: where no quota master is here
    lnet: Union[LnetStatus, msgspec.UnsetType] = msgspec.UNSET
    metrics: Union[MetricsStatus, msgspec.UnsetType] = msgspec.UNSET
    # {file system: QuotasStatus}
    quotas: Union[Annotated[dict[_Word, QuotasStatus], msgspec.Meta(max_length=1_000)],
                  msgspec.UnsetType] = msgspec.UNSET


class EventsHead(msgspec.Struct, kw_only=True, rename={"every_s": "every"}):
    """The head of a message of events: everything but the clock."""

    protocol: int
    # the storage server
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NODE_NAME)]
    # /proc/sys/kernel/random/boot_id, "" where unknown
    boot_id: Annotated[str, msgspec.Meta(max_length=64, pattern=r"\A[0-9a-fA-F-]*\Z")]
    seq: Count      # the message's number since the agent's start; others may have come before it
    made: Seconds   # when it was made, agent's clock, s since 1970
    # that clock less the server's then; None where the agent did not know
    ahead_s: Optional[Seconds] = None
    # between two scans ([events] every)
    every_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    # up to MOST_EVENTS, times by the agent's clock; of whatever node, it is this one's
    events: Annotated[list[ReportedEvent], msgspec.Meta(max_length=MOST_EVENTS)]
    dropped: Count = 0  # events dropped for lack of space since the message before
    status: Optional[ServerStatus] = None  # None: as in the message before
    # whether `node` is a storage server that reports its status; else it is another machine that
    # has only events, such as one with `iostats ldms run`
    is_server: bool = True


class ReceivedEvents(NamedTuple):
    """A message of events; all times by the server's clock."""

    head: EventsHead             # the EventsHead; its `made` and `events` are those of here
    made: float                  # when it was made, s since 1970
    events: list[ReportedEvent]  # [ReportedEvent], with all names and messages fit for a terminal


_LONGEST = 500                      # characters of an error
_IN_A_STEP = 250                    # events: some 0.7 ms
_head_of = msgspec.json.Decoder(EventsHead).decode


def decode_events(packed: PackedSweep, max_bytes: int) -> ReceivedEvents:
    """The result of `decode_events_in_steps`, in one step."""
    return run_to_end(decode_events_in_steps(packed, max_bytes))


def decode_events_in_steps(packed: PackedSweep,
                           max_bytes: int) -> Generator[None, None, ReceivedEvents]:
    """
    The message in `packed`, of which no more than `max_bytes` bytes are inflated, in steps;
    ValueError, or msgspec.MsgspecError, in the first of them.
    """
    data = inflate_message(packed.sweep, max_bytes)
    check_magic(data, MAGIC)
    try:
        head = _head_of(data[len(MAGIC):])
    except msgspec.ValidationError as error:        # which may quote the value, in full
        text = str(error)
        raise ValueError(text if len(text) <= _LONGEST else
                         f"{text[:_LONGEST // 2]} ... {text[-_LONGEST // 2:]}") from None
    check_protocol(head.protocol, PROTOCOL)
    ahead_s = packed.clock_ahead_s if head.ahead_s is None else head.ahead_s
    head.made -= ahead_s
    if head.status is not None and isinstance(head.status.quotas, dict):
        head.status = replace(head.status, quotas={
            name: replace(quotas, read_at=quotas.read_at - ahead_s)
            for name, quotas in head.status.quotas.items()})
    for number, event in enumerate(head.events):
        if number and number % _IN_A_STEP == 0:
            yield
        tidy_event(event, head.node, ahead_s)
    return ReceivedEvents(head, head.made, head.events)
