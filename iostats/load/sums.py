"""
Loads: what came from each id, added up from what came from it at each target.

    [TargetLoad]  what the ids of one target did   ->   Load: added up by id

A Load is of rates (what came in between two sweeps, by the seconds between them) or of totals.  Of
an id in job_stats the batch system's Facts are asked: `known` is an object with

    job_of(id)   the job that it stands for; "" for what is none: "cp.0", "kworker", ""
    facts(id)    the job_facts.Facts of that job, or None

and, where a Load has clients,

    node_of(nid) the compute node of a client
    running()    [(job, its user, its nodes)] of what runs now, as far as the batch system was asked

Numbers are whole or a fraction a second; what is not known is None.  Besides the four METRICS a
Load may have more columns, `more`, of MORE: amounts.py has them.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.cooperative import AT_ONCE, finished
from iostats.load.levels import RATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Any

    ByID = dict[str, dict[str, list[float]]]          # file system -> id -> amounts

TargetLoad = namedtuple("TargetLoad", "file_system target server span_s ids amounts")
TargetLoad.__doc__ = """
What the ids of one target did.

Attributes:
    server: the storage server that has the target now; "" where it is not known.
    span_s: seconds that it took; None for totals.
    ids: ids in job_stats; each stands there once.
    amounts: columns (lists or numpy arrays) as long as `ids`: METRICS, then `more` of the Load.
        requests: all that came, reads and writes too; metadata: those to an MDT that are neither.
"""

Load = namedtuple("Load", "kind at span_s parts by_id no_jobs sums missing began readings is_old "
                          "more clients jobs estimated", defaults=((), False, (), {}, {}, {}))
Load.__doc__ = """
All that is known of one moment.

Attributes:
    kind: RATES, TOTALS or GAINS.
    at: seconds since 1970 of the end of it; None where it is not known.
    span_s: seconds that the rates are over; None for others.
    by_id: {file system: {id: [amounts]}}, all targets added up.
    no_jobs: frozenset of the ids that are no jobs.
    sums: [(amounts of all ids, amounts of those that are no jobs)], one of each part.
    missing: {file system: {target: why its numbers may be too low, or are not there}}.
    began: seconds since 1970, when the oldest of what totals hold began; None: not known.
    readings: {(file system, target): LastReading} of all targets, missing ones too; () where they
        are not kept.
    is_old: rates of a moment that is more than two sweeps ago.
    more: names of the columns besides METRICS, of MORE.
    clients: {file system: ClientLoad} of those whose storage servers count by client.
    jobs: {id: job} of the ids that have more in them than the job.
    estimated: {file system: {target: why its rates are estimates}}.
"""

ClientLoad = namedtuple("ClientLoad", "nids amounts is_low missing estimated", defaults=({},))
ClientLoad.__doc__ = """
What each client did on one file system.

Attributes:
    nids: each stands there once; 0@lo is the storage servers themselves.
    amounts: [[METRICS]], as long as `nids`.
    is_low: [True where some of it may be missing], likewise.
    missing: {storage server: why nothing is known of what was done there}.
    estimated: {storage server: why rates there are estimates}.
"""

LastReading = namedtuple("LastReading", "server age_s")
LastReading.__doc__ = """
The last time that a target was read to its end.

Attributes:
    server: the storage server that has it; "" where it is not known.
    age_s: seconds ago; None for never.
"""


def load_of(parts: list[TargetLoad], known: Any, kind: str = RATES, at: float | None = None,
            span_s: float | None = None, missing: Any = (), began: float | None = None,
            more: tuple[str, ...] = ()) -> Load:
    """The Load of [TargetLoad]; `missing`: {file system: {target: why}}."""
    return finished(load_in_steps(parts, known, kind, at, span_s, missing,
                                  began))._replace(more=more)


def load_in_steps(given: list[TargetLoad], known: Any, kind: str, at: float | None,
                  span_s: float | None, missing: Any, began: float | None,
                  added: Callable[[list[TargetLoad]], Generator[None, None, ByID]] | None = None,
                  ) -> Generator[None, None, Load]:
    """The same in steps; `added`: in place of `added_by_id`, a faster one."""
    parts = given
    if kind == RATES:
        parts = []
        for part in given:
            parts.append(part._replace(amounts=[_divided(column, part.span_s)
                                                for column in part.amounts]))
            yield
    by_id = yield from (added or added_by_id)(parts)
    no_jobs: set[str] = set()
    jobs: dict[str, str] = {}
    for ids in by_id.values():
        for number, id in enumerate(ids):
            if number % AT_ONCE == 0:
                yield
            job = known.job_of(id)
            if not job:
                no_jobs.add(id)
            elif job != id:
                jobs[id] = job
    sums = []
    for part in parts:
        sums.append(_sums(part, frozenset(no_jobs)))
        yield
    return Load(kind, at, span_s, parts, by_id, frozenset(no_jobs), sums, dict(missing), began,
                jobs=jobs)


def _divided(column: Any, span_s: float) -> Any:
    return [amount / span_s for amount in column] if isinstance(column, list) else column / span_s


def _sums(part: TargetLoad, no_jobs: frozenset[str]) -> tuple[list[float], list[float]]:
    places = [place for place, id in enumerate(part.ids) if id in no_jobs] if no_jobs else ()
    return ([plain_number(sum(column) if isinstance(column, list) else column.sum())
             for column in part.amounts],
            [sum(plain_number(column[place]) for place in places) for column in part.amounts])


def plain_number(value: Any) -> Any:
    """A plain number in place of one of numpy's, which JSON does not know."""
    return value.item() if hasattr(value, "item") else value


def added_by_id(parts: list[TargetLoad]) -> Generator[None, None, ByID]:
    """{file system: {id: [amounts]}} of [TargetLoad], in steps; with lists alone, no numpy."""
    found: ByID = {}
    for part in parts:
        yield
        mine = found.setdefault(part.file_system, {})
        for id, *amounts in zip(part.ids, *part.amounts):
            add_amounts(mine.setdefault(id, [0, 0, 0, 0]), amounts)
    return found


def add_amounts(row: list[float], amounts: Sequence[float], share: int = 1) -> None:
    """Add to `row`, which becomes as long as `amounts`; `share`: each amount is divided by that."""
    row += [0] * (len(amounts) - len(row))
    for place, amount in enumerate(amounts):
        row[place] += amount / share if share > 1 else amount
