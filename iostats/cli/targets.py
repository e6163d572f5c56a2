"""
iostats targets: requests, grants, locks and HSM of the targets, and the services of the storage
servers; options as those of `iostats nodes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.cli.list_options import (
    FORM_HELP,
    print_answer,
    run_list_command,
    select_file_system,
)
from iostats.report import server_tables
from iostats.report.site_methods import METRICS

if TYPE_CHECKING:
    from iostats.cli.parsed_options import TargetOptions

HELP = """\
usage: iostats targets [options] [TARGET ...]

Print a line for each OST and MDT with the requests of the last minute, how many
of them were small, or fragmented on disk, what is granted to clients, and their
locks; or with --services one for each service of a storage server: its threads,
and how long requests waited for one.  From the site's server; the agents on the
storage servers read the numbers there.

which targets:
  -f, --fs NAME         of this file system only
  TARGET                such as scratch-OST0007
  --services            the services of the storage servers instead

what is shown:
  -o, --format FIELDS   such as Target,SmallWrites%12; ALL for every field
  -l, --long            -o ALL
  -e, --helpformat      list the fields
  --sort FIELD          the smallest first; -FIELD: the largest
  --reverse             reverse the order
  --limit N             the first N in that order
""" + FORM_HELP + """\
  --json                one JSON document (docs/reference/wire.md)

  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

"-": it is unknown, or there was none.  Requests that are small or fragmented
are in percent of all; docs/reference/counters.md has the files of each number.

examples:
  iostats targets -f scratch --sort -SmallWrites
  iostats targets --services --sort -MeanWait --limit 5

exit status:
  0 printed, also if no target was found   1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""


def main(arguments: list[str] | None = None) -> int:
    """Print the list; returns the exit status."""
    return run_list_command("targets", HELP, "targets", _run, arguments,
                            flags=((("--services",), "services"),))


def _run(options: TargetOptions) -> int:
    table, default = ((server_tables.SERVICES, server_tables.DEFAULT_SERVICES) if options.services
                      else (server_tables.TARGETS, server_tables.DEFAULT_TARGETS))
    return print_answer(
        options, table, default, METRICS, {
            "file_systems": select_file_system(options), "targets": options.targets},
        lambda answer: answer["services"] if options.services else answer["targets"],
        server_tables.make_metrics_cell, server_tables.DISPENSABLE,
        f"no agent on a storage server has reported metrics of such "
        f"{'services' if options.services else 'targets'}",
        lambda answer, rows, width: (), server_tables.get_value)
