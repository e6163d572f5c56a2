"""
Reports and records to put into a store, and what is found there.
"""
from __future__ import annotations

import contextlib
import sqlite3

from iostats.report.job_summary import Summary
from iostats.store.job_index import JobsParams
from iostats.store.record_store import Key

NOON = 1_795_225_060.0
DAY = 86400.0
KEY = Key("eiger", "4711", 0)
NO_SUMMARY = Summary()
_ROOM = 5000                                # bytes in a full store of PostgreSQL


def add(store, key=KEY, node="nid00001", seq="23", body=b"body", about=b"about", user="alice",
        now=NOON, due=NOON + 60):
    """A report; True if it is new."""
    return store.add(key, node, seq, body, about, user, now, due)


def keep_record(store, key=KEY, record=b"record", made=NOON, shown_as=None, whole="", user="alice",
                summary=NO_SUMMARY, file_systems=(), targets=()):
    """The record of a job that has reported."""
    store.store_records([(key, record, key.job if shown_as is None else shown_as, whole, user, made,
                         summary, file_systems, targets)])


def reported_and_recorded(store, key, made=NOON, text=None, **how):
    """A job with one report, and its record."""
    add(store, key, now=made)
    keep_record(store, key, (text or f"{key.job}#{key.attempt}").encode(), made, **how)


def bodies(reports):
    """[bytes] of StoredReports."""
    return [one.body for one in reports]


def found(store, **question):
    """Jobs as users call them, in the order in which they are listed."""
    rows, after = store.listed(JobsParams(**question))
    assert after is None
    return [row["job_id"] for row in rows]


def fill_up(store):
    """
    Let the store grow no more, as on a full disk: SQLite's own limit; with PostgreSQL, the error
    of its disk after some more bytes.
    """
    if isinstance(store.connection, sqlite3.Connection):
        [(pages,)] = store.rows("PRAGMA page_count")
        store.rows(f"PRAGMA max_page_count = {pages}")
        return
    import psycopg
    execute, left = type(store.connection).execute, [_ROOM]

    def full(sql, values=()):
        size = sum(len(value) for value in values if isinstance(value, bytes))
        left[0] -= size
        if size and left[0] < 0:
            with contextlib.suppress(psycopg.Error):
                store.connection.driver.execute("SELECT 1 / 0")     # the transaction has failed
            raise psycopg.errors.DiskFull("database or disk is full")
        return execute(store.connection, sql, values)

    def all_full(sql, rows):
        for values in rows:
            full(sql, values)
    store.connection.execute, store.connection.executemany = full, all_full


def make_room(store):
    """The store may grow again."""
    if isinstance(store.connection, sqlite3.Connection):
        store.rows("PRAGMA max_page_count = 1000000")
    else:
        del store.connection.execute, store.connection.executemany
