"""
iostats ldms generate: configuration files of ldmsd.
"""

from __future__ import annotations

import sys

from iostats.base.errors import DONE, UNREADABLE, UsageError, one_line
from iostats.base.input_files import name_of
from iostats.cli.ldms.check import counted, described_file
from iostats.cli.parser import parser, put_out, status_of
from iostats.ldms import configuration_files
from iostats.ldms.description.values import nearest
from iostats.ldms.statements.dialect import DEFAULT_RELEASE, of_release
from iostats.ldms.statements.losses import losses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import Description

_MOST_LINES = 10                   # of one kind on standard error
HELP = """\
usage: iostats ldms generate FILE -o DIR [--ldms RELEASE] [--daemon NAME]
                             [--bare] [--force]

Write a configuration file for each daemon of the description FILE (- for
standard input), DIR/DAEMON.conf, for `ldmsd -c`.  Each is checked as ldmsd of
that release would; none is written unless all are right.  A group's producers
are spread over its aggregators.  Files that are the same already are left, and
so are those of daemons that are no more: they are named.

options:
  -o, --output DIR   the directory; it is made.  -: write to standard output
  --ldms RELEASE     the release of the ldmsd that reads them: 4.4, 4.5, newer
                     (default: ldms_release of the description, or 4.5)
  --daemon NAME      this daemon's alone
  --bare             environment, options, authentication and listeners alone:
                     for daemons that `iostats ldms run` sets up
  --force            replace files that were not written by this command

example:
  iostats ldms generate orion.yaml -o /etc/ldms
  ldmsd -c /etc/ldms/agg-1.conf -n agg-1

exit status:
  0 written   1 the description, or a configuration, is wrong, or DIR cannot be
  written   2 bad usage
"""


def main(arguments: list[str] | None = None) -> int:
    """Write configuration files; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    own = parser("iostats ldms generate", HELP, ("--ldms", "--daemon"),
                 ("--bare", "--force"))
    own.add_argument("-o", "--output")
    own.add_argument("files", nargs="*")
    options = own.parse_args(arguments)
    if len(options.files) != 1 or not options.output:
        raise UsageError("iostats ldms generate: expected FILE -o DIR (see --help)")
    chosen = of_release(options.ldms, "--ldms") if options.ldms else None
    path = options.files[0]
    found = described_file(path)
    if found is None:
        return UNREADABLE
    description = found[0]
    dialect = chosen or of_release(description.ldms_release or DEFAULT_RELEASE)
    _tell(losses(description, dialect))
    daemons = [_known(options.daemon, description)] if options.daemon else list(description.daemons)
    texts = configuration_files.texts(description, dialect, daemons, options.bare)
    if options.output == "-":
        put_out(texts.values())
        return DONE
    done = configuration_files.write(options.output, texts, description.daemons, options.force)
    _tell([f"{stale}: no daemon of {name_of(path)} has this name; remove it if "
           "no ldmsd reads it"
           for stale in done.stale])
    put_out([f"{one_line(options.output)}: {counted(len(texts), 'configuration file')} for LDMS "
             f"{dialect.release}: {done.written:,} written, {done.unchanged:,} unchanged\n"])
    return DONE


def _known(name: str, description: Description) -> str:
    if name not in description.daemons:
        raise UsageError(f"--daemon: expected a daemon of the description, got {name[:60]!r}"
                         + nearest(name, description.daemons, 0.6))
    return name


def _tell(lines: list[str]) -> None:
    """On standard error, not without end."""
    for line in lines[:_MOST_LINES]:
        print(f"iostats: {one_line(line)}", file=sys.stderr)
    if len(lines) > _MOST_LINES:
        print(f"iostats: and {len(lines) - _MOST_LINES} more like this", file=sys.stderr)
