"""
One side of a comparison of two jobs: the numbers of a record, and what its report would advise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.report.diff import numbers
from iostats.report.findings import noise_floor
from iostats.report.why.causes import judge_record
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.base.config import Config
    from iostats.report.diff.numbers import JobNumbers
    from iostats.report.findings.finding import Finding


def read_side(form: Mapping[str, object], name: str, config: Config,
              phase: str | None = None) -> tuple[JobNumbers, list[Finding] | None]:
    """
    Return (numbers, findings or None) of the record in the JSON object `form`, or of its part
    `phase`, under the name `name`; LookupError if it has no such part.
    """
    side = numbers.read_numbers(form, name, phase, config.labels)
    if phase is not None:
        return side, None
    findings, notes = _find_findings(form, config)
    return side._replace(facts={**side.facts, "notes": notes}), findings


def _find_findings(form: Mapping[str, Any],
                   config: Config) -> tuple[list[Finding] | None, list[str]]:
    """
    Return (what the report would advise, its notes on the nodes' own I/O); (None, []) where the
    record is not of this release's form.
    """
    try:
        record = Record.of(form)
        return judge_record(record, config).findings, [
            f"{config.labels.get(fs.name, fs.name)}: {note}" for fs in record.file_systems
            for note in noise_floor.describe_noise(fs, record.coverage.reported,
                                                   config.report.units)]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None, []
