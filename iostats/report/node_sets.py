"""
Node lists as batch systems write them, nid[00001-00003,00007]: ClusterShell's NodeSet.

For the lists of command lines and of our own output alone.  One that came in a message is read by
base.node_list: ClusterShell would look up "@name" in the group sources of this machine, which are
commands.
"""

from __future__ import annotations

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


def unfolded(text: str) -> list[str]:
    """The names in a list, sorted; ValueError."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    try:
        return list(NodeSet(text))
    except (NodeSetException, AssertionError) as error:        # "range too large"
        raise ValueError(str(error)) from None
