"""
Bytes of CephFS in rows of `iostats jobs`; those of records that are stored already stay unknown.
"""

import sqlalchemy
from alembic import op

from iostats.store import tables

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns."""
    for name in ("cephfs_read_bytes", "cephfs_write_bytes"):
        op.add_column("summaries", sqlalchemy.Column(name, tables.summaries.c[name].type))
