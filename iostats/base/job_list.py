"""
The jobs of a batch system at one moment, in one form for all batch systems.  Nodes do not use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from iostats.base.job_facts import Facts


class JobList(NamedTuple):
    """All jobs of a batch system at one moment."""

    # [Facts], one for each run: all that run, and those that it has not forgotten since
    jobs: list[Facts]
    exclusive: frozenset[str]   # raw ids of those that have whole nodes, for themselves alone


class ListSettings(NamedTuple):
    """Properties of all JobLists of a batch system."""

    # a run is in the list for so long after its end; None: that is not known
    kept_s: float | None = None
    cluster: str = ""       # the batch system's name of itself; ""
    ahead_s: float = 0.0    # its clock less ours, seconds
    # and by how much that may be wrong, None where the two clocks could not be compared
    within_s: float | None = None
    # False where we may not be shown other users' jobs, so that nothing is proved
    sees_all: bool = True
