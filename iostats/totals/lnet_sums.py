"""Messages of the LNet of a job's nodes, added up; as of lustre.lnet.NODE_COUNTS."""

from __future__ import annotations

from iostats.totals.record_additions import RecordedLnet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def add_known(lnet: dict[str, int], earlier: dict[str, int]) -> dict[str, int]:
    """Add up LNet's messages in two parts of a node's work, as far as both are known."""
    return {name: count + earlier[name] for name, count in lnet.items() if name in earlier}


def sum_lnet(known: Mapping[str, Mapping[str, int]]) -> RecordedLnet | None:
    """Add up {node: LNet's messages}; None without any."""
    known = dict(sorted(known.items()))
    resending = {node: counts for node, counts in known.items() if "resent" in counts}

    def total(name: str, counts_of: Mapping[str, Mapping[str, int]]) -> int:
        return sum(counts[name] for counts in counts_of.values())

    def find_node_with_most(name: str, counts_of: Mapping[str, Mapping[str, int]]) -> str:
        node = max(counts_of, key=lambda node: counts_of[node][name], default="")
        return node if node and counts_of[node][name] else ""
    return RecordedLnet(
        nodes=len(known), sent=total("sent", known), received=total("received", known),
        dropped=total("dropped", known), sent_bytes=total("sent_bytes", known),
        received_bytes=total("received_bytes", known), resend_nodes=len(resending),
        resent=total("resent", resending), resent_of=total("sent", resending),
        response_timeouts=total("response_timeouts", resending),
        dropped_most=find_node_with_most("dropped", known),
        resent_most=find_node_with_most("resent", resending),
        by_node={node: {**counts} for node, counts in known.items()},
    ) if known else None
