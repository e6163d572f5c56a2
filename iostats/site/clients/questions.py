"""
Questions to what clients did: several at once, and what was not read of the time of one.
"""

from __future__ import annotations

from iostats.site.clients.history import NO_SLACK, ClientSums
from iostats.site.clients.rates import SILENT, UNREPORTED, readers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from iostats.site.clients.history import ClientTotals
    from iostats.site.clients.nids import KnownNids
    from iostats.site.clients.source import ClientSource

    Slack = tuple[float, float]
    AddUp = Callable[[str, list[ClientSums], Slack], Generator[None, None, None]]


def of_each(nids: Mapping[str, KnownNids], questions: list[tuple[float, float, list[str]]],
            add_up: AddUp) -> Generator[None, None, list[dict[tuple[str, str], ClientTotals]]]:
    """
    [{(file system, NID): ClientTotals}] of each of [(since, until, NIDs)], in steps.

    `add_up(file system, [ClientSums], slack)`: adds up all of them in one go.
    """
    found: list[dict[tuple[str, str], ClientTotals]] = [{} for _ in questions]
    for name, known in [*nids.items()] if questions else ():
        wanted = [sorted({number for nid in some if (number := known.find(nid)) >= 0})
                  for _, _, some in questions]
        several = [ClientSums(since, until, len(known), NO_SLACK, only)
                   for (since, until, _), only in zip(questions, wanted)]
        yield from add_up(name, several, NO_SLACK)
        for totals, sums, numbers in zip(found, several, wanted):
            totals.update(((name, known.names[number] or f"#{number}"), sums.totals(number))
                          for number in numbers)
            yield
    return found


def mark_unread(sums: ClientSums, sources: list[ClientSource], silent: Iterable[str],
                slack_s: Slack) -> None:
    """Mark what was not read from the beginning of the question to its end."""
    since, until = sums.began + slack_s[0], sums.ended - slack_s[1]
    for target, one in readers_of(sources).items():
        began = min((other.began_of[target] for other in sources if target in other.began_of),
                    default=one.first)
        if began is None or began > since:
            sums.mark(-1, f"{one.node}: its clients were not read before")
        if one.whole.get(target, until) < until and not one.is_read(target):
            sums.mark(-1, f"{one.node}: {one.file_system}-{target}: {UNREPORTED}")
        if one.read_from is None or one.read_from < until:
            sums.mark(-1, f"{one.node}: its clients were not read up to then")
    if sources and sources[0].nids.left_out:
        sums.mark(-1, f"more than {len(sources[0].nids)} clients: the others are left out")
    for node in silent:
        sums.mark(-1, f"{node}: {SILENT}")
