"""
What clients did, as load/ takes it: rates of the last sweep, and totals of today.

    harvest.clients.sweep            ->  {file system: ClientLoad} of rates
    harvest.clients.between(...)     ->  a Load of totals
"""

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import one_line
from iostats.load.amounts import METRICS, amounts_of_client
from iostats.load.levels import TOTALS
from iostats.load.sums import ClientLoad, Load

_IDLE_SWEEPS = 2                # a sweep of clients that is so much older than job_stats' is none


def of_rates(clients: Any,
             sweep: Any) -> Generator[None, None, dict[str, ClientLoad]]:
    """
    {file system: ClientLoad} of harvest.clients' last sweep, in steps; `sweep`: the SiteSweep.

    {} where no storage server tells of clients, or none does any more.
    """
    found: dict[str, ClientLoad] = {}
    mine = clients.sweep
    if mine is None or mine.slot < sweep.slot - _IDLE_SWEEPS * sweep.every_s:
        return found
    for fs, rates in mine.file_systems.items():
        columns = rates.rates
        of_all = columns[:, 2:6].sum(axis=1)
        amounts = numpy.column_stack([columns[:, 1], columns[:, 0], of_all, columns[:, 5]])
        found[fs] = ClientLoad(rates.nids, amounts.tolist(),
                               numpy.asarray(rates.is_lower_bound, bool).tolist(),
                               dict(rates.missing), dict(rates.estimated))
        yield
    return found


def slack_of(sweep: Any, since: float, until: float) -> tuple[float, float]:
    """
    The slack_s of `between` for these moments: agents read some time after a sweep's moment, which
    is a multiple of the pause.
    """
    half = sweep.every_s / 2
    since_s, until_s = (0.0 if at % sweep.every_s else half for at in (since, until))
    return since_s, until_s


def of_today(clients: Any, rates: Load,
             file_system: str) -> Generator[None, None, tuple[Load, dict[tuple[str, str], Any]]]:
    """
    (Load of what clients did today, up to the last sweep that all have told of, {(file system,
    NID): [why it may be too low]}), in steps; `rates`: the Load of the last sweep.

    It begins with the last sweep before 00:00: what was done since a sweep is known exactly.
    """
    at = min(float(rates.at), clients.told_until)
    midnight = datetime.fromtimestamp(at).replace(hour=0, minute=0, second=0, microsecond=0)
    began = clients.latest_before(midnight.timestamp()) or midnight.timestamp()
    totals = yield from clients.between(began, at, file_system,
                                        slack_s=slack_of(clients.sweep, began, at))
    columns: dict[str, tuple[list[str], list[list[float]], list[bool]]] = {
        fs: ([], [], []) for fs in rates.clients if file_system in ("", fs)}
    whys: dict[tuple[str, str], Any] = {}
    for number, ((fs, nid), one) in enumerate(totals.items()):
        if number % AT_ONCE == 0:
            yield
        if one.why:
            whys[fs, nid] = one.why
        nids, amounts, is_low = columns.setdefault(fs, ([], [], []))
        nids.append(nid)
        amounts.append(amounts_of_client(one.low))
        is_low.append(bool(one.is_lower_bound) or list(one.low) != list(one.high))
    return rates._replace(
        kind=TOTALS, at=at, span_s=None, parts=[], by_id={}, sums=[], missing={}, began=began,
        more=(), clients={
            fs: ClientLoad(*lists, rates.clients[fs].missing if fs in rates.clients else {})
            for fs, lists in columns.items()}), whys


def complete(rows: list[dict[str, Any]], rates: Load,
             whys: Mapping[tuple[str, str], Sequence[str]]) -> Generator[None, None, None]:
    """Add the rates of a client to its row of totals, and `notes` (why they may be too low)."""
    places: dict[str, dict[str, int]] = {}
    for fs, clients in rates.clients.items():
        places[fs] = {nid: place for place, nid in enumerate(clients.nids)}
        yield
    for number, row in enumerate(rows):
        if number % AT_ONCE == 0:
            yield
        fs, nid = row["file_system"], row["client"]
        place = places.get(fs, {}).get(nid)
        amounts, is_low, is_estimated = [None] * len(METRICS), True, False
        if place is not None:
            clients = rates.clients[fs]
            amounts, is_low = clients.amounts[place], bool(
                clients.missing or clients.is_low[place])
            is_estimated = bool(clients.estimated)
        row.update({f"{metric}_per_s": amount for metric, amount in zip(METRICS, amounts)},
                   rates_lower_bound=is_low, rates_estimated=is_estimated,
                   notes=list(map(one_line, whys.get((fs, nid), ()))))
