"""
The page for Prometheus of an instance of `iostats ldms run`: GET /metrics on [ldms] metrics.

    iostats_ldms_daemons{role,group,state}              of the groups that are ours
    iostats_ldms_aggregator_...{group,aggregator}       producers, connected producers, sets, load
    iostats_ldms_not_as_described{role,group}           daemons that are up, and lack something
    iostats_ldms_happenings_total{kind}                 moves, restarts, refused commands, ...
    iostats_ldms_...                                    the instance itself
"""

from __future__ import annotations

import gzip

from iostats.ldms.status.document import DOWN, HUNG, UNKNOWN, UP
from iostats.sinks.prometheus.metrics_server import MetricsServer, page_of, utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config
    from iostats.ldms.instances.membership import Membership
    from iostats.ldms.status.reporter import Reporter
    from iostats.ldms.status.telling import Telling

OPTION = "ldms.metrics"
_OF_AGGREGATORS = (
    ("producers", "Producers that are placed on the aggregator."),
    ("connected", "Of these, those that are connected."),
    ("sets", "Metric sets that the aggregator has."),
    ("load", "Its part of the fair share by weight; 1 is fair."),
)


def families(reporter: Reporter, telling: Telling, membership: Membership | None) -> list[Any]:
    """What the page shows now, as prometheus_client's families; what is unknown has no line."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    daemons = GaugeMetricFamily("iostats_ldms_daemons", "Daemons of the groups of this instance.",
                                labels=("role", "group", "state"))
    wrong = GaugeMetricFamily("iostats_ldms_not_as_described",
                              "Daemons that are up and lack something of the description.",
                              labels=("role", "group"))
    of = {name: GaugeMetricFamily(f"iostats_ldms_aggregator_{name}", help,
                                  labels=("group", "aggregator"))
          for name, help in _OF_AGGREGATORS}
    for status in list(reporter.groups.values()):
        group = utf8(status.group)
        for state in (UP, DOWN, HUNG, UNKNOWN):
            daemons.add_metric((status.role, group, state), status.count(state))
        wrong.add_metric((status.role, group),
                         sum(row.state == UP and not row.as_wanted for row in status.rows))
        if status.role == "aggregator":
            for row in status.rows:
                for name, family in of.items():
                    value = getattr(row, name)
                    if value is not None:
                        family.add_metric((group, utf8(row.name)), value)
    happened = CounterMetricFamily("iostats_ldms_happenings", (
        "What this instance saw and did, since it began; of moves, the producers."),
        labels=("kind",))
    for kind, count in sorted(reporter.counts.items()):
        happened.add_metric((kind,), count)
    found = [daemons, wrong, *of.values(), happened,
             CounterMetricFamily("iostats_ldms_events_told",
                                 "Events that the site's server took.", telling.told),
             CounterMetricFamily("iostats_ldms_events_dropped",
                                 "Events that it did not take.", telling.dropped)]
    if reporter.revision is not None:
        found.append(GaugeMetricFamily("iostats_ldms_description_revision",
                                       "The description that is carried out.",
                                       reporter.revision))
    if membership is not None:
        found += [
            GaugeMetricFamily("iostats_ldms_groups_owned", "Groups of this instance.",
                              len(membership.groups_owned())),
            GaugeMetricFamily("iostats_ldms_etcd_up", "1 if etcd answers, else 0.",
                              int(not membership.away)),
            GaugeMetricFamily("iostats_ldms_lease_left_seconds", (
                "For how long this instance may act if etcd does not answer any more."),
                membership.left_s)]
    return found


def metrics_server(config: Config, found: Callable[[], list[Any]]) -> MetricsServer:
    """Answers GET /metrics on [ldms] metrics, with families(...) of `found`; ConfigError."""
    def page() -> tuple[bytes, bytes]:
        data = page_of(found())
        return data, gzip.compress(data, 1)
    return MetricsServer(page, config, OPTION)
