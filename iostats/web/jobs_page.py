"""
The page of jobs: a line for each, with the filters, the order and the words of `iostats jobs`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup

from iostats.base.errors import UsageError
from iostats.base.job_id import expand_jobs
from iostats.base.units import format_count, format_moment
from iostats.report import job_fields, job_list
from iostats.report.listing import NumberForm
from iostats.report.site_methods import JOBS
from iostats.store.job_index import JobsParams
from iostats.totals.kinds import KINDS, LUSTRE_KIND
from iostats.web.cells import format_link, format_name, format_rows, make_headings, shorten
from iostats.web.query import make_address, quote_segment
from iostats.web.site_calls import check_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response

    from iostats.report.job_fields import JobMark, ListedJob
    from iostats.report.listing import Field
    from iostats.report.site_methods import Rights
    from iostats.web.cells import Heading
    from iostats.web.pages import Visit
    from iostats.web.query import PageQuery

LIMITS = (50, 100, 500)
_DEFAULT_LIMIT = 100
# Field, and the screens that show it (cells.Heading.keep).  The most important ones are first: on
# a tablet the last ones have to be scrolled to.
_BEFORE = (("JobID", 2), ("JobName", 1), ("User", 2), ("State", 2))
_BEHIND = (("NNodes", 1), ("Start", 1), ("Elapsed", 1), ("Events", 1), ("FileSystems", 1),
           ("Note", 0))
_TITLES = {"JobID": "Job", "JobName": "Name", "NNodes": "Nodes", "ReadBytes": "Read",
           "WriteBytes": "Written", "FileSystems": "File systems",
           **{name: f"{done} {kind.title}" for kind in KINDS
              for name, done in zip(job_fields.OF_KIND[kind.name], ("Read from", "Written to"))}}
_FILTERS = ("since", "until", "user", "state", "job", "name", "account", "partition", "cluster",
            "fs_type", "limit", "events", "lost", "runs", "sort")
_STATES = {"COMPLETED": "good", "RUNNING": "good", "FAILED": "bad", "OUT_OF_MEMORY": "bad",
           "NODE_FAIL": "bad", "BOOT_FAIL": "bad", "TIMEOUT": "warn", "CANCELLED": "warn",
           "PREEMPTED": "warn", "DEADLINE": "warn", "REQUEUED": "warn"}
_USER, _NAME, _FILE_SYSTEM = 24, 32, 24         # characters of these
_MOST_FILE_SYSTEMS = 6
_MORE = ("name", "account", "partition", "cluster", "fs_type", "limit", "events", "lost", "runs")
_TYPES = (("", "any"), *((kind.name, kind.title) for kind in (LUSTRE_KIND, *KINDS)))


def _select_columns(kinds: Sequence[str] = ()) -> list[tuple[str, int]]:
    """The columns of a list of the jobs that used file systems of `kinds`."""
    return [*_BEFORE, *((name, 2 if name.endswith("Bytes") else 0)
                        for name in job_fields.find_fields_of_kinds(kinds)), *_BEHIND]


COLUMNS = _select_columns()


def jobs_page(visit: Visit) -> Response:
    """The page of /jobs."""
    q = visit.query
    params, limit = make_params(q, time.time()), q.number("limit", _DEFAULT_LIMIT, LIMITS[-1])
    rights, columns = visit.rights(), _select_columns(params.used)
    params.limit = limit
    answer = visit.ask(JOBS, msgspec.structs.asdict(params))
    with check_format("a list of jobs"):
        job_rows, mark = answer["jobs"], answer["next"]
    headings = make_headings(
        [(name, 0 if name == "User" and not rights["all"] else keep) for name, keep in columns],
        job_fields.find_field, _TITLES, q, (params.sort, params.descending),
        [field.name for field in job_fields.FIELDS if field.kind != "note"])
    with check_format("a job"):
        table = _format_rows(job_rows, headings, visit, columns)
    shown = {name: q.text(name, max_length=1 << 15) for name in _FILTERS}
    return visit.page(
        "jobs.html", "Jobs", "jobs", q={**shown, "limit": limit, "values": bool(q.values),
                                        **{name: q.flag(name) for name in ("events", "lost",
                                                                           "runs")}},
        more=any(name in q.values for name in _MORE), states=sorted(job_fields.STATES.values()),
        limits=[(number, f"{number:,}") for number in LIMITS], types=_TYPES,
        rights=rights, rows=table,
        count=len(job_rows), headings=headings,
        about=_describe(params, len(job_rows), mark is not None, rights),
        nothing="Finished jobs are listed once their nodes have reported.",
        first_link=q.link(after=None) if "after" in q.values else "",
        next_link="" if mark is None else q.link(after=format_mark(mark)))


def make_params(q: PageQuery, now: float) -> JobsParams:
    """The params of the site server's `jobs`; UsageError."""
    job_ids = expand_jobs(_split_jobs(q.text("job", max_length=1 << 14)), "job",
                          job_fields.MOST_JOBS)
    since, until = q.moments(now, None if job_ids else "today")
    sort, descending = job_fields.parse_sort(q.text("sort", "-Start"), "sort")
    return JobsParams(
        users=q.split_words("user", job_fields.MOST_NAMES),
        accounts=q.split_words("account", job_fields.MOST_NAMES),
        names=q.split_by_commas("name", job_fields.MOST_NAMES),
        partitions=q.split_words("partition", job_fields.MOST_NAMES),
        clusters=q.split_words("cluster", job_fields.MOST_NAMES), jobs=job_ids, since=since,
        until=until,
        states=[job_fields.parse_state(state, "state")
                for state in q.split_words("state", job_fields.MOST_NAMES)],
        used=q.split_words("fs_type", len(_TYPES)), hit=q.flag("events"), lost=q.flag("lost"),
        all_runs=q.flag("runs"), sort=sort, descending=descending,
        after=_parse_mark(q.text("after", max_length=1 << 13)))


def _split_jobs(text: str) -> list[str]:
    """Return [text] of "4711, 100_[1-3,5]": a comma in brackets does not separate."""
    texts, depth, word = [], 0, ""
    for c in text + ",":
        depth += (c == "[") - (c == "]")
        if c in ", " and depth <= 0:
            texts += [word] if word else []
            word = ""
        else:
            word += c
    return texts


def _parse_mark(text: str) -> JobMark | None:
    """Return `after` of the next page; the site's server checks its form."""
    if not text:
        return None
    try:
        mark: JobMark = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("after: expected the value in the link to the next page") from None
    return mark


def format_mark(mark: JobMark) -> str:
    """Return `after` of the next page."""
    return json.dumps(mark, separators=(",", ":"))


def make_plain_headings() -> list[Heading]:
    """The headings of a list without links for sorting."""
    return make_headings(COLUMNS, job_fields.find_field, _TITLES)


def format_table(job_rows: list[ListedJob], visit: Visit) -> Markup:
    """The rows of a list without links for sorting."""
    return _format_rows(job_rows, make_plain_headings(), visit)


def _format_rows(job_rows: Iterable[ListedJob], headings: list[Heading],
                 visit: Visit, columns: Sequence[tuple[str, int]] = COLUMNS) -> Markup:
    fields = [job_fields.find_field(name, "a column") for name, _ in columns]
    form = NumberForm(visit.units)
    return format_rows(headings, ([_format_cell(row, field, form, visit) for field in fields]
                                  for row in job_rows))


def _format_cell(row: ListedJob, field: Field, form: NumberForm, visit: Visit) -> Markup:
    """A cell of `iostats jobs`, with its links."""
    text, name, base = job_list.format_cell(row, field, form), field.name, visit.base
    if name == "job_id":
        job = quote_segment(row["raw_job_id"] or row["job_id"])
        return format_link(text, make_address(f"{base}/job/{job}", cluster=row["cluster"],
                                              run=row["attempt"] or None))
    if name == "user" and row["user"]:
        return format_link(text, visit.query.link(user=row["user"], after=None), _USER)
    if name == "name":
        return format_name(text, _NAME)
    if name == "outcome":
        return Markup('<span class="%s">%s</span>') % (
            _STATES.get(row["outcome"], "other"), shorten(text).replace("_", Markup("_<wbr>")))
    if name == "file_systems" and row["file_systems"]:
        return Markup(", ").join(
            format_link(visit.labels.get(fs, fs), f"{base}/fs/{quote_segment(fs)}", _FILE_SYSTEM)
            for fs in row["file_systems"][:_MOST_FILE_SYSTEMS])
    if name == "events" and row.get("events"):
        return format_link(text, make_address(f"{base}/events", job=row["job_id"]))
    if name == "started" and row["started"] is not None:
        return shorten(format_moment(row["started"])[:16])
    return shorten(text)


def _describe(params: JobsParams, count: int, more: bool, rights: Rights) -> str:
    """Describe the list in a line above its table."""
    column = next(field.column for field in job_fields.FIELDS if field.name == params.sort)
    words = [f"{'The first ' if more else ''}{format_count(count, 'job')}"]
    if not rights["all"]:
        words[0] += f" of {rights['user']}"
    since, until = params.since, params.until
    if since is not None:
        words.append(f"that ran since {format_moment(since)}")
    if until is not None:
        words.append(f"until {format_moment(until)}")
    down = params.descending
    order = {"time": ("latest", "earliest"), "text": ("last", "first")}.get(
        next(field.kind for field in job_fields.FIELDS if field.name == params.sort),
        ("largest", "smallest"))[not down]
    words.append(f"by {_TITLES.get(column, column).lower()}, the {order} first")
    return ", ".join(words[:1]) + " " + ", ".join(words[1:]) + "."
