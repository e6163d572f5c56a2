"""
The page of the present load, as `iostats top`; live with JavaScript.

    /now        the page; without JavaScript it reloads itself
    /now/part   the changing part, which a script puts into the page
    /now/live   the same as a stream of events (live.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.responses import HTMLResponse

from iostats.base.errors import UsageError
from iostats.base.units import describe_duration, format_moment
from iostats.load import levels, table
from iostats.load.amounts import LATENCY, METRICS, SHOWN, SORT
from iostats.report.site_methods import LOAD
from iostats.web.cells import Heading, format_link, format_name, format_rows
from iostats.web.layout import PRIVATE
from iostats.web.query import PageQuery, make_address, quote_segment
from iostats.web.site_calls import PageError, check_format

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response

    from iostats.load.answer import Answer, Row
    from iostats.load.columns import TextColumn
    from iostats.web.pages import Visit

COUNTS = (25, 50, 100, 500)
_NAMES = ("by", "sort", "fs", "user", "text", "show", "count")
_TITLES = {"WR": "Written", "RD": "Read", "REQS": "Requests", "META": "Metadata", "FS":
           "File system", "OSS/MDS": "Storage server", "MS/REQ": "ms a request", "JOB": "Job",
           "USER": "User", "NAME": "Name", "NODES": "Nodes", "JOBS": "Jobs", "TARGETS": "Targets",
           "NODE": "Node", "TARGET": "Target", "NO JOB": "No job", "SWEPT": "Swept"}


def now_page(visit: Visit) -> Response:
    """The page of /now."""
    q = normalize(visit.query)
    rights, params = visit.rights(), make_params(q)
    try:
        shown, why = render_part(visit), ""
    except PageError as error:
        if error.status != 403 or (params["user"] and not rights["all"]):
            raise
        shown, why = "", str(error)             # such as: no sweep is complete yet
    return visit.page(
        "now.html", "Now", "now", rights=rights, part=Markup(shown), why=why,
        by=[(level.words, q.link(by=level.option_name, sort=None), level.name == params["by"])
            for level in levels.OF_TOP],
        every=visit.config.web.every, live=f"{visit.base}/now/live{_query_suffix(q)}",
        part_at=f"{visit.base}/now/part{_query_suffix(q)}",
        counts=[(count, f"{count}") for count in COUNTS],
        q={name: q.text(name) for name in _NAMES} | {"count": params["count"],
                                                     "values": bool(q.values)}, shown=SHOWN)


def now_part(visit: Visit) -> Response:
    """The answer to /now/part."""
    return HTMLResponse(render_part(visit), headers=PRIVATE)


def validate(visit: Visit) -> str:
    """
    Check the parameters of /now/live; return the same text for all requests of one live part;
    UsageError.
    """
    query = normalize(visit.query)
    make_params(query)
    return query.link()[1:]


def normalize(q: PageQuery) -> PageQuery:
    """
    The query with only the parameters of this page, in one order, so that equal queries are the
    same.
    """
    normalized = PageQuery("")
    normalized.values = {name: q.values[name] for name in _NAMES if name in q.values}
    return normalized


def _query_suffix(q: PageQuery) -> str:
    return q.link() if q.values else ""


def make_params(q: PageQuery) -> dict[str, object]:
    """The params of the site server's `load`; UsageError."""
    by = q.choice("by", [name for level in levels.OF_TOP for name in (level.option_name,
                                                                      level.name)], "job")
    [name] = {level.name for level in levels.OF_TOP if by in (level.option_name, level.name)}
    show = q.split_words("show", len(SHOWN))
    for column in show:
        if column not in SHOWN:
            raise UsageError(f"show: expected some of {', '.join(SHOWN)}, got {column[:40]!r}")
    return {"by": name, "file_system": q.text("fs"), "user": q.text("user"), "text": q.text("text"),
            "sort": q.choice("sort", (*SORT, *show), "write"), "show": show,
            "count": q.number("count", COUNTS[0], COUNTS[-1])}


def render_part(visit: Visit) -> str:
    """The changing part of the page; PageError, UsageError."""
    q = normalize(visit.query)
    params = make_params(q)
    answer = visit.shared(LOAD, params)
    with check_format("the load of the file systems"):
        columns, sums, shown, notes = table.make_grid(answer, visit.units, visit.labels)
        headings = _make_headings(columns, q, params)
        count = len(sums) + len(shown)
        cells = [[column.cells[place] for column in columns] for place in range(count)]
        for place, row in enumerate(shown, len(sums)):
            cells[place] = _add_links(cells[place], columns, row, params, visit)
        body = format_rows(headings, [[format_name(cell) if not hasattr(cell, "__html__") else cell
                                       for cell in row] for row in cells],
                           dict.fromkeys(range(len(sums)), "sum"))
        title = _format_title(answer, headings)
    return visit.part("now_part.html", title=title, headings=headings,
                      rows=body,
                      count=count, notes=notes, is_old=bool(answer.get("is_old")))


def _format_title(answer: Answer, headings: list[Heading]) -> str:
    """The line above the table: the time, the age of the readings, the interval, and the order."""
    words = [format_moment(answer["at"])]
    ages = [describe_duration(age_s) for age_s in (answer.get("newest_reading_s"),
                                                   answer.get("oldest_reading_s"))
            if age_s is not None]
    if ages:
        words.append(f"sampled {' to '.join(dict.fromkeys(ages))} ago")
    if answer["kind"] == levels.RATES:
        span_s = answer["span_s"] or 0.0
        words.append(f"averages over {span_s:.{0 if span_s >= 10 else 1}f} s")
    else:
        words.append(f"totals since {format_moment(answer['began'], unknown='the entries began')}")
    words += [f"sorted by {heading.title}" for heading in headings if heading.sorted]
    return ", ".join(words) + "."


def _make_headings(columns: list[TextColumn], q: PageQuery,
                   params: dict[str, Any]) -> list[Heading]:
    headings = []
    words = {METRICS[place]: word for word, place in SORT.items()}
    for place, column in enumerate(columns):
        first, _, unit = column.title.partition("_")
        first, slash, _ = first.partition("/S") if unit == "" else (first, "", "")
        title = _TITLES.get(column.title) or _TITLES.get(first, first.lower())
        if unit:
            title += f" {unit.replace('/S', '/s')}"
        elif slash:
            title += " /s"
        sort, order, link = words.get(column.metric or "", column.metric), "", ""
        if sort:
            link = q.link(sort=sort)
            order = "descending" if params["sort"] == sort else ""
        keep = 2 if not place or column.metric in (
            "write_bytes", "read_bytes", *params["show"]) else (
            1 if column.metric or column.title in ("USER", "NAME") else 0)
        headings.append(Heading(title, "a storage server's mean time for a request, in "
                                "milliseconds" if column.metric == LATENCY else "", link, order,
                                column.right, keep))
    return headings


def _add_links(cells: list[str], columns: list[TextColumn], row: Row,
               params: dict[str, Any], visit: Visit) -> list[str]:
    """The cells of a row with links to the pages of their names."""
    base, linked_cells = visit.base, list(cells)
    by = params["by"]
    if by == "job" and row.get("is_job"):
        linked_cells[0] = format_link(cells[0], f"{base}/job/{quote_segment(row['job'] or '')}")
    elif by == "user" and row.get("user"):
        linked_cells[0] = format_link(cells[0], make_address(f"{base}/jobs", user=row["user"]))
    elif by == "node" and row.get("node"):
        linked_cells[0] = format_link(cells[0], make_address(f"{base}/events", node=row["node"]))
    elif by in ("server", "target") and cells[0]:
        linked_cells[0] = format_link(cells[0], make_address(
            f"{base}/events", **({"node": row["server"]} if by == "server" else
                                 {"target": f"{row['file_system']}-{row['target']}"})))
    for place, column in enumerate(columns):
        if column.title == "FS" and row.get("file_system"):
            linked_cells[place] = format_link(cells[place],
                                              f"{base}/fs/{quote_segment(row['file_system'])}")
        elif column.title == "USER" and place and row.get("is_job") and row.get("user"):
            linked_cells[place] = format_link(cells[place],
                                              make_address(f"{base}/jobs", user=row["user"]))
    if by == "fs":
        linked_cells[0] = format_link(cells[0], f"{base}/fs/{quote_segment(row['file_system'])}")
    return linked_cells
