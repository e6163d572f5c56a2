"""
The ranked rows of a load: the answer to `load`.

    Load, LoadQuery  ->  answer(): the first rows, the sums of the file systems, what is missing
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base.cooperative import ITEMS_PER_STEP, run_to_end
from iostats.base.named_tuple import NamedTuple
from iostats.load import levels
from iostats.load.amounts import LATENCY, METRICS, SORT, compute_share, list_columns
from iostats.load.answer import make_row, make_sums_row
from iostats.load.grouping import Filter, build_rows, by_client
from iostats.load.levels import RATES, TARGETS
from iostats.load.sums import add_amounts
from iostats.lustre.exports import is_server_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from iostats.load.answer import Amounts, Answer, FileSystemSums, Known, Mark
    from iostats.load.grouping import LoadRow
    from iostats.load.sums import ClientLoad, Load

MOST_ROWS = 10_000


class LoadQuery(NamedTuple):
    """A query of the load.

    Attributes:
        by: the name of a level.
        file_system, user, job: only these; "" for all.
        text: only rows that have it in one of their words, in whatever case; "" for all.
        sort: one of SORT, or of `show`; the largest first.
        count: up to this number of rows.
        show: what of SHOWN the rows have as well.
        after: the `next` of the answer before: go on behind its last row; None: from the first one.
    """

    by: str = "job"
    file_system: str = ""
    user: str = ""
    job: str = ""
    text: str = ""
    sort: str = "write"
    count: int = 1000  # type: ignore[assignment]    # nobody needs tuple.count()
    after: Mark | None = None
    show: Sequence[str] = ()


def answer(load: Load, query: LoadQuery, known: Known, only: str | None = None) -> Answer:
    """
    The requested rows in the format of docs/reference/wire.md: the answer to `load`.

    `only`: the one user whose jobs may be shown; None for all.  The sums of the file systems are
    everybody's in any case.
    """
    return run_to_end(answer_in_steps(load, query, known, only))


def answer_in_steps(load: Load, query: LoadQuery, known: Known,
                    only: str | None = None) -> Generator[None, None, Answer]:
    """Compute the answer in steps, as a generator that returns it."""
    user = only if only is not None else query.user
    def rank(amounts: Sequence[float]) -> float:
        return _compute_value(query.sort, amounts, load) or 0
    best, words = _Best(rank, query.count, query.after), query.text.casefold()
    level, chosen = levels.find_level(query.by), Filter(load, query, known, user)
    clients = by_client(level, load, chosen)
    missing = {**load.missing, **{fs: client_load.missing for fs, client_load in clients.items()}}
    estimated = {**load.estimated,
                 **{fs: client_load.estimated for fs, client_load in clients.items()}}
    needs_amounts = level.rows_of != TARGETS and not level.has_idle_rows
    for number, group in enumerate(build_rows(level, load, chosen)):
        if group is None or number % ITEMS_PER_STEP == 0:
            yield
        if group is not None and (any(group.amounts) or not needs_amounts) and (
                not words or any(words in word.casefold() for word in group.words())):
            best.add(group)
    ranked = yield from best.rank_groups()
    suffix = "_per_s" if load.kind == RATES else ""
    file_systems = yield from _sum_file_systems(load, query, suffix, clients)
    ages = [reading.age_s for (fs, target), reading in load.readings.items()
            if query.file_system in ("", fs) and reading.age_s is not None]
    return {
        "at": load.at, "span_s": load.span_s, "kind": load.kind, "began": load.began,
        "newest_reading_s": min(ages, default=None), "oldest_reading_s": max(ages, default=None),
        "is_old": load.is_old,
        "missing": _select_reasons(missing, query), "estimated": _select_reasons(estimated, query),
        "by": query.by, "sort": query.sort, "file_system": query.file_system, "user": user or "",
        "text": query.text, "only": only or "",
        "file_systems": file_systems,
        "show": list(query.show),
        "rows": [make_row({**group.row(suffix, load), **_select_shown(
            query, group.amounts if group.is_known else None, load, suffix)}) for group in ranked],
        "left_off": best.seen - len(ranked),
        "next": ranked[-1].mark() if ranked and best.seen > len(ranked) else None}


def _select_reasons(places: Mapping[str, dict[str, str]],
                    query: LoadQuery) -> dict[str, dict[str, str]]:
    """The reasons of `places`, {file system: {place: reason}}, for the requested file systems."""
    return {fs: dict(reasons) for fs, reasons in sorted(places.items())
            if reasons and query.file_system in ("", fs)}


class _Best:
    """The first groups of a ranking; the other ones are dropped.

    Attributes:
        seen: how many there were; behind `after` (a mark, or None) alone.
    """

    def __init__(self, first: Callable[[Sequence[float]], float], count: int,
                 after: Mark | None = None) -> None:
        self._first, self._count, self.seen = first, count, 0
        self._after = None if after is None else _make_sort_key(after, first)
        # With its amounts, the one that they are sorted by first.
        self._groups: list[tuple[tuple[float, ...], LoadRow]] = []
        self._floor: tuple[float, ...] = ()
        self._limit = 2 * count + ITEMS_PER_STEP

    def add(self, group: LoadRow) -> None:
        if self._after is not None and _make_sort_key(group.mark(), self._first) <= self._after:
            return
        self.seen += 1
        amounts = (self._first(group.amounts), *group.amounts)
        if amounts >= self._floor:
            self._groups.append((amounts, group))
            if len(self._groups) > self._limit:
                self._thin_out()

    def _thin_out(self) -> None:
        """Drop the groups with smaller amounts, once enough have more."""
        self._floor = sorted(amounts for amounts, _ in self._groups)[-self._count]
        self._groups = [group for group in self._groups if group[0] >= self._floor]
        self._limit = 2 * len(self._groups) + ITEMS_PER_STEP

    def rank_groups(self) -> Generator[None, None, list[LoadRow]]:
        """The first groups in their order."""
        if len(self._groups) > self._count:
            self._thin_out()
        keys = []
        for number, (_, group) in enumerate(self._groups):
            if number % ITEMS_PER_STEP == 0:
                yield
            keys.append((_make_sort_key(group.mark(), self._first), number))
        return [self._groups[number][1] for _, number in sorted(keys)[:self._count]]


def _make_sort_key(mark: tuple[Sequence[float], Sequence[str], bool],
                   first: Callable[[Sequence[float]], float]) -> tuple[object, ...]:
    """Return the key by which a group is sorted, from its mark."""
    amounts, names, is_job = mark
    return (-first(amounts), *(-amount for amount in amounts), *map(make_natural_sort_key, names),
            is_job)


def make_natural_sort_key(text: str) -> list[tuple[int, int, str]]:
    """
    A key that sorts numbers in a text by their value.

    >>> sorted(["nid10", "nid9", "cp.0"], key=make_natural_sort_key)
    ['cp.0', 'nid9', 'nid10']
    """
    return [(0, int(piece), "") if piece.isascii() and piece.isdigit() else (1, 0, piece)
            for piece in re.split(r"(\d{1,18})", text) if piece]


def _compute_value(name: str, amounts: Sequence[float], load: Load) -> float | None:
    """The number `name` (of SORT or SHOWN) in a row's amounts; None for a time of length 0."""
    if name in SORT:
        return amounts[SORT[name]]
    values = [amounts[4 + place] for column in list_columns((name,))
              for place, metric in enumerate(load.more) if metric == column
              and 4 + place < len(amounts)]
    if name != LATENCY:
        return values[0] if values else None
    return values[0] / values[1] / 1000 if len(values) == 2 and values[1] else None


def _select_shown(query: LoadQuery, amounts: Sequence[float] | None, load: Load,
           suffix: str) -> Amounts:
    """Return {name: number} of the requested numbers besides METRICS."""
    return {"latency_ms" if name == LATENCY else name + suffix:
            _compute_value(name, amounts, load) if amounts else None for name in query.show}


def _sum_file_systems(load: Load, query: LoadQuery, suffix: str, clients: Mapping[str, ClientLoad],
                      ) -> Generator[None, None, list[FileSystemSums]]:
    """[sums of a file system] over all ids or clients, which every user may see; in steps."""
    sums_by_name: dict[str, tuple[list[float], list[float], list[str]]] = {}
    for number, (part, (amounts, no_job)) in enumerate(zip(load.parts, load.sums)):
        if number % ITEMS_PER_STEP == 0:
            yield
        sums = sums_by_name.setdefault(part.file_system, ([0, 0, 0, 0], [0, 0, 0, 0], []))
        add_amounts(sums[0], amounts)
        add_amounts(sums[1], no_job)
        sums[2].append(part.target)
    for fs in load.missing:
        sums_by_name.setdefault(fs, ([], [], []))
    rows = {fs: make_sums_row({"file_system": fs, **_name_amounts(amounts, suffix),
                 **_select_shown(query, amounts, load, suffix), "targets": len(targets),
                 "missing": dict(load.missing.get(fs, {})),
                 "lower_bound": bool(load.missing.get(fs)),
                 "rates_estimated": bool(load.estimated.get(fs)),
                 "no_job": {**_name_amounts(no_job, suffix),
                            **_select_shown(query, no_job, load, suffix)},
                 "no_job_share": compute_share(no_job[2], amounts[2]) if amounts else None})
            for fs, (amounts, no_job, targets) in sums_by_name.items()}
    for fs, load_of_fs in clients.items():
        nodes, servers, is_low = yield from _sum_clients(load_of_fs)
        row = rows.get(fs, {"file_system": fs, "targets": 0})
        rows[fs] = make_sums_row({
                    **row, **_name_amounts(nodes, suffix),
                    **_select_shown(query, None, load, suffix),
                    "missing": dict(load_of_fs.missing), "lower_bound": is_low,
                    "rates_estimated": bool(load_of_fs.estimated),
                    "no_job": {**_name_amounts(None, suffix),
                               **_select_shown(query, None, load, suffix)},
                    "no_job_share": None,
                    "storage_servers": {**_name_amounts(servers, suffix),
                                        **_select_shown(query, None, load, suffix)}})
    return [row for fs, row in sorted(rows.items()) if not query.file_system
            or query.file_system == fs]


def _sum_clients(
        clients: ClientLoad) -> Generator[None, None, tuple[list[float], list[float], bool]]:
    """(amounts of all nodes, those of the storage servers themselves, may some be missing)."""
    nodes: list[float] = [0, 0, 0, 0]
    servers: list[float] = [0, 0, 0, 0]
    for number, (nid, amounts) in enumerate(zip(clients.nids, clients.amounts)):
        if number % ITEMS_PER_STEP == 0:
            yield
        add_amounts(servers if is_server_itself(nid) else nodes, amounts)
    return nodes, servers, bool(clients.missing) or any(clients.is_low)


def _name_amounts(amounts: Sequence[float] | None, suffix: str) -> Amounts:
    return {metric + suffix: amounts[place] if amounts else None
            for place, metric in enumerate(METRICS)}
