"""
A store of an older release gets the tables of this one, or stays as it is.
"""
from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import zlib

import pytest
from processes import REPOSITORY
from site_store import NOON, found

from iostats.base.errors import StateError
from iostats.site.job_index import ADDED, JobsParams
from iostats.site.store import Key, Store

# The store of the first release, as it made it.
VERSION_1 = """
CREATE TABLE jobs (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    shown_as TEXT NOT NULL DEFAULT '', whole TEXT NOT NULL DEFAULT '',
    user TEXT NOT NULL DEFAULT '', about BLOB NOT NULL,
    first REAL NOT NULL, due REAL, made REAL, closed INTEGER NOT NULL DEFAULT 0,
    shown INTEGER NOT NULL DEFAULT 0, record BLOB,
    PRIMARY KEY (cluster, job, attempt)) WITHOUT ROWID;
CREATE INDEX jobs_job ON jobs (job);
CREATE INDEX jobs_shown ON jobs (shown_as);
CREATE INDEX jobs_whole ON jobs (whole);
CREATE INDEX jobs_made ON jobs (made);
CREATE INDEX jobs_user ON jobs (user, made);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_first ON jobs (first);
CREATE TABLE reports (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    node TEXT NOT NULL, seq TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)) WITHOUT ROWID;
"""


def a_record(job, reads):
    """A record as the first release wrote it, as far as a summary looks."""
    return json.dumps({
        "job": {"id": job, "user": "alice", "started": NOON, "ended": NOON + 37.0,
                "elapsed_s": 37.0, "attempt": 0},
        "batch": {"account": "proj23", "partition": "normal", "name": "solve",
                  "outcome": "FAILED", "exit_status": 7, "exit_signal": 0},
        "coverage": {"expected": 1, "reported": 1, "shared": {}},
        "file_systems": [{"name": "scratch", "network": None, "application": {
            "read_bytes": reads, "write_bytes": 41, "lower_bound": False},
            "operations": {"open": {"count": 23}}}]}).encode()


def version_1(path, jobs=3, wal=True):
    """Make a store of version 1: so many jobs with a record, one that waits for its own."""
    file = sqlite3.connect(path, isolation_level=None)
    if wal:
        file.execute("PRAGMA journal_mode = WAL")
    file.executescript(VERSION_1 + "PRAGMA user_version = 1")
    for number in range(jobs):
        file.execute("INSERT INTO jobs (cluster, job, attempt, shown_as, user, about, first, made, "
                     "record) VALUES ('eiger', ?, 0, ?, 'alice', x'', ?, ?, ?)",
                     (str(4711 + number), str(4711 + number), NOON, NOON + 60,
                      zlib.compress(a_record(str(4711 + number), 37 + number))))
    file.execute("INSERT INTO jobs (cluster, job, attempt, about, first, due) VALUES "
                 "('eiger', '9000', 0, x'61', ?, ?)", (NOON, NOON + 60))
    file.execute("INSERT INTO reports VALUES ('eiger', '9000', 0, 'nid1', 's', ?)",
                 (zlib.compress(b"body"),))
    file.close()


def schema(path):
    file = sqlite3.connect(path)
    try:
        return sorted(file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    finally:
        file.close()


def test_a_store_of_version_1_is_upgraded(store_path, tmp_path):
    """All rows are kept, and each record has a summary; the tables are those of a new store."""
    version_1(store_path)
    store = Store(store_path)
    rows, _ = store.listed(JobsParams())
    assert [("4711", 37), ("4712", 38), ("4713", 39)] == [
        (row["job_id"], row["read_bytes"]) for row in rows]
    assert ("solve", "FAILED", "7:0", 37.0, 41, 23, "alice", ["scratch"]) == tuple(
        rows[0][name] for name in ("name", "outcome", "exit_code", "elapsed_s", "write_bytes",
                                   "opens", "user", "file_systems"))
    assert [a_record("4712", 38)] == list(store.records("4712"))
    assert [Key("eiger", "9000", 0)] == [one.key for one in store.open_jobs()]
    assert [b"body"] == [one.body for one in store.reports(Key("eiger", "9000", 0))]
    store.close()
    Store(str(tmp_path / "new")).close()
    assert schema(str(tmp_path / "new")) == schema(store_path)
    store = Store(store_path)
    assert ["4711", "4712", "4713"] == found(store)
    store.close()


def test_a_damaged_record_does_not_stop_the_upgrade(store_path, caplog):
    """It is not listed; to read it is the same error as before."""
    version_1(store_path)
    file = sqlite3.connect(store_path)
    file.execute("UPDATE jobs SET record = x'00' WHERE job = '4712'")
    file.execute("UPDATE jobs SET record = ? WHERE job = '4713'", (zlib.compress(b'{"job": 1}'),))
    file.commit()
    file.close()
    store = Store(store_path)
    assert ["4711"] == found(store)
    assert f"{store_path}: 2 records are damaged: `iostats jobs` does not list them" in caplog.text
    with pytest.raises(StateError, match="is damaged"):
        list(store.records("4712"))
    store.close()


def test_an_upgrade_on_a_full_disk_leaves_the_old_store(store_path, monkeypatch):
    """One line of error; the next try succeeds."""
    version_1(store_path, 300)
    before = schema(store_path)

    class Full(sqlite3.Connection):
        """One whose file may not grow by more than nine pages."""
        def execute(self, sql, *values):
            if "CREATE TABLE summaries" in sql:
                pages, = super().execute("PRAGMA page_count").fetchone()
                super().execute(f"PRAGMA max_page_count = {pages + 9}")
            return super().execute(sql, *values)
    with monkeypatch.context() as patched:
        connect = sqlite3.connect
        patched.setattr(sqlite3, "connect", lambda *a, **how: connect(*a, factory=Full, **how))
        with pytest.raises(StateError, match="cannot be opened: database or disk is full"):
            Store(store_path)
    assert before == schema(store_path)
    store = Store(store_path)
    assert 300 == len(found(store))
    store.close()


_KILLED = """
import os, signal, sqlite3, sys
from iostats.site.store import Store
path, at = sys.argv[1], int(sys.argv[2])
left = [at]
class Killed(sqlite3.Connection):
    def execute(self, sql, *values):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        found = super().execute(sql, *values)
        return found
connect = sqlite3.connect
sqlite3.connect = lambda *a, **how: connect(*a, factory=Killed, **how)
Store(path).close()
print(at - left[0])
"""


@pytest.mark.parametrize("wal", [True, False], ids=["with a journal", "before the first report"])
def test_a_kill_during_the_upgrade_leaves_one_version_or_the_other(
        tmp_path, wal):
    """kill -9 before every statement: version 1 unchanged, or version 2 with all summaries."""
    def run(path, at):
        return subprocess.run([sys.executable, "-c", _KILLED, path, str(at)], cwd=REPOSITORY,
                              capture_output=True, text=True, timeout=60)
    whole = str(tmp_path / "whole")
    version_1(whole, wal=wal)
    statements = int(run(whole, 10**6).stdout)
    assert statements > 20
    seen = set()
    for at in range(0, statements):
        path = str(tmp_path / f"at {at}")
        version_1(path, wal=wal)
        before = schema(path)
        assert -signal.SIGKILL == run(path, at).returncode
        file = sqlite3.connect(path)
        version, = file.execute("PRAGMA user_version").fetchone()
        file.close()
        seen.add(version)
        assert (before if version == 1 else schema(whole)) == schema(path)
        store = Store(path)
        assert ["4711", "4712", "4713"] == found(store)
        store.close()
        os.unlink(path)
    assert {1, 2} == seen


def test_a_store_of_version_2_gets_the_columns_that_came_later(tmp_path):
    """Its rows stay; what they lack is not known."""
    path = tmp_path / "site.sqlite"
    version_1(path)
    Store(str(path)).close()
    file = sqlite3.connect(path, isolation_level=None)
    for name in ADDED:
        file.execute(f"ALTER TABLE summaries DROP COLUMN {name}")
    for table in ("job_runs", "job_lists", "by_node"):
        file.execute(f"DROP TABLE {table}")
    file.close()

    store = Store(str(path))
    rows, _ = store.listed(JobsParams())
    assert [(37, None, ""), (38, None, ""), (39, None, "")] == [
        (row["read_bytes"], row["by_node_read_bytes"], row["by_node_why"]) for row in rows]
    store.close()
    assert {"job_runs", "job_lists", "by_node"} <= {name for name, _ in schema(path)}
