"""
`iostats collector` as administrators start it: its options, its rights, a daemon; kills, floods and
two collectors of one machine, whose kernel log is a file.
"""
from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from collector_desk import EventStream, RunningCollector, asked
from kernel_lines import silent
from processes import free_port, until

from iostats.cli import collector

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NOBODY = 65534
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])


# -- options ------------------------------------------------------------------------------------

@pytest.mark.parametrize("words, found", [
    (["-p", "8981"], {"port": "8981"}), (["-p8981"], {"port": "8981"}),
    (["-h", "localhost", "-m", "41"], {"host": "localhost", "maxtraps": "41"}),
    (["-dp", "8981"], {"daemon": True, "port": "8981"}), (["-f", "a"], {"filename": "a"}),
    (["--port", "8981", "--site"], {"port": "8981", "site": True}), (["-h", ""], {"host": ""}),
    ([], {})])
def test_the_letters_are_those_of_2004(words, found):
    """-h is the host's, and no help."""
    options = vars(collector.parse_options(collector.CollectorOptions, words))
    assert found == {name: value for name, value in options.items() if value not in (None, False)}


def test_later_places_win_system_then_users_then_the_command_line(machine, monkeypatch):
    """-f stands for the user's file alone, --config for both."""
    (machine.directory / ".iostats").mkdir()
    users = machine.directory / ".iostats/site.cfg"
    users.write_text("[collector]\nmaxtraps = 23\nport = 1123\nkeep = 23\n")
    mine = machine.directory / "mine.cfg"
    mine.write_text("[collector]\nport = 1137\nmaxtraps = 37\n")
    monkeypatch.setenv("HOME", str(machine.directory))
    monkeypatch.setattr("iostats.base.config._is_trusted", lambda directory: True)

    def found(*words):
        config = collector._load_config(collector.parse_options(collector.CollectorOptions, words))
        return config.collector.port, config.collector.maxtraps, config.collector.keep
    assert (1123, 23, 23) == found()
    assert (1137, 37, 10_000) == found("-f", str(mine))
    assert (1141, 37, 10_000) == found("-f", str(mine), "-p", "1141")
    assert (1123, 41, 23) == found("-m41")
    assert (1137, 37, 10_000) == found("--config", str(mine))
    assert (1123, 23, 23) == found("--config", str(mine), "-f", str(users))


@pytest.mark.parametrize("text, message", [
    ("[collector]\nport = 89800\n", ":2: [collector] port: expected a number from 1 to 65535, got "
                                    "'89800'"),
    ("\n[collector]\nallow = mds1\n", ":3: [collector] allow: expected addresses and ranges"),
    ("[collector]\nallow = 10.0.5.1/24\n", ":2: [collector] allow: expected addresses and ranges"),
    ("[collector]\nallow = 10.0.5.1,10.0.5.2\n", ":2: [collector] allow: expected addresses and "),
    ("[collector]\nmaxtrap = 3\n", ":2: [collector] has no key 'maxtrap'; it has: port host"),
    ("[collector]\nevents_of = all\n", ":2: [collector] events_of: expected machine or site, got "),
    ("[colector]\n", ":1: expected one of the sections ")])
def test_a_mistake_in_a_file_is_one_line_with_file_and_line(machine, text, message):
    config = machine.configured()
    config.write_text(text + ("user = nobody\n" if os.geteuid() == 0 else ""))
    done = machine.run("--config", config)
    assert 2 == done.status and done.err.startswith(f"iostats: {config}{message}"), done.err
    assert 1 == len(done.err.splitlines())


@pytest.mark.parametrize("words, message", [
    (["-m", "0"], "--maxtraps: [collector] maxtraps: expected a number from 3 to 100000, got '0'"),
    (["-p"], "argument -p/--port: expected one argument (see --help)"),
    (["-x"], "unrecognized arguments: -x (see --help)"), (["mds1"], "unrecognized arguments"),
    (["-f", "/nonexistent"], "/nonexistent: cannot be read: No such file or directory")])
def test_a_mistake_on_the_command_line_is_one_line(machine, words, message):
    done = machine.run(*words)
    assert 2 == done.status and done.err.startswith(f"iostats: {message}"), done.err
    assert 1 == len(done.err.splitlines())


def test_help_is_its_text(machine):
    done = machine.run("--help")
    assert (0, collector.CollectorOptions.format_help(), "") == (done.status, done.out, done.err)


def test_a_port_that_is_in_use_is_said(machine):
    one = machine.start(config=machine.configured())
    done = machine.run("--config", machine.configured("two", port=one.port), "--root", machine.root)
    assert 3 == done.status and 1 == len(done.err.splitlines())
    assert "Address already in use; is another collector running?  (see --port)" in done.err


def test_a_log_that_cannot_be_read_is_no_reason_to_fail(machine):
    """It is in the node's info; the files of /proc and /sys are there without it."""
    (machine.root / "dev/kmsg").unlink()
    one = machine.start(config=machine.configured())
    assert [] == one.traps()[0]
    until(lambda: "the kernel's log is not read: " in one.err)
    [node] = asked(one.port, "getNodesNames", [""])
    assert "dev/kmsg" in asked(one.port, "getNodeInfo", [node])["kernelLogNotRead"]
    assert 0 == one.stop()


# -- rights -------------------------------------------------------------------------------------

def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@root_only
def test_started_by_root_it_opens_the_log_and_becomes_its_user(machine):
    """The log may be root's alone; no right and no capability is left."""
    (machine.root / "dev/kmsg").chmod(0o600)
    machine.log(silent("10.9.0.23@o2ib"))
    one = machine.start(config=machine.configured())
    until(lambda: one.traps()[0])
    found, nobody = status_of(one.process.pid), os.stat(machine.directory / "one.state")
    assert [str(nobody.st_uid)] * 4 == found["Uid"] and nobody.st_uid
    assert "0" not in found["Gid"] + found["Groups"]
    assert ["0" * 16] == found["CapEff"] == found["CapPrm"] and ["1"] == found["NoNewPrivs"]
    assert 0o700 == nobody.st_mode & 0o777
    machine.log(silent("10.9.0.37@o2ib", "scratch-OST0037"))     # the log stays open
    until(lambda: 2 == len(one.traps()[0]))


@root_only
def test_an_ordinary_user_needs_no_directory_of_root(machine):
    """Events are kept below ~/.local/state, or $XDG_STATE_HOME; so is the pid file of a daemon."""
    home = machine.directory / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    config = machine.directory / "users.cfg"
    config.write_text("[collector]\n")
    machine.log(silent("10.9.0.23@o2ib"))
    one = machine.start("-p", str(free_port()), config=config, env={"HOME": str(home)}, user=NOBODY)
    until(lambda: one.traps()[0])
    stamp = one.traps()[1]
    one.kill()
    again = machine.start("-p", str(free_port()), config=config, user=NOBODY,
                          env={"HOME": "/", "XDG_STATE_HOME": str(home / ".local/state")})
    assert [] == again.traps(stamp)[0] and 1 == len(again.traps(0)[0])
    buffer = home / ".local/state/iostats"
    assert {"events.journal", "machine.state"} <= {*os.listdir(buffer / "iostats-collector")}
    assert {(NOBODY, 0o700)} == {(path.stat().st_uid, path.stat().st_mode & 0o777)
                                 for path in (buffer, buffer / "iostats-collector")}


@root_only
def test_a_directory_that_cannot_be_made_is_one_line(machine):
    """Also where it is one above it that cannot be made."""
    done = machine.run("--config", machine.configured(state_dir="/proc/nothing/here"))
    assert "/proc/nothing/here: cannot be made: No such file or directory; make it" in done.err
    assert 1 == done.err.count("\n") and 1 == done.status


@root_only
@pytest.mark.parametrize("user, message", [
    ("", "iostats collector does not run as root: name a user whose rights are enough ([collector] "
         "user in site.cfg), or start it as one"),
    ("root", "[collector] user: expected a user other than root, got 'root'"),
    ("0", "[collector] user: expected a user other than root, got '0'"),
    ("nosuchuser23", "[collector] user: expected the name of a user, got 'nosuchuser23'")])
def test_root_without_such_a_user_is_refused_with_one_line(machine, user, message):
    done = machine.run("--config", machine.configured(user=user))
    assert 2 == done.status and done.err.endswith(f"{message}\n") and 1 == done.err.count("\n")


# -- a daemon -----------------------------------------------------------------------------------

def test_a_daemon_is_left_alone_when_it_listens_and_ends_by_its_pid(machine):
    machine.log(silent("10.9.0.23@o2ib"))
    port = free_port()
    config = machine.configured(port=port)
    done = machine.run("--daemon", "--config", config, "--root", machine.root)
    assert (0, "", "") == (done.status, done.out, done.err)
    pid = int((machine.directory / "one.pid").read_text())
    try:
        one = RunningCollector(None, None)
        one.port = port
        until(lambda: one.traps()[0])
        assert os.getsid(pid) != os.getsid(0) and "/" == os.readlink(f"/proc/{pid}/cwd")
        assert {"/dev/null"} == {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)}
        again = machine.run("-d", "--config", config, "--root", machine.root)
        assert 1 == again.status and f"a collector runs already, process {pid}" in again.err
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in status_of(pid)["State"])
    pid_file = machine.directory / "one.pid"
    assert not pid_file.exists() or "" == pid_file.read_text()


def test_a_daemon_that_cannot_work_says_why_and_fails(machine):
    one = machine.start(config=machine.configured())
    done = machine.run("-d", "--config", machine.configured("two", port=one.port))
    assert 1 == done.status and "Address already in use" in done.err
    pid_file = machine.directory / "two.pid"
    assert not pid_file.exists() or "" == pid_file.read_text()


# -- kills, floods, two of them -----------------------------------------------------------------

def test_no_kill_loses_an_event_or_gives_it_twice(machine):
    """A monitor with its time stamp and one with its stream, over ten kills in the middle of it."""
    config, stamp, seen, streamed, last_id = machine.configured(), 0, [], [], ""
    for number in range(10):
        one = machine.start(config=config)
        stream = EventStream(one.port, headers={"Last-Event-ID": last_id} if last_id else {})
        reader = threading.Thread(target=_read, args=(stream, streamed))
        reader.start()
        machine.log(silent(f"10.9.1.{number}@o2ib", f"scratch-OST{number:04x}"))
        if number % 2:                                 # else: it is killed before it has read it
            until(lambda name=f"scratch-OST{number:04x}": any(
                name == one["target"] for one in streamed))
        traps, stamp = one.traps(stamp)
        seen += [message for message, _, _ in traps]
        one.process.send_signal(signal.SIGKILL)
        reader.join(30)
        last_id = stream.last_id or last_id
        stream.close()
        one.kill()
    one = machine.start(config=config)
    until(lambda: 10 == len(one.events()["events"]))
    seen += [message for message, _, _ in one.traps(stamp)[0]]
    stream = EventStream(one.port, headers={"Last-Event-ID": last_id})
    while len(streamed) < 10:
        streamed.append(stream.next()[1])
    stream.close()
    targets = [f"scratch-OST{number:04x}" for number in range(10)]
    assert targets == sorted(next(name for name in targets if name in message) for message in seen)
    assert targets == sorted(event["target"] for event in streamed)
    assert 10 == len({event["id"] for event in streamed})


def _read(stream, into):
    try:
        while True:
            found = stream.next()
            if found is None:
                return
            into.append(found[1])
    except OSError:
        pass                                           # it was killed


def test_ten_thousand_clients_that_are_lost_at_once_are_counted_each_once(machine):
    """A router goes down: four targets lose each of them in one second."""
    targets = [f"scratch-OST{number:04x}" for number in range(4)]
    one = machine.start(config=machine.configured(), env={"IOSTATS_COLLECTOR_MAXTRAPS": "23"})
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    began = int(now) // 10 * 10 + 10                   # one window of the log's clock
    for target in targets:
        machine.log(*(silent(f"10.{number >> 8}.{number & 255}.1@o2ib", target).replace(
            "f15aa50c-8084", f"{number:08x}-8084") for number in range(10_000)), seconds=began)

    def counted():
        found = one.events()["events"]
        return 40_000 == sum(event["count"] for event in found
                             if event["kind"] == "evicted") and found
    found = until(counted)
    assert targets == sorted(event["target"] for event in found)
    assert all(len(event["clients"]) <= 8 for event in found)
    traps, _ = one.traps()
    assert len(traps) <= 23 and all("10,000x" in message for message, _, _ in traps)
    memory_kb = int(status_of(one.process.pid)["VmHWM"][0])
    assert memory_kb < 128 << 10


def test_two_collectors_give_an_event_the_same_id_and_one_goes_on_alone(machine):
    one, two = (machine.start(config=machine.configured(name)) for name in ("one", "two"))
    machine.log(*(silent("10.9.0.23@o2ib", f"scratch-OST{number:04x}") for number in range(7)))

    def ids(which):
        return sorted(event["id"] for event in which.events()["events"])
    until(lambda: 7 == len(ids(one)) == len(ids(two)))
    assert ids(one) == ids(two) and 7 == len(set(ids(one)))
    two.kill()
    machine.log(silent("10.9.0.37@o2ib", "scratch-OST0023"))
    until(lambda: 8 == len(ids(one)))
    again = machine.start(config=machine.configured("two"))
    until(lambda: ids(one) == ids(again))
    machine.start(config=machine.configured("three"))  # that was never there before
    until(lambda: ids(one) == ids(again))
