"""
The site server's answers about the storage servers: `load` (who loads the file systems now) and
`query` (jobHarvest's levels of detail); docs/harvest.md has their forms.

`harvest` is a harvest_intake.Harvest, or has the same members: targets, sweep, facts(id),
job_of(id), age_s(target), is_overdue(target), clients.  A sweep is added up with numpy at the
first question about it, and kept until the next sweep.  The age of readings is that at the time of
the question.

An answer about everything may take seconds, so it is made in steps, between which the server takes
sweeps.  Rates are those of the last sweep when the answer was begun, on all targets.  Totals of a
target are those of its last reading when the answer gets to it: to copy all of them first would
block the server for as long, and take twice the memory.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Annotated, Any, Literal, Optional, Union

import msgspec
import numpy
import numpy.typing

from iostats.base.errors import WireError, one_line
from iostats.base.job_facts import Facts
from iostats.base.units import duration_in_words
from iostats.load import levels, ranking
from iostats.load.amounts import METRICS, MORE, SHOWN, SORT, columns_of, is_mdt, share
from iostats.load.grouping import Filter
from iostats.load.levels import BOTH, CLIENTS, IDS, ONE_TARGET, RATES, TOTALS
from iostats.load.ranking import MOST_ROWS, LoadQuery
from iostats.load.sums import LastReading, Load, TargetLoad, load_in_steps
from iostats.lustre.metrics import is_operation
from iostats.site import client_load
from iostats.site.clients.rates import NOT_MEASURED
from iostats.site.query_details import with_details
from iostats.wire import protocol

_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Mark = tuple[Annotated[list[Union[int, float]], msgspec.Meta(min_length=4, max_length=4)],
              Annotated[list[Annotated[str, msgspec.Meta(max_length=4096)]],
                        msgspec.Meta(min_length=4, max_length=4)], bool]
_Rows = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
_Array = numpy.typing.NDArray[Any]
_Answer = Generator[None, None, dict[str, Any]]
_Key = tuple[str, str]                          # file system, target
_Running = tuple[str, str, Iterable[str]]       # job, user, nodes
_RATES = tuple(f"{metric}_per_s" for metric in METRICS)
_MOST_ADDED = 2**53            # of a target, in integers: 1000 of them are one of 64 bits
_GONE_S = 86400.0               # a target that was not seen for longer counts as removed


class LoadParams(msgspec.Struct):
    """The params of `load`."""

    by: _Text = "job"
    file_system: _Text = ""
    user: _Text = ""
    job: _Text = ""
    text: _Text = ""
    sort: _Text = "write"
    count: _Rows = 1000
    show: Annotated[list[_Text], msgspec.Meta(max_length=len(SHOWN))] = []

    def __post_init__(self) -> None:
        if self.by not in [level.name for level in levels.OF_TOP]:
            raise ValueError(f"by: expected {', '.join(level.name for level in levels.OF_TOP)}")
        if not set(self.show) <= set(SHOWN):
            raise ValueError(f"show: expected some of {', '.join(SHOWN)}")
        if self.sort not in SORT and self.sort not in self.show:
            raise ValueError(f"sort: expected {', '.join(SORT)}, or one of `show`")


class QueryParams(msgspec.Struct):
    """The params of `query`."""

    level: _Text
    file_system: _Text = ""
    user: _Text = ""
    job: _Text = ""
    sort: Literal["write", "read", "requests", "metadata"] = "write"
    count: _Rows = 1000
    after: Optional[_Mark] = None

    def __post_init__(self) -> None:
        if self.level not in levels.QUERY_WORDS:
            raise ValueError(f"level: expected one of {' '.join(levels.QUERY_WORDS)}")
        level, query = levels.query_of(self.level)
        if level.rows_of == CLIENTS and (self.user or self.job):
            raise ValueError(f"level {query.letter}: expected neither `user` nor `job`: clients "
                             f"are not counted by job")


class LoadAnswers:
    """
    Answers `load` and `query`; remembers the last sweep, added up.

    `running`: [(job, its user, its nodes)] of what the batch system says is running now.
    """

    def __init__(self, running: Callable[[], Iterable[_Running]] = tuple) -> None:
        self._running = running
        self._sweep: Any = None                     # that the others are of
        self._rates: Optional[Load] = None
        self._known: Optional[_KnownIds] = None
        self._first: set[_Key] = set()              # targets whose first reading it has

    def load(self, harvest: Any, ask: LoadParams, user: Optional[str]) -> _Answer:
        """
        The answer to LoadParams, in steps; `user`: the only one whose jobs may be shown, None for
        all.
        """
        _check_user(ask.user, user)
        show = tuple(dict.fromkeys(ask.show))
        load, known = yield from self._of_sweep(harvest, columns_of(show))
        wanted = LoadQuery(ask.by, ask.file_system, ask.user, ask.job, ask.text, ask.sort,
                           ask.count, None, show)
        return (yield from ranking.answer_in_steps(load, wanted, known, user))

    def query(self, harvest: Any, ask: QueryParams, user: Optional[str]) -> _Answer:
        """The answer to QueryParams, in steps; `user` as in `load`."""
        _check_user(ask.user, user)
        level, query = levels.query_of(ask.level)
        if level.rows_of == CLIENTS and user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers for level {query.letter}, got user "
                f"{user}: what a client did is of all who used it"))
        rates, known = yield from self._of_sweep(harvest)
        if level.rows_of == CLIENTS and not rates.clients:
            raise WireError(protocol.REFUSED, "no storage server tells of its clients: [harvest] "
                            "exports of site.cfg there")
        wanted = LoadQuery(level.name, ask.file_system, ask.user, ask.job, "", ask.sort, ask.count,
                           ask.after)
        is_part = (query.kind == TOTALS and level.rows_of == IDS
                   and bool(ask.job or ask.user or user is not None))
        whys: dict[tuple[str, str], list[str]] = {}
        if query.kind == RATES:
            load = rates
        elif level.rows_of == CLIENTS:
            load, whys = yield from client_load.of_today(harvest.clients, rates, ask.file_system)
        else:
            load = yield from _totals(harvest, rates, known, wanted, user, is_part)
        answer = yield from ranking.answer_in_steps(load, wanted, known, user)
        if is_part:
            answer["file_systems"] = []             # to add up everything for a few rows takes long
        if query.has_details:
            yield from with_details(answer["rows"], harvest, known, level.over == ONE_TARGET)
        if level.rows_of == CLIENTS:
            yield from client_load.complete(answer["rows"], rates, whys)
        elif query.kind == BOTH and user is None and not ask.user and not ask.job:
            every = wanted._replace(after=None, count=MOST_ROWS)
            of_now = yield from ranking.answer_in_steps(rates, every, known)
            now = {(row[level.row_member], row["file_system"]): row for row in of_now["rows"]}
            for row in answer["rows"]:
                found = now.get((row[level.row_member], row["file_system"]), {})
                row.update({name: found.get(name) for name in _RATES},
                           rates_lower_bound=found.get("lower_bound", True),
                           rates_estimated=found.get("rates_estimated", False))
        if query.has_targets and not is_part:
            answer["targets"] = _shares(load, ask.file_system)
        return {"level": query.letter, "word": query.word, **answer}

    def _of_sweep(self, harvest: Any,
                  more: tuple[str, ...] = ()) -> Generator[None, None, tuple[Load, "_KnownIds"]]:
        """(Load of the rates of the last sweep, _KnownIds), in steps; with these columns, too."""
        sweep = harvest.sweep
        if sweep is None:
            raise WireError(protocol.REFUSED, (
                "no sweep is complete yet; try again in a few seconds" if harvest.targets else
                "no sweep of the storage servers is complete yet: has `iostats harvest` been "
                "started there?"))
        known, rates = self._known, self._rates
        if self._sweep is sweep and rates is not None:      # others look at other columns
            more = tuple(name for name in MORE if name in more or name in rates.more)
        if self._sweep is not sweep or known is None or rates is None or not (
                set(more) <= set(rates.more)):
            known, parts, self._first = _KnownIds(harvest, self._running), [], set()
            estimated: dict[str, dict[str, str]] = {}
            # In one step: they are of one sweep, and a target does not change what it has returned.
            for target, gains in [(target, target.gains()) for target in sweep.targets]:
                if gains is None or not gains.span_s:
                    self._first.add((target.file_system, target.target))
                else:
                    parts.append(_part_of_gains(target, gains, more))
                    if not gains.is_measured:
                        estimated.setdefault(target.file_system, {})[target.target] = NOT_MEASURED
                yield
            rates = yield from load_in_steps(
                parts, known, RATES, sweep.slot,
                max((part.span_s for part in parts), default=float(sweep.every_s)), {}, None,
                added=added_by_id)
            clients = yield from client_load.of_rates(harvest.clients, sweep)
            rates = rates._replace(more=more, clients=clients, estimated=estimated)
            self._sweep, self._known, self._rates = sweep, known, rates
        readings = _readings(harvest)
        here = {(target.file_system, target.target) for target in sweep.targets}
        return rates._replace(
            readings=readings, missing=_missing(readings, lambda key: key not in here, self._first),
            is_old=bool(sweep.targets) and all(map(harvest.is_overdue, sweep.targets))), known


class _KnownIds:
    """What a harvest knows about ids, asked once per sweep."""

    def __init__(self, harvest: Any, running: Callable[[], Iterable[_Running]]) -> None:
        self._harvest, self.running = harvest, running
        self._facts: dict[str, Optional[Facts]] = {}
        self.job_of, self.node_of = harvest.job_of, harvest.clients.names.node_of

    def facts(self, id: str) -> Optional[Facts]:
        if id not in self._facts:
            self._facts[id] = self._harvest.facts(id)
        return self._facts[id]


def _check_user(asked: str, own: Optional[str]) -> None:
    if own is not None and asked not in ("", own):
        raise WireError(protocol.REFUSED,
                        f"expected your own jobs, of user {own}, got a question for "
                                      f"those of {asked[:80]}, which root and [site] readers may "
                                      f"ask")


def _readings(harvest: Any) -> dict[_Key, LastReading]:
    """{(file system, target): LastReading} of those that were read within a day."""
    ages = ((key, target.node or "", harvest.age_s(target))
            for key, target in harvest.targets.items())
    return {key: LastReading(server, age_s) for key, server, age_s in ages
            if age_s is None or age_s <= _GONE_S}


def _missing(readings: dict[_Key, LastReading], is_missing: Callable[[_Key], bool],
             first: Collection[_Key] = ()) -> dict[str, dict[str, str]]:
    """{file system: {target: why}} of targets that `is_missing`, or seen for the `first` time."""
    missing: dict[str, dict[str, str]] = {}
    for (fs, name), reading in readings.items():
        if is_missing((fs, name)):
            late = "" if reading.age_s is None else f" for {duration_in_words(reading.age_s)}"
            missing.setdefault(fs, {})[name] = one_line(
                f"no sweep of {reading.server or 'its storage server'}{late or ' yet'}")
        elif (fs, name) in first:
            missing.setdefault(fs, {})[name] = "seen in one sweep only"
    return missing


def _part_of_gains(target: Any, gains: Any, more: tuple[str, ...] = ()) -> TargetLoad:
    return TargetLoad(target.file_system, target.target, target.node or "", gains.span_s, gains.ids,
                [gains.write_bytes, gains.read_bytes,
                 gains.reads + gains.writes + gains.operations,
                 gains.operations if is_mdt(target.target)
                 else numpy.zeros(len(gains.ids), numpy.int64),
                 *(gains.more[name].astype(numpy.float64) if name in gains.more
                   else numpy.zeros(len(gains.ids)) for name in more)])


def added_by_id(parts: list[TargetLoad],
                ) -> Generator[None, None, dict[str, dict[str, list[float]]]]:
    """As sums.added_by_id, of numpy arrays: 5 times as fast."""
    found = {}
    for fs in dict.fromkeys(part.file_system for part in parts):
        mine = [part for part in parts if part.file_system == fs]
        row_of: dict[str, int] = {}
        rows = []
        for part in mine:
            rows.append([row_of.setdefault(id, len(row_of)) for id in part.ids])
            yield
        kind = numpy.result_type(*(column for part in mine for column in part.amounts[:4]))
        sums = numpy.zeros((len(mine[0].amounts), len(row_of)), kind)
        for places, part in zip(rows, mine):
            for row, column in zip(sums, part.amounts):
                row[places] += column                # an id stands in a part once
            yield
        found[fs] = dict(zip(row_of, map(list, zip(*(row.tolist() for row in sums)))))
    return found


# -- totals ------------------------------------------------------------------------------------

def _totals(harvest: Any, rates: Load, known: _KnownIds, ask: LoadQuery, user: Optional[str],
            is_part: bool) -> Generator[None, None, Load]:
    """
    The Load of all that was counted for the known ids, or for those of `ask` if `is_part`.  In
    steps.
    """
    began, parts = None, []
    wanted = Filter(None, ask, known, ask.user if user is None else user)
    for (fs, _), target in sorted(harvest.targets.items()):
        if ask.file_system and fs != ask.file_system:
            continue
        yield
        known_ids = target.ids() if not is_part else [id for id in target.ids() if wanted.id(id)]
        parts.append(_part_of_totals(target, target.totals(known_ids)))
        if target.swept_since is not None:
            began = min(target.swept_since, began or target.swept_since)
    load = yield from load_in_steps(parts, known, TOTALS, rates.at, None, {}, began,
                                      added=added_by_id)
    return load._replace(readings=rates.readings, missing=_missing(
        rates.readings, lambda key: harvest.is_overdue(harvest.targets[key])))


def _part_of_totals(target: Any, totals: Any) -> TargetLoad:
    counters, zero = totals.counters, numpy.zeros(len(totals.ids), numpy.int64)

    # All of them signed: numpy makes a float of the sum of a signed and an unsigned one.  Floats
    # where the sum of all targets would be too large for an integer: 2.17 leaves sums at 2**63 - 1.
    def signed(column: _Array) -> _Array:
        is_large = column.max(initial=0) > _MOST_ADDED
        return column.astype(numpy.float64 if is_large else numpy.int64)

    def samples(name: str) -> _Array:
        return signed(counters[name].samples) if name in counters else zero

    def sums(name: str) -> _Array:
        column = counters.get(name)
        return zero if column is None or column.sums is None else signed(column.sums)
    operations = sum((samples(name) for name in counters if is_operation(name)), zero)
    transfers = sum((samples(f"{way}_bytes" if f"{way}_bytes" in counters else way)
                     for way in ("read", "write")), zero)
    return TargetLoad(target.file_system, target.target, target.node or "", None, totals.ids,
                [sums("write_bytes"), sums("read_bytes"), transfers + operations,
                 operations if is_mdt(target.target) else zero])


def _shares(load: Load, file_system: str) -> list[dict[str, Any]]:
    """[row]: which part of the requests of each target was (no job)."""
    return [{"file_system": part.file_system, "target": part.target, "server": part.server,
             "requests": amounts[2], "no_job_requests": no_job[2],
             "no_job_share": share(no_job[2], amounts[2]),
             "lower_bound": part.target in load.missing.get(part.file_system, ()),
             "age_s": load.readings[part.file_system, part.target].age_s
             if (part.file_system, part.target) in load.readings else None}
            for part, (amounts, no_job) in zip(load.parts, load.sums)
            if file_system in ("", part.file_system)]
