"""
The sink for Prometheus: the page after each sweep, and its HTTP server.
"""

from __future__ import annotations

import asyncio
import collections
import gzip
import logging

from iostats.sinks import Number
from iostats.sinks.gains import job_of
from iostats.sinks.nodes import NodeCounters, of_sweep
from iostats.sinks.prometheus import MOST_CONNECTIONS, NUMBERS
from iostats.sinks.prometheus.event_page import EventCounts
from iostats.sinks.prometheus.metrics_server import MetricsServer, page_of, utf8
from iostats.sinks.prometheus.node_page import node_families
from iostats.sinks.prometheus.page import (
    AGE,
    AGENT_SWEEP,
    AGENT_UP,
    SWEEP,
    Amounts,
    job_families,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.sinks.nodes import NodeClients
    from iostats.site.events.followers import Change
    from iostats.site.harvest_intake import Harvest, SiteSweep

log = logging.getLogger("iostats")

_STALE_SWEEPS, _STALE_S = 5, 300.0      # older totals are not shown
_LATE_S = 5.0


AgentSweep = collections.namedtuple("AgentSweep", "has_sent slot every")


class Prometheus:
    """
    See the module.

    Attributes:
        address: (host, port) that it listens on.
        connections: up to how many clients may be connected.
        clock: gives seconds since 1970.
        walking: done when the last sweep is on the page; None before the first.
    """

    connections = MOST_CONNECTIONS

    def __init__(self, config: Config, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.others: list[Any] = []
        self._amounts = Amounts(config["prometheus.max_jobs"],
                                config["prometheus.by_target"] == "yes")
        self._nodes = NodeCounters(config["prometheus.max_nodes"], backdated=False)
        self._has_nodes = config["prometheus.max_nodes"] > 0
        self._events = EventCounts()
        self.walking: asyncio.Future[None] | None = None
        self._late = 0
        self._jobs_page, self._every_s = b"", 0.0
        self._swept: float | None = None
        self._served: tuple[bytes | None, bytes] = None, b""
        self._agents: dict[str, AgentSweep] = {}
        self._http = MetricsServer(self.page, config)
        self.address = self._http.address

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Take all targets' totals, between the other things that the loop does."""
        if self.walking is not None and not self.walking.done():
            self._late += 1                              # the next page has it all
            return
        self.walking = asyncio.ensure_future(self._make(sweep, harvest))

    def events(self, changes: Sequence[Change], names: Mapping[str, str]) -> None:
        """Count what happened."""
        self._events.take(changes)

    def event_status(self, node: str, heard: float, every_s: float,
                     status: Mapping[str, Any]) -> None:
        """A storage server has said how it is."""
        self._events.stands(node, heard, every_s, status)

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._amounts.tally.forget(ids)

    async def _make(self, sweep: SiteSweep, harvest: Harvest) -> None:
        loop, amounts = asyncio.get_running_loop(), self._amounts
        self._events.see(*{fs for fs, _ in harvest.targets})
        try:
            for _ in amounts.tally.walk(sweep, harvest):
                await asyncio.sleep(0)
            await loop.run_in_executor(None, amounts.choose)
            ids = {amounts.tally.names[job_id]: job_id for table in amounts.tally.tables.values()
                   for job_id in table.ids if amounts.tally.names[job_id] in amounts.shown}
            jobs = {job: job_of(job_id, harvest) for job, job_id in ids.items()}
            agents = {node: AgentSweep(agent.has_sent(sweep.slot), agent.slot, agent.every)
                      for node, agent in harvest.agents.items()}
            silent = {amounts.tally.key_of(*key) for key, target in harvest.targets.items()
                      if harvest.is_overdue(target)}
            page = await loop.run_in_executor(
                None, lambda: page_of(job_families(amounts, jobs, silent)))
            if self._has_nodes:
                page += await self._page_of_nodes(sweep, harvest)
            self._jobs_page, self._agents = page, agents
            self._swept, self._every_s = sweep.slot, sweep.every_s
            self._served = None, b""
        except Exception:
            log.exception("internal error; please report: no page for Prometheus")

    async def _page_of_nodes(self, sweep: SiteSweep, harvest: Harvest) -> bytes:
        rates = harvest.clients.sweep
        if rates is None or rates.slot != sweep.slot:
            return b""
        found: dict[str, NodeClients] = {}
        for _ in of_sweep(rates, harvest.clients.names, found):
            await asyncio.sleep(0)
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: page_of(node_families(self._nodes.take(found))))

    def page(self) -> tuple[bytes, bytes]:
        """(page, page compressed), as of now."""
        fresh = self._swept is not None and self.clock() - self._swept <= max(
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
        now = self.clock()
        for node, agent in self._agents.items():
            is_up = agent.has_sent and now - agent.slot <= 2 * agent.every + _LATE_S
            up.add_metric((utf8(node),), int(is_up))
            swept.add_metric((utf8(node),), agent.slot)
        families: list[Any] = [up, swept, *self._events.families(now)]
        if self._swept is not None:
            families += [GaugeMetricFamily("iostats_sweep_timestamp_seconds", SWEEP, self._swept),
                         GaugeMetricFamily("iostats_sweep_age_seconds", AGE,
                                           max(0.0, self.clock() - self._swept))]
        numbers = [*self.numbers(), *(one for sink in self.others for one in sink.numbers())]
        for name, kind, help, value in numbers:
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            families.append(family(name, help, value))
        return families

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        values = (self._amounts.jobs, len(self._amounts.shown), self._nodes.nodes,
                  len(self._nodes.shown), self._late)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)
                if self._has_nodes or not about[0].endswith("_nodes")]

    def close(self) -> None:
        """Listen no more."""
        if self.walking is not None:
            self.walking.cancel()
        self._http.close()
