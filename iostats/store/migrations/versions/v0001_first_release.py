"""
The tables of release 0.1.0.

schema.make() makes a new store with the tables of its own release, so this one does nothing.  A
later file here changes the tables of the stores that there are: op.add_column(), op.create_table().
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """The store was made with these tables."""
