"""
From events to lines of InfluxDB's line protocol.

    measurement    tags                                         fields
    lustre_event   kind severity cause fs target node           count skipped duration_ms: integers
                                                                id message clients: text

at the time at which an event began.  One that grows is written again with the tags and the time
that it had first, and so in the place of its point.

Source: line protocol of InfluxDB 2.
"""

from __future__ import annotations

from collections import OrderedDict

from iostats.events.kinds import SEVERITIES
from iostats.sinks.influxdb.lines import tags_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iostats.events.event import Event

_REMEMBERED = 10_000                # events that may grow
_LATEST_MS = (1 << 63) // 10**6 - 1     # a database has nanoseconds in 64 bits


class EventLines:
    """The points of events, one line each."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, tuple[str, int]] = OrderedDict()     # id -> head, time

    def lines(self, events: Iterable[Event], names: Mapping[str, str]) -> list[str]:
        """[line]; `names`: {NID: node}."""
        return [self._line(event, names) for event in events]

    def _line(self, event: Event, names: Mapping[str, str]) -> str:
        head, moment_ms = self._points.get(event.id) or (
            "lustre_event" + tags_of(
                kind=event.kind, severity=SEVERITIES[event.severity], cause=event.cause,
                fs=event.file_system, target=event.target, node=event.node),
            min(round(event.time * 1000), _LATEST_MS))
        self._points[event.id] = head, moment_ms
        self._points.move_to_end(event.id)
        if len(self._points) > _REMEMBERED:
            self._points.popitem(last=False)
        fields = [f"count={event.count}i", f"skipped={event.skipped}i"]
        if event.over is not None:
            fields.append(f"duration_ms={max(0, round((event.over - event.time) * 1000))}i")
        texts = {"id": event.id, "message": event.message,
                 "clients": " ".join(names.get(one, one) for one in event.clients)}
        fields += [f"{name}={text_field(text)}" for name, text in texts.items() if text]
        return f"{head} {','.join(fields)} {moment_ms}"


def text_field(text: str) -> str:
    r"""
    `text` as the value of a field; what does not print is a "?".

    >>> text_field('a "b" \\')
    '"a \\"b\\" \\\\"'
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
