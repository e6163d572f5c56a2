"""
The page of events: what went wrong, when and where, by the filters of `iostats events`.
"""

from __future__ import annotations

import time

from markupsafe import Markup

from iostats.base.errors import UsageError, one_line
from iostats.base.job_id import checked_batch_job
from iostats.base.units import count_text, moment_text
from iostats.events.event import from_json, what_in_words
from iostats.events.kinds import KINDS, SEVERITIES, severity_of
from iostats.web.asking import form_checked
from iostats.web.cells import Heading, linked, named, rows
from iostats.web.layout import heads
from iostats.web.nodes_page import node_names
from iostats.web.query import address, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.event import Event
    from iostats.web.layout import PageAnswer
    from iostats.web.pages import Visit
    from iostats.web.query import PageQuery

LIMITS = (50, 100, 500, 1000, 5000)
_AROUND_S = 1800
_MOST_NAMES = 1_000                 # of events.questions
_HEADINGS = (
    Heading("Time", "when it began, by the clock of the machine that reports it"),
    Heading("Severity", "info, warning, critical or fatal"),
    Heading("Reported by", "the storage server or node that reports it", keep=1),
    Heading("Kind", "what happened"),
    Heading("Target", "the OST or MDT, or the file system", keep=1),
    Heading("What", "how many, which clients, for how long, and what Lustre said", wraps=True))
_CLASSES = ("", "warn", "bad", "bad")


def events(visit: Visit) -> PageAnswer:
    """The page."""
    q, who = visit.query, visit.who()
    limit = q.number("limit", 100, LIMITS[-1])
    question = question_of(q, time.time(), limit)
    answer = visit.ask("events", question)
    with form_checked("an event"):
        found = [_with_names(one) for one in answer["events"]]
        found.sort(key=lambda one: (-one[0].time, one[0].node, one[0].id))
        table = rows(_HEADINGS, [_cells(event, names, visit) for event, names in found])
        of_user, dropped = answer.get("of_user", ""), answer["dropped"]
    notes = []
    if of_user:
        notes.append(f"{of_user} sees events of targets, and with a job's number in Job above, "
                     f"events of the nodes of {of_user}'s own job.")
    if dropped:
        notes.append(f"{dropped:,} events of this time were dropped for lack of room.")
    older = ""
    if len(found) == limit:
        older = q.link(until=f"uts{int(found[-1][0].time)}")
    kinds = sorted({event.kind for event, _ in found})
    return visit.page(
        "events.html", "Events", "events", who=who, rows=table, count=len(found),
        headings=heads(_HEADINGS), notes=notes, older=older, limits=[
            (one, f"{one:,}") for one in LIMITS],
        severities=list(enumerate(SEVERITIES)), kinds=[("", "any")] + [(one, one) for one in KINDS],
        meanings=[(one, KINDS[one].meaning, KINDS[one].what_to_do) for one in kinds],
        about=_about(question, len(found)), q={
            **{name: q.text(name, longest=20_000) for name in (
                "since", "until", "fs", "node", "job", "target")},
            "severity": question["severity"], "kind": ",".join(question["kinds"]),
            "limit": limit, "values": bool(q.values)})


def question_of(q: PageQuery, now: float, limit: int) -> dict[str, Any]:
    """The params of the site server's `events`; UsageError."""
    job = q.text("job")
    since, until = q.moments(now, None if job else "now-1day")
    kinds = q.words("kind", _MOST_NAMES)
    for one in kinds:
        if one not in KINDS:
            raise UsageError(f"kind: expected some of {' '.join(KINDS)}, got {one[:40]!r}")
    return {"since": since, "until": until,
            "severity": severity_of(q.text("severity", "0"), "severity"),
            "file_systems": q.words("fs", _MOST_NAMES), "kinds": kinds,
            "targets": q.words("target", _MOST_NAMES), "nodes": node_names(q, "node"),
            "job": checked_batch_job(job, "job") if job else "", "last": limit}


def _with_names(one: dict[str, Any]) -> tuple[Event, dict[str, str]]:
    """(Event, {NID: node})."""
    event = from_json(one)
    return event, dict(zip(event.clients, map(one_line, one.get("clients_names", ()))))


def _cells(event: Event, names: dict[str, str], visit: Visit) -> list[str]:
    base, q = visit.base, visit.query
    where = event.target or event.file_system
    words = what_in_words(event._replace(target="", file_system=""), names)
    words = words.removeprefix(event.kind).removeprefix(":").strip()
    severity = SEVERITIES[event.severity]
    to = q.link(fs=event.file_system) if event.file_system else ""
    return [
        Markup('<time datetime="%s">%s</time>') % (moment_text(event.time).replace(" ", "T"),
                                                   moment_text(event.time)),
        Markup('<span class="%s">%s</span>') % (_CLASSES[event.severity], severity),
        linked(event.node or "-", q.link(node=event.node), 32),
        linked(event.kind, q.link(kind=event.kind)),
        (linked(where, to, 32) if to else named(where, 32)) if where else Markup("-"),
        named(words or "-", 400) + _load_link(event, base)]


def _load_link(event: Event, base: str) -> Markup:
    """To what the file system did around it."""
    if not event.file_system:
        return Markup("")
    return Markup(' <a class="aside" href="%s">load<span class="hidden"> of %s then</span></a>') % (
        address(f"{base}/fs/{segment(event.file_system)}",
                since=f"uts{max(0, int(event.time) - _AROUND_S)}",
                until=f"uts{int(event.time) + _AROUND_S}"), event.file_system)


def _about(question: dict[str, Any], count: int) -> str:
    words = [f"{count_text(count, 'event')}, the latest first"]
    if question["since"] is not None:
        words.append(f"since {moment_text(question['since'])}")
    if question["until"] is not None:
        words.append(f"until {moment_text(question['until'])}")
    if question["job"]:
        words.append(f"that happened to job {question['job']}")
    return ", ".join(words) + "."
