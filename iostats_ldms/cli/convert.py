"""
iostats ldms convert: rewrite a description in today's schema.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.cli.parser import parse_options, run_role, write_output
from iostats_ldms.cli.check import CheckOptions, read_description_file
from iostats_ldms.description.convert import to_yaml


class ConvertOptions(CheckOptions, help="""\
usage: iostats ldms convert FILE

Write the description FILE (- for standard input), of any generation of the
schema, to standard output in the current one, which LDMS 4.5 reads as well:
plugins in a section of their own, stores by name.  Comments and anchors are
lost.

options:
{options}

exit status:
  0 written   1 the description is invalid   2 bad usage
"""):
    """As `check`."""


def main(arguments: list[str] | None = None) -> int:
    """Convert a description; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    result = read_description_file(parse_options(ConvertOptions, arguments).file)
    if result is None:
        return UNREADABLE
    write_output([to_yaml(result[0])])
    return DONE
