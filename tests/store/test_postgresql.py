"""
What is special to a store in PostgreSQL: its URL, its lock, and a connection that is lost.
"""
from __future__ import annotations

import os
import random

import psycopg
import pytest
from postgresql import inside
from processes import TinyDisk, until
from site_desk import SiteDesk
from site_store import KEY, add, bodies

from iostats.base.errors import StateError
from iostats.store.record_store import Store
from iostats.store.write_errors import ConnectionLost

pytestmark = pytest.mark.postgresql


@pytest.fixture
def url(postgresql):
    """The URL of a new database."""
    return postgresql.database()


def end_sessions(postgresql, url):
    """As when PostgreSQL, or the network to it, goes away."""
    name = url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(postgresql.url("postgres"), autocommit=True) as connection:
        ended = connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                   "WHERE datname = %s", (name,)).fetchall()
    assert [(True,)] == ended


def test_no_password_is_shown():
    """Not in a message either."""
    url = "postgresql://iostats:geheim@127.0.0.1:1/site?connect_timeout=2"
    with pytest.raises(StateError, match=r"^postgresql://iostats@127\.0\.0\.1:1/site\?connect_timeo"
                       r"ut=2: cannot be opened: .*refused") as raised:
        Store(url)
    assert "geheim" not in str(raised.value) and "\n" not in str(raised.value)


def test_a_database_without_unicode_is_refused_at_once(postgresql):
    """psycopg returns bytes from it: its tables were made, and at the second start made again."""
    with psycopg.connect(postgresql.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
                           "TEMPLATE template0")
    with pytest.raises(StateError, match="expected a database with the encoding UTF8, got "
                                         "SQL_ASCII: CREATE DATABASE"):
        Store(postgresql.url("ascii"))


def test_what_was_acknowledged_is_there_after_the_connection_was_lost(postgresql, url):
    """No change and no question is answered before the store is opened again."""
    store = Store(url)
    add(store, seq="23")
    store.commit()
    add(store, seq="37")
    end_sessions(postgresql, url)
    with pytest.raises(ConnectionLost, match=r"cannot be written: .*the server ends"):
        store.commit()
    with pytest.raises(StateError, match=r"cannot be (written|read): "):
        add(store, seq="41")
    store.close()
    store = Store(url)
    assert [b"body"] == bodies(store.reports(KEY))
    store.close()


def test_after_a_statement_that_failed_nothing_is_committed(url):
    """PostgreSQL answers such a COMMIT with a rollback and no error."""
    store = Store(url)
    add(store)
    with pytest.raises(StateError, match=r"cannot be read: .*no_table"):
        store.rows("SELECT * FROM no_table")
    with pytest.raises(StateError, match="cannot be written: a statement before has failed"):
        store.commit()
    assert [] == bodies(store.reports(KEY))
    assert add(store)
    store.commit()
    assert [b"body"] == bodies(store.reports(KEY))
    store.close()


def test_a_sites_server_ends_with_its_connection_and_starts_again(postgresql, url, tmp_path):
    """systemd starts a server that has ended with status 1; reports are there."""
    with SiteDesk(tmp_path) as desk:
        desk.configure(site_store=url)
        server = desk.site()
        end_sessions(postgresql, url)
        until(lambda: server.process.poll() is not None, what="the end of the server")
        assert 1 == server.process.returncode
        assert "iostats: postgresql://iostats@/" in server.err
        assert "Traceback" not in server.err
        desk.site()


@pytest.mark.root
def test_on_a_full_disk_nothing_is_acknowledged_until_there_is_room(postgresql):
    """A tablespace on a file system that is really full (SQLSTATE 53100)."""
    if os.geteuid():
        pytest.skip("needs root")
    disk = TinyDisk(postgresql.top / "small", "32m")
    try:
        owner = os.stat(postgresql.top)
        os.chown(disk.path, owner.st_uid, owner.st_gid)
        with psycopg.connect(postgresql.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{inside(disk.path)}'")
            connection.execute("CREATE DATABASE small TEMPLATE template0 TABLESPACE small")
        store, stored, chance = Store(postgresql.url("small")), [], random.Random(23)

        def commit(count):
            """Store reports of 40,000 bytes that cannot be compressed."""
            for _ in range(count):
                seq = f"{len(stored):03}"
                body = seq.encode() + chance.randbytes(40_000)
                add(store, seq=seq, body=body)
                store.commit()
                stored.append(body)
        disk.fill(but=1_000_000)
        with pytest.raises(StateError, match=r"cannot be written: .*No space left on device"
                           ) as raised:
            commit(100)
        assert "\n" not in str(raised.value)
        with pytest.raises(StateError, match="No space left on device"):
            commit(1)
        assert 10 < len(stored) < 30 and stored == bodies(store.reports(KEY))
        disk.calm()
        commit(23)
        assert stored == bodies(store.reports(KEY))
        store.close()
        with psycopg.connect(postgresql.url("postgres"), autocommit=True) as connection:
            connection.execute("DROP DATABASE small")
            connection.execute("DROP TABLESPACE small")
    finally:
        disk.close()
