"""
iostats store: what is in the site's store, and a way on from one that is damaged.
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

HELP = """\
usage: iostats store [--begin-anew] [--file FILE] [--config FILE]

Say what is in the site's store ([site] store in site.cfg), what of it cannot
be read any more, and how to go on.  The site's server must not run; nodes and
agents keep what they have for it.

options:
  --begin-anew    set a damaged store aside, and put a new one in its place with
                  all that can be read
  --file FILE     another store
  --config FILE   the configuration (default: site.cfg)
  -h, --help      this text

exit status:
  0 it is whole, or was begun anew   1 it is damaged   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Look at the store; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parser("iostats store", HELP, ("--file", "--config"),
                     ("--begin-anew",)).parse_args(arguments)
    path = options.file or site.load(options.config)["site.store"]
    try:
        if options.begin_anew:
            beside, found = store_repair.begin_anew(path)
            put_out([f"{path}: begun anew; the old one is {beside}\n", *_lines(found)])
            return DONE
        found = store_repair.look(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    is_whole = "jobs" in found and not any(one.why for one in found.values())
    put_out([f"{path}: {'can be read' if is_whole else 'is damaged'}\n", *_lines(found)])
    if is_whole:
        return DONE
    print("restore it from a backup, which lacks what came since then; or `iostats store "
          "--begin-anew`:\nwhat cannot be read is lost then: records, reports that are not in a "
          "record yet, totals of jobs\nat the storage servers up to now.  Reports that wait on "
          "nodes, and agents' sweeps, still come.", file=sys.stderr)
    return UNREADABLE


def _lines(found: dict[str, TableContent]) -> list[str]:
    if not found:
        return ["  nothing of it can be read\n"]
    return [f"  {one.count:>9} {store_repair.TABLES[table]}"
            f"{f'; the others cannot be read: {one.why}' if one.why else ''}\n"
            for table, one in found.items() if one.count or one.why]
