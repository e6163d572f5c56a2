"""
The tables of the site's store, and the upgrade of a store that an older release has made.

    jobs      one row for each run of a job: (cluster, job, attempt)
    reports   one row for each report: (cluster, job, attempt, node, seq)
    damaged_reports     reports that could not be read, put aside
    clock     one row: the store's own time, store_clock.py; `first` and `due` are in it

job_index.py has the table `summaries`; harvest_store.py says what those of the harvest are for,
run_store.py those of runs, clients/client_store.py those of clients, events/event_store.py those
of events, lines/line_store.py those of time lines.
"""

from __future__ import annotations

import logging
import zlib

import msgspec

from iostats.base.errors import StateError
from iostats.report.job_summary import summary_of
from iostats.site import job_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger("iostats")

VERSION = 2                     # 1: without summaries, and without the harvest
_MAKE = """
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
_MAKE_HARVEST = """
CREATE TABLE agents (node TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE targets (
    file_system TEXT NOT NULL, target TEXT NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (file_system, target));
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY, file_system TEXT NOT NULL, target TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX blocks_target ON blocks (file_system, target);
CREATE TABLE lives (job TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE harvests (job TEXT PRIMARY KEY, made REAL NOT NULL, body BLOB NOT NULL);
CREATE INDEX harvests_made ON harvests (made);
"""

# Added to version 2 later: made where they are missing.
_MAKE_MORE = """
CREATE TABLE IF NOT EXISTS damaged_reports (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    node TEXT NOT NULL, seq TEXT NOT NULL, body BLOB, why TEXT NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq));
CREATE TABLE IF NOT EXISTS clock (
    one INTEGER PRIMARY KEY CHECK (one = 1), passed REAL NOT NULL, wall REAL NOT NULL,
    boot_id TEXT NOT NULL, up REAL NOT NULL);
CREATE TABLE IF NOT EXISTS job_runs (
    job TEXT NOT NULL, started REAL NOT NULL, body BLOB NOT NULL, PRIMARY KEY (job, started));
CREATE TABLE IF NOT EXISTS job_lists (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS by_node (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL, made REAL NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (cluster, job, attempt));
CREATE INDEX IF NOT EXISTS by_node_made ON by_node (made);
CREATE TABLE IF NOT EXISTS client_nids (
    file_system TEXT NOT NULL, number INTEGER NOT NULL, nid TEXT NOT NULL,
    PRIMARY KEY (file_system, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS client_sources (
    node TEXT NOT NULL, file_system TEXT NOT NULL, kind TEXT NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (node, file_system, kind));
CREATE TABLE IF NOT EXISTS client_blocks (
    id INTEGER PRIMARY KEY, node TEXT NOT NULL, file_system TEXT NOT NULL, kind TEXT NOT NULL,
    body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS client_blocks_source ON client_blocks (node, file_system, kind);
CREATE TABLE IF NOT EXISTS client_gains (
    id INTEGER PRIMARY KEY, file_system TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL,
    made REAL NOT NULL, merged INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS client_gains_until ON client_gains (file_system, until, since);
CREATE INDEX IF NOT EXISTS client_gains_made ON client_gains (merged, made);
CREATE TABLE IF NOT EXISTS client_losses (
    id INTEGER PRIMARY KEY, file_system TEXT NOT NULL, node TEXT NOT NULL, target TEXT NOT NULL,
    nid TEXT NOT NULL, why TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL,
    made REAL NOT NULL);
CREATE INDEX IF NOT EXISTS client_losses_until ON client_losses (file_system, until, since);
CREATE INDEX IF NOT EXISTS client_losses_same ON client_losses (
    file_system, node, target, nid, why);
CREATE TABLE IF NOT EXISTS events (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, made REAL NOT NULL,
    time REAL NOT NULL, ended REAL NOT NULL, severity INTEGER NOT NULL, kind TEXT NOT NULL,
    file_system TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events_numbering (
    one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, dropped INTEGER NOT NULL,
    dropped_until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS events_nids (nid TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events_tellers (
    node TEXT PRIMARY KEY, heard REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS line_parts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file_system TEXT NOT NULL, target TEXT NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS line_folds (
    one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS job_lines (
    job TEXT NOT NULL, file_system TEXT NOT NULL, fold INTEGER NOT NULL, made REAL NOT NULL,
    thinned INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (job, file_system));
CREATE INDEX IF NOT EXISTS job_lines_made ON job_lines (thinned, made);
CREATE TABLE IF NOT EXISTS target_lines (
    id INTEGER PRIMARY KEY, file_system TEXT NOT NULL, target TEXT NOT NULL, since REAL NOT NULL,
    until REAL NOT NULL, made REAL NOT NULL, thinned INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS target_lines_since ON target_lines (file_system, target, since, until);
CREATE INDEX IF NOT EXISTS target_lines_made ON target_lines (thinned, made);
CREATE INDEX IF NOT EXISTS jobs_unclosed ON jobs (first) WHERE due IS NULL AND NOT closed;
CREATE INDEX IF NOT EXISTS jobs_closed ON jobs (first) WHERE closed
"""


def make(connection: sqlite3.Connection) -> None:
    """Put all tables into a new file."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (_MAKE + job_index.MAKE + _MAKE_HARVEST + _MAKE_MORE).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def upgrade(connection: sqlite3.Connection, path: str) -> None:
    """
    Give a store of version 1 what it lacks, in the caller's transaction; StateError for a file that
    is no store of ours.
    """
    version, = connection.execute("PRAGMA user_version").fetchone()
    if version not in (1, VERSION):
        what = f"version {version}, of another release" if version else "tables of another program"
        raise StateError(f"{path}: expected a store of version {VERSION}, got {what}; name another "
                         f"in site.cfg, [site] store")
    if version != VERSION:
        for statement in (job_index.MAKE + _MAKE_HARVEST).split(";"):
            connection.execute(statement)
        _summarize(connection, path)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _MAKE_MORE.split(";"):
        connection.execute(statement)
    there = {name for _, name, *_ in connection.execute("PRAGMA table_info(summaries)")}
    for name, kind in job_index.ADDED.items():
        if name not in there:
            connection.execute(f"ALTER TABLE summaries ADD COLUMN {name} {kind}")


def _summarize(connection: sqlite3.Connection, path: str) -> None:
    """Make the summaries of all records, as version 1 has none."""
    made = damaged = 0
    for *key, record in connection.execute(
            "SELECT cluster, job, attempt, record FROM jobs WHERE made IS NOT NULL"):
        try:
            summary = summary_of(msgspec.json.decode(zlib.decompress(record)))
        except (zlib.error, msgspec.DecodeError, LookupError, TypeError, AttributeError):
            damaged += 1
            continue
        connection.execute(job_index.PUT, job_index.values_to_put(key, summary))
        made += 1
    if made or damaged:
        log.info("%s: now of version %s: %s records", path, VERSION, made)
    if damaged:
        log.warning("%s: %s records are damaged: `iostats jobs` does not list them", path, damaged)
