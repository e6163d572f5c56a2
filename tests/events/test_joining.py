"""
Joining: one event of what two sources say, what ends another, and evictions that were counted.
"""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.events.event import make_event, merge_copies
from iostats.events.joining import Joiner

OST = "scratch-OST0003"
AT = 1_795_333_379.0


def event(kind, seconds, name="a", *, source="log", target=OST, **more):
    return make_event("a-boot", more.pop("node", "n1"), (source, kind, target, name), kind,
                      AT + seconds,
                      target=target, **more)


def acknowledge(joiner, *events):
    """[(kind, id)] of what is to be told of (source, event)."""
    return [(one.kind, one.id) for source, found in events for one in joiner.add(found, source)]


def test_two_sources_that_tell_of_one_eviction():
    """A node's log and the history of its import: the id is that of the first."""
    joiner = Joiner()
    first, other = event("evicted", 0), event("evicted", 2, source="imports", over=AT + 43)
    [one] = joiner.add(first, "log")
    [both] = joiner.add(other, "imports")
    assert (first.id, AT + 43, AT) == (both.id, both.over, both.time) and one.over is None
    assert [] == joiner.add(other, "imports") == joiner.add(first, "log")


@pytest.mark.parametrize("other", [
    event("evicted", 23, source="imports"),                                 # later
    event("evicted", 0, source="imports", target="scratch-OST0037"),        # another target
    event("evicted", 0, source="imports", cause="silent"),                  # a storage server's
    event("connection_lost", 0, source="imports")])
def test_what_is_another_happening(other):
    joiner = Joiner()
    joiner.add(event("evicted", 0), "log")
    assert other.id in [one.id for one in joiner.add(other, "imports")]


def test_two_events_of_one_source_are_two():
    joiner = Joiner()
    joiner.add(event("evicted", 0, "a"), "log")
    [other] = joiner.add(event("evicted", 1, "b"), "log")
    assert event("evicted", 1, "b").id == other.id


def test_what_lustre_said_is_the_message():
    joiner = Joiner()
    joiner.add(event("recovery", 0, source="recovery", message="ours"), "recovery")
    [both] = joiner.add(event("recovery", 3, message="Lustre's"), "log")
    assert "Lustre's" == both.message
    assert [] == joiner.add(event("recovery", 0, source="recovery", message="ours"), "recovery")


@pytest.mark.parametrize("kind, by, ends", [
    ("connection_lost", "connection_restored", True), ("evicted", "connection_restored", True),
    ("timeouts", "connection_restored", True), ("target_down", "target_up", True),
    ("not_healthy", "healthy", True), ("evicted", "target_up", False), ("lbug", "healthy", False)])
def test_what_ends_another(kind, by, ends):
    joiner = Joiner()
    joiner.add(event(kind, 0), "log")
    found = {one.kind: one for one in joiner.add(event(by, 43), "log")}
    assert by in found
    assert (AT + 43 if ends else None) == (found[kind].over if kind in found else None)


def test_a_storage_servers_eviction_is_not_over_when_a_client_is_back():
    joiner = Joiner()
    joiner.add(event("evicted", 0, cause="silent"), "log")
    assert ["connection_restored"] == [
        one.kind for one in joiner.add(event("connection_restored", 43), "log")]


def test_another_nodes_loss_is_not_over():
    joiner = Joiner()
    joiner.add(event("connection_lost", 0, node="n2"), "log")
    assert 1 == len(joiner.add(event("connection_restored", 43), "log"))


def test_a_loss_that_comes_back_is_over_later():
    joiner = Joiner()
    joiner.add(event("connection_lost", 0), "log")
    joiner.add(event("connection_restored", 1), "log")
    joiner.add(event("connection_lost", 0, last=AT + 5, count=2), "log")
    [_, lost] = joiner.add(event("connection_restored", 1, last=AT + 7, count=2), "log")
    assert AT + 7 == lost.over


def test_a_server_that_is_not_healthy_is_told_of_once():
    """The kernel says so again each time that health_check is read."""
    joiner = Joiner()
    first = event("not_healthy", 0)
    joiner.add(first, "log")
    found = []
    for seconds in range(10, 600, 10):
        found += joiner.add(event("not_healthy", seconds, str(seconds)), "log")
    assert {first.id} == {one.id for one in found} and {1} == {one.count for one in found}
    assert 9 == len(found)
    [_, over] = joiner.add(event("healthy", 611), "log")
    assert (first.id, AT + 611) == (over.id, over.over)
    again = event("not_healthy", 623, "again")
    assert [again.id] == [one.id for one in joiner.add(again, "log")]


# -- evictions that were counted ------------------------------------------------------------------

def counted(count, since, until):
    return event("evicted", since, f"{since}", source="evictions", cause="unknown", count=count,
                 last=AT + until, message=f"{OST}: eviction_count has risen by {count}")


def logged(count, seconds, name="a"):
    return event("evicted", seconds, name, cause="silent", count=count)


def test_what_the_log_has_is_taken_off():
    joiner = Joiner()
    joiner.add(logged(2, 3), "log")
    [found] = joiner.add(counted(5, 0, 10), "evictions")
    assert (3, "unknown") == (found.count, found.cause)
    assert "risen by 5; 2 of them are in the log" in found.message


def test_what_is_all_in_the_log_is_not_told():
    joiner = Joiner()
    joiner.add(logged(2, 3), "log")
    joiner.add(logged(5, 3), "log")                    # the same event, grown
    assert [] == joiner.add(counted(5, 0, 10), "evictions")
    assert [5] == [one.count for one in joiner.add(counted(5, 10, 20), "evictions")]


def test_what_is_not_in_the_log_is_all_told():
    [found] = Joiner().add(counted(5, 0, 10), "evictions")
    assert 5 == found.count


def test_lines_from_before_the_counts_first_look_are_none_of_it():
    joiner = Joiner()
    joiner.add(logged(37, -100), "log")
    [found] = joiner.add(counted(5, 0, 10), "evictions")
    assert 5 == found.count


def test_a_line_that_came_after_the_count_was_read_is_of_the_next():
    joiner = Joiner()
    joiner.add(logged(2, 3), "log")
    joiner.add(logged(1, 10.01, "b"), "log")
    assert [] == joiner.add(counted(2, 0, 10), "evictions")
    assert [] == joiner.add(counted(1, 10, 20), "evictions")
    assert [1] == [one.count for one in joiner.add(counted(1, 20, 30), "evictions")]


# -- what is kept ---------------------------------------------------------------------------------

kinds = ("evicted", "connection_lost", "connection_restored", "recovery", "not_healthy", "healthy")
happenings = st.lists(st.tuples(
    st.sampled_from(kinds), st.integers(0, 200), st.sampled_from("abc"),
    st.sampled_from(["log", "imports"]), st.integers(1, 5)), max_size=30)


@given(happenings, st.sets(st.integers(0, 30)))
def test_a_restart_at_any_point_changes_nothing(found, restarts):
    whole, broken = Joiner(), Joiner()
    for number, (kind, seconds, name, source, count) in enumerate(found):
        one = event(kind, seconds, name, source=source, count=count)
        assert whole.add(one, source) == broken.add(one, source)
        if number in restarts:
            broken = Joiner(json.loads(json.dumps(broken.as_json())))


@given(happenings)
def test_told_again_it_is_no_news(found):
    """As after a kill: the copies that are told then are known."""
    joiner, events = Joiner(), {}
    for kind, seconds, name, source, count in found:
        for one in joiner.add(event(kind, seconds, name, source=source, count=count), source):
            events[one.id] = merge_copies(events[one.id], one) if one.id in events else one
    assert all(one.count >= 1 for one in events.values())


def test_what_is_remembered_is_bounded():
    joiner = Joiner()
    for number in range(5000):
        joiner.add(event("evicted", number, str(number), target=f"scratch-OST{number:04x}",
                         cause="silent"), "log")
    kept = joiner.as_json()
    assert 2000 == len(kept["reported"]) and len(kept["logged"]) <= 2000
    for number in range(100):
        joiner.add(event("lbug", number * 100, str(number)), "log")
    assert 16 == sum(one[0]["kind"] == "lbug" for one in joiner.as_json()["reported"])
