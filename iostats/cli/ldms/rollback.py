"""
iostats ldms rollback: make an older description valid again.
"""

from __future__ import annotations

from iostats.base.errors import UNREADABLE
from iostats.cli.ldms.history import number_of
from iostats.cli.ldms.load import show_and_load
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, described, etcd_of
from iostats.cli.parser import parser, status_of
from iostats.ldms.published import descriptions

HELP = f"""\
usage: iostats ldms rollback [NUMBER] [--note TEXT] [--dry-run]
                             [--etcd URL,URL] [--prefix NAME] [--config FILE]

Make description NUMBER valid again, or the one before the valid one: its text
is loaded as the next description, so the history stays as it was.

options:
  --dry-run        print what is different, and load nothing
  --note TEXT      why, for `iostats ldms history`
                   (default: rollback to NUMBER)
{ETCD_HELP}\
  -h, --help       this text

exit status:
  0 it is valid   1 there is no such description, or it was not loaded
  2 bad usage or site.cfg   3 etcd was not reached
"""


def main(arguments: list[str] | None = None) -> int:
    """Go back to a description; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    taken = parser("iostats ldms rollback", HELP, ("--note", *ETCD_OPTIONS), ("--dry-run",))
    taken.add_argument("number", nargs="?")
    options = taken.parse_args(arguments)
    with etcd_of(options) as etcd:
        one = (descriptions.revision_of(etcd, number_of(options.number)) if options.number
               else descriptions.before_the_valid_one(etcd))
        text = descriptions.text_of(etcd, one)
        new = described(text, f"description {one.number}")
        if new is None:
            return UNREADABLE
        return show_and_load(etcd, text, new, options.note or f"rollback to {one.number}",
                             options.dry_run)
