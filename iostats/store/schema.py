"""
Makes the tables of a new store, and upgrades those that an older release has made.

tables.py describes them.  The statements for a new store are in new_store.*.sql, made from it by
tools/docs.py: importing SQLAlchemy takes 0.3 s of CPU, which only an upgrade needs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from iostats.base.errors import StateError

if TYPE_CHECKING:
    from typing import Protocol

    from iostats.store.database import Connection

    class Executes(Protocol):
        """A connection to a database, as far as creating tables needs it."""

        def execute(self, sql: str, /) -> object: ...

_HERE = os.path.dirname(__file__)
MIGRATIONS = os.path.join(_HERE, "migrations")
# Of the newest file in its versions/.
REVISION = max(name[1:5] for name in os.listdir(os.path.join(MIGRATIONS, "versions"))
               if name.startswith("v"))


def make(connection: Executes, dialect: str) -> None:
    """Create all tables, in the caller's transaction; `connection`: an object with execute(sql)."""
    engine = dialect.partition("+")[0]                # postgresql+psycopg
    with open(os.path.join(_HERE, f"new_store.{engine}.sql"), encoding="utf-8") as file:
        for statement in file.read().split(";\n"):
            if statement.strip():
                connection.execute(statement)
    connection.execute(f"INSERT INTO alembic_version VALUES ('{REVISION}')")


def upgrade(connection: Connection, name: str) -> None:
    """
    Bring the tables to this release, in the caller's transaction, which may be committed then;
    StateError where they are of another program, or of a release that is newer.
    """
    versions = [version for version, in connection.execute(
        "SELECT version_num FROM alembic_version"
    )] if "alembic_version" in connection.tables() else []
    if versions == [REVISION]:
        return
    if not versions or not _migrate(connection):
        why = (f"version {versions[0]}, of a newer release" if versions else
               "tables of another program, or of a release before 0.1.0")
        raise StateError(f"{name}: expected a store of version {REVISION} or older, got {why}; "
                         f"name another in site.cfg, [site] store")


def _migrate(connection: Connection) -> bool:
    """Run the migrations that the tables lack; False where their version is unknown here."""
    from alembic import command, util
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    from iostats.store import views
    config = Config()
    config.set_main_option("script_location", MIGRATIONS.replace("%", "%%"))
    engine = create_engine(f"{connection.dialect}://", creator=lambda: connection.driver,
                           poolclass=StaticPool, pool_reset_on_return=None)
    try:
        with engine.connect() as wrapped, wrapped.begin():
            if not connection.in_transaction:       # SQLAlchemy's first look ends with a rollback
                connection.begin()
            config.attributes["connection"] = wrapped
            command.upgrade(config, "head")
            for statement in views.create_statements(engine.dialect.name, replace=True):
                wrapped.exec_driver_sql(statement)
    except util.CommandError:
        return False
    except DBAPIError as error:
        raise (error.orig or error) from None
    return True
