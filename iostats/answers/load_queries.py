"""
The site server's answers about the storage servers: `load` (the present load of the file systems,
by job) and `query` (jobHarvest's levels of detail); docs/how-to/harvest.md has their forms.

`harvest` is a harvest.intake.Harvest, or has the same members: targets, sweep, facts(id),
find_job(id), age_s(target), is_overdue(target), clients.  A sweep is added up with numpy at the
first query of it, and held until the next sweep.  The age of readings is that at the time of the
query.

An answer about everything may take seconds, so it is computed in steps, between which the server
receives sweeps.  Rates are those of the last sweep when the answer was begun, on all targets.
Totals of a target are those of its last reading when the answer gets to it: to copy all of them
first would block the server for as long, and take twice the memory.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Optional, Union

import msgspec
import numpy

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import WireError, sanitize
from iostats.base.job_facts import Facts
from iostats.base.units import describe_duration
from iostats.harvest import client_load
from iostats.harvest.clients.rates import NOT_MEASURED
from iostats.harvest.intake import Harvest, SiteSweep
from iostats.harvest.resets.counters import CounterTotals, Gains
from iostats.harvest.resets.target import CorrectedTarget
from iostats.load import levels, ranking
from iostats.load.amounts import METRICS, MORE, SHOWN, SORT, compute_share, is_mdt, list_columns
from iostats.load.answer import get_amounts, get_names, make_row
from iostats.load.grouping import Filter, resolve_job
from iostats.load.levels import BOTH, CLIENTS, IDS, ONE_TARGET, RATES, TOTALS
from iostats.load.ranking import MOST_ROWS, LoadQuery
from iostats.load.sums import LastReading, Load, TargetLoad, load_in_steps
from iostats.lustre.metrics import is_operation
from iostats.wire import protocol
from iostats.wire.messages.arrays import Array

if TYPE_CHECKING:
    from iostats.load.answer import Answer, Row

_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Mark = tuple[Annotated[list[Union[int, float]], msgspec.Meta(min_length=4, max_length=4)],
              Annotated[list[Annotated[str, msgspec.Meta(max_length=4096)]],
                        msgspec.Meta(min_length=4, max_length=4)], bool]
_Rows = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
_Answer = Generator[None, None, "Answer"]
_Key = tuple[str, str]                          # file system, target
_Running = tuple[str, str, Iterable[str]]       # job, user, nodes
_RATES = tuple(f"{metric}_per_s" for metric in METRICS)
_MAX_INTEGER_SUM = 2**53        # of a target: 1000 of them fit into 64 bits
_SILENT_FOR_S = 86400.0         # a target without a reading for longer counts as removed


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
        if levels.find_level(self.by).rows_of == CLIENTS and (self.user or self.job):
            raise ValueError(f"by {self.by}: expected neither `user` nor `job`: clients are not "
                             f"counted by job")
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
        level, query = levels.find_query(self.level)
        if level.rows_of == CLIENTS and (self.user or self.job):
            raise ValueError(f"level {query.letter}: expected neither `user` nor `job`: clients "
                             f"are not counted by job")


def _check_reader(level: levels.Level, name: str, user: Optional[str]) -> None:
    """Raise WireError where the rows are clients, and `user` may not read them."""
    if level.rows_of == CLIENTS and user is not None:
        raise WireError(protocol.REFUSED, (
            f"expected root or one of [site] readers for {name}, got user {user}: a client's "
            f"counts include all users"))


def _check_clients(level: levels.Level, rates: Load) -> None:
    """Raise WireError where the rows are clients, and no storage server reports any."""
    if level.rows_of == CLIENTS and not rates.clients:
        raise WireError(protocol.REFUSED, "no storage server reports its clients; check: "
                                          "[harvest] exports in its site.cfg")


class LoadAnswers:
    """
    Answers `load` and `query`; holds the last sweep, added up.

    `running`: [(job, its user, its nodes)] of the jobs that run now, from the batch system.
    """

    def __init__(self, running: Callable[[], Iterable[_Running]] = tuple) -> None:
        self._running = running
        self._sweep: Optional[SiteSweep] = None     # the sweep of the following attributes
        self._rates: Optional[Load] = None
        self._known: Optional[_KnownIds] = None
        self._first: set[_Key] = set()              # targets with their first reading in it

    def load(self, harvest: Harvest, params: LoadParams, user: Optional[str],
             needs_clients: bool = True) -> _Answer:
        """
        The answer to LoadParams, in steps; `user`: only this user's jobs are shown, None for all.
        `needs_clients`: WireError where the rows are of clients, and none are reported.
        """
        _check_user(params.user, user)
        level, show = levels.find_level(params.by), tuple(dict.fromkeys(params.show))
        _check_reader(level, f"by {params.by}", user)
        load, ids = yield from self._compute_sweep_rates(harvest, list_columns(show))
        if needs_clients:
            _check_clients(level, load)
        load_query = LoadQuery(params.by, params.file_system, params.user, params.job, params.text,
                               params.sort,
                               params.count, None, show)
        return (yield from ranking.answer_in_steps(load, load_query, ids, user))

    def query(self, harvest: Harvest, params: QueryParams, user: Optional[str]) -> _Answer:
        """The answer to QueryParams, in steps; `user` as in `load`."""
        _check_user(params.user, user)
        level, query = levels.find_query(params.level)
        _check_reader(level, f"level {query.letter}", user)
        rates, ids = yield from self._compute_sweep_rates(harvest)
        _check_clients(level, rates)
        load_query = LoadQuery(level.name, params.file_system, params.user, params.job, "",
                               params.sort, params.count,
                               params.after)
        is_part = (query.kind == TOTALS and level.rows_of == IDS
                   and bool(params.job or params.user or user is not None))
        reasons: dict[tuple[str, str], list[str]] = {}
        if query.kind == RATES:
            load = rates
        elif level.rows_of == CLIENTS:
            load, reasons = yield from client_load.sum_today(harvest.clients, rates,
                                                             params.file_system)
        else:
            load = yield from _compute_load(harvest, rates, ids, load_query, user, is_part)
        answer = yield from ranking.answer_in_steps(load, load_query, ids, user)
        if is_part:
            answer["file_systems"] = []             # adding up everything for a few rows takes long
        if query.has_details:
            yield from add_details(answer["rows"], harvest, ids, level.over == ONE_TARGET)
        if level.rows_of == CLIENTS:
            yield from client_load.add_client_rates(answer["rows"], rates, reasons)
        elif query.kind == BOTH and user is None and not params.user and not params.job:
            every = load_query._replace(after=None, count=MOST_ROWS)
            of_now = yield from ranking.answer_in_steps(rates, every, ids)
            now = {(get_names(row)[level.row_member], row["file_system"]): row
                   for row in of_now["rows"]}
            for row in answer["rows"]:
                rates_row = now.get((get_names(row)[level.row_member], row["file_system"]),
                                    make_row({}))
                row.update(make_row({
                    **{name: get_amounts(rates_row).get(name) for name in _RATES},
                    "rates_lower_bound": rates_row.get("lower_bound", True),
                    "rates_estimated": rates_row.get("rates_estimated", False)}))
        if query.has_targets and not is_part:
            answer["targets"] = _compute_no_job_shares(load, params.file_system)
        return {"level": query.letter, "word": query.word, **answer}

    def _compute_sweep_rates(self, harvest: Harvest, more: tuple[str, ...] = (),
                        ) -> Generator[None, None, tuple[Load, "_KnownIds"]]:
        """Return (Load of the last sweep's rates with these columns, _KnownIds), in steps."""
        sweep = harvest.sweep
        if sweep is None:
            raise WireError(protocol.REFUSED, (
                "no sweep is complete yet; try again in a few seconds" if harvest.targets else
                "no sweep of the storage servers is complete yet; is `iostats harvest` "
                "running there?"))
        ids, rates = self._known, self._rates
        if self._sweep is sweep and rates is not None:      # others query other columns
            more = tuple(name for name in MORE if name in more or name in rates.more)
        if self._sweep is not sweep or ids is None or rates is None or not (
                set(more) <= set(rates.more)):
            ids, parts, self._first = _KnownIds(harvest, self._running), [], set()
            estimated: dict[str, dict[str, str]] = {}
            # In one step, so that they are of one sweep; a target does not change returned arrays.
            for target, gains in [(target, target.gains()) for target in sweep.targets]:
                if gains is None or not gains.span_s:
                    self._first.add((target.file_system, target.target))
                else:
                    parts.append(_convert_gains(target, gains, more))
                    if not gains.is_measured:
                        estimated.setdefault(target.file_system, {})[target.target] = NOT_MEASURED
                yield
            rates = yield from load_in_steps(
                parts, ids, RATES, sweep.slot,
                max((part.span_s or 0.0 for part in parts), default=float(sweep.every_s)), {}, None,
                added=add_up_by_id)
            clients = yield from client_load.convert_rates(harvest.clients, sweep)
            rates = rates._replace(more=more, clients=clients, estimated=estimated)
            self._sweep, self._known, self._rates = sweep, ids, rates
        readings = _list_recent_readings(harvest)
        here = {(target.file_system, target.target) for target in sweep.targets}
        return rates._replace(
            readings=readings,
            missing=_list_missing_targets(readings, lambda key: key not in here, self._first),
            is_old=bool(sweep.targets) and all(map(harvest.is_overdue, sweep.targets))), ids


class _KnownIds:
    """The harvest's facts of ids, read once per sweep."""

    def __init__(self, harvest: Harvest, running: Callable[[], Iterable[_Running]]) -> None:
        self._harvest, self.running = harvest, running
        self._facts: dict[str, Optional[Facts]] = {}
        self.find_job, self.find_node = harvest.find_job, harvest.clients.names.find_node

    def facts(self, id: str) -> Optional[Facts]:
        if id not in self._facts:
            self._facts[id] = self._harvest.facts(id)
        return self._facts[id]


def _check_user(user: str, own_user: Optional[str]) -> None:
    if own_user is not None and user not in ("", own_user):
        raise WireError(protocol.REFUSED,
                        f"expected your own jobs, of user {own_user}, got a question for "
                        f"those of {user[:80]}, which root and [site] readers may "
                        f"ask")


def _list_recent_readings(harvest: Harvest) -> dict[_Key, LastReading]:
    """Return {(file system, target): LastReading} of the targets that were read within a day."""
    ages = ((key, target.node or "", harvest.compute_age_s(target))
            for key, target in harvest.targets.items())
    return {key: LastReading(server, age_s) for key, server, age_s in ages
            if age_s is None or age_s <= _SILENT_FOR_S}


def _list_missing_targets(readings: Mapping[_Key, LastReading], is_missing: Callable[[_Key], bool],
                          first: Collection[_Key] = ()) -> dict[str, dict[str, str]]:
    """
    Return {file system: {target: reason}} of targets that `is_missing`, or are in `first`: seen
    once only.
    """
    missing: dict[str, dict[str, str]] = {}
    for (fs, name), reading in readings.items():
        if is_missing((fs, name)):
            late = "" if reading.age_s is None else f" for {describe_duration(reading.age_s)}"
            missing.setdefault(fs, {})[name] = sanitize(
                f"no sweep of {reading.server or 'its storage server'}{late or ' yet'}")
        elif (fs, name) in first:
            missing.setdefault(fs, {})[name] = "seen in one sweep only"
    return missing


def _convert_gains(target: CorrectedTarget, gains: Gains, more: tuple[str, ...] = ()) -> TargetLoad:
    return TargetLoad(target.file_system, target.target, target.node or "", gains.span_s, gains.ids,
                      [gains.write_bytes, gains.read_bytes,
                       gains.reads + gains.writes + gains.operations,
                       gains.operations if is_mdt(target.target)
                       else numpy.zeros(len(gains.ids), numpy.int64),
                       *(gains.more[name].astype(numpy.float64) if name in gains.more
                         else numpy.zeros(len(gains.ids)) for name in more)])


def add_up_by_id(parts: list[TargetLoad],
                 ) -> Generator[None, None, dict[str, dict[str, list[float]]]]:
    """Add up amounts by id like sums.add_up_by_id, with numpy arrays: 5 times as fast."""
    sums_by_file_system = {}
    for fs in dict.fromkeys(part.file_system for part in parts):
        parts_here = [part for part in parts if part.file_system == fs]
        row_of: dict[str, int] = {}
        rows = []
        for part in parts_here:
            rows.append([row_of.setdefault(id, len(row_of)) for id in part.ids])
            yield
        kind = numpy.result_type(*(column for part in parts_here for column in part.amounts[:4]))
        sums = numpy.zeros((len(parts_here[0].amounts), len(row_of)), kind)
        for places, part in zip(rows, parts_here):
            for row, column in zip(sums, part.amounts):
                row[places] += column                # an id is in a part once
            yield
        sums_by_file_system[fs] = dict(zip(row_of, map(list, zip(*(row.tolist() for row in sums)))))
    return sums_by_file_system


# -- totals ------------------------------------------------------------------------------------

def _compute_load(harvest: Harvest, rates: Load, ids: _KnownIds, query: LoadQuery,
                  user: Optional[str],
                  is_part: bool) -> Generator[None, None, Load]:
    """
    The Load of all counts of the known ids, or of those that match `query` if `is_part`.  In steps.
    """
    began, parts = None, []
    id_filter = Filter(None, query, ids, query.user if user is None else user)
    for (fs, _), target in sorted(harvest.targets.items()):
        if query.file_system and fs != query.file_system:
            continue
        yield
        known_ids = target.ids() if not is_part else [id for id in target.ids() if id_filter.id(id)]
        parts.append(_convert_totals(target, target.totals(known_ids)))
        if target.swept_since is not None:
            began = min(target.swept_since, began or target.swept_since)
    load = yield from load_in_steps(parts, ids, TOTALS, rates.at, None, {}, began,
                                    added=add_up_by_id)
    return load._replace(readings=rates.readings, missing=_list_missing_targets(
        rates.readings, lambda key: harvest.is_overdue(harvest.targets[key])))


def _convert_totals(target: CorrectedTarget, totals: CounterTotals) -> TargetLoad:
    counters, zero = totals.counters, numpy.zeros(len(totals.ids), numpy.int64)

    # All of them signed: numpy makes a float of the sum of a signed and an unsigned integer.
    # Floats if the sum of all targets would be too large: Lustre 2.17 leaves sums at 2**63 - 1.
    def signed(column: Array) -> Array:
        is_large = column.max(initial=0) > _MAX_INTEGER_SUM
        return column.astype(numpy.float64 if is_large else numpy.int64)

    def samples(name: str) -> Array:
        return signed(counters[name].samples) if name in counters else zero

    def sums(name: str) -> Array:
        column = counters.get(name)
        return zero if column is None or column.sums is None else signed(column.sums)
    operations = sum((samples(name) for name in counters if is_operation(name)), zero)
    transfers = sum((samples(f"{direction}_bytes" if f"{direction}_bytes" in counters
                             else direction)
                     for direction in ("read", "write")), zero)
    return TargetLoad(target.file_system, target.target, target.node or "", None, totals.ids,
                      [sums("write_bytes"), sums("read_bytes"), transfers + operations,
                       operations if is_mdt(target.target) else zero])


def _compute_no_job_shares(load: Load, file_system: str) -> "list[Row]":
    """Return [row]: the share of (no job) in the requests of each target."""
    return [{"file_system": part.file_system, "target": part.target, "server": part.server,
             "requests": amounts[2], "no_job_requests": no_job[2],
             "no_job_share": compute_share(no_job[2], amounts[2]),
             "lower_bound": part.target in load.missing.get(part.file_system, ()),
             "age_s": load.readings[part.file_system, part.target].age_s
             if (part.file_system, part.target) in load.readings else None}
            for part, (amounts, no_job) in zip(load.parts, load.sums)
            if file_system in ("", part.file_system)]


class _Details(NamedTuple):
    """A row, its counters, and {why they may be too low: the targets}."""

    row: "Row"
    counters: dict[str, int]
    targets_of: dict[str, set[str]]


def add_details(rows: "list[Row]", harvest: Harvest, known: _KnownIds,
                  are_of_targets: bool) -> Generator[None, None, None]:
    """
    Add `counters` and `notes` (why they may be too low) to each row; in steps.

    `are_of_targets`: each row is of one target; otherwise of a file system.
    """
    by_key = {(row["file_system"], row.get("target"), row["job"], row["is_job"]):
              _Details(row, {}, {}) for row in rows}
    everywhere: dict[str, dict[str, _Details]] = {}             # file system -> {id: its row's}
    # (file system, id) -> when its first entry was created.
    first: dict[tuple[str, str], float] = {}
    targets = sorted(harvest.targets.items())
    listed = {key[:2] for key in by_key}
    called: dict[str, tuple[str, bool]] = {}        # id -> (job, is_job); an id is on many targets
    for (fs, name), target in targets:
        if (fs, name if are_of_targets else None) not in listed:
            continue
        rows_of: dict[str, _Details] = {}           # by id
        for number, id in enumerate(target.ids()):
            if number % ITEMS_PER_STEP == 0:
                yield
            if id not in called:
                job, _, is_job = resolve_job(known, id)
                called[id] = sanitize(job), is_job
            key = fs, name if are_of_targets else None, *called[id]
            if key in by_key:
                rows_of[id] = by_key[key]
        everywhere.setdefault(fs, {}).update(rows_of)
        totals = target.totals(list(rows_of))
        for counter, column in totals.counters.items():
            for place in column.samples.nonzero()[0].tolist():
                counters = rows_of[totals.ids[place]].counters
                counters[counter] = counters.get(counter, 0) + int(column.samples[place])
        for number, (id, details) in enumerate(rows_of.items()):
            if number % ITEMS_PER_STEP == 0:
                yield
            if not details.row["is_job"]:
                continue
            created = target.find_first_entry_time(id)
            if created is not None:
                first[fs, id] = min(created, first.get((fs, id), created))
            for why in _list_reasons(target, id, known.facts(id), created):
                details.targets_of.setdefault(why, set()).add(name)
    if not are_of_targets:              # a target may have lost all of a job's counters
        earliest = min((facts.started for ids in everywhere.values()
                        for facts in map(known.facts, ids)
                        if facts is not None and facts.started), default=None)
        for (fs, name), target in targets:
            yield
            since = target.swept_since
            if not target.gaps and since is not None and target.cleanup_s is not None and (
                    earliest is None or earliest >= since):
                continue                # most have no gap, and there may be thousands
            known_here = set(target.ids())
            for id, details in everywhere.get(fs, {}).items():
                if details.row["is_job"] and id not in known_here:
                    for why in _list_reasons(target, id, known.facts(id), first.get((fs, id))):
                        details.targets_of.setdefault(why, set()).add(name)
    for row, counters, targets_of in by_key.values():
        row["counters"] = counters
        row["lower_bound"] = row["lower_bound"] or bool(targets_of)
        row["notes"] = [f"{why} ({' '.join(sorted(names))})"
                        for why, names in sorted(targets_of.items())]


def _list_reasons(target: CorrectedTarget, id: str, facts: Optional[Facts],
                  first: Optional[float]) -> list[str]:
    """
    Return [reason] why a job's total on a target may be too low, up to its last reading.

    `first`: when its first entry was created; if the start of the job is unknown, the total is
    since then.
    """
    since, until = target.swept_since, target.swept_until
    if since is None or until is None:              # its first reading is not complete
        return target.marks(id, 0.0, 0.0)
    began = facts.started if facts is not None and facts.started else max(
        since, since if first is None else first)
    ended = facts.ended if facts is not None and facts.ended else until
    return target.marks(id, min(began, ended), ended)
