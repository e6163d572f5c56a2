"""
Prometheus: GET /metrics on an address of its own, with the names that dashboards already use.

    page            amounts of jobs and nodes, as prometheus_client's families
    event_page      events, and the state of storage servers
    exporter        the sink: the page after each sweep
    metrics_server  its HTTP server, which other programs of ours use as well

The page is made after each sweep, and is the same until the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.option_kinds import Section, check_printable, choice_option, number_option, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.sinks.prometheus.exporter import Prometheus

NAME = "prometheus"
ABOUT = "Prometheus: a page of metrics of the busiest jobs and nodes, and of events, GET /metrics"
IMPORTS = "prometheus_client"
REQUIRES = ("prometheus_client>=0.19",)


class PrometheusSection(Section):
    """[prometheus]: the page of metrics."""

    listen = option("", check_printable, "HOST:PORT", (
        "Where GET /metrics is answered, such as 127.0.0.1:9464; everyone who can "
        "connect sees all users' jobs.  Empty: nowhere."))
    max_jobs = number_option(1, 1_000_000, 1000, (
        "The busiest jobs, up to this number, have lines of their own; the others are added up "
        "as \"(others)\"."))
    max_nodes = number_option(0, 1_000_000, 0, (
        "What each node does to each file system, too, by the exports of the storage servers: the "
        "busiest nodes, up to this number, have lines of their own; the others are added up as "
        "\"(others)\".  0: no nodes."))
    by_target = choice_option("no", ("yes", "no"), (
        "yes: a line for each target (OST, MDT); this is many more lines."))


SECTION = PrometheusSection

NUMBERS = (
    ("iostats_jobs", "gauge", "Jobs that the targets know."),
    ("iostats_prometheus_shown_jobs", "gauge",
     "Jobs that have lines of their own here ([prometheus] max_jobs)."),
    ("iostats_nodes", "gauge", "Nodes that the storage servers know ([prometheus] max_nodes)."),
    ("iostats_prometheus_shown_nodes", "gauge",
     "Nodes that have lines of their own here ([prometheus] max_nodes)."),
    ("iostats_prometheus_left_out_sweeps", "counter",
     "Sweeps skipped, since the page of the one before was still being made."),
)

MOST_CONNECTIONS = 128          # at more, those that have been silent the longest are closed


def is_on(config: Config) -> bool:
    """Whether it is to listen anywhere."""
    return bool(config.find_section(PrometheusSection).listen)


def make(config: Config, emit: Callable[[str], None], clock: Callable[[], float]) -> Prometheus:
    """The sink; ConfigError."""
    from iostats.sinks.prometheus.exporter import Prometheus
    return Prometheus(config, clock)
