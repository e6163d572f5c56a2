"""
Configuration files in a directory: DAEMON.conf for each, and which are of no daemon any more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from iostats.base.errors import StateError
from iostats.base.private_files import write_whole
from iostats.ldms.statements.configuration import Configurations
from iostats.ldms.statements.statement import as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iostats.ldms.description.normal import Description
    from iostats.ldms.statements.dialect import Dialect

_MARK = "# iostats ldms generate: "
_END = ".conf"


@dataclass(frozen=True)
class Files:
    """
    What became of a directory.

    Attributes:
        written, unchanged: how many files.
        stale: paths of files that an earlier run wrote, for daemons that are no more.
    """
    written: int
    unchanged: int
    stale: tuple[str, ...]


def texts(description: Description, dialect: Dialect, daemons: Iterable[str],
          are_bare: bool = False) -> dict[str, str]:
    """{daemon: its configuration file's text}; `are_bare`: as Configurations.of.  NotToldError."""
    configurations = Configurations(description, dialect)
    found = {}
    for name in daemons:
        lines = [f"{_MARK}{name}, LDMS {dialect.release}; changes here are lost"]
        lines += map(as_line, configurations.of(name, are_bare))
        found[name] = "\n".join(lines) + "\n"
    return found


def write(directory: str, files: Mapping[str, str], daemons: Iterable[str],
          is_forced: bool = False) -> Files:
    """
    Write `files`, {daemon: text}, each whole or not at all; what is the same already is left.

    `daemons`: all that there are; other files of an earlier run are stale, and stay.  A file of
    another origin is only replaced where `is_forced`: nothing is written otherwise.

    Raises: StateError.
    """
    path = directory
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise StateError(f"{directory}: expected a directory, got a file")
    try:
        os.makedirs(directory, exist_ok=True)
        before = {}
        for name in files:
            path = os.path.join(directory, name + _END)
            before[name] = _content(path)
            if before[name] and not is_forced and not before[name].startswith(_MARK.encode()):
                raise StateError(f"{path}: was not written by this command; move it away, or "
                                 "replace it with --force")
        changed = [name for name, text in files.items() if text.encode() != before[name]]
        for name in changed:
            path = os.path.join(directory, name + _END)
            write_whole(path, files[name].encode(), mode=None, sync=False)
        path = directory
        stale = _stale(directory, set(daemons))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    except UnicodeEncodeError:
        raise StateError(f"{path}: this name cannot be written in this locale's encoding; expected "
                         "a locale of UTF-8 (LC_ALL=C.UTF-8)") from None
    return Files(len(changed), len(files) - len(changed), tuple(stale))


def _content(path: str) -> bytes:
    """b"" where there is none; StateError where it is a pipe or the like, which would wait."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise StateError(f"{path}: expected a file or nothing, got something else; move it away")
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _stale(directory: str, daemons: set[str]) -> list[str]:
    found = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(_END) and name[:-len(_END)] not in daemons:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read(len(_MARK)) == _MARK.encode():
                        found.append(path)
    return found
