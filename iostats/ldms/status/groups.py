"""
The groups of daemons that a description has: what has an owner, and a status.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.ldms.status.document import AGGREGATOR, SAMPLER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import Description

GroupKind = namedtuple("GroupKind", "role level daemons")
GroupKind.__doc__ = "role: AGGREGATOR or SAMPLER; level: of aggregators; daemons: how many."


def groups_of(description: Description | None) -> dict[str, GroupKind]:
    """{group: GroupKind} of a description."""
    if description is None:
        return {}
    return {**{one.name: GroupKind(SAMPLER, 0, len(one.members)) for one in description.samplers},
            **{one.name: GroupKind(AGGREGATOR, one.level, len(one.members))
               for one in description.aggregators}}
