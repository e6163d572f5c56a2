"""
Node lists as batch systems write them, nid[00001-00003,00007]: ClusterShell's NodeSet.

For the lists of command lines and of our own output alone.  One that came in a message is read by
base.node_list: ClusterShell would look up "@name" in the group sources of this machine, which are
commands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base.node_list import MOST_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable


def fold_nodes(nodes: Iterable[str]) -> str:
    """Fold node names to a node list, such as nid[001-004].

    >>> fold_nodes(["nid00003", "nid00001", "nid00002"])
    'nid[00001-00003]'
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return str(NodeSet.fromlist(list(nodes)))
    except NodeSetException:
        return ",".join(sorted(nodes))


def unfold_nodes(text: str, limit: int = MOST_NODES) -> list[str]:
    """Expand a node list to up to `limit` names, sorted; ValueError."""
    if _count_names(text) > limit:                  # ClusterShell makes all of them first
        raise ValueError(f"more than {limit:,} nodes")
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return list(NodeSet(text))
    except (NodeSetException, AssertionError) as error:        # "range too large"
        raise ValueError(str(error)) from None


def _count_names(text: str) -> int:
    """
    Return the maximum number of names in a list, without making them.

    >>> _count_names("nid[1-3,5]"), _count_names("r[1-2]n[1-23/2]"), _count_names("a,b!a")
    (4, 24, 3)
    """
    total = 0
    parts: list[str] = re.findall(r"(?:\[[^\]]*\]?|[^,!&^\[])+", text)
    for part in parts:
        count = 1
        in_brackets: list[str] = re.findall(r"\[([^\]]*)", part)
        for ranges in in_brackets:
            steps: list[tuple[str, str, str]] = re.findall(
                r"(\d{1,18})-(\d{1,18})(?:/(\d{1,18}))?", ranges)
            sizes = [(int(last) - int(first)) // max(1, int(step or 1))
                     for first, last, step in steps]
            count *= sum(sizes) + ranges.count(",") + 1
        total += count
    return total
