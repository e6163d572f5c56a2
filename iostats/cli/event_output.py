"""
Events as `iostats events` prints them: a line each, in the habits of journalctl, or JSON.

    Nov 22 12:03:11 crit  oss1      scratch-OST0003: evicted nid00007 (silent for 107 s)
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, namedtuple

from iostats.base.errors import one_line
from iostats.base.text import cut, padded, width_of
from iostats.events.event import as_json, latest, what_in_words
from iostats.events.kinds import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iostats.events.event import Event

NO_EVENTS = "-- No events --\n"
MOST_SEEN = 100_000                 # events that are remembered, to show none twice
_SEVERITIES = ("info ", "warn ", "crit ", "FATAL")
_COLOURS = ("", "\x1b[33m", "\x1b[31m", "\x1b[1;31m")    # none, yellow, red, bold red
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_OTHER_YEAR_S = 300 * 86400         # from here on a date has its year
_NARROWEST_NODE, _WIDEST_NODE = 8, 24
_LONG_NODE = 3                      # a node's column takes up to one part in this of a line

EventForm = namedtuple("EventForm", "is_json is_utc is_explained width colours now")
EventForm.__doc__ = """
How events are printed.

Attributes:
    is_json: an object a line.
    is_utc: times in UTC.
    is_explained: behind the first event of a kind, what it means.
    width: of a line; None: as long as it is.
    colours: with escape sequences of ECMA-48.
    now: s since 1970.
"""


class JournalLines:
    """The lines of events, in the order in which they are given."""

    def __init__(self, form: EventForm) -> None:
        self._form = form
        self._node_width = _NARROWEST_NODE
        self._widest = _WIDEST_NODE if form.width is None else min(
            _WIDEST_NODE, form.width // _LONG_NODE)
        self._explained: set[str] = set()

    def lines(self, event: Event, names: dict[str, str], is_update: bool = False) -> Iterator[str]:
        """The lines of one event, each with its end; `names`: {NID: node}."""
        if self._form.is_json:
            found = {**as_json(event), "clients_names": [names.get(one, one)
                                                         for one in event.clients],
                     "is_update": is_update}
            yield json.dumps(found, separators=(",", ":")) + "\n"
            return
        yield self._line(event, names, is_update) + "\n"
        if self._form.is_explained and event.kind not in self._explained:
            self._explained.add(event.kind)
            kind = KINDS[event.kind]
            for title, text in (("what", kind.meaning), ("why", kind.cause),
                                ("do", kind.what_to_do)):
                yield from self._wrapped(f"    {title + ':':<6}", text)

    def _line(self, event: Event, names: dict[str, str], is_update: bool) -> str:
        at, severity = self._time_text(event.time), _SEVERITIES[event.severity]
        node = one_line(names.get(event.node, event.node))
        self._node_width = max(self._node_width, min(width_of(node), self._widest))
        head = f"{at} {severity} {padded(node, self._node_width)} "
        room = None if self._form.width is None else max(1, self._form.width - width_of(head))
        words = cut(("update: " if is_update else "") + what_in_words(
            event, names, room and room - len("update: ") * is_update), room)
        if not self._form.colours:
            return (head + words).rstrip()
        colour = _COLOURS[event.severity]
        return (f"{_DIM}{at}{_PLAIN} {colour}{severity}{_PLAIN if colour else ''} "
                f"{padded(node, self._node_width)} {colour}{words}{_PLAIN if colour else ''}")

    def _time_text(self, seconds: float) -> str:
        """A time as journalctl prints it; with the year if it is not of the last months."""
        there = time.gmtime(seconds) if self._form.is_utc else time.localtime(seconds)
        if abs(self._form.now - seconds) < _OTHER_YEAR_S:
            return f"{_MONTHS[there.tm_mon - 1]} {time.strftime('%d %H:%M:%S', there)}"
        return time.strftime("%Y-%m-%dT%H:%M:%S", there)

    def _wrapped(self, title: str, text: str) -> Iterator[str]:
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
    Which events were shown: each is shown once, and once more as an update when its count has
    grown, or when it is known that it is over.  Bounded: the oldest are forgotten.
    """

    def __init__(self, shown: Iterable[tuple[str, int, bool]] = ()) -> None:
        """`shown`: what `kept` gave."""
        self._shown: OrderedDict[str, tuple[int, bool]] = OrderedDict(
            (name, (count, is_over)) for name, count, is_over in shown)

    def take(self, event: Event) -> tuple[bool, bool]:
        """(it is to be shown, it is an update) of an event; from now on it is shown."""
        told = (event.count + event.skipped, event.over is not None)
        before = self._shown.get(event.id)
        if before is not None and told[0] <= before[0] and told[1] <= before[1]:
            return False, False
        if before is not None:
            told = (max(told[0], before[0]), told[1] or before[1])
        self._shown[event.id] = told
        self._shown.move_to_end(event.id)
        if len(self._shown) > MOST_SEEN:
            self._shown.popitem(last=False)
        return True, before is not None

    def kept(self, most: int) -> list[tuple[str, int, bool]]:
        """[(id, count, is over)] of the latest ones, for a file."""
        return [(name, *self._shown[name]) for name in list(self._shown)[-most:]]


class MergedEvents:
    """Events of several servers, each once: of two copies what both know."""

    def __init__(self) -> None:
        self._found: dict[str, Event] = {}
        self.names: dict[str, str] = {}

    def add(self, event: Event, names: dict[str, str]) -> None:
        """Take one of them."""
        before = self._found.get(event.id)
        self._found[event.id] = event if before is None else latest(before, event)
        self.names.update(names)

    def in_order(self, last: int | None = None, is_reversed: bool = False) -> list[Event]:
        """By their time; the `last` of them; the newest first."""
        found = sorted(self._found.values(), key=lambda one: (one.time, one.node, one.id))
        found = found[-last:] if last is not None else found
        return found[::-1] if is_reversed else found
