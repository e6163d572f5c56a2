"""
Views for a site's own queries, by SQL: documented columns with names that stay, in both engines.

The tables of a store (tables.py) belong to one release; these views do not change but for columns
that are added at the end.  They are made by new_store.*.sql and by the migrations.

A time is a timestamp in UTC (text in SQLite) of whole seconds; an unknown number is NULL, an
unknown text ''.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from iostats.events.kinds import SEVERITIES
from iostats.report.job_summary import BITS
from iostats.totals.kinds import KINDS

# to_timestamp() refuses times after this one, and one such row must not fail a whole query.
_LAST_TIME = 253402300799                       # the end of the year 9999
_TIME = {"sqlite": r"datetime(\1, 'unixepoch')",
         "postgresql": r"to_timestamp(floor(\1)) AT TIME ZONE 'UTC'"}
_TIME_OF = re.compile(r"time_of\((\w+)\)")


class Column(NamedTuple):
    """A column of a view."""

    name: str
    sql: str                # in both engines; time_of(COLUMN): the timestamp of seconds since 1970
    comment: str            # what it means


class SqlView(NamedTuple):
    """A view for queries by SQL: its name, its columns, and its statement."""

    name: str
    comment: str            # what its rows are
    rows: str               # the rest of its SELECT, from FROM on
    columns: tuple[Column, ...]


def _plain(**comments: str) -> tuple[Column, ...]:
    """Make columns with the same names as in the table."""
    return tuple(Column(name, name, comment) for name, comment in comments.items())


_RUN = (Column("cluster", "cluster", "the cluster of the batch system"),
        Column("raw_job_id", "job", "the id that prologs see"),
        Column("restarts", "attempt", "how often it was started again before this run"))
_SEVERITY = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(SEVERITIES))


def _make_amount_columns(by_whom: str) -> tuple[Column, ...]:
    """Amounts with their marks: the bits are those of job_summary.split_bits()."""
    return (
        *_plain(read_bytes=f"bytes read{by_whom}", write_bytes=f"bytes written{by_whom}",
                opens="files and directories opened", creates="files created",
                operations="calls other than read and write"),
        Column("read_bytes_too_low", "(lower_bound & 3) != 0", "read_bytes may be too low"),
        Column("write_bytes_too_low", "(lower_bound & 5) != 0", "write_bytes may be too low"),
        Column("write_bytes_too_high", "(lower_bound & 8) != 0",
               "write_bytes may be too high, after an eviction"),
        Column("calls_too_low", "(lower_bound & 1) != 0",
               "opens, creates and operations may be too low"))


_KINDS = {kind.name: kind for kind in KINDS}


def _make_other_columns() -> tuple[Column, ...]:
    """Bytes on what is not Lustre, with their marks."""
    columns = []
    for name, (low, high) in BITS.items():
        kind, direction, _ = name.split("_")
        done = "read" if direction == "read" else "written"
        columns += [Column(name, name, f"bytes {done}, "
                           f"{_KINDS[kind].title}, {_KINDS[kind].counted}"),
                    Column(f"{name}_too_low", f"(lower_bound & {low}) != 0", "it may be too low"),
                    Column(f"{name}_too_high", f"(lower_bound & {high}) != 0",
                           "it may be too high")]
    return tuple(columns)


VIEWS = (
    SqlView("site_jobs", "one row for each run of a job that has a record",
            "FROM summaries AS run", (
        *_RUN, Column("job_id", "shown_as", "the job as its users write it, such as 4711, 100_3"),
        Column("user_name", '"user"', "the user of the job"),
        *_plain(account="the account or project", partition="the partition or queue"),
        Column("job_name", "name", "the name of the job"),
        Column("state", "outcome", "how it ended, in the words of Slurm"),
        *_plain(exit_code="exit status:signal of the batch script"),
        Column("is_last_run", "NOT EXISTS (SELECT 1 FROM summaries AS later WHERE later.cluster = "
               "run.cluster AND later.job = run.job AND later.attempt > run.attempt)",
               "the job was not started again after this run"),
        Column("started", "time_of(started)", "start of the first node"),
        Column("ended", "time_of(ended)", "stop of the last node"),
        Column("last_seen_s", "over", "when it last ran as far as it was seen, in seconds since "
               "1970; never NULL, and an index finds jobs by it"),
        *_plain(elapsed_s="seconds from started to ended", nodes="nodes of the job"),
        Column("nodes_reported", "reported", "nodes whose report is in the numbers"),
        Column("nodes_shared", "shared", "nodes on which other jobs ran at the same time"),
        *_plain(file_systems="file systems that it could see, with commas between",
                source="which side counted the amounts, nodes or servers; exports where only "
                "by_node_* is known"),
        *_make_amount_columns(", as counted by source"),
        *_plain(net_read_bytes="bytes that came over the network, as the nodes counted them",
                net_write_bytes="bytes that went over the network, as the nodes counted them"),
        Column("net_bytes_too_low", "net_lower_bound != 0", "the two before may be too low"),
        *_plain(server_read_bytes="bytes read, as the storage servers counted them under the id "
                "of the job",
                server_write_bytes="bytes written, as the storage servers counted them",
                server_operations="other operations that the storage servers counted"),
        Column("server_too_low", "server_lower_bound != 0", "the three before may be too low"),
        *_plain(by_node_read_bytes="the least that its nodes read",
                by_node_read_bytes_max="the most that its nodes read",
                by_node_write_bytes="the least that its nodes wrote",
                by_node_write_bytes_max="the most that its nodes wrote",
                events="warnings and worse while it ran; NULL where nothing looked for them",
                data_lost="lost, or may be lost, by an event"),
        Column("is_final", "final != 0",
               "false while the storage servers may still count more"),
        *_make_other_columns())),
    SqlView("site_job_file_systems", "one row for each file system of a run of a job",
            "FROM job_file_systems", (
        *_RUN, *_plain(file_system="the name of the file system", source="as in site_jobs"),
        *_make_amount_columns(" there, as counted by source"))),
    SqlView("site_job_targets", "one row for each target at which a run of a job has amounts",
            "FROM job_targets", (
        *_RUN, *_plain(
            file_system="the name of the file system", target="the OST or MDT, such as OST0003",
            net_read_bytes="bytes that came from it over the network, as the nodes counted them",
            net_write_bytes="bytes that went to it, as the nodes counted them"),
        Column("net_bytes_too_low", "net_lower_bound != 0", "the two before may be too low"),
        *_plain(server_read_bytes="bytes read, as the target counted them under the id of the job",
                server_write_bytes="bytes written, as the target counted them",
                server_operations="other operations that the target counted"),
        Column("server_too_low", "server_lower_bound != 0", "the three before may be too low"))),
    SqlView("site_job_nodes", "one row for each node that reported for a run of a job; reports are "
            "removed after [site] keep_reports_days",
            "FROM reports GROUP BY cluster, job, attempt, node", (
        *_RUN, *_plain(node="the name of the node"),
        Column("reports", "count(*)", "how many reports it sent"))),
    SqlView("site_node_hours", "one row for each client, file system and hour with I/O, as the "
            "storage servers count clients (exports); it is made two hours after the hour's end",
            "FROM node_hours", (
        Column("began", "time_of(began)", "when the hour began"),
        *_plain(file_system="the name of the file system",
                nid="the client's address in LNet, such as 10.0.0.11@o2ib",
                node="the name of the node; if unknown, its NID",
                read_bytes="the least that it read in this hour",
                read_bytes_max="the most: also what it read in sweeps that began before the hour, "
                "or ended after it",
                write_bytes="the least that it wrote", write_bytes_max="the most that it wrote",
                operations="the least number of other requests",
                operations_max="the most of them"),
        Column("too_low", "lower_bound != 0",
               "something of this hour may be missing, in the least and in the most"))),
    SqlView("site_events", "one row for each event", "FROM events", (
        Column("began", "time_of(time)", "when it began"),
        Column("last_seen", "time_of(ended)", "the last moment that it is about"),
        Column("severity", f"CASE severity {_SEVERITY} END", " < ".join(SEVERITIES)),
        *_plain(kind="the kind, as in the reference of events",
                file_system="the file system; '' for none, or several",
                target="the OST or MDT; '' for none, or several; NULL for events that were stored "
                "before this column was added",
                node="the node or storage server that reported it; NULL likewise",
                occurrences="how often it happened, such as clients evicted; NULL likewise"))),
    SqlView("site_capacity", "one row for each target and hour, of the last week",
            "FROM capacities", (
        *_plain(target="the OST or MDT, such as scratch-OST0003"),
        Column("file_system", "substr(target, 1, length(target) - 8)", "the file system"),
        Column("measured", "time_of(time)", "when it was read"),
        *_plain(bytes_total="size", bytes_free="free, also where only root may write",
                bytes_available="free for users"),
        Column("bytes_used", "bytes_total - bytes_free", "in use"),
        *_plain(inodes_total="files that fit", inodes_free="files that still fit"))))


def format_views() -> list[str]:
    """Lines with the name and comment of each view and column."""
    lines = []
    for view in VIEWS:
        lines.append(f"{view.name}: {view.comment}\n")
        lines += [f"  {column.name:<23} {column.comment}\n" for column in view.columns]
    return lines


def create_statements(dialect: str, replace: bool = False) -> list[str]:
    """
    The statements that make all views; dialect: sqlite or postgresql; `replace`: there may be
    those of an older release, with the rights that were granted.
    """
    statements = []
    create = "CREATE OR REPLACE" if replace and dialect == "postgresql" else "CREATE"
    for view in VIEWS:
        if replace and dialect == "sqlite":
            statements.append(f"DROP VIEW IF EXISTS {view.name}")
        columns = ",\n".join(f"    {_make_expression(column.sql, dialect)} AS {column.name}"
                             for column in view.columns)
        statements.append(f"{create} VIEW {view.name} AS SELECT\n{columns}\n{view.rows}")
        if dialect == "postgresql":                    # SQLite has no comments
            statements.append(_make_comment("VIEW", view.name, view.comment))
            statements += [_make_comment("COLUMN", f"{view.name}.{column.name}", column.comment)
                           for column in view.columns]
    return statements


def _make_expression(sql: str, dialect: str) -> str:
    return _TIME_OF.sub(rf"CASE WHEN \1 BETWEEN 0 AND {_LAST_TIME} THEN {_TIME[dialect]} END", sql)


def _make_comment(kind: str, name: str, text: str) -> str:
    quoted = text.replace("'", "''")
    return f"COMMENT ON {kind} {name} IS '{quoted}'"
