"""
What a command reads: a file that is named, or standard input for "-".
"""

from __future__ import annotations

import sys

from iostats.base.errors import UsageError
from iostats.base.private_files import why


def content_of(path: str, most: int, what: str) -> bytes:
    """
    All of it; of more than `most` bytes, `most` + 1.  `what`: is expected there, for the message.

    UsageError where it cannot be read.
    """
    if path == "-" and sys.stdin is None:               # it was closed
        raise UsageError(f"{name_of(path)}: expected {what}, it is closed")
    try:
        if path == "-":
            return sys.stdin.buffer.read(most + 1)
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{name_of(path)}: cannot be read: {why(error)}") from None


def name_of(path: str) -> str:
    """As messages have it."""
    return "standard input" if path == "-" else path
