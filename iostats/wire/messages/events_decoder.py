"""
Decodes a message of events: the params of packed_events, whose form is in docs/wire.md.

All that is in a message is checked before it is used: its length when it is inflated, how many
events and targets there are, names, numbers, and that times are some.  Times are made those of the
server's clock: by what the agent knew of it when it made the message, or else by what it knows now.
"""

import msgspec

from iostats.wire.messages.events import EventsHead, ReceivedEvents
from iostats.wire.messages.events_encoder import MAGIC, PROTOCOL
from iostats.wire.messages.report import tidy_event
from iostats.wire.messages.sweep_decoder import PackedSweep, inflated

_LONGEST = 500                      # characters of an error
_head_of = msgspec.json.Decoder(EventsHead).decode


def decoded_events(packed: PackedSweep, most: int) -> ReceivedEvents:
    """
    The message in `packed`, of which no more than `most` bytes are inflated; ValueError, or
    msgspec.MsgspecError.
    """
    data = inflated(packed.sweep, most)
    if data[:len(MAGIC)] != MAGIC:
        raise ValueError(f"expected {MAGIC.decode()!r} at the beginning, got "
                         f"{data[:len(MAGIC)].decode('ascii', 'replace')!r}")
    try:
        head = _head_of(data[len(MAGIC):])
    except msgspec.ValidationError as error:        # which may quote what it has found, all of it
        text = str(error)
        raise ValueError(text if len(text) <= _LONGEST else
                         f"{text[:_LONGEST // 2]} ... {text[-_LONGEST // 2:]}") from None
    if head.protocol != PROTOCOL:
        raise ValueError(f"expected protocol {PROTOCOL}, got {head.protocol}; use one release on "
                         f"all servers")
    ahead_s = packed.clock_ahead_s if head.ahead_s is None else head.ahead_s
    head.made -= ahead_s
    for event in head.events:
        tidy_event(event, head.node, ahead_s)
    return ReceivedEvents(head, head.made, head.events)
