"""
Events at a site's server: messages, questions, who is answered, restarts.
"""
from __future__ import annotations

import base64
import random
import threading
import time
import zlib

import pytest
from events_messages import NOON, STATUS, event, ids, params, send
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import until
from site_desk import SiteDesk, a_report
from site_inside import Inside, answer_to
from site_store import fill_up, make_room

from iostats.base.errors import IostatsError, WireError
from iostats.base.job_facts import ENDED, RUNNING, Facts
from iostats.events.event import as_json
from iostats.server.rpc_server import Caller
from iostats.wire import client, protocol

A, B = "10.9.0.11@tcp", "10.9.0.12@tcp"


@pytest.fixture
def inside(tmp_path):
    names = tmp_path / "names"
    names.write_text(f"{A} nid00011\n{B} nid00012\n")
    found = Inside(tmp_path, clients_names=str(names), site_readers="root")
    found.server.harvest.clients.names.add_nids([A, B])
    yield found
    found.store.close()


def asked(inside, **ask):
    return inside.ask("events", ask)


def test_what_is_told_is_there_once_with_the_names_of_its_clients(inside):
    one = event(23, clients=(A, "10.9.0.99@tcp"), count=2)
    assert {"taken": True, "why": ""} == send(inside, [one], status=STATUS)
    assert {"taken": True, "why": ""} == send(inside, [one])
    found = asked(inside)
    [row] = found["events"]
    assert {**as_json(one), "place": 1, "clients_names": ["nid00011", "10.9.0.99@tcp"]} == row
    assert (1, False, NOON, 0) == (found["next"], found["more"], found["time"], found["dropped"])
    assert 16 == len(found["places"])
    assert [] == asked(inside, after=found["next"])["events"]
    grown = one._replace(count=37)
    send(inside, [grown])
    again = asked(inside, after=found["next"])
    assert [(2, 37)] == [(row["place"], row["count"]) for row in again["events"]]


def test_what_is_read_once_more_after_a_kill_is_not_told_again(inside):
    """Its line is timed anew: by some tenths of a second another time."""
    send(inside, [event(23)])
    place = asked(inside)["next"]
    send(inside, [event(23, at=NOON - 41.4)])
    assert [] == asked(inside, after=place)["events"]
    assert 1 == len(asked(inside)["events"])


def test_times_are_the_sites_and_never_later_than_they_came(inside):
    send(inside, [event(23, at=NOON + 600 - 41)], ahead_s=600.0)
    send(inside, [event(37, at=NOON + 3600, over=NOON + 7200)])
    assert [(NOON - 41, None), (NOON, NOON)] == [
        (row["time"], row["over"]) for row in asked(inside)["events"]]


def test_a_storage_server_tells_of_itself_alone(inside):
    send(inside, [event(23, node="mds1")], node="oss1")
    assert ["oss1"] == [row["node"] for row in asked(inside)["events"]]
    [one] = params([event(37)], "oss2")
    with pytest.raises(WireError, match="the events are from another storage server than their h"):
        inside.ask("packed_events", one, node="oss1")
    for bad in (b"", b"x", b"\0" * 99):
        with pytest.raises(WireError, match=r"expected a whole compressed|expected one whole"):
            inside.ask("packed_events", {"protocol": 1, "sweep": base64.b64encode(bad).decode()},
                       node="oss1")


def test_a_nodes_events_come_with_its_report(inside):
    """And are joined by nothing but their ids: a report that comes twice adds none."""
    one = event("x", "connection_lost", NOON - 30, "nid00001", over=NOON - 7)
    for _ in range(2):
        inside.send("4711", "nid00001", events=[as_json(one)], events_dropped=2)
    inside.server._commit()
    assert [one.id] == ids(asked(inside))
    assert ["nid00001"] == [row["node"] for row in asked(inside)["events"]]
    assert [] == inside.ask("events_status", {})["servers"]     # it is no storage server


EVENTS = [
    event(0, at=NOON - 100, clients=(A,)),
    event(1, "target_down", NOON - 90),
    event(2, "timeouts", NOON - 80, "mds1", "home", "home-MDT0000"),
    event(3, "not_healthy", NOON - 70, "oss1", "", ""),
    event(4, "connection_lost", NOON - 60, "oss1", target="scratch-MDT0000", over=NOON - 50),
    event(5, "lbug", NOON - 40, "mds1", "home", ""),
    event(6, at=NOON - 30, clients=(B,), target="scratch-OST0004"),
]


@pytest.mark.parametrize("ask, expected", [
    ({}, [0, 1, 2, 3, 4, 5, 6]),
    ({"since": NOON - 70, "until": NOON - 40}, [3, 4, 5]),
    ({"since": NOON - 55, "until": NOON - 52}, [4]),                        # it lasted
    ({"severity": 2}, [0, 1, 3, 5, 6]), ({"severity": 3}, [5]),
    ({"file_systems": ["scratch"]}, [0, 1, 3, 4, 6]),       # oss1 has targets of scratch
    ({"file_systems": ["home", "work"]}, [2, 5]),
    ({"targets": ["scratch-OST0004", "home-MDT0000"]}, [2, 6]),
    ({"kinds": ["lbug", "evicted"]}, [0, 5, 6]), ({"kinds": ["no such kind"]}, []),
    ({"nodes": ["nid00011"]}, [0]), ({"nodes": [B]}, [6]), ({"nodes": ["mds1"]}, [2, 5]),
    ({"nodes": ["nid00011", "nid00012"], "file_systems": ["scratch"], "severity": 2,
      "since": NOON - 50}, [6]),
    ({"last": 2}, [5, 6]), ({"last": 1, "file_systems": ["scratch"]}, [6]), ({"after": 5}, [5, 6]),
    ({"last": 3, "until": NOON - 60}, [2, 3, 4]),
    ({"after": 4_000_000_000_000}, []),
])
def test_questions(inside, ask, expected):
    send(inside, [one for one in EVENTS if one.node == "oss1"], status=STATUS)
    send(inside, [one for one in EVENTS if one.node == "mds1"], node="mds1", status={
        "targets": {"home-MDT0000": {"state": "up"}}})
    number = {one.id: at for at, one in enumerate(EVENTS)}
    places = {one["id"]: one["place"] for one in asked(inside)["events"]}
    assert {1, 2, 3, 4, 5, 6, 7} == set(places.values())
    if "after" in ask and ask["after"] < 100:
        expected = [at for at in range(7) if places[EVENTS[at].id] > ask["after"]]
    found = asked(inside, **ask)
    assert expected == sorted(number[id] for id in ids(found)) and not found["more"]
    assert sorted(places[id] for id in ids(found)) == [places[id] for id in ids(found)]


def test_names_of_clients_are_known_after_a_restart(inside):
    """Those of whom events alone tell, too."""
    nid = "10.9.0.13@tcp"
    with open(inside.config.clients.names, "a") as file:
        file.write(f"{nid} nid00013\n")
    inside.store.close()
    inside.begin()
    send(inside, [event(23, at=NOON - 41, clients=(nid,))], status=STATUS)
    for _ in range(2):
        assert [event(23).id] == ids(asked(inside, nodes=["nid00013"]))
        assert [event(23).id] == [one.id for one in inside.server.events.find_events(
            ["nid00013"], [], NOON - 100, NOON).events]
        inside.store.close()
        inside.begin()
    # What a commit that fails had named is kept with the next one.
    other = "10.9.0.14@tcp"
    send(inside, [event(37, clients=(other,))], commit=False)
    inside.store.connection.execute("ROLLBACK")
    inside.server.events.reload()
    send(inside, [event(37, clients=(other,))])
    assert [(nid,), (other,)] == inside.store.rows("SELECT nid FROM events_nids ORDER BY nid")


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[
    HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_question_misses_an_event_that_is_asked_for(inside, data):
    """Against a plain look at each of them; few and many names, which are sought in other ways."""
    dice = random.Random(7)
    nids = [f"10.9.1.{number}@tcp" for number in range(60)]
    several = [event(number, dice.choice(["evicted", "lbug", "timeouts"]), NOON - 1 - number % 97,
                     f"oss{number % 3}", f"fs{number % 2}", f"fs{number % 2}-OST{number % 50:04x}",
                     clients=dice.sample(nids, dice.randrange(3))) for number in range(800)]
    if not inside.server.events.reporting_servers.of:
        for node in range(3):
            send(inside, [one for one in several if one.node == f"oss{node}"], f"oss{node}")
    def some(names, most=60):
        return data.draw(st.one_of(st.just([]), st.lists(st.sampled_from(names), min_size=1,
                                                         max_size=most)))
    ask = {"nodes": some([*nids, "oss1"]), "kinds": some(["evicted", "lbug", "other"]),
           "targets": some([f"fs1-OST{number:04x}" for number in range(50)]),
           "file_systems": some(["fs0", "fs1", "fs2"]), "severity": data.draw(st.integers(0, 3)),
           "since": NOON - data.draw(st.integers(0, 100))}
    expected = {one.id for one in several if (
        (not ask["nodes"] or {one.node, *one.clients} & {*ask["nodes"]})
        and (not ask["kinds"] or one.kind in ask["kinds"])
        and (not ask["targets"] or one.target in ask["targets"])
        and (not ask["file_systems"] or one.file_system in ask["file_systems"])
        and one.severity >= ask["severity"] and one.last >= ask["since"])}
    assert expected == set(ids(asked(inside, limit=5000, **ask)))
    nodes = ask["nodes"] or ["oss0"]
    found = inside.server.events.find_events(nodes, ["fs1"], ask["since"], NOON)
    assert {one.id for one in several if one.last >= ask["since"] and (
        {one.node, *one.clients} & {*nodes}
        or (not one.clients and one.kind == "lbug" and one.file_system == "fs1"))} == {
        one.id for one in found.events}


@pytest.mark.parametrize("ask, why", [
    ({"limit": 0}, "limit"), ({"limit": 5001}, "limit"), ({"after": -1}, "after"),
    ({"severity": 4}, "severity"), ({"since": "now"}, "since"), ({"since": 1e30}, "since"),
    ({"since": 7, "until": 3}, "until: expected no moment before `since`"),
    ({"nodes": ["n"] * 10_001}, "nodes"), ({"kinds": ["x" * 257]}, "kinds"),
    ({"job": "4711"}, "no job 4711 is known here; select its nodes and its time instead")])
def test_a_bad_question_is_one_clear_line(inside, ask, why):
    with pytest.raises(WireError) as error:
        asked(inside, **ask)
    assert why in str(error.value) and "\n" not in str(error.value)


def test_a_long_answer_comes_in_parts_and_all_of_it(inside):
    """Nothing is missing and nothing comes twice, also where events grow meanwhile."""
    several = [event(number, at=NOON - 4000 + number) for number in range(3500)]
    for at in range(0, 3500, 500):
        send(inside, several[at:at + 500])
    seen, after, parts = {}, 0, 0
    while True:
        found = asked(inside, after=after, limit=700)
        assert len(found["events"]) <= 700
        seen.update((row["id"], row["count"]) for row in found["events"])
        after, parts = found["next"], parts + 1
        if not found["more"]:
            break
        send(inside, [several[parts]._replace(count=37), several[-parts]._replace(count=41)])
    assert {one.id for one in several} == seen.keys() and parts >= 5
    assert 37 == seen[several[1].id] and 41 == seen[several[-1].id]
    assert [] == asked(inside, after=after)["events"]
    newest = asked(inside, last=3)
    assert sorted(ids(newest)) == sorted(one.id for one in several[-3:])


# -- who is answered -----------------------------------------------------------------------------

ALICE = 12345


@pytest.fixture
def of_alice(inside, monkeypatch):
    """What the server answers to alice, and to an unauthenticated one."""
    import pwd
    real = pwd.getpwuid
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: type("P", (), {"pw_name": "alice"})
                        if uid == ALICE else real(uid))

    def ask(method="events", who=Caller("login1", ALICE), **ask):       # noqa: B008
        return answer_to(inside.server, who, method, **ask)
    return ask


def test_an_ordinary_user_sees_what_is_of_all_and_no_names(inside, of_alice):
    send(inside, [one._replace(message=f"{A} is named") for one in EVENTS if one.node == "oss1"],
         status=STATUS)
    send(inside, [event("own", "lbug", NOON - 5, "nid00011", target="")], node="nid00011",
         commit=False)
    inside.server.events.reporting_servers.of.pop("nid00011")  # a node, no storage server
    inside.server._commit()
    answer = of_alice()["result"]
    assert "alice" == answer["of_user"]
    found = answer["events"]
    assert ["target_down", "not_healthy"] == [row["kind"] for row in found]
    assert [("", [], [])] * 2 == [(row["message"], row["clients"], row["clients_names"])
                                  for row in found]
    assert [] == of_alice(nodes=["nid00011"])["result"]["events"]
    assert "expected root or one of [site] readers, got user alice" in of_alice(
        "events_status")["error"]["message"]
    assert "no Authorization header" in of_alice(who=None)["error"]["message"]
    assert "no Authorization header" in of_alice("events_status", who=None)["error"]["message"]


def test_a_user_sees_what_happened_to_the_nodes_of_an_own_job(inside, of_alice):
    """In its time alone; of an eviction of several clients, those of the job."""
    inside.send("4711", "nid00011", about={"user": "alice", "nodes": "nid00011"},
                ended=NOON - 10, elapsed_s=100.0)
    inside.send("4712", "nid00012", about={"user": "bob", "nodes": "nid00012"},
                ended=NOON - 10, elapsed_s=100.0)
    inside.now += 600
    inside.make_records()
    told = [
        event("mine", at=NOON - 50, clients=(A,), message=f"client {A}"),
        event("both", at=NOON - 40, clients=(A, B), count=2, message=f"client {B}"),
        event("theirs", at=NOON - 40, clients=(B,)),
        event("before", at=NOON - 150, clients=(A,)),
        event("after", at=NOON + 100, clients=(A,)),
        event("all", "target_down", NOON - 60, message="by admin"),
        event("elsewhere", "target_down", NOON - 60, fs="work", target="work-OST0000")]
    send(inside, told, status=STATUS)
    # What a node says of a whole file system is its own word, and not of another's job.
    inside.send("4799", "nid00099", events=[as_json(
        event("forged", "target_down", NOON - 60, "nid00099"))])
    inside.server._commit()
    found = {row["id"]: row for row in of_alice(job="4711")["result"]["events"]}
    assert {told[0].id, told[1].id, told[5].id} == found.keys()
    assert ([A], ["nid00011"], f"client {A}") == tuple(
        found[told[0].id][name] for name in ("clients", "clients_names", "message"))
    assert ([A], ["nid00011"], "", 2) == tuple(
        found[told[1].id][name] for name in ("clients", "clients_names", "message", "count"))
    assert "" == found[told[5].id]["message"]
    # No advice that she may not follow.
    assert of_alice(job="4712")["error"]["message"].endswith(
        "no job 4712 of alice is known here; users see only their own jobs")
    # Root sees the whole of both.
    assert {told[0].id, told[1].id, told[5].id} == set(ids(asked(inside, job="4711")))
    assert {told[1].id, told[2].id, told[5].id} == set(ids(asked(inside, job="4712")))
    kept = inside.server.events.find_events(["nid00011"], ["scratch"], NOON - 110, NOON - 10)
    assert ([told[5].id, told[0].id, told[1].id], 0) == (
        [one.id for one in kept.events], kept.more)


def test_a_job_that_runs_or_has_no_report_is_known_by_the_batch_system(inside, of_alice):
    """And one whose record is damaged is one line of error."""
    runs = inside.server.all_jobs.runs
    runs.add_list([Facts(job="4800_7", raw_job="4811", user="alice", nodes="nid[00011-00012]",
                    state=RUNNING, started=NOON - 100.0),
              Facts(job="4812", raw_job="4812", user="bob", nodes="nid00012", state=ENDED,
                    started=NOON - 300.0, ended=NOON - 200.0)], (), NOON)
    told = [event(1, at=NOON - 150, clients=(A,)), event(2, at=NOON - 50, clients=(A,)),
            event(3, at=NOON - 250, clients=(B,)), event(4, at=NOON - 250, clients=(A,))]
    send(inside, told, status=STATUS)
    assert [told[1].id] == ids(asked(inside, job="4811")) == ids(asked(inside, job="4800_7"))
    assert [told[2].id] == ids(asked(inside, job="4812"))
    assert [told[1].id] == ids(of_alice(job="4811")["result"])
    assert "no job 4812 of alice" in of_alice(job="4812")["error"]["message"]
    inside.send("4711", "nid00011", about={"user": "alice", "nodes": "nid00011"})
    inside.now += 600
    inside.make_records()
    inside.store.change("UPDATE jobs SET record = ? WHERE job = '4711'", (zlib.compress(b"[]"),))
    with pytest.raises(WireError, match="the record of job 4711 cannot be decoded"):
        asked(inside, job="4711")


def test_too_many_events_of_a_job_are_counted_and_the_worst_are_there(inside):
    for at in range(0, 3000, 500):
        send(inside, [event(one, "timeouts", NOON - 50, clients=(A,))
                      for one in range(at, at + 500)])
    send(inside, [event("worst", "data_lost", NOON - 30, clients=(A,))])
    found = inside.server.events.find_events(["nid00011"], [], NOON - 60, NOON)
    assert (1000, 2001) == (len(found.events), found.more)
    assert "data_lost" == found.events[-1].kind


# -- how storage servers stand, and who is not connected ------------------------------------------

def test_an_agent_that_is_not_heard_is_said_so_and_is_no_event(inside):
    send(inside, status=STATUS)
    [row] = inside.ask("events_status", {})["servers"]
    assert {"node": "oss1", "heard": NOON, "every": 10, "late": False, "made": NOON, "dropped": 0,
            **STATUS} == row
    inside.now += 44
    assert not inside.ask("events_status", {})["servers"][0]["late"]
    inside.now += 2
    [row] = inside.ask("events_status", {})["servers"]
    assert row["late"] and NOON == row["heard"] and [] == asked(inside)["events"]


def test_a_status_that_has_waited_is_older(inside):
    down = {**STATUS, "targets": {"scratch-OST0003": {"state": "down", "clients": None}}}
    send(inside, status=STATUS)
    inside.now += 10
    send(inside, status=down, made_at=NOON - 100, dropped=23)
    [row] = inside.ask("events_status", {})["servers"]
    assert (NOON + 10, NOON, "up", 23) == (row["heard"], row["made"],
                                           row["targets"]["scratch-OST0003"]["state"],
                                           row["dropped"])
    send(inside, status=None)
    assert NOON == inside.ask("events_status", {})["servers"][0]["made"]


def test_what_storage_servers_said_is_there_after_a_restart(inside):
    send(inside, status=STATUS)
    inside.store.close()
    inside.begin()
    [row] = inside.ask("events_status", {"file_systems": ["scratch"]})["servers"]
    assert STATUS["targets"] == row["targets"] and NOON == row["heard"]
    assert [] == inside.ask("events_status", {"file_systems": ["home"]})["servers"]
    inside.store.change("UPDATE events_tellers SET body = ?", (b"cut",))
    inside.store.close()
    inside.begin()
    assert [] == inside.ask("events_status", {})["servers"]


def test_who_is_not_connected(inside):
    send(inside, [event(23, at=NOON - 100, clients=(A,), cause="silent"),
                  event(37, at=NOON - 50, clients=(B, "10.9.0.99@tcp"), cause="lock", count=9)])
    inside.send("4711", "nid00012", events=[
        as_json(event("own", "evicted", NOON - 20, "nid00012", over=NOON - 20))])
    inside.server._commit()
    found = inside.ask("events_status", {})
    assert [("10.9.0.99@tcp", "evicted", NOON - 50), ("nid00011", "evicted", NOON - 100)] == [
        (row["node"], row["state"], row["since"]) for row in found["down"]]
    assert "evicted by oss1 (silent); no report since" == found["down"][1]["why"]
    assert [A] == found["down"][1]["nids"] and found["down"][1]["active"] is None
    assert [7] == [one["count"] for one in found["unnamed"]]
    assert [] == inside.ask("events_status", {"file_systems": ["home"]})["down"]
    assert ["nid00011"] == [row["node"] for row in inside.ask(
        "events_status", {"nodes": ["nid00011"]})["down"]]
    assert [] == inside.ask("events_status", {"since": NOON - 40})["down"]


# -- failures --------------------------------------------------------------------------------------

def test_with_a_full_disk_nothing_is_acknowledged_that_is_not_there(inside, caplog):
    """Reports too; and it is taken when there is room again."""
    send(inside, [event(23)])
    fill_up(inside.store)
    with pytest.raises(WireError, match="database or disk is full"):
        for at in range(0, 50_000, 500):
            send(inside, [event(one, message="x" * 400) for one in range(at, at + 500)],
                 commit=False)
    inside.server._commit()
    assert "database or disk is full" in inside.server.trouble
    assert [event(23).id] == ids(asked(inside))
    make_room(inside.store)
    send(inside, [event(37)])
    assert [event(23).id, event(37).id] == ids(asked(inside))
    assert "" == inside.server.trouble


class Sender(threading.Thread):
    """
    An agent that sends messages of events, each until it is answered.

    After 15 messages it waits until the server was killed once, after 30 for the second time, ...
    """

    def __init__(self, desk, messages):
        super().__init__(daemon=True)
        self.desk, self.messages, self.kills, self.done = desk, messages, 0, 0

    def run(self):
        for number in range(self.messages):
            while number >= 15 * (self.kills + 1):
                time.sleep(0.01)
            now = time.time()
            events = [event(one, at=now)._replace(count=number + 1)
                      for one in (*range(number * 100, number * 100 + 100), "grows")]
            [one] = params(events, seq=number + 1, made_at=now, status=STATUS)
            while not self._sent(one):
                time.sleep(0.05)
            self.done += 1
            time.sleep(0.02)

    def _sent(self, one):
        try:
            answer = client.call("127.0.0.1", self.desk.port, protocol.SITE, self.desk.signs(),
                                 "oss1", "packed_events", one)
        except IostatsError:
            return False
        assert answer["taken"], answer
        return True


def test_a_server_that_is_killed_has_each_event_once(tmp_path):
    """
    Killed again and again while an agent sends and a monitor follows: the monitor sees each event,
    and none twice by its id; at any moment it has all that was acknowledged.
    """
    with SiteDesk(tmp_path) as desk:
        server, dice = desk.site(), random.Random(37)
        sender = Sender(desk, 60)
        sender.start()
        seen, after, places = {}, 0, set()

        def follow():
            nonlocal after
            while True:
                found = desk.asked("events", after=after, limit=1000)
                places.add(found["places"])
                seen.update((row["id"], row["count"]) for row in found["events"])
                assert after <= found["next"]
                after = found["next"]
                if not found["more"]:
                    return
        while sender.is_alive():
            time.sleep(dice.uniform(0.1, 0.8))
            if dice.random() < 0.5:
                follow()
            server.kill()
            sender.kills += 1
            acknowledged = sender.done
            server = desk.site()
            follow()
            assert len(seen) >= 100 * acknowledged
        follow()
        expected = {event(number).id: number // 100 + 1 for number in range(6000)}
        assert {**expected, event("grows").id: 60} == seen
        assert 1 == len(places) and 60 == sender.done and sender.kills > 2
        assert 6001 == len(ids_of_all(desk))
        assert 0 == server.stop().status


def test_a_node_that_does_something_after_its_eviction_may_be_back(tmp_path):
    """It is not said that it is away, nor that it is back: it may be at another target."""
    with SiteDesk(tmp_path) as desk:
        names = tmp_path / "names"
        names.write_text(f"{A} nid00011\n{B} nid00012\n")
        desk.configure(clients_names=names, harvest_interval=1, batch_system="none")
        server, at = desk.site(), time.time() - 10
        desk.clients("oss1", "scratch", {A: [0] * 6, B: [0] * 6})
        [one] = params([event(1, at=at, clients=(A,)), event(2, at=at, clients=(B,))], made_at=at)
        assert client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), "oss1",
                           "packed_events", one)["taken"]
        def rows():
            return {row["node"]: (row["state"], row["active"], row["why"])
                    for row in desk.asked("events_status")["down"]}
        away = "evicted", False, "evicted by oss1; no report since"
        until(lambda: {"nid00011": away, "nid00012": away} == rows(), what=rows)
        desk.clients("oss1", "scratch", {A: [41_003, 0, 23, 0, 0, 0], B: [0] * 6})
        desk.clients("oss1", "scratch", {A: [0] * 6, B: [0] * 6})
        until(lambda: {"nid00011": ("unclear", True, "evicted by oss1; did I/O at scratch since"),
                       "nid00012": away} == rows(), what=rows)
        assert 0 == server.stop().status


def ids_of_all(desk):
    found, after = [], 0
    while True:
        answer = desk.asked("events", after=after, limit=5000)
        found += ids(answer)
        after = answer["next"]
        if not answer["more"]:
            assert len(set(found)) == len(found)
            return found


def test_signed_messages_and_questions_go_the_whole_way(tmp_path):
    with SiteDesk(tmp_path) as desk:
        server = desk.site()
        [one] = params([event(23)], made_at=time.time(), status=STATUS)
        answer = client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), "oss1",
                             "packed_events", one)
        assert answer["taken"]
        assert [event(23).id] == until(lambda: ids(desk.asked("events")), what="the event")
        desk.send(a_report(events=[as_json(event("own", "evicted", NOON, "nid00001"))]))
        assert 2 == len(desk.asked("events", nodes=["oss1", "nid00001"])["events"])
        assert 0 == server.stop().status


def test_an_event_with_the_id_of_another_is_left_out_and_said(inside, caplog):
    send(inside, [event(23)])
    for number in (1, 2):
        send(inside, [event(23, node="oss2")], node="oss2")
        assert [("oss1", number)] == [(row["node"], len(caplog.messages))
                                      for row in asked(inside)["events"]]
    assert ["1 event left out: the same ids as of other events (the last of oss2)",
            "2 events left out: the same ids as of other events (the last of oss2)"] == (
        caplog.messages)
