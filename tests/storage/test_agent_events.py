"""
An agent tells the site's server what went wrong: from the kernel's log and the files of its storage
server, over restarts and kills of either, and beside its sweeps.
"""
from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from harvest_desk import StorageDesk, a_job, until_received
from processes import free_port, until
from server_files import ServerFiles, complete, recovering
from storage import PATIENT

from iostats.base import config as site_config
from iostats.storage.events import AgentEvents
from iostats.wire import site_servers
from iostats.wire.auth import WireError
from iostats.wire.protocol import REFUSED

OST, MDT = "scratch-OST0003", "scratch-MDT0000"
NID = "10.0.0.37@tcp"


class KernelLog:
    """ROOT/dev/kmsg of a simulated storage server: records are appended."""

    def __init__(self, root):
        self.path = root / "dev/kmsg"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        self.number = 23

    def add(self, *lines, skip=0):
        """`skip`: so many records before are lost."""
        self.number += skip
        with self.path.open("a") as file:
            for line in lines:
                self.number += 1
                file.write(f"4,{self.number},{self.usec()},-;{line}\n")

    @staticmethod
    def usec():
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6)

    def evicts(self, nid=NID, target=OST):
        self.add(f"Lustre: {target}: haven't heard from client f15aa50c-8084-47f6-bb2e-"
                 f"fc5ed9687c46 (at {nid}) in 39 seconds. I think it's dead, and I am evicting it. "
                 f"exp 0000000040f6bb5c, cur 1795333379 deadline 1795333378 last 1795333340")


class EventsDesk(StorageDesk):
    """A storage server with a log and two targets."""

    def __init__(self, directory):
        super().__init__(directory)
        self.choices["events.every"] = 1
        self.files, self.log = ServerFiles(self.root, "2.17"), KernelLog(self.root)
        self.files.start(OST, instance=41, evictions=0, clients=37)
        self.files.start(MDT, instance=53, clients=43)
        self.show([a_job(1)])

    def events(self, ports=(), **choices):
        """AgentEvents in this process, and what it says; `ports`: of several servers."""
        config = site_config.load(str(self.write_config(**choices)), environ={})
        said = []
        os.makedirs(self.spool, 0o700, exist_ok=True)
        one = AgentEvents(config, str(self.root), "oss1",
                          [("127.0.0.1", port) for port in ports or [self.port]],
                          lambda text, key=None: said.append(text))
        one.said = said
        return one

    def waiting_events(self):
        return sorted((self.spool / "events").glob("*.message"))


@pytest.fixture
def desk(tmp_path):
    one = EventsDesk(tmp_path)
    yield one
    one.close()


def _once(one):
    one.scan_once()
    one.send_all(time.monotonic() + 60)


def told(site):
    """{id: the last that was told of it}, but what comes of the first look."""
    return {one.id: one for taken in site.events for one in taken.events}


def kinds(site):
    return sorted((one.kind, one.target) for one in told(site).values())


# -- what is told

def test_lines_of_the_log_and_files_are_told_as_they_come(desk):
    site = desk.site(ahead_s=100.0)
    agent = desk.begin()
    until(lambda: site.events, what="how it stands")
    status = site.events[-1].head.status
    assert ("healthy", "kmsg", "", 37, 43) == (
        status.health, status.log.source, status.log.why, status.targets[OST].clients,
        status.targets[MDT].clients)
    began = time.time()
    desk.log.evicts()
    until(lambda: ("evicted", OST) in kinds(site), what="the eviction")
    [one] = told(site).values()
    assert ("oss1", "silent", [NID], 1, "scratch") == (one.node, one.cause, one.clients, one.count,
                                                       one.file_system)
    assert abs(one.time - (began + 100)) < 20                   # by the server's clock
    desk.files.health("NOT HEALTHY")
    until(lambda: ("not_healthy", "") in kinds(site), what="health_check")
    until(lambda: site.events[-1].head.status and
          site.events[-1].head.status.health == "NOT HEALTHY", what="its status")
    desk.files.stop(OST)
    until(lambda: ("target_down", OST) in kinds(site), what="a target that is gone")
    until(lambda: site.events[-1].head.status and
          site.events[-1].head.status.targets[OST].state == "down", what="its status")
    desk.files.start(OST, instance=42, recovery=recovering(int(time.time()), 53, 23, 41))
    until(lambda: {("target_up", OST), ("recovery", OST)} <= set(kinds(site)), what="the recovery")
    desk.files.show(OST, recovery=complete(int(time.time()) - 2, 2, 41, 41))
    until(lambda: any(one.kind == "recovery" and one.over for one in told(site).values()),
          what="its end")
    assert [("evicted", OST), ("not_healthy", ""), ("recovery", OST), ("target_down", OST),
            ("target_up", OST)] == kinds(site)
    assert 0 == agent.stop().status
    assert [] == desk.waiting_events()


def test_an_eviction_that_is_counted_and_not_logged_is_told_once(desk):
    """As of OST0000 in a capture of 2.17.57: the log's messages are rate limited."""
    site = desk.site()
    agent = desk.begin()
    until(lambda: site.events, what="the first look")
    desk.log.evicts()
    desk.files.show(OST, evictions=1)
    desk.files.show(MDT, evictions=1)
    until(lambda: ("evicted", MDT) in kinds(site), what="the one that was not logged")
    time.sleep(3)                                               # three looks more
    assert 0 == agent.stop().status
    assert [(MDT, "unknown", 1), (OST, "silent", 1)] == sorted(
        (one.target, one.cause, one.count) for one in told(site).values())


def test_status_alone_is_not_kept_on_the_disk(desk):
    agent = desk.begin()
    agent.says("messages wait in")
    time.sleep(3)
    assert [] == desk.waiting_events()
    assert 0 == agent.stop().status


def test_how_it_stands_is_told_where_it_has_changed(desk, monkeypatch):
    site = desk.site()
    one = desk.events()
    now = time.time()
    monkeypatch.setattr("iostats.storage.events.time.time", lambda: now)

    def statuses(later_s):
        nonlocal now
        now += later_s
        del site.events[:]
        _once(one)
        return [taken.head.status and taken.head.status.targets[OST].clients
                for taken in site.events]
    assert [37] == statuses(0)
    assert [] == statuses(5)
    assert [None] == statuses(15)                               # it is still there
    desk.files.show(OST, clients=41)
    assert [41] == statuses(1)
    desk.files.show(OST, clients=43)
    method = site.methods.pop("packed_events")
    assert [] == statuses(1)                                    # it was not taken
    site.methods["packed_events"] = method
    one.delivery.retry_at = 0.0
    assert [43] == statuses(1) and [43] == statuses(600)
    one.end()


# -- kills and restarts

def test_what_was_told_while_the_server_was_away_comes_once_it_is_back(desk):
    agent = desk.begin()
    until(lambda: desk.spool.joinpath("events.state").exists(), what="the first look")
    for number in range(5):
        desk.log.evicts(f"10.0.0.{number}@tcp", f"scratch-OST000{number}")
    until(desk.waiting_events, what="a message that waits")
    agent.kill()
    desk.log.evicts("10.0.0.23@tcp", "scratch-OST0023")         # while none runs
    site = desk.site()
    again = desk.begin()
    until(lambda: len(told(site)) == 6, what="all six")
    assert 0 == again.stop().status
    assert 6 == len({(one.target, one.clients[0]) for one in told(site).values()})


@pytest.mark.parametrize("point", ["found", "kept", "told", "sent", "forgotten"])
def test_a_kill_at_any_point_loses_none_and_doubles_none(desk, point, monkeypatch):
    """What was told twice has the same id, and says no less."""
    site = desk.site()
    first = desk.events()
    _once(first)
    [path] = site.events[-1].head.status and [desk.spool / "events.state"]
    desk.log.evicts()
    desk.files.show(OST, evictions=1)
    desk.files.health("NOT HEALTHY")
    steps = []

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed
    gathering = first._get_gathering()
    if point == "found":
        monkeypatch.setattr(first.spool, "write", killed)
    elif point == "kept":
        monkeypatch.setattr(gathering, "acknowledge", killed)
    elif point == "told":
        monkeypatch.setattr(first.delivery, "send", killed)
    elif point == "sent":
        monkeypatch.setattr(first.spool, "remove", killed)
    if point == "forgotten":
        _once(first)
    else:
        with pytest.raises(Killed):
            _once(first)
    monkeypatch.undo()
    gathering.close()
    first.spool.close()
    desk.log.evicts("10.0.0.41@tcp", MDT)
    second = desk.events()
    _once(second)
    assert [("evicted", MDT, 1), ("evicted", OST, 1), ("not_healthy", "", 1)] == sorted(
        (one.kind, one.target, one.count) for one in told(site).values()), steps
    assert path.exists() and [] == desk.waiting_events()


def test_kills_at_random_moments(desk):
    """kill -9 of a running agent, again and again, while the log goes on."""
    site = desk.site()
    agent = desk.begin()
    until(lambda: site.events, what="the first look")
    for number in range(12):
        desk.log.evicts(f"10.0.1.{number}@tcp", f"scratch-OST00{number:02x}")
        time.sleep(0.07 * (number % 5))
        if number % 3 == 2:
            agent.kill()
            agent = desk.begin()
    until(lambda: len(told(site)) == 12, what="all twelve")
    agent.runs()                    # the one before may have told all
    assert 0 == agent.stop().status
    assert [(f"scratch-OST00{number:02x}", 1, [f"10.0.1.{number}@tcp"])
            for number in range(12)] == sorted((one.target, one.count, one.clients)
                                               for one in told(site).values())


# -- a server that is older, or refuses; a disk that is full; a bug

def test_an_older_server_costs_one_line_and_loses_nothing(desk):
    site = desk.site()
    method = site.methods.pop("packed_events")
    agent = desk.begin()
    desk.log.evicts()
    until(desk.waiting_events, what="a message that waits")
    agent.says("packed_events")
    until_received(site, [a_job(1)])                            # sweeps go on
    time.sleep(3)
    assert 1 == agent.err.count("older release, which does not know `packed_events`"), agent.err
    assert 1 == len(agent.err.splitlines()), agent.err
    site.methods["packed_events"] = method
    agent.kill()
    again = desk.begin()
    until(lambda: ("evicted", OST) in kinds(site), what="the event")
    assert 0 == again.stop().status


def test_once_with_an_older_server(desk):
    site = desk.site()
    del site.methods["packed_events"]
    desk.log.evicts()
    done = desk.once()
    assert 0 == done.status and site.entries() and 1 == len(desk.waiting_events())
    assert 1 == len(done.err.splitlines()) and "update it" in done.err


def test_what_the_server_refuses_is_counted_and_said(desk):
    site = desk.site()
    one = desk.events()
    desk.log.evicts()
    site.events_refusal = WireError(REFUSED, "not from you")
    _once(one)
    assert ["not from you"] == [text.partition(": ")[2].partition(";")[0][-12:]
                                for text in one.said if "not from you" in text]
    assert 1 == one.dropped and [] == desk.waiting_events()
    site.events_refusal = None
    desk.log.evicts("10.0.0.41@tcp", MDT)
    _once(one)
    assert [1] == [taken.head.dropped for taken in site.events if taken.events]
    one.end()


def test_a_disk_without_room_keeps_the_place_in_the_log(desk, monkeypatch):
    one = desk.events()
    desk.log.evicts()

    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(one.spool, "write", full)
    monkeypatch.setattr(one.delivery, "send", lambda data, within_s: "later")
    assert not one._scan(one._get_gathering())
    assert ["events cannot be written: No space left on device"] == [
        text.partition(": ")[2].partition(";")[0] for text in one.said]
    monkeypatch.undo()
    site = desk.site()
    _once(one)
    assert [("evicted", OST)] == kinds(site)
    one.end()


def test_more_than_there_is_room_for_is_counted(desk):
    # A quarter of it is 256 files of 4 KiB.
    one = desk.events(harvest_spool_bytes=4 << 20, events_max_kept=1000)
    for number in range(300):
        desk.log.add(f"Lustre: scratch-OST{number:04x}: evicting f15aa50c at adminstrative request")
        one._scan(one._get_gathering())
    assert 256 == len(one.spool) and any("the oldest events are dropped" in text
                                         for text in one.said)
    site = desk.site()
    desk.log.evicts()
    _once(one)
    while len(one.spool):
        one._send_next()
    dropped = sum(taken.head.dropped for taken in site.events)
    assert 301 == len(told(site)) + dropped + one.dropped and dropped > 40
    one.end()


def test_a_bug_in_gathering_harms_no_sweep(desk):
    site = desk.site()
    agent = desk.begin(patient=PATIENT.replace("sys.exit(", """
from iostats.events import gather
gather.Gathering.scan = lambda self: 1 / 0
sys.exit("""))
    until_received(site, [a_job(1)])
    agent.says("internal error; please report: ZeroDivisionError")
    desk.show([a_job(1), a_job(2)])
    until_received(site, [a_job(1), a_job(2)])
    assert 0 == agent.stop().status


def test_a_spool_that_cannot_be_used_harms_no_sweep(desk):
    desk.spool.mkdir(0o700)
    (desk.spool / "events").write_text("")
    site = desk.site()
    agent = desk.begin()
    until_received(site, [a_job(1)])
    agent.says("events are not sent: ")
    assert 0 == agent.stop().status


def test_a_log_that_cannot_be_read_is_said_once(desk):
    desk.log.path.unlink()
    desk.log.path.mkdir()
    site = desk.site()
    agent = desk.begin()
    until(lambda: site.events, what="how it stands")
    log = site.events[-1].head.status.log
    assert "none" == log.source and log.why.startswith(f"{desk.log.path}: ")
    desk.files.health("NOT HEALTHY")
    until(lambda: ("not_healthy", "") in kinds(site), what="what files tell")
    assert 1 == agent.err.count(str(desk.log.path)), agent.err
    assert 0 == agent.stop().status


def test_it_ends_at_once(desk):
    """A server that does not answer, and a log that is quiet."""
    site = desk.site()
    agent = desk.begin()
    until(lambda: site.events, what="the first look")
    os.kill(agent.process.pid, signal.SIGTERM)
    began = time.monotonic()
    assert 0 == agent.wait().status
    assert time.monotonic() - began < 30


def test_two_threads_and_no_more(desk):
    one = desk.events()
    before = set(threading.enumerate())                 # some of other tests may be about to end
    one.start()
    started = set(threading.enumerate()) - before
    assert 2 == len(started)
    one.end()
    until(lambda: sum(thread.is_alive() for thread in started) <= 1, what="their end")



def test_a_state_that_cannot_be_used_is_said_once(desk):
    one = desk.events()
    one.scan_once()
    one.end()
    state = desk.spool / "events.state"
    state.write_text("{")
    one = desk.events()
    one.scan_once()
    one.scan_once()
    one.end()
    said = [line for line in one.said if "cannot be used" in line]
    assert 1 == len(said) and said[0].startswith(f"events: {state}: cannot be used: ")
    assert "the kernel's log is read again from its oldest line, with the same ids" in said[0]


# -- several site's servers

def test_each_event_is_told_to_the_server_that_answers_and_how_it_stands_to_both(
        desk, monkeypatch):
    """The first is away and back; what came before is not told again, what grew is told whole."""
    other = free_port()
    first, one = desk.site(), desk.events([desk.port, other])
    try:
        _once(one)
        desk.log.evicts(NID)
        _once(one)
        assert [("evicted", OST)] == kinds(first) and first.events[0].head.status
        first.close()
        standby = desk.site(port=other)
        desk.files.health("NOT HEALTHY")
        _once(one)
        assert [("not_healthy", "")] == kinds(standby) and [] == desk.waiting_events()
        _once(one)
        assert standby.events[-1].head.status.health == "NOT HEALTHY"
        back = desk.site()
        monkeypatch.setattr(site_servers, "LOOK_BACK_S", 0)
        desk.log.evicts(NID, MDT)
        _once(one)
        monkeypatch.undo()
        assert [("evicted", MDT), ("not_healthy", "")] == kinds(standby)
        desk.files.health("healthy")
        _once(one)
        assert [("healthy", ""), ("not_healthy", "")] == kinds(back)
        assert all(one.over for one in told(back).values() if one.kind == "not_healthy")
        assert back.events[-1].head.status.health == "healthy"
    finally:
        one.end()
