"""
An event: one thing that went wrong, or was over, on one machine.

    {"id": "8c1d0f3a5be2a417", "time": 1795333379.2, "last": 1795333379.9, "over": null,
     "severity": 2, "kind": "evicted", "cause": "silent", "node": "oss1", "file_system": "scratch",
     "target": "scratch-OST0003", "clients": ["10.9.0.11@o2ib2"], "count": 1, "skipped": 0,
     "message": "scratch-OST0003: haven't heard from client ..."}

The id depends on the event alone, not on its reporter: two readers of the same log, and a
restarted reader, give the same event the same id.  An event can grow: later copies of it have a
larger count, a later end.  So events are stored by their id, and `latest` has the newest of each.
"""

from __future__ import annotations

from hashlib import blake2b

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.events.kinds import CAUSES, KINDS, SEVERITIES
from iostats.lustre.kernel_log import EVICTED, OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Event(NamedTuple):
    """
    Something that went wrong on a node or a storage server, with its kind, target and time.

    Attributes:
        id: 16 hexadecimal digits.
        time, last: of the first and the last of what is folded into it, s since 1970.
        over: when it was over: connected again, recovered, healthy; None if unknown.
        severity: 0 to 3, an index of kinds.SEVERITIES.
        kind: one of kinds.KINDS.
        cause: one of kinds.CAUSES.  Of `evicted`, "" where a client reports its own eviction; from
            a storage server "silent", "lock", "administrator", "recovery", or "unknown", if
            evictions were only counted.  Of other kinds "".
        node: the machine that reported it.
        file_system, target: "scratch", "scratch-OST0003"; "" where it is of none, or of several.
        clients: tuple of up to 8 NIDs, or names of nodes, that it is about; none where that is the
            machine that tells.
        count: how many it is: clients evicted, lines of the log lost; 1 or more.
        skipped: how many more like it, at any target, the kernel counted and did not print.
        message: one line of up to 500 characters, fit for a terminal.
    """

    id: str
    time: float
    last: float
    over: float | None
    severity: int
    kind: str
    cause: str
    node: str
    file_system: str
    target: str
    clients: tuple[str, ...]
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    skipped: int
    message: str


MOST_CLIENTS = 8
LONGEST_MESSAGE = 500
SAME_MOMENT_S = 2.0                     # of one line, read twice
_LONGEST = {"id": 16, "kind": 40, "cause": 40, "node": 255, "file_system": 64, "target": 128,
            "message": LONGEST_MESSAGE}
_LONGEST_CLIENT = 255
_MOST = 2**53                           # of counts, and of times: what all readers of JSON keep
_HEX = frozenset("0123456789abcdef")


def make_event_id(*parts: str) -> str:
    """
    The id of an event, from `parts`: the machine's boot id, then the texts that identify it.

    >>> make_event_id("a-boot", "evicted", "scratch-OST0003", "75")
    'cec9df2eb3fc23b6'
    """
    text = "\0".join(part.replace("\0", "\0\0") for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def make_event(boot_id: str, node: str, origin: Iterable[str], kind: str, time: float, *,
               last: float | None = None, over: float | None = None, cause: str = "",
               file_system: str = "", target: str = "", clients: Iterable[str] = (), count: int = 1,
               skipped: int = 0, message: str = "") -> Event:
    """
    A new Event with the defaults of its kind, and texts that are bounded and safe for a terminal.

    `origin` names it among those of this boot, and is the same after a restart: no clock of this
    machine and no count that grows may be in it.
    """
    return Event(make_event_id(boot_id, *origin), time, max(time, time if last is None else last),
                 over,
                 KINDS[kind].severity, kind, cause, _shorten(node, "node"),
                 _shorten(file_system, "file_system"), _shorten(target, "target"),
                 _drop_duplicates(sanitize(name)[:_LONGEST_CLIENT] for name in clients),
                 count, skipped, _shorten(message, "message"))


def as_json(event: Event) -> dict[str, object]:
    """The dict that from_json() takes."""
    members: dict[str, object] = event._asdict()
    members["clients"] = list(event.clients)
    return members


def from_json(value: object) -> Event:
    """
    The Event in a decoded JSON value; ValueError with a line on the problem.

    Keys that an event has not are passed over.  A kind, or a cause, that this release does not
    know is "other", or "": its severity and its message are the sender's.
    """
    if not isinstance(value, dict):
        raise ValueError(f"an event: expected an object, got {_format_value(value)}")
    missing = [name for name in Event._fields if name not in value]
    if missing:
        raise ValueError(
            f"an event: expected {missing[0]!r} in it, got {_format_value(list(value))}")
    texts = {name: _check_text(value[name], name, longest) for name, longest in _LONGEST.items()}
    if len(texts["id"]) != 16 or not set(texts["id"]) <= _HEX:
        raise ValueError(f"an event: id: expected 16 digits of 0-9 and a-f, got "
                         f"{_format_value(value['id'])}")
    clients = value["clients"]
    if not isinstance(clients, (list, tuple)) or len(clients) > MOST_CLIENTS:
        raise ValueError(f"an event: clients: expected up to {MOST_CLIENTS} names, got "
                         f"{_format_value(clients)}")
    if texts["kind"] not in KINDS:
        texts["kind"] = OTHER
    if texts["cause"] not in CAUSES:
        texts["cause"] = ""
    time, last = _check_time(value["time"], "time"), _check_time(value["last"], "last")
    return Event(
        texts["id"], time, max(time, last),
        None if value["over"] is None else _check_time(value["over"], "over"),
        _count(value["severity"], "severity", 0, len(SEVERITIES) - 1), texts["kind"],
        texts["cause"], texts["node"], texts["file_system"], texts["target"],
        _drop_duplicates(_check_text(name, "clients", _LONGEST_CLIENT) for name in clients),
        _count(value["count"], "count", 1, _MOST), _count(value["skipped"], "skipped", 0, _MOST),
        texts["message"])


def merge_copies(a: Event, b: Event) -> Event:
    """
    Two copies of one event merged; the result does not depend on their order.

    ValueError where they are two events.
    """
    if a.id != b.id:
        raise ValueError(f"two events: {a.id} and {b.id}")
    if _make_information_key(b) > _make_information_key(a):
        a, b = b, a
    ends = [event.over for event in (a, b) if event.over is not None]
    return a._replace(
        time=min(a.time, b.time), last=max(a.last, b.last), over=max(ends) if ends else None,
        severity=max(a.severity, b.severity), cause=a.cause or b.cause,
        file_system=a.file_system or b.file_system, target=a.target or b.target,
        clients=_drop_duplicates((*a.clients, *b.clients)),
        count=max(a.count, b.count), skipped=max(a.skipped, b.skipped))


def merge_copy(stored: Event | None, copy: Event) -> Event:
    """Return the event with the new information of a copy; `stored`, the same object, without any.

    A line of the kernel log that is read again after a restart gets a slightly different time, so a
    difference of less than SAME_MOMENT_S adds nothing.
    """
    if stored is None:
        return copy
    merged = merge_copies(stored, copy)
    changed = stored[4:] != merged[4:] or (stored.over is None) != (merged.over is None) or any(
        abs(a - b) >= SAME_MOMENT_S for a, b in (
            (stored.time, merged.time), (stored.last, merged.last),
            (stored.over or 0.0, merged.over or 0.0)))
    return merged if changed else stored


def _make_information_key(event: Event) -> tuple[object, ...]:
    """A sort key for the information in a copy; no two different copies compare as equal."""
    return (event.over is not None, event.count, event.last, event.skipped, len(event.clients),
            -event.time, event[4:])


def describe_event(event: Event, names: dict[str, str] | None = None, utc: bool = False,
                   with_node: bool = True) -> str:
    """
    The event as a line: time, severity, node, kind, target, count, clients, duration, and Lustre's
    message.

    `names`: {NID: node}, for the clients.  `utc`: the time in UTC, else local.

        2026-11-22 07:42:59 critical oss1 evicted scratch-OST0003 node12 (silent): MESSAGE
    """
    from datetime import datetime, timezone  # not for a node that only sends them

    try:
        when = f"{datetime.fromtimestamp(event.time, timezone.utc if utc else None):%F %T}"
    except (ValueError, OverflowError, OSError):        # after the year 9999
        when = "-"
    head = [when, SEVERITIES[event.severity], *([event.node or "-"] if with_node else ())]
    return f"{' '.join(head)} {format_event(event, names)}"


def format_event(event: Event, names: dict[str, str] | None = None,
                 room: int | None = None) -> str:
    """
    The event as text without time, severity and node, and without the target if Lustre's message
    begins with it.  In `room` characters: so few clients that all before the message fits, if it
    can, and of the message's front the target's device is left out as well.

        evicted scratch-OST0003 23x node12,node13,+21 (silent, over after 43 s): MESSAGE
    """
    fewest = 0 if event.count > 1 else 1
    for max_clients in range(MOST_CLIENTS, fewest - 1, -1):
        text = _describe(event, names or {}, max_clients)
        if room is None or len(text) < room:
            break
    message = event.message
    place = event.target or event.file_system
    if place and message.startswith(place):
        device, colon, detail = message.partition(": ")
        if colon and (device == place or (room is not None and " " not in device)):
            message = detail
    return text + (f": {message}" if message else "")


def _describe(event: Event, names: dict[str, str], max_clients: int) -> str:
    parts = [event.kind]
    if event.target or event.file_system:
        parts.append(event.target or event.file_system)
    clients = describe_clients(event, names, max_clients)
    if event.count > 1:
        parts.append(f"{event.count:,}x")
    notes = [event.cause] if event.cause else []
    if event.over is not None:
        notes.append(f"over after {max(0, round(event.over - event.time))} s")
    if event.skipped:
        notes.append(f"{event.skipped:,} more not logged")
    return " ".join([*parts, *([clients] if clients else ()),
                     *([f"({', '.join(notes)})"] if notes else ())])


def describe_clients(event: Event, names: dict[str, str] | None = None,
                     max_clients: int = MOST_CLIENTS) -> str:
    """
    Format clients as "node11,node12,+35", up to `max_clients` of them by name; "" where an event
    names none.
    """
    shown = list(dict.fromkeys((names or {}).get(nid, nid) for nid in event.clients))
    # Only of evictions is the count one of clients.
    more = max(0, event.count - len(event.clients)) if event.kind == EVICTED else 0
    more += max(0, len(shown) - max_clients)
    return ",".join(shown[:max_clients]) + (f",+{more:,}" if shown and more and max_clients else "")


def _drop_duplicates(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MOST_CLIENTS]


def _shorten(text: str, name: str) -> str:
    return sanitize(text)[:_LONGEST[name]]


def _format_value(value: object) -> str:
    text = sanitize(repr(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _check_text(value: object, name: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"an event: {name}: expected a text of up to {longest} characters, got "
                         f"{_format_value(value)}")
    return value if value.isprintable() else sanitize(value)[:longest]


def _check_time(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST:
        raise ValueError(
            f"an event: {name}: expected seconds since 1970, got {_format_value(value)}")
    return float(value)


def _count(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"an event: {name}: expected a number from {low} to {high}, got "
                         f"{_format_value(value)}")
    return value
