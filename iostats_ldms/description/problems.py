"""
Problems and warnings of a description: place, expected value, actual value.
"""

from __future__ import annotations

from dataclasses import dataclass

from iostats.base.errors import IostatsError, sanitize

MOST_PROBLEMS = 20                 # of a file: what follows a wrong name is wrong too
_LONGEST_TEXT = 300


@dataclass(frozen=True)
class Problem:
    """A problem or warning."""
    # line, column: from 1, of the value
    line: int
    column: int
    path: str   # such as aggregators[0].peers[1].reconnect; "" for the file
    text: str   # one line

    def format_line(self, name: str) -> str:
        """
        Format the problem for a user; `name`: of the file.

        >>> Problem(23, 7, "plugins.mem1.interval", "expected 20s, got 'soon'").format_line("FILE")
        "FILE:23:7: plugins.mem1.interval: expected 20s, got 'soon'"
        """
        path = f"{self.path}: " if self.path else ""
        return sanitize(f"{name}:{self.line}:{self.column}: {path}{self.text}")


class DescriptionError(IostatsError):
    """
    An invalid description; its text is the first problem and the number of further ones.

    Attributes:
        problems: at most MOST_PROBLEMS, in the order of the file.
        count: number of all problems.
    """

    def __init__(self, problems: list[Problem], name: str, count: int = 0) -> None:
        self.problems = problems
        self.count = max(count, len(problems))
        self._name = name
        more = f" (and {self.count - 1} more: iostats ldms check)" if self.count > 1 else ""
        super().__init__(problems[0].format_line(name) + more)

    def format_lines(self) -> list[str]:
        """Format all of `problems` for a user, one line each."""
        lines = [problem.format_line(self._name) for problem in self.problems]
        if self.count > len(lines):
            lines.append(f"{self._name}: {self.count - len(lines)} more problems are not shown")
        return lines


class Findings:
    """The problems and warnings of one file; a limited number is stored."""

    def __init__(self) -> None:
        self.problem_count = 0
        self._problems: list[Problem] = []
        self._warnings: dict[Problem, None] = {}

    def problem(self, line: int, column: int, path: str, text: str) -> None:
        """Add a problem."""
        problem = Problem(line, column, path, _truncate(text))
        # One value that many places refer to is wrong once.
        if problem in self._problems:
            return
        self.problem_count += 1
        if len(self._problems) < 5 * MOST_PROBLEMS:
            self._problems.append(problem)

    def warning(self, line: int, column: int, path: str, text: str) -> None:
        """Add a warning."""
        if len(self._warnings) < MOST_PROBLEMS:
            self._warnings[Problem(line, column, path, _truncate(text))] = None

    def warnings(self) -> list[Problem]:
        """Return at most MOST_PROBLEMS warnings, in the order of the file."""
        return sorted(self._warnings, key=lambda result: (result.line, result.column))

    def raise_if_any(self, name: str) -> None:
        """Raise DescriptionError if there are problems."""
        if self._problems:
            ordered = sorted(self._problems, key=lambda result: (result.line, result.column))
            raise DescriptionError(ordered[:MOST_PROBLEMS], name, self.problem_count)


def quote(text: str) -> str:
    """Quote a text for a message, truncated if it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _truncate(text: str) -> str:
    text = sanitize(text)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT - 3] + "..."
