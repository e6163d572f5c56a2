"""
What a rule is, and what it gives where it holds.
"""

from __future__ import annotations

from collections import namedtuple
from math import inf

from iostats.base.units import percent_text
from iostats.report.advice.interval import added_up, ratio
from iostats.report.job_summary import NODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.report.advice.interval import Interval
    from iostats.report.advice.known import KnownIO

Rule = namedtuple("Rule", "id looks_at when meaning advice options", defaults=((),))
Rule.__doc__ = """
One rule.

Attributes:
    id: as in [advice] and docs/advice.md: small_writes.
    looks_at: what it has looked at, for the line where no rule holds; "" for nothing to say there.
    when: (KnownIO, Limits) -> Held or None; of rules about the whole job (Record, Limits) ->
        [Held].
    meaning, advice: a sentence each; a Held's own win.
    options: keys of [advice] that only this rule has.
"""

Held = namedtuple("Held", "weight number evidence covers meaning advice file_system cost",
                  defaults=((), "", "", "", None))
Held.__doc__ = """
What a rule gives where it holds.

Attributes:
    weight, number, evidence, cost: as of a Finding.
    covers: ids of rules whose findings say less of the same.
    meaning, advice: instead of the rule's, where it depends on the numbers; "" for the rule's.
    file_system: of a rule about the whole job: which one it is about, if any.
"""


class Limits:
    """The thresholds of [advice], by their keys, and what is common to rules."""

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getitem__(self, key: str) -> Any:
        return self._config[f"advice.{key}"]

    @property
    def units(self) -> str:
        """The units of bytes in texts."""
        return str(self._config["report.units"])

    def matters(self, known: KnownIO, *calls: str) -> bool:
        """
        Whether these calls take enough of the nodes' time; where nothing times them: whether they
        are often enough.
        """
        if known.is_timed(*calls):
            return bool(100 * known.time_share(*calls).low >= self["from_percent"])
        rate = sum(known.rate(_counted(call)).low for call in calls)
        return bool(rate >= self["untimed_per_second"] * (known.nodes or 1))


def _counted(call: str) -> str:
    return f"{call}_calls" if call in ("read", "write") else call


def weight_of(known: KnownIO, *calls: str, concerned: float = 1.0) -> float:
    """
    How important these calls are: the share of the nodes' time in them; half of what is concerned
    where they are not timed, which is no measurement and for the order alone.
    """
    if not known.is_timed(*calls):
        return 0.5 * concerned
    return min(1.0, float(known.time_share(*calls).low)) * concerned


def cost_of(known: KnownIO, *calls: str) -> float | None:
    """
    The part of the run time that these calls cost, at most: all of them, as if no two had been at
    the same time; None where some of them are not timed, or may be missing.
    """
    untimed = [call for call in calls if call not in known.times_s]
    if known.side != NODES or any(known.of(_counted(call)).high for call in untimed):
        return None
    times = added_up(known.times_s[call] for call in calls if call not in untimed)
    most = float(ratio(times, known.elapsed_s).high)
    return None if most == inf else min(1.0, most)


def of_time(known: KnownIO, *calls: str) -> str:
    """
    ", 41 % of the nodes' time": what these calls took; "" where they are not timed, or the nodes'
    time is not known.
    """
    share = known.time_share(*calls)
    return f", {node_time_text(share)}{'' if share.low <= 1 else ' (threads overlap)'}" if (
        share.low) else ""


def node_time_text(share: Interval) -> str:
    """
    A share of the nodes' time in words; above 1 where several threads of a node waited at the same
    time.
    """
    return at_least(share) + (f"{percent_text(share.low)} of the nodes' time" if share.low <= 1 else
                              f"{share.low:,.1f} times the nodes' time")


def at_least(number: Interval) -> str:
    """">= " of what may be more."""
    return "" if number.low == number.high else ">= "


def share_of_it(share: Interval) -> str:
    """A share of something, from 0 to 1, marked where it may be more."""
    return at_least(share) + percent_text(min(1.0, share.low))


def count_text(number: Interval) -> str:
    """A count with commas, marked where it may be more."""
    return f"{at_least(number)}{number.low:,.0f}"


def rate_text(number: float) -> str:
    """
    >>> rate_text(12345.6), rate_text(23.46), rate_text(0.5)
    ('12,346', '23.5', '0.5')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"
