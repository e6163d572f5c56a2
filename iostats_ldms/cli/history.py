"""
iostats ldms history: list the descriptions stored in etcd.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from iostats.base.errors import DONE, UsageError
from iostats.base.text import cut, pad
from iostats.cli import flag, operand
from iostats.cli.parser import get_terminal_width, parse_options, run_role, write_output
from iostats_ldms import published
from iostats_ldms.cli.sources import EtcdOptions, open_etcd_by_options
from iostats_ldms.published import Revision


class HistoryOptions(EtcdOptions, help=f"""\
usage: iostats ldms history [NUMBER] [options]

Print the last {published.HISTORY_LENGTH} loaded descriptions, the newest first; the valid one
has a star.  With NUMBER: the text of that one, as it was written.

options:
{{options}}

exit status:
  0 done   1 no such description   2 bad usage or site.cfg
  3 etcd was not reached
"""):
    number = operand("NUMBER", "")
    json = flag("--json", "as JSON")


def main(arguments: list[str] | None = None) -> int:
    """Print the history; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(HistoryOptions, arguments)
    with open_etcd_by_options(options) as etcd:
        if options.number:
            item = published.read_revision(etcd, parse_revision_number(options.number))
            write_output([published.read_text(etcd, item)])
            return DONE
        revisions, valid = published.read_history(etcd), published.read_current_revision(etcd)
    if options.json:
        write_output([json.dumps([{
            "revision": item.number, "valid": _is_valid(item, valid), "time": item.at,
            "by": item.by,
            "note": item.note, "sha256": item.sha256} for item in revisions], indent=2), "\n"])
    elif revisions:
        write_output(_format_table(revisions, valid, get_terminal_width()))
    else:
        write_output([f"no description of {etcd.prefix} was loaded yet: iostats ldms load FILE\n"])
    return DONE


def parse_revision_number(text: str) -> int:
    """Parse the number of a description; UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise UsageError(f"expected the number of a description, such as 23, got {text[:40]!r}")
    return int(text)


def _is_valid(item: Revision, valid: Revision | None) -> bool:
    return valid is not None and item.mark == valid.mark and item.number == valid.number


def _format_table(revisions: list[Revision], valid: Revision | None,
                  width: int | None) -> Iterator[str]:
    by = max(2, *(len(item.by) for item in revisions))
    yield f"  revision  loaded               {pad('by', by)}  note\n"
    for item in revisions:
        at = datetime.fromtimestamp(item.at).strftime("%Y-%m-%d %H:%M:%S")
        line = (f"{'*' if _is_valid(item, valid) else ' '} {item.number:>8}  {at}  "
                f"{pad(item.by, by)}  {item.note}")
        yield cut(line.rstrip(), width) + "\n"
