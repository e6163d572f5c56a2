"""What a storage server's files tell of: health, targets, recovery, evictions that are counted."""
from __future__ import annotations

import os
from collections import namedtuple

import pytest
from server_files import PLACES, ServerFiles, complete, recovering

from iostats.events.server_reading import read_server
from iostats.events.sources import evictions, health, recovery, targets

OST, MDT = "scratch-OST0003", "scratch-MDT0000"
T = 1_795_333_400.0
Told = namedtuple("Told", "kind target time over count message", defaults=("", T, None, 1, ""))


class Looks:
    """One source, look after look; `kill`: the next one begins with an older state."""

    def __init__(self, source, server):
        self.source, self.server, self.state, self.ids = source, server, None, []

    def __call__(self, now=T, kept=True):
        found = self.source.detect(read_server(str(self.server.root)), self.server.place,
                                   self.state, now)
        if kept:
            self.state = found.state
        self.ids += [one.id for one in found.events]
        self.status = found.status
        return [Told(one.kind, one.target, one.time, one.over, one.count, one.message)
                for one in found.events]


@pytest.fixture(params=sorted(PLACES))
def server(request, tmp_path):
    found = ServerFiles(tmp_path, request.param)
    found.release = request.param
    return found


# -- health

def test_not_healthy_and_healthy_again(server):
    looks = Looks(health, server)
    assert [] == looks() and {"health": "healthy"} == looks.status
    server.health("NOT HEALTHY", OST)
    [told] = looks(T + 23)
    names = server.release in ("2.5", "2.15", "2.16")
    assert told == Told("not_healthy", OST if names else "", T + 23, None, 1,
                        "health_check: NOT HEALTHY" + (f": {OST}" if names else ""))
    assert [] == looks(T + 33) and {"health": "NOT HEALTHY"} == looks.status
    server.health("healthy")
    over, healthy = looks(T + 60)
    assert over == told._replace(over=T + 60) and looks.ids[0] == looks.ids[1]
    assert healthy == Told("healthy", "", T + 60, None, 1,
                           "health_check: healthy again, after 37 s")
    server.health("NOT HEALTHY", OST)
    [again] = looks(T + 70)
    assert T + 70 == again.time and 3 == len(set(looks.ids))


def test_an_lbug_stays(server):
    looks = Looks(health, server)
    looks()
    server.health("NOT HEALTHY")
    looks(T + 10)
    server.health("LBUG")
    over, bug = looks(T + 20)
    assert ("not_healthy", T + 20) == (over.kind, over.over)
    assert Told("lbug", "", T + 20, None, 1, "health_check: LBUG") == bug
    assert [] == looks(T + 30)


def test_more_devices_are_the_same_event(tmp_path):
    server = ServerFiles(tmp_path, "2.16")
    looks = Looks(health, server)
    looks()
    server.health("NOT HEALTHY", OST)
    looks(T + 10)
    server.health("NOT HEALTHY", OST, "OSS")
    assert [Told("not_healthy", "", T + 10, None, 2, f"health_check: NOT HEALTHY: {OST}, OSS")] == (
        looks(T + 20))
    assert 1 == len(set(looks.ids))


def test_a_storage_server_that_is_not_healthy_at_the_first_look(server):
    looks = Looks(health, server)
    server.health("NOT HEALTHY")
    assert ["not_healthy"] == [one.kind for one in looks(kept=False)]
    looks(T + 5)                            # after a kill, the same
    assert 1 == len(set(looks.ids))


# -- targets

def test_targets_go_and_come(server):
    server.start(OST, instance=41, clients=23)
    server.start(MDT, instance=53, clients=37)
    server.start("MGS", clients=7)
    looks = Looks(targets, server)
    assert [] == looks()
    assert {OST: {"state": "up", "clients": 23}, MDT: {"state": "up", "clients": 37},
            "MGS": {"state": "up", "clients": 7}} == looks.status["targets"]
    server.show(MDT, recovery=recovering(int(T), 53, 23, 41))
    looks(T + 20)
    assert {"state": "recovering", "clients": 37,
            "recovery": {"clients": 23, "of": 41, "left_s": 53}} == looks.status["targets"][MDT]
    server.stop(OST)
    assert [Told("target_down", OST, T + 23,
                 message=f"{OST}: no longer on this storage server")] == looks(T + 23)
    assert {"state": "down", "clients": None} == looks.status["targets"][OST]
    assert [] == looks(T + 33)
    server.start(OST, instance=42)
    assert [Told("target_up", OST, T + 60, message=f"{OST}: is here again, after 37 s")] == (
        looks(T + 60))
    server.show(MDT, instance=54)
    assert [Told("target_up", MDT, T + 70, message=f"{MDT}: was stopped and started again")] == (
        looks(T + 70))
    server.stop("MGS")
    assert ["MGS"] == [one.target for one in looks(T + 80)]
    assert 4 == len(set(looks.ids))


def test_a_new_target(server):
    looks = Looks(targets, server)
    assert [] == looks()
    server.start(OST)
    assert [Told("target_up", OST, T + 10, message=f"{OST}: is here")] == looks(T + 10, kept=False)
    looks(T + 20)                           # after a kill, the same
    assert 1 == len(set(looks.ids))


def test_a_target_that_is_down_for_a_week_is_forgotten(server):
    server.start(OST)
    looks = Looks(targets, server)
    looks()
    server.stop(OST)
    looks(T + 10)
    assert OST in looks.status["targets"]
    assert [] == looks(T + 11 + targets.FORGET_S) and {} == looks.status["targets"]


def test_directories_that_cannot_be_read_say_nothing(tmp_path, monkeypatch):
    server = ServerFiles(tmp_path, "2.12")
    server.start(OST)
    looks = Looks(targets, server)
    looks()
    listed = os.listdir

    def closed(path):
        if str(path).endswith("proc/fs/lustre/obdfilter"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)
    monkeypatch.setattr(os, "listdir", closed)
    assert [] == looks(T + 10)
    assert ("proc/fs/lustre/obdfilter: Permission denied",) == read_server(str(tmp_path)).why
    monkeypatch.undo()
    assert [] == looks(T + 20)


# -- recovery

def test_recovery_from_its_start_to_its_end(server):
    server.start(OST, instance=41)
    looks = Looks(recovery, server)
    assert [] == looks()
    server.show(OST, instance=42, recovery=recovering(int(T) + 3, 53, 23, 41))
    assert [Told("recovery", OST, T + 3, None, 1,
                 f"{OST}: waits for its clients: 23 of 41 have reconnected, 53 s left")
            ] == looks(T + 10)
    server.show(OST, recovery=recovering(int(T) + 3, 43, 37, 41))
    assert [] == looks(T + 20)
    server.show(OST, recovery=complete(int(T) + 4, 61, 35, 41))     # a second off, from 2.15 on
    assert [Told("recovery", OST, T + 3, T + 65, 1, f"{OST}: recovered in 61 s: 35 of 41 clients "
                 f"reconnected; 6 did not, and were evicted")] == looks(T + 70)
    assert 1 == len(set(looks.ids)) and [] == looks(T + 80)


def test_a_recovery_between_two_looks_is_told_whole(server):
    server.start(OST, instance=41, recovery=complete(int(T) - 1000, 7, 41, 41))
    looks = Looks(recovery, server)
    assert [] == looks()
    server.show(OST, instance=42, recovery=complete(int(T) + 2, 5, 41, 41))
    assert [Told("recovery", OST, T + 2, T + 7, 1,
                 f"{OST}: recovered in 5 s: 41 of 41 clients reconnected")] == looks(T + 10)


def test_a_recovery_under_way_at_the_first_look_and_after_a_kill(server):
    server.start(OST, instance=42, recovery="status: WAITING_FOR_CLIENTS\n")
    looks = Looks(recovery, server)
    assert [f"{OST}: waits for its clients: none has reconnected yet"] == [
        one.message for one in looks(kept=False)]
    looks(T + 10)
    server.stop(OST)
    assert [(T + 10, T + 20, f"{OST}: was stopped before its clients had reconnected")] == [
        (one.time, one.over, one.message) for one in looks(T + 20)]
    assert 1 == len(set(looks.ids))


def test_a_target_that_is_started_twice_is_two_recoveries(server):
    server.start(OST, instance=42, recovery=recovering(int(T), 53, 0, 41))
    looks = Looks(recovery, server)
    looks()
    server.show(OST, instance=43, recovery=recovering(int(T) + 30, 53, 0, 41))
    assert [(T, T + 40), (T + 30, None)] == [(one.time, one.over) for one in looks(T + 40)]
    assert 2 == len(set(looks.ids))


# -- evictions

@pytest.fixture(params=["2.16", "2.17"])
def counting(request, tmp_path):
    return ServerFiles(tmp_path, request.param)


def test_evictions_are_counted(counting):
    counting.start(OST, instance=41, evictions=23)
    counting.start("MGS", evictions=7)
    looks = Looks(evictions, counting)
    assert [] == looks()
    counting.show(OST, evictions=60)
    assert [Told("evicted", OST, T, None, 37,
                 f"{OST}: eviction_count has risen by 37, from 23 to 60")] == looks(T + 10, False)
    # It was killed before it kept that.
    counting.show(OST, evictions=61)
    assert [38] == [one.count for one in looks(T + 20)] and 1 == len(set(looks.ids))
    assert [] == looks(T + 30)
    counting.show("MGS", evictions=8)
    assert [("MGS", 1)] == [(one.target, one.count) for one in looks(T + 40)]


def test_a_target_that_was_started_again_counts_from_0(counting):
    counting.start(OST, instance=41, evictions=23)
    looks = Looks(evictions, counting)
    looks()
    counting.show(OST, instance=42, evictions=53)
    assert [(OST, 53)] == [(one.target, one.count) for one in looks(T + 10)]
    counting.stop(OST)
    looks(T + 20)
    counting.start(OST, instance=43, evictions=3)
    assert [(OST, 3)] == [(one.target, one.count) for one in looks(T + 30)]


def test_releases_without_the_count(tmp_path):
    server = ServerFiles(tmp_path, "2.15")
    server.start(OST)
    looks = Looks(evictions, server)
    assert [] == looks() and [] == looks(T + 10)


def test_a_count_that_could_not_be_read_before_is_no_news(counting):
    counting.start(OST, instance=41, evictions="what\n")
    looks = Looks(evictions, counting)
    looks()
    assert (f"{OST}: eviction_count: expected a number, got 'what'",) == (
        read_server(str(counting.root)).why)
    counting.show(OST, evictions=23)
    assert [] == looks(T + 10)
    counting.show(OST, evictions=24)
    assert [1] == [one.count for one in looks(T + 20)]


# -- bad input

@pytest.mark.parametrize("text", ["", "\0" * 5000, "-1\n", "99999999999999999999\n", "\x1b[2J",
                                  "\xff\xfe", "status: \n", "status: RECOVERING\n"])
def test_damaged_files_are_named_and_tell_nothing(tmp_path, text):
    server = ServerFiles(tmp_path, "2.17")
    server.start(OST)
    sources = [Looks(one, server) for one in (health, targets, evictions)]
    for one in sources:
        one()
    server.show(OST, recovery=text, instance=text, evictions=text, clients=text)
    server.health(text)
    for one in sources:
        assert [] == one(T + 10)
    why = read_server(str(tmp_path)).why
    assert why and all(line.isprintable() and len(line) < 400 for line in why)
