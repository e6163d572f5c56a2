"""
The part of the page that has nodes: what each did to each file system, as prometheus_client's
families.

    lustre_client_read_bytes_total      lustre_client_read_samples_total      {fs,node}
    lustre_client_write_bytes_total     lustre_client_write_samples_total
    lustre_client_operations_total      {component,fs,node}
    lustre_client_lower_bound

The words are those of lustre_job_..., which are the lustre_exporter's (HPE, GSI).  No exporter has
these numbers under names that could be taken over: lustre_exporter's component="client" is what a
client's own llite says, so bytes out of its cache as well; lustrefs-exporter has what is counted
here, but for each target and NID: lustre_client_export_bytes_total{name,nid,target,...}.

A counter has a line from the beginning, also at 0, so that its first increase is in a rate.
"""

from __future__ import annotations

from iostats.load.amounts import CLIENT_METRICS
from iostats.sinks.prometheus.metrics_server import utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.sinks.nodes import NodeCounter

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
                    "or its counters began again.")
NODE_LABELS = ("fs", "node")


def labels_of(name: str) -> tuple[str, ...]:
    """The labels of a metric of NODE_FAMILIES."""
    columns, _ = NODE_FAMILIES[name]
    return ("component", *NODE_LABELS) if len(columns) > 1 else NODE_LABELS


def node_families(counters: Iterable[NodeCounter]) -> list[Any]:
    """[family] of these counters."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    low = GaugeMetricFamily("lustre_client_lower_bound", NODE_LOWER_BOUND, labels=NODE_LABELS)
    made: dict[str, Any] = {name: CounterMetricFamily(name, help, labels=labels_of(name))
                            for name, (_, help) in NODE_FAMILIES.items()}
    where = [(made[name], CLIENT_METRICS.index(column), (component,) if component else ())
             for name, (columns, _) in NODE_FAMILIES.items()
             for column, component in columns.items()]
    for one in counters:
        labels = utf8(one.fs), utf8(one.node)
        for family, place, component in where:
            family.add_metric((*component, *labels), one.totals[place])
        if one.is_low:
            low.add_metric(labels, 1)
    return [*made.values(), low]
