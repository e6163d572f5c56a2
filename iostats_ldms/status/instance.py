"""
An instance of `iostats ldms run`, apart from its service: membership, status, events and metrics.

    instance = Instance(config, etcd, log)          etcd: None if not configured
    service = Service(groups_owned=instance.groups_owned, may_command=instance.may_command,
                      on_event=instance.on_event)
    await asyncio.gather(service.run(stop), instance.run(service, stop))

Metrics for Prometheus, GET /metrics on [ldms] metrics:

    iostats_ldms_daemons{role,group,state}              of the groups of this instance
    iostats_ldms_aggregator_...{group,aggregator}       producers, connected producers, sets, load
    iostats_ldms_not_as_described{role,group}           daemons that are up, but not as described
    iostats_ldms_service_events_total{kind}             moves, restarts, refused commands, ...
    iostats_ldms_...                                    the instance itself
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from typing import TYPE_CHECKING

from iostats.sinks.prometheus.metrics_server import MetricsServer, format_page, utf8
from iostats_ldms.membership import Membership, make_instance_name
from iostats_ldms.status.document import DOWN, HUNG, UNKNOWN, UP
from iostats_ldms.status.notifications import EventSender
from iostats_ldms.status.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from prometheus_client.core import Metric

    from iostats.base.config import Config
    from iostats.etcd.client import Etcd
    from iostats_ldms.service.reports import ServiceEvent
    from iostats_ldms.service.service import Service

_OF_AGGREGATORS = (
    ("producers", "Producers that are placed on the aggregator."),
    ("connected", "Placed producers that are connected."),
    ("sets", "Metric sets that the aggregator has."),
    ("load", "Load relative to the fair share by weight; 1 is fair."),
)


def collect_families(reporter: Reporter, sender: EventSender,
                     membership: Membership | None) -> list[Metric]:
    """Collect the metrics as prometheus_client's families; unknown values are left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    daemons = GaugeMetricFamily("iostats_ldms_daemons", "Daemons of the groups of this instance.",
                                labels=("role", "group", "state"))
    wrong = GaugeMetricFamily("iostats_ldms_not_as_described",
                              "Daemons that are up but not as described.",
                              labels=("role", "group"))
    of = {name: GaugeMetricFamily(f"iostats_ldms_aggregator_{name}", help,
                                  labels=("group", "aggregator"))
          for name, help in _OF_AGGREGATORS}
    for status in list(reporter.groups.values()):
        group = utf8(status.group)
        for state in (UP, DOWN, HUNG, UNKNOWN):
            daemons.add_metric((status.role, group, state), status.count(state))
        wrong.add_metric((status.role, group),
                         sum(row.state == UP and not row.as_described for row in status.rows))
        if status.role == "aggregator":
            for row in status.rows:
                for name, family in of.items():
                    value = getattr(row, name)
                    if value is not None:
                        family.add_metric((group, utf8(row.name)), value)
    happened = CounterMetricFamily("iostats_ldms_service_events", (
        "Events since the start of this instance; for moves, the number of producers."),
        labels=("kind",))
    for kind, count in sorted(reporter.counts.items()):
        happened.add_metric((kind,), count)
    result: list[Metric] = [daemons, wrong, *of.values(), happened,
              CounterMetricFamily("iostats_ldms_events_delivered",
                                  "Events that the site's server accepted.", sender.delivered),
              CounterMetricFamily("iostats_ldms_events_dropped",
                                  "Events that were refused or dropped.", sender.dropped)]
    if reporter.revision is not None:
        result.append(GaugeMetricFamily("iostats_ldms_description_revision",
                                        "Revision of the description in force.",
                                        reporter.revision))
    if membership is not None:
        result += [
            GaugeMetricFamily("iostats_ldms_groups_owned", "Groups of this instance.",
                              len(membership.groups_owned())),
            GaugeMetricFamily("iostats_ldms_etcd_up", "1 if etcd answers, else 0.",
                              int(not membership.etcd_error)),
            GaugeMetricFamily("iostats_ldms_lease_left_seconds", (
                "Seconds during which this instance may send commands if etcd stops answering."),
                membership.left_s)]
    return result


def make_metrics_server(config: Config, collect: Callable[[], list[Metric]]) -> MetricsServer:
    """Make a server for GET /metrics on [ldms] metrics; ConfigError."""
    def page() -> tuple[bytes, bytes]:
        data = format_page(collect())
        return data, gzip.compress(data, 1)
    return MetricsServer(page, config, config.ldms.metrics, "ldms.metrics")


_HEARTBEAT_S = 0.5


class Instance:
    """
    Membership, reporter, event sender and metrics of this process.

    `emit`: receives lines for the log.  Raises ConfigError if the address [ldms] metrics cannot be
    used.
    """

    def __init__(self, config: Config, etcd: Etcd | None, emit: Callable[[str], None]) -> None:
        self._config, self._etcd = config, etcd
        self.membership = (None if etcd is None
                           else Membership(etcd, config.ldms.lease, emit))
        self.name = make_instance_name() if self.membership is None else self.membership.name
        # All instances of a cluster send events under one name.
        node = socket.gethostname() if etcd is None else f"ldms-{etcd.prefix}"
        self.sender = EventSender(config, node, emit)
        self.reporter = Reporter(node, self.name, self.sender, emit, self.membership, etcd)
        self._metrics: MetricsServer | None = None
        if config.ldms.metrics:
            self._metrics = make_metrics_server(config, lambda: collect_families(
                self.reporter, self.sender, self.membership))

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """(host, port) of the metrics, or None."""
        return None if self._metrics is None else self._metrics.address

    def groups_owned(self) -> Collection[str] | None:
        """Return the groups that are ours; None: all."""
        return None if self.membership is None else self.membership.groups_owned()

    def may_command(self, group: str) -> bool:
        """True if a command for the group may be sent now."""
        return self.membership is None or self.membership.may_command(group)

    def on_event(self, event: ServiceEvent) -> None:
        """Receive an event of the service."""
        self.reporter.on_event(event)

    async def run(self, service: Service, stop: asyncio.Event) -> None:
        """Run until `stop` is set; then release our groups."""
        loop = asyncio.get_running_loop()

        def wake_service() -> None:
            try:
                loop.call_soon_threadsafe(service.apply_ownership_change)
            except RuntimeError:                    # the loop is closed
                pass
        if self.membership is not None:
            self.membership.on_change = wake_service
            self.membership.start()
        # Also while the reporter waits for etcd.
        beats = asyncio.ensure_future(self._send_heartbeats())
        try:
            await self.reporter.run(service.make_status, lambda: service.description, stop)
        finally:
            beats.cancel()
            await loop.run_in_executor(None, self.end)

    async def _send_heartbeats(self) -> None:
        """Record heartbeats while the event loop, and so the service, is running."""
        while self.membership is not None:
            self.membership.record_heartbeat()
            await asyncio.sleep(_HEARTBEAT_S)

    def end(self) -> None:
        """Release our groups, send waiting events, and close the metrics server."""
        if self.membership is not None:
            self.membership.stop()
        self.sender.end()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
