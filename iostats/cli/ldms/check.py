"""
iostats ldms check: is a description right?
"""

from __future__ import annotations

import sys

from iostats.base.errors import DONE, UNREADABLE, UsageError
from iostats.base.input_files import name_of
from iostats.cli.parser import parser, put_out, status_of
from iostats.ldms.description.problems import DescriptionError
from iostats.ldms.description_file import read_file
from iostats.ldms.statements import configuration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import Description
    from iostats.ldms.description.problems import Problem

HELP = """\
usage: iostats ldms check FILE

Read the description FILE (- for standard input), of any generation of the
schema, and say whether it is right: what it describes in one line, or each
problem with its line, column and path; then the first statement that an ldmsd
would refuse.  Warnings, such as unknown keys, go to standard error and do not
make the description wrong.

exit status:
  0 right   1 wrong   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Check a description; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    path = file_of(arguments, "iostats ldms check", HELP)
    found = described_file(path)
    if found is None:
        return UNREADABLE
    description, warnings = found
    configuration.check(description)
    told = f", {counted(len(warnings), 'warning')}" if warnings else ""
    put_out([f"{name_of(path)}: is right: {', '.join(_contents(description))}{told}\n"])
    return DONE


def file_of(arguments: list[str] | None, prog: str, help_text: str) -> str:
    """The one FILE of a subcommand without other arguments; UsageError."""
    own = parser(prog, help_text, (), ())
    own.add_argument("files", nargs="*")
    files: list[str] = own.parse_args(arguments).files
    if len(files) != 1:
        raise UsageError(f"{prog}: expected one FILE, got {len(files)} (see --help)")
    return files[0]


def described_file(path: str) -> tuple[Description, list[Problem]] | None:
    """
    (the Description in a file, its warnings), or None; warnings, or all problems, are told on
    standard error.
    """
    try:
        found = read_file(path)
    except DescriptionError as error:
        print_problems(error)
        return None
    print_warnings(found[1], name_of(path))
    return found


def print_problems(error: DescriptionError) -> None:
    """On standard error, one line each."""
    for line in error.lines():
        print(f"iostats: {line}", file=sys.stderr)


def print_warnings(warnings: list[Problem], name: str) -> None:
    """On standard error, one line each; `name`: of the file."""
    for warning in warnings:
        print(f"iostats: {warning.as_line(name)} (warning)", file=sys.stderr)


def counted(number: int, what: str, several: str = "") -> str:
    """
    A number with its noun.

    >>> counted(1, "policy", "policies"), counted(23, "daemon")
    ('1 policy', '23 daemons')
    """
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def _contents(description: Description) -> list[str]:
    samplers = {member for group in description.samplers for member in group.members}
    aggregators = {member for group in description.aggregators for member in group.members}
    levels = max((group.level for group in description.aggregators), default=0)
    agents = {host for group in description.agents for host in group.hosts}
    found = [counted(len(description.daemons), "daemon") if description.daemons else "",
             counted(len(samplers), "sampler") if samplers else "",
             f"{counted(len(aggregators), 'aggregator')} on {counted(levels, 'level')}"
             if aggregators else "",
             counted(len(description.plugins), "plugin instance") if description.plugins else "",
             counted(len(description.stores), "storage policy", "storage policies")
             if description.stores else "",
             counted(len(agents), "storage server") if agents else ""]
    return [part for part in found if part] or ["nothing in it"]
