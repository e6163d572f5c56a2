"""
Events: their ids, their JSON, what two copies of one know together, and the line that people see.
"""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import is_printable
from iostats.events.event import (
    Event,
    as_json,
    describe_event,
    format_event,
    from_json,
    make_event,
    make_event_id,
    merge_copies,
    merge_copy,
)
from iostats.events.kinds import CAUSES, KINDS, SEVERITIES
from iostats.lustre import kernel_log, system_log

NID = "10.9.0.11@o2ib2"
EVICTED = make_event("a-boot", "oss1", ("log", "evicted"), "evicted", 1_795_333_379.25,
                     cause="silent",
                     file_system="scratch", target="scratch-OST0003", clients=[NID], count=37,
                     skipped=23, message="scratch-OST0003: haven't heard from client")


def test_the_kinds_are_those_of_the_log_of_the_files_three_of_ours_and_those_of_ldms():
    of_files = {"nearly_full", "target_full", "changelog_lag", "lnet_drops", "lnet_down",
                "router_down", "lnet_resends", "lnet_unhealthy", "quota_full", "no_grants",
                "requests_wait", "hsm_failed", "no_objects"}
    of_ldms = {"aggregator_down", "sampler_down", "ldmsd_restarted", "producers_moved",
               "description_valid", "command_refused", "not_described", "corrected", "etcd_away"}
    assert {*kernel_log.KINDS, *system_log.KINDS, "healthy", "log_lost", "events_dropped",
            *of_files, *of_ldms} - {"deactivated"} == set(KINDS)
    for kind in KINDS.values():
        assert 0 <= kind.severity < len(SEVERITIES)
        assert all(text and not text.endswith(".") for text in kind[1:])


def test_an_id_is_of_what_happened():
    assert make_event_id("a", "b") == make_event_id("a", "b")
    assert 5 == len({make_event_id("a", "b"), make_event_id("ab"), make_event_id("a", "b", ""),
                     make_event_id("b", "a"), make_event_id("a\0b")})
    assert 16 == len(EVICTED.id)
    again = make_event("a-boot", "oss2", ("log", "evicted"), "evicted", 7.0)
    assert EVICTED.id == again.id
    assert EVICTED.id != make_event("b-boot", "oss1", ("log", "evicted"), "evicted", 7.0).id


def test_what_is_made_is_bounded_and_fit_for_a_terminal():
    found = make_event("a", "n\x1b[2J", ("x",), "lbug", 23.0, last=7.0,
                       clients=map(chr, range(1, 38)), message="\x1b" * 1000)
    assert (23.0, 23.0, 3) == (found.time, found.last, found.severity)
    assert 8 == len(found.clients) and 500 == len(found.message)
    assert all(is_printable(text) for text in (found.node, found.message, *found.clients))


def test_json_and_back():
    assert EVICTED == from_json(json.loads(json.dumps(as_json(EVICTED))))
    assert 1_795_333_379.25 == as_json(EVICTED)["time"]
    assert EVICTED == from_json({**as_json(EVICTED), "place": 37})


def test_what_a_newer_release_sends_of_an_unknown_kind_is_other():
    found = from_json({**as_json(EVICTED), "kind": "on_fire", "cause": "sun", "severity": 3})
    assert ("other", "", 3) == (found.kind, found.cause, found.severity)


@pytest.mark.parametrize("changes, expected", [
    ({"id": "8C1d0f3a5be2a417"}, "16 digits"), ({"id": "23"}, "16 digits"), ({"id": 23}, "a text"),
    ({"time": "23"}, "seconds since 1970, got '23'"), ({"time": float("nan")}, "got nan"),
    ({"time": True}, "got True"), ({"last": -1}, "last: expected seconds"),
    ({"over": float("inf")}, "over: expected seconds"),
    ({"time": 10**400}, "time: expected seconds"), ({"severity": 4}, "from 0 to 3, got 4"),
    ({"severity": 1.0}, "severity: expected a number"), ({"count": 0}, "count: expected"),
    ({"skipped": -1}, "skipped: expected"), ({"count": 10**30}, "count: expected"),
    ({"clients": "a"}, "clients: expected up to 8 names"), ({"clients": ["a"] * 9}, "up to 8"),
    ({"clients": [23]}, "clients: expected a text"), ({"message": "a" * 501}, "500 characters"),
    ({"node": None}, "node: expected a text"), ({"node": ["\x1b[2J" * 100]}, "node: expected")])
def test_what_is_no_event_is_said_in_one_line(changes, expected):
    with pytest.raises(ValueError, match="an event: ") as error:
        from_json({**as_json(EVICTED), **changes})
    assert expected in str(error.value)
    assert is_printable(str(error.value)) and len(str(error.value)) < 200


def test_keys_that_are_missing_are_named():
    value = as_json(EVICTED)
    del value["skipped"]
    with pytest.raises(ValueError, match="expected 'skipped' in it"):
        from_json(value)
    with pytest.raises(ValueError, match="expected an object, got \\[23\\]"):
        from_json([23])


def test_the_copy_that_knows_more():
    grown = EVICTED._replace(count=41, last=1_795_333_381.0, clients=("10.9.0.12@o2ib2",))
    over = EVICTED._replace(over=1_795_333_422.0, time=1_795_333_379.0)
    together = merge_copies(merge_copies(EVICTED, grown), over)
    assert (41, 1_795_333_379.0, 1_795_333_381.0, 1_795_333_422.0) == (
        together.count, together.time, together.last, together.over)
    assert {NID, "10.9.0.12@o2ib2"} == set(together.clients)
    with pytest.raises(ValueError, match="two events"):
        merge_copies(EVICTED, EVICTED._replace(id="0" * 16))


texts = st.text(max_size=40)
times = st.floats(0, 2e9)
events = st.builds(
    lambda kind, time, texts, numbers, **more: make_event(
        "a-boot", texts[0], ("one",), kind, time, file_system=texts[1], target=texts[2],
        message=texts[3], count=numbers[0], skipped=numbers[1], **more),
    st.sampled_from(sorted(KINDS)), times, st.tuples(texts, texts, texts, texts),
    st.tuples(st.integers(1, 50), st.integers(0, 50)), last=times, over=st.none() | times,
    cause=st.sampled_from(CAUSES), clients=st.lists(st.sampled_from("abcdefghijkl"), max_size=8))


@given(events)
def test_any_event_is_its_json(event):
    assert event == from_json(json.loads(json.dumps(as_json(event))))
    assert is_printable(describe_event(event)) and "\n" not in describe_event(event)


@given(events, events)
def test_two_copies_in_any_order_are_one(one, other):
    both = merge_copies(one, other)
    assert both == merge_copies(other, one)._replace(clients=both.clients)
    assert both == merge_copies(both, one) == merge_copies(both, other)
    assert both.count == max(one.count, other.count)


@pytest.mark.parametrize("members, is_change", [
    ({"time": 1_795_333_378.5}, False), ({"last": 1_795_333_380.7}, False),
    ({"time": 1_795_333_376.0}, True), ({"last": 1_795_333_382.0}, True), ({"count": 41}, True),
    ({"count": 23}, False), ({"last": 1_795_333_380.7, "count": 41}, True),
    ({"over": 1_795_333_379.5}, True), ({"clients": (NID, "10.9.0.12@o2ib2")}, True)])
def test_a_copy_that_is_only_timed_again_is_no_change(members, is_change):
    copy = EVICTED._replace(**members)
    found = merge_copy(EVICTED, copy)
    assert (found is not EVICTED) is is_change
    assert found == (merge_copies(EVICTED, copy) if is_change else EVICTED)


def test_an_end_that_is_timed_again_is_no_change():
    """And a copy without the end takes it from none."""
    over = EVICTED._replace(over=1_795_333_422.0)
    assert over is merge_copy(over, EVICTED)
    assert over is merge_copy(over, over._replace(over=1_795_333_423.5))
    assert 1_795_333_424.0 == merge_copy(over, over._replace(over=1_795_333_424.0)).over
    assert EVICTED is merge_copy(None, EVICTED)


@given(events, events)
def test_a_copy_that_is_merged_again_is_no_change(one, other):
    known = merge_copy(one, other)
    assert known is merge_copy(known, other) and known is merge_copy(known, one)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from(Event._fields), inner, max_size=14)))
def test_any_json_is_an_event_or_a_line(value):
    try:
        found = from_json(value)
    except ValueError as error:
        assert is_printable(str(error)) and len(str(error)) < 200
    else:
        assert isinstance(found, Event)


def test_the_line_that_people_see():
    assert ("2026-11-22 07:42:59 critical oss1 evicted scratch-OST0003 37x node11,+36 (silent, "
            "over after 43 s, 23 more not logged): haven't heard from client"
            ) == describe_event(EVICTED._replace(over=1_795_333_422.0), {NID: "node11"}, utc=True)
    lost = make_event("a-boot", "n1", ("x",), "log_lost", 1_795_333_379.0, count=1200,
                      message="lost")
    assert "2026-11-22 07:42:59 warning log_lost 1,200x: lost" == describe_event(
        lost, utc=True, with_node=False)


@pytest.mark.parametrize("room, found", [
    (None, "evicted scratch-OST0003 37x nid00001,nid00002,nid00003,+34 (silent): gone"),
    (60, "evicted scratch-OST0003 37x nid00001,nid00002,+35 (silent): gone"),
    (59, "evicted scratch-OST0003 37x nid00001,nid00002,+35 (silent): gone"),
    (58, "evicted scratch-OST0003 37x nid00001,+36 (silent): gone"),
    (50, "evicted scratch-OST0003 37x nid00001,+36 (silent): gone"),
    (49, "evicted scratch-OST0003 37x (silent): gone"),
    (7, "evicted scratch-OST0003 37x (silent): gone")])
def test_where_there_is_little_room_fewer_clients_have_names(room, found):
    event = EVICTED._replace(clients=("nid00001", "nid00002", "nid00003"), skipped=0,
                             message="gone")
    assert found == format_event(event, room=room)


@pytest.mark.parametrize("target, message, found", [
    ("scratch-OST0003", "scratch-OST0003: it is gone", "lbug scratch-OST0003: it is gone"),
    ("scratch-OST0003", "scratch-OST0003-osc-ffff9a3c5d1e0800: gone",
     "lbug scratch-OST0003: scratch-OST0003-osc-ffff9a3c5d1e0800: gone"),
    ("scratch-OST0003", "scratch-OST0003", "lbug scratch-OST0003: scratch-OST0003"),
    ("", "scratch: it is gone", "lbug scratch: it is gone"),
    ("", "scratch-OST0003: gone", "lbug scratch: scratch-OST0003: gone")])
def test_the_target_that_is_shown_stands_once(target, message, found):
    """Another device that is like it stays, where there is room for it."""
    event = EVICTED._replace(kind="lbug", clients=(), count=1, skipped=0, cause="", target=target,
                             message=message)
    assert found == format_event(event)


@pytest.mark.parametrize("message, found", [
    ("scratch-OST0003: it is gone", "lbug scratch-OST0003 nid1: it is gone"),
    ("scratch-OST0003-osc-ffff9a3c5d1e0800: gone", "lbug scratch-OST0003 nid1: gone"),
    ("scratch-OST0003 is gone: now", "lbug scratch-OST0003 nid1: scratch-OST0003 is gone: now"),
    ("home-OST0003: gone", "lbug scratch-OST0003 nid1: home-OST0003: gone"),
    ("scratch-OST0003", "lbug scratch-OST0003 nid1: scratch-OST0003")])
def test_where_there_is_little_room_the_target_stands_once(message, found):
    event = EVICTED._replace(kind="lbug", clients=("nid1",), count=1, skipped=0, cause="",
                             message=message)
    assert found == format_event(event, room=10)


def test_where_there_is_little_room_a_file_system_stands_once():
    event = EVICTED._replace(kind="data_lost", clients=(), count=1, skipped=0, cause="", target="",
                             message="scratch: dirty page discard: x")
    assert "data_lost scratch: dirty page discard: x" == format_event(event, room=80)
