"""
iostats ldms check: validate a description.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.base.input_files import format_input_name
from iostats.base.messages import print_message
from iostats.cli import Options, operand
from iostats.cli.parser import parse_options, run_role, write_output
from iostats_ldms.description.model import Description
from iostats_ldms.description.problems import DescriptionError, Problem
from iostats_ldms.description.read import read_file
from iostats_ldms.statements import configuration


class CheckOptions(Options, help="""\
usage: iostats ldms check FILE

Read the description FILE (- for standard input), of any generation of the
schema, and validate it: print a summary in one line, or each problem with its
line, column and path, or the first statement that an ldmsd would refuse.
Warnings, such as unknown keys, go to standard error and do not make the
description invalid.

options:
{options}

exit status:
  0 valid   1 invalid   2 bad usage
"""):
    file = operand("FILE")


def main(arguments: list[str] | None = None) -> int:
    """Check a description; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    path = parse_options(CheckOptions, arguments).file
    result = read_description_file(path)
    if result is None:
        return UNREADABLE
    description, warnings = result
    configuration.check_description(description)
    suffix = f", {count_noun(len(warnings), 'warning')}" if warnings else ""
    summary = ", ".join(_summarize(description))
    write_output([f"{format_input_name(path)}: valid: {summary}{suffix}\n"])
    return DONE


def read_description_file(path: str) -> tuple[Description, list[Problem]] | None:
    """Read (Description, warnings) of a file; print warnings, or all problems and return None."""
    try:
        result = read_file(path)
    except DescriptionError as error:
        print_problems(error)
        return None
    print_warnings(result[1], format_input_name(path))
    return result


def print_problems(error: DescriptionError) -> None:
    """Print all problems on standard error, one line each."""
    for line in error.format_lines():
        print_message(line)


def print_warnings(warnings: list[Problem], name: str) -> None:
    """Print warnings on standard error, one line each; `name`: of the file."""
    for warning in warnings:
        print_message(f"{warning.format_line(name)} (warning)")


def count_noun(number: int, noun: str, several: str = "") -> str:
    """
    Format a number with its noun.

    >>> count_noun(1, "policy", "policies"), count_noun(23, "daemon")
    ('1 policy', '23 daemons')
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def _summarize(description: Description) -> list[str]:
    samplers = {member for group in description.samplers for member in group.members}
    aggregators = {member for group in description.aggregators for member in group.members}
    levels = max((group.level for group in description.aggregators), default=0)
    agents = {host for group in description.agents for host in group.hosts}
    result = [count_noun(len(description.daemons), "daemon") if description.daemons else "",
              count_noun(len(samplers), "sampler") if samplers else "",
              f"{count_noun(len(aggregators), 'aggregator')} on {count_noun(levels, 'level')}"
              if aggregators else "",
             count_noun(len(description.plugins), "plugin instance") if description.plugins else "",
              count_noun(len(description.stores), "storage policy", "storage policies")
              if description.stores else "",
              count_noun(len(agents), "storage server") if agents else ""]
    return [part for part in result if part] or ["nothing in it"]
