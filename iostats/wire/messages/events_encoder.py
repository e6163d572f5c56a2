"""
Encodes what went wrong on a storage server: docs/reference/wire.md, packed_events.

    "iostats events 1" LF
    one JSON object: the members of EventsHead in events.py

Its bytes are stored and sent as they are; what is known only when they are sent, the clock, stands
beside them in the params.  Events are taken by their ids, so that a message may come twice, or
after a later one, and messages are no chain.
"""

from __future__ import annotations

import json
import zlib

from iostats.wire.method_name import MethodName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Optional, TypedDict

    class MessageHead(TypedDict, total=False):
        """The members of EventsHead that the first message has."""

        node: str
        boot_id: str
        seq: int
        made: float
        every: float
        ahead_s: Optional[float]
        is_server: bool         # false: of no storage server

PROTOCOL, MAGIC = 1, b"iostats events 1\n"
METHOD: MethodName[object] = MethodName("packed_events")
MOST_EVENTS = 1_000                # of a message
LONGEST = 1 << 20                  # bytes of its events before compression, about
MOST_TARGETS = 100_000             # of a status


def encode_events(head: MessageHead, events: Sequence[Mapping[str, object]],
                status: Mapping[str, object] | None,
                dropped: int = 0) -> Iterator[tuple[bytes, int]]:
    """
    Yield (a message, the number of its events): enough for `events`, and one without events if
    there are none.

    Args:
        head: the members of EventsHead without `events`, `dropped` and `status`; `seq` is that of
            the first message, and each has one more than the last.
        events: as event.as_json() makes them.
        status: the storage server's present status, for the last message; None for none.
        dropped: events dropped for lack of space since the last report; the last message has it.
    """
    seq = head["seq"]
    begin = 0
    while True:
        end, size = begin, 0
        parts: list[str] = []
        while end < len(events) and end - begin < MOST_EVENTS and (size < LONGEST or not parts):
            parts.append(json.dumps(events[end], separators=(",", ":")))
            size += len(parts[-1])
            end += 1
        is_last = end == len(events)
        text = json.dumps({**head, "protocol": PROTOCOL, "seq": seq,
                           "dropped": dropped if is_last else 0,
                           "status": status if is_last else None}, separators=(",", ":"))
        # The events are JSON already.
        body = f'{text[:-1]},"events":[{",".join(parts)}]}}'
        yield zlib.compress(MAGIC + body.encode("utf-8", "replace"), 1), len(parts)
        if is_last:
            return
        begin, seq = end, seq + 1
