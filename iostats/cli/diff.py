"""
iostats diff: the differences between two jobs, or between two parts of a job.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, IostatsError, UsageError, sanitize
from iostats.base.job_id import check_batch_job
from iostats.cli import CONFIG, Options, flag, operands, option, record_file, unfinished
from iostats.cli.parser import parse_options, run_role, write_output
from iostats.cli.report import fetch_records, select_latest_runs
from iostats.cli.terminal_form import detect_screen
from iostats.report.diff import changes, diff_text, sides

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.report.diff.numbers import JobNumbers
    from iostats.report.findings.finding import Finding


class DiffOptions(Options, help="""\
usage: iostats diff [options] A B

Print what changed from job A to job B, the most important first: bytes, calls,
sizes, times, requests to MDTs, how OSTs were used; by how much, up or down.
A number that may be too low (>=) is listed only if it has certainly changed.
If nodes or times differ, amounts are also shown by node-hour.

A and B are jobs of `iostats report`, files with a record (written by --format
json or --json; ./4711 for a file named like a job), or parts of a job:
4711:solve is the part "solve".

options:
{options}

examples:
  iostats diff 4711 4733
  iostats diff 4711:solve 4711:write
  iostats diff before.json 4733

exit status:
  0 printed, whether something changed or not
  1 a job has no report, a file cannot be read, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and no other source has the job
"""):
    jobs = operands("A B")
    all = flag("--all", "also small changes, and unknown ones")
    json = flag("--json", "the comparison as JSON, with both bounds of each number")
    from_ = option("--from WHERE", "site or comment (default: site, then comment)")
    config = CONFIG


class DiffUnreadable(IostatsError):
    """A record that cannot be compared."""

    exit_status = UNREADABLE


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison; returns the exit status."""
    return run_role(lambda: _run(parse_options(DiffOptions, arguments)))


def _run(options: DiffOptions) -> int:
    config = site.load(options.config)
    where = options.from_
    if where not in (None, "site", "comment"):
        raise UsageError(f"--from: expected site or comment, got {where!r}")
    if len(options.jobs) != 2:
        raise UsageError(f"expected two jobs, got {len(options.jobs)} (see --help)")
    names = _name_sides(*options.jobs)
    sides = [_load_side(text, name, config, where) for text, name in zip(options.jobs, names)]
    comparison = changes.compare_jobs(sides[0][0], sides[1][0], sides[0][1], sides[1][1])
    write_output([diff_text.format_json(comparison) if options.json
                  else diff_text.format_comparison(
        comparison, config.report.units, detect_screen(sys.stdout), options.all)])
    return DONE


def _name_sides(*texts: str) -> list[str]:
    """The names of the two sides: files without their directory, unless they differ only there."""
    names = [os.path.basename(text) or text for text in texts]
    if names[0] == names[1]:
        names = list(texts)
    names = list(map(sanitize, names))
    return [f"{names[0]} (A)", f"{names[1]} (B)"] if names[0] == names[1] else names


def _load_side(text: str, name: str, config: site.Config,
               where: str | None) -> tuple[JobNumbers, list[Finding] | None]:
    """Return (numbers, findings or None) of a job, a file, or a part of one."""
    form, phase = _find_record(text, config, where)
    try:
        return sides.read_side(form, name, config, phase)
    except LookupError:
        parts = [phase_form.get("name") for phase_form in form.get("phases") or ()
                 if isinstance(phase_form, dict)]
        raise DiffUnreadable(f"{text}: no part {phase!r:.80}; "
                             + (f"there are: {', '.join(map(str, parts[:20]))}" if parts else
                                "it has no parts (see `iostats mark`)")) from None


def _find_record(text: str, config: site.Config,
                 where: str | None) -> tuple[Mapping[str, Any], str | None]:
    """Return (JSON object of a record, name of a part or None)."""
    head, colon, phase = text.rpartition(":")
    for path, part in ((text, None), (head, phase)):
        if _is_file(path):
            return _read_record(path), part
    if os.sep in text or text.endswith(".json"):
        raise DiffUnreadable(f"{head if colon and os.sep in head else text}: no such file")
    job = check_batch_job(head if colon else text, "A and B")
    records, failed = fetch_records(job, config, where)
    if not records:
        if failed:
            raise failed
        raise DiffUnreadable(f"the accounting has no comment of iostats for job {job}"
                             if where == "comment"
                             else unfinished.explain_missing_reports([job], config)[job])
    shown = select_latest_runs(records)
    if len(shown) > 1:
        raise UsageError(f"{job} is {len(shown)} jobs; name one of them: "
                         f"{', '.join(record.job.id for record in shown[:8])}")
    return shown[0], phase if colon else None


def _is_file(path: str) -> bool:
    """Whether it names a file; a file named like a job needs its directory: ./4711."""
    return bool(path) and os.path.exists(path) and (
        os.sep in path or "." in path or not path[:1].isdigit())


def _read_record(path: str) -> Mapping[str, Any]:
    try:
        records = record_file.read_json_records(path)
    except UsageError as error:
        raise DiffUnreadable(str(error)) from None
    if len(records) > 1:
        raise DiffUnreadable(f"{path}: expected one record, got {len(records)}")
    return records[0]
