"""
Prometheus: GET /metrics on an address of its own, with the names that dashboards already use.

    page        which jobs are on the page, and their amounts as prometheus_client's families
    node_page   the same of nodes
    event_page  events, and how storage servers stand
    exporter    the sink: the page after each sweep
    metrics_server  its HTTP server, which others use as well

The page is made after each sweep, and is the same until the next.
"""

from __future__ import annotations

from iostats.base.options import Option, choice, number, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

NAME = "prometheus"
ABOUT = "Prometheus: a page of metrics of the busiest jobs and nodes, and of events, GET /metrics"
IMPORTS = "prometheus_client"
REQUIRES = ("prometheus_client>=0.19",)

OPTIONS = {
    "listen": Option("", printable, "HOST:PORT", (
        "Where GET /metrics is answered, such as 127.0.0.1:9464; everyone who can "
        "connect sees all users' jobs.  Empty: nowhere.")),
    "max_jobs": number(1, 1_000_000, 1000, (
        "The busiest jobs, up to this number, have lines of their own; the others are added up "
        "as \"(others)\".")),
    "max_nodes": number(0, 1_000_000, 0, (
        "What each node does to each file system, too, by the exports of the storage servers: the "
        "busiest nodes, up to this number, have lines of their own; the others are added up as "
        "\"(others)\".  0: no nodes.")),
    "by_target": choice("no", ("yes", "no"), (
        "yes: a line for each target (OST, MDT); this is many more lines.")),
}

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
    return bool(config["prometheus.listen"])


def make(config: Config, say: Callable[[str], None], clock: Callable[[], float]) -> Any:
    """The sink; ConfigError."""
    from iostats.sinks.prometheus.exporter import Prometheus
    return Prometheus(config, clock)
