"""
The tables of a new store are those that its version describes; an older one is upgraded, or stays
as it is.
"""
from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from processes import REPOSITORY
from site_store import KEY, add, bodies
from test_job_totals import llite, totals
from trees import report

from iostats.base.errors import StateError
from iostats.store import schema
from iostats.store.database import is_url
from iostats.store.record_store import Store

_NEXT = '''
from alembic import op
import sqlalchemy
revision, down_revision = "{revision}", "{before}"
def upgrade():
    op.add_column("reports", sqlalchemy.Column("size", sqlalchemy.BigInteger))
    op.execute("UPDATE reports SET size = 23")
    {more}
'''
_REVISION = schema.REVISION
_NEXT_REVISION = f"{int(_REVISION) + 1:04}"


def version_of(connection):
    return connection.execute("SELECT version_num FROM alembic_version").fetchall()


@pytest.fixture
def next_release(monkeypatch, tmp_path):
    """next_release(more): the next release, whose migration ends with this statement."""
    def install(more="pass"):
        found = tmp_path / "migrations 100%"
        (found / "versions").mkdir(parents=True, exist_ok=True)
        for path in Path(schema.__file__).parent.glob("migrations/**/*.py"):
            (found / path.relative_to(Path(schema.__file__).parent / "migrations")).write_bytes(
                path.read_bytes())
        (found / "versions" / f"v{_NEXT_REVISION}_next.py").write_text(_NEXT.format(
            more=more, revision=_NEXT_REVISION, before=_REVISION))
        monkeypatch.setattr(schema, "MIGRATIONS", str(found))
        monkeypatch.setattr(schema, "REVISION", _NEXT_REVISION)
    return install


def test_the_newest_migration_is_the_version_of_new_stores():
    config = Config()
    config.set_main_option("script_location", schema.MIGRATIONS)
    assert [schema.REVISION] == ScriptDirectory.from_config(config).get_heads()


def test_a_store_of_the_release_before_is_upgraded_once(store_address, next_release):
    """Its rows are there, with what the migration adds."""
    store = Store(store_address)
    add(store)
    store.commit()
    store.close()
    next_release()
    for _ in range(2):
        store = Store(store_address)
        assert [(_NEXT_REVISION,)] == version_of(store.connection)
        assert [(23,)] == store.rows("SELECT size FROM reports")
        assert [b"body"] == bodies(store.reports(KEY))
        store.close()


def test_a_migration_that_fails_leaves_the_old_store(store_address, next_release):
    """A full disk, for one: all of it, or nothing; the next try succeeds."""
    store = Store(store_address)
    add(store)
    store.commit()
    store.close()
    next_release("op.execute('INSERT INTO reports SELECT * FROM no_table')")
    with pytest.raises(StateError, match=r"cannot be opened: .*no_table"):
        Store(store_address)
    next_release()
    store = Store(store_address)
    assert [(23,)] == store.rows("SELECT size FROM reports")
    store.close()


def test_a_store_of_a_newer_release_is_left_as_it_is(store_address, next_release, monkeypatch):
    Store(store_address).close()
    next_release()
    Store(store_address).close()
    monkeypatch.undo()
    with pytest.raises(StateError, match=rf"expected a store of version {_REVISION} or older, got "
                       rf"version {_NEXT_REVISION}, of a newer release; name another in site\.cfg"):
        Store(store_address)


def test_a_kill_while_a_store_is_upgraded_leaves_the_old_one(store_address, next_release):
    Store(store_address).close()
    next_release("import os; os.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", (
        "import sys; from iostats.store import schema, record_store; "
        "schema.REVISION = sys.argv[3]; schema.MIGRATIONS = sys.argv[1]; "
        "record_store.Store(sys.argv[2])"), schema.MIGRATIONS,
        store_address, _NEXT_REVISION], cwd=REPOSITORY, timeout=60)
    assert -9 == done.returncode
    next_release()
    store = Store(store_address)
    assert [(_NEXT_REVISION,)] == version_of(store.connection)
    store.close()


def columns_of(store):
    """{table or view: its columns, sorted}."""
    if isinstance(store.connection, sqlite3.Connection):
        names = [name for name, in store.rows(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        return {name: sorted(row[1:4] for row in store.rows(f"PRAGMA table_info({name})"))
                for name in names}
    found = {}
    for name, *column in store.rows(
            "SELECT table_name, column_name, data_type, is_nullable, collation_name "
            "FROM information_schema.columns WHERE table_schema = current_schema()"):
        found.setdefault(name, []).append(column)
    return {name: sorted(columns, key=str) for name, columns in found.items()}


def test_a_store_of_the_first_release_becomes_one_of_this_release(store_address, tmp_path,
                                                                  request):
    """Records have their amounts by file system, events of before no target."""
    record = totals(report("nid00001", [llite(read_bytes=23)])).record()
    engine, connect = "sqlite", sqlite3.connect
    if is_url(store_address):
        import psycopg
        engine, connect = "postgresql", psycopg.connect
    text = (Path(__file__).parent / f"release_0001.{engine}.sql").read_text()
    connection = connect(store_address)
    for sql in (*text.split(";\n")[:-1], "INSERT INTO alembic_version VALUES ('0001')",
                "INSERT INTO events VALUES (23, 37, 0, 0, 0, 1, 'evicted', 'scratch', '')"):
        connection.execute(sql)
    mark = "%s" if engine == "postgresql" else "?"
    for job, body in (("4711", zlib.compress(json.dumps(record).encode())), ("4712", b"damaged")):
        connection.execute("INSERT INTO jobs (cluster, job, attempt, about, first, record) VALUES "
                           f"('eiger', '{job}', 0, '', 0, {mark})", (body,))
    connection.commit()
    connection.close()
    store = Store(store_address)
    assert [("4711", "scratch", "nodes")] == store.rows(
        "SELECT raw_job_id, file_system, source FROM site_job_file_systems")
    assert [("evicted", None)] == store.rows("SELECT kind, target FROM site_events")
    upgraded = columns_of(store)
    store.close()
    new = Store(request.getfixturevalue("postgresql").database() if engine == "postgresql" else
                str(tmp_path / "new.sqlite"))
    assert columns_of(new) == upgraded
    new.close()
