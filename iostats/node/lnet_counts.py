"""
Messages of this node's LNet during a job, from the files of its start and its end.

What LNet resent is in the answers of `lnetctl stats show`, where prolog and epilog store one in
/run/iostats/lnetctl (docs/how-to/batch.md): of the job are those that are no older than OLD_S.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.events.lnet_changes import Share
from iostats.lustre import lnetctl
from iostats.lustre.lnet import parse_stats, subtract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.lustre.lnet import LnetStats
    from iostats.lustre.paths import File
    from iostats.totals.snapshot import Snapshot

SOURCE, STATS, LNETCTL = "lnet", "stats", "lnetctl"     # sources/lnet.py, and its files
OLD_S = 15.0


class Resends(NamedTuple):
    """Messages that LNet resent during a job, of all that it sent, and answers that were late."""

    share: Share
    response_timeouts: int


def find_text(files: Iterable[File], name: str) -> str | None:
    """The text of one of the files of sources/lnet.py; None if it was not read."""
    return next((file.text for file in files
                 if file.source == SOURCE and file.name == name and not file.errno), None)


def compare_stats(start: Snapshot, end_files: Iterable[File]) -> LnetStats | None:
    """Messages between two readings of one boot; None if unknown; ValueError."""
    texts = [find_text(files, STATS) for files in (start.files, end_files)]
    before, after = texts
    return None if before is None or after is None else subtract(parse_stats(before),
                                                                 parse_stats(after))


def compare_answers(start: Snapshot, end_files: Iterable[File], now: float) -> Resends | None:
    """Resends between two answers of lnetctl; None if one is missing or old; ValueError."""
    before, after = (find_text(files, LNETCTL) for files in (start.files, end_files))
    if before is None or after is None:
        return None
    # A health that is cut off, as the end of a long file, is not read.
    first, last = (lnetctl.parse(text.partition("\nnet:")[0]) for text in (before, after))
    gains = [new - old for old, new in zip(first[1:4], last[1:4])]
    if abs(start.wall_ns / 1e9 - first.at) > OLD_S or abs(now - last.at) > OLD_S or (
            first.at >= last.at or min(gains) < 0):
        return None
    return Resends(Share(gains[1], gains[0]), gains[2])


def list_counts(start: Snapshot, end: Snapshot) -> list[int]:
    """
    Return the numbers of lustre.lnet.NODE_COUNTS between start and end, as far as they are known:
    all of them, without the last two, or none.
    """
    if start.boot_id != end.boot_id:
        return []
    try:
        stats = compare_stats(start, end.files)
        if stats is None:
            return []
        counts = [stats.sent, stats.received, stats.dropped, stats.sent_bytes,
                  stats.received_bytes]
        resends = compare_answers(start, end.files, end.wall_ns / 1e9)
    except ValueError:                          # said by node_events.py
        return []
    return counts if resends is None else [*counts, resends.share.number,
                                           resends.response_timeouts]
