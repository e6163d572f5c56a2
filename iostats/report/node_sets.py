"""
Node lists as batch systems write them, nid[00001-00003,00007]: ClusterShell's NodeSet.

For the lists of command lines and of our own output alone.  One that came in a message is read by
base.node_list: ClusterShell would look up "@name" in the group sources of this machine, which are
commands.
"""

from __future__ import annotations

import re

from iostats.base.node_list import MOST_NODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def folded(nodes: Iterable[str]) -> str:
    """
    Node names as a list.

    >>> folded(["nid00003", "nid00001", "nid00002"])
    'nid[00001-00003]'
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return str(NodeSet.fromlist(list(nodes)))
    except NodeSetException:
        return ",".join(sorted(nodes))


def unfolded(text: str, most: int = MOST_NODES) -> list[str]:
    """The up to `most` names in a list, sorted; ValueError."""
    if _most_names_in(text) > most:                 # ClusterShell makes all of them first
        raise ValueError(f"more than {most:,} nodes")
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return list(NodeSet(text))
    except (NodeSetException, AssertionError) as error:        # "range too large"
        raise ValueError(str(error)) from None


def _most_names_in(text: str) -> int:
    """
    How many names a list has at most, without making them.

    >>> _most_names_in("nid[1-3,5]"), _most_names_in("r[1-2]n[1-23/2]"), _most_names_in("a,b!a")
    (4, 24, 3)
    """
    found = 0
    for part in re.findall(r"(?:\[[^\]]*\]?|[^,!&^\[])+", text):
        count = 1
        for ranges in re.findall(r"\[([^\]]*)", part):
            sizes = [(int(last) - int(first)) // max(1, int(step or 1)) for first, last, step
                     in re.findall(r"(\d{1,18})-(\d{1,18})(?:/(\d{1,18}))?", ranges)]
            count *= sum(sizes) + ranges.count(",") + 1
        found += count
    return found
