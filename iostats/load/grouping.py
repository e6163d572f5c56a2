"""
The rows of a load at one level, before they are ranked.

    Load, Filter, Level  ->  LoadRow ...       None in between: time for others
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import sanitize
from iostats.base.job_facts import ENDED
from iostats.load.amounts import METRICS, compute_share
from iostats.load.answer import make_row
from iostats.load.levels import CLIENTS, EVERYTHING, IDS, ONE_TARGET, expand_nodes
from iostats.load.sums import add_amounts, convert_numpy_number
from iostats.lustre.exports import is_server_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
    from typing import Any, Optional

    from iostats.base.job_facts import Facts
    from iostats.load.answer import Known, Mark, Row
    from iostats.load.levels import Level
    from iostats.load.ranking import LoadQuery
    from iostats.load.sums import ClientLoad, Load, TargetLoad

    Identity = tuple[str, Optional[Facts], bool]         # what resolve_job gives
    Rows = Iterator[Optional["LoadRow"]]

_MOST_NAMES = 20                # NIDs and jobs of a node that are named in a row


def resolve_job(known: Known, id: str) -> Identity:
    """Return (an id's name as a job, its Facts or None, whether it is a job)."""
    job = known.find_job(id)
    if not job:
        return id, None, False
    facts = known.facts(id)
    return (facts.job or job if facts is not None else job), facts, True


class Filter:
    """Selects file systems and ids; `user`: only this user's jobs, "" for all.

    Attributes:
        known: who is asked about ids and clients, see sums.py.
        is_whole: nothing but file systems is left out.
    """

    def __init__(self, load: Load | None, query: LoadQuery, known: Known, user: str) -> None:
        self._load = load                           # None where no rows are asked for
        self._query, self.known, self._user = query, known, user
        self._identities: dict[str, Identity | None] = {}   # an id is on many targets
        self.is_whole = not user and not query.job

    def file_system(self, name: str) -> bool:
        return not self._query.file_system or self._query.file_system == name

    def rows(self, without: Collection[str] = (),
             ) -> Iterator[tuple[str, list[float], str, Facts | None, bool]]:
        """Yield (file system, amounts, job, facts, is it a job) of selected ids, not `without`."""
        for fs, ids in self._load.by_id.items() if self._load else ():
            if self.file_system(fs) and fs not in without:
                for id, amounts in ids.items():
                    identity = self.id(id)
                    if identity:
                        yield (fs, amounts, *identity)

    def id(self, id: str) -> Identity | None:
        """(name, Facts or None, whether it is a job) of one id; None if it is not requested."""
        try:
            return self._identities[id]
        except KeyError:
            identity = self._identities[id] = self._identify(id)
            return identity

    def _identify(self, id: str) -> Identity | None:
        job, facts, is_job = resolve_job(self.known, id)
        if self._user and (facts is None or facts.user != self._user):
            return None
        # A whole array, a raw id, and what users call it are one job's names.
        if self._query.job and self._query.job not in (
                job, id, *((facts.raw_job, facts.array_job, facts.het_job) if facts else ())):
            return None
        return job, facts, is_job

    def parts(self) -> Iterator[tuple[TargetLoad, tuple[list[float], list[float]], int]]:
        """(part, (amounts, amounts of no jobs), number of jobs) of the wanted file systems."""
        if self._load is None:
            return
        no_jobs, resolve_job = self._load.no_jobs, self._load.jobs
        for part, sums in zip(self._load.parts, self._load.sums):
            if not self.file_system(part.file_system):
                continue
            if self.is_whole:
                yield part, sums, (
                    len({resolve_job.get(id, id) for id in part.ids
                         if id not in no_jobs}) if resolve_job
                    else len(part.ids) - len(no_jobs.intersection(part.ids)))
                continue
            node_sums: list[float] = [0, 0, 0, 0]
            no_job: list[float] = [0, 0, 0, 0]
            jobs = set()
            for place, id in enumerate(part.ids):
                identity = self.id(id)
                if identity:
                    amounts = [convert_numpy_number(column[place]) for column in part.amounts]
                    add_amounts(node_sums, amounts)
                    if identity[2]:
                        jobs.add(identity[0])
                    else:
                        add_amounts(no_job, amounts)
            yield part, (node_sums, no_job), len(jobs)


class LoadRow:
    """One row while its amounts are added up."""

    __slots__ = ("level", "name", "file_system", "target", "server", "amounts", "no_job", "facts",
                 "is_job", "is_shared", "jobs", "job_count", "of", "read", "nids",
                 "node", "users", "is_low", "is_estimated")

    def __init__(self, level: Level, name: str | None, file_system: str, target: str = "",
                 server: str = "", facts: Facts | None = None, is_job: bool = True) -> None:
        self.level, self.name, self.file_system = level, name, file_system
        self.target, self.server, self.facts, self.is_job = target, server, facts, is_job
        self.amounts: list[float] = [0, 0, 0, 0]
        self.no_job: list[float] = [0, 0, 0, 0]
        self.is_shared = False
        self.of: list[tuple[str, str]] = []         # its (file system, target)
        self.read = 0                               # how many of these were read
        self.jobs: set[str] = set()                 # their ids
        self.job_count: int | None = None           # how many, where their ids are not known
        self.users: set[str] = set()                # of these, by node alone
        self.nids: list[str] = []                   # of clients, where it is added up from these
        self.node = ""                              # of a client
        self.is_low = False                         # some I/O of its clients may be missing
        self.is_estimated = False                   # rates of its clients are estimates

    @property
    def is_known(self) -> bool:
        """True if any of the row's targets has been read; always for a row of ids."""
        return self.read > 0 or not self.of

    def _may_include(self, targets: Mapping[str, Collection[str]]) -> bool:
        """True if the row may include I/O of any of `targets`: {file system: [target]}."""
        return bool(
            any(target in targets.get(fs, ()) for fs, target in self.of) if self.of else
            any(targets.values()) if self.level.over == EVERYTHING else
            targets.get(self.file_system))

    def mark(self) -> Mark:
        """The row's key for ranking: its amounts, its names, and whether it is a job's."""
        return (self.amounts, [self.name or "", self.file_system, self.target, self.server],
                self.is_job)

    def words(self) -> Iterator[str]:
        """Yield all words of the row that a filter may match."""
        facts = self.facts
        yield from filter(None, (self.name, self.file_system, self.target, self.server, self.node,
                                 *self.nids))
        if not self.is_job:
            yield "(no job)"
        if facts is not None:
            yield from (facts.user, facts.account, facts.name)
        if self.level.client_group is not None:
            yield from (*self.jobs, *self.users)

    def row(self, suffix: str, load: Load) -> Row:
        """The row in JSON, as docs/reference/wire.md has it; `suffix`: "_per_s" of rates."""
        level, member = self.level, self.level.row_member
        members: dict[str, Any] = {
            member: self.name if self.name is None else sanitize(self.name),
            **{metric + suffix: amount if self.is_known else None
               for metric, amount in zip(METRICS, self.amounts)}}
        row = make_row(members)
        if level.over != EVERYTHING:
            row["file_system"] = self.file_system
        if level.over == ONE_TARGET:
            if member != "target":
                row["target"] = self.target
            row["server"] = self.server
        row["lower_bound"] = self.is_low if self.nids else self._may_include(load.missing)
        if suffix:
            row["rates_estimated"] = (self.is_estimated if self.nids
                                      else self._may_include(load.estimated))
        if self.of:
            ages = [load.readings[source].age_s for source in self.of if source in load.readings]
            read = [age_s for age_s in ages if age_s is not None]
            row["age_s"] = None if len(read) < len(ages) else max(read, default=None)
        if level.rows_of == IDS:
            row["is_job"] = self.is_job
        if level.is_of_jobs:
            facts = self.facts
            row["user"] = facts.user if facts else ""
            row["account"] = facts.account if facts else ""
            row["name"] = sanitize(facts.name) if facts else ""
            row["nodes"] = count_nodes(facts) if facts else None
        elif level.rows_of == CLIENTS:
            row["clients"] = len(self.nids)
            row["node"] = sanitize(self.node) if len(self.nids) == 1 else ""
            return row
        elif self.nids:                             # which jobs are there is not known for sure
            row["jobs"] = len(self.jobs) or None
        elif not self.is_known:
            row["jobs"] = None
        else:
            row["jobs"] = len(self.jobs) if self.job_count is None else self.job_count
        if level.split:
            row["is_shared"] = self.is_shared
            row["nids"] = [sanitize(nid) for nid in sorted(self.nids)[:_MOST_NAMES]]
            row["job_names"] = [sanitize(job) for job in sorted(self.jobs)[:_MOST_NAMES]]
            row["users"] = [sanitize(user) for user in sorted(self.users)[:_MOST_NAMES]]
        if level.rows_of != IDS:
            if level.over != ONE_TARGET:
                row["targets"] = len(self.of)
            row["no_job_share"] = compute_share(self.no_job[2], self.amounts[2])
        return row


def count_nodes(facts: Facts) -> int | None:
    """The number of a job's nodes, or None."""
    return facts.node_count or len(expand_nodes(facts.nodes)) or None


def by_client(level: Level, load: Load, chosen: Filter) -> dict[str, ClientLoad]:
    """
    Return {file system: ClientLoad} of file systems whose rows are added up from clients.

    A client's counters are of all who use it, so a user's part of them is not known.
    """
    if level.client_group is None or not chosen.is_whole:
        return {}
    return {fs: clients for fs, clients in load.clients.items() if chosen.file_system(fs)}


def build_rows(level: Level, load: Load, chosen: Filter) -> Rows:
    """Return [LoadRow or None] of a level, in steps."""
    clients = by_client(level, load, chosen)
    if clients:
        yield from _build_client_rows(level, load, clients, chosen)
    if level.rows_of == CLIENTS:
        return
    if level.rows_of != IDS:
        yield from _build_target_rows(level, load, chosen)
    elif level.over == ONE_TARGET:
        yield from _build_rows_by_target(level, chosen)
    else:
        yield from _build_id_rows(level, chosen, clients)


def _build_client_rows(level: Level, load: Load, clients: dict[str, ClientLoad],
                     chosen: Filter) -> Rows:
    find_node, find_group = chosen.known.find_node, level.client_group
    assert find_group is not None                     # by_client() has no clients without
    on_it: dict[str, dict[str, str]] = {}
    if level.split is not None:
        on_it = yield from _find_jobs_by_node(load, chosen)
    for fs, client_load in clients.items():
        groups: dict[str, LoadRow] = {}
        for number, (nid, amounts, is_low) in enumerate(zip(client_load.nids, client_load.amounts,
                                                            client_load.is_low)):
            if number % ITEMS_PER_STEP == 0:
                yield None
            if is_server_itself(nid):
                continue
            node = find_node(nid)
            name = find_group(nid, node)
            row = groups.get(name)
            if row is None:
                row = groups[name] = LoadRow(level, name, fs)
                row.is_low, row.node = bool(client_load.missing), node
                row.is_estimated = bool(client_load.estimated)
                jobs = on_it.get(name, {})
                row.jobs, row.users = set(jobs), {*jobs.values()} - {""}
            row.nids.append(nid)
            row.is_low |= is_low
            add_amounts(row.amounts, amounts)
        yield from groups.values()


def _find_jobs_by_node(load: Load,
                       chosen: Filter) -> Generator[None, None, dict[str, dict[str, str]]]:
    """Return {node: {job: its user}} of running jobs, by the batch system; in steps."""
    users_by_job: dict[str, dict[str, str]] = {}
    ids = dict.fromkeys(id for ids in load.by_id.values() for id in ids)
    for number, id in enumerate(ids):
        if number % ITEMS_PER_STEP == 0:
            yield None
        _, facts, _ = resolve_job(chosen.known, id)
        if facts is not None and facts.state != ENDED:
            for node in expand_nodes(facts.nodes):
                users_by_job.setdefault(node, {})[facts.job] = facts.user
    for number, (job, user, nodes) in enumerate(list(chosen.known.running())):
        if number % ITEMS_PER_STEP == 0:
            yield None
        for node in nodes:
            users_by_job.setdefault(node, {})[job] = user
    return users_by_job


def _get_grouping(level: Level) -> Callable[..., str | None]:
    assert level.group is not None                  # a level of clients has none
    return level.group


def _build_id_rows(level: Level, chosen: Filter, without: Collection[str]) -> Rows:
    groups: dict[tuple[str | None, bool, str], LoadRow] = {}
    find_group, split = _get_grouping(level), level.split
    split_names: dict[str | None, list[str | None]] = {}       # group -> [name]
    are_jobs, is_over_all = level.is_of_jobs, level.over == EVERYTHING
    for number, (fs, amounts, job, facts, is_job) in enumerate(chosen.rows(without)):
        if number % ITEMS_PER_STEP == 0:
            yield None
        name = find_group(job, facts)
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


def _build_rows_by_target(level: Level, chosen: Filter) -> Rows:
    """Rows of ids, target by target: there may be millions, which are not all in memory."""
    find_group, are_jobs = _get_grouping(level), level.is_of_jobs
    for part, _, _ in chosen.parts():
        groups: dict[tuple[str | None, bool], LoadRow] = {}
        rows = zip(part.ids, *(column if isinstance(column, list) else column.tolist()
                               for column in part.amounts))
        for number, (id, *amounts) in enumerate(rows):
            if number % ITEMS_PER_STEP == 0:
                yield None
            identity = chosen.id(id)
            if not identity:
                continue
            job, facts, is_job = identity
            name = find_group(job, facts)
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


def _build_target_rows(level: Level, load: Load, chosen: Filter) -> Rows:
    groups: dict[tuple[str | None, str], LoadRow] = {}
    is_one_target, name_of = level.over == ONE_TARGET, _get_grouping(level)

    def find_group(fs: str, target: str, server: str) -> LoadRow:
        name = name_of(fs, target, server)
        group = groups.get((name, fs))
        if group is None:
            group = groups[name, fs] = LoadRow(level, name, fs,
                                               server=server if is_one_target else "")
        group.of.append((fs, target))
        return group
    read = set()
    for part, (amounts, no_job), jobs in chosen.parts():
        yield None
        read.add((part.file_system, part.target))
        group = find_group(part.file_system, part.target, part.server)
        add_amounts(group.amounts, amounts)
        add_amounts(group.no_job, no_job)
        group.read += 1
        if is_one_target:
            group.job_count = jobs
        else:
            group.jobs.update(part.ids)
    for fs, targets in load.missing.items():    # what was not read has a row, too
        for target in targets if chosen.file_system(fs) else ():
            if (fs, target) in load.readings and (fs, target) not in read:
                find_group(fs, target, load.readings[fs, target].server)
    if not is_one_target:
        for group in groups.values():
            yield None
            group.jobs = {job for job, _, is_job in filter(None, map(chosen.id, group.jobs))
                          if is_job}
    yield from groups.values()
