"""
What is read on a node, one file each; the directory is the list.

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
    corrected(values)          the gains as they are to be counted; may be absent
    BY_TARGET                  False where no report shows its targets: the node adds them up; may
                               be absent
    IN_PARTS                   its gains are sent for each part of a job, between two marks, as
                               well; may be absent: they are not

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
    from types import ModuleType


def read_at(moment: str) -> dict[str, ModuleType]:
    """{name: module} of the sources that are read at "start", "mark", "watch" or "stop"."""
    found = _modules() if moment == "start" else known()
    return {name: module for name, module in found.items() if moment in module.READ_AT}


def known() -> dict[str, ModuleType]:
    """{name: module} of all sources."""
    found = {**_modules(), **_modules("after_start")}
    return {name: found[name] for name in sorted(found)}


def title_of(name: str) -> str:
    """TITLE of the source `name`; the name itself where this release has no such source."""
    return str(getattr(known().get(name), "TITLE", name))


_seen: dict[tuple[str, ...], dict[str, ModuleType]] = {}       # a `stop` asks more than once


def _modules(*directory: str) -> dict[str, ModuleType]:
    if directory in _seen:
        return _seen[directory]
    found = {}
    for filename in sorted(os.listdir(os.path.join(os.path.dirname(__file__), *directory))):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and name != "__init__":
            path = ".".join((__name__, *directory, name))
            __import__(path)
            found[name] = sys.modules[path]
    _seen[directory] = found
    return found
