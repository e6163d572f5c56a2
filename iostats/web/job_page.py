"""
The page of a job: its report, as `iostats report --html` has it, with links to what is beside it.
"""

from __future__ import annotations

import time

from iostats.base.errors import one_line
from iostats.base.job_id import checked_job_id
from iostats.base.units import moment_text
from iostats.load.time_lines import history_of
from iostats.report.advice.findings import looked_at
from iostats.report.diff import changes, diff_text, sides
from iostats.report.html import page
from iostats.report.job_tables import labelled
from iostats.report.job_tables import text as report_text
from iostats.report.newer_release import as_known
from iostats.report.why import like_runs
from iostats.report.screen import LOG
from iostats.report.why.causes import judgement_of
from iostats.totals.record import Record
from iostats.web import jobs_page
from iostats.web.asking import PageError, form_checked
from iostats.web.layout import HTML, PRIVATE, PageAnswer, heads
from iostats.web.query import address, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.load.time_lines import JobHistory
    from iostats.report.advice.finding import Finding
    from iostats.report.why.cause import Cause
    from iostats.web.pages import Visit

_MARGIN_S = 60.0                    # of the time in which its nodes and file systems are shown
_MOST_RUNS = 20
_FILES = {"json": "application/json", "csv": "text/csv; charset=utf-8", "html": HTML}
_WIDTH = 100                        # columns of a comparison
_MOST_LIKE = 5                      # runs of the same name and user that it is compared with


def job(visit: Visit) -> PageAnswer:
    """
    The page of /job/ID, of one run of a job; of an array's number a list of its tasks.  `format`:
    a file to download instead; `with`: another job that it is compared with.
    """
    q, name = visit.query, checked_job_id(visit.rest, "job") if visit.rest else ""
    if not name:
        raise PageError(404, "expected a job's id behind /job/")
    cluster, run = q.text("cluster"), q.number("run", -1, 2**32, 0)
    who, answer = visit.who(), visit.ask("record", {"job": name})
    with form_checked("a record"):
        records = [as_known(one) for one in answer]
        records = [one for one in records if not cluster or _cluster(one) == cluster]
    if not records:
        return _without_record(visit, name, who)
    ids = {(_cluster(one), one.job.id) for one in records}
    if len(ids) > 1:
        return _parts(visit, name, who)
    records.sort(key=lambda one: one.job.attempt or 0)
    chosen = [one for one in records if run in (-1, one.job.attempt or 0)]
    if not chosen:
        raise PageError(404, f"of job {name} there is no run {run}")
    kind = q.one_of("format", ("", *_FILES), "")
    if kind:
        return _file(visit, chosen[-1], kind)
    if q.text("with"):
        return _comparison(visit, chosen[-1], checked_job_id(q.text("with"), "with"), who)
    return _report(visit, chosen[-1], records, who)


def _report(visit: Visit, form: Record, runs: list[Record], who: dict[str, Any]) -> PageAnswer:
    with form_checked("a record"):
        record, advised, causes, history = _parts_of_report(visit, form)
        sections = page.sections(record, visit.config, advised, causes, history,
                                 looked_at(record, visit.config))
        links = _links(visit, record)
        shown_as = record.job.id
        others = [(f"Run {(one.job.attempt or 0) + 1}", visit.query.link(run=one.job.attempt or 0),
                   one is form) for one in runs[-_MOST_RUNS:]] if len(runs) > 1 else []
    return visit.page(
        "job.html", f"Job {one_line(shown_as)[:60]}", "", who=who, sections=sections, links=links,
        runs=others, downloads=[(kind.upper(), visit.query.link(format=kind)) for kind in _FILES],
        chosen=[(name, visit.query.text(name)) for name in ("cluster", "run")
                if name in visit.query.values])


def _parts_of_report(visit: Visit, form: Record) -> tuple[
        Record, list[Finding], list[Cause], JobHistory | None]:
    """(the labelled record, its findings, causes and history) for html/page.py."""
    record, history = labelled(form, visit.config), _history(visit, form)
    found = judgement_of(record, visit.config, history, _runs_like(visit, record))
    return record, found.findings, found.causes, history


def _file(visit: Visit, form: Record, kind: str) -> PageAnswer:
    """The report as a file, as `iostats report --format` and --html have it."""
    with form_checked("a record"):
        if kind == "html":
            record, advised, causes, history = _parts_of_report(visit, form)
            text = page.page(record, visit.config, advised, causes, history, time.time(),
                             looked_at(record, visit.config))
        else:
            text = report_text(labelled(form, visit.config), visit.config, kind)
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in form.job.id)
    return PageAnswer(200, _FILES[kind], text.encode("utf-8", "replace"), (
        *PRIVATE, ("Content-Disposition", f'attachment; filename="job-{name[:100]}.{kind}"')))


def _comparison(visit: Visit, form: Record, other: str, who: dict[str, Any]) -> PageAnswer:
    """What changed from another job to this one, as `iostats diff` has it."""
    with form_checked("a record"):
        found = [as_known(one) for one in visit.ask("record", {"job": other})]
        if len({(_cluster(one), one.job.id) for one in found}) > 1:
            raise PageError(400, f"{other} is several jobs; name one of them")
        if not found:
            raise PageError(404, f"no job {other} that you may see is known here")
        last = max(found, key=lambda one: one.job.attempt or 0)
        names = [one_line(one.job.id) for one in (last, form)]
        if names[0] == names[1]:
            names = [f"{name} (run {(one.job.attempt or 0) + 1})"
                     for name, one in zip(names, (last, form))]
        (a, of_a), (b, of_b) = (sides.side_of(one, name, visit.config)
                                for one, name in zip((last, form), names))
        text = diff_text.as_text(changes.compared(a, b, of_a, of_b), visit.units,
                                 LOG._replace(width=_WIDTH), True)
    return visit.page(
        "compare.html", f"Jobs {names[0][:60]} and {names[1][:60]} compared", "", who=who,
        text=text, other=other, command=f"iostats diff {names[0]} {names[1]}",
        links=[(f"Job {one_line(one.job.id)[:60]}", address(
            f"{visit.base}/job/{segment(one.job.id)}", cluster=_cluster(one)))
            for one in (last, form)])


def _history(visit: Visit, record: Record) -> JobHistory | None:
    """What is known of the job over time; None where that is nothing."""
    try:
        answer = visit.ask("job_history", {
            "job": record.job.id, "cluster": _cluster(record), "attempt": record.job.attempt or 0})
    except PageError:
        return None                     # of an earlier release, or nothing was kept
    with form_checked("a job over time"):
        return history_of(answer)


def _runs_like(visit: Visit, record: Record) -> list[Record]:
    """Records of the last runs of the same name and user; [] where they are not known."""
    question, found = like_runs.question_of(record, _MOST_LIKE), list[Record]()
    if question is None:
        return found
    with form_checked("a list of jobs"):
        try:
            rows = like_runs.rows_like(record, visit.ask("jobs", question)["jobs"])
            for row in rows[:_MOST_LIKE]:
                run = like_runs.run_of(row, map(as_known, visit.ask(
                    "record", {"job": row["raw_job_id"]})))
                found += [run] if run else []
        except PageError:
            found.clear()               # there is less to compare, and no less to tell
    return found


def _cluster(record: Record) -> str:
    return (record.batch.cluster or "") if record.batch else ""


def _links(visit: Visit, record: Record) -> list[tuple[str, str]]:
    """[(text, address)] of what is beside a job."""
    base, job = visit.base, record.job
    since = None if job.started is None else f"uts{max(0, int(job.started - _MARGIN_S))}"
    until = None if job.ended is None else f"uts{int(job.ended + _MARGIN_S)}"
    found = [("Events", address(f"{base}/events", job=job.id))]
    nodes = record.batch.nodes if record.batch else ""
    if nodes and visit.who()["all"]:
        found.append(("Nodes", address(f"{base}/nodes", nodes=nodes, since=since,
                                           until=until)))
    for fs in record.file_systems[:8]:
        found.append((f"{fs.label} during the job", address(
            f"{base}/fs/{segment(fs.name)}", since=since, until=until)))
    if job.user:
        found.append((f"Jobs of {job.user}", address(f"{base}/jobs", user=job.user,
                                                     since="now-7days")))
    if record.batch and record.batch.name and "," not in record.batch.name:
        found.append(("Other runs", address(
            f"{base}/jobs", name=record.batch.name[:128], user=job.user, since="now-30days",
            runs="on")))
    return [(one_line(text)[:80], to) for text, to in found]


def _parts(visit: Visit, name: str, who: dict[str, Any]) -> PageAnswer:
    """Of an array, or of a job of several components: a line for each."""
    question = {"jobs": [name], "sort": "started", "limit": 5000}
    answer = visit.ask("jobs", question)
    with form_checked("a list of jobs"):
        found = answer["jobs"]
        table = jobs_page.table_of(found, visit)
    return visit.page("parts.html", f"Job {one_line(name)[:60]}", "", who=who, rows=table,
                      count=len(found), headings=heads(jobs_page.plain_headings()),
                      about=f"{len(found):,} parts: the tasks of an array, or the components of "
                            f"one job.")


def _without_record(visit: Visit, name: str, who: dict[str, Any]) -> PageAnswer:
    """Why there is none: its nodes have not all reported, or it is not known to this user."""
    with form_checked("who is waited for"):
        waiting = visit.ask("waiting", {"jobs": [name]})
        lines = [f"{one['reported']:,} of {one['nodes'] or 'its'} nodes have reported; its report "
                 f"is made when all have, or at {moment_text(one['until'])}." for one in waiting]
    if not lines:
        raise PageError(404, f"no job {name} that you may see is known here; a job is shown when "
                             f"it is over and its nodes have reported, and while it runs on the "
                             f"page Now")
    return visit.page("waiting.html", f"Job {one_line(name)[:60]}", "", who=who, lines=lines,
                      name=name, every=max(10, round(max(0.0, min(
                          one["until"] for one in waiting) - time.time()) / 4)))
