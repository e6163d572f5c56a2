"""
The Grafana dashboard of the store: each SQL statement is run in a real PostgreSQL, by a role that
may read the views alone, with Grafana's macros replaced as its PostgreSQL source does.
"""
from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from events_messages import event
from site_store import NOON, add, reported_and_recorded
from trees import ROOT

from iostats.lustre.capacity import Capacity
from iostats.report.job_summary import FileSystemSummary, Summary, TargetSummary
from iostats.store.capacity_store import CapacityStore
from iostats.store.client_store import ClientStore
from iostats.store.event_store import EventStore
from iostats.store.record_store import Key, Store
from iostats.store.views import VIEWS

_DASHBOARD = json.loads((ROOT / "dashboards/site-store.json").read_text(encoding="utf-8"))
_EPOCH = datetime(1970, 1, 1)
_HOUR = NOON // 3600 * 3600
_SINCE, _UNTIL = NOON - 86_400, NOON + 86_400
_MACROS = {
    r"\$__unixEpochFilter\((\w+)\)": rf"\1 >= {_SINCE:.0f} AND \1 <= {_UNTIL:.0f}",
    r"\$__timeFilter\((\w+)\)": r"\1 BETWEEN '{}' AND '{}'".format(*(
        datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for at in (_SINCE, _UNTIL))),
    r"\$__unixEpochGroupAlias\((\w+), \$__interval\)": r'floor((\1)/3600)*3600 AS "time"',
    r"\$__timeGroupAlias\((\w+), \$__interval\)":
        r'floor(extract(epoch from \1)/3600)*3600 AS "time"',
    r"\$\{(?:user|account):sqlstring\}": "'.*'", r"\$top\b": "10"}


@pytest.fixture(scope="module")
def answers(postgresql):
    """{title of a panel: (column names, rows)}."""
    import psycopg
    url = postgresql.database()
    store = Store(url)
    for job, user, account, over, read_bytes, written, low in (
            ("23", "alice", "a1", NOON, 1009, 2003, 0), ("37", "bob", "a2", NOON, 41, 53, 1),
            ("41", "bob", "a2", NOON - 3600, None, 97, 0),
            ("43", "carol", "a3", NOON - 90_000, 59, 61, 0)):       # before the selected time
        key = Key("eiger", job, 0)
        add(store, key, user=user)
        reported_and_recorded(
            store, key, user=user,
            file_systems=[FileSystemSummary("scratch", "nodes", read_bytes, written, 3, 5, 7, 0)],
            targets=[TargetSummary("scratch", "OST0003", read_bytes, written, 0, None, None, None,
                                   0)],
            summary=Summary(account=account, name="run", nodes=4, elapsed_s=1800.0,
                            started=over - 1800, ended=over, began=over - 1800, over=over,
                            read_bytes=read_bytes, write_bytes=written, lower_bound=low))
    ClientStore(store).store_node_hours([
        ("scratch", _HOUR, "10.0.0.11@o2ib", "node11", 23, 37, 41, 43, 5, 7, 0)])
    events = EventStore(store, 100)
    events.add_events([event("23", count=3, at=NOON), event("37", kind="lbug", at=NOON)])
    CapacityStore(store).add([("scratch-OST0003", 23, NOON, Capacity(1000, 590, 550, 37, 7))], 100)
    store.commit()
    store.close()
    role = "iostats_test_grafana"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT SELECT ON {', '.join(view.name for view in VIEWS)} TO {role}")
    found = {}
    with psycopg.connect(url, user=role, autocommit=True) as grafana:
        for panel in _DASHBOARD["panels"]:
            [target] = panel["targets"]
            sql = target["rawSql"]
            for macro, text in _MACROS.items():
                sql = re.sub(macro, text, sql)
            assert "$" not in sql, sql
            cursor = grafana.execute(sql)
            found[panel["title"]] = [column.name for column in cursor.description], [
                tuple(map(_simplify, row)) for row in cursor.fetchall()]
    return found


def _simplify(value):
    """A Decimal as a number, a timestamp as seconds since 1970."""
    if isinstance(value, datetime):
        return (value - _EPOCH) / timedelta(seconds=1)
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.postgresql
@pytest.mark.parametrize("title, rows", [
    ("Jobs, and those whose bytes may be too low", [(3, 2)]),
    ("Bytes of these jobs", [(1050, 2153)]),
    ("Node hours", [(6.0,)]),
    ("Written by account", [(_HOUR - 3600, "a2", 97), (_HOUR, "a1", 2003), (_HOUR, "a2", 53)]),
    ("Read by account", [(_HOUR - 3600, "a2", None), (_HOUR, "a1", 1009), (_HOUR, "a2", 41)]),
    ("Accounts and users", [("a1", "alice", 1, 2.0, 1009, 2003, 0), ("a2", "bob", 2, 4.0, 41, 150,
                                                                    2)]),
    ("Jobs that wrote most", [("23", "alice", "run", NOON, 4, 2003, False, ""),
                              ("41", "bob", "run", NOON - 3600, 4, 97, False, ""),
                              ("37", "bob", "run", NOON, 4, 53, True, "")]),
    ("File systems", [("scratch", 3, 1050, 2153, 9)]),
    ("Targets that these jobs wrote to most", [("scratch-OST0003", 3, 2153)]),
    ("Nodes that wrote most", [("node11", "scratch", 41, 43)]),
    ("Events by kind", [(_HOUR, "evicted", 3), (_HOUR, "lbug", 1)]),
    ("Used space of targets", [(NOON, "scratch-OST0003", 41)])],
    ids=[panel["title"] for panel in _DASHBOARD["panels"]])
def test_a_panel_has_the_numbers_of_the_selected_time(answers, title, rows):
    assert rows == answers[title][1]


@pytest.mark.postgresql
def test_each_panel_is_tested_and_a_time_series_has_a_time_and_a_name(answers):
    for panel in _DASHBOARD["panels"]:
        columns = answers[panel["title"]][0]
        assert (panel["targets"][0]["format"] == "time_series") == (
            columns[:2] == ["time", "metric"]), panel["title"]
