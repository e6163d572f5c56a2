"""The command `iostats`: all roles as subcommands."""

import sys

USAGE = """\
usage: iostats start|stop|show [options]      on a node; as iostats_client.py
       iostats server [options]               as iostats_server.py
       iostats config [--check] [options]     what is in force, and why

`iostats start --help` and the like tell the rest.
"""


def main(arguments=None):
    """Run a subcommand; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    role, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if role == "server":
        from iostats.cli.server import main as run
        return run(rest)
    if role == "config":
        from iostats.cli.config import main as run
        return run(rest)
    if role in ("", "-h", "--help"):
        print(USAGE, end="")
        return 0 if role else 2
    from iostats.cli.node import main as run
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
