"""
iostats quota: the users, groups and projects that are nearest to their quotas; options as those of
`iostats nodes`.
"""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING

from iostats.cli import operands, option, repeated
from iostats.cli.list_options import (
    ByFileSystem,
    ListOptions,
    print_answer,
    run_list_command,
    select_file_system,
)
from iostats.load.columns import wrap_text
from iostats.lustre.quota import GROUP, USER
from iostats.report import server_tables
from iostats.report.site_methods import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iostats.report.server_tables import QuotaAnswer


class QuotaOptions(ListOptions, ByFileSystem, help="""\
usage: iostats quota [options] [NAME ...]

Print a line for each quota of a user, a group or a project, those nearest to
their limits first, from the site's server.  The agent on the MDS with MDT0000
reads them there each ten minutes: no client and no target is asked.

which quotas:
{common}
{which}

what is shown:
{shown}

{options}

Granted is what the quota master has given to the targets, and what limits are
enforced by: what is used is at most that, and shown by `lfs quota`.  Users see
their own quotas and those of their groups; root and [site] readers see all.

examples:
  iostats quota -f scratch --limit 20
  iostats quota -P -o Name,Kind,Of,GrantedPct alice

exit status:
  0 printed, also if no quota was found    1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""):
    file_system = option("-f, --fs NAME", "on this file system only", "common")
    names = operands("NAME", "of these users, groups or projects, by name or number", "which")
    format = repeated("-o, --format FIELDS",
                      "such as Name,Granted,Hard%12; ALL for every field", "shown")


def main(arguments: list[str] | None = None) -> int:
    """Print the list of quotas; returns the exit status."""
    return run_list_command(QuotaOptions, _run, arguments)


def _run(options: QuotaOptions) -> int:
    names = {*options.names}
    return print_answer(
        options, server_tables.QUOTAS, server_tables.DEFAULT_QUOTAS, QUOTAS,
        {"file_systems": select_file_system(options)},
        lambda answer: [row for row in server_tables.build_quota_rows(answer, _find_name)
                        if not names or {row["name"], str(row["id"])} & names],
        server_tables.make_quota_cell, server_tables.DISPENSABLE,
        "no agent on an MDS has reported such a quota",
        lambda answer, rows, width: _list_notes(answer, width))


def _list_notes(answer: QuotaAnswer, width: int) -> Iterator[str]:
    """Lines on file systems of which the server does not list all quotas."""
    for fs in answer["file_systems"]:
        if fs["count"] > fs["listed"]:
            yield from wrap_text(f"note: {fs['file_system']}: of {fs['count']:,} quotas the "
                                 f"{fs['listed']:,} nearest to their limits are reported", width)


def _find_name(kind: str, number: int) -> str:
    try:
        return (pwd.getpwuid(number).pw_name if kind == USER else
                grp.getgrgid(number).gr_name if kind == GROUP else str(number))
    except (KeyError, OverflowError):
        return str(number)
