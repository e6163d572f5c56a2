"""
The page of events: what went wrong, when and where, with the filters of `iostats events`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup

from iostats.base.errors import UsageError, sanitize
from iostats.base.job_id import check_batch_job
from iostats.base.units import format_count, format_moment
from iostats.events.event import format_event, from_json
from iostats.events.kinds import KINDS, SEVERITIES, parse_severity
from iostats.harvest.events.event_filter import EventsParams
from iostats.web.cells import Heading, format_link, format_name, format_rows
from iostats.web.nodes_page import parse_node_names
from iostats.web.query import make_address, quote_segment
from iostats.web.site_calls import check_format
from iostats.wire.protocol import EVENTS

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response

    from iostats.events.event import Event
    from iostats.web.pages import Visit
    from iostats.web.query import PageQuery

LIMITS = (50, 100, 500, 1000, 5000)
_AROUND_S = 1800
_MAX_NAMES = 1_000              # of events.questions
_HEADINGS = (
    Heading("Time", "when it began, by the clock of the machine that reports it"),
    Heading("Severity", "info, warning, critical or fatal"),
    Heading("Reported by", "the storage server or node that reports it", keep=1),
    Heading("Kind", "the kind of event"),
    Heading("Target", "the OST or MDT, or the file system", keep=1),
    Heading("What", "the count, the clients, the duration, and Lustre's message", wraps=True))
_CLASSES = ("", "warn", "bad", "bad")


def events_page(visit: Visit) -> Response:
    """The page of /events."""
    q, rights = visit.query, visit.rights()
    limit = q.number("limit", 100, LIMITS[-1])
    params = make_params(q, time.time(), limit)
    answer = visit.ask(EVENTS, msgspec.structs.asdict(params))
    with check_format("an event"):
        decoded = [_decode_event(item) for item in answer["events"]]
        decoded.sort(key=lambda item: (-item[0].time, item[0].node, item[0].id))
        table = format_rows(_HEADINGS,
                            [_make_cells(event, names, visit) for event, names in decoded])
        of_user, dropped = answer.get("of_user", ""), answer["dropped"]
    notes = []
    if of_user:
        notes.append(f"{of_user} sees events of targets, and with an own job's number in Job "
                     f"above, "
                     f"events of that job's nodes.")
    if dropped:
        notes.append(f"{dropped:,} events of this period were dropped for lack of space.")
    older = ""
    if len(decoded) == limit:
        older = q.link(until=f"uts{int(decoded[-1][0].time)}")
    kinds = sorted({event.kind for event, _ in decoded})
    return visit.page(
        "events.html", "Events", "events", rights=rights, rows=table, count=len(decoded),
        headings=_HEADINGS, notes=notes, older=older, limits=[
            (item, f"{item:,}") for item in LIMITS],
        severities=list(enumerate(SEVERITIES)), kinds=[("", "any")]
        + [(item, item) for item in KINDS],
        meanings=[(item, KINDS[item].meaning, KINDS[item].what_to_do) for item in kinds],
        about=_describe(params, len(decoded)), q={
            **{name: q.text(name, max_length=20_000) for name in (
                "since", "until", "fs", "node", "job", "target")},
            "severity": params.severity, "kind": ",".join(params.kinds),
            "limit": limit, "values": bool(q.values)})


def make_params(q: PageQuery, now: float, limit: int) -> EventsParams:
    """The params of the site server's `events`; UsageError."""
    job = q.text("job")
    since, until = q.moments(now, None if job else "now-1day")
    kinds = q.split_words("kind", _MAX_NAMES)
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"kind: expected some of {' '.join(KINDS)}, got {kind[:40]!r}")
    return EventsParams(
        since=since, until=until, severity=parse_severity(q.text("severity", "0"), "severity"),
        file_systems=q.split_words("fs", _MAX_NAMES), kinds=kinds,
        targets=q.split_words("target", _MAX_NAMES), nodes=parse_node_names(q, "node"),
        job=check_batch_job(job, "job") if job else "", last=limit)


def _decode_event(form: dict[str, Any]) -> tuple[Event, dict[str, str]]:
    """Return (Event, {NID: node})."""
    event = from_json(form)
    return event, dict(zip(event.clients, map(sanitize, form.get("clients_names", ()))))


def _make_cells(event: Event, names: dict[str, str], visit: Visit) -> list[str]:
    base, q = visit.base, visit.query
    where = event.target or event.file_system
    words = format_event(event._replace(target="", file_system=""), names)
    words = words.removeprefix(event.kind).removeprefix(":").strip()
    severity = SEVERITIES[event.severity]
    to = q.link(fs=event.file_system) if event.file_system else ""
    return [
        Markup('<time datetime="%s">%s</time>') % (format_moment(event.time).replace(" ", "T"),
                                                   format_moment(event.time)),
        Markup('<span class="%s">%s</span>') % (_CLASSES[event.severity], severity),
        format_link(event.node or "-", q.link(node=event.node), 32),
        format_link(event.kind, q.link(kind=event.kind)),
        (format_link(where, to, 32) if to else format_name(where, 32)) if where else Markup("-"),
        format_name(words or "-", 400) + _make_load_link(event, base)]


def _make_load_link(event: Event, base: str) -> Markup:
    """A link to the file system's load around an event."""
    if not event.file_system:
        return Markup("")
    return Markup(' <a class="aside" href="%s">load<span class="hidden"> of %s then</span></a>') % (
        make_address(f"{base}/fs/{quote_segment(event.file_system)}",
                     since=f"uts{max(0, int(event.time) - _AROUND_S)}",
                     until=f"uts{int(event.time) + _AROUND_S}"), event.file_system)


def _describe(params: EventsParams, count: int) -> str:
    words = [f"{format_count(count, 'event')}, the latest first"]
    if params.since is not None:
        words.append(f"since {format_moment(params.since)}")
    if params.until is not None:
        words.append(f"until {format_moment(params.until)}")
    if params.job:
        words.append(f"during job {params.job}")
    return ", ".join(words) + "."
