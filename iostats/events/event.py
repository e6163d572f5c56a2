"""
An event: one thing that went wrong, or was over, on one machine.

    {"id": "8c1d0f3a5be2a417", "time": 1795333379.2, "last": 1795333379.9, "over": null,
     "severity": 2, "kind": "evicted", "cause": "silent", "node": "oss1", "file_system": "scratch",
     "target": "scratch-OST0003", "clients": ["10.9.0.11@o2ib2"], "count": 1, "skipped": 0,
     "message": "scratch-OST0003: haven't heard from client ..."}

The id is of what happened, not of who tells: two that read the same log, and one that was
restarted, give the same event the same id.  An event can grow: later copies of it have a larger
count, a later end.  So events are taken by their id, and `latest` keeps what is known of each.
"""

from __future__ import annotations

from collections import namedtuple
from hashlib import blake2b

from iostats.base.errors import one_line
from iostats.events.kinds import CAUSES, KINDS, SEVERITIES
from iostats.lustre.kernel_log import EVICTED, OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Event = namedtuple("Event", "id time last over severity kind cause node file_system target clients "
                            "count skipped message")
Event.__doc__ = """
One event.

Attributes:
    id: 16 hexadecimal digits.
    time, last: of the first and the last of what is folded into it, s since 1970.
    over: when it was over: connected again, recovered, healthy; None where that is not known.
    severity: 0 to 3, an index of kinds.SEVERITIES.
    kind: one of kinds.KINDS.
    cause: one of kinds.CAUSES.  Of `evicted`, "" where a client tells of its own eviction, else a
        storage server tells: "silent", "lock", "administrator", "recovery", or "unknown", where it
        only counted.  Else "".
    node: the machine that tells.
    file_system, target: "scratch", "scratch-OST0003"; "" where it is of none, or of several.
    clients: tuple of up to 8 NIDs, or names of nodes, that it is about; none where that is the
        machine that tells.
    count: how many it is: clients evicted, lines of the log lost; 1 or more.
    skipped: how many more like it, at any target, the kernel counted and did not print.
    message: one line of up to 500 characters, fit for a terminal.
"""

MOST_CLIENTS = 8
LONGEST_MESSAGE = 500
SAME_MOMENT_S = 2.0                     # of one line, read twice
_LONGEST = {"id": 16, "kind": 40, "cause": 40, "node": 255, "file_system": 64, "target": 128,
            "message": LONGEST_MESSAGE}
_LONGEST_CLIENT = 255
_MOST = 2**53                           # of counts, and of times: what all readers of JSON keep
_HEX = frozenset("0123456789abcdef")


def event_id(*parts: str) -> str:
    """
    The id of what `parts` name: the machine's boot id first, then what makes it this event.

    >>> event_id("a-boot", "evicted", "scratch-OST0003", "75")
    'cec9df2eb3fc23b6'
    """
    text = "\0".join(part.replace("\0", "\0\0") for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def made(boot_id: str, node: str, origin: Iterable[str], kind: str, time: float, *,
         last: float | None = None, over: float | None = None, cause: str = "",
         file_system: str = "", target: str = "", clients: Iterable[str] = (), count: int = 1,
         skipped: int = 0, message: str = "") -> Event:
    """
    An Event, with what its kind says of it, and its texts bounded and fit for a terminal.

    `origin` names it among those of this boot, and is the same after a restart: no clock of this
    machine and no count that grows may be in it.
    """
    return Event(event_id(boot_id, *origin), time, max(time, time if last is None else last), over,
                 KINDS[kind].severity, kind, cause, _cut(node, "node"),
                 _cut(file_system, "file_system"), _cut(target, "target"),
                 _distinct(one_line(name)[:_LONGEST_CLIENT] for name in clients),
                 count, skipped, _cut(message, "message"))


def as_json(event: Event) -> dict[str, object]:
    """The dict that from_json() takes."""
    found: dict[str, object] = event._asdict()
    found["clients"] = list(event.clients)
    return found


def from_json(value: object) -> Event:
    """
    The Event in a decoded JSON value; ValueError with one line says what is wrong with it.

    Keys that an event has not are passed over.  A kind, or a cause, that this release does not
    know is "other", or "": its severity and its message are the sender's.
    """
    if not isinstance(value, dict):
        raise ValueError(f"an event: expected an object, got {_shown(value)}")
    missing = [name for name in Event._fields if name not in value]
    if missing:
        raise ValueError(f"an event: expected {missing[0]!r} in it, got {_shown(list(value))}")
    texts = {name: _text(value[name], name, longest) for name, longest in _LONGEST.items()}
    if len(texts["id"]) != 16 or not set(texts["id"]) <= _HEX:
        raise ValueError(f"an event: id: expected 16 digits of 0-9 and a-f, got "
                         f"{_shown(value['id'])}")
    clients = value["clients"]
    if not isinstance(clients, (list, tuple)) or len(clients) > MOST_CLIENTS:
        raise ValueError(f"an event: clients: expected up to {MOST_CLIENTS} names, got "
                         f"{_shown(clients)}")
    if texts["kind"] not in KINDS:
        texts["kind"] = OTHER
    if texts["cause"] not in CAUSES:
        texts["cause"] = ""
    time, last = _time(value["time"], "time"), _time(value["last"], "last")
    return Event(
        texts["id"], time, max(time, last),
        None if value["over"] is None else _time(value["over"], "over"),
        _count(value["severity"], "severity", 0, len(SEVERITIES) - 1), texts["kind"],
        texts["cause"], texts["node"], texts["file_system"], texts["target"],
        _distinct(_text(name, "clients", _LONGEST_CLIENT) for name in clients),
        _count(value["count"], "count", 1, _MOST), _count(value["skipped"], "skipped", 0, _MOST),
        texts["message"])


def latest(a: Event, b: Event) -> Event:
    """
    What two copies of one event know together; in whichever order they come, it is the same.

    ValueError where they are two events.
    """
    if a.id != b.id:
        raise ValueError(f"two events: {a.id} and {b.id}")
    if _knows(b) > _knows(a):
        a, b = b, a
    ends = [one.over for one in (a, b) if one.over is not None]
    return a._replace(
        time=min(a.time, b.time), last=max(a.last, b.last), over=max(ends) if ends else None,
        severity=max(a.severity, b.severity), cause=a.cause or b.cause,
        file_system=a.file_system or b.file_system, target=a.target or b.target,
        clients=_distinct((*a.clients, *b.clients)),
        count=max(a.count, b.count), skipped=max(a.skipped, b.skipped))


def merge_copy(known: Event | None, copy: Event) -> Event:
    """
    The event with what one more copy of it adds: `known`, the same object, if it adds nothing.

    A line of the kernel log that is read again after a restart gets a slightly different time, so a
    difference of less than SAME_MOMENT_S adds nothing.
    """
    if known is None:
        return copy
    merged = latest(known, copy)
    changed = known[4:] != merged[4:] or (known.over is None) != (merged.over is None) or any(
        abs(a - b) >= SAME_MOMENT_S for a, b in (
            (known.time, merged.time), (known.last, merged.last),
            (known.over or 0.0, merged.over or 0.0)))
    return merged if changed else known


def _knows(event: Event) -> tuple[object, ...]:
    """How much a copy knows; no two different copies compare as equal."""
    return (event.over is not None, event.count, event.last, event.skipped, len(event.clients),
            -event.time, event[4:])


def in_words(event: Event, names: dict[str, str] | None = None, utc: bool = False,
             with_node: bool = True) -> str:
    """
    The line that all show: time, severity, node, kind, target, how many, clients, how long, and
    what Lustre said.

    `names`: {NID: node}, for the clients.  `utc`: the time in UTC, else local.

        2026-11-22 07:42:59 critical oss1 evicted scratch-OST0003 node12 (silent): MESSAGE
    """
    from datetime import datetime, timezone             # not for a node that only sends them

    try:
        when = f"{datetime.fromtimestamp(event.time, timezone.utc if utc else None):%F %T}"
    except (ValueError, OverflowError, OSError):        # after the year 9999
        when = "-"
    head = [when, SEVERITIES[event.severity], *([event.node or "-"] if with_node else ())]
    return f"{' '.join(head)} {what_in_words(event, names)}"


def what_in_words(event: Event, names: dict[str, str] | None = None,
                  room: int | None = None) -> str:
    """
    The same without time, severity and node; the target that stands before the message is left out
    of the message's front.  In `room` characters: so few clients that all before the message fits,
    if it can, and of the message's front the target's device is left out as well.

        evicted scratch-OST0003 23x node12,node13,+21 (silent, over after 43 s): MESSAGE
    """
    fewest = 0 if event.count > 1 else 1
    for most in range(MOST_CLIENTS, fewest - 1, -1):
        text = _what(event, names or {}, most)
        if room is None or len(text) < room:
            break
    message = event.message
    place = event.target or event.file_system
    if place and message.startswith(place):
        device, colon, said = message.partition(": ")
        if colon and (device == place or (room is not None and " " not in device)):
            message = said
    return text + (f": {message}" if message else "")


def _what(event: Event, names: dict[str, str], most: int) -> str:
    parts = [event.kind]
    if event.target or event.file_system:
        parts.append(event.target or event.file_system)
    clients = clients_in_words(event, names, most)
    if event.count > 1:
        parts.append(f"{event.count:,}x")
    notes = [event.cause] if event.cause else []
    if event.over is not None:
        notes.append(f"over after {max(0, round(event.over - event.time))} s")
    if event.skipped:
        notes.append(f"{event.skipped:,} more not logged")
    return " ".join([*parts, *([clients] if clients else ()),
                     *([f"({', '.join(notes)})"] if notes else ())])


def clients_in_words(event: Event, names: dict[str, str] | None = None,
                     most: int = MOST_CLIENTS) -> str:
    """"node11,node12,+35", up to `most` of them by name; "" where an event names none."""
    shown = list(dict.fromkeys((names or {}).get(nid, nid) for nid in event.clients))
    # Only of evictions is the count one of clients.
    more = max(0, event.count - len(event.clients)) if event.kind == EVICTED else 0
    more += max(0, len(shown) - most)
    return ",".join(shown[:most]) + (f",+{more:,}" if shown and more and most else "")


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MOST_CLIENTS]


def _cut(text: str, name: str) -> str:
    return one_line(text)[:_LONGEST[name]]


def _shown(value: object) -> str:
    text = one_line(repr(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object, name: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"an event: {name}: expected a text of up to {longest} characters, got "
                         f"{_shown(value)}")
    return value if value.isprintable() else one_line(value)[:longest]


def _time(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST:
        raise ValueError(f"an event: {name}: expected seconds since 1970, got {_shown(value)}")
    return float(value)


def _count(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"an event: {name}: expected a number from {low} to {high}, got "
                         f"{_shown(value)}")
    return value
