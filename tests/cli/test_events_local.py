"""
`iostats events --local` on storage servers and nodes that have Python and a copy of the tree.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, SHARED, Done, interpreters, put, until
from test_bad_input import NOBODY

AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
CAPTURE = SHARED / "captures/2.17.57-c/s09_killed_and_evicted"


def record(sequence, text, priority=4):
    """A record of /dev/kmsg; record 23 is of 11 s after the boot, each other one 11 s later."""
    return f"{priority},{sequence},{(sequence - 22) * 11_000_000},-;{text}\n"


def at_11_s():
    """When the log's clock showed what record 23 has, s since 1970."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + 11


def silent(target="scratch-OST0003", nid="10.9.0.11@o2ib2"):
    return (f"Lustre: {target}: haven't heard from client 5a8d9d2c-0c3f (at {nid}) in 227 seconds. "
            f"I think it's dead, and I am evicting it.")


def umount(target="scratch-OST0004"):
    return f"Lustre: server umount {target} complete"


@pytest.fixture
def root(tmp_path):
    """A storage server whose log tells of an eviction and a target that was stopped."""
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "sys").mkdir()
    put(root, "dev/kmsg", record(23, silent()) + record(24, umount())
        + record(25, "Lustre: scratch-OST0005: haven't heard from nobody", 12))
    return root


def copied(directory):
    """The tree as it is copied to a machine; iostats_client.py in it."""
    shutil.copytree(REPOSITORY / "iostats", directory / "iostats",
                    ignore=shutil.ignore_patterns("__pycache__"))
    return shutil.copy(REPOSITORY / "iostats_client.py", directory)


def command(*words, client=REPOSITORY / "iostats_client.py", python=sys.executable):
    return [*map(str, (python, "-I", "-S", client, "events", "--local", *words))]


def run(*words, before=(), env=(), **how):
    done = subprocess.run([*before, *command(*words, **how)], env={
        "PATH": "/usr/bin:/bin", "TZ": "UTC", **dict(env)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=100)
    return Done(done.returncode, done.stdout, done.stderr)


def kinds(text):
    return [(one["kind"], one["target"]) for one in map(json.loads, text.splitlines())]


def test_what_the_log_says(root):
    done = run("--root", root)
    assert (0, "") == (done.status, done.err)
    node = os.uname().nodename.partition(".")[0]
    evicted, down = (line for line in done.out.splitlines() if not line.startswith("-- "))
    assert evicted[:15] in [time.strftime("%b %d %H:%M:%S", time.gmtime(at_11_s() + more))
                            for more in (-1, 0, 1)]
    assert evicted[16:].startswith(f"crit  {node:<8} evicted scratch-OST0003 10.9.0.11@o2ib2 "
                                   f"(silent): haven't heard from client ")
    assert down.endswith(f"crit  {node:<8} target_down scratch-OST0004: server umount "
                         f"scratch-OST0004 complete")


@pytest.mark.parametrize("version, python", interpreters(), ids=lambda one: str(one))
def test_a_copied_tree_and_python_are_all_it_needs(root, tmp_path, version, python):
    done = run("--root", root, "--json", client=copied(tmp_path), python=python)
    assert (0, "", [("evicted", "scratch-OST0003"), ("target_down", "scratch-OST0004")]) == (
        done.status, done.err, kinds(done.out))


def test_events_can_be_chosen(root):
    for words, found in ((["-p", "fatal"], []), (["-n", "1"], ["target_down"]),
                         (["--kind", "evicted"], ["evicted"]),
                         (["--node", "10.9.0.11@o2ib2"], ["evicted"]),
                         (["--fs", "home"], []), (["-E", f"uts{int(at_11_s()) + 5}"], ["evicted"]),
                         (["-r"], ["target_down", "evicted"])):
        assert found == [kind for kind, _ in kinds(run("--root", root, "--json", *words).out)]


def test_the_same_event_has_the_same_id_each_time(root):
    first, second = (run("--root", root, "--json").out for _ in range(2))
    assert [json.loads(line)["id"] for line in first.splitlines()] == [
        json.loads(line)["id"] for line in second.splitlines()]


def test_two_simulated_machines_have_two_boots(root):
    """Else what both tell is one event."""
    ids = []
    for boot in ("06705763-db1b-4a0d-a85c-3c67f8db06c7", "3e3b15e2-d97b-436e-9378-f4a1b2c3d4e5"):
        put(root, "proc/sys/kernel/random/boot_id", f"{boot}\n")
        ids += [json.loads(line)["id"] for line in run("--root", root, "--json").out.splitlines()]
    assert 4 == len(ids) == len(set(ids))


def test_how_the_machine_is_now_is_said(root):
    put(root, "sys/fs/lustre/health_check", "NOT HEALTHY\n")
    assert "-- now: NOT HEALTHY --" in run("--root", root).out
    assert "now:" not in run("--root", root, "-q").out
    assert "now:" not in run("--root", root, "--json").out


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_what_may_not_be_read_is_said_once(root, tmp_path):
    client = copied(tmp_path)
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == 0 and directory != directory.parent:
            directory.chmod(directory.stat().st_mode | 0o055)
    (root / "dev/kmsg").chmod(0o600)
    done = run("--root", root, client=client, before=AS_NOBODY, python="/usr/bin/python3")
    assert 1 == done.status
    assert f"iostats: the kernel's log cannot be read: {root}/dev/kmsg: Permission denied" == (
        done.line)


NODE_STATE = """current_state: {}
state_history:
 - [ {}, CONNECTING ]
 - [ {}, FULL ]
 - [ {}, DISCONN ]
"""


def on_a_node(root, now, place="proc/fs/lustre"):
    """A node that lost OST0003 41 s ago, and is connected to OST0004."""
    for target, state in (("OST0003", "DISCONN"), ("OST0004", "FULL")):
        text = NODE_STATE.format(state, now - 1000, now - 1000, now - 41)
        put(root, f"{place}/osc/scratch-{target}-osc-ffff9a3c5d1e0800/state",
            text if state == "DISCONN" else text.replace(f" - [ {now - 41}, DISCONN ]\n", ""))
    put(root, "dev/kmsg", "")


def test_a_node_says_which_targets_it_lost(tmp_path):
    now = int(time.time())
    on_a_node(tmp_path, now)
    done = run("--root", tmp_path)
    at = time.strftime("%b %d %H:%M:%S", time.gmtime(now - 41))
    node = os.uname().nodename.partition(".")[0]
    [line] = [line for line in done.out.splitlines() if not line.startswith("-- ")]
    assert line.startswith(f"{at} warn  {node:<8} connection_lost scratch-OST0003")
    assert "-- now: 1 of 2 targets connected; scratch-OST0003 DISCONN --" in done.out
    assert (0, "") == (done.status, done.err)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_user_of_a_node_is_told_what_only_root_may_read(root, tmp_path):
    """As from 2.17 on, where state is in debugfs."""
    client = copied(tmp_path)
    on_a_node(root, int(time.time()))
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == 0 and directory != directory.parent:
            directory.chmod(directory.stat().st_mode | 0o055)
    for state in root.rglob("state"):
        state.chmod(0o600)
    done = run("--root", root, client=client, before=AS_NOBODY, python="/usr/bin/python3")
    assert ("iostats: the connections of this node to 2 targets cannot be read: Permission denied"
            ) == done.line


def test_no_directory_is_one_line(tmp_path):
    done = run("--root", tmp_path / "none")
    assert 2 == done.status and "--root: expected a directory" in done.line


# -- following

@pytest.fixture
def follow(root, tmp_path):
    started = []

    def begin(*words):
        out = (tmp_path / f"{len(started)}.out").open("w+")
        process = subprocess.Popen(command("-f", "--json", "--root", root, *words),
                                   stdin=subprocess.DEVNULL, stdout=out)
        started.append((process, out))
        return process, lambda: kinds((tmp_path / f"{out.name}").read_text())
    yield begin
    for process, out in started:
        process.kill()
        process.wait()
        out.close()


def test_what_is_logged_is_shown_as_it_comes(root, follow):
    process, shown = follow()
    until(lambda: len(shown()) == 2, what="the first events")
    with (root / "dev/kmsg").open("a") as log:
        log.write(record(26, silent("scratch-OST0007")))
    until(lambda: len(shown()) == 3, what="another event")
    assert [("evicted", "scratch-OST0003"), ("target_down", "scratch-OST0004"),
            ("evicted", "scratch-OST0007")] == shown()
    process.send_signal(signal.SIGINT)
    assert 130 == process.wait(60)


def test_a_reader_that_goes_ends_it(root):
    process = subprocess.Popen(command("-f", "--root", root), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert (0, "") == (process.wait(60), process.stderr.read())
    process.stderr.close()


# -- a real storage server, whose client was killed

@pytest.mark.skipif(not CAPTURE.is_dir(), reason="there are no captures beside the checkout")
def test_a_real_log_of_an_eviction(tmp_path):
    """
    c2 was killed; MDT0000 and OST0001 say that they evict it, and of OST0000 the log has but
    `Skipped 1 previous similar message`: true_events.txt.
    """
    for name in ("proc", "sys"):
        shutil.copytree(CAPTURE / "server" / name, tmp_path / name)
    put(tmp_path, "dev/kmsg", (CAPTURE / "server/kmsg.txt").read_text(encoding="latin-1"))
    done = run("--root", tmp_path, "--json", "--kind", "evicted")
    assert [("evicted", "lustre-MDT0000"), ("evicted", "lustre-OST0001")] == kinds(done.out)
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [["10.77.0.12@tcp"]] * 2 == [one["clients"] for one in found]
    assert 1 == sum(one["skipped"] for one in found)
    assert time.time() > max(one["time"] for one in found)
