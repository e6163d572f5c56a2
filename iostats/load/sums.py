"""
Loads: what came from each id, added up from what came from it at each target.

    [TargetLoad]  what the ids of one target did   ->   Load: added up by id

A Load is of rates (what came in between two sweeps, by the seconds between them) or of totals.  Of
an id in job_stats the batch system's Facts are asked: `known` is an object with

    find_job(id)   the job that it stands for; "" for what is none: "cp.0", "kworker", ""
    facts(id)    the job_facts.Facts of that job, or None

and, where a Load has clients,

    find_node(nid) the compute node of a client
    running()    [(job, its user, its nodes)] of what runs now, as far as the batch system was asked

Numbers are whole or a fraction a second; what is not known is None.  Besides the four METRICS a
Load may have more columns, `more`, of MORE: amounts.py has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.cooperative import ITEMS_PER_STEP, run_to_end
from iostats.base.named_tuple import NamedTuple
from iostats.load.levels import RATES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any, Protocol

    from iostats.base.ids import Nid
    from iostats.load.answer import Known

    class HasItem(Protocol):
        """A number of numpy's type."""

        def item(self) -> float: ...

    Column = Any                # list[float], or an array of numpy, which is not on every node
    Missing = dict[str, dict[str, str]]
    ByID = dict[str, dict[str, list[float]]]          # file system -> id -> amounts


class TargetLoad(NamedTuple):
    """The amounts of each id at one target."""

    file_system: str
    target: str
    server: str             # the storage server that has the target now; "" if unknown
    span_s: float | None    # seconds that it took; None for totals
    ids: Sequence[str]      # ids in job_stats; each stands there once
    # columns (lists or numpy arrays) as long as `ids`: METRICS, then `more` of the Load. requests:
    # all that came, reads and writes too; metadata: those to an MDT that are neither.
    amounts: Sequence[Column]


class Load(NamedTuple):
    """The load at one moment."""

    kind: str                   # RATES, TOTALS or GAINS
    at: float | None            # seconds since 1970 of the end of it; None if unknown
    span_s: float | None        # seconds that the rates are over; None for others
    parts: Sequence[TargetLoad]
    by_id: ByID                 # {file system: {id: [amounts]}}, all targets added up
    no_jobs: frozenset[str]     # frozenset of the ids that are no jobs
    # [(amounts of all ids, amounts of those that are no jobs)], one of each part
    sums: Sequence[tuple[list[float], list[float]]]
    # {file system: {target: why its numbers may be too low, or are not there}}
    missing: dict[str, dict[str, str]]
    # seconds since 1970, when the oldest of what totals hold began; None: not known
    began: float | None
    # {(file system, target): LastReading} of all targets, missing ones too; {} where they are not
    # kept
    readings: Mapping[tuple[str, str], LastReading] = {}
    is_old: bool = False        # rates of a moment that is more than two sweeps ago
    more: Sequence[str] = ()    # names of the columns besides METRICS, of MORE
    # {file system: ClientLoad} of those whose storage servers count by client
    clients: dict[str, ClientLoad] = {}
    jobs: dict[str, str] = {}   # {id: job} of the ids that have more in them than the job
    # {file system: {target: why its rates are estimates}}
    estimated: dict[str, dict[str, str]] = {}


class ClientLoad(NamedTuple):
    """The load of each client on one file system."""

    nids: Sequence[Nid]             # each stands there once; 0@lo is the storage servers themselves
    amounts: Sequence[Sequence[float]]  # [[METRICS]], as long as `nids`
    is_low: Sequence[bool]          # [True where some of it may be missing], likewise
    missing: dict[str, str]         # {storage server: why there is no data for it}
    estimated: dict[str, str] = {}  # {storage server: why rates there are estimates}


class LastReading(NamedTuple):
    """The last time that a target was read to its end."""

    server: str             # the storage server that has it; "" if unknown
    age_s: float | None     # seconds ago; None for never


def sum_load(parts: list[TargetLoad], known: Known, kind: str = RATES, at: float | None = None,
            span_s: float | None = None, missing: Missing | None = None,
            began: float | None = None,
            more: tuple[str, ...] = ()) -> Load:
    """The Load of [TargetLoad]; `missing`: {file system: {target: why}}."""
    return run_to_end(load_in_steps(parts, known, kind, at, span_s, missing or {},
                                    began))._replace(more=more)


def load_in_steps(readings: list[TargetLoad], known: Known, kind: str, at: float | None,
                  span_s: float | None, missing: Missing, began: float | None,
                  added: Callable[[list[TargetLoad]], Generator[None, None, ByID]] | None = None,
                  ) -> Generator[None, None, Load]:
    """Generator: the load, in steps; `added`: a faster function in place of `add_up_by_id`."""
    parts = readings
    if kind == RATES:
        parts = []
        for part in readings:
            assert part.span_s is not None              # those of rates have one
            parts.append(part._replace(amounts=[_divide(column, part.span_s)
                                                for column in part.amounts]))
            yield
    by_id = yield from (added or add_up_by_id)(parts)
    no_jobs: set[str] = set()
    jobs: dict[str, str] = {}
    for ids in by_id.values():
        for number, id in enumerate(ids):
            if number % ITEMS_PER_STEP == 0:
                yield
            job = known.find_job(id)
            if not job:
                no_jobs.add(id)
            elif job != id:
                jobs[id] = job
    sums = []
    for part in parts:
        sums.append(_add_up_target(part, frozenset(no_jobs)))
        yield
    return Load(kind, at, span_s, parts, by_id, frozenset(no_jobs), sums, dict(missing), began,
                jobs=jobs)


def _divide(column: Column, span_s: float) -> Column:
    return [amount / span_s for amount in column] if isinstance(column, list) else column / span_s


def _add_up_target(part: TargetLoad, no_jobs: frozenset[str]) -> tuple[list[float], list[float]]:
    places = [place for place, id in enumerate(part.ids) if id in no_jobs] if no_jobs else ()
    return ([convert_numpy_number(sum(column) if isinstance(column, list) else column.sum())
             for column in part.amounts],
            [sum(convert_numpy_number(column[place]) for place in places)
             for column in part.amounts])


def convert_numpy_number(value: float | HasItem) -> float:
    """Convert a number of numpy's type to a plain one, for JSON."""
    number: float = value.item() if hasattr(value, "item") else value
    return number


def add_up_by_id(parts: list[TargetLoad]) -> Generator[None, None, ByID]:
    """{file system: {id: [amounts]}} of [TargetLoad], in steps; with lists alone, no numpy."""
    by_file_system: ByID = {}
    for part in parts:
        yield
        sums_by_id = by_file_system.setdefault(part.file_system, {})
        for id, *amounts in zip(part.ids, *part.amounts):
            add_amounts(sums_by_id.setdefault(id, [0, 0, 0, 0]), amounts)
    return by_file_system


def add_amounts(row: list[float], amounts: Sequence[float], share: int = 1) -> None:
    """Add to `row`, which becomes as long as `amounts`; `share`: each amount is divided by that."""
    row += [0] * (len(amounts) - len(row))
    for place, amount in enumerate(amounts):
        row[place] += amount / share if share > 1 else amount
