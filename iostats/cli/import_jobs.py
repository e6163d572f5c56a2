"""
iostats import: old jobs, from what another tool has stored.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from iostats import schedulers
from iostats.base import config as site
from iostats.base.errors import DONE, NotReadable, UsageError
from iostats.base.units import format_count
from iostats.cli import CONFIG, Options, operands
from iostats.cli.parser import parse_options, run_role, write_output

if TYPE_CHECKING:
    from iostats.jobs.imported import ImportedJob


class ImportOptions(Options, help="""\
usage: iostats import [options] FILE ...

Import old jobs from jobHarvest's points in InfluxDB: FILE has them in line
protocol, as `influxd inspect export-lp` writes it; - is standard input.
Records of these jobs are put into the site's store ([site] store in site.cfg);
jobs that it has already are left as they are.  Stop the site's server first;
nodes and agents store their messages until it is back.

Each total may be too low or too high, and reports mark it with ~:
docs/how-to/migrate.md#jobharvest.

options:
{options}

exit status:
  0 imported   1 a file or the store cannot be used   2 bad usage or points
"""):
    files = operands("FILE")
    config = CONFIG
_MOST_NAMED = 5                 # jobs


def main(arguments: list[str] | None = None) -> int:
    """Import the jobs; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(ImportOptions, arguments)
    if not options.files:
        raise UsageError("iostats import: expected a FILE with points of jobHarvest (see --help)")
    from iostats.jobs import imported
    from iostats.store.record_store import Store
    config = site.load(options.config)
    jobs: dict[str, ImportedJob] = {}
    for path in options.files:
        with contextlib.ExitStack() as stack:
            try:
                lines = sys.stdin if path == "-" else stack.enter_context(
                    open(path, encoding="utf-8"))
                imported.read_points(lines, path, jobs)
            except (OSError, UnicodeDecodeError) as error:
                raise NotReadable(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not jobs:
        raise UsageError("iostats import: expected points of measurement `lustre`, got none")
    store = Store(config.site.store)
    try:
        count, known = imported.store_jobs(jobs, store, config,
                                           schedulers.find_queried(config.batch.system, os.environ),
                                           time.time)
    finally:
        store.close()
    write_output([f"{format_count(count, 'job')} imported from {imported.TOOL}\n"])
    if known:
        write_output([f"{format_count(len(known), 'job')} left as before, as the store has them: "
                      f"{', '.join(known[:_MOST_NAMED])}{', ...' * (len(known) > _MOST_NAMED)}\n"])
    return DONE
