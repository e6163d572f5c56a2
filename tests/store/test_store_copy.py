"""
`iostats store copy`: a store moves from one engine to the other and back.
"""
from __future__ import annotations

import os
import sqlite3

import pytest
from site_store import KEY, add, bodies

from iostats.cli import store as command
from iostats.store import copy, tables
from iostats.store.database import StoreDatabase
from iostats.store.record_store import Store

TABLES = [table for table in tables.metadata.tables.values() if table.name != "alembic_version"]


def fill(address):
    """Two rows in each table (one in those that have no more), no two values alike."""
    number = 23

    def value_of(column):
        nonlocal number
        number += 7
        kind = column.type.python_type
        return f"text {number}" if kind is str else kind(number) if kind is not bytes else (
            bytes([number % 256]) * number)
    store = StoreDatabase(address)
    store.do("DELETE FROM clock")
    for table in TABLES:
        single = "one" in table.columns
        for _ in range(1 if single else 2):
            values = [1 if column.name == "one" else value_of(column) for column in table.columns]
            store.do(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(values))})", values)
    store.commit()
    store.close()


def content(address):
    """{table: its rows}."""
    store = StoreDatabase(address)
    found = {table.name: sorted(store.rows(f"SELECT * FROM {table.name}")) for table in TABLES}
    store.close()
    return found


@pytest.fixture
def old(store_path):
    """A store in SQLite with rows in each table."""
    fill(store_path)
    return store_path


@pytest.mark.postgresql
def test_a_store_goes_to_postgresql_and_back_with_each_row(old, postgresql, tmp_path, capsys):
    url, back = postgresql.database(), str(tmp_path / "back.sqlite")
    before = content(old)
    assert all(before.values())
    assert 0 == command.main(["copy", old, url])
    assert 0 == command.main(["copy", url, back])
    assert before == content(url) == content(back) == content(old)
    out = capsys.readouterr().out
    assert f"{back}: has all rows, and each was compared\n" in out and "        2 reports\n" in out


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql",
                                                           marks=pytest.mark.postgresql)])
def test_a_copy_counts_on_where_the_store_was(old, engine, request, tmp_path):
    """What is added comes behind what was copied, also where the last row was removed."""
    new = (str(tmp_path / "new.sqlite") if engine == "sqlite" else
           request.getfixturevalue("postgresql").database())
    store = StoreDatabase(old)
    store.change("DELETE FROM line_parts")
    [(fold,)] = store.rows("SELECT last FROM line_folds")
    [(block,)] = store.rows("SELECT max(id) FROM blocks")
    store.close()
    copy.copy(old, new)
    store = Store(new)
    for table in ("line_parts", "blocks"):
        store.do(f"INSERT INTO {table} (file_system, target, body) VALUES ('a', 'b', ?)", (b"c",))
    assert [(fold + 1,)] == store.rows("SELECT max(id) FROM line_parts")
    assert [(block + 1,)] == store.rows("SELECT max(id) FROM blocks")
    assert add(store)
    assert [b"body"] == bodies(store.reports(KEY))
    store.close()


def test_a_row_that_is_another_one_ends_the_copy(old, tmp_path, capsys, monkeypatch):
    """Nothing is in the new store; the next try succeeds."""
    new, added = str(tmp_path / "new.sqlite"), copy._add
    monkeypatch.setattr(copy, "_add", lambda store, table, rows: added(
        store, table, [(*row[:-1], b"cut") if table is tables.agents else row for row in rows]))
    assert 1 == command.main(["copy", old, new])
    error = capsys.readouterr().err
    assert "table agents: expected the row ('text " in error
    assert "b'cut')" in error and "nothing was copied" in error
    monkeypatch.undo()
    assert 0 == command.main(["copy", old, new])
    assert content(old) == content(new)


def test_what_cannot_be_copied_is_one_line(old, tmp_path, capsys):
    """A store that is not there, one that has rows, one that a server has open."""
    missing = str(tmp_path / "missing.sqlite")
    for (one, other), why in (((missing, old), f"{missing}: No such file or directory; expected a"),
                              ((old, old), f"{old}: another server has it open"),
                              ((old, str(tmp_path / "full.sqlite")), "expected an empty store, or "
                               "none, got one with jobs")):
        if other.endswith("full.sqlite"):
            fill(other)
        assert 1 == command.main(["copy", one, other])
        error = capsys.readouterr().err
        assert why in error and 1 == error.count("\n")
    assert not os.path.exists(missing)
    assert 2 == command.main(["copy", old])
    assert "expected two stores, OLD and NEW" in capsys.readouterr().err


def test_a_damaged_value_is_copied_within_sqlite(old, tmp_path):
    """A column of SQLite has any value."""
    file = sqlite3.connect(old)
    file.execute("UPDATE jobs SET due = 'soon'")
    file.commit()
    file.close()
    new = str(tmp_path / "new.sqlite")
    copy.copy(old, new)
    assert content(old) == content(new)
