"""
Events, and how storage servers stand, on the page for Prometheus.
"""
from __future__ import annotations

import re

from event_desk import an_event

from iostats.events.kinds import KINDS
from iostats.sinks.prometheus.event_page import MOST_FILE_SYSTEMS, EventCounts
from iostats.sinks.prometheus.metrics_server import page_of
from iostats.site.events.followers import Change

NOW = 1795333379.25


def lines_of(counts, now=NOW):
    """{line without its value: value} of all that are not 0."""
    found = {}
    for line in page_of(counts.families(now)).decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            if float(value):
                found[name] = float(value)
    return found


def evicted(count=1, skipped=0, fs="scratch", **fields):
    return an_event(kind="evicted", file_system=fs, count=count, skipped=skipped, **fields)


def test_what_happened_is_added_up_by_kind_and_file_system():
    """23 and 37 that one event has; another one of another file system; one that grows by 41."""
    counts = EventCounts()
    counts.take([Change(evicted(23, 37), 60), Change(evicted(fs="home"), 1)])
    counts.take([Change(evicted(64, 37), 41), Change(an_event(kind="events_dropped", count=7), 7),
                 Change(evicted(64, 37, over=NOW), 0)])
    assert {'iostats_events_total{fs="scratch",kind="evicted",severity="critical"}': 101,
            'iostats_events_total{fs="home",kind="evicted",severity="critical"}': 1,
            'iostats_events_total{fs="",kind="events_dropped",severity="warning"}': 7,
            "iostats_folded_events_total": 59 + 41 + 6,
            "iostats_dropped_events_total": 7} == lines_of(counts)


def test_every_kind_has_a_line_before_the_first_event():
    """increase() of a line that begins at 1 is 0."""
    counts = EventCounts()
    counts.see("scratch")
    found = re.findall(r'(?m)^iostats_events_total{fs="(\w*)",kind="(\w+)",severity="\w+"} 0\.0$',
                       page_of(counts.families(NOW)).decode())
    assert sorted((fs, kind) for fs in ("", "scratch") for kind in KINDS) == sorted(found)


def test_labels_are_bounded():
    """Whatever names agents send."""
    counts = EventCounts()
    counts.take([Change(evicted(fs=f"fs{number}"), 1) for number in range(1000)])
    counts.stands("oss1", NOW, 10, {"targets": {f"more{n}-OST0000": {"state": "down"}
                                                for n in range(3000)}})
    text = page_of(counts.families(NOW)).decode()
    assert MOST_FILE_SYSTEMS + 2 == len(set(re.findall(r'fs="([^"]*)",kind', text)))
    found = lines_of(counts)
    assert 1000 == sum(value for name, value in found.items() if "_events_total{" in name)
    assert 3000 == found['iostats_targets{fs="(others)",state="down"}']
    assert 1000 == len([name for name in found if name.startswith("iostats_target_not_up")])


def test_how_targets_stand():
    """After a failover the one that has a target knows; who is silent is not asked."""
    counts = EventCounts()
    counts.stands("oss1", NOW - 7, 10, {"health": "healthy", "targets": {
        "scratch-OST0000": {"state": "down"}, "scratch-OST0001": {"state": "up", "clients": 23},
        "MGS": {"state": "up"}}})
    counts.stands("oss2", NOW, 10, {"health": "NOT HEALTHY", "targets": {
        "scratch-OST0000": {"state": "recovering", "clients": 37},
        "scratch-OST0002": {"state": "down", "clients": None}}})
    counts.stands("oss3", NOW - 46, 10, {"health": "healthy", "targets": {
        "scratch-OST0003": {"state": "down"}}})
    counts.stands("oss5", NOW - 8 * 86400, 10, {"health": "healthy", "targets": {}})
    counts.stands("oss4", NOW - 44, 10, {"health": "", "targets": {}})
    assert {'iostats_targets{fs="scratch",state="up"}': 1,
            'iostats_targets{fs="scratch",state="recovering"}': 1,
            'iostats_targets{fs="scratch",state="down"}': 1,
            'iostats_targets{fs="",state="up"}': 1,
            'iostats_target_not_up{fs="scratch",node="oss2",state="recovering",'
            'target="scratch-OST0000"}': 1,
            'iostats_target_not_up{fs="scratch",node="oss2",state="down",'
            'target="scratch-OST0002"}': 1,
            'iostats_client_connections{fs="scratch"}': 60,
            'iostats_storage_server_healthy{node="oss1"}': 1,
            'iostats_storage_servers{state="heard"}': 3,
            'iostats_storage_servers{state="silent"}': 1} == {
        name: value for name, value in lines_of(counts).items() if "timestamp" not in name}
    text = page_of(counts.families(NOW)).decode()
    assert 'iostats_storage_server_healthy{node="oss2"} 0.0\n' in text
    assert "oss5" not in text
    assert 'healthy{node="oss3"}' not in text and 'healthy{node="oss4"}' not in text
