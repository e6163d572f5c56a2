"""
A description's file: its text, and what it says.
"""

from __future__ import annotations

from iostats.base.input_files import content_of, name_of
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
    content = content_of(path, MOST_CHARACTERS, "a description")
    if len(content) > MOST_CHARACTERS:
        raise DescriptionError([Problem(1, 1, "", f"expected at most {MOST_CHARACTERS >> 20} MiB, "
                                                  "got more")], name_of(path))
    return content.decode("utf-8-sig", "surrogateescape")


def read_file(path: str) -> tuple[Description, list[Problem]]:
    """(normal form, warnings); DescriptionError."""
    return description(text_of(path), name_of(path))
