"""
The command `iostats ldms`: one file describes the monitoring of a cluster.

One subcommand, one file here.
"""

from __future__ import annotations

import importlib

from iostats.base.errors import UsageError
from iostats.cli.parser import run_role

# {subcommand: (its operand, what it is for)}
SUBCOMMANDS = {
    "check": ("FILE", "validate the description"),
    "convert": ("FILE", "rewrite it in LDMS' current schema"),
    "generate": ("FILE", "write a configuration file for each daemon"),
    "load": ("FILE", "store it in etcd, where `run` reads it"),
    "history": ("", "list the descriptions in etcd"),
    "rollback": ("", "make an earlier description valid again"),
    "plan": ("", "show the commands `run` would send now"),
    "run": ("", "reconcile: configure, balance, monitor, fail over"),
    "status": ("", "show daemons, loads, events, storage servers' agents"),
}


def format_help() -> str:
    """The text of `iostats ldms --help`."""
    lines = "".join(f"  {f'{name} {file}':<16}{meaning}\n"
                    for name, (file, meaning) in SUBCOMMANDS.items())
    return f"""\
usage: iostats ldms SUBCOMMAND [options]

{lines}
Each subcommand has --help.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; the exit status."""
    return run_role(lambda: _run(arguments or []))


def _run(arguments: list[str]) -> int:
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in ("", "-h", "--help"):
        print(format_help(), end="")
        return 0 if name else 2
    if name not in SUBCOMMANDS:
        raise UsageError(f"ldms: expected one of {', '.join(SUBCOMMANDS)}, got {name[:40]!r}")
    status: int = importlib.import_module(f"iostats_ldms.cli.{name}").main(rest)
    return status
