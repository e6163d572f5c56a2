"""An outage of a daemon is one event, whichever instances saw it; many at once are one."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.service import reports
from iostats_ldms.service.reports import DaemonStatus, ServiceEvent
from iostats_ldms.status.document import AGGREGATOR, SAMPLER, decode_status, encode_status
from iostats_ldms.status.history import GroupHistory

WHO = "ldms-orion"


def history(before=None, role=AGGREGATOR, instance="mgmt1.23"):
    return GroupHistory(WHO, instance, "agg-[1-3]", role, 1, before)


def daemon(name, state="up", since=10.0, why="", restarts=0, **more):
    return DaemonStatus(name, "agg-[1-3]", "aggregator", state, since, why, restarts, True, **more)


def happening(kind, name, time, text="", count=1):
    return ServiceEvent(kind, "agg-[1-3]", name, text or f"{name}: {kind}", time, count)


def kept(status):
    """As the next owner has it from etcd."""
    return decode_status(encode_status(status))


def test_an_outage_is_one_event_that_grows_when_it_is_over():
    own = history()
    first = own.status(37, [daemon("agg-1"), daemon("agg-2", "down", 23.0, "refused")], (), 24.0)
    [event] = first.events
    assert ("aggregator_down", 23.0, None, WHO, "agg-2: refused") == (
        event.kind, event.time, event.over, event.node, event.message)
    assert ["", event.id] == [row.event for row in first.rows]
    assert first.events == own.status(37, [daemon("agg-1"), daemon("agg-2", "down", 23.0)], (),
                                      25.0).events
    over = own.status(37, [daemon("agg-1"), daemon("agg-2", "up", 41.0)], (), 42.0)
    assert [event._replace(over=41.0, last=41.0)] == list(over.events)


def test_a_status_is_as_old_as_the_reading_of_its_daemon_that_was_read_longest_ago():
    rows = [daemon("agg-1", read_at=41.0), daemon("agg-2", "down", 23.0, read_at=11.0),
            daemon("agg-3", read_at=37.0)]
    assert (37.0, 43.0) == (history().status(37, rows, (), 43.0).read_at,
                            history().status(37, rows, (), 43.0).time)
    assert 37.0 == kept(history().status(37, rows, (), 43.0)).read_at
    assert 0.0 == history().status(37, rows[1:2], (), 43.0).read_at, "no daemon was read"


def test_another_instance_goes_on_with_it():
    """Its service saw the daemon down at 60 first; the outage began at 23."""
    before = history().status(37, [daemon("agg-2", "down", 23.0, "refused", 3)], (), 24.0)
    other = history(kept(before), instance="mgmt2.37")
    now = other.status(37, [daemon("agg-2", "down", 60.0, "timeout", 1)],
                       [happening(reports.DOWN, "agg-2", 60.0)], 61.0)
    assert before.events == now.events
    [row] = now.rows
    assert (23.0, 3, now.events[0].id, "mgmt2.37") == (row.since, row.restarts, row.event,
                                                       now.instance)
    still = other.status(37, [daemon("agg-2", "down", 60.0, "timeout", 1)], (), 62.0)
    assert 23.0 == still.rows[0].since
    over = other.status(37, [daemon("agg-2", "up", 71.0, restarts=2)], (), 72.0)
    assert (71.0, 71.0, 4) == (over.events[0].over, over.rows[0].since, over.rows[0].restarts)


def test_restarts_are_counted_once_by_who_has_the_group_again():
    own = history()
    own.status(37, [daemon("agg-2")], (), 24.0)
    before = own.status(37, [daemon("agg-2", since=41.0, restarts=2)], (), 42.0)
    again = history(kept(before))               # its lease was over; the service went on to count
    assert [2] == [row.restarts for row in again.status(
        37, [daemon("agg-2", since=41.0, restarts=2)], (), 60.0).rows]
    assert [3] == [row.restarts for row in again.status(
        37, [daemon("agg-2", since=71.0, restarts=3)], (), 72.0).rows]


@pytest.mark.parametrize("kept_as, seen, restarts", [
    (daemon("agg-2", restarts=3, config_counter=23),
     [daemon("agg-2", config_counter=19)], 4),
    (daemon("agg-2", restarts=3, config_counter=23),
     [daemon("agg-2", config_counter=23)], 3),
    (daemon("agg-2", "down", 23.0, restarts=3, config_counter=23, has_ended=True),
     [daemon("agg-2", config_counter=41)], 4),
    (daemon("agg-2", "down", 23.0, restarts=3, config_counter=23),
     [daemon("agg-2", config_counter=23)], 3),
    (daemon("agg-2", restarts=3, config_counter=23),
     [daemon("agg-2", "unknown"), daemon("agg-2", "down", 60.0, has_ended=True),
      daemon("agg-2", config_counter=41), daemon("agg-2", config_counter=7)], 4),
    (daemon("agg-2", restarts=3, config_counter=23),
     [daemon("agg-2", "unknown"), daemon("agg-2", restarts=1, config_counter=19)], 4),
    (daemon("agg-2", "down", 23.0, has_ended=True),
     [daemon("agg-2", config_counter=19)], 0),
], ids=["a smaller counter", "the same process", "it was seen to end", "its host was silent",
        "it ended before we heard of it", "the service counted it", "it never ran before"])
def test_a_restart_while_a_group_changes_its_owner_is_counted_once(kept_as, seen, restarts):
    before = history().status(37, [kept_as], (), 24.0)
    other = history(kept(before), instance="mgmt2.37")
    other.status(37, [daemon("agg-2", "unknown")], (), 60.0)
    now = before
    for state in seen:
        now = other.status(37, [state], (), 61.0)
    assert [restarts] == [row.restarts for row in now.rows]
    is_reported = [event.message for event in now.events if event.kind == "ldmsd_restarted"]
    by_service = any(state.restarts for state in seen)
    assert is_reported == ["agg-2 was restarted"] * (
        restarts - kept_as.restarts - by_service)


def test_what_came_back_while_no_instance_looked_is_over():
    before = history().status(37, [daemon("agg-2", "down", 23.0)], (), 24.0)
    [event] = history(kept(before)).status(37, [daemon("agg-2", "up", 60.0)], (), 61.0).events
    assert 60.0 == event.over


def test_a_daemon_that_is_not_described_any_more_is_not_down():
    own = history()
    own.status(37, [daemon("agg-1"), daemon("agg-2", "down", 23.0)], (), 24.0)
    [event] = own.status(41, [daemon("agg-1")], (), 30.0).events
    assert 30.0 == event.over


def test_an_outage_between_two_looks_is_told():
    own = history()
    own.status(37, [daemon("agg-2")], (), 20.0)
    now = own.status(37, [daemon("agg-2", "up", 23.5)], [
        happening(reports.DOWN, "agg-2", 23.0, "agg-2: connection reset"),
        happening(reports.BACK, "agg-2", 23.5)], 24.0)
    assert [("aggregator_down", 23.0, 23.5, "agg-2: connection reset")] == [
        (event.kind, event.time, event.over, event.message) for event in now.events]


@pytest.mark.parametrize("kind, name, expected", [
    (reports.RESTARTED, "agg-1", "ldmsd_restarted"), (reports.MOVED, "", "producers_moved"),
    (reports.REFUSED, "agg-1", "command_refused"), (reports.FOREIGN, "agg-1", "not_described"),
    (reports.CORRECTED, "agg-1", "corrected")])
def test_what_the_service_did_is_an_event(kind, name, expected):
    now = history().status(37, [daemon("agg-1")], [happening(kind, name, 23.0, "said", 19)], 24.0)
    assert [(expected, 23.0, 19, f"{name}: said" if name else "said")] == [
        (event.kind, event.time, event.count, event.message) for event in now.events]


def test_many_samplers_that_go_at_once_are_one_event():
    own = history(role=SAMPLER)
    nodes = [daemon(f"node{number}", "down", 23.0, "no route to host") for number in range(5000)]
    now = own.status(37, nodes, [happening(reports.DOWN, node.name, 23.0) for node in nodes], 24.0)
    [event] = now.events
    assert ("sampler_down", 5000, None) == (event.kind, event.count, event.over)
    assert event.message.startswith("node0, node1, node2, node3, node4 and 4,995 more: ")
    assert (1000, 4000) == (len(now.rows), now.unlisted)
    assert now.events == own.status(37, nodes, (), 25.0).events
    other = history(kept(now), role=SAMPLER)
    assert now.events == other.status(37, nodes, [
        happening(reports.DOWN, node.name, 60.0) for node in nodes[1000:1010]], 61.0).events
    back = own.status(37, [daemon(node.name) for node in nodes], (), 70.0)
    assert ((event,), 5000) == (back.events, back.well)


def test_events_are_bounded_and_those_that_are_not_over_stay():
    own = history()
    own.status(37, [daemon("agg-1", "down", 5.0)], (), 6.0)
    now = own.status(37, [daemon("agg-1", "down", 5.0)], [
        happening(reports.MOVED, "", 10.0 + number, f"{number}") for number in range(500)], 600.0)
    assert 100 == len(now.events)
    assert ("aggregator_down", "401") == (now.events[0].kind, now.events[1].message)


states = st.lists(st.tuples(st.sampled_from(["agg-1", "agg-2", "agg-3"]),
                            st.sampled_from(["up", "down", "hung"]), st.booleans()), max_size=30)


@given(states)
def test_each_outage_has_one_event_however_owners_change(walk):
    """(daemon, its state from then on, whether another instance takes the group)."""
    own, status = history(), None
    now = {name: daemon(name) for name in ("agg-1", "agg-2", "agg-3")}
    outages, clock = 0, 20.0
    for name, state, is_taken in walk:
        clock += 1.0
        was = now[name].state
        if state != was:
            now[name] = daemon(name, state, clock)
            outages += was == "up"
        if is_taken and status is not None:
            own = history(kept(status))
            now = {one.name: daemon(one.name, one.state, max(one.since, clock))
                   for one in now.values()}
        status = own.status(37, list(now.values()), (), clock)
    events = status.events if status else ()
    assert outages == len(events) == len({event.id for event in events})
    assert sum(one.state != "up" for one in now.values()) == sum(
        event.over is None for event in events)
