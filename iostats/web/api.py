"""
The JSON API, /api/v1: what the commands write with --json, for portals and programs.

Each operation has the rights, the parameters and the errors of the page with the same content.
docs/reference/openapi.json is made from OPERATIONS and the types below.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from iostats.load.time_lines import Amount, FileSystemSeries, JobSeries
from iostats.report import job_fields, node_list
from iostats.report.job_tables import add_findings, add_labels
from iostats.report.listing import Field
from iostats.report.site_methods import FILE_SYSTEM_LINES, JOB_HISTORY, JOBS, LOAD, NODES
from iostats.web import events_page, file_system_page, job_page, jobs_page, nodes_page
from iostats.web.docs_page import find_shared_file
from iostats.web.layout import PRIVATE
from iostats.web.pages import Pages, Visit
from iostats.web.site_calls import check_format
from iostats.wire.protocol import EVENTS

PATH = "/api/v1"
JSON = "application/json"
_MAX_SERIES_JOBS = 12

_TYPES: dict[str, Any] = {
    "text": str, "names": list[str], "count": Optional[int], "bytes": Optional[int],
    "time": Optional[float], "duration": Optional[float], "yes": bool}
_Schema = Annotated[int, Meta(description="the version of this form: new members may be added")]
_Since = Annotated[Optional[float], Meta(description="seconds since 1970; null: no limit")]
_Form = TypeVar("_Form")


def _define_row_type(name: str, fields: tuple[Field, ...], *more: tuple[str, Any]) -> Any:
    """The Struct of a list's row, from the fields of the list."""
    return msgspec.defstruct(name, [*(
        (field.name, Annotated[_TYPES[field.kind], Meta(description=field.help)])
        for field in fields if field.kind in _TYPES), *more])


if TYPE_CHECKING:
    from msgspec import Struct as JobRow
    from msgspec import Struct as NodeRow
else:
    JobRow = _define_row_type("JobRow", job_fields.FIELDS)
    NodeRow = _define_row_type("NodeRow", node_list.FIELDS, ("at_most", Annotated[
        Optional[dict[str, int]],
        Meta(description="the upper bounds of numbers that lie between two; null: none")]))


class JobsAnswer(msgspec.Struct):
    """The answer of `iostats jobs --json`; `next`: `after` of the next part."""

    schema: _Schema
    since: _Since
    until: _Since
    jobs: list[JobRow]
    next: Optional[str]


class JobRecords(msgspec.Struct):
    """The record of each run of a job, as of `iostats report --format json`."""

    schema: _Schema
    runs: list[Any]


class EventItem(msgspec.Struct):
    """An event, as of `iostats events --json`; docs/reference/events.md has the members."""

    id: str
    time: float
    last: float
    over: Optional[float]
    severity: Annotated[int, Meta(ge=0, le=3)]
    kind: str
    cause: str
    node: str
    file_system: str
    target: str
    clients: list[str]
    count: int
    skipped: int
    message: str
    clients_names: list[str] = []


class EventsAnswer(msgspec.Struct):
    """
    The latest events of a time, in the format of `iostats events --json`.

    `dropped`: events that the site's server dropped for lack of space; `of_user`: the answer has
    only this user's events, "" for all.
    """

    schema: _Schema
    since: _Since
    until: _Since
    events: list[EventItem]
    dropped: int
    of_user: str = ""


class NodesAnswer(msgspec.Struct):
    """The answer of `iostats nodes --json`; `count`: of all rows, `next`: `after` of the next."""

    schema: _Schema
    since: float
    until: float
    swept: float
    nodes: list[NodeRow]
    count: int
    next: Optional[int]


class FileSystemLoad(msgspec.Struct):
    """The present load of a file system by all users; null: unknown."""

    file_system: str
    write_bytes_per_s: Amount
    read_bytes_per_s: Amount
    requests_per_s: Amount
    metadata_per_s: Amount
    targets: int
    missing: dict[str, str]
    lower_bound: bool
    no_job: dict[str, Amount]
    no_job_share: Optional[float]
    rates_estimated: bool = False


class FileSystemLoads(msgspec.Struct):
    """The rates of the last sweep, as of `iostats top --by fs --json`."""

    at: float
    span_s: Optional[float]
    is_old: bool
    newest_reading_s: Optional[float]
    oldest_reading_s: Optional[float]
    file_systems: list[FileSystemLoad]


class ApiProblem(msgspec.Struct):
    """An error, as of RFC 9457; `detail` is one line."""

    title: str
    status: int
    detail: str


def list_jobs(visit: Visit) -> JobsAnswer:
    """Jobs that ran in a time."""
    q = visit.query
    params = jobs_page.make_params(q, time.time())
    params.limit = q.number("limit", 100, job_fields.MOST_ROWS)
    answer = visit.ask(JOBS, msgspec.structs.asdict(params))
    with check_format("a list of jobs"):
        mark = answer["next"]
        return _check_answer({**answer, "schema": 1, "since": params.since,
                              "until": params.until,
                              "next": None if mark is None else jobs_page.format_mark(mark)},
                             JobsAnswer)


def show_job(visit: Visit) -> JobRecords:
    """Answer with the record of a job, after its end."""
    name, cluster, run = job_page.parse_run(visit)
    runs = [add_findings(add_labels(record, visit.config), visit.config)
            for record in job_page.fetch_runs(visit, name, cluster)
            if run in (-1, record.job.attempt or 0)]
    if not runs:
        raise job_page.make_missing_error(name)
    return JobRecords(1, runs)


def show_job_series(visit: Visit) -> JobSeries:
    """A job over time, also while it runs, and what others did on its targets."""
    name, cluster, run = job_page.parse_run(visit)
    params = {"job": name, "cluster": cluster, **({"attempt": run} if run >= 0 else {})}
    return _check_answer(visit.ask(JOB_HISTORY, params), JobSeries)


def list_events(visit: Visit) -> EventsAnswer:
    """Answer with events."""
    q = visit.query
    params = events_page.make_params(q, time.time(), q.number("limit", 100,
                                                              events_page.LIMITS[-1]))
    answer = visit.ask(EVENTS, msgspec.structs.asdict(params))
    return _check_answer({"schema": 1, "since": params.since, "until": params.until, **answer},
                         EventsAnswer)


def list_nodes(visit: Visit) -> NodesAnswer:
    """The I/O of each node, for [site] readers."""
    q = visit.query
    params = nodes_page.make_params(q, time.time(), q.number("limit", 100, nodes_page.LIMITS[-1]))
    answer = visit.ask(NODES, params)
    return _check_answer({"schema": 1, **answer}, NodesAnswer)


def list_file_systems(visit: Visit) -> FileSystemLoads:
    """The file systems and their present load."""
    return _check_answer(visit.shared(LOAD, {"by": "fs"}), FileSystemLoads)


def show_file_system_series(visit: Visit) -> FileSystemSeries:
    """A file system over time."""
    name, since, until = file_system_page.parse_span(visit)
    jobs = visit.query.number("jobs", 5, _MAX_SERIES_JOBS, 0)
    return _check_answer(visit.ask(FILE_SYSTEM_LINES, {
        "file_system": name, "since": since, "until": until, "most": jobs}), FileSystemSeries)


def _check_answer(answer: object, form: type[_Form]) -> _Form:
    """An answer of the site's server as a Struct, without members that are not documented."""
    with check_format("an answer of the API"):
        try:
            return msgspec.convert(answer, form)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


class ApiOperation(NamedTuple):
    """An operation of the API: its path, its function, its answer and its parameters."""

    path: str                           # below PATH, with {name} for parameters in it
    function: Callable[[Visit], Any]    # its result is the answer
    form: type[Any]                     # of the answer
    parameters: tuple[str, ...] = ()    # names of PARAMETERS


OPERATIONS = (
    ApiOperation("/jobs", list_jobs, JobsAnswer, (
        "since", "until", "user", "state", "name", "account", "partition", "cluster", "job", "runs",
        "events", "lost", "sort", "limit", "after")),
    ApiOperation("/jobs/{job}", show_job, JobRecords, ("cluster", "run")),
    ApiOperation("/jobs/{job}/series", show_job_series, JobSeries, ("cluster", "run")),
    ApiOperation("/events", list_events, EventsAnswer, (
        "since", "until", "severity", "kind", "fs", "node", "job", "target", "limit")),
    ApiOperation("/nodes", list_nodes, NodesAnswer, (
        "since", "until", "nodes", "fs", "each_fs", "sort", "limit", "after")),
    ApiOperation("/file_systems", list_file_systems, FileSystemLoads),
    ApiOperation("/file_systems/{name}/series", show_file_system_series, FileSystemSeries, (
        "since", "until", "jobs")))
PARAMETERS = {
    "since": "a moment in a form of `iostats jobs -S`: 2026-11-21T13:00, now-7days, uts1795266724",
    "until": "the same", "user": "users, separated by commas", "state": "states, as COMPLETED",
    "name": "jobs' names", "account": "accounts", "partition": "partitions",
    "cluster": "clusters", "job": "jobs; an array's number means all its tasks",
    "runs": "1: every run of a job that was requeued", "events": "1: jobs with events",
    "lost": "1: jobs that lost data, or may have",
    "run": "the run, from 0; default: all runs, of a series the last",
    "sort": "a column; -column: the largest first", "limit": "at most this many rows",
    "after": "`next` of the previous part", "severity": "this one and worse, 0 to 3 or its name",
    "kind": "kinds of events", "fs": "file systems", "node": "a node list", "nodes": "a node list",
    "target": "OSTs and MDTs", "each_fs": "1: a row for each file system of a node",
    "jobs": f"the number of jobs, 0 to {_MAX_SERIES_JOBS}"}


def api_routes(pages: Pages) -> list[Route]:
    """The route of each operation, and of the OpenAPI document."""
    def route(operation: ApiOperation) -> Route:
        def endpoint(request: Request) -> Response:
            return Response(msgspec.json.encode(operation.function(Visit(pages, request))),
                            headers=PRIVATE, media_type=JSON)
        return Route(PATH + operation.path, endpoint)
    document = os.path.join(find_shared_file("docs"), "reference", "openapi.json")
    return [Route(f"{PATH}/openapi.json", lambda request: FileResponse(document)),
            *map(route, OPERATIONS)]
