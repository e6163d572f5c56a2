"""
Events as points of InfluxDB's line protocol, by hand.
"""
from __future__ import annotations

from event_desk import an_event
from hypothesis import given
from hypothesis import strategies as st

from iostats.sinks.influxdb.lines import EventLines, StatusLines

EVICTED = an_event(id="8c1d0f3a5be2a417", kind="evicted", cause="silent", severity=2, node="oss 3",
                   file_system="scratch", target="scratch-OST0003", count=23, skipped=37,
                   clients=("10.9.0.11@o2ib", "10.9.0.12@o2ib"), message='he said "no" \\')
HEAD = ("lustre_event,kind=evicted,severity=critical,cause=silent,fs=scratch,"
        "target=scratch-OST0003,node=oss\\ 3")


def test_an_event_is_a_point_at_the_time_it_began():
    """With text in quotes, and names of nodes where they are known."""
    assert [f'{HEAD} count=23i,skipped=37i,id="8c1d0f3a5be2a417",'
            f'message="he said \\"no\\" \\\\",clients="node11 10.9.0.12@o2ib" 1795333379250'] == (
        EventLines().lines([EVICTED], {"10.9.0.11@o2ib": "node11"}))


def test_an_event_that_grows_keeps_its_point():
    """Tags and time as they were at first, whatever became known later."""
    lines = EventLines()
    lines.lines([EVICTED], {})
    [again] = lines.lines([EVICTED._replace(time=EVICTED.time - 5, severity=3, count=41,
                                            over=EVICTED.time + 38)], {})
    assert again.startswith(f"{HEAD} count=41i,skipped=37i,duration_ms=43000i,id=")
    assert again.endswith(" 1795333379250")


@given(text=st.text(), moment=st.floats(0, 2**53))
def test_whatever_a_message_says_it_is_one_line(text, moment):
    """With an even number of quotes that are not escaped."""
    [line] = EventLines().lines([EVICTED._replace(message=text, target=text, time=moment)], {})
    assert "\n" not in line
    _, _, fields = line.partition(" count=")
    assert 0 == fields.replace("\\\\", "").replace('\\"', "").count('"') % 2
    assert int(line.rpartition(" ")[2]) < 2**63 / 10**6


def test_a_capacity_is_a_point_when_it_changes_and_every_ten_minutes():
    lines, now = StatusLines(), 1_795_333_379.0
    capacity = dict(zip(("bytes_total", "bytes_free", "bytes_available", "inodes_total",
                         "inodes_free"), (4100, 2300, 1900, 410, 370)))
    lines.add("oss1", now, {"targets": {
        "scratch-OST0003": {"state": "up", "capacity": capacity}, "scratch-OST0004": {}}})
    assert ["lustre_capacity,fs=scratch,target=scratch-OST0003,node=oss1 bytes_total=4100i,"
            "bytes_free=2300i,bytes_available=1900i,inodes_total=410i,inodes_free=370i "
            "1795333379000"] == lines.lines()
    lines.add("oss1", now + 599, {"targets": {"scratch-OST0003": {"capacity": capacity}}})
    assert [] == lines.lines()
    lines.add("oss1", now + 600, {"targets": {"scratch-OST0003": {"capacity": capacity}}})
    lines.add("oss1", now + 610, {"targets": {"scratch-OST0003": {
        "capacity": {**capacity, "bytes_free": 23}}}})
    [line] = lines.lines()
    assert "bytes_free=23i" in line and line.endswith(" 1795333989000")


def test_lnet_of_a_storage_server_is_a_point():
    lines = StatusLines()
    lines.add("oss1", 1_795_333_379.0, {"lnet": {"sent": 23, "dropped": 37, "waiting": 41,
                                                 "down": ["10.9.1.2@o2ib"]}})
    assert ["lustre_lnet,node=oss1 sent=23i,dropped=37i,waiting=41i 1795333379000"] == lines.lines()
    lines.add("oss1", 1_795_333_439.0, {"lnet": {
        "sent": 23, "waiting": 41, "down": [], "resent": 43, "response_timeouts": 47,
        "health": {"10.9.0.3@o2ib": 1000, "10.9.8.3@tcp": 900},
        "short_peers": {"10.9.1.23@o2ib": (2, -7)}, "credits": {"o2ib": {
            "waiting": 41, "lowest": -53, "peers": 59, "waiting_peers": 1, "peer_waiting": 2,
            "peer_lowest": -7}}}})
    assert ["lustre_lnet,node=oss1 sent=23i,waiting=41i,resent=43i,response_timeouts=47i,"
            "lowest_health=900i 1795333439000",
            "lustre_lnet_credits,lnet=o2ib,node=oss1 waiting=41i,lowest=-53i,peers=59i,"
            "waiting_peers=1i,peer_waiting=2i,peer_lowest=-7i 1795333439000"] == lines.lines()


def test_metrics_of_targets_and_services_are_points():
    lines = StatusLines()
    lines.add("oss1", 1_795_333_379.0, {"metrics": {
        "targets": {"scratch-OST0003": {"values": {"locks": 53, "read_rpcs": 41}},
                    "scratch-OST0004": {"values": {}}},
        "services": {"ost_io": {"values": {"threads": 23}}}}})
    assert ["lustre_target,fs=scratch,target=scratch-OST0003,node=oss1 locks=53i,read_rpcs=41i "
            "1795333379000",
            "lustre_service,node=oss1,service=ost_io threads=23i 1795333379000"] == lines.lines()
