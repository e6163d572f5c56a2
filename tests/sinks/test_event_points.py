"""
Events in InfluxDB's sink: they wait on the disk, and in a real VictoriaMetrics one that grows has
one point.
"""
from __future__ import annotations

import time

import pytest
from event_desk import an_event
from sink_desk import Answering, Said, Victoria, config_of, now_slot, sent

from iostats.sinks import influxdb

EVICTED = an_event(id="8c1d0f3a5be2a417", kind="evicted", severity=2, file_system="scratch",
                   target="scratch-OST0003", count=23)


def test_events_wait_on_the_disk_for_the_database(tmp_path):
    """Also for one that was restarted: the sink's end loses none."""
    config = config_of(influxdb_url="http://127.0.0.1:1", influxdb_spool_dir=tmp_path)
    sink = influxdb.make(config, Said(), time.time)
    assert 2 == sink.store_events([EVICTED, EVICTED._replace(id="0" * 16, time=23.0)], {})
    sink.close()
    assert 0 == sink.store_events([EVICTED], {})
    database = Answering()
    again = influxdb.make(config_of(influxdb_url=database.url, influxdb_spool_dir=tmp_path), Said(),
                          time.time)
    try:
        sent(again)
    finally:
        again.close()
        database.close()
    [lines] = [lines for _, _, lines in database.writes]
    assert ["1795333379250", "23000"] == [line.rpartition(" ")[2] for line in lines]


def test_no_events_where_site_cfg_says_so(tmp_path):
    """Then nobody keeps a place for it."""
    sink = influxdb.make(config_of(influxdb_url="http://127.0.0.1:1", influxdb_spool_dir=tmp_path,
                                   influxdb_events="no"), Said(), time.time)
    sink.close()
    assert not hasattr(sink, "store_events")


@pytest.mark.victoria
def test_an_event_that_grows_overwrites_its_point_in_a_real_database(tmp_path):
    """One of 23, then of 41; and another target's."""
    victoria, at = Victoria(tmp_path / "data"), now_slot()
    config = config_of(influxdb_url=victoria.url, influxdb_spool_dir=tmp_path / "spool")
    sink = influxdb.make(config, Said(), time.time)
    one = EVICTED._replace(time=float(at), last=float(at))
    try:
        sink.store_events([one, one._replace(id="0" * 16, target="scratch-OST0004", count=7)], {})
        sink.store_events([one._replace(count=41)], {})
        sent(sink)
        found = {dict(labels)["target"]: set(values.values()) for (name, labels), values
                 in victoria.series('{__name__="lustre_event_count"}').items()}
        [last] = victoria.query(
            'last_over_time(lustre_event_count{target="scratch-OST0003"}[1m])', at + 1).values()
    finally:
        sink.close()
        victoria.stop()
    assert ({7.0}, 41.0) == (found["scratch-OST0004"], last)
