"""
iostats diff: what changed from one job to another, or from one part of a job to another.
"""

from __future__ import annotations

import os
import sys

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, IostatsError, UsageError, one_line
from iostats.base.job_id import checked_batch_job
from iostats.cli import record_file, unfinished
from iostats.cli.parser import parser, put_out, status_of
from iostats.cli.report import latest_runs, records_of
from iostats.cli.terminal_form import screen_of
from iostats.report.diff import changes, diff_text, sides

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from iostats.report.advice.finding import Finding
    from iostats.report.diff.numbers import JobNumbers

HELP = """\
usage: iostats diff [options] A B

Print what changed from job A to job B, the most important first: bytes, calls,
sizes, times, requests to MDTs, how OSTs were used; by how much, up or down.
A number that may be too low (>=) is said to have changed only where it has for
certain.  Where nodes or times differ, amounts also stand by node-hour.

A and B are jobs of `iostats report`, files with a record (as --format json or
--json writes it; ./4711 for one that is called like a job), or parts of a job:
4711:solve is the part "solve".

options:
  --all                 small changes too, and all that cannot be told
  --json                the comparison as JSON, with both bounds of each number
  --from WHERE          site or comment (default: site, then comment)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats diff 4711 4733
  iostats diff 4711:solve 4711:write
  iostats diff before.json 4733

exit status:
  0 printed, whether something changed or not
  1 a job has no report, a file cannot be read, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and the job is not known from elsewhere
"""


class DiffUnreadable(IostatsError):
    """A record that cannot be compared."""

    exit_status = UNREADABLE


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats diff", HELP, ("--from", "--config"), ("--all", "--json"))
    command_line.add_argument("jobs", nargs="*")
    return status_of(lambda: _run(command_line.parse_intermixed_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    where = getattr(options, "from")
    if where not in (None, "site", "comment"):
        raise UsageError(f"--from: expected site or comment, got {where!r}")
    if len(options.jobs) != 2:
        raise UsageError(f"expected two jobs, got {len(options.jobs)} (see --help)")
    names = _names(*options.jobs)
    sides = [_side(text, name, config, where) for text, name in zip(options.jobs, names)]
    found = changes.compared(sides[0][0], sides[1][0], sides[0][1], sides[1][1])
    put_out([diff_text.as_json(found) if options.json else diff_text.as_text(
        found, config["report.units"], screen_of(sys.stdout), options.all)])
    return DONE


def _names(*texts: str) -> list[str]:
    """What the two are called: files without their directory, where that makes a difference."""
    found = [os.path.basename(text) or text for text in texts]
    if found[0] == found[1]:
        found = list(texts)
    found = list(map(one_line, found))
    return [f"{found[0]} (A)", f"{found[1]} (B)"] if found[0] == found[1] else found


def _side(text: str, name: str, config: site.Config,
          where: str | None) -> tuple[JobNumbers, list[Finding] | None]:
    """(numbers, findings or None) of a job, a file, or a part of one."""
    form, phase = _record_of(text, config, where)
    try:
        return sides.side_of(form, name, config, phase)
    except LookupError:
        parts = [one.get("name") for one in form.get("phases") or () if isinstance(one, dict)]
        raise DiffUnreadable(f"{text}: no part {phase!r:.80}; "
                             + (f"there are: {', '.join(map(str, parts[:20]))}" if parts else
                                "it has no parts (see `iostats mark`)")) from None


def _record_of(text: str, config: site.Config,
               where: str | None) -> tuple[Mapping[str, Any], str | None]:
    """(JSON object of a record, name of a part or None)."""
    head, colon, phase = text.rpartition(":")
    for path, of in ((text, None), (head, phase)):
        if _is_file(path):
            return _from_file(path), of
    if os.sep in text or text.endswith(".json"):
        raise DiffUnreadable(f"{head if colon and os.sep in head else text}: no such file")
    job = checked_batch_job(head if colon else text, "A and B")
    records, failed = records_of(job, config, where)
    if not records:
        if failed:
            raise failed
        raise DiffUnreadable(f"the accounting has no comment of iostats for job {job}"
                             if where == "comment" else unfinished.reasons([job], config)[job])
    shown = latest_runs(records)
    if len(shown) > 1:
        raise UsageError(f"{job} is {len(shown)} jobs; name one of them: "
                         f"{', '.join(one.job.id for one in shown[:8])}")
    return shown[0], phase if colon else None


def _is_file(path: str) -> bool:
    """Also a file that is called as a job is, where its directory is named: ./4711."""
    return bool(path) and os.path.exists(path) and (
        os.sep in path or "." in path or not path[:1].isdigit())


def _from_file(path: str) -> Mapping[str, Any]:
    try:
        found = record_file.forms_in(path)
    except UsageError as error:
        raise DiffUnreadable(str(error)) from None
    if len(found) > 1:
        raise DiffUnreadable(f"{path}: expected one record, got {len(found)}")
    return found[0]
