"""
A description's file: its text, and what it says.
"""

from __future__ import annotations

import sys

from iostats.base.errors import UsageError
from iostats.ldms.description.document import MOST_CHARACTERS
from iostats.ldms.description.problems import DescriptionError, Problem
from iostats.ldms.description.read import description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import Description


def text_of(path: str) -> str:
    """
    The text of a file, or of standard input for "-"; bytes that are not UTF-8 are surrogates, which
    `description` refuses with their place.  UsageError where it cannot be read, DescriptionError
    where it is too long.
    """
    try:
        if path == "-" and sys.stdin is None:               # it was closed
            raise UsageError("standard input: expected a description, it is closed")
        if path == "-":
            content = sys.stdin.buffer.read(MOST_CHARACTERS + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}")
    if len(content) > MOST_CHARACTERS:
        raise DescriptionError([Problem(1, 1, "", f"expected at most {MOST_CHARACTERS >> 20} MiB, "
                                                  "got more")], name_of(path))
    return content.decode("utf-8-sig", "surrogateescape")


def read_file(path: str) -> tuple[Description, list[Problem]]:
    """(normal form, warnings); DescriptionError."""
    return description(text_of(path), name_of(path))


def name_of(path: str) -> str:
    """As messages have it."""
    return "standard input" if path == "-" else path
