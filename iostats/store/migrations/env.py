"""
Alembic's entry point: runs migrations in the transaction of schema.upgrade().
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
