"""
Records of jobs that another tool has measured: jobHarvest's points in InfluxDB.

    InfluxDB's line protocol  ->  the last total of each field of a job  ->  records  ->  store

    lustre,fs=scratch,job=4711,server=oss iops=41i,read_bytes=23i 1700000000000000000

Each total may be too low: jobHarvest drops the old amount of an entry that restarted within 600 s,
and all old amounts when it is restarted.  It may be too high: the amounts of a target that is
missing in a sweep are added to the total, and count again if they are there in the next one.  A
point shows neither, so both may be true of all.

Source: influxWrite(), findGone() and addToTLong() of jobHarvest, commit of November 2023; line
protocol of InfluxDB 2.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from iostats import schedulers
from iostats.base.errors import IostatsError, UsageError
from iostats.base.ids import JobId, RawJobId
from iostats.base.job_facts import Facts
from iostats.base.units import format_amount
from iostats.jobs.batch_facts import add_facts_to_record
from iostats.jobs.open_jobs import AboutJob
from iostats.report.job_summary import make_summary
from iostats.server.job_server import make_totals
from iostats.store.record_store import Key
from iostats.totals.job_totals import Totals
from iostats.totals.record_additions import ImportedFileSystem, ImportedRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iostats.base.config import Config
    from iostats.store.record_store import Store
    from iostats.totals.record import Record

TOOL = "jobHarvest"
_JOBS_AT_ONCE = 200             # whose facts are queried by one command, and which share a commit
_CLOCKS_DIFFER_S = 600.0        # of the batch system and of storage servers
_MOST = 2**63 - 1
_TEXT = r"(?:\\.|[^\\, =])+"
_LINE = re.compile(rf"lustre((?:,{_TEXT}={_TEXT})+) ({_TEXT}=[^, ]+(?:,{_TEXT}=[^, ]+)*) (\d+)")
_PAIR = re.compile(rf"({_TEXT})=({_TEXT})")
_SERVERS = {"oss": "ost", "mds": "mdt"}
_FIELDS = ("read_bytes", "write_bytes", "iops")


class ImportedTotal(NamedTuple):
    """The totals of one field, job, file system and kind of server."""

    at: float           # seconds since 1970 of the last point
    amount: int         # its total
    highest: int        # the highest total of all points


class ImportedJob:
    """
    One job's points.

    Attributes:
        began, ended: seconds since 1970 of its first and of its last point.
        totals: {(file system, "ost" or "mdt", field): ImportedTotal}.
    """

    def __init__(self, at: float) -> None:
        self.began = self.ended = at
        self.totals: dict[tuple[str, str, str], ImportedTotal] = {}

    def add(self, at: float, name: tuple[str, str, str], amount: int) -> None:
        """Add a point."""
        self.began, self.ended = min(self.began, at), max(self.ended, at)
        last = self.totals.get(name, ImportedTotal(at, amount, amount))
        self.totals[name] = ImportedTotal(
            *((at, amount) if at >= last.at else last[:2]), max(last.highest, amount))


# -- from lines ----------------------------------------------------------------------------------

def read_points(lines: Iterable[str], path: str, jobs: dict[str, ImportedJob]) -> None:
    """Add the points in `lines` to {job: ImportedJob}; UsageError for one with another format."""
    for number, line in enumerate(lines, 1):
        if not line.startswith("lustre,"):      # another measurement, or a comment
            continue
        try:
            _read_point(line.rstrip("\r\n"), jobs)
        except (ValueError, LookupError):
            raise UsageError(
                f"{path}, line {number}: expected a point of jobHarvest: lustre,fs=...,job=...,"
                f"server=oss read_bytes=23i,write_bytes=37i,iops=41i and its time in s or ns, got "
                f"{line[:100].strip()!r}") from None


def _read_point(line: str, jobs: dict[str, ImportedJob]) -> None:
    """Add one point; ValueError, LookupError."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise ValueError(line)
    tags = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _PAIR.findall(parts[1])}
    component, file_system, job = _SERVERS[tags["server"]], tags["fs"], tags["job"]
    at = float(parts[3])
    if at >= 1e11:                              # an export has nanoseconds, a client's file seconds
        at /= 1e9
    if not 1e9 <= at < 1e11 or not job[:1].isdigit() or len(job) > 128:
        raise ValueError(line)
    for field in parts[2].split(","):
        name, _, value = field.partition("=")
        if name in _FIELDS:
            if not re.fullmatch(r"\d{1,19}[iu]?", value) or int(value.rstrip("iu")) > _MOST:
                raise ValueError(line)
            jobs.setdefault(job, ImportedJob(at)).add(
                at, (file_system, component, name), int(value.rstrip("iu")))


# -- to records ----------------------------------------------------------------------------------

def store_jobs(jobs: dict[str, ImportedJob], store: Store, config: Config, system: str,
               now: Callable[[], float]) -> tuple[int, list[str]]:
    """
    Store the records of {job: ImportedJob}: (how many, [job] of those that the store has already);
    StateError.

    `system`: the batch system that is queried for their users, "" for none.
    """
    stored, known = 0, []
    left = iter(sorted(jobs))
    while names := list(islice(left, _JOBS_AT_ONCE)):
        facts, records = _query_facts(names, jobs, system), []
        for name in names:
            job_facts = facts.get(name, Facts(job=JobId(name), raw_job=RawJobId(name)))
            key = Key(job_facts.cluster, job_facts.raw_job or RawJobId(name), job_facts.restarts)
            if store.list_runs(key.job) or next(store.records(name), None) is not None:
                known.append(name)
                continue
            about = AboutJob(scheduler=system or schedulers.NO_SYSTEM, cluster=key.cluster,
                             attempt=key.attempt, user=job_facts.user)
            record = make_record(jobs[name], key, about, facts.get(name), config)
            batch = record.batch
            records.append((
                key, msgspec.json.encode(about), msgspec.json.encode(record), name,
                batch.array_job or batch.het_job if batch else "", job_facts.user, now(),
                make_summary(record)))
        store.add_imported(records)
        stored += len(records)
    return stored, known


def _query_facts(names: list[str], jobs: dict[str, ImportedJob], system: str) -> dict[str, Facts]:
    """
    {job: its Facts}, without jobs unknown to the batch system, and without those that ran at
    another time than the points: a later job with the same id.
    """
    if not system:
        return {}
    try:
        facts = schedulers.find_scheduler(system).facts(names).values()
    except IostatsError:
        return {}
    by_name = {name: job_facts for job_facts in facts for name in (job_facts.job, job_facts.raw_job)
               if name in jobs}
    return {name: job_facts for name, job_facts in by_name.items()
            if job_facts.started is not None and job_facts.ended is not None
            and job_facts.started - _CLOCKS_DIFFER_S <= jobs[name].began
            and jobs[name].began <= job_facts.ended + _CLOCKS_DIFFER_S}


def make_record(job: ImportedJob, key: Key, about: AboutJob, facts: Facts | None,
                config: Config) -> Record:
    """The record of a job with the given facts of the batch system."""
    totals, names = job.totals, sorted({name for name, _, _ in job.totals})
    file_systems = [ImportedFileSystem(
        name=name, label=name,
        read_bytes=_add_up(totals, name, "read_bytes"),
        write_bytes=_add_up(totals, name, "write_bytes"),
        ost_operations=_find_amount(totals, name, "ost"),
        mdt_operations=_find_amount(totals, name, "mdt"),
        notes=list(_list_falls(totals, name))) for name in names]
    record = add_facts_to_record(make_totals(config, key.job, None, Totals).record(), key,
                                 about, facts)
    return record.replaced(imported=ImportedRecord(
        tool=TOOL, began=job.began, ended=job.ended, file_systems=file_systems))


def _add_up(totals: dict[tuple[str, str, str], ImportedTotal], name: str, field: str) -> int | None:
    """The total of both kinds of servers; MDTs have bytes of data in inodes."""
    amounts = [totals[name, component, field].amount for component in _SERVERS.values()
               if (name, component, field) in totals]
    return sum(amounts) if amounts else None


def _find_amount(totals: dict[tuple[str, str, str], ImportedTotal], name: str,
                 component: str) -> int | None:
    total = totals.get((name, component, "iops"))
    return None if total is None else total.amount


def _list_falls(totals: dict[tuple[str, str, str], ImportedTotal], name: str) -> Iterator[str]:
    """List the totals of a file system that were higher at an earlier time, a sentence each."""
    for (file_system, component, field), total in sorted(totals.items()):
        if file_system == name and total.highest > total.amount:
            yield (f"{field} of its {component.upper()}s fell: it was "
                   f"{format_amount(field, total.highest)} before the last point, which has "
                   f"{format_amount(field, total.amount)}")
