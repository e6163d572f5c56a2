"""
What is wrong with a description, or looks wrong: where, what was expected, what is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from iostats.base.errors import IostatsError, one_line

MOST_PROBLEMS = 20                 # of a file: what follows a wrong name is wrong too
_LONGEST_TEXT = 300


@dataclass(frozen=True)
class Problem:
    """
    Attributes:
        line, column: from 1, of the value that it is about.
        path: such as aggregators[0].peers[1].reconnect; "" for the file.
        text: one line.
    """
    line: int
    column: int
    path: str
    text: str

    def as_line(self, name: str) -> str:
        """
        The problem for a user; `name`: of the file.

        >>> Problem(23, 7, "plugins.mem1.interval", "expected 20s, got 'soon'").as_line("FILE")
        "FILE:23:7: plugins.mem1.interval: expected 20s, got 'soon'"
        """
        path = f"{self.path}: " if self.path else ""
        return one_line(f"{name}:{self.line}:{self.column}: {path}{self.text}")


class DescriptionError(IostatsError):
    """
    A description that cannot be used; its text is the first problem, and how many more there are.

    Attributes:
        problems: at most MOST_PROBLEMS, in the order of the file.
        count: of all that were found.
    """

    def __init__(self, problems: list[Problem], name: str, count: int = 0) -> None:
        self.problems = problems
        self.count = max(count, len(problems))
        self._name = name
        more = f" (and {self.count - 1} more: iostats ldms check)" if self.count > 1 else ""
        super().__init__(problems[0].as_line(name) + more)

    def lines(self) -> list[str]:
        """All of `problems` for a user, one line each."""
        lines = [problem.as_line(self._name) for problem in self.problems]
        if self.count > len(lines):
            lines.append(f"{self._name}: {self.count - len(lines)} more problems are not shown")
        return lines


class Findings:
    """The problems and warnings of one file, as they are found; a bounded number is kept."""

    def __init__(self) -> None:
        self.problem_count = 0
        self._problems: list[Problem] = []
        self._warnings: dict[Problem, None] = {}

    def problem(self, line: int, column: int, path: str, text: str) -> None:
        """The file is wrong here."""
        problem = Problem(line, column, path, _bounded(text))
        # One value that many places refer to is wrong once.
        if problem in self._problems:
            return
        self.problem_count += 1
        if len(self._problems) < 5 * MOST_PROBLEMS:
            self._problems.append(problem)

    def warning(self, line: int, column: int, path: str, text: str) -> None:
        """It may be meant otherwise here."""
        if len(self._warnings) < MOST_PROBLEMS:
            self._warnings[Problem(line, column, path, _bounded(text))] = None

    def warnings(self) -> list[Problem]:
        """At most MOST_PROBLEMS, in the order of the file."""
        return sorted(self._warnings, key=lambda found: (found.line, found.column))

    def raise_if_any(self, name: str) -> None:
        """DescriptionError with the problems so far."""
        if self._problems:
            ordered = sorted(self._problems, key=lambda found: (found.line, found.column))
            raise DescriptionError(ordered[:MOST_PROBLEMS], name, self.problem_count)


def shown(text: str) -> str:
    """`text` in quotes, short enough for a message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _bounded(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT - 3] + "..."
