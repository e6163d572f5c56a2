"""
Events, and how storage servers stand, on the page for Prometheus.
"""
from __future__ import annotations

import re

from event_desk import an_event

from iostats.events.kinds import KINDS
from iostats.sinks.prometheus.event_page import MOST_FILE_SYSTEMS, EventCounts
from iostats.sinks.prometheus.metrics_server import format_page
from iostats.store.event_store import Change

NOW = 1795333379.25


def lines_of(counts, now=NOW):
    """{line without its value: value} of all that are not 0."""
    found = {}
    for line in format_page(counts.families(now)).decode().splitlines():
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
    counts.add([Change(evicted(23, 37), 60), Change(evicted(fs="home"), 1)])
    counts.add([Change(evicted(64, 37), 41), Change(an_event(kind="events_dropped", count=7), 7),
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
                       format_page(counts.families(NOW)).decode())
    assert sorted((fs, kind) for fs in ("", "scratch") for kind in KINDS) == sorted(found)


def test_labels_are_bounded():
    """Whatever names agents send."""
    counts = EventCounts()
    counts.add([Change(evicted(fs=f"fs{number}"), 1) for number in range(1000)])
    counts.stands("oss1", NOW, 10, {"targets": {f"more{n}-OST0000": {"state": "down"}
                                                for n in range(3000)}})
    text = format_page(counts.families(NOW)).decode()
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
    text = format_page(counts.families(NOW)).decode()
    assert 'iostats_storage_server_healthy{node="oss2"} 0.0\n' in text
    assert "oss5" not in text
    assert 'healthy{node="oss3"}' not in text and 'healthy{node="oss4"}' not in text


def test_capacities_are_those_of_the_server_that_has_the_target():
    members = dict(zip(("bytes_total", "bytes_free", "bytes_available", "inodes_total",
                        "inodes_free"), (4100, 2300, 1900, 410, 370)))
    counts = EventCounts()
    counts.stands("oss1", NOW, 10, {"targets": {"scratch-OST0003": {
        "state": "up", "clients": 0, "capacity": members}, "scratch-OST0004": {"state": "up"}}})
    counts.stands("oss2", NOW, 10, {"targets": {"scratch-OST0003": {"state": "down"}}})
    labels = '{fs="scratch",target="scratch-OST0003"}'
    found = {name: value for name, value in lines_of(counts).items() if "bytes" in name
             or "inodes" in name}
    assert {f"iostats_target_size_bytes{labels}": 4100, f"iostats_target_free_bytes{labels}": 2300,
            f"iostats_target_available_bytes{labels}": 1900, f"iostats_target_inodes{labels}": 410,
            f"iostats_target_free_inodes{labels}": 370} == found


def test_lnet_of_a_storage_server():
    lnet = dict(zip(("sent", "received", "routed", "dropped", "sent_bytes", "received_bytes",
                     "routed_bytes", "dropped_bytes", "waiting"),
                    (23, 37, 41, 43, 4700, 5300, 5900, 6100, 67)))
    counts = EventCounts()
    counts.stands("oss1", NOW, 10, {"targets": {}, "lnet": {
        **lnet, "down": ["10.9.1.2@o2ib"], "resent": 71, "response_timeouts": 73,
        "health": {"10.9.0.3@o2ib": 900}, "short_peers": {"10.9.1.23@o2ib": (2, -7)},
        "credits": {"o2ib": {"waiting": 67, "lowest": -79, "peers": 83, "waiting_peers": 11,
                             "peer_waiting": 89, "peer_lowest": -97},
                    "tcp": {"waiting": 0, "lowest": 5}}}})
    counts.stands("oss2", NOW, 10, {"targets": {}})     # without lnetctl: no family has it
    found = {name: value for name, value in lines_of(counts).items() if "lnet" in name}
    assert {**{f'iostats_lnet_messages_total{{kind="{kind}",node="oss1"}}': lnet[kind]
               for kind in ("sent", "received", "routed", "dropped")},
            **{f'iostats_lnet_bytes_total{{kind="{kind}",node="oss1"}}': lnet[f"{kind}_bytes"]
               for kind in ("sent", "received", "routed", "dropped")},
            'iostats_lnet_waiting_messages{node="oss1"}': 67,
            'iostats_lnet_credits_min{lnet="o2ib",node="oss1"}': -79,
            'iostats_lnet_credits_min{lnet="tcp",node="oss1"}': 5,
            'iostats_lnet_peers{lnet="o2ib",node="oss1"}': 83,
            'iostats_lnet_waiting_peers{lnet="o2ib",node="oss1"}': 11,
            'iostats_lnet_peer_waiting_messages{lnet="o2ib",node="oss1"}': 89,
            'iostats_lnet_peer_credits_min{lnet="o2ib",node="oss1"}': -97,
            'iostats_lnet_resent_messages_total{node="oss1"}': 71,
            'iostats_lnet_response_timeouts_total{node="oss1"}': 73,
            'iostats_lnet_health{nid="10.9.0.3@o2ib",node="oss1"}': 900,
            'iostats_lnet_down{nid="10.9.1.2@o2ib",node="oss1"}': 1} == {
        name: value for name, value in found.items() if "events" not in name}


def test_metrics_are_of_the_server_that_has_the_target_and_of_each_service():
    counts = EventCounts()
    status = {"targets": {"scratch-OST0003": {"state": "up"}}, "metrics": {
        "targets": {"scratch-OST0003": {"values": {"read_rpcs": 41, "locks": 53, "newer": 7},
                                        "gained": {}}},
        "services": {"ost_io": {"values": {"threads": 23, "requests": 37}, "gained": {}}}}}
    counts.stands("oss1", NOW, 10, status)
    counts.stands("oss2", NOW, 10, {"targets": {"scratch-OST0003": {"state": "down"}}})
    labels = '{fs="scratch",target="scratch-OST0003"}'
    assert {f"iostats_target_read_rpcs_total{labels}": 41, f"iostats_target_locks{labels}": 53,
            'iostats_service_threads{node="oss1",service="ost_io"}': 23,
            'iostats_service_requests_total{node="oss1",service="ost_io"}': 37} == {
        name: value for name, value in lines_of(counts).items()
        if "_target_" in name or "_service_" in name}
