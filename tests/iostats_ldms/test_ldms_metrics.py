"""The page for Prometheus of an instance of `iostats ldms run`."""
import socket
from urllib.request import urlopen

import pytest

from iostats.base import config as site
from iostats.base.errors import ConfigError
from iostats_ldms.service.reports import MOVED, DaemonStatus, ServiceEvent, ServiceStatus
from iostats_ldms.status.document import GroupInfo
from iostats_ldms.status.instance import Instance


def config_of(tmp_path, **choices):
    path = tmp_path / "site.cfg"
    path.write_text("[ldms]\n" + "".join(f"{key} = {value}\n" for key, value in choices.items()))
    return site.load(str(path), environ={})


def test_daemons_loads_and_what_happened(tmp_path):
    said = []
    beside = Instance(config_of(tmp_path, metrics="127.0.0.1:0"), None, said.append)
    try:
        beside.on_event(ServiceEvent(MOVED, "aggs", "", "23 producers moved: 23 to agg-1", 7.0, 23))
        beside.reporter.report(ServiceStatus(37, (
            DaemonStatus("agg-1", "aggs", "aggregator", "up", 5.0, as_described=True, producers=41,
                        connected=29, sets=31, load=1.93),
            DaemonStatus("agg-2", "aggs", "aggregator", "down", 6.0, "refused"),
            DaemonStatus("node1", "nodes", "sampler", "up", 5.0, as_described=True),
            DaemonStatus("node2", "nodes", "sampler", "up", 5.0, wrong=("load",)))),
            {"aggs": GroupInfo("aggregator", 1, 2), "nodes": GroupInfo("sampler", 0, 2)})
        page = urlopen("http://%s:%d/metrics" % beside.metrics_address).read().decode()
    finally:
        beside.end()
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
    of = '{group="aggs",aggregator="agg-1"}'
    for name, value in {
            'iostats_ldms_daemons{group="aggs",role="aggregator",state="up"}': 1,
            'iostats_ldms_daemons{group="aggs",role="aggregator",state="down"}': 1,
            'iostats_ldms_daemons{group="nodes",role="sampler",state="up"}': 2,
            'iostats_ldms_not_as_described{group="nodes",role="sampler"}': 1,
            f"iostats_ldms_aggregator_producers{of}": 41,
            f"iostats_ldms_aggregator_connected{of}": 29, f"iostats_ldms_aggregator_sets{of}": 31,
            f"iostats_ldms_aggregator_load{of}": 1.93,
            'iostats_ldms_service_events_total{kind="moved"}': 23,
            "iostats_ldms_description_revision": 37}.items():
        found = [float(one) for key, one in values.items() if _parts(key) == _parts(name)]
        assert [value] == found, (name, page)
    # What is unknown has no line.
    assert not [key for key in values if "agg-2" in key]
    assert ["producers_moved 23x: 23 producers moved: 23 to agg-1", "agg-2: refused"] == [
        line.partition("info " if number == 0 else "aggregator_down: ")[2]
        for number, line in enumerate(said)]


def _parts(series):
    """A series whatever the order of its labels."""
    name, _, labels = series.partition("{")
    return name, frozenset(labels.rstrip("}").split(","))


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError) as refusal:
            Instance(config_of(tmp_path, metrics=where), None, print)
    assert str(refusal.value) == (
        f"{tmp_path}/site.cfg:2: [ldms] metrics: cannot listen on {where}: Address already in use; "
        f"is another exporter there?")
    with pytest.raises(ConfigError, match=r"site.cfg:2: \[ldms\] metrics: expected HOST:PORT such"):
        Instance(config_of(tmp_path, metrics="here"), None, print)
