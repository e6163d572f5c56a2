"""
An agent whose site has two servers, the second of which is a standby: what each of them gets, and
that no message is lost, or counted twice.
"""
from __future__ import annotations

import random
import time

import pytest
from exports_kernel import ExportsKernel, messages_of
from harvest_desk import NS, OST, StorageDesk, a_job, refusal, shown
from processes import Listener, free_port

from iostats.base.errors import NotDelivered
from iostats.wire import client, protocol, site_servers

DESK = StorageDesk
SLOT = 1_795_225_400


@pytest.fixture
def both(desk):
    """The ports of the two servers."""
    return desk.port, free_port()


class Sweeping:
    """An agent in this process, which sweeps when it is told to."""

    def __init__(self, desk, both, **choices):
        self.desk, self.said = desk, []
        self.agent = desk.agent(lambda text: self.said.append(text), both, **choices)
        self.slot, self.is_ended = SLOT, False

    def sweep(self):
        self.slot += 1
        self.agent.sweep(self.slot, 1)

    def deliver(self):
        """Whether all was sent to the server that answers; a pause after a failure is left out."""
        self.agent.delivery.retry_at = 0.0
        return self.agent.delivery.deliver(time.monotonic() + 30)

    def both(self):
        self.sweep()
        return self.deliver()

    def has_said(self, words):
        return sum(words in line for line in self.said)

    def end(self):
        if not self.is_ended:
            self.is_ended = True
            self.agent.end()
            self.agent.delivery.spool.close()


@pytest.fixture
def at(desk, both):
    found = []

    def begin(**choices):
        found.append(Sweeping(desk, both, **choices))
        return found[-1]
    yield begin
    for one in found:
        one.end()


def entries(site):
    return site.entries()[OST]


def places(site, outcome="taken"):
    """[(run, seq)] of what a server has answered so."""
    return [(run, seq) for run, seq, its in site.heard if its == outcome]


def test_the_first_one_goes_and_comes_back_and_each_message_is_counted_once(
        desk, both, at, monkeypatch):
    """
    Three sweeps before it goes, two while both are away, three at the standby, and then the first
    one again: it gets the rest of the chain that it has, and then a chain of its own.
    """
    first, one = desk.site(), at()
    jobs = [a_job(0)]
    for number in range(1, 4):
        desk.show(jobs)
        assert one.both()
        jobs = [*jobs, a_job(number)]
    run = first.heard[0][0]
    first.close()
    for number in range(4, 6):
        desk.show(jobs)
        assert not one.both()
        jobs = [*jobs, a_job(number)]
    assert 2 == len(desk.waiting()) and 0 == one.has_said("is 127")

    standby = desk.site(port=both[1])
    assert one.deliver()                        # what it has no beginning of waits
    assert [(run, 4)] == places(standby, "hole") and 2 == len(desk.waiting())
    for number in range(6, 9):
        desk.show(jobs)
        assert one.both()
        jobs = [*jobs, a_job(number)]
    assert shown(jobs[:-1]) == entries(standby) and 2 == len(desk.waiting())
    [other] = {its for its, _ in places(standby)}
    assert [(other, seq) for seq in (1, 2, 3)] == places(standby)
    assert 1 == one.has_said(f"the site's server is 127.0.0.1:{both[1]} now")

    back = desk.site(known=first.messages)
    desk.show(jobs)
    assert one.both()                           # it is not asked yet
    assert [] == back.heard and (other, 4) == places(standby)[-1]
    monkeypatch.setattr(site_servers, "LOOK_BACK_S", 0)
    desk.show(jobs)
    assert one.both()                           # all is at the standby before it is left
    assert (other, 5) == places(standby)[-1]
    monkeypatch.undo()
    jobs = [*jobs, a_job(9)]
    desk.show(jobs)
    assert one.both()
    [*rest, (third, seq)] = places(back)
    assert [(run, 4), (run, 5)] == rest and 1 == seq and third not in (run, other)
    assert shown(jobs) == entries(back) and [] == desk.waiting()
    assert [] == places(back, "hole") + places(back, "again")
    assert 5 == len(standby.messages)


def test_both_away_and_the_first_is_back_and_nothing_begins_anew(desk, both, at):
    first, one = desk.site(), at()
    desk.show([a_job(0)])
    assert one.both()
    first.close()
    desk.show([a_job(0), a_job(1)])
    assert not one.both()
    [why] = [line for line in one.said if "no answer" in line]
    assert all(f"127.0.0.1:{port}" in why for port in both) and why.count("no answer") == 1
    back = desk.site(known=first.messages)
    assert one.both()
    [run] = {run for run, *_ in back.heard}
    assert [(run, 2), (run, 3)] == places(back) and run == first.heard[0][0]
    assert shown([a_job(0), a_job(1)]) == entries(back)


def test_a_first_one_that_hangs_is_passed_by(desk, both, at, monkeypatch):
    """It accepts, and says nothing; the next message does not wait for it again."""
    monkeypatch.setattr(site_servers, "_HELLO_WITHIN_S", 0.3)
    desk.show([a_job(0)])
    standby, one = desk.site(port=both[1]), at()
    with Listener(both[0], None) as silent:
        assert one.both() and one.both()
        assert 1 == silent.met
    assert shown([a_job(0)]) == entries(standby) and [] == desk.waiting()


def test_servers_that_say_hello_and_take_nothing_are_asked_again_later(desk, both, at, monkeypatch):
    """Each hangs up when the message itself comes: neither is asked without an end."""
    first, standby, one = desk.site(), desk.site(port=both[1]), at()
    desk.show([a_job(0)])
    one.sweep()
    tries, call = [], client.call

    def broken(host, port, name, signs, node, method, *more, **how):
        tries.append((port, method))
        if method != "hello":
            raise NotDelivered("no answer: it closed the connection")
        return call(host, port, name, signs, node, method, *more, **how)
    monkeypatch.setattr(client, "call", broken)
    assert not one.deliver() and one.agent.delivery.retry_at > time.monotonic()
    assert 6 >= len(tries) and 1 == len(desk.waiting())
    monkeypatch.undo()
    assert one.deliver() and 1 == len(places(first) + places(standby))


def test_a_standby_that_has_the_same_store_goes_on_where_the_first_was(desk, both, at):
    """Its disk was moved there: what waits is taken, and nothing of it stays behind."""
    first, one = desk.site(), at()
    desk.show([a_job(0)])
    assert one.both()
    first.close()
    desk.show([a_job(0), a_job(1)])
    assert not one.both()
    standby = desk.site(port=both[1], known=first.messages)
    assert one.deliver() and [] == desk.waiting()
    assert [(first.heard[0][0], 2)] == places(standby)


def test_what_waits_for_the_first_outlasts_an_agent(desk, both, at):
    first, one = desk.site(), at()
    desk.show([a_job(0)])
    assert one.both()
    first.close()
    desk.show([a_job(0), a_job(1)])
    assert not one.both()
    one.end()
    standby, other = desk.site(port=both[1]), at()
    assert other.both() and 1 == len(desk.waiting())
    standby.close()
    back = desk.site(known=first.messages)
    assert other.both() and [] == desk.waiting()
    assert (first.heard[0][0], 2) == places(back)[0]


def test_a_server_that_refuses_or_has_no_room_is_not_away(desk, both, at):
    first, standby, one = desk.site(), desk.site(port=both[1]), at()
    for code in (protocol.INTERNAL_ERROR, protocol.REFUSED):
        first.refusal = refusal(code, "no")
        desk.show([a_job(0)])
        one.both()
    assert [] == standby.heard and 2 <= len(first.heard)


def test_a_store_that_was_lost_gets_a_full_sweep_though_there_is_a_standby(desk, both, at):
    first, one = desk.site(), at()
    desk.show([a_job(0)])
    assert one.both()
    first.close()
    back = desk.site()
    desk.show([a_job(0), a_job(1)])
    assert one.both() and [] == desk.waiting()
    assert one.both()
    assert shown([a_job(0), a_job(1)]) == entries(back)


def test_one_server_alone_has_no_file_of_servers(desk, both, at):
    desk.site()
    one = Sweeping(desk, both[:1])
    desk.show([a_job(0)])
    assert one.both()
    assert not (desk.spool / "servers").exists()
    one.end()


def test_clients_losses_are_told_to_the_other_server_as_well(desk, both, at):
    """A client's file was removed between two sweeps: what it did then is not known."""
    def losses(site):
        return [(loss["nid"], loss["why"]) for message in site.clients
                for block in messages_of(message)[1] for loss in block[0]["losses"]]
    now = SLOT * NS
    kernel = ExportsKernel("2.15.2", "OST", now)
    kernel.mount(now, "10.0.0.7@o2ib3", "one")
    kernel.write(now, kernel.mounts[0], 4096, 23)
    desk.show([a_job(0)])
    kernel.save(now, desk.root)
    first, one = desk.site(), at(harvest_exports="yes")
    assert one.both()
    kernel.clear(now + NS)
    kernel.save(now + 2 * NS, desk.root)
    assert one.both()
    told = losses(first)
    assert told
    first.close()
    standby = desk.site(port=both[1])
    one.both()
    assert one.both()
    assert told == losses(standby)


@pytest.mark.parametrize("seed", range(23, 31))
def test_whatever_servers_and_agents_do_each_message_is_taken_once(
        desk, both, at, monkeypatch, seed):
    """
    Servers go and come back with what they had, agents are killed, jobs come: no server takes a
    message twice, or one of a chain without all before it, and each has the truth in the end.
    """
    dice, jobs, one, made = random.Random(seed), [a_job(0)], at(), []

    def sweep():
        desk.show(jobs)
        one.sweep()
        made.append((one.agent.encoder.run, one.agent.encoder.began))
    up, stores = {}, {0: [], 1: []}

    def switch(place):
        if place in up:
            stores[place] = up[place].messages
            up.pop(place).close()
        else:
            up[place] = desk.site(port=both[place], known=stores[place])
    for _ in range(60):
        step = dice.choice(["job", "sweep", "sweep", "deliver", "first", "standby", "agent"])
        monkeypatch.setattr(site_servers, "LOOK_BACK_S", dice.choice([0, 60]))
        if step == "job":
            jobs.append(a_job(len(jobs)))
        elif step == "sweep":
            sweep()
            one.deliver()
        elif step == "deliver":
            one.deliver()
        elif step == "agent":
            one.agent.delivery.spool.close()            # killed: nothing else is kept
            one.agent.events.spool.close()
            slot, one.is_ended = one.slot, True
            one = at()
            one.slot = slot
        else:
            switch(("first", "standby").index(step))
    for place in (1, 0):                                # the standby alone, then the first alone
        for other in (0, 1):
            if (other in up) != (other == place):
                switch(other)
        for _ in range(3):
            sweep()
            assert one.deliver()
        assert shown(jobs) == entries(up[place])
        stores[place] = up[place].messages
    # What still waits goes on from what the standby has; nothing else is anywhere.
    last = {message.run: message.seq for message in stores[1]}
    waiting = [(run, int(seq)) for _, run, seq, _ in (name.split(".") for name in desk.waiting())]
    assert all(seq > last[run] for run, seq in waiting)
    everything = waiting + [(message.run, message.seq) for messages in stores.values()
                            for message in messages]
    assert sorted(made) == sorted(everything)
    for messages in stores.values():
        told = [(message.run, message.seq) for message in messages]
        assert len(told) == len(set(told))
        for run in {run for run, _ in told}:
            seqs = [seq for its, seq in told if its == run]
            assert seqs == list(range(1, len(seqs) + 1))
