"""
What a rule says of a job.
"""

from __future__ import annotations

from collections import namedtuple

Finding = namedtuple("Finding", "id file_system weight number meaning advice link evidence")
Finding.__doc__ = """
One finding.

Attributes:
    id: of its rule, as in docs/advice.md and in [advice]: small_writes.
    file_system: as Lustre calls it; "" where it is about the whole job.
    weight: how much of the job's time or of its I/O it is about, from 0 to 1; the highest first.
    number: what made the rule hold, as text: "1,204,113 writes of 812 bytes on average".
    meaning: what that means, a sentence.
    advice: what to do, a sentence.
    link: where more is said.
    evidence: {name: number} of what the rule has looked at, for programs.
"""
