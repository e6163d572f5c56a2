"""
One side of a comparison of two jobs: the numbers of a record, and what its report would advise.
"""

from __future__ import annotations

from iostats.report.advice import noise_floor
from iostats.report.diff import numbers
from iostats.report.why.causes import judgement_of
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.report.advice.finding import Finding
    from iostats.report.diff.numbers import JobNumbers


def side_of(form: Mapping[str, Any], name: str, config: Any,
            phase: str | None = None) -> tuple[JobNumbers, list[Finding] | None]:
    """
    (numbers, findings or None) of the record in the JSON object `form`, or of a part of it, called
    `name`; LookupError where it has no such part.
    """
    found = numbers.numbers_of(form, name, phase, config.labels)
    if phase is not None:
        return found, None
    findings, notes = _advised(form, config)
    return found._replace(facts={**found.facts, "notes": notes}), findings


def _advised(form: Mapping[str, Any], config: Any) -> tuple[list[Finding] | None, list[str]]:
    """
    (what the report would advise, its notes on the nodes' own I/O); (None, []) where the record is
    not of this release's form.
    """
    try:
        record = Record.of(form)
        return judgement_of(record, config).findings, [
            f"{config.labels.get(fs.name, fs.name)}: {note}" for fs in record.file_systems
            for note in noise_floor.notes(fs, record.coverage.reported,
                                          config["advice.noise_percent"], config["report.units"])]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None, []
