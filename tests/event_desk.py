"""
Events for tests, with values that cannot be taken for one another.
"""
from __future__ import annotations

from iostats.events.event import Event

AN_EVENT = Event(
    id="0000000000000017", time=1795333379.25, last=1795333379.25, over=None, severity=1,
    kind="other", cause="", node="oss1", file_system="", target="", clients=(), count=1, skipped=0,
    message="23")


def an_event(**fields):
    """An Event with these, and what an event has to have."""
    return AN_EVENT._replace(**fields)
