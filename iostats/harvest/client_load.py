"""
Client activity in the form of load/: rates of the last sweep, and totals of today.

    harvest.clients.sweep            ->  {file system: ClientLoad} of rates
    harvest.clients.between(...)     ->  a Load of totals
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Optional

import numpy

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import sanitize
from iostats.load.amounts import METRICS, convert_client
from iostats.load.answer import make_row
from iostats.load.levels import TOTALS
from iostats.load.sums import ClientLoad, Load

if TYPE_CHECKING:
    from iostats.base.ids import Nid
    from iostats.harvest.clients.intake import ClientHarvest
    from iostats.harvest.clients.rates import ClientSweep
    from iostats.harvest.intake import SiteSweep
    from iostats.load.answer import Row

_IDLE_SWEEPS = 2                # an older sweep of clients is ignored


def convert_rates(clients: ClientHarvest,
                  sweep: SiteSweep) -> Generator[None, None, dict[str, ClientLoad]]:
    """
    Return {file system: ClientLoad} of harvest.clients' last sweep, in steps; `sweep`: the
    SiteSweep.

    {} if no storage server reports its clients now.
    """
    loads: dict[str, ClientLoad] = {}
    client_sweep = clients.sweep
    if client_sweep is None or client_sweep.slot < sweep.slot - _IDLE_SWEEPS * sweep.every_s:
        return loads
    for fs, rates in client_sweep.file_systems.items():
        columns = rates.rates
        requests = columns[:, 2:6].sum(axis=1)
        amounts = numpy.column_stack([columns[:, 1], columns[:, 0], requests, columns[:, 5]])
        loads[fs] = ClientLoad(rates.nids, amounts.tolist(),
                               numpy.asarray(rates.is_lower_bound, bool).tolist(),
                               dict(rates.missing), dict(rates.estimated))
        yield
    return loads


def compute_slack(sweep: ClientSweep, since: float, until: float) -> tuple[float, float]:
    """
    Return how far readings may be from these times, s: agents read some time after a sweep's time.
    """
    half = sweep.every_s / 2
    since_s, until_s = (0.0 if at % sweep.every_s else half for at in (since, until))
    return since_s, until_s


def sum_today(clients: ClientHarvest, rates: Load, file_system: str,
                  ) -> Generator[None, None, tuple[Load, dict[tuple[str, str], list[str]]]]:
    """
    Return (Load of today's client activity up to the last sweep from all agents, {(file system,
    NID): [why it may be too low]}), in steps; `rates`: the Load of the last sweep.

    It begins with the last sweep before 00:00: amounts since a sweep are known exactly.
    """
    at = min(rates.at or 0.0, clients.complete_until)
    midnight = datetime.fromtimestamp(at).replace(hour=0, minute=0, second=0, microsecond=0)
    began = clients.find_latest_sweep_end(midnight.timestamp()) or midnight.timestamp()
    totals = yield from clients.between(began, at, file_system,
                                        slack_s=compute_slack(clients.sweep, began, at)
                                        if clients.sweep else (0.0, 0.0))
    columns: dict[str, tuple[list[Nid], list[list[float]], list[bool]]] = {
        fs: ([], [], []) for fs in rates.clients if file_system in ("", fs)}
    reasons: dict[tuple[str, str], list[str]] = {}
    for number, ((fs, nid), client_totals) in enumerate(totals.items()):
        if number % ITEMS_PER_STEP == 0:
            yield
        if client_totals.why:
            reasons[fs, nid] = client_totals.why
        nids, amounts, is_low = columns.setdefault(fs, ([], [], []))
        nids.append(nid)
        amounts.append(convert_client(client_totals.low))
        is_low.append(bool(client_totals.is_lower_bound)
                      or list(client_totals.low) != list(client_totals.high))
    return rates._replace(
        kind=TOTALS, at=at, span_s=None, parts=[], by_id={}, sums=[], missing={}, began=began,
        more=(), clients={
            fs: ClientLoad(*lists, rates.clients[fs].missing if fs in rates.clients else {})
            for fs, lists in columns.items()}), reasons


def add_client_rates(rows: list[Row], rates: Load,
                     reasons: Mapping[tuple[str, str], Sequence[str]],
                     ) -> Generator[None, None, None]:
    """Add each client's rates to its row of totals, and `notes` (why they may be too low)."""
    places: dict[str, dict[str, int]] = {}
    for fs, clients in rates.clients.items():
        places[fs] = {nid: place for place, nid in enumerate(clients.nids)}
        yield
    for number, row in enumerate(rows):
        if number % ITEMS_PER_STEP == 0:
            yield
        fs, nid = row["file_system"], row["client"]
        place = places.get(fs, {}).get(nid)
        amounts: Sequence[Optional[float]] = [None] * len(METRICS)
        is_low, is_estimated = True, False
        if place is not None:
            clients = rates.clients[fs]
            amounts, is_low = clients.amounts[place], bool(
                clients.missing or clients.is_low[place])
            is_estimated = bool(clients.estimated)
        row.update(make_row({
            **{f"{metric}_per_s": amount for metric, amount in zip(METRICS, amounts)},
            "rates_lower_bound": is_low, "rates_estimated": is_estimated,
            "notes": list(map(sanitize, reasons.get((fs, nid), ())))}))
