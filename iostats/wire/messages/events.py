"""
What a message of events says: what went wrong on a storage server, and how it stands now.

    ReceivedEvents      a message: its EventsHead, and its events

events_decoder.py makes them of bytes, whose form is in docs/wire.md (packed_events).
"""

from collections import namedtuple
from typing import Annotated, Literal, Optional

import msgspec

from iostats.base.job_id import LONGEST_NODE_NAME
from iostats.wire.messages.events_encoder import MOST_EVENTS, MOST_TARGETS
from iostats.wire.messages.report import ReportedEvent
from iostats.wire.messages.sweep import Count, Seconds, TargetName

_Text = Annotated[str, msgspec.Meta(max_length=200)]


class TargetStatus(msgspec.Struct, frozen=True):
    """
    One target of a storage server.

    Attributes:
        state: "down" is one that was here since the boot, and is not.
        clients: how many are connected; None where that cannot be read.
    """

    state: Literal["up", "recovering", "down"]
    clients: Optional[Count] = None


class LogStatus(msgspec.Struct, frozen=True):
    """
    How the kernel's log is read.

    Attributes:
        why: it is not, or not all of it; "" where it is.
        lines, lost: since the agent's start.
    """

    source: Literal["kmsg", "journald", "none"] = "none"
    why: _Text = ""
    lines: Count = 0
    lost: Count = 0


class ServerStatus(msgspec.Struct, frozen=True):
    """
    How a storage server stands.

    Attributes:
        health: what health_check says, such as "healthy", "NOT HEALTHY", "LBUG"; "" where it cannot
            be read.
        targets: {"scratch-OST0003", "MGS": TargetStatus}.
    """

    health: _Text = ""
    targets: Annotated[dict[TargetName, TargetStatus], msgspec.Meta(max_length=MOST_TARGETS)] = {}
    log: LogStatus = LogStatus()


class EventsHead(msgspec.Struct, kw_only=True):
    """
    What a message has beside the clock.

    Attributes:
        node: the storage server; boot_id: /proc/sys/kernel/random/boot_id, "" where unknown.
        seq: the message's number since the agent's start; others may have come before it.
        made: when it was made, agent's clock, s since 1970.
        ahead_s: that clock less the server's then; None where the agent did not know.
        every: s between two looks ([events] every).
        events: up to MOST_EVENTS, times by the agent's clock; of whatever node, it is this one's.
        dropped: events that went for lack of room since the message before.
        status: None: as the message before said.
        is_server: whether `node` is a storage server that says how it stands; else it is another
            machine that has only events, such as one with `iostats ldms run`.
    """

    protocol: int
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NODE_NAME)]
    boot_id: Annotated[str, msgspec.Meta(max_length=64, pattern=r"\A[0-9a-fA-F-]*\Z")]
    seq: Count
    made: Seconds
    ahead_s: Optional[Seconds] = None
    every: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    events: Annotated[list[ReportedEvent], msgspec.Meta(max_length=MOST_EVENTS)]
    dropped: Count = 0
    status: Optional[ServerStatus] = None
    is_server: bool = True


ReceivedEvents = namedtuple("ReceivedEvents", "head made events")
ReceivedEvents.__doc__ = """
A message of events; all times by the server's clock.

Attributes:
    head: the EventsHead; its `made` and `events` are those of here.
    made: when it was made, s since 1970.
    events: [ReportedEvent], with all names and messages fit for a terminal.
"""
