"""
What a job's nodes have asked the storage servers for, as the member `by_node` of its record.

    sweeps          |     a     |     b     |     c     |     d     |     e     |
    the job               [=================================)
    low                         |     b     |     c     |          what is wholly in its time
    high            |     a     |     b     |     c     |     d     |

What a node did between two sweeps is not known more exactly, so the job has done at least `low`
and at most `high`: as far as what its nodes did is what it did.  They also write back what was in
their memory: of what another job had written there before it, and of this job's after its end.
The first is named, where there was one; the second is `later_write_bytes`, as far as no other job
had begun.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.load.amounts import CLIENT_METRICS
from iostats.site.job_lifecycle import WRITES_BACK_S
from iostats.totals.record import ClientsIO, NodesFileSystem, NodesRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    Totals = Mapping[tuple[str, str], Any]          # (file system, NID) -> ClientTotals

_CLOCKS_WITHIN_S = 2.0          # of two clocks that could not be compared: both follow NTP
_MOST_REASONS = 5

RunWindow = namedtuple("RunWindow", "since until first last later within_s")
RunWindow.__doc__ = """
When a run had its nodes, by the site's clock, seconds since 1970.

Attributes:
    since, until: it had them in all of this time.
    first, last: it had them at no other time than this.
    later: the end of the minute in which they write back what it has written.
    within_s: by how much its start and end may be wrong; None where the clocks were not compared.
"""


def window_of(started: float, ended: float, step_s: float, ahead_s: float,
              within_s: float | None) -> RunWindow:
    """
    The RunWindow of a run's start and end by the batch system's clock, which rounds down to
    `step_s` and is `ahead_s` of ours, give or take `within_s`.

    >>> window_of(1000.0, 1060.0, 1.0, 7.0, 0.5)
    RunWindow(since=994.5, until=1052.5, first=992.5, last=1054.5, later=1114.5, within_s=0.5)
    """
    spare = _CLOCKS_WITHIN_S if within_s is None else within_s
    began, end = started - ahead_s, ended - ahead_s
    last = end + step_s + spare
    return RunWindow(began + step_s + spare, end - spare, began - spare, last,
                     last + WRITES_BACK_S, within_s)


def without_numbers(why: str, window: RunWindow | None = None) -> NodesRecord:
    """The member of a job that has no numbers."""
    began, ended = (None, None) if window is None else _times(window)
    return NodesRecord(why_none=why, alone="", began=began, ended=ended, clocks_within_s=None,
                       unknown_nodes="", nodes_used_before="", file_systems=[], notes=[])


def _times(window: RunWindow) -> tuple[float, float]:
    return (round((window.since + window.first) / 2, 3), round((window.until + window.last) / 2, 3))


def with_numbers(how: str, window: RunWindow, inside: Totals, around: Totals, later: Totals,
                 free_nids: Collection[str], unknown: str,
                 used_before: str, untold: Iterable[str]) -> NodesRecord:
    """
    The member of a job that had its nodes alone, of the ClientTotals of its nodes' NIDs.

    `inside`: from window.since to window.until; `around`: from window.first to window.last;
    `later`: from there to window.later; `free_nids`: of nodes on which no other job began by then;
    `unknown`: its nodes of which no client is known, as a list in text; `used_before`: those that
    another job had up to less than a minute before, in text; `untold`: file systems of whose
    clients no storage server tells.
    """
    began, ended = _times(window)
    said = []
    if used_before:
        said.append(f"another job was on {used_before} up to less than a minute before: what that "
                    f"had not written back by then is in these numbers")
    if unknown:
        said.append(f"no client of any file system is known as {unknown}: what was done there is "
                    f"not in the numbers ([clients] names says which node a NID is)")
    said += [f"what was done on {name} is not known: no storage server tells of its clients"
             for name in sorted(untold)][:_MOST_REASONS]
    file_systems = []
    for name in sorted({name for name, _ in around}):
        low = _added(one.low for (fs, _), one in inside.items() if fs == name)
        of_edges = [one for (fs, _), one in around.items() if fs == name]
        high = _added(one.high for one in of_edges)
        whys = sorted({why for one in of_edges if one.is_lower_bound for why in one.why})
        is_low = bool(unknown) or any(one.is_lower_bound for one in of_edges)
        after = [one for (fs, nid), one in later.items() if fs == name and nid in free_nids]
        file_systems.append(NodesFileSystem(
            name=name, label=name, low=_amounts(low),
            high=None if is_low else _amounts([max(pair) for pair in zip(low, high)]),
            later_write_bytes=_added(one.low for one in after)[1] if after else None,
            lower_bound=is_low, notes=_few(whys)))
    return NodesRecord(why_none="", alone=how, began=began, ended=ended,
                       clocks_within_s=window.within_s, unknown_nodes=unknown,
                       nodes_used_before=used_before, file_systems=file_systems,
                       notes=said)


def _added(several: Iterable[Iterable[int]]) -> list[int]:
    return [sum(column) for column in zip(*several)] or [0] * len(CLIENT_METRICS)


def _amounts(values: Iterable[int]) -> ClientsIO:
    return ClientsIO(**dict(zip(CLIENT_METRICS, values)))


def _few(whys: list[str]) -> list[str]:
    more = len(whys) - _MOST_REASONS
    return whys[:_MOST_REASONS] + ([f"and {more} more such reasons"] if more > 0 else [])
