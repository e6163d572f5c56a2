"""
A table of amounts by file system, columns of events, and positions of their receivers; events that
are stored already lack the new columns.
"""

import sqlalchemy
from alembic import op

from iostats.store import tables

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change the tables of release 0.1.0."""
    connection = op.get_bind()
    for column in (tables.events.c.target, tables.events.c.node, tables.events.c.occurrences):
        op.add_column("events", sqlalchemy.Column(column.name, column.type))
    tables.job_file_systems.create(connection)
    tables.events_followers.create(connection)
