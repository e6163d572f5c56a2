"""
iostats ldms: one file describes the monitoring of a cluster, and is carried out.

One subcommand, one file here.
"""

from __future__ import annotations

import importlib

from iostats.base.errors import UsageError
from iostats.cli.parser import status_of

SUBCOMMANDS = ("check", "convert", "generate", "load", "history", "rollback", "plan", "run",
               "status")
HELP = """\
usage: iostats ldms SUBCOMMAND [options]

  check FILE      is the description right?
  convert FILE    write it as LDMS has it today
  generate FILE   a configuration file for each daemon
  load FILE       put it into etcd, where `run` takes it from
  history         the descriptions that etcd has
  rollback        make an older one valid again
  plan            what `run` would do now
  run             carry it out: configure, balance, watch, move what fails
  status          daemons, loads, what moved; storage servers' agents

`iostats ldms check --help` and the like tell the rest.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; the exit status."""
    return status_of(lambda: _run(arguments or []))


def _run(arguments: list[str]) -> int:
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in ("", "-h", "--help"):
        print(HELP, end="")
        return 0 if name else 2
    if name not in SUBCOMMANDS:
        raise UsageError(f"ldms: expected one of {', '.join(SUBCOMMANDS)}, got {name[:40]!r}")
    status: int = importlib.import_module(f"iostats.cli.ldms.{name}").main(rest)
    return status
