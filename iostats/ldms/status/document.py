"""
A group of daemons at one moment, as it is kept in etcd: zlib over JSON, status/GROUP.

Aggregators all have a row.  Of samplers only those have one that are not as they should be, since
etcd keeps each version until it is compacted; the others are counted.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Any, Optional

import msgspec

from iostats.base.errors import one_line
from iostats.events.event import as_json, from_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.ldms.service.told import DaemonState

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
    """
    One ldmsd.

    Attributes:
        state: see service.told.DaemonState, as for what follows.
        since: s since 1970, by the clock of the instance that saw it first.
        restarts: since it is in the description, whichever instance saw them.
        event: the id of the event that says it is down; "" for none, or one of many.
        counter, has_ended: of its process, so that the next owner of the group knows another one.
    """

    name: _Text
    state: Annotated[str, msgspec.Meta(pattern=r"\A(up|down|hung|unknown)\Z")] = UP
    since: _Seconds = 0.0
    why: _Text = ""
    restarts: _Count = 0
    as_wanted: bool = False
    wrong: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=_MOST_WRONG)] = ()
    producers: Optional[_Count] = None
    connected: Optional[_Count] = None
    sets: Optional[_Count] = None
    load: Optional[float] = None
    event: Annotated[str, msgspec.Meta(max_length=16)] = ""
    counter: Optional[_Count] = None
    has_ended: bool = False


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A group of aggregators, or of samplers.

    Attributes:
        role: AGGREGATOR or SAMPLER.
        level: of aggregators, 1 or more; 0 of samplers.
        revision: of the description that is carried out; None where it has none.
        time: s since 1970, when this was so.
        instance: who watches the group.
        rows: DaemonRows, in the description's order.
        well: how many daemons have no row because they are as they should be.
        unlisted: how many have none because there are too many.
        events: what happened, the oldest first.
    """

    group: Annotated[str, msgspec.Meta(max_length=100_000)]
    role: Annotated[str, msgspec.Meta(pattern=r"\A(aggregator|sampler)\Z")]
    level: _Count = 0
    revision: Optional[_Count] = None
    time: _Seconds = 0.0
    instance: _Text = ""
    rows: Annotated[tuple[DaemonRow, ...], msgspec.Meta(max_length=MOST_ROWS)] = ()
    well: _Count = 0
    unlisted: _Count = 0
    events: tuple[Any, ...] = ()

    @property
    def daemons(self) -> int:
        """How many there are."""
        return len(self.rows) + self.well + self.unlisted

    def count(self, state: str) -> int:
        """How many are in a state, as far as they are listed."""
        return sum(row.state == state for row in self.rows) + (self.well if state == UP else 0)


_decode = msgspec.json.Decoder(GroupStatus).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def row_of(state: DaemonState, since: float, restarts: int, event: str,
           counter: int | None = None, has_ended: bool = False) -> DaemonRow:
    """The row of a daemon, its texts bounded and fit for a terminal."""
    return DaemonRow(_cut(state.name), state.state if state.state in (UP, DOWN, HUNG) else UNKNOWN,
                     max(0.0, since), _cut(state.why), restarts, state.as_wanted,
                     tuple(_cut(text) for text in state.wrong[:_MOST_WRONG]), state.producers,
                     state.connected, state.sets, state.load, event,
                     counter if counter is not None and 0 <= counter <= 2**53 else None, has_ended)


def listed(rows: Iterable[DaemonRow], role: str) -> tuple[tuple[DaemonRow, ...], int, int]:
    """(rows that are kept, how many are left out as they are well, and for lack of room)."""
    every = list(rows)
    shown = every if role == AGGREGATOR else [
        row for row in every if row.state != UP or not row.as_wanted]
    kept = shown
    if len(shown) > MOST_ROWS:                      # those that are down say most
        worst = sorted(range(len(shown)), key=lambda place: (shown[place].state == UP, place))
        kept = [shown[place] for place in sorted(worst[:MOST_ROWS])]
    return tuple(kept), len(every) - len(shown), len(shown) - len(kept)


def encoded(status: GroupStatus) -> bytes:
    """The value of status/GROUP; of too much the last rows and the oldest events are left out."""
    while True:
        events = [as_json(event) for event in status.events]
        data = zlib.compress(_encode(msgspec.structs.replace(status, events=tuple(events))), 6)
        if len(data) <= LONGEST or not (status.rows or status.events):
            return data
        half = len(status.rows) // 2
        status = msgspec.structs.replace(
            status, rows=status.rows[:half], unlisted=status.unlisted + len(status.rows) - half,
            events=status.events[(len(status.events) + 1) // 2:])


def decoded(data: bytes) -> GroupStatus:
    """The GroupStatus in a value of etcd; ValueError, one line."""
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
        raise ValueError(one_line(error)[:_LONGEST_TEXT]) from None
    return msgspec.structs.replace(
        status, group=one_line(status.group), instance=one_line(status.instance),
        rows=tuple(msgspec.structs.replace(
            row, name=one_line(row.name), why=one_line(row.why),
            wrong=tuple(map(one_line, row.wrong))) for row in status.rows),
        events=tuple(from_json(event) for event in status.events[-MOST_EVENTS:]))


def _cut(text: str) -> str:
    return one_line(text)[:_LONGEST_TEXT]
