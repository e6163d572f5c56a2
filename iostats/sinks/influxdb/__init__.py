"""
InfluxDB 2, and other databases that take its writes (VictoriaMetrics), through influxdb-client.

    lines       from sweeps to points, as lines of the line protocol
    node_lines  the same of nodes
    event_lines from events to points
    queue       points that wait for the database, in a directory
    database    where the database is, and what it answers to a write
    sender      the sink: two threads, one that keeps points and one that sends them
"""

from __future__ import annotations

from iostats.base.options import Option, absolute_path, choice, duration, number, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

NAME = "influxdb"
ABOUT = ("InfluxDB 2, VictoriaMetrics: a point of each job, or node, that did something in a "
         "sweep, and of each event")
IMPORTS = "influxdb_client"
REQUIRES = ("influxdb-client>=1.40",)

OPTIONS = {
    "url": Option("", printable, "http://HOST:PORT or https://HOST:PORT", (
        "The database that gets a point of each job that did something in a sweep: InfluxDB 2, "
        "VictoriaMetrics, or another one with /api/v2/write.  Empty: none.")),
    "org": Option("", printable, "a name", "The organization in that database."),
    "bucket": Option("iostats", printable, "a name", "The bucket in that database."),
    "token_file": Option("", printable, "a file", (
        "A file with the database's token in one line, with mode 0600.  Empty: no token.")),
    "file": Option("", printable, "a file", (
        "jobHarvest's file instead of url, org, bucket and token_file: URL, organization, bucket "
        "and token, one a line; its mode must be 0600.")),
    "ca_file": Option("", printable, "a file", "CA certificates for https.  Empty: the system's."),
    "schema": choice("full", ("full", "jobharvest", "both"), (
        "full: measurement lustre_job.  jobharvest: measurement lustre, as jobHarvest writes it.  "
        "docs/sinks.md has both.")),
    "by_target": choice("no", ("yes", "no"), (
        "yes: a point for each target (OST, MDT) that the job used, in the full schema; this is "
        "many more points.")),
    "by_node": choice("no", ("yes", "no"), (
        "yes: measurement lustre_client as well, a point of each node that did something to a file "
        "system in a sweep, by the exports of the storage servers.")),
    "max_nodes": number(1, 1_000_000, 1000, (
        "With by_node: the busiest nodes, up to this number, have points of their own; the others "
        "are added up as \"(others)\".")),
    "events": choice("yes", ("yes", "no"), (
        "yes: measurement lustre_event as well, a point of each event, for annotations.")),
    "timeout": duration(10, "A write that takes longer is tried again later."),
    "spool_dir": absolute_path("/var/lib/iostats/influxdb", "a directory", (
        "Where points wait for the database.")),
    "spool_bytes": number(1 << 16, 1 << 40, 1 << 30, (
        "When the waiting points are larger than this, compressed, the oldest are dropped.")),
}

NUMBERS = (
    ("iostats_influxdb_written_points", "counter", "Points written to the database."),
    ("iostats_influxdb_refused_points", "counter",
     "Points that the database rejected; they are in spool_dir/refused."),
    ("iostats_influxdb_dropped_points", "counter",
     "Points dropped because the spool was full, the oldest first."),
    ("iostats_influxdb_too_old_points", "counter",
     "Points of jobHarvest's schema not made, since their sweep was more than an hour ago."),
    ("iostats_influxdb_left_out_sweeps", "counter",
     "Sweeps skipped, since the one before was still being written."),
    ("iostats_influxdb_failures", "counter",
     "Failed writes; they are tried again."),
    ("iostats_influxdb_spooled_points", "gauge", "Points that wait for the database."),
    ("iostats_influxdb_spooled_bytes", "gauge",
     "Disk space of the points that wait."),
)


def is_on(config: Config) -> bool:
    """Whether a database is named."""
    return bool(config["influxdb.url"] or config["influxdb.file"])


def make(config: Config, say: Callable[[str], None], clock: Callable[[], float]) -> Any:
    """The sink; ConfigError."""
    from iostats.sinks.influxdb.sender import InfluxDB
    return InfluxDB(config, say, clock)
