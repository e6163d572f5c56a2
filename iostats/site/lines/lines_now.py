"""
What is known of lines at one moment, for an answer that takes several steps.
"""

from __future__ import annotations

from iostats.site.lines.folding import JobLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.site.lines.intake import LineIntake
    from iostats.site.lines.readings import LineReading

    _Readings = dict[str, list[LineReading]]        # target ->


class LinesNow:
    """
    What is known at one moment; a fold that ends later has made later rows.

    Attributes:
        readings: {file system: {target: [LineReading]}}.
        rows: {file system: JobLines} of the job.
    """

    def __init__(self, lines: LineIntake, job: str | None) -> None:
        self._store, self._last = lines.store, lines.store.last_row()
        self.readings: dict[str, _Readings] = {}
        for (file_system, target), readings in lines.recent.items():
            if readings:
                self.readings.setdefault(file_system, {})[target] = list(readings)
        self._folded: dict[str, dict[str, int]] = {}
        self.rows: dict[str, JobLines] = {}
        for file_system, fold, body in lines.store.job_rows(job) if job else ():
            found = lines.store.decoded("job_lines", (job, file_system), body, JobLines.decoded)
            if found is not None:
                self.rows[file_system] = found
                if lines.folding and fold == lines.fold_number:
                    self._folded[file_system] = {
                        target: count for (name, target), count in lines.folding.items()
                        if name == file_system}

    def of_job(self, file_system: str) -> Iterator[tuple[str, list[LineReading]]]:
        """(target, [LineReading]) that are not in the job's row."""
        folded = self._folded.get(file_system, {})
        for target, readings in self.readings[file_system].items():
            yield target, readings[folded.get(target, 0):]

    def target_rows(self, file_system: str, target: str, since: float,
                    until: float) -> list[tuple[int, Any]]:
        """[(id, body)] of the store."""
        return self._store.target_rows(file_system, target, since, until, self._last)
