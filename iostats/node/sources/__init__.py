"""
The files that are read on a node, by source, one module each; the directory is the list.

A source is a module with

    NAME                       as in snapshots, reports and notes, and as its file: "llite"
    READ_AT                    when it is read, some of "start", "mark", "watch" and "stop"; one
                               that is not read at the start may stand in after_start/
    read(root, config)         [File], without understanding them

and, if its files are counters,

    LAYER                      what they count: "application", "network" or "metadata" of Lustre;
                               "" for anything else, which has a table of its own
    TITLE                      what it is called in tables and in the doctor's lines
    LETTER                     its letter in the short form of a record (report/accounting_comment)
    CALLS_SUFFIX               what the samples of a [bytes] counter are: "_calls", "_rpcs"
    parse(text, origin)        Reading, or StatsSyntaxError; its snapshot_ns is None only where the
                               file is torn
    split(name)                (file system, target or "", instance) of a file's name, or None
    is_sent(metric)            False for metrics that no report shows; may be absent: all are sent
    corrected(values, reading) the gains as they are to be counted, by the last Reading; may be
                               absent
    BY_TARGET                  False where no report shows its targets: the node adds them up; may
                               be absent
    ONLY_IF_USED               True: a node may have none, or hundreds: the doctor needs none, and
                               what gained nothing is not sent; may be absent
    UPPER_BOUND                True: what is not the job's is always in it as well; or the metrics
                               that may be too high; may be absent
    IN_PARTS                   its gains are sent for each part of a job, between two marks, as
                               well; may be absent: they are not
    count_operations(values)   operations among the gains, if it is read at "watch"
    read_whole(root, config)   [File] as a start stores it, in less time than read() takes, and
    separate(file, config)     [File] of such a file as read() returns it; both may be absent

A Lustre source has, for the doctor,

    DIRECTORY                  its directory below /proc/fs/lustre and the like: "osc"
    IN_PROC_UNTIL              the last N of Lustre 2.N that had the file in /proc; may be absent
    START_TIME_LATE            its start_time came later than that of others; may be absent

Adding a source is adding a file; tests/node/test_sources.py says what one lacks.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.totals.snapshot import CounterSource


def read_at(moment: str) -> dict[str, CounterSource]:
    """Return {name: module} of the sources that are read at "start", "mark", "watch" or "stop"."""
    modules = _import_modules() if moment == "start" else list_sources()
    return {name: module for name, module in modules.items() if moment in module.READ_AT}


def list_sources() -> dict[str, CounterSource]:
    """Return {name: module} of all sources."""
    modules = {**_import_modules(), **_import_modules("after_start")}
    return {name: modules[name] for name in sorted(modules)}


def get_title(name: str) -> str:
    """TITLE of the source `name`; the name itself for a source of another release."""
    return str(getattr(list_sources().get(name), "TITLE", name))


def is_upper_bound(name: str, metric: str = "") -> bool:
    """Whether this metric of the source `name`, or else all of it, may be too high."""
    metrics: bool | tuple[str, ...] = getattr(list_sources().get(name), "UPPER_BOUND", False)
    return metrics if isinstance(metrics, bool) else metric in metrics


def separate(files: Iterable[File], config: Config) -> tuple[File, ...]:
    """The files of a start as `read` of their sources returns them."""
    modules = list_sources()
    return tuple(part for file in files for part in (
        modules[file.source].separate(file, config)
        if hasattr(modules.get(file.source), "separate") else (file,)))


_seen: dict[tuple[str, ...], dict[str, CounterSource]] = {}       # a `stop` asks more than once


def _import_modules(*directory: str) -> dict[str, CounterSource]:
    if directory in _seen:
        return _seen[directory]
    modules: dict[str, Any] = {}
    for filename in sorted(os.listdir(os.path.join(os.path.dirname(__file__), *directory))):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and name != "__init__":
            path = ".".join((__name__, *directory, name))
            __import__(path)
            modules[name] = sys.modules[path]
    _seen[directory] = modules
    return modules
