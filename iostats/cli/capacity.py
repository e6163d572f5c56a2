"""
iostats capacity: how full the targets are, and when they will be, from the site's server; options
as those of `iostats nodes`.
"""

from __future__ import annotations

from iostats.cli import option, repeated
from iostats.cli.list_options import (
    TargetOptions,
    print_answer,
    run_list_command,
    select_file_system,
)
from iostats.report import capacity_table
from iostats.report.site_methods import CAPACITY


class CapacityOptions(TargetOptions, help="""\
usage: iostats capacity [options] [TARGET ...]

Print a line for each OST and MDT with its space and inodes, how fast they are
used up, and when none will be left, from the site's server.  The agents on the
storage servers read the numbers there: no client and no target is asked.

which targets:
{common}

what is shown:
{shown}

{options}

FullIn: when nothing is left at the mean rate of the last week, or of its known
part, at least a day; Range: the same at the rates of the fastest and the
slowest day.  "-": it does not grow, or less than a day is known.  UsePct is the
share of used in used and available, as in `lfs df`.

examples:
  iostats capacity -f scratch
  iostats capacity --sort -UsePct --limit 10
  iostats capacity -P -o Target,Avail,FullIn

exit status:
  0 printed, also if no target was found   1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""):
    format = repeated("-o, --format FIELDS",
                      "such as Target,UsePct,Avail%12; ALL for every field", "shown")
    sort = option("--sort FIELD",
                  "the smallest first; -FIELD: the largest (default: by file system and name, with "
                  "their sums)", "shown")

def main(arguments: list[str] | None = None) -> int:
    """Print the list of targets; returns the exit status."""
    return run_list_command(CapacityOptions, _run, arguments)


def _run(options: CapacityOptions) -> int:
    is_plain = not (options.parsable or options.parsable2 or options.sort)
    return print_answer(
        options, capacity_table.TABLE, capacity_table.DEFAULT, CAPACITY, {
            "file_systems": select_file_system(options), "targets": options.targets},
        lambda answer: capacity_table.build_rows(answer, with_sums=is_plain),
        capacity_table.make_cell,
        capacity_table.DISPENSABLE,
        "no agent on a storage server has reported the capacity of such a target",
        lambda answer, rows, width: capacity_table.format_notes(rows, width))
