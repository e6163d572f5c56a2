"""
Indexes of jobs by when they ran, in both orders, and of long jobs.
"""

from alembic import op

from iostats.store import tables

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the indexes, instead of the one of the ends alone."""
    op.drop_index("summaries_over", "summaries")
    for index in tables.summaries.indexes:
        if index.name in ("summaries_over", "summaries_began", "summaries_long"):
            index.create(op.get_bind())
