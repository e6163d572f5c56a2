"""
Amounts of jobs by target, and of nodes by hour; records that are stored already get their amounts
by file system and target, hours begin with those that the store has.
"""

import msgspec
import sqlalchemy
from alembic import op

from iostats.base.errors import StateError
from iostats.report.job_summary import make_summary, summarize_file_systems, summarize_targets
from iostats.store import job_index, tables
from iostats.store.record_store import report_damage, unpack

revision = "0004"
down_revision = "0003"

_AT_ONCE = 200                          # records


def upgrade() -> None:
    """Add the tables, and read all records."""
    connection = op.get_bind()
    tables.job_targets.create(connection)
    tables.node_hours.create(connection)
    connection.execute(tables.job_file_systems.delete())
    key = sqlalchemy.tuple_(*(tables.jobs.c[name] for name in job_index.KEY))
    records = sqlalchemy.select(*(tables.jobs.c[name] for name in (*job_index.KEY, "record"))
                                ).where(tables.jobs.c.record.is_not(None)).order_by(*key)
    rows = connection.execute(records.limit(_AT_ONCE)).fetchall()
    while rows:
        for *run, record in rows:
            _add_amounts(connection, run, record)
        rows = connection.execute(
            records.where(key > tuple(rows[-1][:3])).limit(_AT_ONCE)).fetchall()


def _add_amounts(connection: sqlalchemy.Connection, run: list[object], record: bytes) -> None:
    try:
        with report_damage(""):
            form = msgspec.json.decode(unpack(record, ""), type=dict[str, object])
            parts = ((tables.job_file_systems,
                      summarize_file_systems(form, make_summary(form).source)),
                     (tables.job_targets, summarize_targets(form)))
    except StateError:                               # a damaged record has no amounts
        return
    for table, amounts in parts:
        for row in amounts:
            connection.execute(table.insert().values((*run, *row)))
