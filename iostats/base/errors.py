"""
What can go wrong, one class each, and the exit status that each ends a command with.

    IostatsError
      UsageError            2   the command line is wrong
      ConfigError           2   site.cfg, or an IOSTATS_ variable, is wrong
      StatsSyntaxError      1   a counter file has a line that is not of its form
      JobStatsSyntaxError   1   a job's entry in a job_stats file is not of its form
      NotReadable           1   counters are there, and none of them could be read
      StateError            1   the start snapshot is there and is not usable
      NoStart               2   `stop` without `start`
      NotDelivered          3   the server was not reached, or refused; the delta is kept
      WireError             -   a message is not of its form (JSON-RPC code with it)

A message says where, what was expected, what was there, what to do next.
"""

from __future__ import annotations

DONE, UNREADABLE, BAD_USAGE, NOT_REACHED = 0, 1, 2, 3

# What Python raises where an answer has not the form that is read out of it.
NOT_OF_FORM = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

_LONGEST = 2000                    # characters of a message: more of a damaged file says no more


# Joiners, without which some scripts and emoji are other words; they move and hide nothing.
_JOINERS = "\u200c\u200d"
_BLANKS = "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200b)))


def is_shown(text: str) -> bool:
    """Whether a terminal can be given `text` as it is."""
    return text.isprintable() or all(c.isprintable() or c in _JOINERS for c in text)


def one_line(text: object) -> str:
    """
    `text` with everything that could move a terminal's cursor, or turn the direction of writing,
    made visible; letters of all scripts stay, and each kind of blank is one.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if is_shown(c) else " " if c in _BLANKS else "\\x%02x" % ord(c)
                   for c in text)


class IostatsError(Exception):
    """An error that a user can act on; its text is one line, safe to print on a terminal."""

    exit_status = UNREADABLE

    def __init__(self, message: str) -> None:
        text = one_line(message)
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST - 505]} ... {text[-500:]}"
        super().__init__(text)


class UsageError(IostatsError):
    """A command line that cannot be carried out."""

    exit_status = BAD_USAGE


class ConfigError(IostatsError):
    """A choice in site.cfg, the environment or on the command line that does not exist."""

    exit_status = BAD_USAGE


class StatsSyntaxError(IostatsError):
    """A counter file has a line that is not of its form; names file, line and text."""

    def __init__(self, origin: str, lineno: int, line: str,
                 expected: str = '"<name> <n> samples [<unit>] ..."') -> None:
        shown = line if len(line) <= 60 else line[:57] + "..."
        super().__init__(f"{origin}:{lineno}: expected {expected}, got {shown!r}")
        self.origin, self.lineno, self.line = origin, lineno, line


class JobStatsSyntaxError(IostatsError):
    """An entry of a job_stats file that is not of its form; names file, job and text."""

    def __init__(self, origin: str, job_id: str, text: str, expected: str) -> None:
        shown = text if len(text) <= 60 else text[:57] + "..."
        job = f"job {job_id!r}: " if job_id else ""
        super().__init__(f"{origin}: {job}expected {expected}, got {shown!r}")
        self.origin, self.job_id = origin, job_id


class NotYours(IostatsError):
    """A job of another user, whose report the caller may not read."""

    def __init__(self, job: str, user: str) -> None:
        super().__init__(f"job {job} belongs to {user}; only {user}, root and [site] readers may "
                         f"see its report")


class NotReadable(IostatsError):
    """Lustre is mounted, and not one of its counter files could be read."""


class StateError(IostatsError):
    """The snapshot that `start` kept is damaged, or is not ours to use."""


class NoStart(IostatsError):
    """`stop` found neither a start snapshot nor a delta that waits for delivery."""

    exit_status = BAD_USAGE


class NotDelivered(IostatsError):
    """
    The job's server did not take the report; the delta is kept and named.

    Attributes:
        later: the same report may be taken later.
    """

    exit_status = NOT_REACHED
    later = True


class WireError(IostatsError):
    """
    A message that is not of the protocol's form.

    Attributes:
        code: JSON-RPC 2.0 error code (section 5.1 of the specification; -32000 to -32099
            are ours, listed in docs/wire.md).
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
