"""
The page of jobs: a line for each, by the filters, the order and the words of `iostats jobs`.
"""

from __future__ import annotations

import json
import time

from iostats.base.errors import UsageError
from iostats.base.job_id import jobs_in
from iostats.base.units import count_text, moment_text
from iostats.report import job_fields
from iostats.report.listing import NUMBERS
from iostats.site.job_index import MOST_JOBS, MOST_NAMES, MOST_ROWS
from iostats.web.asking import form_checked
from iostats.web.cells import Heading
from iostats.web.job_cells import job_rows
from iostats.web.layout import heads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.report.listing import Field
    from iostats.web.layout import PageAnswer
    from iostats.web.pages import Visit
    from iostats.web.query import PageQuery

LIMITS = (50, 100, 500, 1000, 5000, 10_000)
_DEFAULT_LIMIT = 100
# Field, and the least screen that has it (cells.Heading).  What is asked for most stands first: on
# a tablet the last ones are scrolled to.
COLUMNS = (("JobID", 2), ("JobName", 1), ("User", 2), ("State", 2), ("ReadBytes", 2),
           ("WriteBytes", 2), ("Opens", 0), ("Operations", 0), ("NNodes", 1), ("Start", 1),
           ("Elapsed", 1), ("Events", 1), ("FileSystems", 1), ("Note", 0))
_TITLES = {"JobID": "Job", "JobName": "Name", "NNodes": "Nodes", "ReadBytes": "Read",
           "WriteBytes": "Written", "FileSystems": "File systems"}
_FILTERS = ("since", "until", "user", "state", "job", "name", "account", "partition", "cluster",
            "limit", "events", "lost", "runs", "sort")
_MORE = ("name", "account", "partition", "cluster", "limit", "events", "lost", "runs")


def jobs(visit: Visit) -> PageAnswer:
    """The page."""
    q = visit.query
    question, limit = question_of(q, time.time()), q.number("limit", _DEFAULT_LIMIT, LIMITS[-1])
    who = visit.who()
    found, mark = asked(visit, question, limit)
    with form_checked("a job"):
        table = job_rows(found, _fields(), _headings(q, question, who["all"]), visit)
    shown = {name: q.text(name, longest=1 << 15) for name in _FILTERS}
    return visit.page(
        "jobs.html", "Jobs", "jobs", q={**shown, "limit": limit, "values": bool(q.values),
                                        **{name: q.flag(name) for name in ("events", "lost",
                                                                           "runs")}},
        more=any(name in q.values for name in _MORE), states=sorted(job_fields.STATES.values()),
        limits=[(number, f"{number:,}") for number in LIMITS], who=who, rows=table,
        count=len(found), headings=heads(_headings(q, question, who["all"])),
        about=_about(question, len(found), mark is not None, who),
        nothing="Finished jobs are listed once their nodes have reported.",
        first_link=q.link(after=None) if "after" in q.values else "",
        next_link="" if mark is None else q.link(after=json.dumps(mark, separators=(",", ":"))))


def question_of(q: PageQuery, now: float) -> dict[str, Any]:
    """The params of the site server's `jobs`; UsageError."""
    wanted = jobs_in(_job_texts(q.text("job", longest=1 << 14)), "job", MOST_JOBS)
    since, until = q.moments(now, None if wanted else "today")
    sort, descending = job_fields.sort_of(q.text("sort", "-Start"), "sort")
    return {
        "users": q.words("user", MOST_NAMES), "accounts": q.words("account", MOST_NAMES),
        "names": q.listed("name", MOST_NAMES),
        "partitions": q.words("partition", MOST_NAMES), "clusters": q.words("cluster", MOST_NAMES),
        "jobs": wanted, "since": since, "until": until,
        "states": [job_fields.state_of(one, "state") for one in q.words("state", MOST_NAMES)],
        "hit": q.flag("events"), "lost": q.flag("lost"), "all_runs": q.flag("runs"), "sort": sort,
        "descending": descending, "after": _mark(q.text("after", longest=1 << 13))}


def _job_texts(text: str) -> list[str]:
    """[text] of "4711, 100_[1-3,5]": a comma in brackets is part of one."""
    found, depth, word = [], 0, ""
    for c in text + ",":
        depth += (c == "[") - (c == "]")
        if c in ", " and depth <= 0:
            found += [word] if word else []
            word = ""
        else:
            word += c
    return found


def _mark(text: str) -> Any:
    """`after` of the next page; the site's server looks at its form."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("after: expected what the link to the next page has") from None
    return found


def asked(visit: Visit, question: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], Any]:
    """(up to `limit` rows, the mark behind them or None), asked for in parts."""
    found: list[dict[str, Any]] = []
    while True:
        part = min(MOST_ROWS, limit - len(found))
        answer = visit.ask("jobs", {**question, "limit": part})
        with form_checked("a list of jobs"):
            more, mark = answer["jobs"], answer["next"]
            found += more
            if mark is None or len(found) >= limit:
                return found, mark
            if not more:
                raise ValueError("no other jobs, but more are announced")
        question = {**question, "after": mark}


def _headings(q: PageQuery, question: dict[str, Any], all_users: bool) -> list[Heading]:
    found = []
    for name, keep in COLUMNS:
        field = job_fields.field_of(name, "a column")
        is_number = field.kind in NUMBERS
        link, order = "", ""
        if field.kind != "note":
            link, order = q.sort_link(field, question["sort"], question["descending"], is_number)
        if field.name == "user" and not all_users:
            keep = 0                                # it is the same in all rows
        found.append(Heading(_TITLES.get(name, name), field.help, link, order, is_number, keep))
    return found


def plain_headings() -> list[Heading]:
    """Those of a list that is not sorted by links."""
    fields = [(job_fields.field_of(name, "a column"), name, keep) for name, keep in COLUMNS]
    return [Heading(_TITLES.get(name, name), field.help, "", "", field.kind in NUMBERS, keep)
            for field, name, keep in fields]


def table_of(found: list[dict[str, Any]], visit: Visit) -> str:
    """The rows of such a list."""
    return job_rows(found, _fields(), plain_headings(), visit)


def _fields() -> list[Field]:
    return [job_fields.field_of(name, "a column") for name, _ in COLUMNS]


def _about(question: dict[str, Any], count: int, more: bool, who: dict[str, Any]) -> str:
    """The line above the table."""
    column = next(one.column for one in job_fields.FIELDS if one.name == question["sort"])
    words = [f"{'The first ' if more else ''}{count_text(count, 'job')}"]
    if not who["all"]:
        words[0] += f" of {who['user']}"
    since, until = question["since"], question["until"]
    if since is not None:
        words.append(f"that ran since {moment_text(since)}")
    if until is not None:
        words.append(f"until {moment_text(until)}")
    down = question["descending"]
    order = {"time": ("latest", "earliest"), "text": ("last", "first")}.get(
        next(one.kind for one in job_fields.FIELDS if one.name == question["sort"]),
        ("largest", "smallest"))[not down]
    words.append(f"by {_TITLES.get(column, column).lower()}, the {order} first")
    return ", ".join(words[:1]) + " " + ", ".join(words[1:]) + "."
