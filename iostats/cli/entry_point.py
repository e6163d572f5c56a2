"""
The beginning and end of each command: usable standard streams, and one line for a failure of the
environment (no memory, too many open files).
"""

from __future__ import annotations

import os
import sys

from iostats.base.errors import IostatsError, StateError
from iostats.base.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TextIO

NO_MEMORY = "out of memory (ulimit -v)"
_NO_MEMORY_LINE = f"iostats: {NO_MEMORY}\n".encode()


def run(module: str) -> int:
    """The exit status of main() of `module`, which is imported here."""
    open_standard_streams()
    status = 1
    try:
        __import__(module)
        status = sys.modules[module].main()
    except SystemExit as ended:                        # argparse's, after a help text
        status = ended.code  # type: ignore[assignment]    # argparse exits with an int
    except ModuleNotFoundError:
        raise                                          # a package of the server; its text names it
    except (MemoryError, SystemError):                 # what compile() raises without memory
        _report_no_memory()
    except (ImportError, OSError) as error:            # a library has no memory, or no file
        try:
            print(f"iostats: {str(error) or NO_MEMORY}", file=sys.stderr)
        except MemoryError:
            _report_no_memory()
    status = flush_output(status)
    return 0 if has_ignored_failures(sys.argv[1:]) else status


def end(status: int, is_short: bool) -> None:
    """
    End this process with `status`; at once if it `is_short`: to take down all that was imported
    would be a sixth of a start.
    """
    # mpi4py ends MPI when the interpreter ends.
    if is_short and isinstance(status, int) and "--mpi" not in sys.argv:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _report_no_memory() -> None:
    """Report it without creating any text: there is no memory for that, either."""
    try:
        os.write(2, _NO_MEMORY_LINE)
    except OSError:
        pass


def has_ignored_failures(arguments: list[str]) -> bool:
    """True for a command that always ends with 0: the batch system's, or with --never-fail."""
    return "--never-fail" in arguments or (
        "mark" not in arguments and not {"prolog", "epilog"}.isdisjoint(arguments))


def flush_output(status: int, text: str = "") -> int:
    """
    Return `status`, if `text` and all earlier output was written; else print a line, and return the
    StateError's status. At the exit it would be a traceback.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:                            # the reader has closed the pipe
        redirect_to_null(1)
    except IostatsError as error:
        print_message(error)
        return status or error.exit_status
    return status


def make_output_error(error: OSError) -> IostatsError:
    """
    The StateError for a failure of standard output, which is not tried again; or raise
    BrokenPipeError.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    redirect_to_null(1)
    return StateError(f"standard output: cannot be written: {error.strerror}")


def open_standard_streams() -> None:
    """Open closed ones of the three standard files, and guard their errors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)             # the lowest number that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False,
                               buffering=1)
    if not isinstance(sys.stdout, _StandardOutput):
        sys.stdout = _StandardOutput(sys.stdout)
    if not isinstance(sys.stderr, _StandardError):
        sys.stderr = _StandardError(sys.stderr)


class _GuardedStream:
    """A standard stream; `_failed` handles a failure to write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text` as far as possible; a line is one write, so that ranks' lines do not mix."""
        try:
            self._stream.write(text)                   # by lines, see io.TextIOWrapper
        except OSError as error:
            self._handle_failure(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines to the stream."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self._handle_failure(error)

    def _handle_failure(self, error: OSError) -> None:
        raise NotImplementedError


class _StandardOutput(_GuardedStream):
    """Standard output; a failure to write is a StateError, printed in one line."""

    def _handle_failure(self, error: OSError) -> None:
        raise make_output_error(error) from None


class _StandardError(_GuardedStream):
    """Standard error; a failure to write is ignored."""

    def _handle_failure(self, error: OSError) -> None:
        redirect_to_null(2)


def redirect_to_null(number: int) -> None:
    """Redirect a stream to /dev/null: its buffered output is dropped, not tried again."""
    try:
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)
    except OSError:
        pass
