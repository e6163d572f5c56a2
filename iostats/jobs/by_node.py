"""
The requests of a job's nodes to the storage servers, as the member `by_node` of its record.

    sweeps          |     a     |     b     |     c     |     d     |     e     |
    the job               [=================================)
    low                         |     b     |     c     |          intervals within its time
    high            |     a     |     b     |     c     |     d     |

A node's I/O is known from sweep to sweep only, so the job did at least `low` and at most `high`,
if its nodes' I/O was its own.  Nodes also write back data in their memory: of an earlier job, at
the beginning of this one, and of this job, after its end.  An earlier job is named in a note; the
data after the end are `later_write_bytes`, for nodes on which no other job had begun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from iostats.harvest.job_lifecycle import WRITES_BACK_S
from iostats.load.amounts import CLIENT_METRICS
from iostats.totals.record import ClientsIO, NodesFileSystem, NodesRecord

if TYPE_CHECKING:
    from iostats.harvest.clients.intake import ClientsTotals

_CLOCKS_WITHIN_S = 2.0          # between two clocks that could not be compared; both follow NTP
_MAX_REASONS = 5


class RunWindow(NamedTuple):
    """The time in which a run had its nodes, by the site's clock, seconds since 1970."""

    # since, until: it had them in all of this time
    since: float
    until: float
    # first, last: it had them at no other time than this
    first: float
    last: float
    later: float    # the end of the minute in which they write back its data
    # by how much its start and end may be wrong; None where the clocks were not compared
    within_s: float | None


def make_window(started: float, ended: float, step_s: float, ahead_s: float,
                within_s: float | None) -> RunWindow:
    """
    The RunWindow of a run's start and end by the batch system's clock, which rounds down to
    `step_s` and is `ahead_s` of ours, give or take `within_s`.

    >>> make_window(1000.0, 1060.0, 1.0, 7.0, 0.5)
    RunWindow(since=994.5, until=1052.5, first=992.5, last=1054.5, later=1114.5, within_s=0.5)
    """
    spare = _CLOCKS_WITHIN_S if within_s is None else within_s
    began, end = started - ahead_s, ended - ahead_s
    last = end + step_s + spare
    return RunWindow(began + step_s + spare, end - spare, began - spare, last,
                     last + WRITES_BACK_S, within_s)


def make_part_without_numbers(why: str, window: RunWindow | None = None) -> NodesRecord:
    """The member of a job that has no numbers; `why`: the reason."""
    began, ended = (None, None) if window is None else _compute_middle(window)
    return NodesRecord(why_none=why, alone="", began=began, ended=ended, clocks_within_s=None,
                       unknown_nodes="", nodes_used_before="", file_systems=[], notes=[])


def _compute_middle(window: RunWindow) -> tuple[float, float]:
    return (round((window.since + window.first) / 2, 3), round((window.until + window.last) / 2, 3))


def make_part_with_numbers(how: str, window: RunWindow, inside: ClientsTotals,
                           around: ClientsTotals, later: ClientsTotals,
                           free_nids: Collection[str], unknown: str,
                           used_before: str, unreported: Iterable[str]) -> NodesRecord:
    """
    The member of a job that had its nodes alone, from the ClientTotals of its nodes' NIDs.

    `inside`: from window.since to window.until; `around`: from window.first to window.last;
    `later`: from there to window.later; `free_nids`: of nodes on which no other job began by then;
    `unknown`: text, its nodes of which no client is known; `used_before`: text, those that another
    job left less than a minute before; `unreported`: file systems whose storage servers report no
    clients.
    """
    began, ended = _compute_middle(window)
    notes = []
    if used_before:
        notes.append(f"another job left {used_before} less than a minute before: its data that "
                     f"were written back later are in these numbers")
    if unknown:
        notes.append(f"no client of any file system is known as {unknown}: its I/O is "
                     f"not in the numbers ([clients] names says which node a NID is)")
    notes += [f"I/O on {name} is unknown: no storage server reports its clients"
              for name in sorted(unreported)][:_MAX_REASONS]
    file_systems = []
    for name in sorted({name for name, _ in around}):
        low = _add_up(totals.low for (fs, _), totals in inside.items() if fs == name)
        of_edges = [totals for (fs, _), totals in around.items() if fs == name]
        high = _add_up(totals.high for totals in of_edges)
        reasons = sorted({why for totals in of_edges if totals.is_lower_bound
                          for why in totals.why})
        is_lower_bound = bool(unknown) or any(totals.is_lower_bound for totals in of_edges)
        after = [totals for (fs, nid), totals in later.items() if fs == name and nid in free_nids]
        file_systems.append(NodesFileSystem(
            name=name, label=name, low=_as_clients_io(low),
            high=None if is_lower_bound else _as_clients_io([max(pair) for pair in zip(low, high)]),
            later_write_bytes=_add_up(totals.low for totals in after)[1] if after else None,
            lower_bound=is_lower_bound, notes=_limit_reasons(reasons)))
    return NodesRecord(why_none="", alone=how, began=began, ended=ended,
                       clocks_within_s=window.within_s, unknown_nodes=unknown,
                       nodes_used_before=used_before, file_systems=file_systems,
                       notes=notes)


def _add_up(columns: Iterable[Iterable[int]]) -> list[int]:
    return [sum(column) for column in zip(*columns)] or [0] * len(CLIENT_METRICS)


def _as_clients_io(values: Iterable[int]) -> ClientsIO:
    return ClientsIO(**dict(zip(CLIENT_METRICS, values)))


def _limit_reasons(reasons: list[str]) -> list[str]:
    more = len(reasons) - _MAX_REASONS
    return reasons[:_MAX_REASONS] + ([f"and {more} more such reasons"] if more > 0 else [])
