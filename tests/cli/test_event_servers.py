"""
Cursors of servers, and what was shown: whatever dies when, each event is shown once, and what it
grew to is shown at last.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from told_collector import NOON, an_event

from iostats.base.config import Config
from iostats.base.errors import NotDelivered, UsageError
from iostats.cli import event_servers
from iostats.cli.event_output import MergedEvents, SeenEvents
from iostats.cli.event_selection import (
    EventSelection,
    is_selected,
    make_params,
    parse_file_systems,
    parse_kinds,
    parse_nodes,
)
from iostats.cli.event_servers import ServerCursor, decode_page
from iostats.events.event import as_json, merge_copies
from iostats.events.kinds import parse_severity

ALL = EventSelection(None, None, 0, [], [], [], "")


class Server:
    """One that keeps events in memory, or on a disk; `ask` as of the real ones."""

    def __init__(self, name, has_names):
        self.name, self.has_names, self.numbering = name, has_names, 1
        self.kept, self.place, self.is_up, self.now = {}, 0, True, NOON

    def learn(self, event):
        """It is told of an event, or has lost it and reads it again."""
        before = self.kept.get(event.id)
        event = event if before is None else merge_copies(before[1], event)
        if before is None or event != before[1]:
            self.place += 1
            self.kept[event.id] = self.place, event

    def lose_all(self):
        """Its numbers begin anew."""
        kept, self.kept, self.place = self.kept, {}, 0
        self.numbering += 1
        for _, event in reversed(list(kept.values())):      # it reads its log again
            self.learn(event)

    def ask(self, method, params, within_s):
        if not self.is_up:
            raise NotDelivered("away")
        found = sorted((place, event) for place, event in self.kept.values()
                       if place > params["after"] and event.last >= params.get("since", 0))
        part = found[:2]                                    # answers in small parts
        more = len(found) > 2
        return {"events": [{**as_json(event), "place": place} for place, event in part],
                "next": part[-1][0] if more else self.place, "more": more, "time": self.now,
                "places": f"{self.numbering}" if self.has_names else ""}


STEPS = st.lists(st.tuples(
    st.sampled_from(("tell", "tell", "tell", "grow", "ask", "ask", "ask", "die", "rise",
                     "forget", "monitor")),
    st.integers(0, 1), st.integers(0, 11)), max_size=60)


@given(STEPS, st.booleans(), st.booleans())
def test_each_event_is_shown_once_and_as_it_is_in_the_end(steps, first, second):
    """
    Two servers, which learn of events together or one of them alone, die, come back, begin their
    numbers anew, and are asked by turns, to any part of their answer.
    """
    servers = [Server("a", first), Server("b", second)]
    cursors = [ServerCursor(one, ALL) for one in servers]
    seen, shown, last = SeenEvents(), [], {}
    events = {}

    def ask(number, to_the_end=False):
        while True:
            try:
                page = cursors[number].fetch_page()
            except NotDelivered:
                cursors[number].failed()
                return
            for event, _ in page.events:
                is_shown, is_update = seen.add(event)
                if is_shown:
                    shown.append((event.id, is_update))
                    last[event.id] = max(event.count, last.get(event.id, (0, False))[0]), (
                        event.over is not None or last.get(event.id, (0, False))[1])
            if not page.more or not to_the_end:
                return

    for what, who, number in steps:
        server = servers[who]
        if what == "tell":
            event = events.setdefault(number, an_event(number, at=NOON + number))
            server.learn(event)
        elif what == "grow" and number in events:
            grown = events[number]._replace(count=events[number].count + 1 + who,
                                            over=NOON + 50 if number % 2 else None)
            events[number] = grown
            server.learn(grown)
        elif what == "ask":
            ask(who, number > 3)
        elif what == "die":
            server.is_up = False
        elif what == "rise":
            server.is_up = True
        elif what == "forget":                              # it was started again, empty
            if not server.is_up:
                if not server.has_names:
                    ask(who)                                # or nothing says that it was away
                server.lose_all()
        elif what == "monitor":
            # Another one goes on with what was kept: the place of what was printed.
            cursors[who] = ServerCursor(server, ALL, cursors[who].after, cursors[who].places,
                                        cursors[who].answered)
    for number, server in enumerate(servers):
        server.is_up = True
        ask(number, True)
        ask(number, True)
    known = {}
    for server in servers:
        for _, event in server.kept.values():
            known[event.id] = merge_copies(known[event.id], event) if event.id in known else event
    once = [name for name, is_update in shown if not is_update]
    assert sorted(known) == sorted(once)
    assert {name: (event.count, event.over is not None) for name, event in known.items()} == last


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("iostats.cli.event_output.MAX_SEEN", 3)
    seen = SeenEvents()
    assert [(True, False)] * 5 == [seen.add(an_event(number)) for number in range(5)]
    assert [(False, False), (True, False)] == [seen.add(an_event(number)) for number in (4, 0)]
    assert [an_event(4).id, an_event(0).id] == [name for name, _, _ in seen.latest(2)]


def test_a_server_that_always_begins_anew_is_given_up():
    server = Server("a", True)
    cursor = ServerCursor(server, ALL, 23, "none")
    asked = []

    def ask(*_):
        asked.append(1)
        return {"events": [], "next": 0, "more": False, "time": NOON, "places": str(len(asked))}
    server.ask = ask
    with pytest.raises(NotDelivered, match="restarts its numbering of events again and again"):
        for _ in range(100):
            cursor.fetch_page()
    assert 6 == len(asked)


def test_the_last_of_merged_events_are_those_of_the_latest_time():
    merged = MergedEvents()
    for number, at in ((1, 7), (2, 3), (3, 5), (1, 7)):
        merged.add(an_event(number, at=NOON + at), {})
    assert [3, 5, 7] == [event.time - NOON for event in merged.sort_events()]
    assert [5, 7] == [event.time - NOON for event in merged.sort_events(2)]
    assert [7, 5] == [event.time - NOON for event in merged.sort_events(2, is_reversed=True)]


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
                      lambda inside: st.lists(inside, max_size=3) | st.dictionaries(
                          st.sampled_from(("events", "next", "more", "time", "places", "dropped",
                                           "clients_names", "id")), inside, max_size=7),
                      max_leaves=9)


@given(VALUES)
def test_any_answer_is_a_page_or_an_error_of_one_line(answer):
    try:
        page = decode_page(answer, "a")
    except NotDelivered as error:
        assert "unexpected format of the answer" in str(error) and "\n" not in str(error)
    else:
        assert isinstance(page.next, int) and isinstance(page.more, bool)


@given(VALUES)
def test_any_event_is_shown_or_said(value):
    found = decode_page({"events": [value], "next": 7, "more": False, "time": 7}, "a")
    assert 1 == len(found.events) + bool(found.bad) and "\n" not in found.bad


def test_names_of_clients_stand_beside_them():
    event = an_event(1, clients=("10.9.0.11@o2ib2", "10.9.0.12@o2ib2"))
    answer = {"events": [{**as_json(event), "clients_names": ["nid7", "a\x1bb"]}], "next": 7,
              "more": False, "time": 7}
    assert [(event, {"10.9.0.11@o2ib2": "nid7", "10.9.0.12@o2ib2": "a\\x1bb"})] == decode_page(
        answer, "a").events


@pytest.mark.parametrize("text, name", [
    ("mds1", "http://mds1:8980"), ("mgmt1", "mgmt1:19990"), ("mds1:19990", "mds1:19990"),
    ("mgmt1:8981", "mgmt1:8981"), ("mgmt1:8980", "http://mgmt1:8980"),
    ("http://mgmt1", "http://mgmt1:8980"), ("http://mds1:37/", "http://mds1:37"),
    ("[fe80::1]:8980", "http://[fe80::1]:8980")])
def test_a_servers_name_says_what_it_is(text, name):
    config = Config()
    config.set_value("site.host", "mgmt1:4711", "test")
    assert name == event_servers.parse_server(text, config).name


def test_another_scheme_than_http_is_refused():
    with pytest.raises(UsageError, match="expected HOST, HOST:PORT or http://HOST:PORT, got 'htt"):
        event_servers.parse_server("https://mds1:8980", Config())


@pytest.mark.parametrize("question, is_one", [
    (ALL, True), (ALL._replace(since=NOON + 43), True), (ALL._replace(since=NOON + 44), False),
    (ALL._replace(until=NOON), True), (ALL._replace(until=NOON - 1), False),
    (ALL._replace(severity=2), True), (ALL._replace(severity=3), False),
    (ALL._replace(nodes=["nid7"]), False), (ALL._replace(nodes=["nid7", "nid8"]), True),
    (ALL._replace(nodes=["oss1"]), True), (ALL._replace(kinds=["lbug"]), False),
    (ALL._replace(kinds=["lbug", "evicted"]), True), (ALL._replace(file_systems=["home"]), False),
    (ALL._replace(file_systems=["home", "scratch"]), True)])
def test_what_this_machine_finds_is_chosen_by_the_same_rule(question, is_one):
    event = an_event(1, clients=("nid8",), over=NOON + 43)
    assert is_one == is_selected(event, question)


def test_a_question_has_what_was_chosen():
    assert {"severity": 0} == make_params(ALL)
    assert {"severity": 1, "since": 0.0, "nodes": ["a1", "a2"], "kinds": ["lbug"], "job": "4711",
            "file_systems": ["home"]} == make_params(EventSelection(
                0.0, None, parse_severity("W", "--severity"), parse_file_systems(["home", " home"]),
                parse_nodes(["a[1-2]"]), parse_kinds(["lbug,"]), "4711"))
    with pytest.raises(UsageError, match="--node: expected a node list"):
        parse_nodes(["a[2-1]"])
