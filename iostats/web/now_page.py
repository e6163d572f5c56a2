"""
The page of now: who loads the file systems, as `iostats top`; live with JavaScript.

    /now        the page; without JavaScript it is loaded again by itself
    /now/part   what changes on it, which a script puts into the page
    /now/live   the same as a stream of events (live.py)
"""

from __future__ import annotations

from markupsafe import Markup

from iostats.base.errors import UsageError
from iostats.base.units import duration_in_words, moment_text
from iostats.load import levels, table
from iostats.load.amounts import LATENCY, METRICS, SHOWN, SORT
from iostats.web.asking import PageError, form_checked
from iostats.web.cells import Heading, linked, named, rows
from iostats.web.layout import HTML, PRIVATE, PageAnswer, heads
from iostats.web.query import PageQuery, address, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.load.columns import TextColumn
    from iostats.web.pages import Visit

COUNTS = (25, 50, 100, 500)
_NAMES = ("by", "sort", "fs", "user", "text", "show", "count")
_TITLES = {"WR": "Written", "RD": "Read", "REQS": "Requests", "META": "Metadata", "FS":
           "File system", "OSS/MDS": "Storage server", "MS/REQ": "ms a request", "JOB": "Job",
           "USER": "User", "NAME": "Name", "NODES": "Nodes", "JOBS": "Jobs", "TARGETS": "Targets",
           "NODE": "Node", "TARGET": "Target", "NO JOB": "No job", "SWEPT": "Swept"}


def now(visit: Visit) -> PageAnswer:
    """The page of /now, or of /now/part."""
    if visit.rest not in ("", "part"):
        raise PageError(404, "there is no such page")
    q = canonical(visit.query)
    if visit.rest == "part":
        return PageAnswer(200, HTML, part(visit, q).encode(), PRIVATE)
    who, question = visit.who(), question_of(q)
    try:
        shown, why = part(visit, q), ""
    except PageError as error:
        if error.status != 403 or (question["user"] and not who["all"]):
            raise
        shown, why = "", str(error)             # such as: no sweep is complete yet
    return visit.page(
        "now.html", "Now", "now", who=who, part=Markup(shown), why=why,
        by=[(level.words, q.link(by=level.option_name, sort=None), level.name == question["by"])
            for level in levels.OF_TOP],
        every=visit.config["web.every"], live=f"{visit.base}/now/live{_behind(q)}",
        part_at=f"{visit.base}/now/part{_behind(q)}", counts=[(one, f"{one}") for one in COUNTS],
        q={name: q.text(name) for name in _NAMES} | {"count": question["count"],
                                                     "values": bool(q.values)}, shown=SHOWN)


def canonical(q: PageQuery) -> PageQuery:
    """The query with the parameters of this page alone, in one order: equal ones are one."""
    found = PageQuery("")
    found.values = {name: q.values[name] for name in _NAMES if name in q.values}
    return found


def _behind(q: PageQuery) -> str:
    return q.link() if q.values else ""


def question_of(q: PageQuery) -> dict[str, Any]:
    """The params of the site server's `load`; UsageError."""
    by = q.one_of("by", [name for level in levels.OF_TOP for name in (level.option_name,
                                                                      level.name)], "job")
    [name] = {level.name for level in levels.OF_TOP if by in (level.option_name, level.name)}
    show = q.words("show", len(SHOWN))
    for one in show:
        if one not in SHOWN:
            raise UsageError(f"show: expected some of {', '.join(SHOWN)}, got {one[:40]!r}")
    return {"by": name, "file_system": q.text("fs"), "user": q.text("user"), "text": q.text("text"),
            "sort": q.one_of("sort", (*SORT, *show), "write"), "show": show,
            "count": q.number("count", COUNTS[0], COUNTS[-1])}


def part(visit: Visit, q: PageQuery) -> str:
    """The part of the page that changes; PageError, UsageError."""
    question = question_of(q)
    answer = visit.shared("load", question)
    with form_checked("who loads the file systems"):
        columns, sums, shown, notes = table.grid(answer, visit.units, visit.labels)
        headings = _headings(columns, q, question)
        count = len(sums) + len(shown)
        cells = [[column.cells[place] for column in columns] for place in range(count)]
        for place, row in enumerate(shown, len(sums)):
            cells[place] = _linked(cells[place], columns, row, question, visit)
        body = rows(headings, [[named(cell) if not hasattr(cell, "__html__") else cell
                                for cell in row] for row in cells],
                    dict.fromkeys(range(len(sums)), "sum"))
        title = _title(answer, headings)
    return visit.part("now_part.html", title=title, headings=heads(headings), rows=body,
                      count=count, notes=notes, is_old=bool(answer.get("is_old")))


def _title(answer: dict[str, Any], headings: list[Heading]) -> str:
    """The line above the table: when, how old, over how long, and the order."""
    words = [moment_text(answer["at"])]
    ages = [duration_in_words(answer[name]) for name in ("newest_reading_s", "oldest_reading_s")
            if answer.get(name) is not None]
    if ages:
        words.append(f"sampled {' to '.join(dict.fromkeys(ages))} ago")
    if answer["kind"] == levels.RATES:
        words.append(f"averages over {answer['span_s']:.{0 if answer['span_s'] >= 10 else 1}f} s")
    else:
        words.append(f"totals since {moment_text(answer['began'], unknown='the entries began')}")
    words += [f"sorted by {one.title}" for one in headings if one.sorted]
    return ", ".join(words) + "."


def _headings(columns: list[TextColumn], q: PageQuery,
              question: dict[str, Any]) -> list[Heading]:
    found = []
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
            order = "descending" if question["sort"] == sort else ""
        keep = 2 if not place or column.metric in (
            "write_bytes", "read_bytes", *question["show"]) else (
            1 if column.metric or column.title in ("USER", "NAME") else 0)
        found.append(Heading(title, "milliseconds that a storage server took for a request, on "
                             "average" if column.metric == LATENCY else "", link, order,
                             column.right, keep))
    return found


def _linked(cells: list[str], columns: list[TextColumn], row: dict[str, Any],
            question: dict[str, Any], visit: Visit) -> list[str]:
    """The cells of a row with links to what they name."""
    base, found = visit.base, list(cells)
    by = question["by"]
    if by == "job" and row.get("is_job"):
        found[0] = linked(cells[0], f"{base}/job/{segment(row['job'])}")
    elif by == "user" and row.get("user"):
        found[0] = linked(cells[0], address(f"{base}/jobs", user=row["user"]))
    elif by == "node" and row.get("node"):
        found[0] = linked(cells[0], address(f"{base}/events", node=row["node"]))
    elif by in ("server", "target") and cells[0]:
        found[0] = linked(cells[0], address(
            f"{base}/events", **({"node": row["server"]} if by == "server" else
                                 {"target": f"{row['file_system']}-{row['target']}"})))
    for place, column in enumerate(columns):
        if column.title == "FS" and row.get("file_system"):
            found[place] = linked(cells[place], f"{base}/fs/{segment(row['file_system'])}")
        elif column.title == "USER" and place and row.get("is_job") and row.get("user"):
            found[place] = linked(cells[place], address(f"{base}/jobs", user=row["user"]))
    if by == "fs":
        found[0] = linked(cells[0], f"{base}/fs/{segment(row['file_system'])}")
    return found
