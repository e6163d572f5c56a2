"""
The rows of a list of jobs as HTML: 10,000 of them in a fraction of a second.

What comes again and again (users, names, states, minutes) is made once; a number that is no bound
goes a short way.  All else is what report/job_list.py says, escaped.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from iostats.base.units import bytes_text, count_text, moment_text
from iostats.report import job_list
from iostats.report.job_summary import EXPORTS, NODES
from iostats.report.listing import NumberForm
from iostats.web.cells import class_of, cut_text, linked, named
from iostats.web.query import address, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from iostats.report.listing import Field
    from iostats.web.cells import Heading
    from iostats.web.pages import Visit

    _Row = dict[str, Any]
    _Maker = Callable[[_Row], str]

_USER, _NAME, _FILE_SYSTEM = 24, 32, 24             # characters of these
_MOST_FILE_SYSTEMS = 6
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_STATES = {"COMPLETED": "good", "RUNNING": "good", "FAILED": "bad", "OUT_OF_MEMORY": "bad",
           "NODE_FAIL": "bad", "BOOT_FAIL": "bad", "TIMEOUT": "warn", "CANCELLED": "warn",
           "PREEMPTED": "warn", "DEADLINE": "warn", "REQUEUED": "warn"}


def job_rows(found: Iterable[_Row], fields: Sequence[Field], headings: Sequence[Heading],
             visit: Visit) -> Markup:
    """<tr>s, with a cell for each of `fields`."""
    makers = []
    for place, (field, heading) in enumerate(zip(fields, headings)):
        kind = class_of(heading)
        begin = "<th scope=row" if not place else "<td"
        makers.append(_maker(field, visit, f'{begin} class="{kind}">' if kind else f"{begin}>",
                             "</td>" if place else "</th>"))
    return Markup("".join([text for row in found for text in (
        "<tr>", *[make(row) for make in makers], "</tr>\n")]))


def job_link(base: str, row: _Row) -> str:
    """The address of the page of a run of a job."""
    return address(f"{base}/job/{segment(row['raw_job_id'] or row['job_id'])}",
                   cluster=row["cluster"], run=row["attempt"] or None)


def _maker(field: Field, visit: Visit, begin: str, end: str) -> _Maker:
    """What makes the cells of a field, from `begin` to `end`."""
    how = NumberForm(visit.units)

    def other(row: _Row) -> str:
        return f"{begin}{cut_text(job_list.cell(row, field, how))}{end}"
    if field.name == "job_id":
        return _job(visit, begin, end)
    if field.name == "started":
        return _start(field.name, begin, end)
    if field.name in ("user", "name", "outcome", "file_systems"):
        return _once(field, visit, begin, end)
    if field.name == "events":
        return _events(visit, other, begin, end)
    if field.kind == "note":
        return _note(other, f"{begin}{end}")
    if field.kind in ("bytes", "count") and field.bound in ("", "lower_bound"):
        return _number(field, visit.units, other, begin, end)
    if field.kind == "duration":
        return _duration(field, other, begin, end)
    return other


def _job(visit: Visit, begin: str, end: str) -> _Maker:
    base, behind = visit.base, dict[tuple[str, int], str]()

    def make(row: _Row) -> str:
        shown, raw, run = row["job_id"], row["raw_job_id"], (row["cluster"], row["attempt"])
        if not (shown and raw and _PLAIN.issuperset(shown) and _PLAIN.issuperset(raw)
                and len(shown) < 32 and raw not in (".", "..")):
            return f"{begin}{linked(str(shown), job_link(base, row))}{end}"
        found = behind.get(run)
        if found is None:
            found = behind[run] = str(escape(address("", cluster=run[0], run=run[1] or None)))
            if found == "?":
                found = behind[run] = ""
        return f'{begin}<a href="{base}/job/{raw}{found}">{shown}</a>{end}'
    return make


def _start(name: str, begin: str, end: str) -> _Maker:
    known: dict[float | None, str] = {None: f"{begin}-{end}"}

    def make(row: _Row) -> str:
        value = row[name]
        key = None if value is None else value // 60
        found = known.get(key)
        if found is None:
            found = known[key] = f"{begin}{moment_text(value)[:16]}{end}"
        return found
    return make


def _once(field: Field, visit: Visit, begin: str, end: str) -> _Maker:
    """Of a value that many rows have: its cell is made once."""
    known: dict[Any, str] = {}
    name, is_list = field.name, field.kind == "names"

    def make(row: _Row) -> str:
        value = tuple(row[name]) if is_list else row[name]
        found = known.get(value)
        if found is None:
            found = known[value] = f"{begin}{_named_cell(row, field, visit)}{end}"
        return found
    return make


def _named_cell(row: _Row, field: Field, visit: Visit) -> str:
    text = job_list.cell(row, field)
    if field.name == "user" and row["user"]:
        return linked(text, visit.query.link(user=row["user"], after=None), _USER)
    if field.name == "outcome":
        return Markup('<span class="%s">%s</span>') % (
            _STATES.get(row["outcome"], "other"), cut_text(text).replace("_", Markup("_<wbr>")))
    if field.name == "file_systems" and row["file_systems"]:
        return Markup(", ").join(
            linked(visit.labels.get(one, one), f"{visit.base}/fs/{segment(one)}", _FILE_SYSTEM)
            for one in row["file_systems"][:_MOST_FILE_SYSTEMS])
    return named(text, _NAME)


def _note(other: _Maker, nothing: str) -> _Maker:
    def make(row: _Row) -> str:
        nodes = row["nodes"]
        is_whole = row["source"] == NODES and nodes is not None and row["reported"] >= nodes
        if is_whole and row["final"] and not (row["shared"] or row["lower_bound"]
                                              or row.get("data_lost") or row.get("too_high")):
            return nothing
        return other(row)
    return make


def _number(field: Field, units: str, other: _Maker, begin: str, end: str) -> _Maker:
    """Of a number that is none of a job's nodes."""
    name, is_bytes, has_bound = field.name, field.kind == "bytes", bool(field.bound)
    low = f"{begin}&gt;= "

    def make(row: _Row) -> str:
        value, mark = row[name], begin
        if value is None:
            return f"{begin}-{end}" if row["source"] != EXPORTS else other(row)
        if has_bound:
            if row.get("too_high") or row["source"] == EXPORTS or "too_low" not in row:
                return other(row)
            if row["lower_bound"] and name in row["too_low"]:
                mark = low
        return f"{mark}{bytes_text(value, units) if is_bytes else count_text(int(value))}{end}"
    return make


def _duration(field: Field, other: _Maker, begin: str, end: str) -> _Maker:
    """Of a time of less than a day that the job's nodes have told."""
    name = field.name

    def make(row: _Row) -> str:
        value = row[name]
        if value is None or not 0 <= value < 86400 or row["source"] != NODES:
            return other(row)
        minutes, seconds = divmod(int(value), 60)
        return f"{begin}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{end}"
    return make


def _events(visit: Visit, other: _Maker, begin: str, end: str) -> _Maker:
    base, nothing = visit.base, f"{begin}-{end}"

    def make(row: _Row) -> str:
        count, job = row.get("events"), row["job_id"]
        if not count:
            return nothing if count is None else other(row)
        if not _PLAIN.issuperset(job):
            return f"{begin}{linked(str(int(count)), address(f'{base}/events', job=job))}{end}"
        return f'{begin}<a href="{base}/events?job={job}">{int(count)}</a>{end}'
    return make
