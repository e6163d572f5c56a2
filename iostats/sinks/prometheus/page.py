"""
The page for Prometheus: which jobs are on it, and their amounts as prometheus_client's families.

    lustre_job_read_bytes_total     lustre_job_read_samples_total     {component,jobid,target}
    lustre_job_write_bytes_total    lustre_job_write_samples_total
    lustre_job_stats_total{operation}
    lustre_job_lower_bound                            1 where a job's amounts may be too low
    iostats_...                                       about the harvest, the agents, the sinks

as the lustre_exporter of HPE and GSI and Whamcloud's lustrefs-exporter have them, with the labels
fs, cluster, user and account as well; a label that is not known is empty, which is no label to
Prometheus.  Zeros have no line.

It has a bounded number of jobs, the busiest ones; what the others gained is added up as
jobid="(others)", and the I/O of no job as "(unattributed)".  These two count from the server's
start, so that they never fall.  So a sum of rates is right; a sum of totals is not, as with any
exporter whose series come and go.
"""

from __future__ import annotations

import collections
import heapq

from iostats.lustre.metrics import is_operation, is_transfer
from iostats.sinks.gains import BYTES, OTHERS, UNATTRIBUTED, JobLabels, Tally
from iostats.sinks.prometheus.metrics_server import utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from iostats.sinks.gains import Columns, IdTable, Key

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
    What a page shows, from sweep to sweep.

    `most`: up to this number of jobs have lines of their own.

    Attributes:
        shown: {job, as job_stats have it}; `jobs`: how many there are.
    """

    def __init__(self, most: int, by_target: bool) -> None:
        self.tally = Tally(by_target)
        self.shown: frozenset[str] = frozenset()
        self.jobs = 0
        self._most = most
        self._weight: dict[str, float] = {}
        # key of a table -> {counter: [samples, sums]}, and -> [requests, unattributed ones]
        self._others: dict[Key, dict[str, list[int]]] = {}
        self._no_job: dict[Key, dict[str, list[int]]] = {}
        self.requests: dict[Key, list[int]] = collections.defaultdict(lambda: [0, 0])
        self._any_hidden = False

    def choose(self) -> None:
        """After a walk: who is shown, and what the others gained."""
        tally, first = self.tally, self.tally.slot_before is None
        gains = {key: table.gains() for key, table in tally.tables.items()}
        self._weigh(gains, first)
        present = {tally.names[table.ids[row]] for table in tally.tables.values()
                   for row in (table.here & table.is_job).nonzero()[0].tolist()}
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

    def _weigh(self, gains: dict[Key, Columns], first: bool) -> None:
        """Each job's share of all bytes and of all requests, of late."""
        self._weight = {job: weight * _FADES for job, weight in self._weight.items()
                        if weight > _FORGOTTEN}
        totals, by_table = [0, 0], {}
        for key, columns in gains.items():
            table = self.tally.tables[key]
            moved = sum((columns[name][1] for name in BYTES if name in columns), 0)
            asked = sum((samples for name, (samples, _) in columns.items()
                         if name in BYTES or is_operation(name)), 0)
            if columns:
                by_table[key] = (table, moved, asked)
                totals[0] += int(_sum(moved))
                totals[1] += int(_sum(asked))
        for table, moved, asked in by_table.values():
            weight: Any = moved / max(totals[0], 1) + asked / max(totals[1], 1)
            for row in ((weight > 0) & table.is_job).nonzero()[0].tolist():
                job = self.tally.names[table.ids[row]]
                self._weight[job] = self._weight.get(job, 0.0) + float(weight[row])

    def _count(self, key: Key, table: IdTable, gains: Columns, chosen: frozenset[str],
               first: bool) -> None:
        others, no_job = self._others.setdefault(key, {}), self._no_job.setdefault(key, {})
        requests = self.requests[key]
        names, rows = self.tally.names, table.is_job.nonzero()[0].tolist()
        # A job that comes onto the page begins there with its total, of which no rate can be made:
        # what it gained just now was gained by one of the others.
        hidden = table.is_job & False
        for row in rows:
            job = names[table.ids[row]]
            hidden[row] = job not in chosen or (job not in self.shown and bool(table.was_here[row]))
        if first:
            return
        for counter, (samples, sums) in gains.items():
            for group, mask in ((others, hidden), (no_job, ~table.is_job)):
                entry = group.setdefault(counter, [0, 0])
                entry[0] += int(samples[mask].sum())
                entry[1] += int(sums[mask].sum())
            if counter in BYTES or is_operation(counter):
                requests[0] += int(samples.sum())
                requests[1] += int(samples[~table.is_job].sum())

    def rows(self) -> Iterator[tuple[IdTable, str, Mapping[str, Sequence[int]], bool]]:
        """
        (IdTable, jobid, {counter: (samples, sums)}, low) of all that is shown.
        """
        for key, table in self.tally.tables.items():
            by_job = collections.defaultdict(list)
            for row in (table.here & table.is_job).nonzero()[0].tolist():
                job = self.tally.names[table.ids[row]]
                if job in self.shown:
                    by_job[job].append(row)
            for job, rows in by_job.items():
                amounts = {}
                for counter, (samples, sums) in table.now.items():
                    count = sum(int(samples[row]) for row in rows)
                    if count:
                        amounts[counter] = (count, sum(int(sums[row]) for row in rows))
                yield table, job, amounts, any(bool(table.low[row]) for row in rows)
            if self._any_hidden:
                yield table, OTHERS, self._others.get(key, {}), False
            yield table, UNATTRIBUTED, self._no_job.get(key, {}), False


def _sum(array: Any) -> Any:
    return array.sum() if hasattr(array, "sum") else array


def job_families(amounts: Amounts, jobs: Mapping[str, JobLabels],
                 silent: Collection[Key] = ()) -> list[Any]:
    """
    [family] of an Amounts; `jobs`: {jobid: JobLabels} of those that are shown; `silent`: keys of
    the tables to which a target adds that was not read of late.
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
                way = counter.partition("_")[0]
                _add(made[f"lustre_job_{way}_samples"], first + rest, samples)
                _add(made[f"lustre_job_{way}_bytes"], first + rest, sums)
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
