"""
Asking a batch system by its commands, and reading what they print.
"""

from __future__ import annotations

import os

from iostats.base import errors, job_id
from iostats.base.errors import NotReadable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from subprocess import CompletedProcess
    from typing import Any

    Run = Callable[[Sequence[str]], CompletedProcess[str]]

WITHIN_S = 10                       # a scheduler's command that takes longer is not waited for
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def run_command(argv: Sequence[str]) -> CompletedProcess[str]:
    """Run a command without input, for at most 10 s, in English; the result of subprocess.run()."""
    import subprocess
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S,
                          encoding="utf-8", errors="replace", env={**os.environ, "LC_ALL": "C"})


def ask(argv: Sequence[str], run: Run | None = None, shown: str = "") -> tuple[int, str, str]:
    """
    Return (exit status, output, the first line of errors) of a command; NotReadable.

    `shown`: a name of the command for errors, if its command line would mean nothing to users.
    """
    import subprocess
    try:
        done = (run or run_command)(argv)
    except subprocess.TimeoutExpired as error:
        raise NotReadable(
            f"{shown or _format_command(argv)}: expected an answer within {error.timeout:g} "
                          f"s, got none; is the batch system up?") from None
    except OSError as error:
        raise NotReadable(
            f"{shown or _format_command(argv)}: expected the batch system's command, got "
                          f"{error.strerror or error}; is it in PATH here?") from None
    wrong = (done.stderr or "").strip()
    return done.returncode, done.stdout or "", wrong


def make_command_error(argv: Sequence[str], status: int, wrong: str) -> NotReadable:
    """Make the NotReadable for a command that failed."""
    return NotReadable(f"{_format_command(argv)}: expected exit status 0, got {status}: "
                       f"{wrong.partition(chr(10))[0][:200] or 'and not a word why'}")


def make_format_error(origin: str, expected: str, text: object) -> NotReadable:
    """Make the NotReadable for an output with an unexpected format."""
    text = text if isinstance(text, str) else repr(text)
    return NotReadable(f"{origin}: expected {expected}, got {text.strip()[:60]!r}")


def _format_command(argv: Sequence[str]) -> str:
    text = " ".join(argv)
    return text if len(text) <= 120 else text[:117] + "..."


def check_ids(jobs: Iterable[str]) -> list[str]:
    """Return [job id] that can stand on a command line; UsageError."""
    job_ids = [job_id.check_job_id(job, "job id") for job in jobs]
    for job in job_ids:
        if job.startswith("-") or any(c.isspace() or c in ",'\"" for c in job):
            raise UsageError(f"expected a job id, got {job[:40]!r}")
    return list(dict.fromkeys(job_ids))


def parse_json_object(text: str, origin: str, expected: str) -> dict[str, object]:
    """
    The JSON object `text`; NotReadable.  Of duplicate keys the first counts: texts of users
    (environment, job name) come late, and must not replace values of the batch system.
    """
    import json
    try:
        parsed = json.loads(text, strict=False, object_pairs_hook=lambda pairs: dict(pairs[::-1]))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise make_format_error(origin, expected, text)
    return parsed


def get_field(record: Mapping[str, object], *keys: str) -> str:
    """The value of the first of `keys` in `record`, as one line of text; ""."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = str(value).strip()
            if text and text.isprintable():
                return text
    return ""


def get_label(record: Mapping[str, object], *keys: str) -> str:
    """Like `get_field`, for texts of users: characters that do not print are made visible."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = errors.sanitize(str(value).strip())
            if text:
                return text
    return ""


def parse_time(text: object, now: float | None = None) -> float | None:
    """
    Seconds since 1970 of a time as batch systems write it, in local time; None for none.

        Fri Nov 20 10:00:07 2026    Nov 20 10:00:07 2026    Nov 20 10:00 (before `now`)
        2026-11-20 10:00:07.041     2026-11-20T10:00:07     11/20/2026 10:00:07.041
        1795168807.041
    """
    text = str(text).strip()
    try:
        if text[:1].isdigit() and text.replace(".", "", 1).isdigit() and text.isascii():
            return float(text) if 0 < float(text) < 1e11 else None
        words = text.replace("T", " ").split() if text[:1].isdigit() else text.split()
        if text[:1].isdigit():
            date: Sequence[Any] = words[0].split("-")
            if len(date) != 3:
                month, day, year = words[0].split("/")
                date = (year, month, day)
            clock = words[1]
        else:
            if words[0] not in _MONTHS:
                words = words[1:]
            date = (words[3] if len(words) > 3 else None, _MONTHS.index(words[0]) + 1, words[1])
            clock = words[2]
        moment = _convert_local_time(date, clock, now)
        return moment if moment is not None and abs(moment) < 1e11 else None      # of year 5138
    except (ValueError, IndexError, OverflowError):
        return None


def _convert_local_time(date: Sequence[Any], clock: str, now: float | None) -> float | None:
    import time
    year, month, day = date
    clock, _, fraction = clock.partition(".")
    hour, minute, second = [int(part) for part in (clock + ":0").split(":")[:3]]

    def at(year: int) -> float:
        return time.mktime((year, int(month), int(day), hour, minute, second, 0, 0, -1))
    if year is not None:
        return at(int(year)) + (float("0." + fraction) if fraction.isdigit() else 0.0)
    if now is None:
        return None
    this_year = time.localtime(now).tm_year
    # A day is left for clocks that differ; what is later than that was last year.
    return at(this_year) if at(this_year) < now + 86400 else at(this_year - 1)
