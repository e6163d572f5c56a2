"""
What prologs keep of the jobs on a node, in [node] hook_dir: a start and a file of each.

    KEY%20NODE.start          the start snapshot, see start_files.py; KEY%20NODE is its stem
    KEY%20NODE.job            what the prolog knew of the job: NAME=VALUE lines, and
        other=STEM            another job that was on the node with it
        was=SINCE STEM        such a job, whose start was given up because it had no epilog
        over=UPTIME           its epilog has begun
        why=TEXT              why its prolog kept no start

KEY is the job's id, and "#N" after it in the N-th restart: a requeued job keeps its id.
"""

from __future__ import annotations

import os
import time
from collections import namedtuple

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.job_id import as_filename
from iostats.base.private_files import read_text
from iostats.node import identity as this_node
from iostats.totals import snapshot as snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.node.start_files import StartFiles

# What a report has of the job, and the longest text of each; the server's About.
_LONGEST = {"scheduler": 128, "cluster": 128, "attempt": None, "nodes": 1 << 20, "uid": None,
            "user": 128, "account": 128, "partition": 128, "output": 4096, "work_dir": 4096}
_LARGEST = 2**32 - 1

# Why a node has no numbers, beside those of measurement.py.
BOOTED = "the node was booted during the job"
NO_EPILOG = "no epilog has run"
CUT_OFF = "the epilog was ended before it was done"
MOST_OTHERS = 100                  # that a report names
_CUT_OFF_S = 60.0                  # an epilog that began so long ago has ended

JobFile = namedtuple("JobFile", "about others over why gone", defaults=("", {}))
JobFile.__doc__ = """
What stands in the file of a job.

Attributes:
    about: what the prolog knew of the job.
    others: {stem} of the other jobs.
    over: uptime in seconds when its epilog began, or None.
    why: why its prolog kept no start, or "".
    gone: {stem of another job whose start was given up: since when it was there, seconds since
        1970}.
"""


def starts(directory: str) -> list[str]:
    """Stems of the jobs whose prolog has been on this node, and not their epilog."""
    return [name[:-len(".start")] for name in file_names(directory) if name.endswith(".start")]


def file_names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def stem_of(path: str) -> str:
    return os.path.basename(path)[:-len(".start")]


def job_path(kept: StartFiles) -> str:
    return kept.start_path[:-len(".start")] + ".job"


def run_of(stem: str, node: str) -> tuple[str, int]:
    """(job, attempt) of a start on this node; ("", 0) where its name does not tell."""
    first, *rest = stem.split("%")
    try:
        data = first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode()
                                         for part in rest)
        key = data.decode("utf-8", "surrogatepass")[:-len(node) - 1]
    except ValueError:
        return "", 0
    if as_filename(key, node) != stem:                      # too long, or of another node
        return "", 0
    job, restarted, attempt = key.rpartition("#")
    return (job, int(attempt)) if restarted and attempt.isdigit() else (key, 0)


def since(directory: str, stem: str) -> int | None:
    """When the prolog kept a start, in whole seconds since 1970."""
    try:
        return int(os.lstat(os.path.join(directory, stem + ".start")).st_mtime)
    except OSError:
        return None


def why_it_is_over(directory: str, stem: str, now: float | None = None) -> str:
    """
    Why no epilog will come any more for a start, "" if one may; with `now`, also why one that
    has come will not end.
    """
    path = os.path.join(directory, stem + ".start")
    job = os.path.join(directory, stem + ".job")
    over = read(job).over
    if over is not None:
        # By the time since boot, which is never set; less than before: the node was booted.
        since_s = this_node.seconds_since_boot() - over
        return CUT_OFF if now is None or not 0 <= since_s <= _CUT_OFF_S else ""
    booted_at = time.time() - this_node.seconds_since_boot()
    try:
        if os.lstat(path).st_mtime > booted_at - 1:
            return ""
        boot_id = snapshots.decode(read_text(path).encode("latin-1"), path).boot_id
    except (OSError, StateError):                           # its epilog will say so
        return ""
    # A clock that was set tells another time of the boot, but not another boot.
    return BOOTED if boot_id != this_node.boot_id() else ""


def forget(directory: str, stem: str) -> None:
    for name in file_names(directory):
        if name.startswith(stem + ".") and not name.endswith((".delta", ".refused")):
            private_files.forget(os.path.join(directory, name))


def checked(about: dict[str, Any]) -> dict[str, Any]:
    """What of `about` can stand in a report, and in a line of a file."""
    found = {}
    for name, longest in _LONGEST.items():
        value = about.get(name)
        if longest is None:
            if isinstance(value, int) and 0 <= value <= _LARGEST:
                found[name] = value
        elif value and value.isprintable() and len(value) <= longest:
            found[name] = value
    return found


def write(path: str, about: dict[str, Any]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in about.items())
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def append(path: str, line: str, say: Callable[[str], None]) -> None:
    """One line more, if the file is there: its job may have gone."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except FileNotFoundError:
        pass
    except OSError as error:
        say(f"{path}: cannot be written: {error.strerror}")


def read(path: str) -> JobFile:
    """
    The JobFile of a file: its `about`, the other jobs, when its epilog began, or None, why its
    prolog kept no start, or "", and {other job whose start was given up: since when it was there}.
    """
    about: dict[str, Any] = {}
    others: set[str] = set()
    gone: dict[str, int] = {}
    over: float | None = None
    why = ""
    try:
        text = read_text(path).encode("latin-1").decode("utf-8", "replace")
    except OSError:
        return JobFile(about, others, over)
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition("=")
        if name == "other":
            others.add(value)
        elif name == "over":
            over = float(value) if value.isascii() and value.isdigit() else 0.0
        elif name == "was":
            since, _, stem = value.partition(" ")
            if since.isascii() and since.isdigit() and len(since) < 12:
                gone[stem] = int(since)
        elif name == "why" and value.isprintable():
            why = value
        elif name in _LONGEST:
            is_number = _LONGEST[name] is None and value.isascii() and value.isdigit()
            about[name] = int(value) if is_number and len(value) < 12 else value
    return JobFile(checked(about), others, over, why, gone)
