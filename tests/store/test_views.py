"""
The views for queries by SQL: the examples of docs/reference/views.md, on both engines.
"""
from __future__ import annotations

import re

import pytest
from events_messages import event
from site_store import NOON, add, reported_and_recorded
from trees import ROOT

from iostats.cli import store as command
from iostats.lustre.capacity import Capacity
from iostats.report.job_summary import (
    NOT_LUSTRE,
    FileSystemSummary,
    Summary,
    TargetSummary,
    make_bits,
)
from iostats.store.capacity_store import CapacityStore
from iostats.store.client_store import ClientStore
from iostats.store.event_store import EventStore
from iostats.store.record_store import Key
from iostats.store.views import VIEWS

PAGE = (ROOT / "docs/reference/views.md").read_text()
_MONTH_S = 31 * 86400
HOUR = NOON // 3600 * 3600


def statement(section, number=0):
    """The SQL of an example of the page, by its section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```sql\n(.*?)```", text, re.S)[number]


def answer(store, view):
    """The rows of a view's example, with the same types from both engines."""
    return [tuple(str(value) if hasattr(value, "isoformat") else
                  int(value) if value is not None and not isinstance(value, (str, float)) else value
                  for value in row) for row in store.rows(statement(view))]


def keep(store, job, user, over=NOON, file_systems=(), **values):
    """A job with a report of nid00007."""
    key = Key("eiger", job, 0)
    add(store, key, node="nid00007", user=user)
    reported_and_recorded(store, key, user=user, file_systems=[
        FileSystemSummary(*row) for row in file_systems], summary=Summary(
            started=over - values.get("elapsed_s", 60), ended=over, over=over, began=over,
            **values))


def test_jobs_of_a_month_by_account_and_user(store):
    """A sum of the known numbers, and for how many jobs it is too low."""
    keep(store, "23", "alice", account="a1", nodes=4, elapsed_s=3600.0, write_bytes=1009)
    keep(store, "37", "alice", account="a1", nodes=2, elapsed_s=1800.0, write_bytes=41,
         lower_bound=4)
    keep(store, "41", "bob", account="a2", over=NOON - _MONTH_S, nodes=1, elapsed_s=60.0,
         write_bytes=53)
    keep(store, "43", "bob", account="a2", nodes=8, elapsed_s=900.0, lower_bound=8, write_bytes=59)
    keep(store, "47", "bob", account="a2", nodes=8, elapsed_s=900.0)
    assert [("2026-11", "a1", "alice", 2, 5.0, 1050, 1),
            ("2026-11", "a2", "bob", 2, 4.0, 59, 1)] == answer(store, "site_jobs")


@pytest.mark.parametrize("bits, marks", [
    (0, (0, 0, 0, 0)), (1, (1, 1, 0, 1)), (2, (1, 0, 0, 0)), (4, (0, 1, 0, 0)), (8, (0, 0, 1, 0)),
    (9, (1, 1, 1, 1))])
def test_each_mark_is_of_its_own_number(store, bits, marks):
    keep(store, "23", "alice", lower_bound=bits)
    [row] = store.rows("SELECT read_bytes_too_low, write_bytes_too_low, write_bytes_too_high, "
                       "calls_too_low FROM site_jobs")
    assert marks == tuple(map(int, row))


@pytest.mark.parametrize("name", NOT_LUSTRE)
def test_what_is_not_lustres_has_its_own_marks(store, name):
    """Of a job with 23 bytes, at least, of the one, and at most of the other direction."""
    beside = name.replace("read", "other").replace("write", "read").replace("other", "write")
    keep(store, "23", "alice", lower_bound=make_bits([name], [beside]), **{name: 23})
    [row] = store.rows(f"SELECT {name}, {name}_too_low, {name}_too_high, {beside}_too_low, "
                       f"{beside}_too_high, read_bytes_too_low FROM site_jobs")
    assert (23, 1, 0, 0, 1, 0) == tuple(map(int, row))


def test_a_run_that_was_started_again_is_not_the_last_one(store):
    for attempt in (0, 1):
        reported_and_recorded(store, Key("eiger", "23", attempt))
    assert [(0, 0), (1, 1)] == [tuple(map(int, row)) for row in store.rows(
        "SELECT restarts, is_last_run FROM site_jobs ORDER BY restarts")]


def test_a_time_that_no_timestamp_can_be_is_null(store):
    """Not an error of the whole query."""
    keep(store, "23", "alice", over=1e300)
    keep(store, "37", "alice")
    assert [(None, 1e300), ("2026-11-21 01:37:40", NOON)] == [
        (ended if ended is None else str(ended), last_seen_s) for ended, last_seen_s in store.rows(
            "SELECT ended, last_seen_s FROM site_jobs ORDER BY job_id")]


def test_amounts_by_file_system(store):
    """Of the last record of a run, and removed with it."""
    keep(store, "23", "alice", file_systems=[("home", "nodes", 1, 2, 3, 4, 5, 0),
                                             ("scratch", "nodes", 23, 37, 41, 43, 47, 0)])
    keep(store, "23", "alice", file_systems=[("scratch", "nodes", 23, 1009, 41, 43, 47, 0)])
    keep(store, "37", "bob", file_systems=[("scratch", "servers", 23, 2003, 5, None, 47, 1)])
    keep(store, "43", "bob", file_systems=[("scratch", "servers", 23, 31, 6, None, 47, 0)])
    assert [("bob", 2034, 11), ("alice", 1009, 41)] == answer(store, "site_job_file_systems")
    store.delete_expired(NOON + 1, NOON + 1)
    assert [] == store.rows("SELECT * FROM job_file_systems")


def test_jobs_with_most_bytes_on_a_target(store):
    """As the target counted them, or else the nodes; removed with the record."""
    for job, user, targets in (
            ("23", "alice", [("scratch", "OST0003", 23, 37, 0, 41, 43, 5, 0),
                             ("scratch", "OST0007", 1009, 0, 0, None, None, None, 0),
                             ("home", "OST0003", 1009, 0, 0, None, None, None, 0)]),
            ("37", "bob", [("scratch", "OST0003", 47, 53, 1, None, None, None, 0)])):
        reported_and_recorded(store, Key("eiger", job, 0), user=user, targets=[
            TargetSummary(*row) for row in targets])
    assert [("37", "bob", 100), ("23", "alice", 84)] == answer(store, "site_job_targets")
    assert [(0, 1)] == [tuple(map(int, row)) for row in store.rows(
        "SELECT server_too_low, net_bytes_too_low FROM site_job_targets WHERE raw_job_id = '37'")]
    store.delete_expired(NOON + 1, NOON + 1)
    assert [] == store.rows("SELECT * FROM job_targets")


def test_nodes_that_wrote_most_in_an_hour(store):
    """A row of an hour that is made again takes the place of the first."""
    hours = ClientStore(store)
    for amount in (10**9, 2 * 10**9):
        hours.store_node_hours([
            ("scratch", HOUR, "10.0.0.11@o2ib", "node11", 23, 37, amount + 41, amount + 43, 5, 7,
             1),
            ("scratch", HOUR, "10.0.0.13@o2ib", "node13", 0, 0, 47, 47, 0, 0, 0)])
    hours.store_node_hours([("home", HOUR + 3600, "10.0.0.13@o2ib", "node13", 0, 0, 10**9 + 53,
                             10**9 + 53, 0, 0, 0)])
    assert [("2026-11-21 02:00:00", "node13", "home", 10**9 + 53, 10**9 + 53, 0),
            ("2026-11-21 01:00:00", "node11", "scratch", 2 * 10**9 + 41, 2 * 10**9 + 43, 1)] == (
        answer(store, "site_node_hours"))


def test_jobs_of_a_node(store):
    keep(store, "23", "alice", elapsed_s=3600.0)
    keep(store, "37", "bob", over=NOON - 60.0)
    reported_and_recorded(store, Key("eiger", "41", 0))                 # on nid00001
    assert [("23", "alice", "2026-11-21 00:37:40", "2026-11-21 01:37:40"),
            ("37", "bob", "2026-11-21 01:35:40", "2026-11-21 01:36:40")] == (
        answer(store, "site_job_nodes"))


def test_evictions_by_target(store):
    """An event that grew is there once."""
    events = EventStore(store, 100)
    events.add_events([event("23", count=3, at=NOON - 41), event("37", target="scratch-OST0007")])
    store.commit()
    events.add_events([event("23", count=41, at=NOON - 41, last=NOON), event("43", kind="lbug")])
    store.commit()
    assert [("scratch-OST0003", 1, 41, "2026-11-21 01:37:40"),
            ("scratch-OST0007", 1, 1, "2026-11-21 01:36:59")] == answer(store, "site_events")
    assert [("fatal", "oss1")] == store.rows(
        "SELECT severity, node FROM site_events WHERE kind = 'lbug'")


def test_the_fullest_hour_of_each_target(store):
    capacities = CapacityStore(store)
    for hour, free in ((23, 630), (24, 590), (25, 770)):
        capacities.add([("scratch-OST0003", hour, NOON, Capacity(1000, free, free - 50, 37, 7)),
                        ("home-MDT0000", hour, NOON, Capacity(1000, 901, 900, 37, 7))], 100)
    store.commit()
    assert [("scratch", "scratch-OST0003", 41), ("home", "home-MDT0000", 9)] == (
        answer(store, "site_capacity"))


@pytest.mark.postgresql
def test_a_role_with_rights_on_views_reads_nothing_else(postgresql, monkeypatch):
    """As the page grants them: the views, no table; users their own jobs."""
    import psycopg

    from iostats.store.record_store import Store
    url = postgresql.database()
    store = Store(url)
    keep(store, "23", "alice")
    keep(store, "37", "iostats_test_bob")
    store.close()
    role = "iostats_test_analyst"
    with psycopg.connect(url, autocommit=True) as owner:
        for number in (0, 1):
            for sql in statement("Who may read them", number).split(";\n"):
                if sql.strip():
                    owner.execute(sql.replace("analyst", role))
        owner.execute("CREATE ROLE iostats_test_bob LOGIN")
    with psycopg.connect(url, user=role, autocommit=True) as analyst:
        for view in VIEWS:
            analyst.execute(f"SELECT * FROM {view.name}")
        for sql in ("SELECT * FROM summaries", "DELETE FROM site_capacity",
                    "CREATE VIEW mine AS SELECT record FROM jobs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                analyst.execute(sql)
    with psycopg.connect(url, user="iostats_test_bob") as bob:
        assert [("37",)] == bob.execute("SELECT job_id FROM own_jobs").fetchall()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute("SELECT * FROM site_jobs")


@pytest.mark.postgresql
def test_each_column_has_a_comment_in_postgresql(postgresql):
    import psycopg

    from iostats.store.record_store import Store
    url = postgresql.database()
    Store(url).close()
    with psycopg.connect(url) as connection:
        for view in VIEWS:
            found = connection.execute(
                "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
                "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum", (view.name,))
            assert [(column.name, column.comment) for column in view.columns] == found.fetchall()


def test_the_command_lists_the_views(capsys):
    assert 0 == command.main(["views"])
    out = capsys.readouterr().out
    assert "\nsite_capacity: one row for each target and hour, of the last week\n" in out
    assert "  occurrences             how often it happened" in out
