"""
Lines as answers have them: load/time_lines.py.
"""

from __future__ import annotations

import numpy

from iostats.load.time_lines import METRICS, TIMES
from iostats.site.lines.folding import TargetLines
from iostats.site.lines.known_time import shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.site.lines.binned import BinnedLine
    from iostats.site.lines.known_time import Piece

    Form = dict[str, Any]

_PLAIN = [name for name in METRICS if name != "requests"]
_WHOLE = 1 - 1e-6               # seconds are floats


def form_of(line: BinnedLine, known: Iterable[Piece], targets: int, is_timed: bool) -> Form:
    """
    LINE.

    `known`: [(since, until, how many of the `targets` were read)]; `is_timed`: the release
    times requests.
    """
    share = shares(known, targets, line.began, line.every_s, line.length)
    zeros = numpy.zeros(line.length, numpy.int64)
    columns = {metric: line.columns.get(metric, zeros)
               for metric in dict.fromkeys((*_PLAIN, *(TIMES if is_timed else ()),
                                            *sorted(line.columns)))}
    columns["requests"] = columns["reads"] + columns["writes"] + columns["operations"]
    unknown = share <= 0
    found: Form = {"began": line.began, "every_s": line.every_s, "amounts": {
        metric: [None if is_unknown and not amount else amount for amount, is_unknown in zip(
            column.tolist(), unknown.tolist())] for metric, column in columns.items()}}
    whole = share >= _WHOLE
    found["known"] = None if whole.all() else [
        1.0 if is_whole else round(one, 4) for one, is_whole in zip(share.tolist(), whole.tolist())]
    unplaced = dict(line.unplaced)
    requests = sum(unplaced.get(name, 0) for name in ("reads", "writes", "operations"))
    found["unplaced"] = {**unplaced, **({"requests": requests} if requests else {})}
    return found


def is_timed(*lines: BinnedLine) -> bool:
    """Whether there are times of requests."""
    return any(bool(line.columns.get("timed", numpy.zeros(1)).any() or line.unplaced.get("timed"))
               for line in lines)


def joined(parts: Iterable[TargetLines]) -> TargetLines | None:
    """Parts of one target's time as one; None for none."""
    found: TargetLines | None = None
    for part in parts:
        if found is None:
            found = TargetLines(part.line.every_s, part.targets)
        found.add(part)
    return found
