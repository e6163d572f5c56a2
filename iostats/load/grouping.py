"""
The rows of a load at one level, before they are ranked.

    Load, Filter, Level  ->  LoadRow ...       None in between: time for others
"""

from __future__ import annotations

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import one_line
from iostats.base.job_facts import ENDED
from iostats.load.amounts import METRICS, share
from iostats.load.levels import CLIENTS, EVERYTHING, IDS, ONE_TARGET, nodes_of
from iostats.load.sums import add_amounts, plain_number
from iostats.lustre.exports import is_server_itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
    from typing import Any, Optional

    from iostats.base.job_facts import Facts
    from iostats.load.levels import Level
    from iostats.load.ranking import LoadQuery
    from iostats.load.sums import ClientLoad, Load, TargetLoad

    Found = tuple[str, Optional[Facts], bool]         # what job_of gives
    Rows = Iterator[Optional["LoadRow"]]

_MOST_NAMES = 20                # NIDs and jobs of a node that are named in a row


def job_of(known: Any, id: str) -> Found:
    """(what the job of an id is called, its Facts or None, whether it is one)."""
    job = known.job_of(id)
    if not job:
        return id, None, False
    facts = known.facts(id)
    return (facts.job or job if facts is not None else job), facts, True


class Filter:
    """
    Which file systems and ids are asked for; `user`: of this one alone, "" for all.

    Attributes:
        known: who is asked about ids and clients, see sums.py.
        is_whole: nothing but file systems is left out.
    """

    def __init__(self, load: Load | None, query: LoadQuery, known: Any, user: str) -> None:
        self._load: Any = load                      # None where no rows are asked for
        self._query, self.known, self._user = query, known, user
        self._found: dict[str, Found | None] = {}   # an id is on many targets
        self.is_whole = not user and not query.job

    def file_system(self, name: str) -> bool:
        return not self._query.file_system or self._query.file_system == name

    def rows(self, without: Collection[str] = (),
             ) -> Iterator[tuple[str, list[float], str, Facts | None, bool]]:
        """(file system, amounts, job, facts, is it a job) of all that is wanted; `without` some."""
        for fs, ids in self._load.by_id.items():
            if self.file_system(fs) and fs not in without:
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
        job, facts, is_job = job_of(self.known, id)
        if self._user and (facts is None or facts.user != self._user):
            return None
        # A whole array, a raw id, and what users call it are one job's names.
        if self._query.job and self._query.job not in (
                job, id, *((facts.raw_job, facts.array_job, facts.het_job) if facts else ())):
            return None
        return job, facts, is_job

    def parts(self) -> Iterator[tuple[TargetLoad, tuple[list[float], list[float]], int]]:
        """(part, (amounts, amounts of no jobs), number of jobs) of the wanted file systems."""
        no_jobs, job_of = self._load.no_jobs, self._load.jobs
        for part, sums in zip(self._load.parts, self._load.sums):
            if not self.file_system(part.file_system):
                continue
            if self.is_whole:
                yield part, sums, (
                    len({job_of.get(id, id) for id in part.ids if id not in no_jobs}) if job_of
                    else len(part.ids) - len(no_jobs.intersection(part.ids)))
                continue
            mine: list[float] = [0, 0, 0, 0]
            no_job: list[float] = [0, 0, 0, 0]
            jobs = set()
            for place, id in enumerate(part.ids):
                found = self.id(id)
                if found:
                    amounts = [plain_number(column[place]) for column in part.amounts]
                    add_amounts(mine, amounts)
                    if found[2]:
                        jobs.add(found[0])
                    else:
                        add_amounts(no_job, amounts)
            yield part, (mine, no_job), len(jobs)


class LoadRow:
    """One row, while it is added up."""

    __slots__ = ("level", "name", "file_system", "target", "server", "amounts", "no_job", "facts",
                 "is_job", "is_shared", "jobs", "of", "read", "nids", "node", "users", "is_low",
                 "is_estimated")

    def __init__(self, level: Level, name: str | None, file_system: str, target: str = "",
                 server: str = "", facts: Facts | None = None, is_job: bool = True) -> None:
        self.level, self.name, self.file_system = level, name, file_system
        self.target, self.server, self.facts, self.is_job = target, server, facts, is_job
        self.amounts: list[float] = [0, 0, 0, 0]
        self.no_job: list[float] = [0, 0, 0, 0]
        self.is_shared = False
        self.of: list[tuple[str, str]] = []         # its (file system, target)
        self.read = 0                               # how many of these were read
        self.jobs: Any = set()                      # their ids; or how many
        self.users: set[str] = set()                # of these, by node alone
        self.nids: list[str] = []                   # of clients, where it is added up from these
        self.node = ""                              # of a client
        self.is_low = False                         # some I/O of its clients may be missing
        self.is_estimated = False                   # rates of its clients are estimates

    @property
    def is_known(self) -> bool:
        """True where any of its targets has been read; always where it is of ids."""
        return self.read > 0 or not self.of

    def _may_include(self, targets: Mapping[str, Collection[str]]) -> bool:
        """Whether the row may include I/O of one of `targets`: {file system: [target]}."""
        return bool(
            any(target in targets.get(fs, ()) for fs, target in self.of) if self.of else
            any(targets.values()) if self.level.over == EVERYTHING else
            targets.get(self.file_system))

    def mark(self) -> tuple[list[float], list[str], bool]:
        """What it is ranked by: its amounts, its names, and whether it is a job's."""
        return (self.amounts, [self.name or "", self.file_system, self.target, self.server],
                self.is_job)

    def words(self) -> Iterator[str]:
        """All words that a filter may match."""
        facts = self.facts
        yield from filter(None, (self.name, self.file_system, self.target, self.server, self.node,
                                 *self.nids))
        if not self.is_job:
            yield "(no job)"
        if facts is not None:
            yield from (facts.user, facts.account, facts.name)
        if self.level.client_group is not None:
            yield from (*self.jobs, *self.users)

    def row(self, suffix: str, load: Load) -> dict[str, Any]:
        """The row in JSON, as docs/wire.md has it; `suffix`: "_per_s" of rates."""
        level, member = self.level, self.level.row_member
        row: dict[str, Any] = {member: self.name if self.name is None else one_line(self.name)}
        if level.over != EVERYTHING:
            row["file_system"] = self.file_system
        if level.over == ONE_TARGET:
            if member != "target":
                row["target"] = self.target
            row["server"] = self.server
        row.update({metric + suffix: amount if self.is_known else None
                    for metric, amount in zip(METRICS, self.amounts)})
        row["lower_bound"] = self.is_low if self.nids else self._may_include(load.missing)
        if suffix:
            row["rates_estimated"] = (self.is_estimated if self.nids
                                      else self._may_include(load.estimated))
        if self.of:
            ages = [load.readings[one].age_s for one in self.of if one in load.readings]
            row["age_s"] = None if None in ages else max(ages, default=None)
        if level.rows_of == IDS:
            row["is_job"] = self.is_job
        if level.is_of_jobs:
            facts = self.facts
            row.update(user=facts.user if facts else "", account=facts.account if facts else "",
                       name=one_line(facts.name) if facts else "",
                       nodes=node_count(facts) if facts else None)
        elif level.rows_of == CLIENTS:
            row["node"] = one_line(self.node)
            return row
        elif self.nids:                             # which jobs are there is not known for sure
            row["jobs"] = len(self.jobs) or None
        elif not self.is_known:
            row["jobs"] = None
        else:
            row["jobs"] = self.jobs if isinstance(self.jobs, int) else len(self.jobs)
        if level.split:
            row["is_shared"] = self.is_shared
            row["nids"] = [one_line(nid) for nid in sorted(self.nids)[:_MOST_NAMES]]
            row["job_names"] = [one_line(job) for job in sorted(self.jobs)[:_MOST_NAMES]]
            row["users"] = [one_line(user) for user in sorted(self.users)[:_MOST_NAMES]]
        if level.rows_of != IDS:
            if level.over != ONE_TARGET:
                row["targets"] = len(self.of)
            row["no_job_share"] = share(self.no_job[2], self.amounts[2])
        return row


def node_count(facts: Facts) -> int | None:
    """How many nodes a job has, or None."""
    return facts.node_count or len(nodes_of(facts.nodes)) or None


def by_client(level: Level, load: Load, wanted: Filter) -> dict[str, ClientLoad]:
    """
    {file system: ClientLoad} of those whose rows are added up from clients.

    A client's counters are of all who use it, so a user's part of them is not known.
    """
    if level.client_group is None or not wanted.is_whole:
        return {}
    return {fs: clients for fs, clients in load.clients.items() if wanted.file_system(fs)}


def rows_of(level: Level, load: Load, wanted: Filter) -> Rows:
    """[LoadRow or None] of a level, in steps."""
    clients = by_client(level, load, wanted)
    if clients:
        yield from _of_clients(level, load, clients, wanted)
    if level.rows_of == CLIENTS:
        return
    if level.rows_of != IDS:
        yield from _of_targets(level, load, wanted)
    elif level.over == ONE_TARGET:
        yield from _of_ids_on_targets(level, wanted)
    else:
        yield from _of_ids(level, wanted, clients)


def _of_clients(level: Level, load: Load, clients: dict[str, ClientLoad], wanted: Filter) -> Rows:
    node_of, group_of = wanted.known.node_of, level.client_group
    on_it: dict[str, dict[str, str]] = {}
    if level.split is not None:
        on_it = yield from _jobs_of_nodes(load, wanted)
    for fs, found in clients.items():
        groups: dict[str, LoadRow] = {}
        for number, (nid, amounts, is_low) in enumerate(zip(found.nids, found.amounts,
                                                            found.is_low)):
            if number % AT_ONCE == 0:
                yield None
            if is_server_itself(nid):
                continue
            node = node_of(nid)
            name = group_of(nid, node)
            row = groups.get(name)
            if row is None:
                row = groups[name] = LoadRow(level, name, fs)
                row.is_low, row.node = bool(found.missing), node
                row.is_estimated = bool(found.estimated)
                jobs = on_it.get(name, {})
                row.jobs, row.users = set(jobs), {*jobs.values()} - {""}
            row.nids.append(nid)
            row.is_low |= is_low
            add_amounts(row.amounts, amounts)
        yield from groups.values()


def _jobs_of_nodes(load: Load,
                   wanted: Filter) -> Generator[None, None, dict[str, dict[str, str]]]:
    """{node: {job: its user}} of those that are there as the batch system says; in steps."""
    found: dict[str, dict[str, str]] = {}
    ids = dict.fromkeys(id for ids in load.by_id.values() for id in ids)
    for number, id in enumerate(ids):
        if number % AT_ONCE == 0:
            yield None
        _, facts, _ = job_of(wanted.known, id)
        if facts is not None and facts.state != ENDED:
            for node in nodes_of(facts.nodes):
                found.setdefault(node, {})[facts.job] = facts.user
    for number, (job, user, nodes) in enumerate(list(wanted.known.running())):
        if number % AT_ONCE == 0:
            yield None
        for node in nodes:
            found.setdefault(node, {})[job] = user
    return found


def _of_ids(level: Level, wanted: Filter, without: Collection[str]) -> Rows:
    groups: dict[Any, LoadRow] = {}
    group_of, split = level.group, level.split
    split_names: dict[Any, list[str | None]] = {}       # group -> [name]
    are_jobs, is_over_all = level.is_of_jobs, level.over == EVERYTHING
    for number, (fs, amounts, job, facts, is_job) in enumerate(wanted.rows(without)):
        if number % AT_ONCE == 0:
            yield None
        name = group_of(job, facts)
        names: Sequence[str | None] = (name,)
        if split is not None:
            if name not in split_names:
                split_names[name] = split(name)
            names = split_names[name]
        place = "" if is_over_all else fs
        for name in names:
            group = groups.get((name, is_job, place))
            if group is None:
                group = groups[name, is_job, place] = LoadRow(
                    level, name, place, facts=facts if are_jobs else None, is_job=is_job)
            add_amounts(group.amounts, amounts, len(names))
            if not are_jobs:
                group.is_shared |= len(names) > 1
                if is_job:
                    group.jobs.add(job)
                if split is not None and facts is not None and facts.user:
                    group.users.add(facts.user)
    yield from groups.values()


def _of_ids_on_targets(level: Level, wanted: Filter) -> Rows:
    """One target after the other, so that not all of them are in memory: they may be millions."""
    group_of, are_jobs = level.group, level.is_of_jobs
    for part, _, _ in wanted.parts():
        groups: dict[Any, LoadRow] = {}
        rows = zip(part.ids, *(column if isinstance(column, list) else column.tolist()
                               for column in part.amounts))
        for number, (id, *amounts) in enumerate(rows):
            if number % AT_ONCE == 0:
                yield None
            found = wanted.id(id)
            if not found:
                continue
            job, facts, is_job = found
            name = group_of(job, facts)
            group = groups.get((name, is_job))
            if group is None:
                group = groups[name, is_job] = LoadRow(
                    level, name, part.file_system, part.target, part.server,
                    facts if are_jobs else None, is_job)
                group.of, group.read = [(part.file_system, part.target)], 1
            add_amounts(group.amounts, amounts)
            if is_job and not are_jobs:
                group.jobs.add(job)
        yield from groups.values()


def _of_targets(level: Level, load: Load, wanted: Filter) -> Rows:
    groups: dict[Any, LoadRow] = {}
    is_one_target = level.over == ONE_TARGET

    def group_of(fs: str, target: str, server: str) -> LoadRow:
        name = level.group(fs, target, server)
        group = groups.get((name, fs))
        if group is None:
            group = groups[name, fs] = LoadRow(level, name, fs,
                                               server=server if is_one_target else "")
        group.of.append((fs, target))
        return group
    read = set()
    for part, (amounts, no_job), jobs in wanted.parts():
        yield None
        read.add((part.file_system, part.target))
        group = group_of(part.file_system, part.target, part.server)
        add_amounts(group.amounts, amounts)
        add_amounts(group.no_job, no_job)
        group.read += 1
        if is_one_target:
            group.jobs = jobs
        else:
            group.jobs.update(part.ids)
    for fs, targets in load.missing.items():    # what was not read has a row, too
        for target in targets if wanted.file_system(fs) else ():
            if (fs, target) in load.readings and (fs, target) not in read:
                group_of(fs, target, load.readings[fs, target].server)
    if not is_one_target:
        for group in groups.values():
            yield None
            group.jobs = {job for job, _, is_job in filter(None, map(wanted.id, group.jobs))
                          if is_job}
    yield from groups.values()
