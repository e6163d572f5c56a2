"""
The pages of nodes: what each did, by the filters of `iostats nodes`, and which are not connected.
"""

from __future__ import annotations

import time

from markupsafe import Markup

from iostats.base.errors import UsageError
from iostats.base.node_list import expanded
from iostats.base.units import count_text, moment_text
from iostats.report import node_fields, node_list, nodes_down
from iostats.report.listing import NUMBERS, NumberForm
from iostats.web.asking import PageError, form_checked
from iostats.web.cells import Heading, cut_text, linked, named, rows
from iostats.web.layout import heads, span_text
from iostats.web.query import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.web.layout import PageAnswer
    from iostats.web.pages import Visit
    from iostats.web.query import PageQuery

LIMITS = (50, 100, 500, 1000, 5000)
_COLUMNS = (("Node", 2), ("FileSystems", 0), ("ReadBytes", 2), ("WriteBytes", 2), ("Reads", 1),
            ("Writes", 1), ("OSTOps", 0), ("MDTOps", 1), ("Requests", 0))
_TITLES = {"FileSystems": "File systems", "ReadBytes": "Read", "WriteBytes": "Written",
           "OSTOps": "OST operations", "MDTOps": "MDT operations"}
_DOWN = (("Node", 2), ("FileSystem", 1), ("Targets", 2), ("Since", 1), ("Down", 2), ("State", 2),
         ("Why", 2))
_DOWN_TITLES = {"FileSystem": "File system", "Down": "Down for"}
_LONGEST_LIST = 20_000


def nodes(visit: Visit) -> PageAnswer:
    """The page of /nodes, or of /nodes/down."""
    if visit.rest == "down":
        return _down(visit)
    if visit.rest:
        raise PageError(404, "there is no such page")
    q, who = visit.query, visit.who()
    if not who["all"]:
        raise PageError(403, "a node's numbers include every user's I/O, so only staff can open "
                             "this page; your jobs' nodes are on each job's page")
    limit = q.number("limit", 100, LIMITS[-1])
    question = _question(q, time.time(), limit)
    try:
        answer = visit.ask("nodes", question)
    except PageError as error:
        if error.status != 403:
            raise
        return visit.page(                      # such as: no storage server tells of clients
            "nodes.html", "Nodes", "nodes", who=who, rows="", count=0, headings=[], notes=[],
            q=_shown(q, limit), limits=[(one, f"{one:,}") for one in LIMITS], about=str(error),
            first_link="", next_link="")
    with form_checked("a list of nodes"):
        found = answer["nodes"]
        headings = _headings(q, question)
        table = rows(headings, _node_rows(found, visit, question))
        notes = list(node_list.notes(found, None))
        since, until, count = answer["since"], answer["until"], answer["count"]
        following = answer["next"]
    return visit.page(
        "nodes.html", "Nodes", "nodes", who=who, rows=table, count=len(found),
        headings=heads(headings), q=_shown(q, limit), limits=[(one, f"{one:,}") for one in LIMITS],
        about=f"{count_text(count, 'active node')} from "
              f"{span_text(since, until)}" + (f"; {question['after'] + 1:,} to "
                                              f"{question['after'] + len(found):,} are shown"
                                              if len(found) < count else "") + ".",
        notes=notes, first_link=q.link(after=None, until=None) if question["after"] else "",
        next_link="" if following is None else q.link(after=following, until=_uts(until)))


def _shown(q: PageQuery, limit: int) -> dict[str, Any]:
    return {"since": q.text("since"), "until": q.text("until"), "fs": q.text("fs"),
            "nodes": q.text("nodes", longest=_LONGEST_LIST), "sort": q.text("sort"),
            "each_fs": q.flag("each_fs"), "limit": limit, "values": bool(q.values)}


def _uts(seconds: float) -> str:
    return f"uts{int(seconds)}"


def _question(q: PageQuery, now: float, limit: int) -> dict[str, Any]:
    """The params of the site server's `nodes`; UsageError."""
    sort, descending = node_fields.TABLE.sort_of(q.text("sort", "-Requests"), "sort")
    if sort not in node_fields.SORTED_BY:
        raise UsageError(f"sort: expected {', '.join(node_fields.SORTED_BY)}, got {sort}")
    since, until = q.moments(now, "today")
    return {"since": max(0.0, since or 0.0), "until": until, "nodes": node_names(q),
            "file_system": q.text("fs"), "apart": q.flag("each_fs"), "sort": sort,
            "descending": descending, "count": min(limit, node_fields.MOST_ROWS),
            "after": q.number("after", 0, 2**31, 0)}


def node_names(q: PageQuery, name: str = "nodes") -> list[str]:
    """[node or NID] of node lists; UsageError."""
    found: dict[str, None] = {}
    for word in q.text(name, longest=_LONGEST_LIST).split():
        try:
            # Not by ClusterShell: it has no bound, and asks this machine's commands for "*".
            some = ([one for one in word.split(",") if one] if "@" in word
                    else expanded(word, node_fields.MOST_NODES))
        except ValueError as error:
            raise UsageError(f"{name}: expected a node list such as nid[001-004],login1, got "
                             f"{word[:40]!r}: {str(error)[:80]}") from None
        found.update(dict.fromkeys(some))
        if len(found) > node_fields.MOST_NODES:
            raise UsageError(f"{name}: expected up to {node_fields.MOST_NODES:,} nodes, got more")
    for one in found:
        if len(one) > 256:
            raise UsageError(f"{name}: expected names of up to 256 characters, got {one[:40]!r}")
    return list(found)


def _headings(q: PageQuery, question: dict[str, Any]) -> list[Heading]:
    found = []
    for column, keep in _COLUMNS:
        field = node_fields.TABLE.field_of(column, "a column")
        is_number = field.kind in NUMBERS
        link, order = "", ""
        if field.name in node_fields.SORTED_BY:
            link, order = q.sort_link(field, question["sort"], question["descending"], is_number)
        found.append(Heading(_TITLES.get(column, column), field.help, link, order, is_number,
                             keep))
    return found


def _node_rows(found: list[dict[str, Any]], visit: Visit,
               question: dict[str, Any]) -> list[list[Markup]]:
    fields = [node_fields.TABLE.field_of(name, "a column") for name, _ in _COLUMNS]
    how = NumberForm(visit.units)
    since = _uts(question["since"])
    until = None if question["until"] is None else _uts(question["until"])
    table = []
    for row in found:
        row = {**row, "file_systems": [visit.labels.get(one, one) for one in row["file_systems"]]}
        table.append([cut_text(node_list.cell(row, field, how)) if field.kind != "text" else
                      linked(node_list.cell(row, field, how), address(
                          f"{visit.base}/events", node=row["node"], since=since, until=until))
                      for field in fields])
    return table


def _down(visit: Visit) -> PageAnswer:
    """The page of /nodes/down."""
    q, who = visit.query, visit.who()
    if not who["all"]:
        raise PageError(403, "this page lists all nodes of the cluster, so only staff can open it")
    since, _ = q.moments(time.time(), None)
    sort, descending = nodes_down.TABLE.sort_of(q.text("sort", "-Since"), "sort")
    if sort not in nodes_down.SORTED_BY:
        raise UsageError(f"sort: expected {', '.join(nodes_down.SORTED_BY)}, got {sort}")
    answer = visit.ask("events_status", {
        "nodes": node_names(q), "since": since, "file_systems": q.words("fs", 100)})
    with form_checked("who is connected"):
        found = nodes_down.rows_of(answer)
        found.sort(key=lambda row: row[sort], reverse=descending)
        headings = _down_headings(q, sort, descending)
        fields = [nodes_down.TABLE.field_of(name, "a column") for name, _ in _DOWN]
        shown = found[:LIMITS[-1]]
        table = rows(headings, [[_down_cell(row, field, visit) for field in fields]
                                for row in shown])
        notes = list(nodes_down.notes(answer, None))
        began = answer["since"]
    return visit.page(
        "nodes_down.html", "Nodes that are not connected", "nodes", who=who, rows=table,
        count=len(shown), headings=heads(headings), notes=notes, q=_shown(q, 0),
        about=f"{count_text(len(found), 'connection')} lost since {moment_text(began)} "
              f"and not known to be back.")


def _down_cell(row: dict[str, Any], field: Any, visit: Visit) -> str:
    text = nodes_down.cell(row, field)
    if field.name == "node":
        return linked(text, address(f"{visit.base}/events", node=row["node"],
                                    since=_uts(max(0.0, row["since"] - 60))))
    return named(text, 120) if field.name == "why" else cut_text(text)


def _down_headings(q: PageQuery, sort: str, descending: bool) -> list[Heading]:
    found = []
    for column, keep in _DOWN:
        field = nodes_down.TABLE.field_of(column, "a column")
        link, order = "", ""
        if field.name in nodes_down.SORTED_BY:
            link, order = q.sort_link(field, sort, descending, False)
        found.append(Heading(_DOWN_TITLES.get(column, column), field.help, link, order, False,
                             keep, column == "Why"))
    return found
