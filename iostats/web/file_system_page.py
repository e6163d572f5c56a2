"""
The pages of file systems: all of them with their present load, and one over time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from markupsafe import Markup

from iostats.base.errors import UsageError, sanitize
from iostats.base.units import format_moment
from iostats.load.time_lines import compute_rates, count_intervals, has_lower_bounds, parse_line
from iostats.report.charts import as_table, svg
from iostats.report.charts.chart import Chart, Curve, Panel, TimeAxis
from iostats.report.job_charts import make_latency_panel
from iostats.report.site_methods import FILE_SYSTEM_LINES
from iostats.totals.bounds import get_mark
from iostats.web import now_page
from iostats.web.layout import format_span
from iostats.web.query import make_address, quote_segment
from iostats.web.site_calls import PageError, check_format

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response

    from iostats.load.time_lines import Line, SeriesOfJob
    from iostats.report.site_methods import Rights
    from iostats.web.pages import Visit

_SPANS = (("1 hour", "now-1hour"), ("6 hours", "now-6hours"), ("1 day", "now-1day"),
          ("7 days", "now-7days"), ("30 days", "now-30days"))
_DEFAULT_SPAN = "now-6hours"
_NO_JOB = "(no job)"                                # I/O without a job, which has no page
_MAX_JOBS, _MAX_TARGETS = 8, 24
_MAX_SPAN_S = 400 * 86400.0
_PANELS = (("read_bytes", "Read", "read", "bytes/s"),
           ("write_bytes", "Written", "write", "bytes/s"),
           ("requests", "Requests", "operations", "/s"))


def file_systems_page(visit: Visit) -> Response:
    """The page of /fs."""
    try:
        visit.query.values = {"by": "fs", **{name: text for name, text in visit.query.values.items()
                                             if name == "sort"}}
        part, why = now_page.render_part(visit), ""
    except PageError as error:
        if error.status != 403:
            raise
        part, why = "", str(error)              # such as: no sweep is complete yet
    return visit.page("file_systems.html", "File systems", "fs", rights=visit.rights(),
                      part=Markup(part), why=why)


def file_system_page(visit: Visit) -> Response:
    """The page of /fs/NAME."""
    rights, (name, since, ends) = visit.rights(), parse_span(visit)
    try:
        answer = visit.ask(FILE_SYSTEM_LINES, {
            "file_system": name, "since": since, "until": ends, "most": _MAX_JOBS})
    except PageError as error:
        if error.status == 503:
            raise
        return _make_page(visit, name, rights, (since, ends), str(error))
    with check_format("the time series of a file system"):
        label, times = visit.labels.get(name, name), (since, ends)
        first = parse_line(answer["all"])
        whole = make_figure(f"{label}: all jobs", first, "whole", times)
        lines = [(item["target"], parse_line(item["line"])) for item in answer["targets"]]
        busy = [(target, line) for target, line in lines if _is_busy(line)]
        idle = [target for target, line in lines if not _is_busy(line)]
        targets = [make_figure(target, line, f"t{place}", times)
                   for place, (target, line) in enumerate(busy[:_MAX_TARGETS])]
        jobs = [{"job": item["job"], "user": item["user"],
                 "to": f"{visit.base}/job/{quote_segment(item['job'])}"
                 if item["job"] not in ("", _NO_JOB) else "",
                 "figure": make_figure(_make_job_title(item, place), parse_line(item["line"]),
                                       f"j{place}",
                                       times)}
                for place, item in enumerate(answer["jobs"])]
        hidden_count = max(0, len(busy) - _MAX_TARGETS)
        known_from = first.began if first and first.began - since > first.every_s else None
    return _make_page(visit, name, rights, (since, ends), "", whole=whole,
                      targets=[item for item in targets if item], left=hidden_count, idle=idle,
                      jobs=[item for item in jobs if item["figure"]], known_from=known_from)


def parse_span(visit: Visit) -> tuple[str, float, float]:
    """Return (file system, since, until) of an address; UsageError, PageError."""
    name, now = visit.request.path_params["name"], time.time()
    if not 0 < len(name) <= 128 or not name.isprintable():
        raise PageError(404, "expected the name of a file system after /fs/")
    since, until = visit.query.moments(now, _DEFAULT_SPAN)
    ends = now if until is None else min(until, now)
    if since is None or not 0 <= since < ends:
        raise UsageError("since: expected a moment before until, and before now")
    if ends - since > _MAX_SPAN_S:
        raise UsageError("since: expected up to 400 days before until")
    return name, since, ends


def _make_page(visit: Visit, name: str, rights: Rights, times: tuple[float, float], why: str,
               known_from: float | None = None, **values: Any) -> Response:
    q, (since, until) = visit.query, times
    at = {"since": f"uts{int(since)}", "until": f"uts{int(until)}"}
    return visit.page(
        "file_system.html", sanitize(visit.labels.get(name, name))[:60], "fs", rights=rights,
        name=name,
        why=why, q={"since": q.text("since"), "until": q.text("until")},
        spans=[(words, q.link(since=text, until=None),
                q.text("since", _DEFAULT_SPAN) == text and not q.text("until"))
               for words, text in _SPANS],
        about=f"From {format_span(since, until)}, by the storage servers' counts" + (
            f"; it is known from {format_moment(known_from)} on." if known_from else "."),
        links=[("Load now", make_address(f"{visit.base}/now", fs=name)),
               ("Events in this period", make_address(f"{visit.base}/events", fs=name, **at)),
               ("Jobs in this period",
                make_address(f"{visit.base}/jobs", sort="-WriteBytes", **at)),
               *([("Nodes in this period", make_address(f"{visit.base}/nodes", fs=name, **at))]
                 if rights["all"] else [])],
        **{"whole": None, "targets": [], "jobs": [], "left": 0, "idle": [], **values})


def _make_job_title(job_form: SeriesOfJob, place: int) -> str:
    if not job_form["job"]:
        return f"A job of another user ({place + 1})"
    if job_form["job"] == _NO_JOB:
        return _NO_JOB
    return f"Job {job_form['job']}" + (f" of {job_form['user']}" if job_form["user"] else "")


def _is_busy(line: Line | None) -> bool:
    """Whether there was any I/O."""
    return line is not None and any(any(line.amounts.get(metric) or ()) for metric, *_ in _PANELS)


def make_figure(title: str, line: Line | None, ident: str,
                times: tuple[float, float]) -> dict[str, object] | None:
    """A figure for the template, between `times`; None without data."""
    since, until = times
    count = 0 if line is None else count_intervals(line)
    if line is None or not count:
        return None
    panels = []
    panels_with_data = [panel for panel in _PANELS if line.amounts.get(panel[0]) is not None]
    for metric, words, kind, unit in [panel for panel in panels_with_data
                                      if any(line.amounts[panel[0]])] or panels_with_data:
        panels.append(Panel(words, unit, [Curve(words.lower(), kind, compute_rates(line, metric))],
                            get_mark(has_lower_bounds(line), False)))
    latency = make_latency_panel(line, "Mean time of a request")
    panels += [latency] if latency else []
    if not panels:
        return None
    axis = TimeAxis(line.began - since, line.every_s, count, since, 0.0, until - since)
    chart = Chart(title=sanitize(title), axis=axis, panels=panels, about=(
        f"Rates by the storage servers' counts, in intervals of {line.every_s:g} s; a gap is "
        f"a time without data."))
    headings, rows, more = as_table.make_rows(chart)
    return {"ident": ident, "title": chart.title, "svg": Markup(svg.draw_inline(chart, ident)),
            "remarks": svg.list_remarks(chart), "headings": headings, "rows": rows, "rest": more}
