"""
Who loads the file systems: what each id gained at each target, as rows by job, user, node, ...

    [Part]  what the ids of one target did   ->  Load: added up by id  ->  answer(): ranked rows

A Load is of rates (what came in between two sweeps, by the seconds between them) or of totals.  Of
an id in job_stats the batch system's Facts are asked: `known` is an object with

    job_of(id)   the job that it stands for; "" for what is none: "cp.0", "kworker", ""
    facts(id)    the jobfacts.Facts of that job, or None

Numbers are whole or a fraction a second; what is not known is None.

Besides the four METRICS a Load may have more columns, `more`: single operations, and the time that
the servers took (us, of `timed` requests).  Who asks says which are shown, and sorted by.
"""

from __future__ import annotations

import re
from collections import namedtuple

from iostats.base.cooperative import AT_ONCE, finished
from iostats.base.errors import one_line
from iostats.base.node_list import expanded
from iostats.lustre.metrics import SINGLE_OPERATIONS, is_counted_again, is_operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Any, Optional

    from iostats.base.job_facts import Facts

    ByID = dict[str, dict[str, list[float]]]          # file system -> id -> amounts
    Found = tuple[str, Optional[Facts], bool]         # what job_of gives
    Groups = Iterator[Optional["_Group"]]             # None: between two steps

METRICS = ("write_bytes", "read_bytes", "requests", "metadata")      # xltop's order
BY = ("job", "user", "node", "server", "target", "fs")
SORT = {"write": 0, "read": 1, "requests": 2, "metadata": 3}
LATENCY = "latency"                                 # milliseconds that a request took, on average
SHOWN = (*SINGLE_OPERATIONS, LATENCY)
TIMES = ("us", "timed")
MORE = (*SINGLE_OPERATIONS, *TIMES)                 # all more that a Load may have
MOST_ROWS = 10_000
RATES, TOTALS, GAINS = "rates", "totals", "gains"   # GAINS: it is not known how long it took

# Besides those of BY, for `query`: a job on each target, and a job on all file systems together.
JOB_TARGET, JOB_SUMMED = "job-target", "job-summed"

Part = namedtuple("Part", "file_system target server span_s ids amounts")
Part.__doc__ = """
What the ids of one target did.

Attributes:
    server: the storage server that has the target now; "" where it is not known.
    span_s: seconds that it took; None for totals.
    ids: ids in job_stats; each stands there once.
    amounts: columns (lists or numpy arrays) as long as `ids`: METRICS, then `more` of the Load.
        requests: all that came, reads and writes too; metadata: those to an MDT that are neither.
"""

Load = namedtuple("Load", "kind at span_s parts by_id no_jobs sums missing began readings is_old "
                          "more", defaults=((), False, ()))
Load.__doc__ = """
All that is known of one moment; see `load`.

Attributes:
    kind: RATES, TOTALS or GAINS.
    at: seconds since 1970 of the end of it; None where it is not known.
    span_s: seconds that the rates are over; None for others.
    by_id: {file system: {id: [amounts]}}, all targets added up.
    no_jobs: frozenset of the ids that are no jobs.
    sums: [(amounts of all ids, amounts of those that are no jobs)], one of each part.
    missing: {file system: {target: why its numbers may be too low, or are not there}}.
    began: seconds since 1970, when the oldest of what totals hold began; None: not known.
    readings: {(file system, target): Reading} of all targets, missing ones too; () where nobody
        keeps them.
    is_old: rates of a moment that is more than two sweeps ago.
    more: names of the columns besides METRICS, of MORE.
"""

Reading = namedtuple("Reading", "server age_s")
Reading.__doc__ = """
The last time that a target was read to its end.

Attributes:
    server: the storage server that has it; "" where it is not known.
    age_s: seconds ago; None for never.
"""

Ask = namedtuple("Ask", "by file_system user job text sort count after show",
                 defaults=("job", "", "", "", "", "write", 1000, None, ()))
Ask.__doc__ = """
What is wanted.

Attributes:
    by: one of BY, JOB_TARGET, JOB_SUMMED.
    file_system, user, job: only these; "" for all.
    text: only rows that have it in one of their words, great letters or small; "" for all.
    sort: one of SORT, or of `show`; the largest first.
    count: up to so many rows.
    show: what of SHOWN the rows have as well.
    after: the `next` of the answer before: go on behind its last row; None: from the first one.
"""


def amounts_of(counters: Mapping[str, tuple[int, int | None]],
               target: str) -> tuple[int, int, int, int]:
    """
    (write_bytes, read_bytes, requests, metadata) of one entry: {counter: (samples, sum or None)}.

    >>> amounts_of({"read_bytes": (23, 94208), "read": (23, 4100), "open": (37, 999),
    ...             "rename": (3, 9), "samedir_rename": (3, 9)}, "MDT0000")
    (0, 94208, 63, 40)
    """
    operations = sum(samples for name, (samples, _) in counters.items() if is_operation(name))
    transfers = sum(counters.get(f"{way}_bytes", counters.get(way, (0, 0)))[0]
                    for way in ("read", "write"))
    written, read = ((counters.get(f"{way}_bytes") or (0, 0))[1] or 0 for way in ("write", "read"))
    return written, read, transfers + operations, operations if is_mdt(target) else 0


def more_amounts_of(counters: Mapping[str, tuple[int, int | None]]) -> list[int]:
    """MORE of the same; a sum that is not of bytes is of microseconds."""
    times = [(samples, total) for name, (samples, total) in counters.items()
             if total is not None and not name.endswith("_bytes") and not is_counted_again(name)]
    return [*(counters.get(name, (0, None))[0] for name in SINGLE_OPERATIONS),
            sum(total for _, total in times), sum(samples for samples, _ in times)]


def columns_of(show: Sequence[str]) -> tuple[str, ...]:
    """
    Which columns of MORE are needed to show these.

    >>> columns_of(("open", "latency"))
    ('open', 'us', 'timed')
    """
    return tuple(one for name in show for one in (TIMES if name == LATENCY else (name,)))


def is_mdt(target: str) -> bool:
    """True for a metadata target: MDT0000."""
    return target.startswith("MDT")


# -- adding up ---------------------------------------------------------------------------------

def load(parts: list[Part], known: Any, kind: str = RATES, at: float | None = None,
         span_s: float | None = None, missing: Any = (), began: float | None = None,
         more: tuple[str, ...] = ()) -> Load:
    """The Load of [Part]; `missing`: {file system: {target: why}}."""
    return finished(loading(parts, known, kind, at, span_s, missing, began))._replace(more=more)


def loading(given: list[Part], known: Any, kind: str, at: float | None, span_s: float | None,
            missing: Any, began: float | None,
            added: Callable[[list[Part]], Generator[None, None, ByID]] | None = None,
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
    for ids in by_id.values():
        for number, id in enumerate(ids):
            if number % AT_ONCE == 0:
                yield
            if not known.job_of(id):
                no_jobs.add(id)
    sums = []
    for part in parts:
        sums.append(_sums(part, frozenset(no_jobs)))
        yield
    return Load(kind, at, span_s, parts, by_id, frozenset(no_jobs), sums, dict(missing), began)


def _divided(column: Any, span_s: float) -> Any:
    return [amount / span_s for amount in column] if isinstance(column, list) else column / span_s


def _sums(part: Part, no_jobs: frozenset[str]) -> tuple[list[float], list[float]]:
    places = [place for place, id in enumerate(part.ids) if id in no_jobs] if no_jobs else ()
    return ([_number(sum(column) if isinstance(column, list) else column.sum())
             for column in part.amounts],
            [sum(_number(column[place]) for place in places) for column in part.amounts])


def _number(value: Any) -> Any:
    """A plain number in place of one of numpy's, which JSON does not know."""
    return value.item() if hasattr(value, "item") else value


def added_by_id(parts: list[Part]) -> Generator[None, None, ByID]:
    """
    {file system: {id: [amounts]}} of [Part], in steps; lists alone, so nothing has to be installed.
    """
    found: ByID = {}
    for part in parts:
        yield
        mine = found.setdefault(part.file_system, {})
        for id, *amounts in zip(part.ids, *part.amounts):
            _add(mine.setdefault(id, [0, 0, 0, 0]), amounts)
    return found


def _add(row: list[float], amounts: Sequence[float], share: int = 1) -> None:
    row += [0] * (len(amounts) - len(row))
    for place, amount in enumerate(amounts):
        row[place] += amount / share if share > 1 else amount


def _value(name: str, amounts: Sequence[float], load: Load) -> float | None:
    """Of the amounts of a row what `name` is, of SORT or SHOWN; None for no time at all."""
    if name in SORT:
        return amounts[SORT[name]]
    values = [amounts[4 + place] for column in columns_of((name,))
              for place, one in enumerate(load.more) if one == column and 4 + place < len(amounts)]
    if name != LATENCY:
        return values[0] if values else None
    return values[0] / values[1] / 1000 if len(values) == 2 and values[1] else None


def _shown(ask: Ask, amounts: Sequence[float] | None, load: Load,
           suffix: str) -> dict[str, float | None]:
    """{name: number} of what is asked for besides METRICS."""
    return {"latency_ms" if name == LATENCY else name + suffix:
            None if amounts is None else _value(name, amounts, load) for name in ask.show}


# -- rows --------------------------------------------------------------------------------------

def answer(load: Load, ask: Ask, known: Any, only: str | None = None) -> dict[str, Any]:
    """
    The rows that are asked for, as docs/harvest.md describes them: what `load` answers.

    `only`: the one user whose jobs may be shown; None for all.  The sums of the file systems are of
    everybody's work in any case.
    """
    return finished(answering(load, ask, known, only))


def answering(load: Load, ask: Ask, known: Any,
              only: str | None = None) -> Generator[None, None, dict[str, Any]]:
    """The same in steps."""
    wanted = only if only is not None else ask.user
    def rank(amounts: Sequence[float]) -> float:
        return _value(ask.sort, amounts, load) or 0
    best, words = _Best(rank, ask.count, ask.after), ask.text.casefold()
    needs_amounts = ask.by in ("job", "user", "node", JOB_TARGET, JOB_SUMMED)
    for number, group in enumerate(_GROUPED[ask.by](load, Wanted(load, ask, known, wanted), known)):
        if group is None or number % AT_ONCE == 0:
            yield
        if group is not None and (any(group.amounts) or not needs_amounts) and (
                not words or any(words in word.casefold() for word in group.words())):
            best.add(group)
    ranked = yield from best.ranked()
    file_systems = yield from _file_systems(load, ask, "_per_s" if load.kind == RATES else "")
    suffix = "_per_s" if load.kind == RATES else ""
    ages = [reading.age_s for (fs, target), reading in dict(load.readings).items()
            if ask.file_system in ("", fs) and reading.age_s is not None]
    return {
        "at": load.at, "span_s": load.span_s, "kind": load.kind, "began": load.began,
        "newest_reading_s": min(ages, default=None), "oldest_reading_s": max(ages, default=None),
        "is_old": load.is_old,
        "missing": {fs: dict(targets) for fs, targets in sorted(load.missing.items())
                    if targets and ask.file_system in ("", fs)},
        "by": ask.by, "sort": ask.sort, "file_system": ask.file_system, "user": wanted or "",
        "text": ask.text, "only": only or "",
        "file_systems": file_systems,
        "show": list(ask.show),
        "rows": [{**group.row(suffix, load), **_shown(
            ask, group.amounts if group.is_known else None, load, suffix)} for group in ranked],
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
        self._groups: list[tuple[tuple[float, ...], _Group]] = []
        self._floor: tuple[float, ...] = ()
        self._most = 2 * count + AT_ONCE

    def add(self, group: _Group) -> None:
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

    def ranked(self) -> Generator[None, None, list[_Group]]:
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


def job_of(known: Any, id: str) -> Found:
    """(what the job of an id is called, its Facts or None, whether it is one)."""
    job = known.job_of(id)
    if not job:
        return id, None, False
    facts = known.facts(id)
    return (facts.job or job if facts is not None else job), facts, True


class Wanted:
    """Which file systems and ids are asked for; `user`: of this one alone, "" for all."""

    def __init__(self, load: Load | None, ask: Ask, known: Any, user: str) -> None:
        self._load: Any = load                      # None where no rows are asked for
        self._ask, self._known, self._user = ask, known, user
        self._found: dict[str, Found | None] = {}   # an id is on many targets
        self.is_whole = not user and not ask.job

    def file_system(self, name: str) -> bool:
        return not self._ask.file_system or self._ask.file_system == name

    def rows(self) -> Iterator[tuple[str, list[float], str, Facts | None, bool]]:
        """(file system, amounts, job, facts, is it a job) of all that is wanted."""
        for fs, ids in self._load.by_id.items():
            if self.file_system(fs):
                for id, amounts in ids.items():
                    found = self.id(id)
                    if found:
                        yield (fs, amounts, *found)

    def id(self, id: str) -> Found | None:
        """The same without file system and amounts, of one id; None where it is not wanted."""
        try:
            return self._found[id]
        except KeyError:
            found = self._found[id] = self._look_up(id)
            return found

    def _look_up(self, id: str) -> Found | None:
        job, facts, is_job = job_of(self._known, id)
        if self._user and (facts is None or facts.user != self._user):
            return None
        # A whole array, a raw id, and what users call it are one job's names.
        if self._ask.job and self._ask.job not in (
                job, id, *((facts.raw_job, facts.array_job, facts.het_job) if facts else ())):
            return None
        return job, facts, is_job

    def parts(self) -> Iterator[tuple[Part, tuple[list[float], list[float]], int]]:
        """(part, (amounts, amounts of no jobs), number of job ids) of the wanted file systems."""
        for part, sums in zip(self._load.parts, self._load.sums):
            if not self.file_system(part.file_system):
                continue
            if self.is_whole:
                yield part, sums, len(part.ids) - len(self._load.no_jobs.intersection(part.ids)) \
                    if self._load.no_jobs else len(part.ids)
                continue
            mine: list[float] = [0, 0, 0, 0]
            no_job: list[float] = [0, 0, 0, 0]
            jobs = 0
            for place, id in enumerate(part.ids):
                found = self.id(id)
                if found:
                    amounts = [_number(column[place]) for column in part.amounts]
                    _add(mine, amounts)
                    jobs += found[2]
                    if not found[2]:
                        _add(no_job, amounts)
            yield part, (mine, no_job), jobs


class _Group:
    """One row, while it is added up."""

    __slots__ = ("by", "name", "file_system", "target", "server", "amounts", "no_job", "facts",
                 "is_job", "is_shared", "members", "of", "read")

    def __init__(self, by: str, name: str | None, file_system: str, target: str = "",
                 server: str = "", facts: Facts | None = None, is_job: bool = True) -> None:
        self.by, self.name, self.file_system = by, name, file_system
        self.target, self.server, self.facts, self.is_job = target, server, facts, is_job
        self.amounts: list[float] = [0, 0, 0, 0]
        self.no_job: list[float] = [0, 0, 0, 0]
        self.is_shared = False
        self.of: list[tuple[str, str]] = []         # (file system, target) that it is of
        self.read = 0                               # of these have numbers
        self.members: Any = set()                   # jobs; or how many

    @property
    def is_known(self) -> bool:
        """Whether any of what it is of has told its numbers."""
        return self.read > 0 or not self.of

    def mark(self) -> tuple[list[float], list[str], bool]:
        """What tells its place: its amounts, its names, and whether it is a job's."""
        return (self.amounts, [self.name or "", self.file_system, self.target, self.server],
                self.is_job)

    def words(self) -> Iterator[str]:
        """Everything in it that somebody may look for."""
        facts = self.facts
        yield from filter(None, (self.name, self.file_system, self.target, self.server))
        if not self.is_job:
            yield "(no job)"
        if facts is not None:
            yield from (facts.user, facts.account, facts.name)

    def row(self, suffix: str, load: Load) -> dict[str, Any]:
        by = "job" if self.by in (JOB_TARGET, JOB_SUMMED) else self.by
        row: dict[str, Any]
        row = {} if by == "fs" else {by: self.name if self.name is None else one_line(self.name)}
        if self.by != JOB_SUMMED:
            row["file_system"] = self.file_system
        if self.by == JOB_TARGET:
            row.update(target=self.target, server=self.server)
        elif by == "target":
            row["server"] = self.server
        row.update({metric + suffix: amount if self.is_known else None
                    for metric, amount in zip(METRICS, self.amounts)})
        row["lower_bound"] = bool(
            any(target in load.missing.get(fs, ()) for fs, target in self.of) if self.of else
            any(load.missing.values()) if self.by == JOB_SUMMED else
            load.missing.get(self.file_system))
        if self.of:
            ages = [load.readings[one].age_s for one in self.of if one in load.readings]
            row["age_s"] = None if None in ages else max(ages, default=None)
        if by in ("job", "user", "node"):
            row["is_job"] = self.is_job
        if by == "job":
            facts = self.facts
            row.update(user=facts.user if facts else "", account=facts.account if facts else "",
                       name=one_line(facts.name) if facts else "",
                       nodes=node_count(facts) if facts else None)
        elif not self.is_known:
            row["jobs"] = None
        else:
            row["jobs"] = self.members if isinstance(self.members, int) else len(self.members)
        if by == "node":
            row["is_shared"] = self.is_shared
        if by in ("server", "fs"):
            row["targets"] = len(self.of)
        if by in ("server", "target", "fs"):
            row["no_job_share"] = share(self.no_job[2], self.amounts[2])
        return row


def share(part: float, whole: float) -> float | None:
    """`part` of `whole`, 0 to 1; None where there is nothing to have a part of."""
    return part / whole if whole else None


def node_count(facts: Facts) -> int | None:
    """How many nodes a job has, or None."""
    return facts.node_count or len(_nodes(facts.nodes)) or None


def _nodes(text: str, most: int = 100_000) -> list[str]:
    try:
        return expanded(text)[:most]
    except ValueError:
        return []


def _by_job(load: Load, wanted: Wanted, known: Any) -> Groups:
    groups: dict[Any, _Group] = {}
    for number, (fs, amounts, job, facts, is_job) in enumerate(wanted.rows()):
        if number % AT_ONCE == 0:
            yield None
        group = groups.get((job, is_job, fs))
        if group is None:
            group = groups[job, is_job, fs] = _Group("job", job, fs, facts=facts, is_job=is_job)
        _add(group.amounts, amounts)
    yield from groups.values()


def _by_job_summed(load: Load, wanted: Wanted, known: Any) -> Groups:
    groups: dict[Any, _Group] = {}
    for number, (_, amounts, job, facts, is_job) in enumerate(wanted.rows()):
        if number % AT_ONCE == 0:
            yield None
        group = groups.get((job, is_job))
        if group is None:
            group = groups[job, is_job] = _Group(JOB_SUMMED, job, "", facts=facts, is_job=is_job)
        _add(group.amounts, amounts)
    yield from groups.values()


def _by_job_target(load: Load, wanted: Wanted, known: Any) -> Groups:
    """One target after the other, so that not all of them are in memory: they may be millions."""
    for part, _, _ in wanted.parts():
        groups: dict[Any, _Group] = {}
        rows = zip(part.ids, *(column if isinstance(column, list) else column.tolist()
                               for column in part.amounts))
        for number, (id, *amounts) in enumerate(rows):
            if number % AT_ONCE == 0:
                yield None
            found = wanted.id(id)
            if not found:
                continue
            key = found[::2]
            if key not in groups:
                groups[key] = _Group(JOB_TARGET, found[0], part.file_system, part.target,
                                     part.server, *found[1:])
                groups[key].of, groups[key].read = [(part.file_system, part.target)], 1
            _add(groups[key].amounts, amounts)
        yield from groups.values()


def _by_user(load: Load, wanted: Wanted, known: Any) -> Groups:
    groups: dict[Any, _Group] = {}
    for number, (fs, amounts, job, facts, is_job) in enumerate(wanted.rows()):
        if number % AT_ONCE == 0:
            yield None
        user = facts.user or None if facts else None
        group = groups.get((user, is_job, fs))
        if group is None:
            group = groups[user, is_job, fs] = _Group("user", user, fs, is_job=is_job)
        _add(group.amounts, amounts)
        if is_job:
            group.members.add(job)
    yield from groups.values()


def _by_node(load: Load, wanted: Wanted, known: Any) -> Groups:
    """A server knows of a job's ids, and not which of its nodes it was: each gets an equal part."""
    groups: dict[Any, _Group] = {}
    lists: dict[str, list[Any]] = {}
    for number, (fs, amounts, job, facts, is_job) in enumerate(wanted.rows()):
        if number % AT_ONCE == 0:
            yield None
        text = facts.nodes if facts else ""
        nodes = lists.get(text)
        if nodes is None:
            nodes = lists[text] = _nodes(text) or [None]
        for node in nodes:
            group = groups.get((node, is_job, fs))
            if group is None:
                group = groups[node, is_job, fs] = _Group("node", node, fs, is_job=is_job)
            _add(group.amounts, amounts, len(nodes))
            group.is_shared |= len(nodes) > 1
            if is_job:
                group.members.add(job)
    yield from groups.values()


def _by_place(by: str, name_of: Callable[[str, str, str], str],
              ) -> Callable[[Load, Wanted, Any], Groups]:
    def grouped(load: Load, wanted: Wanted, known: Any) -> Groups:
        groups: dict[Any, _Group] = {}

        def group_of(fs: str, target: str, server: str) -> _Group:
            name = name_of(fs, target, server)
            group = groups.get((name, fs))
            if group is None:
                group = groups[name, fs] = _Group(by, name, fs,
                                                  server=server if by == "target" else "")
            group.of.append((fs, target))
            return group
        read = set()
        for part, (amounts, no_job), jobs in wanted.parts():
            yield None
            read.add((part.file_system, part.target))
            group = group_of(part.file_system, part.target, part.server)
            _add(group.amounts, amounts)
            _add(group.no_job, no_job)
            group.read += 1
            if by == "target":
                group.members = jobs                # ids of one target are all different
            else:
                group.members.update(part.ids)
        for fs, targets in load.missing.items():    # who has told nothing has a row
            for target in targets if wanted.file_system(fs) else ():
                if (fs, target) in load.readings and (fs, target) not in read:
                    group_of(fs, target, load.readings[fs, target].server)
        if by != "target":
            for group in groups.values():
                yield None
                group.members = {job for job, _, is_job in filter(None, map(
                    wanted.id, group.members)) if is_job}
        yield from groups.values()
    return grouped


_GROUPED = {"job": _by_job, "user": _by_user, "node": _by_node,
            "server": _by_place("server", lambda fs, target, server: server),
            "target": _by_place("target", lambda fs, target, server: target),
            "fs": _by_place("fs", lambda fs, target, server: fs),
            JOB_TARGET: _by_job_target, JOB_SUMMED: _by_job_summed}


def _file_systems(load: Load, ask: Ask,
                  suffix: str) -> Generator[None, None, list[dict[str, Any]]]:
    """[sums of a file system]: of all ids, whoever asks; in steps."""
    found: dict[str, tuple[Any, Any, list[str]]] = {}
    for number, (part, (amounts, no_job)) in enumerate(zip(load.parts, load.sums)):
        if number % AT_ONCE == 0:
            yield
        one = found.setdefault(part.file_system, ([0, 0, 0, 0], [0, 0, 0, 0], []))
        _add(one[0], amounts)
        _add(one[1], no_job)
        one[2].append(part.target)
    for fs in load.missing:
        found.setdefault(fs, (None, None, []))
    return [{"file_system": fs, **_named(amounts, suffix), **_shown(ask, amounts, load, suffix),
             "targets": len(targets),
             "missing": dict(load.missing.get(fs, {})),
             "lower_bound": bool(load.missing.get(fs)),
             "no_job": {**_named(no_job, suffix), **_shown(ask, no_job, load, suffix)},
             "no_job_share": share(no_job[2], amounts[2]) if amounts else None}
            for fs, (amounts, no_job, targets) in sorted(found.items())
            if not ask.file_system or ask.file_system == fs]


def _named(amounts: Sequence[float] | None, suffix: str) -> dict[str, Any]:
    return {metric + suffix: amounts[place] if amounts else None
            for place, metric in enumerate(METRICS)}
