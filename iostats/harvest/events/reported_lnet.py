"""
The state of LNet as storage servers report it, shown beside the counts of clients.

LNet counts messages by machine: they are of one LNet only where a storage server has no other.
Those to the storage server itself are in them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from iostats.load.amounts import LATENCY, METRICS
from iostats.load.answer import get_names, make_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Optional

    from iostats.harvest.events.reporting_servers import ReportingServer, ReportingServers
    from iostats.load.answer import Answer

RATES = ("sent", "received", "dropped", "resent")
_MOST_SHORT_PEERS = 100             # that a storage server reports


def make_lnet_columns(file_system: str, network: str, servers: ReportingServers,
                      now: float) -> dict[str, Optional[float]]:
    """
    The members `lnet_sent_per_s` ..., `lnet_waiting`, `lnet_lowest` of a row of `load` by LNet;
    None if unknown of each storage server of the file system.
    """
    here = [server for node, server in servers.of.items()
            if file_system in (servers.served(node) or ())]
    is_known = all(_get_credits(server) and not server.is_late(now) for server in here)
    inside = [server for server in here if is_known and network in _get_credits(server)]
    is_alone = all(len(_get_credits(server)) == 1 for server in inside)
    credits = [_get_credits(server)[network] for server in inside]
    rates = {f"lnet_{name}_per_s": _sum_if_all_known([
        server.lnet_per_s.get(name) if is_alone else None for server in inside]) for name in RATES}
    waiting = _sum_if_all_known([
        amounts["waiting"] + amounts["peer_waiting"] if "peer_waiting" in amounts else None
        for amounts in credits])
    lowest = [amounts[name] for amounts in credits for name in ("lowest", "peer_lowest")
              if name in amounts]
    return {**rates, "lnet_waiting": waiting, "lnet_lowest": min(lowest, default=None)}


def list_lnets(servers: ReportingServers) -> list[tuple[str, str]]:
    """Return [(file system, LNet)] of the interfaces that storage servers report."""
    return sorted({(file_system, network) for node, server in servers.of.items()
                   for file_system in servers.served(node) or ()
                   for network in _get_credits(server)})


def add_lnet_rows(answer: Answer, lnets: Iterable[tuple[str, str]], count: int) -> None:
    """
    Add the rows of `lnets` that are not in an answer to `load` by LNet, as they have no client.

    Without any client of a file system, what its clients do is unknown.
    """
    sums = {row["file_system"]: row for row in answer["file_systems"]}
    listed = {(row["file_system"], get_names(row)["lnet"]) for row in answer["rows"]}
    text, rows = answer["text"].casefold(), answer["rows"]
    for file_system, network in lnets if not answer["left_off"] else ():
        if file_system in sums and (file_system, network) not in listed and len(rows) < count and (
                text in f"{network} {file_system}".casefold()):
            is_known = "storage_servers" in sums[file_system]
            rows.append(make_row({
                "lnet": network, "file_system": file_system, "node": "",
                **{f"{metric}_per_s": 0.0 if is_known else None for metric in METRICS},
                **{"latency_ms" if name == LATENCY else f"{name}_per_s": None
                   for name in answer["show"]},
                "clients": 0 if is_known else None, "rates_estimated": False,
                "lower_bound": is_known and bool(answer["missing"].get(file_system))}))


class ShortPeers:
    """The addresses of clients that had too few credits, by all storage servers."""

    def __init__(self, servers: Iterable[ReportingServer]) -> None:
        self._servers = servers

    @cached_property
    def _sums(self) -> tuple[dict[str, tuple[int, int]], bool]:
        """
        {NID: (waiting messages, fewest credits)}, and whether all addresses are there.  Of no use
        to a question whose rows were made before, or that is refused.
        """
        lists: list[dict[str, tuple[int, int]]] = [
            server.status["lnet"]["short_peers"] for server in self._servers
            if "short_peers" in server.status.get("lnet", {})]
        sums: dict[str, tuple[int, int]] = {}
        for peers in lists:
            for nid, (waiting, lowest) in peers.items():
                waiting_before, lowest_before = sums.get(nid, (0, lowest))
                sums[nid] = waiting_before + waiting, min(lowest_before, lowest)
        return sums, bool(lists) and all(len(peers) < _MOST_SHORT_PEERS for peers in lists)

    def make_columns(self, nids: Iterable[str]) -> dict[str, Optional[int]]:
        """
        The members `lnet_waiting`, the messages that wait for one of these addresses, and
        `lnet_lowest`, the fewest credits of one; None if unknown.
        """
        sums, is_complete = self._sums
        short = [sums[nid] for nid in nids if nid in sums]
        if not short:
            return {"lnet_waiting": 0 if is_complete else None, "lnet_lowest": None}
        return {"lnet_waiting": sum(waiting for waiting, _ in short),
                "lnet_lowest": min(lowest for _, lowest in short)}


def _get_credits(server: ReportingServer) -> dict[str, dict[str, int]]:
    """{LNet: credits} of a storage server; {} where that is not known."""
    credits: dict[str, dict[str, int]] = server.status.get("lnet", {}).get("credits", {})
    return credits


def _sum_if_all_known(values: Sequence[Optional[float]]) -> Optional[float]:
    """The sum; None where a value is not known, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
