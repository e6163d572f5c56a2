"""
iostats targets: requests, grants, locks and HSM of the targets, and the services of the storage
servers; options as those of `iostats nodes`.
"""

from __future__ import annotations

from iostats.cli import flag, repeated
from iostats.cli.list_options import (
    TargetOptions,
    print_answer,
    run_list_command,
    select_file_system,
)
from iostats.report import server_tables
from iostats.report.site_methods import METRICS


class MetricsOptions(TargetOptions, help="""\
usage: iostats targets [options] [TARGET ...]

Print a line for each OST and MDT with the requests of the last minute, how many
of them were small, or fragmented on disk, what is granted to clients, and their
locks; or with --services one for each service of a storage server: its threads,
and how long requests waited for one.  From the site's server; the agents on the
storage servers read the numbers there.

which targets:
{common}
{which}

what is shown:
{shown}

{options}

"-": it is unknown, or there was none.  Requests that are small or fragmented
are in percent of all; docs/reference/counters.md has the files of each number.

examples:
  iostats targets -f scratch --sort -SmallWrites
  iostats targets --services --sort -MeanWait --limit 5

exit status:
  0 printed, also if no target was found   1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""):
    services = flag("--services", "the services of the storage servers instead", "which")
    format = repeated("-o, --format FIELDS",
                      "such as Target,SmallWrites%12; ALL for every field", "shown")


def main(arguments: list[str] | None = None) -> int:
    """Print the list; returns the exit status."""
    return run_list_command(MetricsOptions, _run, arguments)


def _run(options: MetricsOptions) -> int:
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
