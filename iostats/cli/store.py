"""
iostats store: check the site's store, and rebuild a damaged one.
"""

from __future__ import annotations

import sys

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, StateError
from iostats.cli.parser import parser, put_out, status_of
from iostats.site import store_repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.site.store_repair import TableContent

_OLD = "--begin-anew"           # of --rebuild
HELP = """\
usage: iostats store [--rebuild] [--file FILE] [--config FILE]

Check the site's store ([site] store in site.cfg): print how many rows of each
kind it has, which of them cannot be read, and what to do.  Stop the site's
server first; nodes and agents keep their messages meanwhile.

options:
  --rebuild       set a damaged store aside, and put a new one in its place with
                  all rows that can be read
  --file FILE     check this store
  --config FILE   the configuration (default: site.cfg)
  -h, --help      this text

exit status:
  0 it is whole, or was rebuilt   1 it is damaged   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Check the store; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parser("iostats store", HELP, ("--file", "--config"),
                     ("--rebuild", _OLD)).parse_args(arguments)
    path = options.file or site.load(options.config)["site.store"]
    try:
        if options.begin_anew:
            print(f"iostats: {_OLD}: the name is now --rebuild", file=sys.stderr)
        if options.rebuild or options.begin_anew:
            beside, found = store_repair.rebuild(path)
            put_out([f"{path}: rebuilt; the old one is {beside}\n", *_lines(found)])
            return DONE
        found = store_repair.check(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    is_whole = "jobs" in found and not any(one.why for one in found.values())
    put_out([f"{path}: {'can be read' if is_whole else 'is damaged'}\n", *_lines(found)])
    if is_whole:
        return DONE
    print("restore it from a backup, which lacks what came since then; or `iostats store "
          "--rebuild`,\nwhich loses the rows that cannot be read: records, reports that are in no "
          "record yet,\ntotals of jobs at the storage servers up to now.  Reports that are kept "
          "on nodes, and\nagents' sweeps, still arrive.", file=sys.stderr)
    return UNREADABLE


def _lines(found: dict[str, TableContent]) -> list[str]:
    if not found:
        return ["  no row of it can be read\n"]
    return [f"  {one.count:>9} {store_repair.TABLES[table]}"
            f"{f'; the others cannot be read: {one.why}' if one.why else ''}\n"
            for table, one in found.items() if one.count or one.why]
