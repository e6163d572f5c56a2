"""
Rules about events: what went wrong while the job ran, before anything about how it does its I/O.
"""

from __future__ import annotations

from iostats.events.kinds import INFO
from iostats.report.advice.rule import Held
from iostats.totals.job_events import LOST, MAY_BE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.report.advice.rule import Limits
    from iostats.totals.record import JobEvent, Record


def data_lost(record: Record, _: Limits) -> list[Held]:
    """What the job had written was thrown away, or may have been."""
    found = []
    for fate, words, weight in ((LOST, "was thrown away", 3.0), (MAY_BE, "may be lost", 2.0)):
        for name, events in _by_file_system(one for one in record.events or ()
                                            if one.data == fate):
            nodes = {one.nodes for one in events if one.nodes}
            on = f" on {nodes.pop()}" if len(nodes) == 1 else ""
            found.append(Held(
                weight, f"data that the job had written and the node had not sent {words}{on} "
                f"({_number_of(events)})", {"events": len(events)}, ("faults",),
                file_system=name))
    return found


def faults(record: Record, _: Limits) -> list[Held]:
    """Evictions, lost connections, targets that were down."""
    elapsed_s = record.job.elapsed_s or 0
    found = []
    for name, events in _by_file_system(
            one for one in record.events or ()
            if one.severity > INFO and one.is_certain and not one.data):
        longest = max((one.longest_s or 0 for one in events), default=0)
        kinds = sorted({one.kind.replace("_", " ") for one in events})
        on = " on it" if name else ""
        text = f"{_number_of(events)}{on} while the job ran ({', '.join(kinds)})"
        if longest >= 1:
            text += f", the longest of {longest:,.0f} s"
        found.append(Held(
            max(0.3, min(1.0, longest / elapsed_s) if elapsed_s else 0.3), text,
            {"events": sum(one.count for one in events), "longest_s": longest}, file_system=name))
    return found


def _by_file_system(events: Iterable[JobEvent]) -> list[tuple[str, list[JobEvent]]]:
    found: dict[str, list[JobEvent]] = {}
    for one in events:
        found.setdefault(one.file_system, []).append(one)
    return sorted(found.items())


def _number_of(events: list[JobEvent]) -> str:
    count = len(events)
    return f"{count:,} {'event' if count == 1 else 'events'}"
