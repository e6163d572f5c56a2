"""
Events in the site's store: each once, whatever comes twice, is dropped, or is killed.
"""
from __future__ import annotations

import os
import shutil
import sqlite3

import pytest
from events_messages import NOON, event
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from site_store import DAY, fill_up, make_room

from iostats.base.errors import StateError
from iostats.events.event import merge_copy
from iostats.store import repair as store_repair
from iostats.store.clock import Clocks
from iostats.store.event_store import EventStore, get_end
from iostats.store.record_store import Store

EVER = (-1e12, 1e12)


class Kept:
    """A store with events, and what a reader of it has seen."""

    def __init__(self, path, keep_count=1_000_000):
        self.path, self.keep_count, self.passed = str(path), keep_count, NOON
        self.open()

    def open(self):
        self.store = Store(self.path, Clocks(lambda: self.passed, lambda: self.passed,
                                             lambda: "a boot"))
        self.events = EventStore(self.store, self.keep_count)

    def again(self):
        """As after a kill: what was not committed is gone."""
        self.store.connection.close()
        self.open()

    def add(self, *events):
        found = self.events.add_events(events)
        self.store.commit()
        self.events.committed()
        return found

    def all(self, since=EVER[0], until=EVER[1], newest_first=False):
        """[Placed] of all, in the order of `parts`."""
        return [one for after, last, _ in self.events.parts(
                    0, self.events.last, since, until, newest_first)
                for one in self.events.part(after, last)]

    def found(self):
        return {one.event.id: one.event for one in self.all()}


@pytest.fixture
def kept(store_address):
    found = Kept(store_address)
    yield found
    found.store.close()


def test_an_event_is_there_once_and_moves_when_it_grows(kept):
    one, other = event(23), event(37)
    changes = kept.add(one, other).changes
    assert [(one, 1), (other, 1)] == changes
    assert [] == kept.add(one, other).changes                          # sent again
    grown = one._replace(count=41, last=one.time + 7, skipped=3)
    assert [(grown, 43)] == kept.add(grown).changes
    assert [] == kept.add(one).changes                                 # an old copy comes late
    assert [(2, other), (3, grown)] == kept.all()
    assert [(3, grown)] == kept.events.after(2, 3, 10)
    over = grown._replace(over=one.time + 53)
    assert [(over, 0)] == kept.add(over).changes


def test_twice_in_one_message_is_once(kept):
    one = event(23)
    grown = one._replace(count=37)
    assert [(grown, 37)] == kept.add(one, grown, one).changes
    assert 1 == kept.events.count


def test_a_copy_that_is_timed_again_changes_nothing(kept):
    """By less than 2 s; however copies are grouped in messages, the store ends with the same."""
    one = event(23)
    nearly = one._replace(last=one.last + 1)
    kept.add(one)
    assert [] == kept.add(nearly).changes
    assert {one.id: one} == kept.found()
    grown = one._replace(count=37)
    assert [(grown, 36)] == kept.add(nearly, grown).changes
    later = grown._replace(last=one.last + 2)
    assert [(later, 0)] == kept.add(nearly, grown, later).changes
    assert {one.id: later} == kept.found()


def test_a_forged_copy_in_a_message_does_not_push_out_the_true_one(kept):
    one = event(23)
    kept.add(one)
    forged, grown = one._replace(node="nid00001"), one._replace(count=37)
    assert ([(grown, 36)], 1) == kept.add(forged, grown)


def test_another_machine_or_kind_cannot_change_an_event(kept):
    one = event(23)
    kept.add(one)
    forged = one._replace(node="nid00001", count=9000)
    assert ([], 2) == kept.add(forged, one._replace(kind="lbug", count=9000))
    assert ([], 1) == kept.add(one, forged)
    assert {one.id: one} == kept.found()


_steps = st.lists(st.one_of(
    st.tuples(st.just("keep"), st.lists(st.tuples(
        st.integers(0, 9), st.integers(1, 5), st.integers(0, 50)), max_size=6)),
    st.tuples(st.just("drop"), st.lists(st.tuples(
        st.integers(0, 9), st.integers(1, 5), st.integers(0, 50)), min_size=1, max_size=6)),
    st.just(("again", None)), st.just(("follow", None))), max_size=25)


@settings(max_examples=examples(60), deadline=None)
@given(_steps)
def test_random_histories(tmp_path_factory, steps):
    """
    Of all that was committed each event is there once, as all copies of it know; and who follows
    has all of it, with each change, also after kills.
    """
    kept = Kept(tmp_path_factory.mktemp("events") / "site.sqlite")
    truth, followed, place = {}, {}, 0
    def of(some):
        return [event(number, at=NOON - 100)._replace(count=count, last=NOON - 100 + last)
                for number, count, last in some]
    try:
        for what, some in [*steps, ("follow", None)]:
            if what == "keep":
                changes = kept.add(*of(some)).changes
                before = dict(truth)
                for one in of(some):
                    truth[one.id] = merge_copy(truth.get(one.id), one)
                assert {id: one for id, one in truth.items() if before.get(id) != one} == {
                    change.event.id: change.event for change in changes}
                assert sum(one.count for one in truth.values()) - sum(
                    one.count for one in before.values()) == sum(
                    change.gained for change in changes)
            elif what == "drop":                            # the commit fails
                kept.events.add_events(of(some))
                if kept.store.connection.in_transaction:
                    kept.store.connection.execute("ROLLBACK")
                kept.events.drop_changes()
            elif what == "again":
                kept.again()
            else:
                rows = kept.events.after(place, kept.events.last, 1000)
                followed.update((one.event.id, one.event) for one in rows)
                place = max([place, *(one.place for one in rows)])
                assert truth == followed
            assert truth == kept.found() and len(truth) == kept.events.count
    finally:
        kept.store.close()


def test_a_place_that_was_lost_with_its_event_is_not_given_again(tmp_path):
    """
    A copy of the store is restored, as a replica without the last transactions: who follows by
    place gets what is stored after it.
    """
    kept = Kept(tmp_path / "site.sqlite")
    kept.add(event(23))
    kept.store.close()
    shutil.copy(kept.path, tmp_path / "copy")
    kept.open()
    kept.add(*map(event, range(100, 137)))
    followed = kept.events.last
    kept.store.close()
    shutil.copy(tmp_path / "copy", kept.path)
    kept.open()
    kept.add(*map(event, range(200, 207)))
    assert {event(number).id for number in range(200, 207)} == {
        one.event.id for one in kept.events.after(followed, kept.events.last, 1000)}
    assert kept.events.last < 2**53             # exact in JSON
    kept.store.close()


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_a_store_that_ends_at_any_byte_has_all_of_some_commits(tmp_path_factory, data):
    """As after a kill at any moment; what is sent again makes it whole."""
    directory = tmp_path_factory.mktemp("events")
    kept, states = Kept(directory / "site.sqlite"), [{}]
    for number in range(6):
        kept.add(*(event(one)._replace(count=number + 1) for one in range(number, 9, 2)))
        states.append(kept.found())
    wal = (directory / "site.sqlite-wal").read_bytes()
    cut = directory / "cut.sqlite"
    shutil.copy(directory / "site.sqlite", cut)
    (directory / "cut.sqlite-wal").write_bytes(wal[:data.draw(st.integers(0, len(wal)))])
    kept.store.close()
    again = Kept(cut)
    try:
        assert again.found() in states
        for number in range(6):
            again.add(*(event(one)._replace(count=number + 1) for one in range(number, 9, 2)))
        assert states[-1] == again.found()
    finally:
        again.store.close()


def test_there_are_no_more_than_keep_count(tmp_path):
    """The oldest go, by the order in which they came, and it is said how many."""
    kept = Kept(tmp_path / "site.sqlite", keep_count=37)
    for number in range(100):
        kept.add(event(number, at=NOON + number), event(-1)._replace(count=number + 1))
    assert 37 == kept.events.count == len(kept.found())
    assert 64 == kept.events.dropped and NOON + 63 == kept.events.dropped_until
    assert event(99, at=NOON + 99).id in kept.found()
    assert 100 == kept.found()[event(-1).id].count          # it has always grown
    kept.again()
    assert (37, 64, NOON + 63) == (kept.events.count, kept.events.dropped,
                                   kept.events.dropped_until)
    kept.store.close()


def test_what_would_have_gone_in_a_commit_that_failed_is_there(tmp_path):
    kept = Kept(tmp_path / "site.sqlite", keep_count=2000)
    for number in range(0, 2000, 500):
        kept.add(*map(event, range(number, number + 500)))
    before = kept.found()
    for number in range(2000, 4000, 500):
        kept.events.add_events([*map(event, range(number, number + 500))])
    kept.store.connection.execute("ROLLBACK")
    kept.events.drop_changes()
    assert before == kept.found() and 2000 == len(before)
    assert (2000, 0, 0.0) == (kept.events.count, kept.events.dropped, kept.events.dropped_until)
    for number in range(2000, 4000, 500):
        kept.add(*map(event, range(number, number + 500)))
    assert 2000 == len(kept.found()) == kept.events.dropped
    assert next(kept.events.parts(0, kept.events.last, *EVER))[0] > 1500        # not read again
    kept.store.close()


def test_a_smaller_keep_count_is_reached_step_by_step(tmp_path):
    kept = Kept(tmp_path / "site.sqlite")
    kept.add(*map(event, range(400)))
    kept.keep_count = 23
    kept.again()
    for number in range(400, 700):
        kept.add(event(number))
    assert 23 < kept.events.count < 400 - 250
    kept.store.close()


def test_old_ones_go_by_the_stores_time(kept):
    kept.add(event(23))
    kept.passed += 10 * DAY
    kept.add(event(37), event(23)._replace(count=5))           # it has grown since
    kept.add(event(41))
    assert 0 == kept.events.delete_old(NOON + 9 * DAY)
    kept.passed += 10 * DAY
    kept.add(event(53))
    assert 3 == kept.events.delete_old(NOON + 19 * DAY)
    kept.store.commit()
    kept.events.committed()
    assert [event(53)] == [one.event for one in kept.all()]
    kept.again()
    assert [(5, event(53))] == kept.all() and 5 < kept.events.last
    # A place is never given again, also when the last event is gone.
    kept.events.delete_old(NOON + 99 * DAY)
    kept.store.commit()
    last = kept.events.last
    kept.again()
    kept.add(event(59))
    [(place, one)] = kept.all()
    assert event(59) == one and place > last


def test_parts_of_a_time_have_all_events_of_it(kept):
    """Long ones too; each part once, and those with the latest events first where that is asked."""
    for number in range(0, 5000, 500):
        kept.add(*(event(one, at=NOON + one) for one in range(number, number + 500)))
    long = event(-1, at=NOON + 100)._replace(over=NOON + 4100)
    kept.add(long)
    for since, until in ((NOON + 1000, NOON + 1010), (NOON + 4000, NOON + 9000),
                         (NOON - 9, NOON), (NOON + 9000, NOON + 9999)):
        expected = {event(one).id for one in range(5000) if since <= NOON + one <= until}
        if since <= NOON + 4100 and until >= NOON + 100:
            expected.add(long.id)
        found = [one.event for one in kept.all(since, until)
                 if one.event.time <= until and get_end(one.event) >= since]
        assert expected == {one.id for one in found} and len(found) == len(expected)
    newest = [last for _, _, last in kept.events.parts(0, kept.events.last, *EVER, True)]
    assert sorted(newest, reverse=True) == newest and 10 == len(newest)
    assert 1 == len(list(kept.events.parts(0, kept.events.last, NOON - 9, NOON)))


def test_a_full_disk_keeps_all_of_a_commit_or_nothing(kept):
    kept.add(event(23))
    fill_up(kept.store)
    with pytest.raises(StateError, match=r"cannot be written: database or disk is full"):
        for number in range(100):
            kept.events.add_events([event(f"{number} {one}", message="x" * 400)
                                    for one in range(500)])
    with pytest.raises(StateError):
        kept.store.commit()
    kept.events.drop_changes()
    assert [(1, event(23))] == kept.all() and 1 == kept.events.count
    make_room(kept.store)
    kept.add(event(37))
    assert {event(23).id, event(37).id} == kept.found().keys()
    kept.again()
    assert {event(23).id, event(37).id} == kept.found().keys()


def test_a_damaged_row_is_put_aside_and_comes_again(kept, caplog):
    kept.add(event(23), event(37), event(41))
    kept.store.change("UPDATE events SET body = ? WHERE place = 2", (b"cut",))
    assert {event(23).id, event(41).id} == kept.found().keys()
    assert "the event, place of 2: its checksum is another one; put aside (table damaged)" in (
        caplog.text)
    assert 2 == kept.events.count
    kept.add(event(37))
    assert 3 == len(kept.found())
    # One that is damaged before it is read is replaced by what comes.
    kept.store.change("UPDATE events SET body = ? WHERE place = 3", (b"cut",))
    assert [event(41)] == [change.event for change in kept.add(event(41)).changes]
    if isinstance(kept.store.connection, sqlite3.Connection):       # it stores text as a number
        kept.store.change("UPDATE events SET ended = 'soon' WHERE place = 1")
    else:
        kept.store.change("UPDATE events SET body = ? WHERE place = 1", (b"cut",))
    kept.again()
    assert {event(37).id, event(41).id} == kept.found().keys()


def test_a_store_that_is_rebuilt_has_its_events_and_another_numbering(tmp_path):
    """Who follows asks from the beginning: the newest places may be lost."""
    kept = Kept(tmp_path / "site.sqlite")
    kept.add(event(23), event(37))
    kept.events.store_reporter("oss1", NOON, b"{}")
    kept.store.commit()
    before = kept.events.numbering
    kept.store.close()
    _, found = store_repair.rebuild(kept.path)
    assert (2, "") == found["events"][1:] and (1, "") == found["events_tellers"][1:]
    kept.open()
    assert [(1, event(23)), (2, event(37))] == kept.all()
    assert before != kept.events.numbering and 16 == len(kept.events.numbering)
    kept.store.close()
    assert os.path.exists(kept.path)
