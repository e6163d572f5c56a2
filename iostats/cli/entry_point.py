"""
How each command begins and ends: standard streams that can be used, and one line where the
environment fails it (no memory, no more open files).
"""

from __future__ import annotations

import os
import sys

from iostats.base.errors import IostatsError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NO_MEMORY = "out of memory (ulimit -v)"
_NO_MEMORY_LINE = f"iostats: {NO_MEMORY}\n".encode()


def run(module: str) -> int:
    """The exit status of main() of `module`, which is imported here."""
    with_streams()
    status = 1
    try:
        __import__(module)
        status = sys.modules[module].main()
    except SystemExit as ended:                        # argparse's, after a help text
        status = ended.code  # type: ignore[assignment]
    except ModuleNotFoundError:
        raise                                          # of the server's packages; it says so
    except (MemoryError, SystemError):                 # what compile() raises without memory
        _out_of_memory()
    except (ImportError, OSError) as error:            # a library has no memory, or no file
        try:
            print(f"iostats: {str(error) or NO_MEMORY}", file=sys.stderr)
        except MemoryError:
            _out_of_memory()
    status = finished(status)
    return 0 if never_fails(sys.argv[1:]) else status


def _out_of_memory() -> None:
    """Say so without making any text: there is no memory for one, either."""
    try:
        os.write(2, _NO_MEMORY_LINE)
    except OSError:
        pass


def never_fails(arguments: list[str]) -> bool:
    """True for a command that ends with 0 whatever happens: the batch system's, or so asked."""
    return "--never-fail" in arguments or (
        "mark" not in arguments and not {"prolog", "epilog"}.isdisjoint(arguments))


def finished(status: int, text: str = "") -> int:
    """
    `status`, when `text` and all that was printed before is out; else a line, and that of the
    StateError.  At the exit it would be a traceback.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:                            # the reader has gone
        to_nowhere(1)
    except IostatsError as error:
        print(f"iostats: {error}", file=sys.stderr)
        return status or error.exit_status
    return status


def unwritable(error: OSError) -> IostatsError:
    """That standard output cannot be written, which is not tried again; or BrokenPipeError."""
    if isinstance(error, BrokenPipeError):
        raise error
    to_nowhere(1)
    return StateError(f"standard output: cannot be written: {error.strerror}")


def with_streams() -> None:
    """Open what is closed of the three standard files, and let no line of an error be one."""
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
    if not isinstance(sys.stdout, _Printed):
        sys.stdout = _Printed(sys.stdout)
    if not isinstance(sys.stderr, _Told):
        sys.stderr = _Told(sys.stderr)


class _Guarded:
    """A standard stream; `_failed` says what becomes of it when it cannot be written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text` as far as that goes; a line is one write, so that ranks' do not mix."""
        try:
            self._stream.write(text)                   # by lines, see io.TextIOWrapper
        except OSError as error:
            self._failed(error)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As a stream's."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """As a stream's."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        raise NotImplementedError


class _Printed(_Guarded):
    """Standard output; that it cannot be written is a StateError, a line as others."""

    def _failed(self, error: OSError) -> None:
        raise unwritable(error) from None


class _Told(_Guarded):
    """Standard error; that it cannot be written is no reason to fail."""

    def _failed(self, error: OSError) -> None:
        to_nowhere(2)


def to_nowhere(number: int) -> None:
    """What is still in a stream's buffer goes nowhere: it is not tried again."""
    try:
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, number)
        os.close(handle)
    except OSError:
        pass
