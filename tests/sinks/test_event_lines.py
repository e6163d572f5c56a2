"""
Events as points of InfluxDB's line protocol, by hand.
"""
from __future__ import annotations

from event_desk import an_event
from hypothesis import given
from hypothesis import strategies as st

from iostats.sinks.influxdb.event_lines import EventLines

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
