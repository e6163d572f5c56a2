"""
iostats ldms generate: write ldmsd's configuration files, DAEMON.conf for each daemon.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iostats.base.errors import DONE, UNREADABLE, StateError, UsageError, sanitize
from iostats.base.input_files import format_input_name
from iostats.base.messages import print_message
from iostats.base.private_files import write_atomically
from iostats.cli import Options, flag, operand, option
from iostats.cli.parser import parse_options, run_role, write_output
from iostats_ldms.cli.check import count_noun, read_description_file
from iostats_ldms.description.model import Description
from iostats_ldms.description.values import suggest
from iostats_ldms.statements.configuration import Configurations, find_unsupported
from iostats_ldms.statements.dialect import DEFAULT_RELEASE, Dialect, format_statement, get_dialect

_MARK = "# iostats ldms generate: "
_END = ".conf"


@dataclass(frozen=True)
class WrittenFiles:
    """The result of writing files."""
    # written, unchanged: number of files
    written: int
    unchanged: int
    # paths of files from an earlier run, for daemons that do not exist any more
    stale: tuple[str, ...]


def make_texts(description: Description, dialect: Dialect, daemons: Iterable[str],
               are_bare: bool = False) -> dict[str, str]:
    """
    Make the texts of configuration files: {daemon: text}; RefusedConfiguration.

    `are_bare`: see Configurations.make_statements.
    """
    configurations = Configurations(description, dialect)
    result = {}
    for name in daemons:
        lines = [f"{_MARK}{name}, LDMS {dialect.release}; changes here are lost"]
        lines += map(format_statement, configurations.make_statements(name, are_bare))
        result[name] = "\n".join(lines) + "\n"
    return result


def write_files(directory: str, files: Mapping[str, str], daemons: Iterable[str],
                is_forced: bool = False) -> WrittenFiles:
    """
    Write `files`, {daemon: text}; each file is replaced atomically, identical files are not
    touched.

    `daemons`: all daemons of the description; files of other daemons are stale, and stay.  A file
    that this command did not write is replaced only if `is_forced`; otherwise nothing is written.
    Raises StateError.
    """
    path = directory
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise StateError(f"{directory}: expected a directory, got a file")
    try:
        os.makedirs(directory, exist_ok=True)
        before = {}
        for name in files:
            path = os.path.join(directory, name + _END)
            before[name] = _read_existing(path)
            if before[name] and not is_forced and not before[name].startswith(_MARK.encode()):
                raise StateError(f"{path}: was not written by this command; move it away, or "
                                 "replace it with --force")
        changed = [name for name, text in files.items() if text.encode() != before[name]]
        for name in changed:
            path = os.path.join(directory, name + _END)
            write_atomically(path, files[name].encode(), mode=None, sync=False)
        path = directory
        stale = _find_stale(directory, set(daemons))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    except UnicodeEncodeError:
        raise StateError(f"{path}: this name cannot be written in this locale's encoding; expected "
                         "a locale of UTF-8 (LC_ALL=C.UTF-8)") from None
    return WrittenFiles(len(changed), len(files) - len(changed), tuple(stale))


def _read_existing(path: str) -> bytes:
    """Read a file; b"" if there is none.  StateError for a pipe or the like, which would block."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise StateError(f"{path}: expected a file or nothing, got something else; move it away")
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _find_stale(directory: str, daemons: set[str]) -> list[str]:
    result = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(_END) and name[:-len(_END)] not in daemons:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read(len(_MARK)) == _MARK.encode():
                        result.append(path)
    return result


_MOST_LINES = 10                # on standard error


class GenerateOptions(Options, help="""\
usage: iostats ldms generate FILE -o DIR [options]

Write a configuration file for each daemon of the description FILE (- for
standard input), DIR/DAEMON.conf, for `ldmsd -c`.  Each is checked like ldmsd of
that release would; none is written unless all are valid.  A group's producers
are spread over its aggregators.  Identical files are not touched; files of
removed daemons stay, and are listed.

options:
{options}

example:
  iostats ldms generate orion.yaml -o /etc/ldms
  ldmsd -c /etc/ldms/agg-1.conf -n agg-1

exit status:
  0 written   1 the description or a configuration is invalid, or DIR cannot be
  written   2 bad usage
"""):
    file = operand("FILE")
    output = option("-o, --output DIR", "the directory, created if missing; -: standard output")
    ldms = option("--ldms RELEASE",
                  "the release of the ldmsd that reads them: 4.4, 4.5, newer (default: "
                  "ldms_release of the description, or 4.5)")
    daemon = option("--daemon NAME", "only the file of this daemon")
    bare = flag("--bare",
                "only environment, options, authentication and listeners: for daemons that "
                "`iostats ldms run` configures")
    force = flag("--force", "replace files that were not written by this command")


def main(arguments: list[str] | None = None) -> int:
    """Write configuration files; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(GenerateOptions, arguments)
    if not options.output:
        raise UsageError("iostats ldms generate: expected FILE -o DIR (see --help)")
    chosen = get_dialect(options.ldms, "--ldms") if options.ldms else None
    result = read_description_file(options.file)
    if result is None:
        return UNREADABLE
    description = result[0]
    dialect = chosen or get_dialect(description.ldms_release or DEFAULT_RELEASE)
    _print_bounded(find_unsupported(description, dialect))
    daemons = [_require_daemon(options.daemon,
                               description)] if options.daemon else list(description.daemons)
    files = make_texts(description, dialect, daemons, options.bare)
    if options.output == "-":
        write_output(files.values())
        return DONE
    done = write_files(options.output, files, description.daemons, options.force)
    name = format_input_name(options.file)
    _print_bounded([f"{stale}: no daemon of {name} has this name; remove it if no ldmsd reads it"
                    for stale in done.stale])
    write_output([f"{sanitize(options.output)}: {count_noun(len(files), 'configuration file')} for "
                  f"LDMS "
                  f"{dialect.release}: {done.written:,} written, {done.unchanged:,} unchanged\n"])
    return DONE


def _require_daemon(name: str, description: Description) -> str:
    if name not in description.daemons:
        raise UsageError(f"--daemon: expected a daemon of the description, got {name[:60]!r}"
                         + suggest(name, description.daemons, 0.6))
    return name


def _print_bounded(lines: list[str]) -> None:
    """Print up to _MOST_LINES lines on standard error."""
    for line in lines[:_MOST_LINES]:
        print_message(line)
    if len(lines) > _MOST_LINES:
        print_message(f"and {len(lines) - _MOST_LINES} more lines")
