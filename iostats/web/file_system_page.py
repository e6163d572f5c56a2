"""
The pages of file systems: all of them with their load of now, and one over time.
"""

from __future__ import annotations

import time

from markupsafe import Markup

from iostats.base.errors import UsageError, one_line
from iostats.base.units import moment_text
from iostats.load.time_lines import has_lower_bounds, length_of, line_of, rates
from iostats.report.charts import as_table, svg
from iostats.report.charts.chart import Chart, Curve, Panel, TimeAxis
from iostats.report.job_charts import latency_panel
from iostats.web import now_page
from iostats.web.asking import PageError, form_checked
from iostats.web.layout import span_text
from iostats.web.query import PageQuery, address, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.load.time_lines import Line
    from iostats.web.layout import PageAnswer
    from iostats.web.pages import Visit

_SPANS = (("1 hour", "now-1hour"), ("6 hours", "now-6hours"), ("1 day", "now-1day"),
          ("7 days", "now-7days"), ("30 days", "now-30days"))
_DEFAULT_SPAN = "now-6hours"
_NO_JOB = "(no job)"                                # what is no job's, which has no page
_MOST_JOBS, _MOST_TARGETS = 8, 24
_LONGEST_S = 400 * 86400.0
_PANELS = (("read_bytes", "Read", "read", "bytes/s"),
           ("write_bytes", "Written", "write", "bytes/s"),
           ("requests", "Requests", "operations", "/s"))


def file_system(visit: Visit) -> PageAnswer:
    """The page of /fs, or of /fs/NAME."""
    return _one(visit) if visit.rest else _all(visit)


def _all(visit: Visit) -> PageAnswer:
    try:
        query = PageQuery("by=fs")
        query.values.update({"sort": visit.query.text("sort")} if "sort" in visit.query.values
                            else {})
        part, why = now_page.part(visit, query), ""
    except PageError as error:
        if error.status != 403:
            raise
        part, why = "", str(error)              # such as: no sweep is complete yet
    return visit.page("file_systems.html", "File systems", "fs", who=visit.who(),
                      part=Markup(part), why=why)


def _one(visit: Visit) -> PageAnswer:
    q, name, who = visit.query, visit.rest, visit.who()
    if len(name) > 128 or not name.isprintable():
        raise PageError(404, "expected the name of a file system behind /fs/")
    now = time.time()
    since, until = q.moments(now, _DEFAULT_SPAN)
    ends = now if until is None else min(until, now)
    if since is None or not 0 <= since < ends:
        raise UsageError("since: expected a moment before until, and before now")
    if ends - since > _LONGEST_S:
        raise UsageError("since: expected up to 400 days before until")
    try:
        answer = visit.ask("file_system_lines", {"file_system": name, "since": since,
                                                 "until": ends, "most": _MOST_JOBS})
    except PageError as error:
        if error.status == 503:
            raise
        return _page(visit, name, who, (since, ends), str(error))
    with form_checked("what a file system did over time"):
        label, times = visit.labels.get(name, name), (since, ends)
        first = line_of(answer["all"])
        whole = figure_of(f"{label}: all jobs", first, "whole", times)
        lines = [(one["target"], line_of(one["line"])) for one in answer["targets"]]
        busy = [(target, line) for target, line in lines if _is_busy(line)]
        idle = [target for target, line in lines if not _is_busy(line)]
        targets = [figure_of(target, line, f"t{place}", times)
                   for place, (target, line) in enumerate(busy[:_MOST_TARGETS])]
        jobs = [{"job": one["job"], "user": one["user"],
                 "to": f"{visit.base}/job/{segment(one['job'])}"
                 if one["job"] not in ("", _NO_JOB) else "",
                 "figure": figure_of(_job_title(one, place), line_of(one["line"]), f"j{place}",
                                     times)}
                for place, one in enumerate(answer["jobs"])]
        left = max(0, len(busy) - _MOST_TARGETS)
        known_from = first.began if first and first.began - since > first.every_s else None
    return _page(visit, name, who, (since, ends), "", whole=whole,
                 targets=[one for one in targets if one], left=left, idle=idle,
                 jobs=[one for one in jobs if one["figure"]], known_from=known_from)


def _page(visit: Visit, name: str, who: dict[str, Any], times: tuple[float, float], why: str,
          known_from: float | None = None, **values: Any) -> PageAnswer:
    q, (since, until) = visit.query, times
    at = {"since": f"uts{int(since)}", "until": f"uts{int(until)}"}
    return visit.page(
        "file_system.html", one_line(visit.labels.get(name, name))[:60], "fs", who=who, name=name,
        why=why, q={"since": q.text("since"), "until": q.text("until")},
        spans=[(words, q.link(since=text, until=None),
                q.text("since", _DEFAULT_SPAN) == text and not q.text("until"))
               for words, text in _SPANS],
        about=f"From {span_text(since, until)}, as the storage servers counted it" + (
            f"; it is known from {moment_text(known_from)} on." if known_from else "."),
        links=[("Load now", address(f"{visit.base}/now", fs=name)),
               ("Events in this period", address(f"{visit.base}/events", fs=name, **at)),
               ("Jobs in this period", address(f"{visit.base}/jobs", sort="-WriteBytes", **at)),
               *([("Nodes in this period", address(f"{visit.base}/nodes", fs=name, **at))]
                 if who["all"] else [])],
        **{"whole": None, "targets": [], "jobs": [], "left": 0, "idle": [], **values})


def _job_title(one: Mapping[str, Any], place: int) -> str:
    if not one["job"]:
        return f"A job of another user ({place + 1})"
    if one["job"] == _NO_JOB:
        return _NO_JOB
    return f"Job {one['job']}" + (f" of {one['user']}" if one["user"] else "")


def _is_busy(line: Line | None) -> bool:
    """Whether anything was done in it."""
    return line is not None and any(any(line.amounts.get(metric) or ()) for metric, *_ in _PANELS)


def figure_of(title: str, line: Line | None, ident: str,
              times: tuple[float, float]) -> dict[str, Any] | None:
    """A figure for the template, from and until `times`; None where nothing is known."""
    since, until = times
    count = 0 if line is None else length_of(line)
    if line is None or not count:
        return None
    panels = []
    there = [one for one in _PANELS if line.amounts.get(one[0]) is not None]
    for metric, words, kind, unit in [one for one in there if any(line.amounts[one[0]])] or there:
        panels.append(Panel(words, unit, [Curve(words.lower(), kind, rates(line, metric))],
                            has_lower_bounds(line)))
    latency = latency_panel(line, "Mean time of a request")
    panels += [latency] if latency else []
    if not panels:
        return None
    axis = TimeAxis(line.began - since, line.every_s, count, since, 0.0, until - since)
    chart = Chart(title=one_line(title), axis=axis, panels=panels, about=(
        f"Rates as the storage servers counted them, in intervals of {line.every_s:g} s; a gap is "
        f"a time of which nothing is known."))
    headings, rows, rest = as_table.rows_of(chart)
    return {"ident": ident, "title": chart.title, "svg": Markup(svg.inline(chart, ident)),
            "remarks": svg.remarks(chart), "headings": headings, "rows": rows, "rest": rest}
