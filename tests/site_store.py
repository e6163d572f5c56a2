"""
Reports and records to put into a store, and what is found there.
"""
from __future__ import annotations

from iostats.report.job_summary import Summary
from iostats.site.job_index import JobsParams
from iostats.site.store import Key

NOON = 1_795_225_060.0
DAY = 86400.0
KEY = Key("eiger", "4711", 0)
NO_SUMMARY = Summary()


def add(store, key=KEY, node="nid00001", seq="23", body=b"body", about=b"about", user="alice",
        now=NOON, due=NOON + 60):
    """A report; True if it is new."""
    return store.add(key, node, seq, body, about, user, now, due)


def keep_record(store, key=KEY, record=b"record", made=NOON, shown_as=None, whole="", user="alice",
                summary=NO_SUMMARY):
    """The record of a job that has reported."""
    store.keep_records([(key, record, key.job if shown_as is None else shown_as, whole, user, made,
                         summary)])


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
    """Let the file grow no more, as on a full disk; SQLite's own limit."""
    [(pages,)] = store.rows("PRAGMA page_count")
    store.rows(f"PRAGMA max_page_count = {pages}")


def make_room(store):
    """The file may grow again."""
    store.rows("PRAGMA max_page_count = 1000000")
