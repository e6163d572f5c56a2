"""
The Grafana dashboard's form: what Grafana's own schema asks of it (grafana/grafana,
kinds/dashboard/dashboard_kind.cue), that it names no data source of ours, and that its links are
pages of `iostats web`.  What its queries give is in test_dashboard.py.
"""
from __future__ import annotations

import json
import re
from itertools import combinations
from urllib.parse import urlsplit

import pytest
from trees import ROOT

from iostats.base.config import Config

DASHBOARD = json.loads((ROOT / "dashboards" / "lustre-jobs.json").read_text(encoding="utf-8"))
PANELS = DASHBOARD["panels"]
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF_GRAFANA = {"__rate_interval", "__range", "__field", "__value", "__all"}


def inside(value, path=()):
    """(path, value) of all that is in a value of JSON."""
    yield path, value
    for key, one in (value.items() if isinstance(value, dict)
                     else enumerate(value) if isinstance(value, list) else ()):
        yield from inside(one, (*path, key))


def is_of(value, **members):
    """Whether a value is an object with members of these types, or with these very values."""
    return isinstance(value, dict) and all(
        type(value.get(name)) is kind if isinstance(kind, type) else value.get(name) in kind
        for name, kind in members.items())


def test_the_dashboard_is_of_the_schema():
    """Types and ranges of its own members."""
    assert is_of(DASHBOARD, uid=str, title=str, description=str, editable=bool, version=int,
                 schemaVersion=int, panels=list, links=list, tags=list, graphTooltip=(0, 1, 2),
                 timezone=("browser", "utc"))
    assert 36 <= DASHBOARD["schemaVersion"] < 1 << 16 and 8 <= len(DASHBOARD["uid"]) <= 40
    assert re.fullmatch(r"\d+[smhd]", DASHBOARD["refresh"])
    assert {"from": "now-6h", "to": "now"} == DASHBOARD["time"]


def test_panels_have_places_of_their_own():
    """On a grid of 24 columns; each below the heading of its row."""
    assert len(PANELS) == len({panel["id"] for panel in PANELS})
    cells = {}
    for panel in PANELS:
        assert is_of(panel, id=int, type=("stat", "timeseries", "table", "row"), title=str,
                     gridPos=dict)
        place = panel["gridPos"]
        assert 0 < place["w"] and 0 <= place["x"] and place["x"] + place["w"] <= 24
        assert 0 < place["h"] and 0 <= place["y"]
        cells[panel["id"]] = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                              for y in range(place["y"], place["y"] + place["h"])}
    assert [] == [(a, b) for a, b in combinations(cells, 2) if cells[a] & cells[b]]
    # No hole, so that Grafana moves none.
    assert len(set().union(*cells.values())) == 24 * (1 + max(y for _, y in set().union(
        *cells.values())))
    rows = [panel for panel in PANELS if panel["type"] == "row"]
    assert ["File systems", "Jobs", "Nodes", "Events"] == [row["title"] for row in rows]
    assert all(row["panels"] == [] and row["collapsed"] is False for row in rows)
    assert [panel["gridPos"]["y"] for panel in PANELS] == sorted(
        panel["gridPos"]["y"] for panel in PANELS)


def test_all_data_are_asked_of_the_source_that_is_chosen():
    """In panels, their queries, variables and annotations; no other uid is in it."""
    sources = [value for path, value in inside(DASHBOARD) if path and path[-1] == "datasource"]
    assert 40 < len(sources) and all(one == SOURCE for one in sources)
    assert {DASHBOARD["uid"], SOURCE["uid"]} == {
        value for path, value in inside(DASHBOARD) if path and path[-1] == "uid"}
    for panel in PANELS:
        if panel["type"] == "row":
            continue
        letters = [one["refId"] for one in panel["targets"]]
        assert letters == [*"ABCDEF"[:len(letters)]] and letters
        assert all(is_of(one, expr=str, datasource=dict) for one in panel["targets"])
        assert panel["datasource"] == SOURCE


def test_panels_are_of_the_schema():
    """Thresholds begin with all that is lower; transformations and overrides have an id."""
    for path, value in inside(DASHBOARD):
        if path and path[-1] == "steps":
            values = [one.get("value") for one in value]
            assert values[0] is None and values[1:] == sorted(values[1:])
            assert all(type(one["color"]) is str for one in value)
        if path and path[-1] == "transformations":
            assert all(is_of(one, id=str, options=dict) for one in value)
        if path and path[-1] == "overrides":
            assert all(is_of(one, matcher=dict, properties=list) and all(
                is_of(two, id=str) and "value" in two for two in one["properties"])
                for one in value)


def test_variables_are_of_the_schema_and_each_is_used():
    """And none is used that is not there."""
    assert ["datasource", "cluster", "fs", "job", "user", "node", "top", "web"] == list(VARIABLES)
    for one in VARIABLES.values():
        assert is_of(one, name=str, label=str, query=dict if one["type"] == "query" else str,
                     type=("datasource", "query", "textbox", "custom"))
        if one["type"] == "custom":
            assert one["query"].split(",") == [option["value"] for option in one["options"]]
            assert [one["current"]["value"]] == [option["value"] for option in one["options"]
                                                 if option["selected"]]
    text = "\n".join(value for path, value in inside(DASHBOARD) if isinstance(value, str))
    used = set(re.findall(r"\$\{?([A-Za-z_]+)", text))
    assert set(VARIABLES) | OF_GRAFANA == used


def test_annotations_are_of_the_schema():
    """Events, from either sink."""
    for one in DASHBOARD["annotations"]["list"]:
        assert is_of(one, name=str, enable=bool, hide=bool, iconColor=str, expr=str)


# -- links -----------------------------------------------------------------------------------------

def links():
    """(title of the panel, labels of its series, link) of all links to pages."""
    for one in DASHBOARD["links"]:
        yield "", set(), one
    for panel in PANELS:
        labels = [set(re.findall(r"\w+", by)) for target in panel.get("targets", ())
                  for by in re.findall(r"by \(([^)]*)\)", target["expr"])]
        for path, value in inside(panel):
            if path and path[-1] == "links":
                yield from ((panel["title"], set.intersection(*labels), one) for one in value)
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            for one in override["properties"]:
                if one["id"] == "links":
                    for link in one["value"]:
                        yield panel["title"], {override["matcher"]["options"]}, link


def test_dashboard_links_are_of_the_schema():
    """All members are asked for."""
    assert DASHBOARD["links"] and all(is_of(
        one, title=str, type=("link",), icon=str, tooltip=str, url=str, tags=list, asDropdown=bool,
        targetBlank=bool, includeVars=bool, keepTime=bool) for one in DASHBOARD["links"])


@pytest.fixture(scope="module")
def routes():
    from iostats.web.asgi import page_routes
    from iostats.web.pages import Pages
    return page_routes(Pages(Config()))


@pytest.mark.parametrize("title, labels, link", list(links()))
def test_a_link_is_to_a_page_of_iostats_web(routes, title, labels, link):
    """By its path, its parameters, and labels that the series have; each of them encoded."""
    assert is_of(link, title=str, url=str, targetBlank=bool)
    assert link["url"].startswith("${web}/")
    filled = link["url"].removeprefix("${web}")
    for name in re.findall(r"\$\{__field\.labels\.(\w+)", link["url"] + link["title"]):
        assert name in labels, (title, name)
    filled = re.sub(r"\$\{(__field\.labels\.\w+|__value\.raw):percentencode\}", "a%20b", filled)
    assert "$" not in filled
    found = urlsplit(filled)
    [names] = [scope["path_params"] for how, scope in (
        route.matches({"type": "http", "method": "GET", "path": found.path}) for route in routes)
        if how.name == "FULL"]
    of_page = found.path.split("/")[1]
    assert list(names.values()) == (["a%20b"] if of_page in ("job", "fs") else [])
    for name in re.findall(r"(\w+)=", found.query):
        template = ROOT / "iostats" / "web" / "templates" / f"{of_page}.html"
        assert f'form.text("{name}"' in template.read_text(), (of_page, name)


def test_every_panel_of_jobs_users_nodes_and_file_systems_has_links():
    """What a series is of can be opened."""
    linked = {title for title, _, _ in links()}
    assert linked == {"", "Write rate by file system", "Read rate by file system",
                      "Share of requests without a job", "Write rate by job", "Read rate by job",
                      "Operations by job", "Write rate by user", "Top jobs", "Write rate by node",
                      "Read rate by node", "Operations by node", "Top nodes"}
