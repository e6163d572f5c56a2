"""
Events for a site's server: messages of agents, and what the server then answers.
"""
from __future__ import annotations

import base64

from iostats.events.event import as_json, make_event
from iostats.wire.messages.events_encoder import encode_events

NOON = 1_795_225_060.0
BOOT = "b" * 32
STATUS = {"health": "healthy", "targets": {"scratch-OST0003": {"state": "up", "clients": 37}},
          "log": {"source": "kmsg", "why": "", "lines": 23, "lost": 0}}


def event(origin, kind="evicted", at=NOON - 41, node="oss1", fs="scratch",
          target="scratch-OST0003", **fields):
    """An Event of a storage server; `origin`: what its id is made of."""
    return make_event(BOOT, node, (kind, str(origin)), kind, at, file_system=fs, target=target,
                      **fields)


def params(events, node="oss1", made_at=NOON, ahead_s=0.0, seq=1, status=None, dropped=0, every=10):
    """[params] of packed_events that tell of these."""
    head = {"node": node, "boot_id": BOOT, "seq": seq, "made": made_at, "ahead_s": ahead_s,
            "every": every}
    return [{"protocol": 1, "clock_ahead_s": 0.0, "sweep": base64.b64encode(message).decode()}
            for message, _ in encode_events(head, [as_json(one) for one in events], status,
                                          dropped)]


def send(inside, events=(), node="oss1", commit=True, **how):
    """Tell an `Inside` of events; its last answer."""
    for one in params(events, node, **{"made_at": inside.now, **how}):
        found = inside.ask("packed_events", one, node=node)
    if commit:
        inside.server._commit()
    return found


def ids(answer):
    """The ids of the events in an answer, in its order."""
    return [one["id"] for one in answer["events"]]
