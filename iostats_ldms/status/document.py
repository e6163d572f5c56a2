"""
The status of a group of daemons, as stored in etcd: zlib over JSON, status/GROUP.

Each aggregator has a row.  Samplers have one only if they are not up or not as described, since
etcd keeps each version until it is compacted; the others are counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, Optional

import msgspec

from iostats.base.errors import sanitize
from iostats.events.event import as_json, from_json
from iostats_ldms.description.model import Description
from iostats_ldms.service.reports import DaemonStatus

UP, DOWN, HUNG, UNKNOWN = "up", "down", "hung", "unknown"
AGGREGATOR, SAMPLER = "aggregator", "sampler"
MOST_ROWS, MOST_EVENTS = 1000, 100
LONGEST = 1_000_000             # bytes in etcd, which takes 1.5 MB in a request
_LONGEST_INFLATED = 16_000_000
_LONGEST_TEXT = 300
_MOST_WRONG = 5

_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=2**53)]


class DaemonRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The row of a daemon; most attributes are those of service.reports.DaemonStatus."""

    name: _Text
    state: Annotated[str, msgspec.Meta(pattern=r"\A(up|down|hung|unknown)\Z")] = UP
    since: _Seconds = 0.0  # seconds since 1970, by the clock of the instance that observed it first
    why: _Text = ""
    restarts: _Count = 0   # since it is in the description, whichever instance observed them
    as_described: bool = False
    wrong: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=_MOST_WRONG)] = ()
    producers: Optional[_Count] = None
    connected: Optional[_Count] = None
    sets: Optional[_Count] = None
    load: Optional[float] = None
    # id of the event for its outage; "" for none, or an event for several daemons
    event: Annotated[str, msgspec.Meta(max_length=16)] = ""
    # counter, has_ended: of its process, so that the next owner of the group recognizes a new one
    counter: Optional[_Count] = None
    has_ended: bool = False


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a group of aggregators or samplers."""

    group: Annotated[str, msgspec.Meta(max_length=100_000)]
    role: Annotated[str, msgspec.Meta(pattern=r"\A(aggregator|sampler)\Z")]  # AGGREGATOR or SAMPLER
    level: _Count = 0               # of aggregators, 1 or more; 0 for samplers
    revision: Optional[_Count] = None  # of the description in force; None if it has none
    time: _Seconds = 0.0            # of this status, seconds since 1970
    instance: _Text = ""            # the owner of the group
    # DaemonRows, in the description's order
    rows: Annotated[tuple[DaemonRow, ...], msgspec.Meta(max_length=MOST_ROWS)] = ()
    well: _Count = 0                # number of daemons without a row because they are as described
    unlisted: _Count = 0            # number of daemons without a row because there are too many
    events: tuple[Any, ...] = ()    # the last events, the oldest first
    read_at: _Seconds = 0.0         # when that daemon was read which was read longest ago; 0: none

    @property
    def daemons(self) -> int:
        """Number of daemons."""
        return len(self.rows) + self.well + self.unlisted

    def count(self, state: str) -> int:
        """Count the daemons in a state, as far as they are listed."""
        return sum(row.state == state for row in self.rows) + (self.well if state == UP else 0)


_decode = msgspec.json.Decoder(GroupStatus).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def make_row(state: DaemonStatus, since: float, restarts: int, event: str,
             counter: int | None = None, has_ended: bool = False) -> DaemonRow:
    """Make the row of a daemon, its texts truncated and safe for a terminal."""
    return DaemonRow(_truncate(state.name), state.state if state.state in (UP, DOWN, HUNG)
                     else UNKNOWN,
                     max(0.0, since), _truncate(state.why), restarts, state.as_described,
                     tuple(_truncate(text) for text in state.wrong[:_MOST_WRONG]), state.producers,
                     state.connected, state.sets, state.load, event,
                     counter if counter is not None and 0 <= counter <= 2**53 else None, has_ended)


def select_rows(rows: Iterable[DaemonRow], role: str) -> tuple[tuple[DaemonRow, ...], int, int]:
    """Select rows to store: (rows, number omitted as described, number omitted for room)."""
    every = list(rows)
    shown = every if role == AGGREGATOR else [
        row for row in every if row.state != UP or not row.as_described]
    stored = shown
    if len(shown) > MOST_ROWS:                      # rows of failed daemons are the most important
        worst = sorted(range(len(shown)), key=lambda place: (shown[place].state == UP, place))
        stored = [shown[place] for place in sorted(worst[:MOST_ROWS])]
    return tuple(stored), len(every) - len(shown), len(shown) - len(stored)


def encode_status(status: GroupStatus) -> bytes:
    """Encode status/GROUP; if too long, the last rows and the oldest events are omitted."""
    while True:
        events = [as_json(event) for event in status.events]
        data = zlib.compress(_encode(msgspec.structs.replace(status, events=tuple(events))), 6)
        if len(data) <= LONGEST or not (status.rows or status.events):
            return data
        half = len(status.rows) // 2
        status = msgspec.structs.replace(
            status, rows=status.rows[:half], unlisted=status.unlisted + len(status.rows) - half,
            events=status.events[(len(status.events) + 1) // 2:])


def decode_status(data: bytes) -> GroupStatus:
    """Decode a value of status/GROUP; ValueError, one line."""
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(data, _LONGEST_INFLATED)
    except zlib.error as error:
        raise ValueError(f"expected zlib: {error}") from None
    if not inflate.eof:
        raise ValueError(f"expected a whole text of up to {_LONGEST_INFLATED} bytes")
    try:
        status = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(sanitize(error)[:_LONGEST_TEXT]) from None
    return msgspec.structs.replace(
        status, group=sanitize(status.group), instance=sanitize(status.instance),
        rows=tuple(msgspec.structs.replace(
            row, name=sanitize(row.name), why=sanitize(row.why),
            wrong=tuple(map(sanitize, row.wrong))) for row in status.rows),
        events=tuple(from_json(event) for event in status.events[-MOST_EVENTS:]))


def _truncate(text: str) -> str:
    return sanitize(text)[:_LONGEST_TEXT]


class GroupInfo(NamedTuple):
    """role: AGGREGATOR or SAMPLER; level: of aggregators; daemons: how many."""

    role: str
    level: int
    daemons: int


def list_groups(description: Description | None) -> dict[str, GroupInfo]:
    """Return {group: GroupInfo} of a description."""
    if description is None:
        return {}
    return {**{item.name: GroupInfo(SAMPLER, 0, len(item.members)) for item
               in description.samplers},
            **{item.name: GroupInfo(AGGREGATOR, item.level, len(item.members))
               for item in description.aggregators}}
