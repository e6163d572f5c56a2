"""
Bytes of NFS and local disks in rows of `iostats jobs`; those of records that are stored already
stay unknown.
"""

import sqlalchemy
from alembic import op

from iostats.store import tables

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns."""
    for name in ("nfs_read_bytes", "nfs_write_bytes", "disk_read_bytes", "disk_write_bytes"):
        op.add_column("summaries", sqlalchemy.Column(name, tables.summaries.c[name].type))
