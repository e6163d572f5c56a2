"""
iostats ldms rollback: make an earlier description valid again.
"""

from __future__ import annotations

from iostats.base.errors import UNREADABLE
from iostats.cli import flag, operand, option
from iostats.cli.parser import parse_options, run_role
from iostats_ldms import published
from iostats_ldms.cli.history import parse_revision_number
from iostats_ldms.cli.load import show_and_load
from iostats_ldms.cli.sources import (
    EtcdOptions,
    open_etcd_by_options,
    parse_description,
)


class RollbackOptions(EtcdOptions, help="""\
usage: iostats ldms rollback [NUMBER] [options]

Make description NUMBER valid again; default: the previous one.  Its text is
loaded as the next description, so the history is not changed.

options:
{options}

exit status:
  0 it is valid   1 no such description, or it was not loaded
  2 bad usage or site.cfg   3 etcd was not reached
"""):
    number = operand("NUMBER", "")
    dry_run = flag("--dry-run", "print the differences, and load nothing")
    note = option("--note TEXT",
                  "the reason, for `iostats ldms history` (default: rollback to NUMBER)")


def main(arguments: list[str] | None = None) -> int:
    """Roll back to an earlier description; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(RollbackOptions, arguments)
    with open_etcd_by_options(options) as etcd:
        item = (published.read_revision(etcd, parse_revision_number(options.number))
                if options.number
                else published.read_previous_revision(etcd))
        text = published.read_text(etcd, item)
        new = parse_description(text, f"description {item.number}")
        if new is None:
            return UNREADABLE
        return show_and_load(etcd, text, new, options.note or f"rollback to {item.number}",
                             options.dry_run)
