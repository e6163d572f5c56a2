"""
Who loads the file systems most: the answer to a question about a load, as ranked rows.

    Load, LoadQuery  ->  answer(): the first rows, the sums of the file systems, what is missing
"""

from __future__ import annotations

import re
from collections import namedtuple

from iostats.base.cooperative import AT_ONCE, finished
from iostats.load import levels
from iostats.load.amounts import LATENCY, METRICS, SORT, columns_of, share
from iostats.load.grouping import Filter, by_client, rows_of
from iostats.load.levels import RATES, TARGETS
from iostats.load.sums import add_amounts
from iostats.lustre.exports import is_server_itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any

    from iostats.load.grouping import LoadRow
    from iostats.load.sums import ClientLoad, Load

MOST_ROWS = 10_000

LoadQuery = namedtuple("LoadQuery", "by file_system user job text sort count after show",
                       defaults=("job", "", "", "", "", "write", 1000, None, ()))
LoadQuery.__doc__ = """
A question about a load.

Attributes:
    by: the name of a level.
    file_system, user, job: only these; "" for all.
    text: only rows that have it in one of their words, in whatever case; "" for all.
    sort: one of SORT, or of `show`; the largest first.
    count: up to this number of rows.
    show: what of SHOWN the rows have as well.
    after: the `next` of the answer before: go on behind its last row; None: from the first one.
"""


def answer(load: Load, query: LoadQuery, known: Any, only: str | None = None) -> dict[str, Any]:
    """
    The rows that are asked for, as docs/wire.md has them: what `load` answers.

    `only`: the one user whose jobs may be shown; None for all.  The sums of the file systems are
    everybody's in any case.
    """
    return finished(answer_in_steps(load, query, known, only))


def answer_in_steps(load: Load, query: LoadQuery, known: Any,
                    only: str | None = None) -> Generator[None, None, dict[str, Any]]:
    """The same in steps."""
    wanted = only if only is not None else query.user
    def rank(amounts: Sequence[float]) -> float:
        return _value(query.sort, amounts, load) or 0
    best, words = _Best(rank, query.count, query.after), query.text.casefold()
    level, chosen = levels.named(query.by), Filter(load, query, known, wanted)
    clients = by_client(level, load, chosen)
    missing = {**load.missing, **{fs: found.missing for fs, found in clients.items()}}
    estimated = {**load.estimated, **{fs: found.estimated for fs, found in clients.items()}}
    needs_amounts = level.rows_of != TARGETS
    for number, group in enumerate(rows_of(level, load, chosen)):
        if group is None or number % AT_ONCE == 0:
            yield
        if group is not None and (any(group.amounts) or not needs_amounts) and (
                not words or any(words in word.casefold() for word in group.words())):
            best.add(group)
    ranked = yield from best.ranked()
    suffix = "_per_s" if load.kind == RATES else ""
    file_systems = yield from _file_systems(load, query, suffix, clients)
    ages = [reading.age_s for (fs, target), reading in dict(load.readings).items()
            if query.file_system in ("", fs) and reading.age_s is not None]
    return {
        "at": load.at, "span_s": load.span_s, "kind": load.kind, "began": load.began,
        "newest_reading_s": min(ages, default=None), "oldest_reading_s": max(ages, default=None),
        "is_old": load.is_old,
        **{name: {fs: dict(places) for fs, places in sorted(concerned.items())
                  if places and query.file_system in ("", fs)}
           for name, concerned in (("missing", missing), ("estimated", estimated))},
        "by": query.by, "sort": query.sort, "file_system": query.file_system, "user": wanted or "",
        "text": query.text, "only": only or "",
        "file_systems": file_systems,
        "show": list(query.show),
        "rows": [{**group.row(suffix, load), **_shown(
            query, group.amounts if group.is_known else None, load, suffix)} for group in ranked],
        "left_off": best.seen - len(ranked),
        "next": ranked[-1].mark() if ranked and best.seen > len(ranked) else None}


class _Best:
    """
    Those of many groups that rank first: no more of them are kept than are needed.

    Attributes:
        seen: how many there were; behind `after` (a mark, or None) alone.
    """

    def __init__(self, first: Callable[[Sequence[float]], float], count: int,
                 after: Any = None) -> None:
        self._first, self._count, self.seen = first, count, 0
        self._after = None if after is None else _place(after, first)
        # With its amounts, the one that they are sorted by first.
        self._groups: list[tuple[tuple[float, ...], LoadRow]] = []
        self._floor: tuple[float, ...] = ()
        self._most = 2 * count + AT_ONCE

    def add(self, group: LoadRow) -> None:
        if self._after is not None and _place(group.mark(), self._first) <= self._after:
            return
        self.seen += 1
        amounts = (self._first(group.amounts), *group.amounts)
        if amounts >= self._floor:
            self._groups.append((amounts, group))
            if len(self._groups) > self._most:
                self._thin_out()

    def _thin_out(self) -> None:
        """Without those that have less than enough others have."""
        self._floor = sorted(amounts for amounts, _ in self._groups)[-self._count]
        self._groups = [one for one in self._groups if one[0] >= self._floor]
        self._most = 2 * len(self._groups) + AT_ONCE

    def ranked(self) -> Generator[None, None, list[LoadRow]]:
        """The first ones in their order."""
        if len(self._groups) > self._count:
            self._thin_out()
        keys = []
        for number, (_, group) in enumerate(self._groups):
            if number % AT_ONCE == 0:
                yield
            keys.append((_place(group.mark(), self._first), number))
        return [self._groups[number][1] for _, number in sorted(keys)[:self._count]]


def _place(mark: tuple[Sequence[float], Sequence[str], bool],
           first: Callable[[Sequence[float]], float]) -> tuple[Any, ...]:
    """Where a group stands among others; of its mark."""
    amounts, names, is_job = mark
    return (-first(amounts), *(-amount for amount in amounts), *map(natural, names), is_job)


def natural(text: str) -> list[tuple[int, int, str]]:
    """
    A key that sorts numbers in a text by their value.

    >>> sorted(["nid10", "nid9", "cp.0"], key=natural)
    ['cp.0', 'nid9', 'nid10']
    """
    return [(0, int(piece), "") if piece.isascii() and piece.isdigit() else (1, 0, piece)
            for piece in re.split(r"(\d{1,18})", text) if piece]


def _value(name: str, amounts: Sequence[float], load: Load) -> float | None:
    """Of the amounts of a row what `name` is, of SORT or SHOWN; None for no time at all."""
    if name in SORT:
        return amounts[SORT[name]]
    values = [amounts[4 + place] for column in columns_of((name,))
              for place, one in enumerate(load.more) if one == column and 4 + place < len(amounts)]
    if name != LATENCY:
        return values[0] if values else None
    return values[0] / values[1] / 1000 if len(values) == 2 and values[1] else None


def _shown(query: LoadQuery, amounts: Sequence[float] | None, load: Load,
           suffix: str) -> dict[str, float | None]:
    """{name: number} of what is asked for besides METRICS."""
    return {"latency_ms" if name == LATENCY else name + suffix:
            None if amounts is None else _value(name, amounts, load) for name in query.show}


def _file_systems(load: Load, query: LoadQuery, suffix: str, clients: Mapping[str, ClientLoad],
                  ) -> Generator[None, None, list[dict[str, Any]]]:
    """[sums of a file system]: of all ids or clients, which every user may see; in steps."""
    found: dict[str, tuple[Any, Any, list[str]]] = {}
    for number, (part, (amounts, no_job)) in enumerate(zip(load.parts, load.sums)):
        if number % AT_ONCE == 0:
            yield
        one = found.setdefault(part.file_system, ([0, 0, 0, 0], [0, 0, 0, 0], []))
        add_amounts(one[0], amounts)
        add_amounts(one[1], no_job)
        one[2].append(part.target)
    for fs in load.missing:
        found.setdefault(fs, (None, None, []))
    rows = {fs: {"file_system": fs, **_named(amounts, suffix),
                 **_shown(query, amounts, load, suffix), "targets": len(targets),
                 "missing": dict(load.missing.get(fs, {})),
                 "lower_bound": bool(load.missing.get(fs)),
                 "rates_estimated": bool(load.estimated.get(fs)),
                 "no_job": {**_named(no_job, suffix), **_shown(query, no_job, load, suffix)},
                 "no_job_share": share(no_job[2], amounts[2]) if amounts else None}
            for fs, (amounts, no_job, targets) in found.items()}
    for fs, these in clients.items():
        nodes, servers, is_low = yield from _sums_of_clients(these)
        row = rows.setdefault(fs, {"file_system": fs, "targets": 0})
        row.update({**_named(nodes, suffix), **_shown(query, None, load, suffix),
                    "missing": dict(these.missing), "lower_bound": is_low,
                    "rates_estimated": bool(these.estimated),
                    "no_job": {**_named(None, suffix), **_shown(query, None, load, suffix)},
                    "no_job_share": None,
                    "storage_servers": {**_named(servers, suffix),
                                        **_shown(query, None, load, suffix)}})
    return [row for fs, row in sorted(rows.items()) if not query.file_system
            or query.file_system == fs]


def _sums_of_clients(
        clients: ClientLoad) -> Generator[None, None, tuple[list[float], list[float], bool]]:
    """(amounts of all nodes, those of the storage servers themselves, may some be missing)."""
    nodes: list[float] = [0, 0, 0, 0]
    servers: list[float] = [0, 0, 0, 0]
    for number, (nid, amounts) in enumerate(zip(clients.nids, clients.amounts)):
        if number % AT_ONCE == 0:
            yield
        add_amounts(servers if is_server_itself(nid) else nodes, amounts)
    return nodes, servers, bool(clients.missing) or any(clients.is_low)


def _named(amounts: Sequence[float] | None, suffix: str) -> dict[str, Any]:
    return {metric + suffix: amounts[place] if amounts else None
            for place, metric in enumerate(METRICS)}
