"""
Events as `iostats events` prints them: one line each, in the style of journalctl, or JSON.

    Nov 22 12:03:11 crit  oss1      scratch-OST0003: evicted nid00007 (silent for 107 s)
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.text import cut, measure_width, pad
from iostats.events.event import as_json, format_event, merge_copies
from iostats.events.kinds import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iostats.events.event import Event

NO_EVENTS = "-- No events --\n"
MAX_SEEN = 100_000              # events that are remembered, so that none is shown twice
_SEVERITIES = ("info ", "warn ", "crit ", "FATAL")
_COLOURS = ("", "\x1b[33m", "\x1b[31m", "\x1b[1;31m")    # none, yellow, red, bold red
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_OTHER_YEAR_S = 300 * 86400     # older times are printed with their year
_MIN_NODE_WIDTH, _MAX_NODE_WIDTH = 8, 24
_NODE_SHARE = 3                 # a node's column takes up to this fraction of a line: 1/3


class EventForm(NamedTuple):
    """The output format of events."""

    is_json: bool       # an object a line
    is_utc: bool        # times in UTC
    is_explained: bool  # print the meaning of each kind after its first event
    width: int | None   # of a line; None: no limit
    colours: bool       # with escape sequences of ECMA-48
    now: float          # s since 1970


class JournalLines:
    """Formats events as lines, in the order in which they are passed."""

    def __init__(self, form: EventForm) -> None:
        self._form = form
        self._node_width = _MIN_NODE_WIDTH
        self._widest = _MAX_NODE_WIDTH if form.width is None else min(
            _MAX_NODE_WIDTH, form.width // _NODE_SHARE)
        self._explained: set[str] = set()

    def lines(self, event: Event, names: dict[str, str], is_update: bool = False) -> Iterator[str]:
        """The lines of one event, each with a line end; `names`: {NID: node}."""
        if self._form.is_json:
            form = {**as_json(event), "clients_names": [names.get(client, client)
                                                        for client in event.clients],
                     "is_update": is_update}
            yield json.dumps(form, separators=(",", ":")) + "\n"
            return
        yield self._format_event_line(event, names, is_update) + "\n"
        if self._form.is_explained and event.kind not in self._explained:
            self._explained.add(event.kind)
            kind = KINDS[event.kind]
            for title, text in (("what", kind.meaning), ("why", kind.cause),
                                ("do", kind.what_to_do)):
                yield from self._wrap(f"    {title + ':':<6}", text)

    def _format_event_line(self, event: Event, names: dict[str, str], is_update: bool) -> str:
        at, severity = self._format_time(event.time), _SEVERITIES[event.severity]
        node = sanitize(names.get(event.node, event.node))
        self._node_width = max(self._node_width, min(measure_width(node), self._widest))
        head = f"{at} {severity} {pad(node, self._node_width)} "
        room = None if self._form.width is None else max(
            1, self._form.width - measure_width(head))
        words = cut(("update: " if is_update else "") + format_event(
            event, names, room and room - len("update: ") * is_update), room)
        if not self._form.colours:
            return (head + words).rstrip()
        colour = _COLOURS[event.severity]
        return (f"{_DIM}{at}{_PLAIN} {colour}{severity}{_PLAIN if colour else ''} "
                f"{pad(node, self._node_width)} {colour}{words}{_PLAIN if colour else ''}")

    def _format_time(self, seconds: float) -> str:
        """A time as journalctl prints it; with the year if it is not of the last months."""
        parts = time.gmtime(seconds) if self._form.is_utc else time.localtime(seconds)
        if abs(self._form.now - seconds) < _OTHER_YEAR_S:
            return f"{_MONTHS[parts.tm_mon - 1]} {time.strftime('%d %H:%M:%S', parts)}"
        return time.strftime("%Y-%m-%dT%H:%M:%S", parts)

    def _wrap(self, title: str, text: str) -> Iterator[str]:
        room = (self._form.width or 100) - len(title)
        line = ""
        for word in text.split():
            if line and len(line) + 1 + len(word) > room:
                yield f"{title}{line}\n"
                title, line = " " * len(title), ""
            line = f"{line} {word}".strip()
        yield f"{title}{line}\n"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class SeenEvents:
    """
    The events that were shown: each is shown once, and again as an update when its count has grown,
    or when it is over. Limited: the oldest are dropped.
    """

    def __init__(self, shown: Iterable[tuple[str, int, bool]] = ()) -> None:
        """`shown`: the result of `latest`."""
        self._shown: OrderedDict[str, tuple[int, bool]] = OrderedDict(
            (name, (count, is_over)) for name, count, is_over in shown)

    def add(self, event: Event) -> tuple[bool, bool]:
        """Return (whether to show an event, whether it is an update); later it counts as shown."""
        state = (event.count + event.skipped, event.over is not None)
        before = self._shown.get(event.id)
        if before is not None and state[0] <= before[0] and state[1] <= before[1]:
            return False, False
        if before is not None:
            state = (max(state[0], before[0]), state[1] or before[1])
        self._shown[event.id] = state
        self._shown.move_to_end(event.id)
        if len(self._shown) > MAX_SEEN:
            self._shown.popitem(last=False)
        return True, before is not None

    def latest(self, limit: int) -> list[tuple[str, int, bool]]:
        """Return [(id, count, is over)] of the latest ones, for a file."""
        return [(name, *self._shown[name]) for name in list(self._shown)[-limit:]]


class MergedEvents:
    """Events of several servers, each once: two copies are combined."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self.names: dict[str, str] = {}

    def add(self, event: Event, names: dict[str, str]) -> None:
        """Add an event; `names`: {NID: node}."""
        before = self._events.get(event.id)
        self._events[event.id] = event if before is None else merge_copies(before, event)
        self.names.update(names)

    def sort_events(self, last: int | None = None, is_reversed: bool = False) -> list[Event]:
        """The events by time; only the `last` of them; the newest first if `is_reversed`."""
        events = sorted(self._events.values(), key=lambda event: (event.time, event.node, event.id))
        events = events[-last:] if last is not None else events
        return events[::-1] if is_reversed else events
