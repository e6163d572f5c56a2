"""
What a collector keeps: places and time stamps over all orders of events, questions, clocks and
kills, against a plain model; and the file that it is in.
"""
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from collector_desk import NOW, Clock, evicted
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats.base.errors import StateError
from iostats.collector.journal_of_events import FILE, EventBuffer, EventsJournal

STEPS = st.lists(st.one_of(
    st.tuples(st.just("events"), st.lists(st.tuples(st.integers(0, 23), st.integers(1, 41)),
                                          max_size=6)),
    st.tuples(st.just("clock"), st.integers(-5000, 5000)),
    st.tuples(st.just("ask"), st.integers(0, 2)),
    st.tuples(st.just("follow"), st.integers(0, 2)),
    st.tuples(st.just("kill"), st.just(0))), max_size=60)


def opened(directory, clock, keep=1000, said=None):
    return EventsJournal(str(directory), keep, clock, (said if said is not None else []).append)


@settings(deadline=None)
@given(steps=STEPS)
def test_each_client_gets_each_change_once_over_clocks_and_kills(tmp_path_factory, steps):
    """Three that pass their time stamp on, and three that pass their place on."""
    directory, clock = tmp_path_factory.mktemp("state"), Clock()
    journal, truth, serial = opened(directory, clock), {}, 0
    stamps, places = [0, 0, 0], [0, 0, 0]
    owed = {("ask", number): {} for number in range(3)}      # id: the count that it has not seen
    owed.update({("follow", number): {} for number in range(3)})
    try:
        for what, value in steps:
            if what == "events":
                found = [evicted(number, count=count, at=NOW - 10_000) for number, count in value]
                journal.add(found)
                for one in found:
                    if one.count > truth.get(one.id, 0):
                        truth[one.id] = one.count
                        for its in owed.values():
                            its[one.id] = one.count
                serial += 1
            elif what == "clock":
                clock.now += value
            elif what == "kill":                       # nothing is written at its end
                os.close(journal._lock)
                os.close(journal._file)
                journal = opened(directory, clock)
            elif what == "ask":
                got = journal.buffer.since(stamps[value])
                stamps[value] = journal.stamp()
                assert owed["ask", value] == {one.event.id: one.event.count for one in got}
                owed["ask", value] = {}
            else:
                got = list(journal.buffer.after(places[value]))
                assert owed["follow", value] == {one.event.id: one.event.count for one in got}
                assert sorted(one.place for one in got) == [one.place for one in got]
                places[value] = got[-1].place if got else places[value]
                owed["follow", value] = {}
        assert truth == {one.event.id: one.event.count for one in journal.buffer}
    finally:
        journal.close()


@given(st.lists(st.tuples(st.integers(0, 41), st.integers(1, 9)), max_size=80),
       st.integers(1, 23))
def test_the_newest_are_kept_and_the_others_are_counted(changes, keep):
    buffer, order = EventBuffer(keep, NOW), []
    places = [(0, 0)]                                  # after each change: place, how many dropped
    for number, count in changes:
        before = buffer.get(evicted(number).id)
        buffer.add([evicted(number, count=count)], NOW)
        if before is None or count > before.event.count:
            order = [one for one in order if one != number] + [number]
        order = order[-keep:]
        places.append((buffer.last_place, buffer.dropped))
    assert [evicted(number).id for number in order] == [one.event.id for one in buffer]
    assert len(order) == len(buffer) <= keep
    for place, dropped in places:
        reported = buffer.count_dropped_after(place)
        assert 0 <= reported <= buffer.dropped - dropped


def test_what_comes_after_a_kill_is_behind_all_time_stamps_that_were_given(tmp_path):
    """Also where nothing had come before it, and where it happened before they were given."""
    journal = opened(tmp_path, Clock())
    stamp = journal.stamp()
    os.close(journal._lock)
    os.close(journal._file)
    again = opened(tmp_path, Clock())
    [late] = again.add([evicted(23, at=NOW - 3)])
    assert [late] == again.buffer.since(stamp)
    again.close()


def test_a_place_that_was_never_given_is_one_before_all():
    """Of another collector, or of one whose events were lost with its disk."""
    buffer = EventBuffer(41, NOW)
    [one] = buffer.add([evicted(23)], NOW)
    assert [one] == list(buffer.after(one.place
                                      + 1)) == list(buffer.after(0)) == list(buffer.after(37))
    assert one.place < 2**53 and EventBuffer(41, NOW + 1).last_place > one.place


def test_what_is_kept_outlasts_the_process(tmp_path):
    journal = opened(tmp_path, Clock())
    [one] = journal.add([evicted(23)], 4711, "a-store")
    journal.close()
    again = opened(tmp_path, Clock(NOW + 5))
    assert [one] == list(again.buffer) and (4711, "a-store") == (again.next, again.of)
    assert journal.places == again.places
    assert [] == again.add([evicted(23)]) and 1 == len(again.add([evicted(23, count=2)]))
    again.close()


def test_what_a_killed_collector_has_left_unfinished_is_removed(tmp_path):
    """And nothing else: the journal is written again, beside what is not of it."""
    (tmp_path / f"{FILE}.0123456789abcdef.new").write_bytes(b"{")
    (tmp_path / "other.0123456789abcdef.new").write_bytes(b"{")
    opened(tmp_path, Clock()).close()
    assert {FILE, "other.0123456789abcdef.new"} == {path.name for path in tmp_path.iterdir()
                                                    } - {"lock"}


@pytest.mark.parametrize("damage", [
    lambda data: data[:-10], lambda data: data + b"{", lambda data: data + b"\xff\xfe\0\n",
    lambda data: data + b'{"place": 1, "tick": -1, "reported": 0, "event": {}}\n',
    lambda data: data + b'{"place": 1e999}\n[]\n23\n"a"\nnull\n{"stamps": "x"}\n',
    lambda data: data + b"[" * 100_000 + b"\n", lambda data: data + b'{"event": 1}\n'])
def test_a_damaged_line_costs_that_line_alone(tmp_path, damage):
    journal = opened(tmp_path, Clock())
    journal.add([evicted(23), evicted(37)])
    journal.close()
    path = tmp_path / FILE
    path.write_bytes(damage(path.read_bytes()))
    again = opened(tmp_path, Clock())
    assert {evicted(23).id} <= {one.event.id for one in again.buffer}
    again.close()
    for line in path.read_text().splitlines():         # it is whole again
        assert isinstance(json.loads(line), dict)


def test_the_file_is_written_anew_when_it_has_become_long(tmp_path):
    journal = opened(tmp_path, Clock(), keep=23)
    for count in range(1, 5000):
        journal.add([evicted(23, count=count)])
    assert os.path.getsize(tmp_path / FILE) < 1 << 20
    journal.close()
    again = opened(tmp_path, Clock())
    assert [4999] == [one.event.count for one in again.buffer]
    again.close()


def test_a_file_of_the_longest_events_is_read_again(tmp_path):
    """More than any other file of ours may have."""
    journal, text = opened(tmp_path, Clock(), keep=10_000), "\u65e5" * 500
    clients = tuple(f"{number}" + "\u65e5" * 250 for number in range(8))
    for first in range(0, 10_000, 500):
        journal.add([evicted(number)._replace(message=text, clients=clients)
                     for number in range(first, first + 500)])
    journal.close()
    assert os.path.getsize(tmp_path / FILE) > 64 << 20
    again = opened(tmp_path, Clock(), keep=10_000)
    assert 10_000 == len(again.buffer)
    again.close()


def test_two_collectors_do_not_share_a_directory(tmp_path):
    journal = opened(tmp_path, Clock())
    with pytest.raises(StateError, match="another collector uses it"):
        opened(tmp_path, Clock())
    journal.close()
    opened(tmp_path, Clock()).close()


def test_a_directory_that_is_not_there_is_an_error_with_what_to_do(tmp_path):
    with pytest.raises(StateError, match="make it, owned by the collector's user"):
        opened(tmp_path / "none", Clock())


def test_a_full_disk_is_said_and_the_collector_goes_on_in_memory(tmp_path):
    said = []
    journal = opened(tmp_path, Clock(), said=said)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, journal._file)
    os.close(full)
    assert 1 == len(journal.add([evicted(23)]))
    assert 1 == len(journal.add([evicted(37)])) and 2 == len(journal.buffer)
    assert 1 == len(said) and "No space left on device" in said[0] and str(
        Path(tmp_path) / FILE) in said[0]
    journal.close()


def test_a_line_that_is_read_and_timed_once_more_is_not_told_again(tmp_path):
    """After a kill between what was kept and the state of who reads the log."""
    journal = opened(tmp_path, Clock())
    one = evicted(23)
    journal.add([one])
    stamp = journal.stamp()

    assert [] == journal.add([one._replace(time=one.time - 0.7, last=one.last + 0.3)])
    assert [] == journal.buffer.since(stamp)
    journal.close()
