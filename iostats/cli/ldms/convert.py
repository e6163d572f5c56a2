"""
iostats ldms convert: a description as LDMS has it today.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.cli.ldms.check import described_file, file_of
from iostats.cli.parser import put_out, status_of
from iostats.ldms.description.convert import as_yaml

HELP = """\
usage: iostats ldms convert FILE

Write the description FILE (- for standard input), of any generation of the
schema, to standard output in today's, which LDMS 4.5 reads as well: plugins in
a section of their own, stores by their names.  Comments and anchors are not
kept.

exit status:
  0 written   1 the description is wrong   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Convert a description; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    path = file_of(arguments, "iostats ldms convert", HELP)
    found = described_file(path)
    if found is None:
        return UNREADABLE
    put_out([as_yaml(found[0])])
    return DONE
