"""
The errors that a user can act on: their text is one line, and each has an exit status.

    IostatsError           1
      UsageError           2  the command line, or an address of the pages, is wrong
      ConfigError          2  site.cfg, or an IOSTATS_ variable, is wrong
      StatsSyntaxError     1  a line of a counter file has an unexpected format
      JobStatsSyntaxError  1  a job's entry in a job_stats file has an unexpected format
      NotReadable          1  no counter file could be read
      AccessDenied         1  the job belongs to another user
      StateError           1  a file or store of ours is damaged, full, or not usable
      MissingStart         2  `stop` without `start`
      NotDelivered         3  the server was not reached, or refused the report; the delta is stored
      WireError            -  a message has an unexpected format (with its JSON-RPC code)

A message says where, what was expected, what was there, what to do next.
docs/explanation/architecture.md has those of the other rooms, and where each is caught.
"""

from __future__ import annotations

DONE, UNREADABLE, BAD_USAGE, NOT_REACHED = 0, 1, 2, 3

# What Python raises where an answer has not the form that is read out of it.
FORMAT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
                 RecursionError)

_LONGEST = 2000                    # characters of a message: more of a damaged file says no more


# Joiners, without which some scripts and emoji are other words; they move and hide nothing.
_JOINERS = "\u200c\u200d"
_BLANKS = "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200b)))


def is_printable(text: str) -> bool:
    """True if `text` can be printed on a terminal as it is."""
    return text.isprintable() or all(c.isprintable() or c in _JOINERS for c in text)


def sanitize(text: object) -> str:
    """
    Make `text` safe to print on one line: control characters, and marks that change the direction
    of writing, become escapes (\\x1b); letters of all scripts stay, each kind of blank is a space.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if is_printable(c) else " " if c in _BLANKS else "\\x%02x" % ord(c)
                   for c in text)


def describe_error(error: BaseException) -> str:
    """The message of an error in one line; of the kernel's without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return sanitize(error)
    where = "" if error.filename is None else f"{error.filename}: "
    return sanitize(where + error.strerror)


class IostatsError(Exception):
    """An error that a user can act on; its text is one line, safe to print on a terminal."""

    exit_status = UNREADABLE

    def __init__(self, message: str) -> None:
        text = sanitize(message)
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST - 505]} ... {text[-500:]}"
        super().__init__(text)


class UsageError(IostatsError):
    """The command line is wrong."""

    exit_status = BAD_USAGE


class ConfigError(IostatsError):
    """A value in site.cfg, the environment or on the command line is not allowed."""

    exit_status = BAD_USAGE


class StatsSyntaxError(IostatsError):
    """A line of a counter file has an unexpected format; names file, line and text."""

    def __init__(self, origin: str, lineno: int, line: str,
                 expected: str = '"<name> <n> samples [<unit>] ..."') -> None:
        shown = line if len(line) <= 60 else line[:57] + "..."
        super().__init__(f"{origin}:{lineno}: expected {expected}, got {shown!r}")
        self.origin, self.lineno, self.line = origin, lineno, line


class JobStatsSyntaxError(IostatsError):
    """An entry of a job_stats file has an unexpected format; names file, job and text."""

    def __init__(self, origin: str, job_id: str, text: str, expected: str) -> None:
        shown = text if len(text) <= 60 else text[:57] + "..."
        job = f"job {job_id!r}: " if job_id else ""
        super().__init__(f"{origin}: {job}expected {expected}, got {shown!r}")
        self.origin, self.job_id = origin, job_id


class AccessDenied(IostatsError):
    """The job belongs to another user, and the caller may not read its report."""

    def __init__(self, job: str, user: str) -> None:
        super().__init__(f"job {job} belongs to {user}; only {user}, root and [site] readers may "
                         f"see its report")


class NotReadable(IostatsError):
    """Lustre is mounted, but none of its counter files could be read."""


class StateError(IostatsError):
    """The snapshot that `start` stored is damaged, or belongs to another user."""


class MissingStart(IostatsError):
    """Raised if `stop` finds neither a start snapshot nor a delta that waits for delivery."""

    exit_status = BAD_USAGE


class NotDelivered(IostatsError):
    """
    The job's server did not accept the report; the delta is stored, and named.

    Attributes:
        later: the same report may be taken later.
    """

    exit_status = NOT_REACHED
    later = True


class WireError(IostatsError):
    """
    A message does not follow the protocol.

    Attributes:
        code: JSON-RPC 2.0 error code (section 5.1 of the specification; -32000 to -32099
            are ours, listed in docs/reference/wire.md).
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
