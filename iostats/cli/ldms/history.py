"""
iostats ldms history: the descriptions that etcd has.
"""

from __future__ import annotations

import json
from datetime import datetime

from iostats.base.errors import DONE, UsageError
from iostats.base.text import cut, padded
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, etcd_of
from iostats.cli.parser import parser, put_out, status_of, terminal_width
from iostats.ldms.published import descriptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iostats.ldms.published.descriptions import Revision

HELP = f"""\
usage: iostats ldms history [NUMBER] [--json] [--etcd URL,URL] [--prefix NAME]
                            [--config FILE]

Print the last {descriptions.KEPT} descriptions that were loaded, the newest first; the
valid one has a star.  With NUMBER: the text of that one, as it was written.

options:
  --json           as JSON
{ETCD_HELP}\
  -h, --help       this text

exit status:
  0 done   1 there is no such description   2 bad usage or site.cfg
  3 etcd was not reached
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the history; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    taken = parser("iostats ldms history", HELP, ETCD_OPTIONS, ("--json",))
    taken.add_argument("number", nargs="?")
    options = taken.parse_args(arguments)
    with etcd_of(options) as etcd:
        if options.number is not None:
            one = descriptions.revision_of(etcd, number_of(options.number))
            put_out([descriptions.text_of(etcd, one)])
            return DONE
        known, valid = descriptions.history(etcd), descriptions.current(etcd)
    if options.json:
        put_out([json.dumps([{
            "revision": one.number, "valid": _is(one, valid), "time": one.at, "by": one.by,
            "note": one.note, "sha256": one.sha256} for one in known], indent=2), "\n"])
    elif known:
        put_out(_table(known, valid, terminal_width()))
    else:
        put_out([f"no description of {etcd.prefix} was loaded yet: iostats ldms load FILE\n"])
    return DONE


def number_of(text: str) -> int:
    """The number of a description, from the command line; UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise UsageError(f"expected the number of a description, such as 23, got {text[:40]!r}")
    return int(text)


def _is(one: Revision, valid: Revision | None) -> bool:
    return valid is not None and one.mark == valid.mark and one.number == valid.number


def _table(known: list[Revision], valid: Revision | None, width: int | None) -> Iterator[str]:
    by = max(2, *(len(one.by) for one in known))
    yield f"  revision  loaded               {padded('by', by)}  note\n"
    for one in known:
        at = datetime.fromtimestamp(one.at).strftime("%Y-%m-%d %H:%M:%S")
        line = (f"{'*' if _is(one, valid) else ' '} {one.number:>8}  {at}  "
                f"{padded(one.by, by)}  {one.note}")
        yield cut(line.rstrip(), width) + "\n"
