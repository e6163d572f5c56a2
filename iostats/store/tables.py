"""
The tables of the site's store, for both engines.

Only what upgrades, copies or rebuilds a store imports this module: SQLAlchemy takes 0.3 s of CPU
to import, and statements are text that both engines understand (database.py).  A change here needs
a new file in migrations/versions, and new_store.*.sql, which tools/docs.py writes.

Table comments are what `iostats store` calls the rows; the most valuable tables are first.
"""

from __future__ import annotations

from typing import Any, ForwardRef

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_mock_engine,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from iostats.report.job_fields import BY_NODE
from iostats.report.job_summary import Summary
from iostats.store import views
from iostats.store.job_index import LONG_S

# By bytes, as SQLite compares text, whatever the language of the database is; 64 bits, which may be
# a row id in SQLite.
_TEXT = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_WHOLE = BigInteger().with_variant(Integer(), "sqlite")
_REAL: Double[float] = Double()
_BYTES = LargeBinary()
# Of the table `summaries`: each row has both times; rows were there before these texts were added.
_ALWAYS_KNOWN, _ADDED_TEXTS = ("began", "over"), ("by_node_why", "data_lost")

metadata = MetaData()


def _make_table(name: str, comment: str, *columns: Any, rowid: bool = True,
                **options: Any) -> Table:
    return Table(name, metadata, *columns, comment=comment, sqlite_with_rowid=rowid, **options)


def _make_key_columns(**types: Any) -> list[Column[Any]]:
    return [Column(name, type_, primary_key=True, autoincrement=False)
            for name, type_ in types.items()]


def _make_columns(**types: Any) -> list[Column[Any]]:
    """Make columns that always have a value."""
    return [Column(name, type_, nullable=False) for name, type_ in types.items()]


def _make_optional_columns(**types: Any) -> list[Column[Any]]:
    return [Column(name, type_) for name, type_ in types.items()]


def _make_columns_with_default(default: str, **types: Any) -> list[Column[Any]]:
    return [Column(name, type_, nullable=False, server_default=text(default))
            for name, type_ in types.items()]


def _make_run_key() -> list[Column[Any]]:
    """Return the columns of the primary key of one run of a job."""
    return _make_key_columns(cluster=_TEXT, job=_TEXT, attempt=_WHOLE)


def _make_summary_columns() -> list[Column[Any]]:
    """Make a column for each member of a Summary, by its type."""
    types: dict[str, Text | BigInteger | Double[float]] = {
        "str": _TEXT, "int": _WHOLE, "float": _REAL}
    columns: list[Column[Any]] = []
    for name, annotation in Summary.__annotations__.items():
        written = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
        kind, _, optional = str(written).partition(" | ")
        columns.append(Column(
            name, types[kind], nullable=bool(optional) and name not in _ALWAYS_KNOWN,
            server_default=text("''") if name in _ADDED_TEXTS else None))
    return columns


def _make_id_column() -> Column[Any]:
    """Make a key with consecutive numbers from the database."""
    return Column("id", _WHOLE, primary_key=True)


def _make_single_key() -> tuple[Any, ...]:
    """Make the key of a table with one row."""
    return (*_make_key_columns(one=_WHOLE), CheckConstraint("one = 1"))


def _add_index(table: Table, name: str, *columns: str, where: str | None = None) -> None:
    condition = None if where is None else text(where)
    Index(f"{table.name}_{name}", *(table.c[column] for column in columns),
          sqlite_where=condition, postgresql_where=condition)


jobs = _make_table(
    "jobs", "jobs (records, and those without one yet)", *_make_run_key(),
    *_make_columns_with_default("''", shown_as=_TEXT, whole=_TEXT, user=_TEXT),
    *_make_columns(about=_BYTES, first=_REAL), *_make_optional_columns(due=_REAL, made=_REAL),
    *_make_columns_with_default("0", closed=_WHOLE, shown=_WHOLE),
    *_make_optional_columns(record=_BYTES), rowid=False)
_add_index(jobs, "job", "job")
_add_index(jobs, "shown", "shown_as")
_add_index(jobs, "whole", "whole")
_add_index(jobs, "made", "made")
_add_index(jobs, "user", "user", "made")
_add_index(jobs, "due", "due", where="due IS NOT NULL")
_add_index(jobs, "first", "first")
_add_index(jobs, "unclosed", "first", where="due IS NULL AND closed = 0")
_add_index(jobs, "closed", "first", where="closed = 1")

reports = _make_table("reports", "reports", *_make_run_key(),
                      *_make_key_columns(node=_TEXT, seq=_TEXT),
                      *_make_columns(body=_BYTES), rowid=False)

# A table of its own: a record has some KiB, and SQLite would read all of it to get to the columns
# after it.  100,000 rows here are 20 MiB.
summaries = _make_table(
    "summaries", "rows of `iostats jobs`", *_make_run_key(),
    *_make_columns(shown_as=_TEXT, user=_TEXT), *_make_summary_columns(), rowid=False)
# In either order: each of the two moments limits the other (job_index.py).
_add_index(summaries, "over", "over", "began")
_add_index(summaries, "began", "began", "over")
_long_jobs = text(f"over - began > {LONG_S}")
Index("summaries_long", summaries.c.over - summaries.c.began, sqlite_where=_long_jobs,
      postgresql_where=_long_jobs)
_add_index(summaries, "user", "user", "over")

# The same amounts by file system, for site_job_file_systems (views.py).
job_file_systems = _make_table(
    "job_file_systems", "file systems of jobs", *_make_run_key(),
    *_make_key_columns(file_system=_TEXT), *_make_columns(source=_TEXT),
    *_make_optional_columns(read_bytes=_WHOLE, write_bytes=_WHOLE, opens=_WHOLE, creates=_WHOLE,
                            operations=_WHOLE),
    *_make_columns(lower_bound=_WHOLE), rowid=False)

# For site_job_targets (views.py).
job_targets = _make_table(
    "job_targets", "targets of jobs", *_make_run_key(),
    *_make_key_columns(file_system=_TEXT, target=_TEXT),
    *_make_optional_columns(net_read_bytes=_WHOLE, net_write_bytes=_WHOLE),
    *_make_columns(net_lower_bound=_WHOLE),
    *_make_optional_columns(server_read_bytes=_WHOLE, server_write_bytes=_WHOLE,
                            server_operations=_WHOLE),
    *_make_columns(server_lower_bound=_WHOLE), rowid=False)

harvests = _make_table("harvests", "settled totals of storage servers",
                       *_make_key_columns(job=_TEXT),
                       *_make_columns(made=_REAL, body=_BYTES))
_add_index(harvests, "made", "made")
lives = _make_table("lives", "jobs at the storage servers", *_make_key_columns(job=_TEXT),
                    *_make_columns(body=_BYTES),
                    rowid=False)
agents = _make_table("agents", "agents", *_make_key_columns(node=_TEXT),
                     *_make_columns(body=_BYTES), rowid=False)
targets = _make_table("targets", "targets", *_make_key_columns(file_system=_TEXT, target=_TEXT),
                      *_make_columns(state=_BYTES))
blocks = _make_table("blocks", "parts of sweeps", _make_id_column(),
                     *_make_columns(file_system=_TEXT, target=_TEXT, body=_BYTES))
_add_index(blocks, "target", "file_system", "target")

client_nids = _make_table("client_nids", "names of clients",
                          *_make_key_columns(file_system=_TEXT, number=_WHOLE),
                          *_make_columns(nid=_TEXT), rowid=False)
client_gains = _make_table(
    "client_gains", "what clients did, by sweep or hour", _make_id_column(),
    *_make_columns(file_system=_TEXT, since=_REAL, until=_REAL, made=_REAL, merged=_WHOLE,
                   body=_BYTES))
_add_index(client_gains, "until", "file_system", "until", "since")
_add_index(client_gains, "made", "merged", "made")
client_losses = _make_table(
    "client_losses", "times when something may be missing of clients", _make_id_column(),
    *_make_columns(file_system=_TEXT, node=_TEXT, target=_TEXT, nid=_TEXT, why=_TEXT, since=_REAL,
                   until=_REAL, made=_REAL))
_add_index(client_losses, "until", "file_system", "until", "since")
_add_index(client_losses, "same", "file_system", "node", "target", "nid", "why")
node_hours = _make_table(
    "node_hours", "hours of nodes", *_make_key_columns(file_system=_TEXT, began=_REAL, nid=_TEXT),
    *_make_columns(node=_TEXT),
    *_make_columns(**{f"{name}{end}": _WHOLE for name in BY_NODE for end in ("", "_max")}),
    *_make_columns(lower_bound=_WHOLE), rowid=False)
client_sources = _make_table("client_sources", "clients of storage servers",
                             *_make_key_columns(node=_TEXT, file_system=_TEXT, kind=_TEXT),
                             *_make_columns(state=_BYTES))
client_blocks = _make_table("client_blocks", "parts of messages of clients", _make_id_column(),
                            *_make_columns(node=_TEXT, file_system=_TEXT, kind=_TEXT, body=_BYTES))
_add_index(client_blocks, "source", "node", "file_system", "kind")

damaged_reports = _make_table("damaged_reports", "damaged reports, put aside", *_make_run_key(),
                              *_make_key_columns(node=_TEXT, seq=_TEXT),
                              *_make_optional_columns(body=_BYTES),
                              *_make_columns(why=_TEXT))
damaged = _make_table("damaged", "damaged rows, put aside", _make_id_column(),
                      *_make_optional_columns(place=_TEXT, row=_TEXT, why=_TEXT, body=_BYTES))
clock = _make_table("clock", "clock", *_make_single_key(),
                    *_make_columns(passed=_REAL, wall=_REAL, boot_id=_TEXT, up=_REAL))

events = _make_table(
    "events", "events", *_make_key_columns(place=_WHOLE),
    *_make_columns(id=_WHOLE, made=_REAL, time=_REAL, ended=_REAL, severity=_WHOLE, kind=_TEXT,
                   file_system=_TEXT, body=_BYTES),
    *_make_optional_columns(target=_TEXT, node=_TEXT, occurrences=_WHOLE))
events_nids = _make_table("events_nids", "clients of events", *_make_key_columns(nid=_TEXT),
                          rowid=False)
events_tellers = _make_table("events_tellers", "last reports of storage servers",
                             *_make_key_columns(node=_TEXT),
                             *_make_columns(reported_at=_REAL, body=_BYTES))
events_followers = _make_table("events_followers", "receivers of new events",
                               *_make_key_columns(name=_TEXT),
                               *_make_columns(body=_BYTES))
events_numbering = _make_table(
    "events_numbering", "numbering of events", *_make_single_key(),
    *_make_columns(name=_TEXT, dropped=_WHOLE, dropped_until=_REAL, last=_WHOLE))

capacities = _make_table(
    "capacities", "hours of targets' capacities", *_make_key_columns(target=_TEXT, hour=_WHOLE),
    *_make_columns(time=_REAL, bytes_total=_WHOLE, bytes_free=_WHOLE, bytes_available=_WHOLE,
                   inodes_total=_WHOLE, inodes_free=_WHOLE), rowid=False)

job_lines = _make_table(
    "job_lines", "time lines of jobs", *_make_key_columns(job=_TEXT, file_system=_TEXT),
    *_make_columns(fold=_WHOLE, made=_REAL, thinned=_WHOLE, body=_BYTES))
_add_index(job_lines, "made", "thinned", "made")
target_lines = _make_table(
    "target_lines", "time lines of targets", _make_id_column(),
    *_make_columns(file_system=_TEXT, target=_TEXT, since=_REAL, until=_REAL, made=_REAL,
                   thinned=_WHOLE, body=_BYTES))
_add_index(target_lines, "since", "file_system", "target", "since", "until")
_add_index(target_lines, "made", "thinned", "made")
# A number is never given twice: what is removed is removed up to a number.
line_parts = _make_table("line_parts", "parts of time lines", _make_id_column(),
                         *_make_columns(file_system=_TEXT, target=_TEXT, body=_BYTES),
                         sqlite_autoincrement=True)
line_folds = _make_table("line_folds", "places in the time lines", *_make_single_key(),
                         *_make_columns(number=_WHOLE, last=_WHOLE))

by_node = _make_table("by_node", "what jobs' nodes did", *_make_run_key(),
                      *_make_columns(made=_REAL, body=_BYTES))
_add_index(by_node, "made", "made")
job_runs = _make_table("job_runs", "runs of jobs", *_make_key_columns(job=_TEXT, started=_REAL),
                       *_make_columns(body=_BYTES))
job_lists = _make_table("job_lists", "times that lists of jobs cover", *_make_single_key(),
                        *_make_columns(body=_BYTES))

# Which migration the tables are of; Alembic's.
alembic_version = _make_table("alembic_version", "version", Column("version_num", String(32),
                                                                   primary_key=True))


def create_statements(dialect: str) -> str:
    """The text of new_store.DIALECT.sql: the statements that make all tables and views."""
    engine = create_mock_engine(f"{dialect}://", lambda *_: None)
    statements: list[Any] = []
    for table in metadata.sorted_tables:
        statements.append(CreateTable(table))
        statements += map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))
    texts = [str(statement.compile(dialect=engine.dialect)).strip().replace("\t", "    ")
             for statement in statements] + views.create_statements(dialect)
    return "".join(f"{line.rstrip()}\n" for text in texts for line in f"{text};".splitlines())
