"""
Input of a command: a named file, or standard input for "-".
"""

from __future__ import annotations

import sys

from iostats.base.errors import UsageError
from iostats.base.private_files import explain_error


def read_input(path: str, limit: int, expected: str) -> bytes:
    """
    Read up to `limit` bytes; `limit` + 1 if there are more.  `expected` describes the contents in
    messages.  Raises UsageError if it cannot be read.
    """
    if path == "-" and sys.stdin is None:               # it was closed
        raise UsageError(f"{format_input_name(path)}: expected {expected}, it is closed")
    try:
        if path == "-":
            return sys.stdin.buffer.read(limit + 1)
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise UsageError(
            f"{format_input_name(path)}: cannot be read: {explain_error(error)}") from None


def format_input_name(path: str) -> str:
    """Return the name of the input for messages: the path, or "standard input"."""
    return "standard input" if path == "-" else path
