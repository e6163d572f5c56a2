"""
iostats mail: Slurm's MailProg, which adds a job's report to the mail about its end.

The mail is sent in any case: modules that need more than the standard library, or can fail, are
imported where the error is caught.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import BAD_USAGE, IostatsError
from iostats.base.messages import print_message
from iostats.cli import CONFIG, Options, option

if TYPE_CHECKING:
    from iostats.totals.record import Record

_WAIT_S, _RETRY_S = 60.0, 2.0
_ANSWER_WITHIN_S = 10.0
_ENDS_BEFORE_MAIL_S = 120.0     # epilogs end at about the time of the job's mail
_MAX_RUNS = 20                  # of several runs
# "Slurm Job_id=4711 Name=NAME Ended, Run time ...", "Slurm Array Task Job_id=12_3 (15) Name=...",
# "Slurm Array Summary Job_id=12_* (12) Name=...".  NAME is any text; "Reached 90% of time limit"
# is about a job that continues.  Source: mail_job_info(), src/slurmctld/agent.c, 22.05 to 24.11.
_JOB = re.compile(r"Job_id=(\d+)(?:_(?:\d+|(\*)))?(?: \((\d+)\))? Name=")
_ENDED = re.compile(r" (?:Ended|Failed|Requeued)(?:, |$)")


class MailOptions(Options, help="""\
usage: iostats mail [options] -s SUBJECT ADDRESS ...

Send a mail as mail(1) does, with the report of the job that the subject names
as ended.  For Slurm's MailProg, which is called with these arguments.  Standard
input is the text of the mail; the report is added below.

options:
{options}

exit status:
  that of the mail program ([site] mail_program in site.cfg)   2 bad usage
"""):
    subject = option("-s SUBJECT", '"Slurm Job_id=4711 Name=a Ended, Run time 00:31:07, ..."')
    wait = option("--wait S", "seconds to wait for the report (default: 60)")
    config = CONFIG


def main(arguments: list[str] | None = None) -> int:
    """Send the mail with the job's report added; the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = {}
    own = {"-h", "--help", *MailOptions.find_names()} - {"-s"}
    while arguments[:1] and arguments[0] in own:
        option = arguments.pop(0)
        if option in ("-h", "--help"):
            print(MailOptions.format_help(), end="")
            return 0
        options[option] = arguments.pop(0) if arguments else ""
    wait = options.get("--wait", str(_WAIT_S))
    if not arguments or not re.fullmatch(r"\d{1,5}(\.\d+)?", wait):
        print_message("mail: expected -s SUBJECT ADDRESS, and seconds after --wait (see --help)")
        return BAD_USAGE
    text, program = "", "/usr/bin/mail"
    try:
        config = site.load(options.get("--config"))
        program = config.site.mail_program
        text = _report(arguments, config, float(wait))
    except IostatsError as error:                     # the mail is sent without the report
        print_message(error)
    except ModuleNotFoundError as error:
        print_message(f"mail: sent without the report: {sys.executable} has no package "
                      f"{error.name!r}; sudo make install-site")
    except Exception as error:
        print_message(f"internal error; please report: {error!r}")
    # A job's name may contain a line break, after which some mail programs read a header; and an
    # address, which the user chooses, may look like an option.
    arguments = [" ".join(word.splitlines()) for word in arguments]
    to = arguments[2:] if arguments[:1] == ["-s"] else arguments
    if any(word.startswith("-") for word in to):
        print_message(f"mail: expected -s SUBJECT ADDRESS, got the address "
                      f"{' '.join(to)[:80]!r}")
        return BAD_USAGE
    body = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    try:
        return subprocess.run([*program.split(), *arguments],
                              input=body + text.encode("utf-8", "replace")).returncode
    except (OSError, IndexError) as error:
        print_message(f"{program or 'no mail program'}: cannot be run: "
                      f"{getattr(error, 'strerror', 'it is empty')}")
        return BAD_USAGE


def _report(arguments: list[str], config: site.Config, wait_s: float) -> str:
    """The report of the job that the subject names as ended; "" for any other mail."""
    subject = arguments[arguments.index("-s") + 1] if "-s" in arguments[:-1] else ""
    named = _JOB.search(subject)
    if not named or not _ENDED.search(subject, named.end()):
        return ""
    from iostats.cli.report import fetch_records, select_latest_runs
    number, is_array, raw = named.groups()
    job = number if is_array else raw or number
    called_at = time.time()
    until = time.monotonic() + wait_s
    while True:
        # Slurm's user calls this; the mail is for the job's user.
        records, failed = fetch_records(job, config, within_s=min(
            _ANSWER_WITHIN_S, max(1.0, until - time.monotonic())), for_anybody=True)
        records_found = select_latest_runs(records)
        left = until - time.monotonic()
        if records_found and (left <= 0 or any(_is_of_last_run(record, called_at)
                                               for record in records_found)):
            return "\n" + "\n".join(format_reports(records_found, config, job))
        if left <= 0:
            return f"\nNo I/O report of job {job}: {failed or 'unknown reason'}\n"
        time.sleep(min(_RETRY_S, left))


def _is_of_last_run(record: Record, called_at: float) -> bool:
    """False for the record of an earlier run, while that of the run that has just ended is due."""
    ended = record.job.ended
    return ended is None or ended > called_at - _ENDS_BEFORE_MAIL_S


def format_reports(records: list[Record], config: site.Config, job: str) -> list[str]:
    """
    Return [report] of the records of `job`, for an array the total, as plain text that no mail
    program takes for its commands.
    """
    from iostats.report import array_total, job_tables
    from iostats.report.screen import LOG, PLAIN
    shown = [job_tables.add_labels(record, config) for record in records]
    texts = [array_total.format_total(job, shown, config, LOG._replace(form=PLAIN), "")
             ] if array_total.are_parts_of(shown, job) else [
        job_tables.format_report(record, config, "plain", has_page=not record.short)
        for record in shown[-_MAX_RUNS:]]
    # A line that begins with ~ is a command to some mail programs.
    return [re.sub("(?m)^~", " ~", text) for text in texts]
