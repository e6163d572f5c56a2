"""
The sink for Prometheus: the page after each sweep, and its HTTP server.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from typing import TYPE_CHECKING, NamedTuple

from iostats.harvest.sink import Number, Sink
from iostats.sinks.gains import make_job_labels
from iostats.sinks.nodes import NodeCounters, collect_node_clients
from iostats.sinks.prometheus import MOST_CONNECTIONS, NUMBERS, PrometheusSection
from iostats.sinks.prometheus.event_page import EventCounts
from iostats.sinks.prometheus.metrics_server import MetricsServer, format_page, utf8
from iostats.sinks.prometheus.page import (
    AGE,
    AGENT_SWEEP,
    AGENT_UP,
    SWEEP,
    Amounts,
    make_finished_families,
    make_job_families,
    make_node_families,
)
from iostats.sinks.records import FinishedJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.core import Metric

    from iostats.base.config import Config
    from iostats.events.status import ServerStatus
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.sinks.nodes import NodeClients
    from iostats.store.event_store import Change
    from iostats.totals.record import Record

log = logging.getLogger(__name__)

_STALE_SWEEPS, _STALE_S = 5, 300.0      # older totals are not shown
_LATE_S = 5.0


class AgentSweep(NamedTuple):
    """The last sweep of a storage server's agent."""

    has_sent: bool
    slot: float
    every_s: float


class Prometheus:
    """
    The sink.

    Attributes:
        address: (host, port) that it listens on.
        connections: up to how many clients may be connected.
        clock: gives seconds since 1970.
        walking: done when the last sweep is on the page; None before the first.
    """

    connections = MOST_CONNECTIONS

    def __init__(self, config: Config, clock: Callable[[], float]) -> None:
        self.clock, options = clock, config.find_section(PrometheusSection)
        self.others: list[Sink] = []
        self._amounts = Amounts(options.max_jobs,
                                options.by_target == "yes")
        self._nodes = NodeCounters(options.max_nodes, backdated=False)
        self._has_nodes = options.max_nodes > 0
        self._events, self._finished = EventCounts(), FinishedJobs()
        self.walking: asyncio.Future[None] | None = None
        self._late = 0
        self._jobs_page, self._every_s = b"", 0.0
        self._swept: float | None = None
        self._served: tuple[bytes | None, bytes] = None, b""
        self._agents: dict[str, AgentSweep] = {}
        self._http = MetricsServer(self.page, config, options.listen, "prometheus.listen")
        self.address = self._http.address

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Read the totals of all targets in steps, between other tasks of the event loop."""
        if self.walking is not None and not self.walking.done():
            self._late += 1                              # the next page has it all
            return
        self.walking = asyncio.ensure_future(self._make(sweep, harvest))

    def events(self, changes: Sequence[Change], names: Mapping[str, str]) -> None:
        """Count events."""
        self._events.add(changes)

    def event_status(self, node: str, received_at: float, every_s: float,
                     status: ServerStatus) -> None:
        """Set the state that a storage server has reported."""
        self._events.stands(node, received_at, every_s, status)

    def records(self, records: Sequence[Record]) -> None:
        """Count the I/O of finished jobs on file systems other than Lustre."""
        self._finished.add(records)

    def drop_ids(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._amounts.tally.drop_ids(ids)

    async def _make(self, sweep: SiteSweep, harvest: Harvest) -> None:
        amounts = self._amounts
        self._events.see(*{fs for fs, _ in harvest.targets})
        try:
            for _ in amounts.tally.walk(sweep, harvest):
                await asyncio.sleep(0)
            await asyncio.to_thread(amounts.choose)
            ids = {amounts.tally.names[job_id]: job_id for table in amounts.tally.tables.values()
                   for job_id in table.ids if amounts.tally.names[job_id] in amounts.shown}
            jobs = {job: make_job_labels(job_id, harvest) for job, job_id in ids.items()}
            agents = {node: AgentSweep(agent.has_sent(sweep.slot), agent.slot, agent.every_s)
                      for node, agent in harvest.agents.items()}
            silent = {amounts.tally.make_table_key(*key) for key, target in harvest.targets.items()
                      if harvest.is_overdue(target)}
            page = await asyncio.to_thread(
                lambda: format_page(make_job_families(amounts, jobs, silent)))
            if self._has_nodes:
                page += await self._make_nodes_page(sweep, harvest)
            self._jobs_page, self._agents = page, agents
            self._swept, self._every_s = sweep.slot, sweep.every_s
            self._served = None, b""
        except Exception:
            log.exception("internal error; please report: no page for Prometheus")

    async def _make_nodes_page(self, sweep: SiteSweep, harvest: Harvest) -> bytes:
        rates = harvest.clients.sweep
        if rates is None or rates.slot != sweep.slot:
            return b""
        by_file_system: dict[str, NodeClients] = {}
        for _ in collect_node_clients(rates, harvest.clients.names, by_file_system):
            await asyncio.sleep(0)
        return await asyncio.to_thread(
            lambda: format_page(make_node_families(self._nodes.add(by_file_system))))

    def page(self) -> tuple[bytes, bytes]:
        """Return (page, page compressed), as of now."""
        fresh = self._swept is not None and self.clock() - self._swept <= max(
            _STALE_S, _STALE_SWEEPS * self._every_s)
        jobs = self._jobs_page if fresh else b""
        own = format_page(self._make_own_families())
        made, packed = self._served
        if made is not jobs:
            packed = gzip.compress(jobs, 1)
            self._served = jobs, packed
        return jobs + own, packed + gzip.compress(own, 1)     # gzip streams may be concatenated

    def _make_own_families(self) -> list[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        up = GaugeMetricFamily("iostats_agent_up", AGENT_UP, labels=("node",))
        swept = GaugeMetricFamily("iostats_agent_sweep_timestamp_seconds", AGENT_SWEEP,
                                  labels=("node",))
        now = self.clock()
        for node, agent in self._agents.items():
            is_up = agent.has_sent and now - agent.slot <= 2 * agent.every_s + _LATE_S
            up.add_metric((utf8(node),), int(is_up))
            swept.add_metric((utf8(node),), agent.slot)
        families: list[Metric] = [up, swept, *self._events.families(now),
                               *make_finished_families(self._finished)]
        if self._swept is not None:
            families += [GaugeMetricFamily("iostats_sweep_timestamp_seconds", SWEEP, self._swept),
                         GaugeMetricFamily("iostats_sweep_age_seconds", AGE,
                                           max(0.0, self.clock() - self._swept))]
        numbers = [*self.numbers(), *(number for sink in self.others for number in sink.numbers())]
        for name, kind, help, value in numbers:
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            families.append(family(name, help, value))
        return families

    def numbers(self) -> list[Number]:
        """Return [Number] for other sinks to show."""
        values = (self._amounts.jobs, len(self._amounts.shown), self._nodes.nodes,
                  len(self._nodes.shown), self._late)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)
                if self._has_nodes or not about[0].endswith("_nodes")]

    def close(self) -> None:
        """Stop listening."""
        if self.walking is not None:
            self.walking.cancel()
        self._http.close()
