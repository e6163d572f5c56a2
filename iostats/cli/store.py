"""
iostats store: check the site's store, rebuild a damaged one, and copy it to another engine.
"""

from __future__ import annotations

import sys

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, StateError, UsageError
from iostats.cli import CONFIG, Options, flag, option
from iostats.cli.parser import parse_options, run_role, write_output
from iostats.store import repair as store_repair
from iostats.store.database import hide_password, is_url
from iostats.store.repair import TableContent


class StoreOptions(Options, help="""\
usage: iostats store [options]
       iostats store copy OLD NEW
       iostats store views

Check the site's store ([site] store in site.cfg): print the number of rows of
each kind, those that cannot be read, and what to do.  Stop the site's
server first; nodes and agents store their messages until it is back.

`copy` copies all rows of one store to a new or empty one, each a file of SQLite
or postgresql://..., and compares them row by row; then name NEW in site.cfg.

`views` lists the views for queries by SQL, and their columns
(docs/reference/views.md).

options:
{options}

exit status:
  0 it is undamaged, was rebuilt or copied   1 it is damaged, or was not copied
  2 bad usage
"""):
    rebuild = flag("--rebuild",
                   "set a damaged store aside, and put a new one in its place with all rows that "
                   "can be read")
    file = option("--file FILE", "check this store")
    config = CONFIG


def main(arguments: list[str] | None = None) -> int:
    """Check the store; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["copy"]:
        return _copy(arguments[1:])
    if arguments == ["views"]:
        from iostats.store.views import format_views
        write_output(format_views())
        return DONE
    options = parse_options(StoreOptions, arguments)
    path = options.file or site.load(options.config).site.store
    if is_url(path):
        raise StateError(f"{hide_password(path)}: only a file of SQLite is checked here; "
                         f"PostgreSQL has its own checks (pg_amcheck) and backups")
    try:
        if options.rebuild:
            beside, tables = store_repair.rebuild(path)
            write_output([f"{path}: rebuilt; the old one is {beside}\n", *_format_lines(tables)])
            return DONE
        tables = store_repair.check(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    is_whole = "jobs" in tables and not any(table.why for table in tables.values())
    write_output([f"{path}: {'can be read' if is_whole else 'is damaged'}\n",
                  *_format_lines(tables)])
    if is_whole:
        return DONE
    print("restore it from a backup, which lacks everything since then; or run `iostats store "
          "--rebuild`,\nwhich loses the rows that cannot be read: records, reports that are in no "
          "record yet,\ntotals of jobs at the storage servers up to now.  Reports that wait "
          "on nodes, and\nagents' sweeps, still arrive.", file=sys.stderr)
    return UNREADABLE


def _copy(addresses: list[str]) -> int:
    """Copy a store; the exit status."""
    if len(addresses) != 2 or any(address.startswith("-") for address in addresses):
        raise UsageError("iostats store copy: expected two stores, OLD and NEW; see iostats store "
                         "--help")
    from iostats.store.copy import copy
    counts = copy(*addresses)
    write_output([f"{hide_password(addresses[1])}: has all rows, and each was compared\n",
                  *(f"  {count:>9} {rows}\n" for rows, count in counts.items() if count)])
    return DONE


def _format_lines(tables: dict[str, TableContent]) -> list[str]:
    if not tables:
        return ["  no row of it can be read\n"]
    return [f"  {content.count:>9} {content.comment}"
            f"{f'; the others cannot be read: {content.why}' if content.why else ''}\n"
            for content in tables.values() if content.count or content.why]
