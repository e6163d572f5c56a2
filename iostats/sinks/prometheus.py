"""
Prometheus: GET /metrics on an address of its own, with the names that dashboards already use.

    lustre_job_read_bytes_total     lustre_job_read_samples_total     {component,jobid,target}
    lustre_job_write_bytes_total    lustre_job_write_samples_total
    lustre_job_stats_total{operation}
    lustre_job_lower_bound                            1 where a job's amounts may be too low
    iostats_...                                       about the harvest, the agents, the sinks

as the lustre_exporter of HPE and GSI and Whamcloud's lustrefs-exporter have them, with the labels
fs, cluster, user and account as well; a label that is not known is empty, which is no label to
Prometheus.  Zeros have no line.

The page is made after each sweep, and is the same until the next.  It has a bounded number of jobs,
the busiest ones; what the others gained is added up as jobid="(others)", and what ids gained that
are no jobs' as "(unattributed)".  These two count from the server's start, so that they never fall.
So a sum of rates is right; a sum of totals is not, as with any exporter whose series come and go.
"""

from __future__ import annotations

import asyncio
import collections
import gzip
import heapq
import logging
import threading
import time

from iostats.base.errors import ConfigError
from iostats.lustre.metrics import is_operation, is_transfer
from iostats.server.job_server import Server, bound_to
from iostats.sinks import Number
from iostats.sinks._gains import BYTES, UNATTRIBUTED, Job, Tally, job_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.sinks._gains import Columns, Key, Part
    from iostats.site.harvest_intake import Harvest, Sweep

log = logging.getLogger("iostats")

NAME = "prometheus"
NEEDS = PACKAGE = "prometheus_client"

OTHERS = "(others)"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FADES = 0.8                    # of a job's weight stays from one sweep to the next
_STAYS = 2.0                    # a job that is shown counts double: the page is not to flicker
_FORGOTTEN = 1e-9
_STALE_SWEEPS, _STALE_S = 5, 300.0      # then amounts would be shown that nobody has read
_LATE_S = 5.0
MOST_CONNECTIONS = 128          # then those go first that have said nothing for the longest

LABELS = ("component", "jobid", "target", "fs", "cluster", "user", "account")
FAMILIES = {
    "lustre_job_read_bytes": "Bytes that the job read from the targets.",
    "lustre_job_write_bytes": "Bytes that the job wrote to the targets.",
    "lustre_job_read_samples": "Requests in which it read them.",
    "lustre_job_write_samples": "Requests in which it wrote them.",
    "lustre_job_stats": "Requests of the job for an operation; a rename counts twice, as rename "
                        "and by its kind.",
}
LOWER_BOUND = ("1 where the job's amounts may be too low: a clear, a gap, a doubt, or a storage "
               "server that is silent.")
REQUESTS = {
    "iostats_requests": "Requests to the targets, since the server's start.",
    "iostats_unattributed_requests": "Those of ids that are no job's, since the server's start.",
}
AGENT_UP = "1 for a storage server whose agent has sent its part of the last sweep; 0 when silent."
AGENT_SWEEP = "When the storage server's last sweep was taken, seconds since 1970."
SWEEP = "When the last sweep was taken, seconds since 1970."
AGE = "Seconds since the last sweep was taken."
# (name, kind, help) of what numbers() tells, in its order.
NUMBERS = (
    ("iostats_jobs", "gauge", "Jobs that the targets know."),
    ("iostats_prometheus_shown_jobs", "gauge",
     "Jobs that have lines of their own here ([prometheus] max_jobs)."),
    ("iostats_prometheus_left_out_sweeps", "counter",
     "Sweeps after which no page was made for lack of time."),
)


def is_on(config: Config) -> bool:
    """Whether it is to listen anywhere."""
    return bool(config["prometheus.listen"])


def make(config: Config, say: Callable[[str], None]) -> Prometheus:
    """The sink; ConfigError."""
    return Prometheus(config, say)


def address_of(config: Config) -> tuple[str, int]:
    """(host, port) of [prometheus] listen; ConfigError."""
    host, colon, port = config["prometheus.listen"].rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{config.origin['prometheus.listen']}: [prometheus] listen: expected "
                          f"HOST:PORT such as 127.0.0.1:9464, got "
                          f"'{config['prometheus.listen']}'")
    return host.strip("[]"), int(port)


# -- what is on the page -----------------------------------------------------------------------

class Amounts:
    """
    What a page shows, from sweep to sweep.

    `most`: so many jobs have lines of their own.

    Attributes:
        shown: {job, as job_stats have it}; `jobs`: how many there are.
    """

    def __init__(self, most: int, by_target: bool) -> None:
        self.tally = Tally(by_target)
        self.shown: frozenset[str] = frozenset()
        self.jobs = 0
        self._most = most
        self._weight: dict[str, float] = {}
        # Part key -> {counter: [samples, sums]}, and -> [requests, unattributed ones]
        self._others: dict[Key, dict[str, list[int]]] = {}
        self._nobody: dict[Key, dict[str, list[int]]] = {}
        self.requests: dict[Key, list[int]] = collections.defaultdict(lambda: [0, 0])
        self._any_hidden = False

    def choose(self) -> None:
        """After a walk: who is shown, and what the others gained."""
        tally, first = self.tally, self.tally.slot_before is None
        gains = {key: part.gains() for key, part in tally.parts.items()}
        self._weigh(gains, first)
        present = {tally.names[part.ids[row]] for part in tally.parts.values()
                   for row in (part.here & part.is_job).nonzero()[0].tolist()}
        self.jobs = len(present)
        if len(present) <= self._most:
            chosen = frozenset(present)
        else:
            self._any_hidden = True
            chosen = frozenset(heapq.nlargest(self._most, present, key=lambda job: (
                self._weight.get(job, 0.0) * (_STAYS if job in self.shown else 1.0), job)))
        for key, part in tally.parts.items():
            self._count(key, part, gains[key], chosen, first)
        self.shown = chosen

    def _weigh(self, gains: dict[Key, Columns], first: bool) -> None:
        """Each job's share of all bytes and of all requests, of late."""
        self._weight = {job: weight * _FADES for job, weight in self._weight.items()
                        if weight > _FORGOTTEN}
        totals, by_part = [0, 0], {}
        for key, columns in gains.items():
            part = self.tally.parts[key]
            moved = sum((columns[name][1] for name in BYTES if name in columns), 0)
            asked = sum((samples for name, (samples, _) in columns.items()
                         if name in BYTES or is_operation(name)), 0)
            if columns:
                by_part[key] = (part, moved, asked)
                totals[0] += int(_sum(moved))
                totals[1] += int(_sum(asked))
        for part, moved, asked in by_part.values():
            weight: Any = moved / max(totals[0], 1) + asked / max(totals[1], 1)
            for row in ((weight > 0) & part.is_job).nonzero()[0].tolist():
                job = self.tally.names[part.ids[row]]
                self._weight[job] = self._weight.get(job, 0.0) + float(weight[row])

    def _count(self, key: Key, part: Part, gains: Columns, chosen: frozenset[str],
               first: bool) -> None:
        others, nobody = self._others.setdefault(key, {}), self._nobody.setdefault(key, {})
        requests = self.requests[key]
        names, rows = self.tally.names, part.is_job.nonzero()[0].tolist()
        # A job that comes onto the page begins there with its total, of which no rate can be made:
        # what it gained just now was gained by one of the others.
        hidden = part.is_job & False
        for row in rows:
            job = names[part.ids[row]]
            hidden[row] = job not in chosen or (job not in self.shown and bool(part.was_here[row]))
        if first:
            return
        for counter, (samples, sums) in gains.items():
            for group, mask in ((others, hidden), (nobody, ~part.is_job)):
                entry = group.setdefault(counter, [0, 0])
                entry[0] += int(samples[mask].sum())
                entry[1] += int(sums[mask].sum())
            if counter in BYTES or is_operation(counter):
                requests[0] += int(samples.sum())
                requests[1] += int(samples[~part.is_job].sum())

    def rows(self) -> Iterator[tuple[Part, str, Mapping[str, Sequence[int]], bool]]:
        """
        (Part, jobid, {counter: (samples, sums)}, low) of all that is shown, with the labels' order.
        """
        for key, part in self.tally.parts.items():
            by_job = collections.defaultdict(list)
            for row in (part.here & part.is_job).nonzero()[0].tolist():
                job = self.tally.names[part.ids[row]]
                if job in self.shown:
                    by_job[job].append(row)
            for job, rows in by_job.items():
                amounts = {}
                for counter, (samples, sums) in part.now.items():
                    count = sum(int(samples[row]) for row in rows)
                    if count:
                        amounts[counter] = (count, sum(int(sums[row]) for row in rows))
                yield part, job, amounts, any(bool(part.low[row]) for row in rows)
            if self._any_hidden:
                yield part, OTHERS, self._others.get(key, {}), False
            yield part, UNATTRIBUTED, self._nobody.get(key, {}), False


def _sum(array: Any) -> Any:
    return array.sum() if hasattr(array, "sum") else array


class _Families:
    """What prometheus_client asks for the metrics of a page: a collector."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families


def page_of(families: list[Any]) -> bytes:
    """The page of prometheus_client's families, bytes."""
    from prometheus_client import CollectorRegistry, generate_latest
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


def job_families(amounts: Amounts, jobs: Mapping[str, Job],
                 silent: Collection[Key] = ()) -> list[Any]:
    """
    [family] of an Amounts; `jobs`: {jobid: _tally.Job} of those that are shown; `silent`: keys of
    Parts to which a target may add that was not read of late.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    made = {name: CounterMetricFamily(name, help, labels=(
        *LABELS[:2], "operation", *LABELS[2:]) if name == "lustre_job_stats" else LABELS)
        for name, help in FAMILIES.items()}
    low = GaugeMetricFamily("lustre_job_lower_bound", LOWER_BOUND, labels=LABELS)
    for part, jobid, counters, is_low in amounts.rows():
        job = jobs.get(jobid) or Job("", jobid, jobid, "", "")
        first = (part.component, _clean(job.raw_job))
        rest = tuple(map(_clean, (part.target, part.fs, job.cluster, job.user, job.account)))
        for counter, (samples, sums) in counters.items():
            if counter in BYTES:
                way = counter.partition("_")[0]
                _add(made[f"lustre_job_{way}_samples"], first + rest, samples)
                _add(made[f"lustre_job_{way}_bytes"], first + rest, sums)
            elif not is_transfer(counter):
                _add(made["lustre_job_stats"], (*first, _clean(counter), *rest), samples)
        if is_low or (jobid not in (OTHERS, UNATTRIBUTED)
                      and (part.fs, part.component, part.target) in silent):
            low.add_metric(first + rest, 1)
    requests = [CounterMetricFamily(name, help, labels=("component", "target", "fs"))
                  for name, help in REQUESTS.items()]
    for (fs, component, target), numbers in amounts.requests.items():
        for family, number in zip(requests, numbers):
            family.add_metric((component, _clean(target), _clean(fs)), number)
    return [*made.values(), low, *requests]


def _add(family: Any, labels: Sequence[str], amount: int) -> None:
    if amount:
        family.add_metric(labels, amount)


def _clean(text: str) -> str:
    """`text` without halves of characters, which are no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# -- the sink ----------------------------------------------------------------------------------

_Agent = collections.namedtuple("_Agent", "has_sent slot every")


class Prometheus:
    """
    See the module.

    Attributes:
        address: (host, port) that it listens on.
    """

    def __init__(self, config: Config, say: Callable[[str], None],
                 clock: Callable[[], float] = time.time) -> None:
        self._say, self._clock = say, clock
        self.beside: list[Any] = []
        self._amounts = Amounts(config["prometheus.max_jobs"],
                                config["prometheus.by_target"] == "yes")
        self._making: asyncio.Future[None] | None = None
        self._late = 0
        self._jobs_page, self._every_s = b"", 0.0
        self._swept: float | None = None
        self._served: tuple[bytes | None, bytes] = None, b""
        self._agents: dict[str, _Agent] = {}
        self._http = _Http(address_of(config), self.page, config)
        self.address = self._http.address

    def sweep(self, sweep: Sweep, harvest: Harvest) -> None:
        """Take all targets' totals, between the other things that the loop does."""
        if self._making is not None and not self._making.done():
            self._late += 1                              # the next page has it all
            return
        self._making = asyncio.ensure_future(self._make(sweep, harvest))

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._amounts.tally.forget(ids)

    async def _make(self, sweep: Sweep, harvest: Harvest) -> None:
        loop, amounts = asyncio.get_running_loop(), self._amounts
        try:
            for _ in amounts.tally.walk(sweep, harvest):
                await asyncio.sleep(0)
            await loop.run_in_executor(None, amounts.choose)
            ids = {amounts.tally.names[job_id]: job_id for part in amounts.tally.parts.values()
                   for job_id in part.ids if amounts.tally.names[job_id] in amounts.shown}
            jobs = {job: job_of(job_id, harvest) for job, job_id in ids.items()}
            agents = {node: _Agent(agent.has_sent(sweep.slot), agent.slot, agent.every)
                      for node, agent in harvest.agents.items()}
            silent = {amounts.tally.key_of(*key) for key, target in harvest.targets.items()
                      if harvest.is_overdue(target)}
            page = await loop.run_in_executor(
                None, lambda: page_of(job_families(amounts, jobs, silent)))
            self._jobs_page, self._agents = page, agents
            self._swept, self._every_s = sweep.slot, sweep.every_s
            self._served = None, b""
        except Exception:
            log.exception("internal error; please report: no page for Prometheus")

    def page(self) -> tuple[bytes, bytes]:
        """(page, page compressed), as of now."""
        fresh = self._swept is not None and self._clock() - self._swept <= max(
            _STALE_S, _STALE_SWEEPS * self._every_s)
        jobs = self._jobs_page if fresh else b""
        own = page_of(self._own_families())
        made, packed = self._served
        if made is not jobs:
            packed = gzip.compress(jobs, 1)
            self._served = jobs, packed
        return jobs + own, packed + gzip.compress(own, 1)     # gzip may be put together like this

    def _own_families(self) -> list[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        up = GaugeMetricFamily("iostats_agent_up", AGENT_UP, labels=("node",))
        swept = GaugeMetricFamily("iostats_agent_sweep_timestamp_seconds", AGENT_SWEEP,
                                  labels=("node",))
        now = self._clock()
        for node, agent in self._agents.items():
            is_up = agent.has_sent and now - agent.slot <= 2 * agent.every + _LATE_S
            up.add_metric((_clean(node),), int(is_up))
            swept.add_metric((_clean(node),), agent.slot)
        families: list[Any] = [up, swept]
        if self._swept is not None:
            families += [GaugeMetricFamily("iostats_sweep_timestamp_seconds", SWEEP, self._swept),
                         GaugeMetricFamily("iostats_sweep_age_seconds", AGE,
                                           max(0.0, self._clock() - self._swept))]
        numbers = [*self.numbers(), *(one for sink in self.beside for one in sink.numbers())]
        for name, kind, help, value in numbers:
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            families.append(family(name, help, value))
        return families

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        values = self._amounts.jobs, len(self._amounts.shown), self._late
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """Listen no more."""
        if self._making is not None:
            self._making.cancel()
        self._http.close()


# -- HTTP --------------------------------------------------------------------------------------

class _Http:
    """
    The page by the one HTTP server that there is, in a thread and an event loop of its own: what
    is asked for here delays no report.
    """

    def __init__(self, address: tuple[str, int], page: Callable[[], tuple[bytes, bytes]],
                 config: Config) -> None:
        try:
            self._socket = bound_to(*address)
        except OSError as error:
            raise ConfigError(f"{config.origin['prometheus.listen']}: [prometheus] listen: cannot "
                              f"listen on {config['prometheus.listen']}: {error.strerror}; is "
                              f"another exporter there?") from None
        self.address = self._socket.getsockname()[:2]
        self._page, self._loop = page, asyncio.new_event_loop()
        self._server = Server(NAME, [], config, most_connections=MOST_CONNECTIONS)
        self._server.pages["/metrics"] = self._answer
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.listen_at(self._socket))
        self._listens.set()
        self._loop.run_forever()
        self._loop.close()

    def _answer(self, packed: bool) -> tuple[str, bytes]:
        encoding = "Content-Encoding: gzip\r\n" if packed else ""
        return f"Content-Type: {CONTENT_TYPE}\r\n{encoding}", self._page()[packed]

    def close(self) -> None:
        def end() -> None:
            self._server.close()
            self._loop.call_later(0, self._loop.stop)     # when the connections are closed
        if self._listens.wait(2.0):
            self._loop.call_soon_threadsafe(end)
            self._thread.join(2.0)
