"""
iostats ldms convert: rewrite a description in today's schema.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.cli.parser import run_role, write_output
from iostats_ldms.cli.check import parse_file_argument, read_description_file
from iostats_ldms.description.convert import to_yaml

HELP = """\
usage: iostats ldms convert FILE

Write the description FILE (- for standard input), of any generation of the
schema, to standard output in the current one, which LDMS 4.5 reads as well:
plugins in a section of their own, stores by name.  Comments and anchors are
lost.

exit status:
  0 written   1 the description is invalid   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Convert a description; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    path = parse_file_argument(arguments, "iostats ldms convert", HELP)
    result = read_description_file(path)
    if result is None:
        return UNREADABLE
    write_output([to_yaml(result[0])])
    return DONE
