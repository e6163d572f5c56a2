"""
Bytes of GPFS in rows of `iostats jobs`; those of records that are stored already stay unknown.
"""

import sqlalchemy
from alembic import op

from iostats.store import tables

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns."""
    for name in ("gpfs_read_bytes", "gpfs_write_bytes"):
        op.add_column("summaries", sqlalchemy.Column(name, tables.summaries.c[name].type))
