"""
The page of a job: its report, as `iostats report --html` has it, with links to related pages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import Response

from iostats.base.errors import sanitize
from iostats.base.job_id import check_job_id
from iostats.base.units import format_moment
from iostats.load.time_lines import parse_history
from iostats.report.diff import changes, diff_text, sides
from iostats.report.findings.evaluate import list_checks
from iostats.report.html import page
from iostats.report.job_tables import add_labels
from iostats.report.job_tables import format_report as report_text
from iostats.report.newer_release import read_known
from iostats.report.screen import LOG
from iostats.report.site_methods import JOB_HISTORY, JOBS, RECORD, WAITING
from iostats.report.why import like_runs
from iostats.report.why.causes import judge_record
from iostats.totals.record import Record
from iostats.web import jobs_page
from iostats.web.layout import PRIVATE
from iostats.web.query import make_address, quote_segment
from iostats.web.site_calls import PageError, check_format

if TYPE_CHECKING:
    from iostats.load.time_lines import JobHistory
    from iostats.report.findings.finding import Finding
    from iostats.report.site_methods import Rights
    from iostats.report.why.cause import Cause
    from iostats.web.pages import Visit

_MARGIN_S = 60.0                # around the job, in links to its nodes and file systems
_MAX_RUNS = 20
_FILES = {"json": "application/json", "csv": "text/csv", "html": "text/html"}
_WIDTH = 100                    # columns of a comparison
_MAX_SIMILAR = 5                # runs of the same name and user for comparison


def job_page(visit: Visit) -> Response:
    """
    The page of /job/ID, of one run of a job; for an array's number the list of its tasks. `format`:
    a file to download instead; `with`: another job for comparison.
    """
    q, (name, cluster, run) = visit.query, parse_run(visit)
    rights, records = visit.rights(), fetch_runs(visit, name, cluster)
    if not records:
        return _make_waiting_page(visit, name, rights)
    ids = {(_get_cluster(record), record.job.id) for record in records}
    if len(ids) > 1:
        return _make_parts_page(visit, name, rights)
    records.sort(key=lambda record: record.job.attempt or 0)
    chosen = [record for record in records if run in (-1, record.job.attempt or 0)]
    if not chosen:
        raise PageError(404, f"job {name} has no run {run}")
    kind = q.choice("format", ("", *_FILES), "")
    if kind:
        return _make_file(visit, chosen[-1], kind)
    if q.text("with"):
        return _make_comparison_page(visit, chosen[-1], check_job_id(q.text("with"), "with"),
                                     rights)
    return _report(visit, chosen[-1], records, rights)


def parse_run(visit: Visit) -> tuple[str, str, int]:
    """Return (job, cluster or "", run or -1) of an address; UsageError."""
    q = visit.query
    return (check_job_id(visit.request.path_params["job"], "job"), q.text("cluster"),
            q.number("run", -1, 2**32, 0))


def fetch_runs(visit: Visit, job: str, cluster: str) -> list[Record]:
    """The record of each run of a job, of an array those of its tasks; `cluster`: "" for all."""
    answer = visit.ask(RECORD, {"job": job})
    with check_format("a record"):
        records = [read_known(record) for record in answer]
        return [record for record in records if not cluster or _get_cluster(record) == cluster]


def make_missing_error(name: str) -> PageError:
    """The error for a job without a record."""
    return PageError(404, f"no job {name} that you may see is known here; a job is shown after its "
                          f"end, when its nodes have reported, and during its run on the page Now")


def _report(visit: Visit, form: Record, runs: list[Record], rights: Rights) -> Response:
    with check_format("a record"):
        record, advised, causes, history = _make_report_parts(visit, form)
        sections = page.make_sections(record, visit.config, advised, causes, history,
                                      list_checks(record, visit.config))
        links = _make_links(visit, record)
        shown_as = record.job.id
        other_runs = [(f"Run {(run.job.attempt or 0) + 1}",
                       visit.query.link(run=run.job.attempt or 0),
                       run is form) for run in runs[-_MAX_RUNS:]] if len(runs) > 1 else []
    return visit.page(
        "job.html", f"Job {sanitize(shown_as)[:60]}", "", rights=rights, sections=sections,
        links=links,
        runs=other_runs,
        downloads=[(kind.upper(), visit.query.link(format=kind)) for kind in _FILES],
        chosen=[(name, visit.query.text(name)) for name in ("cluster", "run")
                if name in visit.query.values])


def _make_report_parts(visit: Visit, form: Record) -> tuple[
        Record, list[Finding], list[Cause], JobHistory | None]:
    """Return (the labelled record, its findings, causes and history) for html/page.py."""
    record, history = add_labels(form, visit.config), _fetch_history(visit, form)
    judgement = judge_record(record, visit.config, history, _fetch_similar_runs(visit, record))
    return record, judgement.findings, judgement.causes, history


def _make_file(visit: Visit, form: Record, kind: str) -> Response:
    """The report as a file, as of `iostats report --format` and --html."""
    with check_format("a record"):
        if kind == "html":
            record, advised, causes, history = _make_report_parts(visit, form)
            text = page.make_page(record, visit.config, advised, causes, history, time.time(),
                                  list_checks(record, visit.config))
        else:
            text = report_text(add_labels(form, visit.config), visit.config, kind)
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in form.job.id)
    return Response(text.encode("utf-8", "replace"), media_type=_FILES[kind], headers={
        **PRIVATE, "Content-Disposition": f'attachment; filename="job-{name[:100]}.{kind}"'})


def _make_comparison_page(visit: Visit, form: Record, second_job: str,
                          rights: Rights) -> Response:
    """The differences between another job and this one, as of `iostats diff`."""
    with check_format("a record"):
        records = [read_known(record) for record in visit.ask(RECORD, {"job": second_job})]
        if len({(_get_cluster(record), record.job.id) for record in records}) > 1:
            raise PageError(400, f"{second_job} is several jobs; name one of them")
        if not records:
            raise PageError(404, f"no job {second_job} that you may see is known here")
        last = max(records, key=lambda record: record.job.attempt or 0)
        names = [sanitize(record.job.id) for record in (last, form)]
        if names[0] == names[1]:
            names = [f"{name} (run {(record.job.attempt or 0) + 1})"
                     for name, record in zip(names, (last, form))]
        (a, of_a), (b, of_b) = (sides.read_side(record, name, visit.config)
                                for record, name in zip((last, form), names))
        text = diff_text.format_comparison(changes.compare_jobs(a, b, of_a, of_b), visit.units,
                                           LOG._replace(width=_WIDTH), True)
    return visit.page(
        "compare.html", f"Jobs {names[0][:60]} and {names[1][:60]} compared", "", rights=rights,
        text=text, other=second_job, command=f"iostats diff {names[0]} {names[1]}",
        links=[(f"Job {sanitize(record.job.id)[:60]}", make_address(
            f"{visit.base}/job/{quote_segment(record.job.id)}", cluster=_get_cluster(record)))
            for record in (last, form)])


def _fetch_history(visit: Visit, record: Record) -> JobHistory | None:
    """The job's JobHistory; None without one."""
    try:
        answer = visit.ask(JOB_HISTORY, {
            "job": record.job.id, "cluster": _get_cluster(record),
            "attempt": record.job.attempt or 0})
    except PageError:
        return None                     # an earlier release, or nothing is stored
    with check_format("a job's time series"):
        return None if answer is None else parse_history(answer)


def _fetch_similar_runs(visit: Visit, record: Record) -> list[Record]:
    """Records of the last runs of the same name and user; [] if unknown."""
    params, similar = like_runs.make_query(record, _MAX_SIMILAR), list[Record]()
    if params is None:
        return similar
    with check_format("a list of jobs"):
        try:
            answer = visit.ask(JOBS, params)
            for row in like_runs.select_comparable_runs(record, answer["jobs"])[:_MAX_SIMILAR]:
                run = like_runs.find_run(row, fetch_runs(visit, row["raw_job_id"], ""))
                similar += [run] if run else []
        except PageError:
            similar.clear()               # there is less to compare, and the causes remain
    return similar


def _get_cluster(record: Record) -> str:
    return (record.batch.cluster or "") if record.batch else ""


def _make_links(visit: Visit, record: Record) -> list[tuple[str, str]]:
    """Return [(text, address)] of pages related to a job."""
    base, job = visit.base, record.job
    since = None if job.started is None else f"uts{max(0, int(job.started - _MARGIN_S))}"
    until = None if job.ended is None else f"uts{int(job.ended + _MARGIN_S)}"
    links = [("Events", make_address(f"{base}/events", job=job.id))]
    nodes = record.batch.nodes if record.batch else ""
    if nodes and visit.rights()["all"]:
        links.append(("Nodes", make_address(f"{base}/nodes", nodes=nodes, since=since,
                                           until=until)))
    for fs in record.lustre[:8]:
        links.append((f"{fs.label} during the job", make_address(
            f"{base}/fs/{quote_segment(fs.name)}", since=since, until=until)))
    if job.user:
        links.append((f"Jobs of {job.user}", make_address(f"{base}/jobs", user=job.user,
                                                          since="now-7days")))
    if record.batch and record.batch.name and "," not in record.batch.name:
        links.append(("Other runs", make_address(
            f"{base}/jobs", name=record.batch.name[:128], user=job.user, since="now-30days",
            runs="on")))
    return [(sanitize(text)[:80], to) for text, to in links]


def _make_parts_page(visit: Visit, name: str, rights: Rights) -> Response:
    """A line for each task of an array, or component of a job."""
    params = {"jobs": [name], "sort": "started", "limit": 5000}
    answer = visit.ask(JOBS, params)
    with check_format("a list of jobs"):
        parts = answer["jobs"]
        table = jobs_page.format_table(parts, visit)
    return visit.page("parts.html", f"Job {sanitize(name)[:60]}", "", rights=rights, rows=table,
                      count=len(parts),
                      headings=jobs_page.make_plain_headings(),
                      about=f"{len(parts):,} parts: the tasks of an array, or the components of "
                            f"one job.")


def _make_waiting_page(visit: Visit, name: str, rights: Rights) -> Response:
    """The page for a missing record: some nodes have not reported, or the user may not see it."""
    with check_format("the list of waiting jobs"):
        waiting = visit.ask(WAITING, {"jobs": [name]})
        lines = [f"{job_waiting['reported']:,} of {job_waiting['nodes'] or 'its'} nodes have "
                 f"reported; its report "
                 f"is made when all have, or at {format_moment(job_waiting['until'])}."
                 for job_waiting in waiting]
    if not lines:
        raise make_missing_error(name)
    return visit.page("waiting.html", f"Job {sanitize(name)[:60]}", "", rights=rights, lines=lines,
                      name=name, every=max(10, round(max(0.0, min(
                          job_waiting["until"] for job_waiting in waiting) - time.time()) / 4)))
