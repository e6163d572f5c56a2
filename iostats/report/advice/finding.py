"""
What a rule says of a job.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.report.why.cause import Cause

Finding = namedtuple("Finding", "id file_system weight number meaning advice link evidence cost",
                     defaults=(None,))
Finding.__doc__ = """
One finding.

Attributes:
    id: of its rule, as in docs/advice.md and in [advice]: small_writes.
    file_system: as Lustre calls it; "" where it is about the whole job.
    weight: the highest first; for the order alone, as not all of it is measured.
    number: what made the rule hold, as text: "1,204,113 writes of 812 bytes on average".
    meaning: what that means, a sentence.
    advice: what to do, a sentence.
    link: where more is said.
    evidence: {name: number} of what the rule has looked at, for programs.
    cost: at most this part of the run time, from 0 to 1; None where that was not measured.
"""


def as_form(finding: Finding | Cause) -> dict[str, Any]:
    """A finding (RecordedFinding), or a cause of `iostats why`, as JSON: without its `weight`."""
    form: dict[str, Any] = finding._asdict()
    del form["weight"]
    return form
