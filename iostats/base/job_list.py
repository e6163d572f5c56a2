"""
All jobs of a batch system at one moment: one form for all of them; not for nodes, which ask nobody.
"""

from __future__ import annotations

from collections import namedtuple

JobList = namedtuple("JobList", "jobs exclusive")
JobList.__doc__ = """
What a batch system says of all its jobs at one moment.

Attributes:
    jobs: [Facts], one for each run: all that run, and those that it has not forgotten since.
    exclusive: raw ids of those that have whole nodes, for themselves alone.
"""

ListSettings = namedtuple("ListSettings", "kept_s cluster ahead_s within_s sees_all",
                          defaults=(None, "", 0.0, None, True))
ListSettings.__doc__ = """
What is true of all JobLists of a batch system.

Attributes:
    kept_s: a run is in the list for so long after its end; None: that is not known.
    cluster: the batch system's name of itself; "".
    ahead_s: its clock less ours, seconds; within_s: and by how much that may be wrong, None
        where the two clocks could not be compared.
    sees_all: False where we may not be shown other users' jobs, so that nothing is proved.
"""
