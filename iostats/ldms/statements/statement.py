"""
A statement of ldmsd's configuration language (version 4): a verb and its attributes.
"""

from __future__ import annotations

from collections import namedtuple

Statement = namedtuple("Statement", "verb attributes")
Statement.__doc__ = """
One line of a configuration file, or one command on the control connection.

Attributes:
    verb: such as prdcr_add.
    attributes: ((name, value), ...) in their order; a bare keyword has the value None.
"""


def as_line(statement: Statement) -> str:
    """
    The statement as it stands in a configuration file.

    >>> as_line(Statement("prdcr_start", (("name", "node-23"),)))
    'prdcr_start name=node-23'
    """
    return " ".join([statement.verb, *(name if value is None else f"{name}={value}"
                                       for name, value in statement.attributes)])
