"""
The prologs' files of the jobs on a node, in [node] hook_dir: a start and a file of facts for each.

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

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.job_id import make_filename
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_text
from iostats.node import identity as this_node
from iostats.totals import snapshot as snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from iostats.node.start_files import StartFiles
    from iostats.schedulers.job_environment import JobAbout

# What a report has of the job, and the longest text of each; the server's About.
_LONGEST = {"scheduler": 128, "cluster": 128, "attempt": None, "nodes": 1 << 20, "uid": None,
            "user": 128, "account": 128, "partition": 128, "output": 4096, "work_dir": 4096}
_LARGEST = 2**32 - 1

# Why a node has no numbers, beside those of measurement.py.
BOOTED = "the node was booted during the job"
EMPTY_FILE = "its prolog could not write its files: was the disk full?"
NO_EPILOG = "no epilog has run"
CUT_OFF = "the epilog was ended before it was done"
MOST_OTHERS = 100                  # that a report names
_CUT_OFF_S = 60.0                  # an epilog that began so long ago has ended


class JobFile(NamedTuple):
    """The contents of a job's file."""

    about: JobAbout         # what the prolog knew of the job
    others: set[str]        # {stem} of the other jobs
    over: float | None      # uptime in seconds when its epilog began, or None
    why: str = ""           # why its prolog kept no start, or ""
    # {stem of another job whose start was given up: since when it was there, seconds since 1970}
    gone: dict[str, float] = {}


def list_started_jobs(directory: str) -> list[str]:
    """Stems of the jobs that had a prolog on this node, but no epilog yet."""
    return [name[:-len(".start")] for name in list_file_names(directory) if name.endswith(".start")]


def list_file_names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def get_stem(path: str) -> str:
    return os.path.basename(path)[:-len(".start")]


def make_job_path(files: StartFiles) -> str:
    return files.start_path[:-len(".start")] + ".job"


def parse_run(stem: str, node: str) -> tuple[str, int]:
    """Return (job, attempt) of a start on this node; ("", 0) if its name does not contain them."""
    first, *rest = stem.split("%")
    try:
        data = first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode()
                                         for part in rest)
        key = data.decode("utf-8", "surrogatepass")[:-len(node) - 1]
    except ValueError:
        return "", 0
    if make_filename(key, node) != stem:                    # too long, or of another node
        return "", 0
    job, restarted, attempt = key.rpartition("#")
    return (job, int(attempt)) if restarted and attempt.isdigit() else (key, 0)


def read_start_time(directory: str, stem: str) -> int | None:
    """The time at which the prolog stored a start, in whole seconds since 1970."""
    try:
        return int(os.lstat(os.path.join(directory, stem + ".start")).st_mtime)
    except OSError:
        return None


def explain_missing_epilog(directory: str, stem: str, now: float | None = None) -> str:
    """
    The reason why a start can have no epilog any more, "" if it can; with `now`, also why an epilog
    that began will not end.
    """
    path = os.path.join(directory, stem + ".start")
    job = os.path.join(directory, stem + ".job")
    over = read(job).over
    if over is not None:
        # By the time since boot, which is never set; less than before: the node was booted.
        since_s = this_node.read_seconds_since_boot() - over
        return CUT_OFF if now is None or not 0 <= since_s <= _CUT_OFF_S else ""
    booted_at = time.time() - this_node.read_seconds_since_boot()
    try:
        if os.lstat(path).st_mtime > booted_at - 1:
            return ""
        boot_id = snapshots.decode(read_text(path).encode("latin-1"), path).boot_id
    except (OSError, StateError):                           # its epilog will say so
        return ""
    # A clock that was set tells another time of the boot, but not another boot.
    return BOOTED if boot_id != this_node.read_boot_id() else ""


def delete(directory: str, stem: str) -> None:
    for name in list_file_names(directory):
        if name.startswith(stem + ".") and not name.endswith((".delta", ".refused")):
            private_files.remove_if_present(os.path.join(directory, name))


def select_valid(about: Mapping[str, object]) -> JobAbout:
    """The members of `about` that a report and a line of a file can contain."""
    known_facts: Any = {}
    for name, longest in _LONGEST.items():
        value = about.get(name)
        if longest is None:
            if isinstance(value, int) and 0 <= value <= _LARGEST:
                known_facts[name] = value
        elif isinstance(value, str) and value and value.isprintable() and len(value) <= longest:
            known_facts[name] = value
    members: JobAbout = known_facts
    return members


def write(path: str, about: Mapping[str, object]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in about.items())
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def append(path: str, line: str, emit: Callable[[str], None]) -> None:
    """Append a line to the file, if it exists: its job may be over."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except FileNotFoundError:
        pass
    except OSError as error:
        emit(f"{path}: cannot be written: {error.strerror}")


def read(path: str) -> JobFile:
    """
    The JobFile of a file: its `about`, the other jobs, the time at which its epilog began, or None,
    the reason why its prolog stored no start, or "", and {job whose start was given up: its time on
    the node}.
    """
    about: dict[str, str | int] = {}
    other_stems: set[str] = set()
    ended_stems: dict[str, float] = {}
    over: float | None = None
    why = ""
    try:
        text = read_text(path).encode("latin-1").decode("utf-8", "replace")
    except OSError:
        return JobFile({}, other_stems, over)
    if not text:                                            # its prolog always writes something
        why = EMPTY_FILE
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition("=")
        if name == "other":
            other_stems.add(value)
        elif name == "over":
            over = float(value) if value.isascii() and value.isdigit() else 0.0
        elif name == "was":
            since, _, stem = value.partition(" ")
            if since.isascii() and since.isdigit() and len(since) < 12:
                ended_stems[stem] = int(since)
        elif name == "why" and value.isprintable():
            why = value
        elif name in _LONGEST:
            is_number = _LONGEST[name] is None and value.isascii() and value.isdigit()
            about[name] = int(value) if is_number and len(value) < 12 else value
    return JobFile(select_valid(about), other_stems, over, why, ended_stems)
