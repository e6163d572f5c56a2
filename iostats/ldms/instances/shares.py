"""
Which groups an instance takes, and which it gives away, so that all have their share.

Groups are counted: each instance has as many as the others, or one more.  What has an owner stays
with it as long as that is so; an instance that has too many gives away its smallest groups.  All is
decided by what is in etcd alone, so that instances that see the same come to the same plan.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Share = namedtuple("Share", "take give")
Share.__doc__ = """
What an instance is to do.

Attributes:
    take: groups that have no owner and are to be its own, the largest first.
    give: groups of its own that others are to have, the smallest first.
"""


def share_of(me: str, groups: Mapping[str, int], instances: Collection[str],
             owners: Mapping[str, str]) -> Share:
    """
    The Share of the instance `me`.

    `groups`: {group: how many daemons it has}, all that are to have an owner; `instances`: those
    that are there, `me` among them or not; `owners`: {group: instance}; of groups that are not in
    `groups`, those of `me` are given away.
    """
    old = sorted(group for group, owner in owners.items() if owner == me and group not in groups)
    if me not in instances:
        return Share([], old)
    has: dict[str, list[str]] = {name: [] for name in instances}
    for group in sorted(groups, key=lambda group: (groups[group], group)):
        if owners.get(group) in has:
            has[owners[group]].append(group)
    whole, more = divmod(len(groups), len(has))
    # Who has most keeps most.
    most = {name: whole + (place < more) for place, name in enumerate(
        sorted(has, key=lambda name: (-len(has[name]), name)))}
    give = has[me][:max(0, len(has[me]) - most[me])]
    # Those that others are about to give away have their next owner as well, when they are free.
    free = [group for group in groups if group not in owners]
    take: list[str] = []
    load = {name: sum(groups[group] for group in mine[max(0, len(mine) - most[name]):])
            for name, mine in has.items()}
    count = {name: min(len(mine), most[name]) for name, mine in has.items()}
    for group in sorted(free, key=lambda group: (-groups[group], group)):
        open_to = [name for name in has if count[name] < most[name]]
        if not open_to:
            break
        name = min(open_to, key=lambda name: (load[name], name))
        load[name] += groups[group]
        count[name] += 1
        if name == me:
            take.append(group)
    return Share(take, [*old, *give])
