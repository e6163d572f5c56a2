"""
The pages of nodes: each node's I/O, with the filters of `iostats nodes`, and the nodes that are not
connected.
"""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.responses import Response

from iostats.base.errors import UsageError
from iostats.base.node_list import expand_node_list
from iostats.base.units import format_count, format_moment
from iostats.report import node_list, nodes_down
from iostats.report.listing import NumberForm
from iostats.report.site_methods import EVENTS_STATUS, NODES
from iostats.web.cells import format_link, format_name, format_rows, make_headings, shorten
from iostats.web.layout import format_span
from iostats.web.query import PageQuery, make_address
from iostats.web.site_calls import PageError, check_format

if TYPE_CHECKING:
    from iostats.report.listing import Field
    from iostats.report.node_list import ListedNode, NodesQuery
    from iostats.report.nodes_down import DownRow
    from iostats.web.pages import Visit

LIMITS = (50, 100, 500, 1000, 5000)
_LIMIT_CHOICES = [(limit, f"{limit:,}") for limit in LIMITS]
_COLUMNS = (("Node", 2), ("FileSystems", 0), ("ReadBytes", 2), ("WriteBytes", 2), ("Reads", 1),
            ("Writes", 1), ("OSTOps", 0), ("MDTOps", 1), ("Requests", 0))
_TITLES = {"FileSystems": "File systems", "ReadBytes": "Read", "WriteBytes": "Written",
           "OSTOps": "OST operations", "MDTOps": "MDT operations"}
_DOWN = (("Node", 2), ("FileSystem", 1), ("Targets", 2), ("Since", 1), ("Down", 2), ("State", 2),
         ("Why", 2))
_DOWN_TITLES = {"FileSystem": "File system", "Down": "Down for"}
_MAX_LIST_LENGTH = 20_000


def nodes_page(visit: Visit) -> Response:
    """The page of /nodes."""
    q, rights = visit.query, visit.rights()
    if not rights["all"]:
        raise PageError(403, "a node's numbers include every user's I/O, so only staff can open "
                             "this page; your jobs' nodes are on each job's page")
    limit = q.number("limit", 100, LIMITS[-1])
    params = make_params(q, time.time(), limit)
    try:
        answer = visit.ask(NODES, params)
    except PageError as error:
        if error.status != 403:
            raise
        return visit.page(                      # such as: no storage server reports clients
            "nodes.html", "Nodes", "nodes", rights=rights, rows="", count=0, headings=[], notes=[],
            q=_make_form_values(q, limit), limits=_LIMIT_CHOICES, about=str(error),
            first_link="", next_link="")
    with check_format("a list of nodes"):
        node_rows = answer["nodes"]
        headings = make_headings(_COLUMNS, node_list.TABLE.find_field, _TITLES, q,
                                 (params["sort"], params["descending"]), node_list.SORTED_BY)
        table = format_rows(headings, _format_rows(node_rows, visit, params))
        notes = list(node_list.list_notes(node_rows, None))
        since, until, count = answer["since"], answer["until"], answer["count"]
        following = answer["next"]
    return visit.page(
        "nodes.html", "Nodes", "nodes", rights=rights, rows=table, count=len(node_rows),
        headings=headings, q=_make_form_values(q, limit),
        limits=_LIMIT_CHOICES,
        about=f"{format_count(count, 'active node')} from "
              f"{format_span(since, until)}" + (f"; {params['after'] + 1:,} to "
                                                f"{params['after'] + len(node_rows):,} are shown"
                                                if len(node_rows) < count else "") + ".",
        notes=notes, first_link=q.link(after=None, until=None) if params["after"] else "",
        next_link="" if following is None else q.link(after=following, until=_format_uts(until)))


def _make_form_values(q: PageQuery, limit: int) -> dict[str, Any]:
    return {"since": q.text("since"), "until": q.text("until"), "fs": q.text("fs"),
            "nodes": q.text("nodes", max_length=_MAX_LIST_LENGTH), "sort": q.text("sort"),
            "each_fs": q.flag("each_fs"), "limit": limit, "values": bool(q.values)}


def _format_uts(seconds: float) -> str:
    return f"uts{int(seconds)}"


def make_params(q: PageQuery, now: float, limit: int) -> NodesQuery:
    """The params of the site server's `nodes`; UsageError."""
    sort, descending = node_list.TABLE.parse_sort(q.text("sort", "-Requests"), "sort")
    if sort not in node_list.SORTED_BY:
        raise UsageError(f"sort: expected {', '.join(node_list.SORTED_BY)}, got {sort}")
    since, until = q.moments(now, "today")
    return {"since": max(0.0, since or 0.0), "until": until, "nodes": parse_node_names(q),
            "file_system": q.text("fs"), "apart": q.flag("each_fs"), "sort": sort,
            "descending": descending, "count": min(limit, node_list.MOST_ROWS),
            "after": q.number("after", 0, 2**31, 0)}


def parse_node_names(q: PageQuery, name: str = "nodes") -> list[str]:
    """Return [node or NID] of node lists; UsageError."""
    names: dict[str, None] = {}
    for word in q.text(name, max_length=_MAX_LIST_LENGTH).split():
        try:
            # Not by ClusterShell: it has no limit, and runs this machine's commands for "*".
            new_names = ([name for name in word.split(",") if name] if "@" in word
                         else expand_node_list(word, node_list.MOST_NODES))
        except ValueError as error:
            raise UsageError(f"{name}: expected a node list such as nid[001-004],login1, got "
                             f"{word[:40]!r}: {str(error)[:80]}") from None
        names.update(dict.fromkeys(new_names))
        if len(names) > node_list.MOST_NODES:
            raise UsageError(f"{name}: expected up to {node_list.MOST_NODES:,} nodes, got more")
    for node in names:
        if len(node) > 256:
            raise UsageError(f"{name}: expected names of up to 256 characters, got {node[:40]!r}")
    return list(names)


def _format_rows(node_rows: list[ListedNode], visit: Visit,
                 params: NodesQuery) -> list[list[Markup]]:
    fields = [node_list.TABLE.find_field(name, "a column") for name, _ in _COLUMNS]
    form = NumberForm(visit.units)
    since = _format_uts(params["since"])
    until = None if params["until"] is None else _format_uts(params["until"])
    table = []
    for row in node_rows:
        row["file_systems"] = [visit.labels.get(name, name) for name in row["file_systems"]]
        table.append([shorten(node_list.format_cell(row, field, form)) if field.kind != "text" else
                      format_link(node_list.format_cell(row, field, form), make_address(
                          f"{visit.base}/events", node=row["node"], since=since, until=until))
                      for field in fields])
    return table


def nodes_down_page(visit: Visit) -> Response:
    """The page of /nodes/down."""
    q, rights = visit.query, visit.rights()
    if not rights["all"]:
        raise PageError(403, "this page lists all nodes of the cluster, so only staff can open it")
    since, _ = q.moments(time.time(), None)
    sort, descending = nodes_down.TABLE.parse_sort(q.text("sort", "-Since"), "sort")
    if sort not in nodes_down.SORTED_BY:
        raise UsageError(f"sort: expected {', '.join(nodes_down.SORTED_BY)}, got {sort}")
    answer = visit.ask(EVENTS_STATUS, {
        "nodes": parse_node_names(q), "since": since, "file_systems": q.split_words("fs", 100)})
    with check_format("the list of connections"):
        down_rows = nodes_down.make_rows(answer)
        down_rows.sort(key=itemgetter(sort), reverse=descending)
        headings = [heading._replace(is_number=False, wraps=heading.title == "Why")
                    for heading in make_headings(_DOWN, nodes_down.TABLE.find_field, _DOWN_TITLES,
                                                 q, (sort, descending), nodes_down.SORTED_BY)]
        fields = [nodes_down.TABLE.find_field(name, "a column") for name, _ in _DOWN]
        shown = down_rows[:LIMITS[-1]]
        table = format_rows(headings, [[_format_down_cell(row, field, visit) for field in fields]
                                       for row in shown])
        notes = list(nodes_down.list_notes(answer, None))
        began = answer["since"]
    return visit.page(
        "nodes_down.html", "Nodes that are not connected", "nodes", rights=rights, rows=table,
        count=len(shown), headings=headings, notes=notes,
        q=_make_form_values(q, 0),
        about=f"{format_count(len(down_rows), 'connection')} lost since {format_moment(began)} "
              f"and not restored since, as far as is known.")


def _format_down_cell(row: DownRow, field: Field, visit: Visit) -> str:
    text = nodes_down.format_cell(row, field)
    if field.name == "node":
        return format_link(text, make_address(f"{visit.base}/events", node=row["node"],
                                              since=_format_uts(max(0.0, row["since"] - 60))))
    return format_name(text, 120) if field.name == "why" else shorten(text)
