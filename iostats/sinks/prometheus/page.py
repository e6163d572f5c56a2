"""
The page for Prometheus: amounts of jobs and nodes as prometheus_client's families.

    lustre_job_read_bytes_total     lustre_job_read_samples_total     {component,jobid,target}
    lustre_job_write_bytes_total    lustre_job_write_samples_total
    lustre_job_stats_total{operation}
    lustre_job_lower_bound                            1 where a job's amounts may be too low
    lustre_client_read_bytes_total  lustre_client_read_samples_total  {fs,node}
    lustre_client_write_bytes_total lustre_client_write_samples_total
    lustre_client_operations_total  {component,fs,node}
    lustre_client_lower_bound
    iostats_finished_jobs_..._total                   {fs,kind}, of other file systems
    iostats_...                                       about the harvest, the agents, the sinks

lustre_job_... are the names of the lustre_exporter of HPE and GSI and of Whamcloud's
lustrefs-exporter, with the labels fs, cluster, user and account added; an unknown label is empty,
which for Prometheus is no label.  Zeros have no line.

The page has a bounded number of jobs, the busiest ones; gains of other jobs are added up as
jobid="(others)", and I/O without a job as "(unattributed)".  These two count from the server's
start, so that they never fall.  So a sum of rates is right; a sum of totals is not, as with any
exporter whose series appear and disappear.

lustre_client_... has names of the same pattern, since no exporter has these numbers:
lustre_exporter's component="client" is read from a client's own llite, with bytes from its cache;
lustrefs-exporter counts the same requests, but by target and NID:
lustre_client_export_bytes_total{name,nid,target,...}.  A node's counter has a line from the
beginning, also at 0, so that a rate includes its first increase.
"""

from __future__ import annotations

import collections
import heapq
from typing import TYPE_CHECKING

from iostats.load.amounts import CLIENT_METRICS
from iostats.lustre.metrics import is_operation, is_transfer
from iostats.sinks.gains import BYTES, OTHERS, UNATTRIBUTED, JobLabels, Tally
from iostats.sinks.prometheus.metrics_server import utf8
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from prometheus_client.core import Metric

    from iostats.sinks.gains import Columns, IdTable, Key
    from iostats.sinks.nodes import NodeCounter
    from iostats.sinks.records import FinishedJobs

_FADES = 0.8                    # of a job's weight stays from one sweep to the next
_STAYS = 2.0                    # a job that is shown counts double: the page is not to flicker
_FORGOTTEN = 1e-9

LABELS = ("component", "jobid", "target", "fs", "cluster", "user", "account")
FAMILIES = {
    "lustre_job_read_bytes": "Bytes that the job read from the targets.",
    "lustre_job_write_bytes": "Bytes that the job wrote to the targets.",
    "lustre_job_read_samples": "Read requests of the job.",
    "lustre_job_write_samples": "Write requests of the job.",
    "lustre_job_stats": "Requests of the job for an operation; a rename counts twice, as rename "
                        "and by its kind.",
}
LOWER_BOUND = ("1 if the job's totals may be too low: after a counter reset, a gap in the harvest, "
               "or while a storage server does not report.")
REQUESTS = {
    "iostats_requests": "Requests to the targets, since the server's start.",
    "iostats_unattributed_requests": "Those of (no job), since the server's start.",
}
AGENT_UP = "1 if the agent of the storage server has sent its part of the last sweep, else 0."
AGENT_SWEEP = "When the storage server's last sweep was taken, seconds since 1970."
SWEEP = "When the last sweep was taken, seconds since 1970."
AGE = "Seconds since the last sweep was taken."


class Amounts:
    """
    The amounts on a page, from sweep to sweep.

    `limit`: up to this number of jobs have lines of their own.

    Attributes:
        shown: {job, as job_stats have it}; `jobs`: how many there are.
    """

    def __init__(self, limit: int, by_target: bool) -> None:
        self.tally = Tally(by_target)
        self.shown: frozenset[str] = frozenset()
        self.jobs = 0
        self._most = limit
        self._weight: dict[str, float] = {}
        # key of a table -> {counter: [samples, sums]}, and -> [requests, unattributed ones]
        self._others: dict[Key, dict[str, list[int]]] = {}
        self._no_job: dict[Key, dict[str, list[int]]] = {}
        self.requests: dict[Key, list[int]] = collections.defaultdict(lambda: [0, 0])
        self._any_hidden = False

    def choose(self) -> None:
        """After a walk: choose the jobs on the page, and add up the gains of the others."""
        tally, first = self.tally, self.tally.slot_before is None
        gains = {key: table.gains() for key, table in tally.tables.items()}
        self._weigh(gains)
        present = {tally.names[table.ids[row]] for table in tally.tables.values()
                   for row in list_integers((table.here & table.is_job).nonzero()[0])}
        self.jobs = len(present)
        if len(present) <= self._most:
            chosen = frozenset(present)
        else:
            self._any_hidden = True
            chosen = frozenset(heapq.nlargest(self._most, present, key=lambda job: (
                self._weight.get(job, 0.0) * (_STAYS if job in self.shown else 1.0), job)))
        for key, table in tally.tables.items():
            self._count(key, table, gains[key], chosen, first)
        self.shown = chosen

    def _weigh(self, gains: dict[Key, Columns]) -> None:
        """Each job's share of all bytes and of all requests, of late."""
        self._weight = {job: weight * _FADES for job, weight in self._weight.items()
                        if weight > _FORGOTTEN}
        totals, by_table = [0, 0], {}
        for key, columns in gains.items():
            table = self.tally.tables[key]
            moved = sum((columns[name][1] for name in BYTES if name in columns), 0)
            requests = sum((samples for name, (samples, _) in columns.items()
                            if name in BYTES or is_operation(name)), 0)
            if columns:
                by_table[key] = (table, moved, requests)
                totals[0] += int(_sum(moved))
                totals[1] += int(_sum(requests))
        for table, moved, requests in by_table.values():
            weight: Any = moved / max(totals[0], 1) + requests / max(totals[1], 1)
            for row in list_integers(((weight > 0) & table.is_job).nonzero()[0]):
                job = self.tally.names[table.ids[row]]
                self._weight[job] = self._weight.get(job, 0.0) + weight.item(row)

    def _count(self, key: Key, table: IdTable, gains: Columns, chosen: frozenset[str],
               first: bool) -> None:
        rest, no_job = self._others.setdefault(key, {}), self._no_job.setdefault(key, {})
        requests = self.requests[key]
        names, rows = self.tally.names, list_integers(table.is_job.nonzero()[0])
        # A job that comes onto the page begins there with its total, of which no rate can be made:
        # its last gain was gained by one of the others.
        hidden = table.is_job & False
        for row in rows:
            job = names[table.ids[row]]
            hidden[row] = job not in chosen or (job not in self.shown and table.was_here.item(row))
        if first:
            return
        for counter, (samples, sums) in gains.items():
            for group, mask in ((rest, hidden), (no_job, ~table.is_job)):
                entry = group.setdefault(counter, [0, 0])
                entry[0] += int(samples[mask].sum())
                entry[1] += int(sums[mask].sum())
            if counter in BYTES or is_operation(counter):
                requests[0] += int(samples.sum())
                requests[1] += int(samples[~table.is_job].sum())

    def rows(self) -> Iterator[tuple[IdTable, str, Mapping[str, Sequence[int]], bool]]:
        """Yield (IdTable, jobid, {counter: (samples, sums)}, low) of all that is shown."""
        for key, table in self.tally.tables.items():
            by_job = collections.defaultdict(list)
            for row in list_integers((table.here & table.is_job).nonzero()[0]):
                job = self.tally.names[table.ids[row]]
                if job in self.shown:
                    by_job[job].append(row)
            for job, rows in by_job.items():
                amounts = {}
                for counter, (samples, sums) in table.now.items():
                    count = sum(samples.item(row) for row in rows)
                    if count:
                        amounts[counter] = (count, sum(sums.item(row) for row in rows))
                yield table, job, amounts, any(table.low.item(row) for row in rows)
            if self._any_hidden:
                yield table, OTHERS, self._others.get(key, {}), False
            yield table, UNATTRIBUTED, self._no_job.get(key, {}), False


def _sum(array: Any) -> Any:
    return array.sum() if hasattr(array, "sum") else array


def make_job_families(amounts: Amounts, jobs: Mapping[str, JobLabels],
                      silent: Collection[Key] = ()) -> list[Metric]:
    """
    Return [family] of an Amounts; `jobs`: {jobid: JobLabels} of the jobs on the page; `silent`:
    keys of tables with a target that was not read recently.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    made = {name: CounterMetricFamily(name, help, labels=(
        *LABELS[:2], "operation", *LABELS[2:]) if name == "lustre_job_stats" else LABELS)
        for name, help in FAMILIES.items()}
    low = GaugeMetricFamily("lustre_job_lower_bound", LOWER_BOUND, labels=LABELS)
    for table, jobid, counters, is_low in amounts.rows():
        job = jobs.get(jobid) or JobLabels("", jobid, jobid, "", "")
        first = (table.component, utf8(job.raw_job))
        rest = tuple(map(utf8, (table.target, table.fs, job.cluster, job.user, job.account)))
        for counter, (samples, sums) in counters.items():
            if counter in BYTES:
                direction = counter.partition("_")[0]
                _add(made[f"lustre_job_{direction}_samples"], first + rest, samples)
                _add(made[f"lustre_job_{direction}_bytes"], first + rest, sums)
            elif not is_transfer(counter):
                _add(made["lustre_job_stats"], (*first, utf8(counter), *rest), samples)
        if is_low or (jobid not in (OTHERS, UNATTRIBUTED)
                      and (table.fs, table.component, table.target) in silent):
            low.add_metric(first + rest, 1)
    requests = [CounterMetricFamily(name, help, labels=("component", "target", "fs"))
                for name, help in REQUESTS.items()]
    for (fs, component, target), numbers in amounts.requests.items():
        for family, number in zip(requests, numbers):
            family.add_metric((component, utf8(target), utf8(fs)), number)
    return [*made.values(), low, *requests]


def _add(family: Any, labels: Sequence[str], amount: int) -> None:
    if amount:
        family.add_metric(labels, amount)


# What finished jobs did on other file systems than Lustre: name -> help.
FINISHED = {
    "read_bytes": "Bytes read: by programs on NFS and GPFS, in requests to CephFS, at the disks.",
    "write_bytes": "Bytes written, by the same.",
    "requests": "Requests to servers of NFS and CephFS.",
    "retransmissions": "Requests to NFS servers that were sent again.",
    "timeouts": "Requests that an NFS server did not answer within the mount's time limit.",
    "too_low": "Jobs some of whose amounts may be too low.",
    "too_high": "Jobs some of whose amounts may be too high.",
}
FINISHED_LABELS = ("fs", "kind")


def make_finished_families(finished: FinishedJobs) -> list[Metric]:
    """Return [family] of all finished jobs together, since the server's start."""
    from prometheus_client.core import CounterMetricFamily
    made = {name: CounterMetricFamily(f"iostats_finished_jobs_{name}", help,
                                      labels=FINISHED_LABELS) for name, help in FINISHED.items()}
    for (fs, kind), amounts in sorted(finished.totals.items()):
        for name, amount in amounts.items():
            made[name].add_metric((utf8(fs), kind), amount)
    return list(made.values())


# name -> columns of CLIENT_METRICS, with the component that they are of, and help
NODE_FAMILIES = {
    "lustre_client_read_bytes": ({"read_bytes": ""},
                                 "Bytes that the node read from OSTs and MDTs."),
    "lustre_client_write_bytes": ({"write_bytes": ""}, "Bytes that the node wrote to them."),
    "lustre_client_read_samples": ({"reads": ""}, "Its requests that read bytes."),
    "lustre_client_write_samples": ({"writes": ""}, "Its requests that wrote bytes."),
    "lustre_client_operations": ({"ost_operations": "ost", "mdt_operations": "mdt"},
                                 "All its other requests, to OSTs and to MDTs."),
}
NODE_LOWER_BOUND = ("1 while the node's numbers may be too low: a storage server has not reported, "
                    "or its counters were reset.")
NODE_LABELS = ("fs", "node")


def list_labels(name: str) -> tuple[str, ...]:
    """The labels of a metric of NODE_FAMILIES."""
    columns, _ = NODE_FAMILIES[name]
    return ("component", *NODE_LABELS) if len(columns) > 1 else NODE_LABELS


def make_node_families(counters: Iterable[NodeCounter]) -> list[Metric]:
    """Return [family] of these counters."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    low = GaugeMetricFamily("lustre_client_lower_bound", NODE_LOWER_BOUND, labels=NODE_LABELS)
    made: dict[str, Any] = {name: CounterMetricFamily(name, help, labels=list_labels(name))
                            for name, (_, help) in NODE_FAMILIES.items()}
    where = [(made[name], CLIENT_METRICS.index(column), (component,) if component else ())
             for name, (columns, _) in NODE_FAMILIES.items()
             for column, component in columns.items()]
    for counter in counters:
        labels = utf8(counter.fs), utf8(counter.node)
        for family, place, component in where:
            family.add_metric((*component, *labels), counter.totals[place])
        if counter.is_low:
            low.add_metric(labels, 1)
    return [*made.values(), low]
