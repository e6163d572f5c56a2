"""
The part of Prometheus' page that has nodes.
"""
from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from iostats.sinks.nodes import NodeCounter
from iostats.sinks.prometheus.metrics_server import format_page
from iostats.sinks.prometheus.page import make_node_families


def samples(*counters):
    """{(metric, its labels): value} of the page of these."""
    page = format_page(make_node_families(counters)).decode()
    return {(one.name, *sorted(one.labels.items())): one.value
            for family in text_string_to_metric_families(page) for one in family.samples}


def test_a_node_has_six_counters():
    """A 0 has a line, so that a rate sees the first increase."""
    node = ("fs", "scratch"), ("node", "node1")
    assert {
        ("lustre_client_read_bytes_total", *node): 2300,
        ("lustre_client_write_bytes_total", *node): 9007199254740991,
        ("lustre_client_read_samples_total", *node): 23,
        ("lustre_client_write_samples_total", *node): 0,
        ("lustre_client_operations_total", ("component", "ost"), *node): 41,
        ("lustre_client_operations_total", ("component", "mdt"), *node): 43,
        } == samples(NodeCounter("scratch", "node1", [2300, 2**53 - 1, 23, 0, 41, 43], [0] * 6,
                                 False))


def test_what_may_be_too_low_is_marked():
    """Whatever its name."""
    assert 1 == samples(NodeCounter("a b", "\"\\\n\udcff", [0] * 6, [0] * 6, True))[
        "lustre_client_lower_bound", ("fs", "a b"), ("node", "\"\\\n\\udcff")]
