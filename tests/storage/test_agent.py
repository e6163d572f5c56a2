"""
The agent of a storage server, as its administrator starts it: `python3 -I -S iostats_client.py
harvest` against directories with job_stats, and a site's server that replays what it was told.
"""
from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest
from trees import samples
from harvest_desk import BEGAN, NS, StorageDesk, a_job, peak_kib, refusal, shown
from job_stats_text import RELEASES, Job, Value
from processes import interpreters, until

from iostats.base.errors import NotDelivered
from iostats.wire import client, protocol

OST = ("scratch", "OST0000")


@pytest.fixture
def desk(tmp_path):
    with StorageDesk(tmp_path) as one:
        yield one


# -- one sweep -------------------------------------------------------------------------------

def test_a_sweep_tells_every_job_of_every_target(desk):
    """Two kinds of targets, two file systems, and names with a dash."""
    site = desk.site()
    opened = {"open": Value(43, 31, 8117, 61_403, 402_653_184)}
    truth = {("scratch", "OST0000"): [a_job(0), a_job(1, 53_007)], ("scratch", "OST000a"): [],
             ("my-home", "MDT0001"): [Job(b"cp.0", BEGAN, BEGAN + NS, opened)]}
    for (file_system, target), jobs in truth.items():
        desk.show(jobs, target, file_system)
    done = desk.once()
    assert (0, "", "") == (done.status, done.out, done.err)
    assert {key: shown(jobs) for key, jobs in truth.items()} == site.told()
    [message] = site.messages
    assert (2, "oss1", 1, True, True, 1) == (message.protocol, message.node, message.seq,
                                             message.full, message.last, message.every)
    assert {key: len(jobs) for key, jobs in truth.items()} == {
        (block.file_system, block.target): block.entries for block in message.targets}
    assert {600} == {block.cleanup_s for block in message.targets}
    assert abs(message.slot - time.time()) < 30 and [] == desk.waiting()


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_told_alike(desk, release):
    """OST of 2.5 counts `write` in bytes; times are whole seconds, or in 2.15.0 since boot."""
    site = desk.site()
    wrote = "write" if release == "2.5" else "write_bytes"
    began = 23 * NS if release == "2.15.0" else BEGAN
    desk.show([Job(b"4711", began, began + 37 * NS, {wrote: Value(23, 1, 8117, 41_003, 7)})],
              release=release)
    assert 0 == desk.once().status
    [(started, seen, counters)] = site.told()[OST].values()
    assert ["write_bytes"] == list(counters)
    is_dated = release in ("2.15.2", "2.16", "2.17")           # then nobody asks for min and max
    assert counters["write_bytes"] == ("bytes", 23, *((None, None) if is_dated else (1, 8117)),
                                       41_003, 7 if release in ("2.14", "2.15.0") else None)
    if release == "2.15.0":
        booted = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert abs(seen - booted - 60 * NS) < NS
    else:
        assert seen == BEGAN + 37 * NS
    assert started == (BEGAN if is_dated else 0)


@pytest.mark.parametrize("obdfilter", samples("captures", "*/s*/proc/fs/lustre/obdfilter"))
def test_a_real_server_is_told_as_it_was_captured(desk, obdfilter):
    """All entries of all targets that job_stats were captured of."""
    tree = obdfilter.parents[3]
    files = sorted(tree.glob("proc/fs/lustre/*/*/job_stats"))
    intervals = {int(path.read_text())
                 for path in tree.glob("sys/fs/lustre/*/*/job_cleanup_interval")}
    site = desk.site()
    assert 0 == desk.once(root=tree).status
    [message] = site.messages
    assert [path.read_bytes().count(b"- job_id:") for path in files] == [
        block.entries for path in files for block in message.targets
        if f"{block.file_system}-{block.target}" == path.parent.name]
    assert all(block.entries == len(block.ids) and block.bad == 0 for block in message.targets)
    assert intervals == {block.cleanup_s for block in message.targets}


def test_every_place_of_every_release_is_looked_at(desk):
    site = desk.site()
    desk.show([a_job(0)], "OST0000", place="proc/fs/lustre")
    desk.show([a_job(1)], "OST0001", place="sys/fs/lustre")
    desk.show([a_job(2)], "OST0002", place="sys/kernel/debug/lustre")
    desk.show(b"not this one\n", "OST0002", place="proc/fs/lustre")
    assert 0 == desk.once().status
    assert {f"OST000{n}": shown([a_job(n)]) for n in range(3)} == {
        target: rows for (_, target), rows in site.told().items()}


def test_the_named_file_systems_alone_are_harvested(desk):
    """On the command line, with a server before them; or in site.cfg."""
    site = desk.site()
    for file_system in ("scratch", "home", "work"):
        desk.show([a_job(0)], file_system=file_system)
    desk.once(f"127.0.0.1:{desk.port}", "scratch", "work")
    assert {"scratch", "work"} == {block.file_system for block in site.messages[-1].targets}
    desk.once(harvest_file_systems="home")
    assert {"home"} == {block.file_system for block in site.messages[-1].targets}
    done = desk.once("--server", "127.0.0.1", "homes")
    assert "no target of file system 'homes' on this machine; waiting for one" in done.line
    assert [] == site.messages[-1].targets


def test_it_runs_on_every_python_without_anything_installed(desk):
    site = desk.site()
    for number, (_, python) in enumerate(interpreters()):
        desk.show([a_job(number)])
        done = desk.once(python=python)
        assert (0, "") == (done.status, done.err)
        assert {OST: shown([a_job(number)])} == site.told()


def test_a_machine_without_a_target_says_so(desk):
    """Or one whose /proc is hidden: it would send nothing for ever, in silence."""
    site = desk.site()
    done = desk.once()
    assert (0, "iostats: no OST and no MDT on this machine, or none that this user may see; "
               "waiting for one") == (done.status, done.line)
    assert [[]] == [message.targets for message in site.messages]


# -- sweep after sweep -----------------------------------------------------------------------

def told_at_last(site, jobs, key=OST):
    until(lambda: site.told().get(key) == shown(jobs), what=f"the truth about {key}")


def test_only_what_changed_is_sent_and_what_is_gone_is_named(desk):
    """One of three jobs moves on, one new, then one expires."""
    site, jobs = desk.site(), [a_job(number) for number in range(3)]
    desk.show(jobs)
    agent = desk.begin()
    told_at_last(site, jobs)
    jobs = [jobs[0], a_job(1, 53_007, seen_s=41), jobs[2], a_job(3)]
    desk.show(jobs)
    told_at_last(site, jobs)
    jobs.pop(0)
    desk.show(jobs)
    told_at_last(site, jobs)
    blocks = [message.targets[0] for message in site.messages]
    assert [["4711", "4712", "4713"], ["4712", "4714"]] == [block.ids for block in blocks
                                                            if block.ids]
    assert [["4711"]] == [block.gone for block in blocks if block.gone]
    assert [True] + [False] * (len(blocks) - 1) == [message.full for message in site.messages]
    assert (0, "") == (agent.stop().status, agent.err)


def test_sweeps_are_in_step_with_a_clock_ten_minutes_off(desk):
    """Multiples of `every` of the server's time, though this clock is 600 s behind it."""
    site = desk.site(ahead_s=600)
    desk.show([a_job(0)])
    desk.begin(harvest_interval=2)

    def is_in_step(message):
        begun = message.targets[0].read_at - message.clock_ahead_s
        return (-601 < message.clock_ahead_s < -599
                and message.slot <= begun + 0.5 and begun < message.slot + 2)
    # On a machine that is busy an answer may take a second, and a sweep may begin late.
    until(lambda: sum(map(is_in_step, list(site.messages))) >= 3, what="three sweeps in step")
    slots = [message.slot for message in site.messages]
    assert {0} == {slot % 2 for slot in slots} and slots == sorted(set(slots))


def test_after_a_stall_it_goes_on_with_the_next_slot_and_no_burst(desk):
    """Stopped for some sweeps, as a machine that is suspended."""
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: len(site.messages) >= 2)
    agent.process.send_signal(signal.SIGSTOP)
    before = len(site.messages)
    stopped = time.time()
    until(lambda: time.time() > stopped + 4)
    agent.process.send_signal(signal.SIGCONT)
    until(lambda: len(site.messages) >= before + 3)
    slots = [message.slot for message in site.messages]
    assert slots == sorted(set(slots))
    assert max(b - a for a, b in zip(slots, slots[1:])) >= 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(desk, number):
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin(harvest_interval=200)
    until(lambda: desk.spool.joinpath("lock").exists() and site.connections is not None)
    until(lambda: agent.process.poll() is None and os.getpriority(
        os.PRIO_PROCESS, agent.process.pid) == 19)
    done = agent.stop(number)
    assert (0 if number == signal.SIGTERM else 130, "") == (done.status, done.err)


def test_sighup_is_no_reason_to_end(desk):
    """It reads no configuration anew either; a restart does."""
    site = desk.site()
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: site.messages)
    agent.process.send_signal(signal.SIGHUP)
    before = len(site.messages)
    until(lambda: len(site.messages) > before)
    assert agent.process.poll() is None


def test_it_is_niced(desk):
    desk.site()
    agent = desk.begin()
    until(lambda: os.getpriority(os.PRIO_PROCESS, agent.process.pid) == 19)


# -- the server is away ----------------------------------------------------------------------

def test_what_happens_while_the_server_is_away_is_told_later_and_once(desk):
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


def test_a_server_that_is_away_costs_one_try_and_not_one_for_each_message(desk, monkeypatch):
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


def test_a_server_that_forgot_everything_is_told_everything(desk):
    site, jobs = desk.site(), [a_job(number) for number in range(23)]
    desk.show(jobs)
    agent = desk.begin()
    told_at_last(site, jobs)
    site.close()
    other = desk.site()
    told_at_last(other, jobs)
    agent.says("asks for a full sweep")
    assert "hole" in {outcome for *_, outcome in other.heard}
    assert 1 == agent.stop().err.count("asks for a full sweep")


@pytest.mark.parametrize("code", [protocol.REFUSED, protocol.INVALID_PARAMS])
def test_a_message_that_is_refused_is_dropped_and_said_once(desk, code):
    site = desk.site()
    site.refusal = refusal(code, "another agent reads scratch-OST0000")
    desk.show([a_job(0)])
    agent = desk.begin()
    until(lambda: len(site.heard) >= 3)
    assert len(desk.waiting()) <= 1
    site.refusal = None
    told_at_last(site, [a_job(0)])
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
    told_at_last(site, [a_job(0)])
    assert 1 == agent.stop().err.count("no space left on device")


def test_once_tells_with_its_status_that_the_server_took_nothing(desk):
    desk.show([a_job(0)])
    done = desk.once(node_retry_timeout=0.1)
    assert 3 == done.status and "1 messages wait in" in done.err
    site = desk.site()
    site.refusal = refusal(text="no such thing")
    done = desk.once()
    assert 3 == done.status and "no such thing" in done.err


def test_a_server_that_never_answers_keeps_no_sweep_from_its_time(desk):
    """It accepts, and says nothing; the waits grow, and there is a sweep in most seconds."""
    from processes import Listener
    desk.show([a_job(0)])
    with Listener(desk.port, None) as silent:
        agent = desk.begin(patient=False)
        until(lambda: len(desk.waiting()) >= 5)
        assert silent.met < 5
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


# -- kills, restarts, full disks --------------------------------------------------------------

def test_killed_at_any_moment_nothing_is_lost_and_nothing_told_twice(desk):
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
    assert shown(jobs) == site.told()[OST]
    taken = [(message.run, message.seq) for message in site.messages]
    assert len(taken) == len(set(taken))
    assert [] == desk.waiting()
    assert ["lock"] == os.listdir(desk.spool)


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
    assert shown([a_job(0)]) == site.told()[OST]


def test_when_too_much_waits_the_oldest_goes_and_the_numbers_are_right(desk):
    """Never more bytes than allowed; later the server takes what is left without a hole."""
    dice = random.Random(37)
    said = []
    agent = desk.agent(said.append, harvest_spool_bytes=1 << 20)
    for turn in range(60):
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
    assert shown(jobs) == site.told()[OST]
    assert 2 <= len({message.run for message in site.messages})


def test_a_sweep_that_is_larger_than_the_spool_is_told_while_the_server_is_there(desk):
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
    assert shown(jobs) == site.told()[OST]


def test_a_damaged_message_is_put_aside_and_everything_is_told_anew(desk):
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
    assert shown([a_job(0, seen_s=5)]) == site.told()[OST]
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
    assert [0o700, 0o600, 0o600] == [path.stat().st_mode & 0o777
                                     for path in (desk.spool, *sorted(desk.spool.iterdir()))]


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
def test_with_a_full_disk_and_no_server_a_sweep_is_left_out(desk, tiny):
    desk.show([a_job(0)])
    agent = desk.begin()
    agent.says("a sweep cannot be kept: No space left on device; this sweep is skipped")
    site = desk.site()
    told_at_last(site, [a_job(0)])                  # past the disk
    site.close()
    desk.show([a_job(0, 53_007)])
    until(lambda: agent.process.poll() is None and "no answer" in agent.err)
    os.unlink(tiny / "full")
    until(lambda: len(desk.waiting()) >= 2)
    site = desk.site(known=site.messages)
    told_at_last(site, [a_job(0, 53_007)])
    done = agent.stop()
    assert 1 == done.err.count("No space left on device"), done


# -- files of all kinds ------------------------------------------------------------------------

def entry(number=0):
    from job_stats_text import render
    return render(a_job(number), "2.15.2")


BAD = {
    "a line that is none": (entry(0) + b"  write_bytes: { samples 23\n" + entry(1), 1, ["4712"]),
    "no times": (b"job_stats:\n- job_id: 4710\n" + entry(1), 1, ["4712"]),
    "cut off in a number": (entry(0) + entry(1)[:-30], 1, ["4711"]),
    "binary": (random.Random(23).randbytes(300_000), 1, []),
    "zeros": (bytes(300_000), 1, []),
    "one line of 300,000 bytes": (b"- job_id: 1" + b"1" * 300_000 + b"\n" + entry(1), 1, ["4712"]),
    "a time of another world": (
        entry(0).replace(b"1795225357.", b"9999999999.") + entry(1), 1, ["4712"]),
    "HTML": (b"<html><body>404</body></html>\n", 1, []),
}


@pytest.mark.parametrize("name", BAD)
def test_an_entry_that_cannot_be_understood_costs_itself_alone(desk, name):
    """It is counted, and reported once, with where it was."""
    data, bad, ids = BAD[name]
    site = desk.site()
    desk.show(data)
    desk.show([a_job(2)], "OST0001")
    agent = desk.begin()
    until(lambda: len(site.messages) >= 3)
    for message in site.messages:
        block = message.targets[0]
        assert bad == block.bad
        assert "job_stats: " in block.why
    assert ids == site.messages[0].targets[0].ids
    assert {"4713"} == set(site.told()[("scratch", "OST0001")])
    done = agent.stop()
    assert 1 == done.err.count("could not be understood, the first: "), done
    assert 1 == len(done.lines) and len(done.line) < 1000


@pytest.mark.parametrize("data", [b"", b"job_stats:\n"], ids=["empty", "header alone"])
def test_a_target_without_jobs_is_one_with_nothing(desk, data):
    site = desk.site()
    desk.show(data)
    assert 0 == desk.once().status
    [block] = site.messages[0].targets
    assert (True, 0, 0, "", []) == (block.ended, block.entries, block.bad, block.unreadable,
                                    block.ids)


def test_an_id_that_is_there_twice_is_told_twice_in_its_order(desk):
    """It expired and came again while the file was read: the old one, then the new one."""
    site = desk.site()
    desk.show([a_job(0, 53_007), a_job(1), a_job(0, 41_003, seen_s=41)])
    assert 0 == desk.once().status
    blocks = [block for message in site.messages for block in message.targets]
    assert [["4711", "4712"], ["4711"]] == [block.ids for block in blocks]
    assert [False, True] == [block.ended for block in blocks]
    assert 1 == len({block.read_at for block in blocks}) and 3 == blocks[-1].entries
    assert shown([a_job(1), a_job(0, 41_003, seen_s=41)]) == site.told()[OST]


def test_a_target_that_goes_and_comes_back_is_told_in_full(desk):
    """A failover, to and fro: what the other server counted meanwhile is not presumed."""
    site = desk.site()
    path = desk.show([a_job(0), a_job(1)])
    agent = desk.begin()
    told_at_last(site, [a_job(0), a_job(1)])
    path.parent.rename(desk.directory / "away")
    until(lambda: site.messages[-1].targets == [])
    (desk.directory / "away").rename(path.parent)
    desk.show([a_job(1)])
    told_at_last(site, [a_job(1)])
    assert [True, True] == [message.full for message in site.messages
                            if message.targets and message.targets[0].ids]
    done = agent.stop()
    assert (0, "iostats: no OST and no MDT on this machine, or none that this user may see; "
               "waiting for one") == (done.status, done.line)


@pytest.mark.parametrize("how", ["a directory", "no file"])
def test_a_file_that_cannot_be_read_proves_nothing(desk, how):
    """It is named, with why; what was known stands, and nothing is gone."""
    site = desk.site()
    path = desk.show([a_job(0), a_job(1)])
    agent = desk.begin()
    told_at_last(site, [a_job(0), a_job(1)])
    kept = path.rename(path.with_name("kept"))
    if how == "a directory":
        path.mkdir()
    until(lambda: site.messages[-1].targets[0].unreadable)
    block = site.messages[-1].targets[0]
    assert block.unreadable == ("Is a directory" if how == "a directory" else
                                "No such file or directory")
    assert ([], [], True) == (block.ids, block.gone, block.ended)
    if how == "a directory":
        path.rmdir()
    kept.rename(path)
    until(lambda: not site.messages[-1].targets[0].unreadable)
    assert [["4711", "4712"]] == [message.targets[0].ids for message in site.messages
                                  if message.targets[0].ids]
    assert {OST: shown([a_job(0), a_job(1)])} == site.told()
    assert 1 == agent.stop().err.count("cannot be read")


def test_a_file_that_changes_under_the_reader_is_read_to_its_end(desk):
    """Grown and cut while it is read: what is told in the end is the truth."""
    site, jobs = desk.site(), [a_job(number) for number in range(4000)]
    path = desk.show(jobs)
    agent = desk.begin(harvest_cpu_percent=20)
    until(lambda: site.messages)
    with path.open("r+b") as file:
        for turn in range(37):
            file.seek(0, os.SEEK_END)
            file.write(entry(4000 + turn))
            file.truncate(path.stat().st_size * (turn % 3 + 1) // 3)
            file.flush()
            pause = time.monotonic() + 0.1
            until(lambda: time.monotonic() > pause)         # noqa: B023
    desk.show(jobs)
    told_at_last(site, jobs)
    done = agent.stop()
    assert 0 == done.status and "Traceback" not in done.err


def test_more_gone_than_one_message_holds_is_told_by_a_full_sweep(desk):
    """4,000 ids expire at once, with messages of 50,000 bytes."""
    site, jobs = desk.site(), [a_job(number, name=f"a.{number:029d}") for number in range(4000)]
    desk.show(jobs)
    desk.begin(server_max_message_bytes=100_000)
    told_at_last(site, jobs)
    assert len(site.sweeps()[0]) > 10
    desk.show(jobs[:1])
    told_at_last(site, jobs[:1])
    assert [] == [block.gone for message in site.messages for block in message.targets
                  if block.gone]
    assert site.messages[-1].run != site.messages[0].run


# -- what it costs -----------------------------------------------------------------------------

def peak_of(desk, count):
    """KiB of an agent that has swept `count` jobs twice."""
    from job_stats_text import render
    path = desk.show(b"")
    with path.open("wb") as file:
        file.write(b"job_stats:\n")
        for number in range(count):
            file.write(render(a_job(number), "2.15.2"))
    site = desk.site()
    agent = desk.begin()
    until(lambda: len(site.sweeps()) >= 2, 240)
    assert count == site.messages[-1].targets[0].entries
    peak = peak_kib(agent.process)
    agent.kill()
    site.close()
    return peak


def test_memory_is_flat_from_1_000_jobs_to_50_000(desk):
    """But for the fingerprints, 150 bytes for each; the file of 50,000 has some 70 MB."""
    few, many = peak_of(desk, 1000), peak_of(desk, 50_000)
    assert many - few < 24 << 10
    assert many < 60 << 10


def test_it_takes_no_more_of_a_core_than_it_may(desk):
    """20 % of one, over a sweep that would take a second of it."""
    from job_stats_text import render
    path = desk.show(b"")
    path.write_bytes(b"".join(render(a_job(number), "2.15.2") for number in range(8000)))
    agent = desk.agent(harvest_cpu_percent=20)
    cpu, wall = time.process_time(), time.monotonic()
    agent.sweep(0, 1)
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    assert share < 0.26
    assert 8 == len(desk.waiting()) or len(desk.waiting()) > 3
