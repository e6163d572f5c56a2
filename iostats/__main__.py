"""The command `iostats`: all roles as subcommands."""

from __future__ import annotations

import errno
import importlib
import sys

from iostats.base.errors import UNREADABLE, IostatsError, describe_error
from iostats.base.messages import print_message
from iostats.cli import entry_point
from iostats.cli.commands import format_overview, list_modules


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    role, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if role[:1].isdigit():                            # a job
        role, rest = "report", arguments
    if role != "run":                                 # which leaves the command's as they are
        entry_point.open_standard_streams()
    module = list_modules().get(role)
    if module is not None:
        try:
            status: int = importlib.import_module(module).main(rest)
        except SystemExit as ended:                   # argparse's, after a help text
            status = ended.code  # type: ignore[assignment]    # argparse exits with an int
        except IostatsError as error:
            print_message(error)
            status = error.exit_status
        except OSError as error:
            print(f"iostats: {describe_error(error) or entry_point.NO_MEMORY}", file=sys.stderr)
            if error.errno == errno.ENOMEM:           # the interpreter's end would print failures
                entry_point.end(UNREADABLE, is_short=True)
            return UNREADABLE
        except KeyboardInterrupt:                     # as a role is imported
            return 130
        except (MemoryError, SystemError):            # what compile() raises without memory
            print(f"iostats: {entry_point.NO_MEMORY}", file=sys.stderr)
            entry_point.end(UNREADABLE, is_short=True)
            return UNREADABLE
        except ImportError as error:
            if not isinstance(error, ModuleNotFoundError):        # a library has no memory
                print(f"iostats: {error}", file=sys.stderr)
                return UNREADABLE
            package, _, inside = (error.name or "").partition(".")
            if package == "iostats" or (inside and package == module.partition(".")[0]):
                raise
            make, extra = "install-node (or install-login)", "server"
            if role in ("collector", "ldms", "web"):
                make, extra = f"install-{role}", role
            print_message(
                f"{role} needs the Python package {error.name!r}: sudo make {make}, or from the "
                f"checkout into a virtual environment: python3 -m pip install '.[{extra}]'")
            return UNREADABLE
        return status if role == "run" else entry_point.flush_output(status)
    if role in ("", "-h", "--help"):
        return entry_point.flush_output(0 if role else 2, format_overview())
    from iostats.cli.node import main as run
    return entry_point.flush_output(run(arguments))


if __name__ == "__main__":
    sys.exit(main())
