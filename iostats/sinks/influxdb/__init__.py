"""
InfluxDB 2, and other databases that take its writes (VictoriaMetrics), by HTTP.

    lines       from sweeps and events to points, as lines of the line protocol
    database    where the database is, and how it answers a write
    sender      the sink: points that wait in a directory, and the threads that store and send them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.option_kinds import (
    Section,
    check_printable,
    choice_option,
    duration_option,
    number_option,
    option,
    path_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.sinks.influxdb.sender import InfluxDB

NAME = "influxdb"
ABOUT = ("InfluxDB 2, VictoriaMetrics: a point of each job, or node, that did something in a "
         "sweep, and of each event")
IMPORTS = ""
REQUIRES = ()


class InfluxdbSection(Section):
    """[influxdb]: the database."""

    url = option("", check_printable, "http://HOST:PORT or https://HOST:PORT", (
        "The database that gets a point of each job that did something in a sweep: InfluxDB 2, "
        "VictoriaMetrics, or another one with /api/v2/write.  Empty: none."))
    org = option("", check_printable, "a name", "The organization in that database.")
    bucket = option("iostats", check_printable, "a name", "The bucket in that database.")
    token_file = option("", check_printable, "a file", (
        "A file with the database's token in one line, with mode 0600.  Empty: no token."))
    file = option("", check_printable, "a file", (
        "jobHarvest's file instead of url, org, bucket and token_file: URL, organization, bucket "
        "and token, one a line; its mode must be 0600."))
    ca_file = option("", check_printable, "a file",
                     "CA certificates for https.  Empty: the system's.")
    schema = choice_option("full", ("full", "jobharvest", "both"), (
        "full: measurement lustre_job.  jobharvest: measurement lustre, as jobHarvest writes it.  "
        "docs/how-to/sinks.md has both."))
    by_target = choice_option("no", ("yes", "no"), (
        "yes: a point for each target (OST, MDT) that the job used, in the full schema; this is "
        "many more points."))
    by_node = choice_option("no", ("yes", "no"), (
        "yes: measurement lustre_client as well, a point of each node that did something to a file "
        "system in a sweep, by the exports of the storage servers."))
    max_nodes = number_option(1, 1_000_000, 1000, (
        "With by_node: the busiest nodes, up to this number, have points of their own; the others "
        "are added up as \"(others)\"."))
    events = choice_option("yes", ("yes", "no"), (
        "yes: measurement lustre_event as well, a point of each event, for annotations."))
    timeout = duration_option(10, "A write that takes longer is tried again later.")
    spool_dir = path_option("/var/lib/iostats/influxdb", "a directory", (
        "Where points wait for the database."))
    spool_bytes = number_option(1 << 16, 1 << 40, 1 << 30, (
        "When the waiting points are larger than this, compressed, the oldest are dropped."))


SECTION = InfluxdbSection

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
    options = config.find_section(InfluxdbSection)
    return bool(options.url or options.file)


def make(config: Config, emit: Callable[[str], None], clock: Callable[[], float]) -> InfluxDB:
    """The sink; ConfigError."""
    from iostats.sinks.influxdb.sender import InfluxDB
    return InfluxDB(config, emit, clock)
