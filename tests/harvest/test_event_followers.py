"""
Those who are told of events: each event once, in order, at the receiver's own pace, and on from
there after a restart.
"""
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

import pytest
from event_desk import an_event
from sink_desk import config_of

from iostats.base.errors import ConfigError
from iostats.harvest.events.followers import MAX_AT_ONCE, Followers
from iostats.harvest.events.on_critical import MAX_EVENTS, make_followers
from iostats.store.event_store import Change


class Places:
    """What a store has: [(place, Event)], in the order of the places."""

    def __init__(self, name="a numbering"):
        self.rows, self.numbering, self.saved = [], name, {}
        self.follower, self.save_follower = self.saved.get, self.saved.__setitem__

    def add(self, *events):
        for event in events:
            self.rows.append((self.last() + 1, event))

    def after(self, place, limit):
        return [row for row in self.rows if row[0] > place][:limit]

    def last(self):
        return self.rows[-1][0] if self.rows else 0

    def followers(self, *sinks, more=()):
        return Followers(sinks, self, self.after, self.last, {"nid": "node1"}.get, more)


class Sink:
    """A sink that keeps what it is given; `may` is waited for."""

    name = "test"

    def __init__(self, takes=MAX_AT_ONCE):
        self.got, self.may, self.takes = [], threading.Event(), takes
        self.may.set()

    def store_events(self, events, names):
        self.may.wait(20)
        some = events[:self.takes]
        self.got += [event.id for event in some]
        return len(some)


def numbered(*numbers):
    return [an_event(id=f"{number:016x}") for number in numbers]


def ids(*numbers):
    return [f"{number:016x}" for number in numbers]


def on_a_loop(store, *sinks, more=(), until_true=lambda: True, then=()):
    """Begin, add `then` one by one with a look at each, wait until `until_true`, end."""
    async def work():
        followers = store.followers(*sinks, more=more)
        followers.begin()
        for event in then:
            store.add(event)
            followers.changed([Change(event, event.count)])
            await asyncio.sleep(0)
        end = time.monotonic() + 150
        while not until_true():
            assert time.monotonic() < end, "not told"
            await asyncio.sleep(0.01)
        return followers
    followers = asyncio.run(work())
    for one in followers.followers:
        one.close()


def test_the_first_time_it_begins_with_what_comes():
    """What the store has is no news."""
    store, sink = Places(), Sink()
    store.add(*numbered(23, 37))
    on_a_loop(store, sink, then=numbered(41, 43), until_true=lambda: len(sink.got) == 2)
    assert ids(41, 43) == sink.got


def test_after_a_restart_it_goes_on_where_it_was():
    """With what came while it was not there, of many in several parts."""
    store, sink = Places(), Sink()
    on_a_loop(store, sink, then=numbered(23), until_true=lambda: sink.got)
    store.add(*numbered(*range(100, 1300)))
    on_a_loop(store, sink, until_true=lambda: len(sink.got) == 1201)
    assert ids(23, *range(100, 1300)) == sink.got
    on_a_loop(store, sink, then=numbered(37), until_true=lambda: len(sink.got) > 1201)
    assert ids(37) == sink.got[1201:]


def test_one_that_was_closed_within_a_part_goes_on_within_it():
    """It had told two of three."""
    store, sink = Places(), Sink(takes=2)
    on_a_loop(store, sink)
    store.add(*numbered(23, 37, 41))
    on_a_loop(store, sink, until_true=lambda: len(sink.got) == 2)
    other = Sink()
    on_a_loop(store, other, until_true=lambda: other.got)
    assert (ids(23, 37), ids(41)) == (sink.got, other.got)


@pytest.mark.parametrize("before", [
    b'{"place": 3, "places": "another"}', b'{"place": 99, "places": "a numbering"}',
    b"half of", b'{"place": true, "places": "a numbering"}', b"[]", b'{"place": -1}', b"\xff"],
    ids=["of another store", "of a store that lost some", "torn", "no number", "a list", "negative",
         "no text"])
def test_a_place_of_another_store_or_none_is_not_gone_on_from(tmp_path, before):
    """Only what is new from now on is told, and not the whole store."""
    store, sink = Places(), Sink()
    store.add(*numbered(1, 2, 3, 4, 5))
    store.saved["test"] = before
    on_a_loop(store, sink, then=numbered(23), until_true=lambda: sink.got)
    assert ids(23) == sink.got
    assert {"place": 6, "places": "a numbering"} == json.loads(store.saved["test"])


def test_a_receiver_that_hangs_keeps_nobody_back():
    """Nor does one that fails; what waits, waits in the store."""
    class Failing(Sink):
        name = "failing"

        def store_events(self, events, names):
            super().store_events(events, names)
            raise RuntimeError("23")
    store, hanging, other, failing = Places(), Sink(), Sink(), Failing()
    other.name = "other"
    hanging.may.clear()
    on_a_loop(store, hanging, other, failing, then=numbered(*range(23)),
              until_true=lambda: len(other.got) == len(failing.got) == 23)
    assert [] == hanging.got
    hanging.may.set()
    assert ids(*range(23)) == other.got == failing.got


def test_those_who_are_equally_far_share_what_is_read():
    """Each part once for three; one that lags reads for itself, and misses nothing."""
    store, sinks, asked = Places(), [Sink() for _ in range(3)], []
    for number, sink in enumerate(sinks):
        sink.name = f"sink{number}"
    on_a_loop(store, *sinks)
    store.add(*numbered(*range(1200)))

    def after(place, limit):
        rows = Places.after(store, place, limit)
        if rows:
            asked.append(place)
        return rows
    store.after = after
    sinks[2].may.clear()

    def all_are_told():
        if len(sinks[0].got) == len(sinks[1].got) == 1200:
            sinks[2].may.set()
        return len(sinks[2].got) == 1200
    on_a_loop(store, *sinks, until_true=all_are_told)
    assert ids(*range(1200)) == sinks[0].got == sinks[1].got == sinks[2].got
    assert len(asked) < 3 * 3 and {0, 500, 1000} == set(asked)


def test_who_counts_gets_changes_on_the_loop_and_statuses():
    """With names of the clients that are known."""
    class Counting:
        def __init__(self):
            self.got = []

        def events(self, changes, names):
            self.got.append((changes, names))

        def event_status(self, *of):
            self.got.append(of)
    sink, change = Counting(), Change(an_event(clients=("nid",)), 23)

    async def work():
        followers = Places().followers(sink)
        followers.changed([change])
        followers.status("oss1", 23.0, 10.0, {"health": "healthy"})
    asyncio.run(work())
    assert [([change], {"nid": "node1"}), ("oss1", 23.0, 10.0, {"health": "healthy"})] == sink.got


# -- on_critical ---------------------------------------------------------------------------------

def a_program(tmp_path, text="", name="program"):
    """It writes what it is given into its own file, then does `text` (Python)."""
    path = tmp_path / name
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n"
                    f"open({str(tmp_path / 'told')!r}, 'a').write(sys.stdin.read())\n{text}\n")
    path.chmod(0o755)
    return path


def follower(tmp_path, program, **options):
    [found] = make_followers(config_of(events_on_critical=program, **{
        f"events_{name}": value for name, value in options.items()}))
    return found


def told(tmp_path):
    """[{}] of what the program was told."""
    path = tmp_path / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def critical(*numbers, severity=2, **fields):
    return [one._replace(severity=severity, **fields) for one in numbered(*numbers)]


def test_a_critical_event_is_told_once(tmp_path):
    """Not when it grows, nor after a restart; what is less severe is not told."""
    store, program = Places(), a_program(tmp_path)
    one = follower(tmp_path, program)
    on_a_loop(store, more=[one], then=[*numbered(23), *critical(37, clients=("nid",))],
              until_true=lambda: len(told(tmp_path)) == 1)
    [document] = told(tmp_path)
    [event] = document["events"]
    assert ("0000000000000025", ["nid"], ["node1"], 0) == (
        event["id"], event["clients"], event["clients_names"], document["more"])
    assert {"host", "time", "events", "more"} == set(document)
    on_a_loop(store, more=[follower(tmp_path, program)],
              then=[*critical(37, count=99), *critical(41, severity=3)],
              until_true=lambda: len(told(tmp_path)) == 2)
    assert ["0000000000000029"] == [one["id"] for one in told(tmp_path)[1]["events"]]


def test_a_server_that_is_killed_while_it_runs_tells_nothing_twice(tmp_path):
    """It is noted before the program is started."""
    store, program = Places(), a_program(tmp_path, "time.sleep(600)")
    on_a_loop(store, more=[follower(tmp_path, program)])
    store.add(*critical(23))
    one = follower(tmp_path, program, on_critical_timeout=600)

    async def killed():
        store.followers(more=[one]).begin()
        while not told(tmp_path):
            await asyncio.sleep(0.01)
        return store.saved["on_critical"]
    kept = asyncio.run(killed())
    one.close()
    store.saved["on_critical"] = kept
    on_a_loop(store, more=[follower(tmp_path, a_program(tmp_path))],
              then=critical(37), until_true=lambda: len(told(tmp_path)) == 2)
    assert [["0000000000000017"], ["0000000000000025"]] == [
        [one["id"] for one in document["events"]] for document in told(tmp_path)]


def test_one_at_a_time_and_what_comes_meanwhile_comes_together(tmp_path):
    """Up to MAX_EVENTS in one document, the others counted."""
    store = Places()
    program = a_program(tmp_path, f"""
os.mkdir({str(tmp_path / 'running')!r})
while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)
os.rmdir({str(tmp_path / 'running')!r})""")
    one = follower(tmp_path, program)

    def let_it_go():
        if told(tmp_path):
            (tmp_path / "go").touch()
        return len(told(tmp_path)) == 2 and not (tmp_path / "running").exists()
    on_a_loop(store, more=[one], then=critical(*range(1 + MAX_EVENTS + 23)),
              until_true=let_it_go)
    assert [(1, 0), (MAX_EVENTS, 23)] == [
        (len(document["events"]), document["more"]) for document in told(tmp_path)]
    assert 0 == one.failures


@pytest.mark.parametrize("text, options, why", [
    ("sys.exit('no such pager\\nreally')", {}, "exit status 1: no such pager"),
    ("os.kill(os.getpid(), 9)", {}, "ended by signal 9"),
    ("print('x' * 10**6, file=sys.stderr); sys.exit(3)", {}, f"exit status 3: {'x' * 200}"),
    ("sys.stderr.write('\\x1b[2J'); sys.exit(23)", {}, "exit status 23: \\x1b[2J"),
    ("time.sleep(600)", {"on_critical_timeout": 1},
     "ended after 1 s, [events] on_critical_timeout"),
    ("import signal; signal.signal(15, signal.SIG_IGN); os.close(2); time.sleep(600)",
     {"on_critical_timeout": 1}, "ended after 1 s, [events] on_critical_timeout"),
], ids=["a status", "a signal", "much text", "an escape", "too long", "deaf"])
def test_a_program_that_fails_is_one_line(tmp_path, caplog, text, options, why):
    """With its name, and what it was told of."""
    store, program = Places(), a_program(tmp_path, text)
    one = follower(tmp_path, program, **options)
    on_a_loop(store, more=[one], then=critical(23), until_true=lambda: one.failures)
    assert [f"[events] on_critical: {program}: {why} (failure 1); it received 1 events, "
            f"0000000000000017 the last"] == [line.getMessage() for line in caplog.records]


def test_a_program_that_goes_away_later_is_one_line(tmp_path, caplog):
    """And does not read what it is told."""
    store, program = Places(), a_program(tmp_path)
    one = follower(tmp_path, program)
    program.unlink()
    on_a_loop(store, more=[one], then=critical(23), until_true=lambda: one.failures)
    assert "cannot be started: No such file or directory (failure 1)" in caplog.text


def test_none_where_none_is_named():
    """The default."""
    assert [] == make_followers(config_of())


@pytest.mark.parametrize("options, message", [
    ({"on_critical": "/no/such"}, "on_critical: expected a program, got '/no/such', which is not "
                                  "there"),
    ({"on_critical": "/etc/passwd"}, "on_critical: expected a program, got '/etc/passwd', which is "
                                     "none"),
    ({"on_critical": "/bin/sh", "on_critical_user": "no such"},
     "on_critical_user: expected a user of this host, got 'no such'")])
def test_what_cannot_be_is_said_at_the_start(options, message):
    """Not when the first event comes."""
    with pytest.raises(ConfigError) as caught:
        make_followers(config_of(**{f"events_{name}": value for name, value in options.items()}))
    assert f"the test: [events] {message}" == str(caught.value)


@pytest.mark.root
def test_it_runs_as_the_user_that_is_named(tmp_path, caplog):
    """With that user's groups and no others."""
    if os.geteuid():
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory(prefix="iostats-test-") as directory:  # pytest's is closed
        os.chmod(directory, 0o777)
        who, program = pathlib.Path(directory, "who"), pathlib.Path(directory, "program")
        program.write_text(f"#!/bin/sh\nid -un >{who}\nid -Gn >>{who}\ncat >>{who}\n")
        program.chmod(0o755)
        one = follower(tmp_path, program, on_critical_user="nobody")
        on_a_loop(Places(), more=[one], then=critical(23),
                  until_true=lambda: who.exists() and "events" in who.read_text())
        assert ["nobody", "nogroup"] == who.read_text().splitlines()[:2]
        program.chmod(0o700)
        one = follower(tmp_path, program, on_critical_user="nobody")
        on_a_loop(Places("another"), more=[one], then=critical(37),
                  until_true=lambda: one.failures)
    assert "exit status 1: cannot be started as nobody: Permission denied" in caplog.text
