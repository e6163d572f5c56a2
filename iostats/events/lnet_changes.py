"""
Changes in LNet's files: dropped messages, interfaces and routers that are down.  Used on storage
servers by scans (sources/lnet.py), on nodes at a job's end.

A few drops are normal: late answers to requests that were given up, peers that are down.  Only a
share of the messages that matters, and a number that is no chance, make an event.
"""

from __future__ import annotations

import os

from iostats.base.ids import Nid
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import explain_error, read_text
from iostats.lustre import lnetctl
from iostats.lustre.lnet import (
    parse_interfaces,
    parse_peers,
    parse_routers,
    parse_stats,
    subtract,
)
from iostats.lustre.nids import find_lnet
from iostats.lustre.paths import ABSENT, LNET_PLACES, LNETCTL_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.lustre.lnet import Interface, LnetPeer, LnetStats
    from iostats.lustre.lnetctl import LnetHealth

LEAST_DROPPED, LEAST_SHARE = 10, 0.01
MOST_PEERS = 100                        # in a status
LNETCTL_OLD_S = 180.0                   # three answers of systemd/iostats-lnetctl.timer


class LnetReading(NamedTuple):
    """LNet on this machine."""

    # LnetStats; interfaces: {NID: Interface}; routers: {NID: whether it is up}; each None where it
    # cannot be read or understood
    stats: LnetStats | None
    interfaces: dict[str, Interface] | None
    routers: dict[str, bool] | None
    why: str    # the first problem; "" for none, as where there is no LNet


class Share(NamedTuple):
    """The number of messages that were dropped, or resent, beside that of all `messages`."""

    number: int
    messages: int


def read_file(root: str, name: str) -> str | None:
    """
    The text of one of LNet's files; None where it is not there; OSError if the only place that may
    have it is closed, as debugfs is to users.
    """
    refused: OSError | None = None
    for place in LNET_PLACES:
        try:
            with open(f"{root}/{place}/{name}", "rb") as file:
                return file.read().decode("latin-1")
        except OSError as error:
            if error.errno not in ABSENT:
                refused = error
    if refused is not None:
        raise refused
    return None


def read_lnet(root: str) -> LnetReading:
    """The LnetReading of this machine."""
    stats, why = _parse_file(root, "stats", parse_stats)
    interfaces, why_interfaces = _parse_file(root, "nis", parse_interfaces)
    routers, why_routers = _parse_file(root, "routers", parse_routers)
    return LnetReading(stats, interfaces, routers, why or why_interfaces or why_routers)


def routes_messages(root: str) -> bool:
    """Whether this machine is a router of LNet; False where that cannot be read."""
    interfaces, _ = _parse_file(root, "nis", parse_interfaces)
    return any(interface.routes for interface in (interfaces or {}).values())


def read_peers(root: str) -> dict[str, LnetPeer] | None:
    """{NID: LnetPeer} of this machine; None where they cannot be read or understood."""
    peers: dict[str, LnetPeer] | None = _parse_file(root, "peers", parse_peers)[0]
    return peers


def _parse_file(root: str, name: str, parse: Callable[[str], object]) -> tuple[Any, str]:
    """The content of one of LNet's files, None if unknown, and the problem."""
    try:
        text = read_file(root, name)
        return None if text is None else parse(text), ""
    except OSError as error:
        return None, f"{error.filename}: {error.strerror}"
    except ValueError as error:
        return None, f"{LNET_PLACES[0]}/{error}"


def read_health(root: str, now: float) -> tuple[LnetHealth | None, str]:
    """The LnetHealth that is stored on this machine, or None and why there is none."""
    path = os.path.join(root, LNETCTL_PATH)
    try:
        health = lnetctl.parse(read_text(path))
    except OSError as error:
        return None, f"{path}: {explain_error(error)}"
    except ValueError as error:
        return None, f"{path}: {error}"
    if abs(now - health.at) > LNETCTL_OLD_S:
        return None, f"{path}: it is not of the last three minutes"
    return health, ""


def compare_drops(before: LnetStats, after: LnetStats) -> Share | None:
    """Return the messages dropped between two readings; None if the counters were reset."""
    gains = subtract(before, after)
    return None if gains is None else Share(gains.dropped, sum(gains[:4]))


def is_much(share: Share) -> bool:
    """
    Return True if enough messages were dropped, or resent, to matter.

    >>> [is_much(Share(*one)) for one in ((9, 23), (10, 1001), (10, 1000))]
    [False, False, True]
    """
    return bool(share.number >= LEAST_DROPPED and share.number >= LEAST_SHARE * share.messages)


def describe_drops(drops: Share) -> str:
    """
    Format the dropped messages as a sentence.

    >>> describe_drops(Share(41, 2300))
    'LNet dropped 41 of 2,300 messages (1.8 %)'
    """
    return f"LNet dropped {drops.number:,} of {drops.messages:,} messages ({_percent(drops)})"


def describe_resends(resends: Share) -> str:
    """
    Format the resent messages as a sentence; failed tries are not among those sent.

    >>> describe_resends(Share(41, 2300))
    'LNet sent 2,300 messages, and resent 41 (1.8 %)'
    """
    return (f"LNet sent {resends.messages:,} messages, and resent {resends.number:,} "
            f"({_percent(resends)})")


def _percent(share: Share) -> str:
    return f"{100 * share.number / max(1, share.messages):.1f} %"


def sum_credits(interfaces: dict[str, Interface] | None,
                peers: dict[str, LnetPeer] | None) -> dict[str, dict[str, int]]:
    """
    Add up the credits of interfaces and peers by LNet: {LNet: as LnetCredits of
    wire.messages.events}.

    >>> from iostats.lustre.lnet import Interface, LnetPeer
    >>> sum_credits({"10.9.0.3@o2ib": Interface(True, 256, 7, -41, False)},
    ...             {"10.9.1.23@o2ib": LnetPeer(2, -7), "10.9.1.29@o2ib": LnetPeer(0, 5)})
    {'o2ib': {'waiting': 7, 'lowest': -41, 'peers': 2, 'waiting_peers': 1, 'peer_waiting': 2, \
'peer_lowest': -7}}
    """
    credits: dict[str, dict[str, int]] = {}
    for nid, interface in (interfaces or {}).items():
        sums = credits.setdefault(_find_network(nid), {"waiting": 0, "lowest": interface.lowest})
        sums["waiting"] += interface.waiting
        sums["lowest"] = min(sums["lowest"], interface.lowest)
    for nid, peer in (peers or {}).items():
        # An address behind a router is no peer of an interface of its network.
        network = _find_network(nid)
        if network in credits:
            sums = credits[network]
            sums["peers"] = sums.get("peers", 0) + 1
            sums["waiting_peers"] = sums.get("waiting_peers", 0) + (peer.waiting > 0)
            sums["peer_waiting"] = sums.get("peer_waiting", 0) + peer.waiting
            sums["peer_lowest"] = min(sums.get("peer_lowest", peer.lowest), peer.lowest)
    return credits


def _find_network(nid: str) -> str:
    return find_lnet(Nid(nid)) or nid


def list_short_peers(peers: dict[str, LnetPeer]) -> dict[str, LnetPeer]:
    """
    Return up to MOST_PEERS {NID: LnetPeer} of those for which messages have waited, those with the
    most first.

    >>> from iostats.lustre.lnet import LnetPeer
    >>> list_short_peers({"a@tcp": LnetPeer(0, 5), "b@tcp": LnetPeer(0, -7)})
    {'b@tcp': LnetPeer(waiting=0, lowest=-7)}
    """
    short = [(-peer.waiting, peer.lowest, nid) for nid, peer in peers.items() if peer.lowest < 0]
    return {nid: peers[nid] for _, _, nid in sorted(short)[:MOST_PEERS]}


def count_waiting_messages(interfaces: dict[str, Interface] | None) -> int:
    """Messages that wait for a credit of an interface."""
    return sum(interface.waiting for interface in (interfaces or {}).values())
