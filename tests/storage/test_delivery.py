"""
The agent's messages on their way: a server that is down or refuses them, kills, restarts and full
disks.
"""
from __future__ import annotations

import os
import random
import subprocess
import time
import zlib

import pytest
from harvest_desk import BEGAN, NS, OST, StorageDesk, a_job, refusal, shown, until_received
from processes import until

from iostats.base.errors import NotDelivered
from iostats.storage import delivery
from iostats.wire import client, protocol

DESK = StorageDesk


# -- the server is down ----------------------------------------------------------------------

def test_what_happens_while_the_server_is_down_is_sent_later_and_once(desk):
    """Ten sweeps wait, each with another truth; all are taken in their order."""
    desk.show([a_job(0)])
    agent = desk.begin()
    agent.says("messages wait in")
    for number in range(1, 4):
        waiting = len(desk.waiting())
        desk.show([a_job(0, 41_003 + number, seen_s=37 + number)])
        until(lambda more=waiting + 2: len(desk.waiting()) >= more)
    site = desk.site()
    until(lambda: site.messages and not desk.waiting())
    before = len(site.messages)
    until(lambda: len(site.messages) > before)
    seen = [seen for message in site.messages for block in message.targets
            for _, seen, _ in list(block.entries_of.values())[:1]]
    assert [BEGAN + (37 + number) * NS for number in range(4)] == seen
    assert {"taken"} == {outcome for *_, outcome in site.heard}
    assert list(range(1, len(site.messages) + 1)) == [message.seq for message in site.messages]
    done = agent.stop()
    assert [1, 1] == [done.err.count(words) for words in (
        "no answer from the site's server", "the site's server is back")], done
    assert "Traceback" not in done.err


def test_a_server_that_is_down_costs_one_try_and_not_one_for_each_message(desk, monkeypatch):
    """The waits grow; a sweep is not kept waiting by what was not delivered."""
    desk.show([a_job(0)])
    for _ in range(3):
        assert 3 == desk.once(node_retry_timeout=0).status
    assert 3 == len(desk.waiting())
    tries = []

    def away(*_, **__):
        tries.append(time.monotonic())
        raise NotDelivered("away")
    monkeypatch.setattr(client, "call", away)
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_S", 300.0)     # however busy this machine is
    agent = desk.agent()
    for _ in range(23):
        agent.delivery.deliver(time.monotonic() + 10)
    assert 1 == len(tries) and 3 == len(desk.waiting())


def test_messages_of_earlier_agents_are_delivered_first(desk):
    """A restart, or a reboot: what the last one could not deliver is on the disk."""
    for number in range(3):
        desk.show([a_job(number)])
        assert 3 == desk.once(node_retry_timeout=0).status
    site = desk.site()
    desk.show([a_job(3)])
    assert 0 == desk.once().status
    assert [["4711"], ["4712"], ["4713"], ["4714"]] == [
        message.targets[0].ids for message in site.messages]
    assert [] == desk.waiting()


def test_a_server_that_lost_everything_gets_a_full_sweep(desk):
    site, jobs = desk.site(), [a_job(number) for number in range(23)]
    desk.show(jobs)
    agent = desk.begin()
    until_received(site, jobs)
    site.close()
    other = desk.site()
    until_received(other, jobs)
    agent.says("asks for a full sweep")
    assert "hole" in {outcome for *_, outcome in other.heard}
    assert 1 == agent.stop().err.count("asks for a full sweep")


@pytest.mark.parametrize("code", [protocol.REFUSED, protocol.INVALID_PARAMS])
def test_a_message_that_is_refused_is_dropped_and_logged_once(desk, code):
    site = desk.site()
    site.refusal = refusal(code, "another agent reads scratch-OST0000")
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: len(site.heard) >= 3)
    assert len(desk.waiting()) <= 1
    site.refusal = None
    until_received(site, [a_job(0)])
    done = agent.stop()
    assert 1 == done.err.count("another agent reads scratch-OST0000"), done
    assert len({run for run, *_ in site.heard}) >= 3      # a new chain each time


def test_a_server_whose_disk_is_full_is_asked_again(desk):
    site = desk.site()
    site.refusal = refusal(protocol.INTERNAL_ERROR, "no space left on device")
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: len(site.heard) >= 2 and len(desk.waiting()) >= 2)
    site.refusal = None
    until_received(site, [a_job(0)])
    assert 1 == agent.stop().err.count("no space left on device")


def test_the_status_of_once_says_that_the_server_accepted_nothing(desk):
    desk.show([a_job(0)])
    done = desk.once(node_retry_timeout=0.1)
    assert 3 == done.status and "1 messages wait in" in done.err
    site = desk.site()
    site.refusal = refusal(text="no such thing")
    done = desk.once()
    assert 3 == done.status and "no such thing" in done.err


def test_a_server_that_never_answers_keeps_no_sweep_from_its_time(desk):
    """
    It accepts, and says nothing; the waits grow, and there is a sweep in most seconds.  Events have
    a connection of their own.
    """
    from processes import Listener
    desk.show([a_job(0)])
    with Listener(desk.port, None) as silent:
        agent = desk.begin(patient=False)
        until(lambda: len(desk.waiting()) >= 5)
        assert silent.met < 9
        # While the listener is there: it resets connections at its end.
        assert 1 == agent.stop().err.count("messages wait in")


def test_something_else_on_the_port_gets_nothing_and_loses_nothing(desk):
    from processes import Listener
    desk.show([a_job(0)])
    with Listener(desk.port, b"220 mail ready\r\n"):
        assert 3 == desk.once(node_retry_timeout=0.1, patient=False).status
    assert 1 == len(desk.waiting())


def test_another_secret_is_named(desk):
    desk.site()
    desk.show([a_job(0)])
    secret = desk.directory / "other.secret"
    secret.write_text("f" * 64)
    secret.chmod(0o600)
    done = desk.once("--secret", secret, node_retry_timeout=0)
    assert 3 == done.status and "the site's server has another secret" in done.err, done


# -- what is sent ----------------------------------------------------------------------------

def test_a_message_is_sent_as_it_was_kept(desk):
    """It is compressed once: what waits on the disk is what the server gets and inflates."""
    desk.show([a_job(0)])
    done = desk.once(node_retry_timeout=0)
    assert 3 == done.status
    [name] = desk.waiting()
    line, _, kept = (desk.spool / name).read_bytes().partition(b"\n")
    assert b"%08x" % zlib.crc32(kept) == line
    assert zlib.decompress(kept).startswith(b"iostats sweep 2\n")
    assert b'"ids":["4711"]' in zlib.decompress(kept)
    site = desk.site()
    assert 0 == desk.once().status
    assert kept == site.packed[0]


def test_a_server_of_release_0_1_gets_nothing_until_it_is_updated(desk):
    """It has no method `packed_sweep`: nothing is lost until it is updated, and a line says so."""
    desk.show([a_job(0)])
    site = desk.site()
    method = site.methods.pop("packed_sweep")
    done = desk.once(node_retry_timeout=0)
    assert 3 == done.status
    assert "the site's server is of an older release, which does not know `packed_sweep`: update " \
           "it; 1 messages wait" in done.err
    assert [] == site.messages and 1 == len(desk.waiting())
    site.methods["packed_sweep"] = method
    assert 0 == desk.once().status
    assert [1, 1] == [message.seq for message in site.messages]
    assert [] == desk.waiting()


# -- kills, restarts, full disks --------------------------------------------------------------

def test_killed_at_any_moment_nothing_is_lost_and_nothing_sent_twice(desk):
    """SIGKILL some 20 times while jobs move on; the server goes away now and then, too."""
    dice, jobs, site = random.Random(23), [a_job(number) for number in range(2500)], desk.site()
    desk.show(jobs)
    for turn in range(23):
        agent = desk.begin("--once") if turn % 3 else desk.begin()
        pause = time.monotonic() + dice.random() * 0.7
        for _ in range(3):
            for number in dice.sample(range(len(jobs)), 41):
                jobs[number] = a_job(number, 41_003 + turn, seen_s=37 + turn)
            if turn % 4 == 1:
                jobs.pop()
            desk.show(jobs)
            until(lambda: time.monotonic() > pause)         # noqa: B023
            pause = time.monotonic() + dice.random() * 0.05
        agent.kill()
        assert "Traceback" not in agent.err
        if turn % 7 == 3:
            site.close()
        elif turn % 7 == 5:
            site = desk.site(known=site.messages)
    site.close()
    site = desk.site(known=site.messages)
    assert 0 == desk.once().status
    assert shown(jobs) == site.entries()[OST]
    taken = [(message.run, message.seq) for message in site.messages]
    assert len(taken) == len(set(taken))
    assert [] == desk.waiting()
    assert {"lock"} == set(os.listdir(desk.spool)) - {"events", "events.state"}


def test_an_answer_that_was_lost_is_no_second_message(desk):
    """The server has it, and the agent was killed before it could know."""
    desk.show([a_job(0)])
    assert 3 == desk.once(node_retry_timeout=0).status
    [name] = desk.waiting()
    kept = (desk.spool / name).read_bytes()
    site = desk.site()
    assert 0 == desk.once().status
    site.messages.pop()                             # as if that one had not been sent yet
    (desk.spool / name).write_bytes(kept)
    assert 0 == desk.once().status
    assert ["taken", "taken", "again", "taken"] == [outcome for *_, outcome in site.heard]
    assert shown([a_job(0)]) == site.entries()[OST]


def test_when_too_much_waits_the_oldest_goes_and_the_numbers_are_right(desk):
    """Never more bytes than allowed; later the server takes what is left without a hole."""
    dice = random.Random(37)
    said = []
    agent = desk.agent(said.append, harvest_spool_bytes=1 << 20)
    for turn in range(41):
        jobs = [a_job(number, dice.randrange(1 << 40), seen_s=turn) for number in range(3000)]
        desk.show(jobs)
        agent.sweep(turn, 1)
        sizes = [path.stat().st_size for path in desk.spool.glob("*.message")]
        assert 0 < sum(sizes) <= 1 << 20
    assert 1 == len(said) and "the oldest sweeps are dropped" in said[0]
    waiting = len(desk.waiting())
    site = desk.site()
    until(lambda: agent.delivery.deliver(time.monotonic() + 10))
    assert {"taken"} == {outcome for *_, outcome in site.heard}
    assert waiting == len(site.messages) > 10
    assert shown(jobs) == site.entries()[OST]
    assert 2 <= len({message.run for message in site.messages})


def test_a_sweep_that_is_larger_than_the_spool_is_sent_while_the_server_is_up(desk):
    """And left out, with a word, while it is not."""
    dice = random.Random(41)
    jobs = [a_job(number, dice.randrange(1 << 52), f"{dice.randrange(1 << 120):x}")
            for number in range(60_000)]
    desk.show(jobs)
    done = desk.once(harvest_spool_bytes=1 << 20, node_retry_timeout=0)
    assert 1 == done.status and "set [harvest] spool_bytes to more" in done.lines[-1], done
    assert [] == desk.waiting()
    site = desk.site()
    assert 0 == desk.once(harvest_spool_bytes=1 << 20).status
    assert shown(jobs) == site.entries()[OST]


def test_a_damaged_message_is_put_aside_and_the_next_sweep_is_full(desk):
    """Cut off, not compressed, empty: three messages of one agent; a fourth is whole."""
    desk.show([a_job(0)])
    agent = desk.agent()
    for turn in range(5):
        desk.show([a_job(0, seen_s=turn)])
        agent.sweep(turn, 1)
    agent.delivery.spool.close()
    for name, data in zip(desk.waiting()[1:4], (b"x\x9c", b"[1]", b"")):
        (desk.spool / name).write_bytes(data)
    site = desk.site()
    desk.show([a_job(0, seen_s=5)])
    done = desk.once()
    assert 0 == done.status
    assert 3 == done.err.count("a message that waited is damaged"), done
    assert ["taken", "hole", "taken"] == [outcome for *_, outcome in site.heard]
    assert shown([a_job(0, seen_s=5)]) == site.entries()[OST]
    assert 3 == len(list(desk.spool.glob("*.damaged")))


def test_two_agents_on_one_machine_are_one_too_many(desk):
    desk.site()
    agent = desk.begin()
    until(lambda: (desk.spool / "lock").exists() and (desk.spool / "lock").read_text())
    done = desk.once()
    assert 1 == done.status
    assert f"another agent harvests on this machine (process {agent.process.pid})" in done.line
    agent.kill()
    assert 0 == desk.once().status                  # a lock dies with its process


@pytest.mark.parametrize("wrong", ["open", "link"])
def test_a_spool_that_others_could_write_to_is_not_used(desk, wrong):
    other = desk.directory / "elsewhere"
    other.mkdir(0o700)
    if wrong == "open":
        desk.spool.mkdir()
        desk.spool.chmod(0o777)
    else:
        desk.spool.symlink_to(other)
    done = desk.once()
    assert 1 == done.status and "[harvest] spool_dir" in done.line
    assert [] == os.listdir(other)


def test_messages_are_for_their_owner_alone(desk):
    desk.show([a_job(0)])
    desk.once(node_retry_timeout=0)
    assert {path.name: path.stat().st_mode & 0o777 for path in desk.spool.rglob("*")
            if path.suffix != ".message"} == {
        "lock": 0o600, "events": 0o700, "events.state": 0o600}
    assert [0o700, 0o600] == [path.stat().st_mode & 0o777
                              for path in (desk.spool, *desk.spool.glob("*.message"))]


@pytest.fixture
def tiny(desk):
    """The spool, on a disk of 256 KiB without a free byte."""
    desk.spool.mkdir(0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "iostats", desk.spool],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no tmpfs can be mounted")
    with open(desk.spool / "full", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    yield desk.spool
    subprocess.run(["umount", "-l", desk.spool], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_with_a_full_disk_and_no_server_a_sweep_is_skipped(desk, tiny):
    desk.show([a_job(0)])
    agent = desk.begin()
    agent.says("a sweep cannot be written: No space left on device; this sweep is skipped")
    site = desk.site()
    until_received(site, [a_job(0)])                  # past the disk
    site.close()
    desk.show([a_job(0, 53_007)])
    until(lambda: agent.process.poll() is None and "no answer" in agent.err)
    os.unlink(tiny / "full")
    until(lambda: len(desk.waiting()) >= 2)
    site = desk.site(known=site.messages)
    until_received(site, [a_job(0, 53_007)])
    done = agent.stop()
    assert 1 == done.err.count("a sweep cannot be written: No space left on device"), done
