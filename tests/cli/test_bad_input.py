"""
Bad input, on purpose: job ids, counter files, state files, servers, secrets, clocks, nodes, disks
and site.cfg.  Each gives one clear line, the right exit status, and loses nothing.

The connections that say nothing, the message of 2 GB and other things of HTTP are in
test_job_server.py; messages that were altered or replayed are in test_protocol.py.
"""
from __future__ import annotations

import binascii
import json
import os
import re
import subprocess
import sys
import time

import pytest
from processes import (
    AFTER,
    BEFORE,
    INSTANCE,
    LLITE,
    MD_STATS,
    MDC,
    OSC,
    REPOSITORY,
    RPC_STATS,
    Desk,
    Done,
    fill,
    job_with_free_ports,
    put,
    stats,
    two_jobs_with_one_port,
    write_tree,
)

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


DESK = Desk


def start(desk, root, **how):
    return desk.client("start", *desk.on("nid00023", root), **how)


def stop(desk, root, server=None, node="nid00023", **how):
    """`stop` at once, without a minute of tries."""
    how["env"] = {"IOSTATS_NODE_RETRY_TIMEOUT": "0", **how.get("env", {})}
    return desk.client("stop", "--server", f"127.0.0.1:{server.port}" if server else "127.0.0.1",
                       *desk.on(node, root), **how)


def application(record):
    [fs] = record["file_systems"]
    return fs["application"]


def delivered_later(desk, root):
    """What a second `stop` delivers to a server that is there now."""
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, root, server)
    assert 0 == done.status, done
    return server.wait().record


# -- job ids ---------------------------------------------------------------------------------

IDS = {
    "missing": ((), {}, "no job id: give --job ID, or set one of SLURM_JOB_ID"),
    "empty": (("--job", ""), {}, "--job: expected a job id, got nothing"),
    "blank": (("--job", "  "), {}, "--job: expected a job id, got nothing"),
    "empty variable": ((), {"SLURM_JOB_ID": ""}, "no job id: give --job ID"),
    "blank variable": ((), {"SLURM_JOB_ID": " "}, "SLURM_JOB_ID: expected a job id, got nothing"),
    "300 characters": (("--job", "9" * 300), {},
                       "--job: expected a job id of at most 128 characters, got 300"),
    "300 in a variable": ((), {"PBS_JOBID": "x" * 300},
                          "PBS_JOBID: expected a job id of at most 128 characters, got 300"),
    "a line break": (("--job", "23\n37"), {}, "expected a job id without control characters"),
    "a terminal's escape": (("--job", "\x1b[2J"), {}, "without control characters, got '\\x1b[2J'"),
    "bytes that are no text": (("--job", b"\xff\xfe"), {}, "without control characters"),
}


@pytest.mark.parametrize("options, env, message", list(IDS.values()), ids=list(IDS))
@pytest.mark.parametrize("role", ["start", "stop"])
def test_a_job_id_that_is_none_is_one_line_on_the_node(desk, role, options, env, message):
    """Status 2; where it came from, and what was expected; nothing is kept under a wrong name."""
    arguments = [sys.executable, "-I", "-S", str(REPOSITORY / "iostats_client.py"), role,
                 *options, "--server", "127.0.0.1", "--state-dir", str(desk.state)]
    process = subprocess.run(arguments, env=desk.environment(env), capture_output=True, text=True)
    done = Done(process.returncode, process.stdout, process.stderr)
    assert 2 == done.status
    assert message in done.line
    assert not desk.state.exists()


@pytest.mark.parametrize("options, env, message", list(IDS.values()), ids=list(IDS))
def test_a_job_id_that_is_none_is_one_line_on_the_server(desk, options, env, message):
    """The same words as on a node."""
    process = subprocess.run([sys.executable, str(REPOSITORY / "iostats_server.py"), *options],
                             env=desk.environment(env), capture_output=True, text=True)
    done = Done(process.returncode, process.stdout, process.stderr)
    assert 2 == done.status
    assert message in done.line


@pytest.mark.parametrize("job", ["/../../../tmp/x", "..", "1234[7].server", "a b", "$(reboot)",
                                 "-5", "%2F", "\u00e9t\u00e9", "x" * 128])
def test_any_other_text_is_a_job_id_and_leads_out_of_no_directory(desk, job):
    """A whole job; all files lie in the directories meant for them."""
    desk.job = job
    server = desk.server("--nodes", "1", "--format", "json")
    assert 0 == desk.whole_job(server, "nid00023").status
    record = server.wait().record
    assert (job, 41_003) == (record["job"]["id"], application(record)["read_bytes"])
    assert [[], []] == [os.listdir(desk.state), os.listdir(desk.journals)]
    assert [".iostats"] == os.listdir(desk.home)
    assert {"home", "state", "journals", "nid00023", "server-1.out", "server-1.err"} == set(
        os.listdir(desk.directory))


# -- counter files ---------------------------------------------------------------------------

def test_a_node_without_lustre_is_no_error(desk):
    """It says so, status 0, and the report says so too."""
    root = desk.directory / "bare"
    root.mkdir()
    server = desk.server("--nodes", "1")
    for done in (start(desk, root), stop(desk, root, server)):
        assert 0 == done.status
        assert "iostats: nid00023: no Lustre file system is mounted" == done.line
    out = server.wait().out
    assert "No Lustre file system was seen." in out
    assert "note: nid00023: no Lustre file system is mounted" in out


def unreadable(root, path):
    """A directory in the place of a file: open(2) works and read(2) fails, for root too."""
    os.unlink(root / path)
    os.mkdir(root / path)


def torn(root, path):
    """The file ends in the middle of a line."""
    text = (root / path).read_text()
    (root / path).write_text(text[:-5])


def empty(root, path):
    (root / path).write_text("")


def binary(root, path):
    (root / path).write_bytes(bytes(range(256)) * 37)


def misspelt(root, path):
    text = (root / path).read_text()
    (root / path).write_text(text.replace(" samples ", " smpls ", 1))


DAMAGES = [unreadable, torn, empty, binary]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_a_file_that_cannot_be_used_at_the_end_costs_its_own_numbers_alone(desk, worked, damage):
    """osc is unknown (None, never 0); llite and all others are reported as ever."""
    damage(worked, OSC)
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, worked, server)
    assert done.status == (0 if damage is unreadable else 1)
    if damage is not unreadable:
        assert OSC in done.line
    [fs] = server.wait().record["file_systems"]
    assert 41_003 == fs["application"]["read_bytes"]
    assert 43 == fs["operations"]["open"]["count"]
    assert fs["lower_bound"]
    assert any("nid00023: osc: " in note for note in fs["notes"])


def test_one_bad_line_costs_its_counter_alone(desk, worked):
    """The first line of llite's file is read_bytes: less is known of it, and that is said."""
    misspelt(worked, LLITE)
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, worked, server)
    assert 1 == done.status
    assert f"{LLITE}:4: expected" in done.line
    [fs] = server.wait().record["file_systems"]
    assert (0, 53_007) == (fs["application"]["read_bytes"], fs["application"]["write_bytes"])
    assert 43 == fs["operations"]["open"]["count"]
    assert (True, False) == (fs["application"]["lower_bound"], fs["network"]["lower_bound"])
    assert any(f"nid00023: llite: not counted: {LLITE}:4: expected" in note for note in fs["notes"])


def fifo(path):
    os.mkfifo(path)


def endless(path):
    """Of zeros, without an end that anybody would wait for."""
    path.touch()
    os.truncate(path, 1 << 40)


def device(path):
    path.symlink_to("/dev/zero")


# 64 MiB or 2 s are read of a file that does not end: on a slow machine the time is over first.
@pytest.mark.parametrize("odd, why", [(fifo, "not a regular file"),
                                      (endless, "it (does not end|took too long)"),
                                      (device, "not a regular file")],
                         ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_no_counter_file_keeps_nobody_waiting(desk, odd, why):
    """`start`, `show` and `stop` end, and know of all other files what they know."""
    root = desk.tree(**BEFORE)
    os.unlink(root / OSC)
    odd(root / OSC)
    assert 0 == desk.client("start", "--never-fail", *desk.on("nid00023", root)).status
    shown = desk.client("show", "--root", root, job=False)
    assert re.search(f"osc: {why}", shown.out) and "read (application)" in shown.out
    os.unlink(root / OSC)
    write_tree(root, **AFTER)
    os.unlink(root / OSC)
    odd(root / OSC)
    server = desk.server("--nodes", "1", "--format", "json")
    assert 0 == stop(desk, root, server).status
    [fs] = server.wait().record["file_systems"]
    assert 41_003 == fs["application"]["read_bytes"]
    assert any(re.fullmatch(f"nid00023: osc: {why}", note) for note in fs["notes"])


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_a_file_that_cannot_be_used_at_the_start_is_unknown_and_not_inflated(desk, damage):
    """Without its start, what it shows at the end would be the work of days."""
    root = desk.tree(**BEFORE)
    damage(root, LLITE)
    assert 0 == start(desk, root).status
    if damage is unreadable:
        os.rmdir(root / LLITE)
    write_tree(root, **AFTER)
    server = desk.server("--nodes", "1", "--format", "json")
    stop(desk, root, server)
    [fs] = server.wait().record["file_systems"]
    assert None is fs["application"]
    assert 19 == fs["network"]["read_rpcs"]
    assert any("llite: not readable at the start" in note for note in fs["notes"])


def test_when_no_file_can_be_read_it_is_one_line_and_status_1(desk):
    """Start, and stop, which tells the server that nothing is known."""
    root = desk.tree(**BEFORE)
    for path in (LLITE, OSC, RPC_STATS, MDC, MD_STATS):
        unreadable(root, path)
    server = desk.server("--nodes", "1")
    done = start(desk, root)
    assert 1 == done.status
    assert "nid00023: none of 5 counter files could be read: EISDIR" in done.line
    done = stop(desk, root, server)
    assert 1 == done.status
    assert "none of 5 counter files could be read" in done.line
    out = server.wait().out
    assert re.search(r"^\| scratch +\| - +\| - +\|$", out, re.M)


@pytest.mark.parametrize("damage", [*DAMAGES[1:], misspelt], ids=lambda f: f.__name__)
def test_show_names_the_file_that_cannot_be_used_and_shows_the_others(desk, damage):
    """Status 1, one line, and the rest of the table."""
    root = desk.tree(**AFTER)
    damage(root, OSC)
    done = desk.client("show", "--root", root, job=False)
    assert 1 == done.status
    assert OSC in done.line
    assert re.search(r"^  read \(application\) +46\.9 KiB +28 calls$", done.out, re.M)
    assert re.search(rf"^  note: .*: osc: (not counted: )?{re.escape(OSC)}", done.out, re.M)


def test_a_terminals_escapes_in_a_counter_file_stay_text(desk):
    """A line of a counter file is shown, but cannot move the cursor."""
    root = desk.tree(**AFTER)
    (root / OSC).write_text("\x1b[2J\x07oops\n")
    done = desk.client("show", "--root", root, job=False)
    assert 1 == done.status
    assert "\x1b" not in done.err + done.out
    assert "oops" in done.line


def test_counters_near_the_kernels_limit_are_reported(desk):
    """A sum that wraps at 2**63 between start and stop, and one that stays there."""
    root = desk.tree(**BEFORE)
    most = 2**62                 # 5 calls of 2**62 bytes could make it up, and 3 of 4096 can't
    put(root, LLITE, stats(f"read_bytes                5 samples [bytes] 1 {most} "
                           "9223372036854775800",
                           f"write_bytes               3 samples [bytes] 1 {most} 100"))
    start(desk, root)
    put(root, LLITE, stats(f"read_bytes                28 samples [bytes] 1 {most} "
                           "-9223372036854775779",
                           f"write_bytes               40 samples [bytes] 1 {most} "
                           "9223372036854775807"))
    server = desk.server("--nodes", "1", "--format", "json")
    assert 0 == stop(desk, root, server).status
    [fs] = server.wait().record["file_systems"]
    # From 2**63 - 8 to 2**63 + 29 are 37 bytes.
    assert 37 == fs["application"]["read_bytes"]
    assert 23 == fs["application"]["read_calls"]
    assert fs["lower_bound"]


# -- start and stop --------------------------------------------------------------------------

def test_stop_without_start_is_one_line_and_status_2(desk):
    """It says where it looked, and what to do."""
    done = stop(desk, desk.tree(**AFTER))
    assert 2 == done.status
    assert (f"iostats: nid00023: job {desk.job} was not started here: no snapshot in "
            f"{desk.state}; run `iostats_client.py start` before the work" == done.line)


def test_stop_twice_after_a_delivery_is_a_stop_without_start(desk, worked):
    """Nothing is sent a second time, and the numbers stay."""
    server = desk.server("--nodes", "2", "--format", "json")
    assert 0 == stop(desk, worked, server).status
    assert 2 == stop(desk, worked, server).status
    assert 41_003 == application(server.stop().record)["read_bytes"]


# -- state files -----------------------------------------------------------------------------

def start_file(desk):
    [path] = desk.state.glob("*.start")
    return path


CUTS = [0, 1, 17, 23, 101, 301, 501, -37, -5, -1]


@pytest.mark.parametrize("length", CUTS)
def test_a_start_that_is_cut_off_anywhere_is_one_line_and_tells_the_server(desk, worked, length):
    """Status 1; no numbers are made up, and the server does not wait for this node."""
    path = start_file(desk)
    path.write_bytes(path.read_bytes()[:length])
    server = desk.server("--nodes", "nid00023")
    done = stop(desk, worked, server)
    assert 1 == done.status
    assert f"{path}: the start snapshot is cut off or damaged" in done.line
    assert path.exists()
    assert "missing: nid00023 (the start snapshot is damaged)" in " ".join(
        server.wait().out.split())


@pytest.mark.parametrize("damage", [lambda data: data + b"x",
                                    lambda data: data.replace(b"secs.nsecs", b"secs.nsec", 1),
                                    lambda data: b"\0" * len(data),
                                    lambda data: data.replace(b"wall_ns 1", b"wall_ns x"),
                                    lambda data: data.replace(b"snapshot 1", b"snapshot 2")],
                         ids=["longer", "a byte less", "zeros", "no number", "another version"])
def test_a_start_that_was_altered_is_one_line(desk, worked, damage):
    """As one that is cut off."""
    path = start_file(desk)
    path.write_bytes(damage(path.read_bytes()))
    done = stop(desk, worked)
    assert 1 == done.status
    assert "the start snapshot is cut off or damaged" in done.line


def test_a_start_after_a_damaged_one_begins_again(desk, worked):
    """It says so; what the job does from now on is measured."""
    start_file(desk).write_bytes(b"iostats-snap")
    write_tree(worked, **BEFORE)
    done = start(desk, worked)
    assert 0 == done.status
    assert (f"iostats: an earlier start of job {desk.job} on nid00023 is damaged; begun again"
            == done.line)
    write_tree(worked, **AFTER)
    assert 41_003 == application(delivered_later(desk, worked))["read_bytes"]


def test_a_delta_that_is_cut_off_is_one_line_and_the_others_are_delivered(desk, worked):
    """Status 1 names the file, which stays; the report of a new start arrives."""
    assert 3 == stop(desk, worked).status
    [path] = desk.state.iterdir()
    path.write_bytes(path.read_bytes()[:41])
    write_tree(worked, **BEFORE)
    assert 0 == start(desk, worked).status
    write_tree(worked, **AFTER)
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, worked, server)
    assert 1 == done.status
    assert f"{path}: the report is cut off or damaged" in done.line
    assert path.exists()
    assert 41_003 == application(server.wait().record)["read_bytes"]


def other_boot(path):
    """The start file `path`, as if it were from another boot."""
    text = re.sub(rb"\nboot_id [^\n]*", b"\nboot_id 5e0d0000-0000-0000-0000-000000000037",
                  path.read_bytes(), count=1)
    path.write_bytes(seal(text))


def seal(text):
    """The start snapshot `text` with the crc32 that belongs to it."""
    end = text.rindex(b"\nend ") + 1
    files = b" ".join(text[end:].split()[:2])
    return text[:end] + b"%s %08x\n" % (files, binascii.crc32(text[:end]))


def test_a_stop_after_a_reboot_reports_a_lower_bound(desk, worked):
    """The counters began again at 0: 48,003 bytes since the boot are all that is known."""
    other_boot(start_file(desk))
    record = delivered_later(desk, worked)
    assert {"read_bytes": 48_003, "write_bytes": 62_007, "read_calls": 28, "write_calls": 40,
            "lower_bound": True} == application(record)
    assert any("the node was booted again after the start" in note
               for note in record["file_systems"][0]["notes"])


def test_a_start_of_another_boot_is_begun_again(desk, worked):
    """A job that was requeued: the old start is of no use; one line, status 0."""
    other_boot(start_file(desk))
    write_tree(worked, **BEFORE)
    done = start(desk, worked)
    assert 0 == done.status
    assert (f"iostats: an earlier start of job {desk.job} on nid00023 is from another boot; begun "
            f"again" == done.line)
    write_tree(worked, **AFTER)
    assert 41_003 == application(delivered_later(desk, worked))["read_bytes"]


@pytest.mark.root
@as_root
def test_a_start_of_another_user_is_not_believed(desk, worked):
    """Status 1, one line with the owner; the file stays for who wants to look."""
    os.chown(start_file(desk), NOBODY, NOBODY)
    done = stop(desk, worked)
    assert 1 == done.status
    assert f"got a link, a directory or a file of user {NOBODY}" in done.line
    assert start_file(desk).exists()


@pytest.mark.root
@as_root
def test_a_state_directory_of_another_user_is_not_used(desk):
    """Status 1; nothing is put into it."""
    desk.state.mkdir(mode=0o700)
    os.chown(desk.state, NOBODY, NOBODY)
    done = start(desk, desk.tree(**BEFORE))
    assert 1 == done.status
    assert f"got a directory of user {NOBODY}" in done.line
    assert [] == os.listdir(desk.state)


# -- servers that are not ours ---------------------------------------------------------------

def test_a_server_that_is_not_there_is_status_3(desk, worked):
    """The host and port that were tried, and where the delta is."""
    desk.job, [port] = job_with_free_ports(1)
    os.makedirs(desk.home / ".iostats", mode=0o700)
    secret = desk.home / ".iostats" / f"{desk.job}.secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    secret.chmod(0o600)
    start(desk, worked)
    done = stop(desk, worked)
    assert 3 == done.status
    assert f"127.0.0.1:{port}: Connection refused" in done.line
    assert "`stop` again sends it" in done.line


def test_a_server_host_that_does_not_exist_is_status_3(desk, worked):
    """.invalid is reserved for names that are none (RFC 2606)."""
    desk.server("--nodes", "1")
    done = desk.client("stop", "--server", "no-such-host.invalid", *desk.on("nid00023", worked),
                       env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    assert 3 == done.status
    assert "no-such-host.invalid" in done.line
    assert 1 == len(list(desk.state.glob("*.delta")))


def test_the_server_of_another_job_on_the_port_is_named_and_gets_nothing(desk):
    """Status 3, the delta is kept, and the other job's numbers are its own."""
    desk.job, other = two_jobs_with_one_port()
    root = desk.tree(**BEFORE)
    start(desk, root)
    write_tree(root, **AFTER)
    theirs = desk.server("--nodes", "1", "--format", "json", job=other)
    secret = desk.home / ".iostats" / f"{desk.job}.secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    secret.chmod(0o600)
    done = stop(desk, root)
    assert 3 == done.status
    assert f"port {theirs.port}: the server of job '{other}'" in done.line
    assert 1 == len(list(desk.state.glob("*.delta")))
    assert [] == theirs.stop().record["file_systems"]


@pytest.mark.parametrize("secret, mode, status, message", [
    ("fedcba9876543210fedcba9876543210", 0o600, 3,
     "a server of this job with another secret (see --secret)"),
    ("short", 0o600, 3, "expected a secret of at least 16 characters, got 5"),
    ("fedcba9876543210fedcba9876543210", 0o644, 3, "expected a file of mode 0600, got mode 0644"),
    (None, None, 3, "no secret; the server makes it"),
], ids=["wrong", "short", "open to others", "not there"])
def test_a_wrong_secret_is_one_line_and_the_delta_stays(desk, worked, secret, mode, status,
                                                        message):
    """The right secret delivers it afterwards."""
    server = desk.server("--nodes", "1", "--format", "json")
    path = desk.directory / "wrong"
    if secret is not None:
        path.write_text(secret)
        path.chmod(mode)
    done = desk.client("stop", "--server", f"127.0.0.1:{server.port}", "--secret", path,
                       *desk.on("nid00023", worked), env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    assert status == done.status
    assert message in done.line
    assert 1 == len(list(desk.state.glob("*.delta")))
    assert 0 == stop(desk, worked, server).status
    assert 41_003 == application(server.wait().record)["read_bytes"]


def test_a_wrong_secret_in_the_environment_is_one_line_and_the_delta_stays(desk, worked):
    """IOSTATS_SECRET of another job that was left set."""
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, worked, server, env={"IOSTATS_SECRET": "fedcba9876543210fedcba9876543210"})
    assert 3 == done.status
    assert "another secret" in done.line
    assert 0 == stop(desk, worked, server).status
    assert 41_003 == application(server.wait().record)["read_bytes"]


# -- clocks ----------------------------------------------------------------------------------

WRONG_CLOCK = """
import sys, time
real, real_ns, off = time.time, time.time_ns, int(sys.argv.pop(1))
time.time = lambda: real() + off
time.time_ns = lambda: real_ns() + off * 1_000_000_000
sys.path.insert(0, sys.argv.pop(1))
from iostats.cli.node import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("off_s, way", [(600, "ahead of"), (-600, "behind"), (86_400, "ahead of")])
def test_a_node_whose_clock_is_off_is_counted_and_its_times_are_corrected(desk, off_s, way):
    """
    10 minutes are over the tolerance of 5; the node learns the server's time by `hello`, whose
    answer may have been under way for a while.
    """
    root, began = desk.tree(**BEFORE), time.time()
    server = desk.server("--nodes", "1", "--format", "json")
    command = [sys.executable, "-I", "-S", "-c", WRONG_CLOCK, str(off_s), str(REPOSITORY)]
    options = [*map(str, desk.on("nid00023", root)), "--job", desk.job]
    for role in (["start"], ["stop", "--server", f"127.0.0.1:{server.port}"]):
        done = subprocess.run([*command, *role, *options], env=desk.environment(),
                              capture_output=True, text=True)
        assert (0, "") == (done.returncode, done.stderr)
        write_tree(root, **AFTER)
    record = server.wait().record
    assert 41_003 == application(record)["read_bytes"]
    [note] = [note for note in record["notes"] if "clock" in note]
    seconds = re.fullmatch(rf"nid00023: its clock is (\d+) s {way} the server's \(corrected\)",
                           note)
    took_s = time.time() - began
    assert pytest.approx(abs(off_s), abs=took_s + 1) == int(seconds[1])
    assert {} == record["coverage"]["refused"]          # its `hello` was stale, and answered
    assert 0 < record["job"]["ended"] - began + 1 < took_s + 2
    assert 0 <= record["job"]["elapsed_s"] < took_s


# -- nodes -----------------------------------------------------------------------------------

def test_a_node_that_is_not_the_jobs_is_refused_and_keeps_its_delta(desk, worked):
    """Status 3, the line says how to name it; nothing of it is in the totals."""
    server = desk.server("--nodes", "nid[00001-00002]", "--format", "json")
    done = stop(desk, worked, server)
    assert 3 == done.status
    assert ("the server refused the report: nid00023 is not among the job's nodes "
            "nid[00001-00002]; name it with --node") in done.line
    assert 1 == len(list(desk.state.glob("*.delta")))
    record = server.stop().record
    assert {"unknown node": 1} == record["coverage"]["refused"]
    assert (0, []) == (record["coverage"]["reported"], record["file_systems"])


def test_the_same_node_twice_counts_once(desk):
    """Two clients of one node with directories of their own measure the same time."""
    server = desk.server("--nodes", "2", "--format", "json")
    root = desk.tree(**BEFORE)
    states = (desk.directory / "one", desk.directory / "two")
    for state in states:
        desk.client("start", *desk.on("nid00023", root, state=state))
    # Over a second, or the two would not be told from two parts one after the other.
    for path in (next(state.glob("*.start")) for state in states):
        earlier(path, 41)
    write_tree(root, **AFTER)
    first, second = (desk.client("stop", "--server", f"127.0.0.1:{server.port}",
                                 *desk.on("nid00023", root, state=state)) for state in states)
    assert 0 == first.status
    assert 3 == second.status
    assert "a report of nid00023 about the same time is counted already" in second.line
    assert 1 == len(list(states[1].glob("*.delta")))
    record = server.stop().record
    assert 41_003 == application(record)["read_bytes"]
    assert {"overlapping reports of one node": 1} == record["coverage"]["refused"]


def earlier(path, seconds):
    """The start file `path`, as if it were from `seconds` ago."""
    def less(found):
        return found[1] + str(int(found[2]) - seconds * 1_000_000_000).encode()
    path.write_bytes(seal(re.sub(rb"(\n(?:wall|boot)_ns )(\d+)", less, path.read_bytes(),
                                 count=2)))


def test_two_nodes_with_one_name_are_both_counted_and_told(desk):
    """Cloned images: the boot ids differ, so it is not the same work; the table says so."""
    server = desk.server("--nodes", "2", "--format", "json")
    for name, boot in (("one", b"aa"), ("two", b"bb")):
        root = desk.tree(name, **BEFORE)
        state = desk.directory / f"state-{name}"
        on = desk.on("localhost", root, state=state)
        desk.client("start", *on)
        earlier(next(state.glob("*.start")), 41)
        write_tree(root, **AFTER)
        desk.client("stop", "--server", "127.0.0.1:1", *on, env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"})
        [delta] = state.glob("*.delta")
        delta.write_bytes(json.dumps({**json.loads(delta.read_bytes()),
                                      "boot_id": boot.decode()}).encode())
        assert 0 == desk.client("stop", "--server", f"127.0.0.1:{server.port}", *on).status
    record = server.stop().record
    assert 82_006 == application(record)["read_bytes"]
    assert ["localhost: two nodes report under one name, or it was booted in between"] == [
        note for note in record["notes"] if "one name" in note]


# -- disks -----------------------------------------------------------------------------------

@pytest.fixture
def full(tmp_path):
    """A small disk of its own; `fill()` leaves no byte on it."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs",
                              str(directory)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk to fill: {mounted.stderr.strip()}")

    class Disk:
        path = directory

        @staticmethod
        def fill():
            with open(directory / "filler", "ab", buffering=0) as file:
                fill(file)

        @staticmethod
        def free():
            os.unlink(directory / "filler")

    yield Disk
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.root
@as_root
def test_a_start_on_a_full_disk_is_one_line_and_leaves_nothing(desk, full):
    """Status 1, the file and the reason; no half file stays."""
    full.fill()
    done = desk.client("start", *desk.on("nid00023", desk.tree(**BEFORE), state=full.path))
    assert 1 == done.status
    assert re.search(r"nid00023\.start: cannot be written: No space left on device; name another "
                     r"directory in site\.cfg: \[node\] state_dir$", done.line)
    assert ["filler"] == os.listdir(full.path)


@pytest.mark.root
@as_root
def test_a_stop_on_a_full_disk_is_delivered_all_the_same(desk, full):
    """It says that the delta could not be kept, and delivers it from memory."""
    root = desk.tree(**BEFORE)
    on = desk.on("nid00023", root, state=full.path)
    desk.client("start", *on)
    write_tree(root, **AFTER)
    full.fill()
    server = desk.server("--nodes", "1", "--format", "json")
    done = desk.client("stop", "--server", f"127.0.0.1:{server.port}", *on)
    assert 0 == done.status
    assert "cannot be written: No space left on device" in done.line
    assert 41_003 == application(server.wait().record)["read_bytes"]
    assert ["filler"] == os.listdir(full.path)


@pytest.mark.root
@as_root
def test_a_stop_on_a_full_disk_without_a_server_keeps_the_start(desk, full):
    """Status 3; the start still stands, and a later `stop` measures and delivers."""
    root = desk.tree(**BEFORE)
    on = desk.on("nid00023", root, state=full.path)
    desk.client("start", *on)
    write_tree(root, **AFTER)
    full.fill()
    done = desk.client("stop", "--server", "127.0.0.1", *on,
                       env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    assert 3 == done.status
    assert 2 == len(done.lines)
    assert re.search(r"stored in \S+nid00023\.start, `stop` again sends it$", done.lines[1])
    full.free()
    server = desk.server("--nodes", "1", "--format", "json")
    assert 0 == desk.client("stop", "--server", f"127.0.0.1:{server.port}", *on).status
    assert 41_003 == application(server.wait().record)["read_bytes"]
    assert [] == os.listdir(full.path)


@pytest.mark.root
@as_root
@pytest.mark.parametrize("option", ["--output", "--json"])
def test_a_report_on_a_full_disk_is_printed_instead(desk, full, option):
    """Status 1, one line more than the first; the table is on standard output."""
    server = desk.server("--nodes", "1", option, full.path / "report")
    full.fill()
    assert 0 == desk.whole_job(server, "nid00023").status
    done = server.wait()
    assert 1 == done.status
    assert [f"iostats: {full.path}/report: cannot be written: No space left on device; the "
            f"counts are stored: run the same command again"] == done.lines[1:]
    assert "40.0 KiB" in done.out
    assert ["filler"] == os.listdir(full.path)


@pytest.mark.root
@as_root
def test_a_secret_on_a_full_disk_is_one_line(desk, full):
    """Status 1; the server does not begin with a secret that it could not write."""
    full.fill()
    done = desk.run_server("--nodes", "1", "--secret", full.path / "secret")
    assert 1 == done.status
    assert "No space left on device" in done.line
    assert ["filler"] == os.listdir(full.path)


# -- site.cfg --------------------------------------------------------------------------------

SITE_CFG = {
    "typo in a key": ("[server]\n\nhosst = login1\n",
                      "site.cfg:3: [server] has no key 'hosst'; it has: host port_first "),
    "bad number": ("[server]\nport_first = many\n", "site.cfg:2: [server] port_first: expected a "
                   "number from 1 to 65535, got 'many'"),
    "number too large": ("[server]\nport_first = 65536\n", "expected a number from 1 to 65535, "
                         "got '65536'"),
    "negative number": ("[server]\ndeadline = -5\n", "[server] deadline: expected seconds"),
    "unknown section": ("# ours\n[sever]\nhost = login1\n", "site.cfg:2: expected one of the "
                        "sections node server batch run site harvest events clients "
                        "collector etcd ldms web secret report findings ganglia influxdb "
                        "prometheus syslog labels finding_text relay relay_from, got '[sever]'"),
    "key before a section": ("host = login1\n", "site.cfg:1: expected [section] before the first "
                             "key, got 'host = login1'"),
    "no equals sign": ("[server]\nhost login1\n", "site.cfg:2: expected [section], key = value"),
    "key twice": ("[server]\nhost = a\nhost = b\n", "site.cfg:3: [server] host is set in line 2 "
                  "already; remove one"),
    "not one of the choices": ("[report]\nformat = html\n", "site.cfg:2: [report] format: "
                               "expected grid, plain, json, csv or markdown, got 'html'"),
    "ports the wrong way round": ("[server]\nport_first = 300\nport_last = 200\n",
                                  "port_last: expected a port of at least port_first = 300"),
    "binary": ("\x7fELF\x02\x01\x01\0\0\0", "site.cfg:1: expected"),
}


@pytest.mark.parametrize("text, message", list(SITE_CFG.values()), ids=list(SITE_CFG))
@pytest.mark.parametrize("command", ["start", "show", "server", "config"])
def test_a_mistake_in_site_cfg_is_one_line_with_place_and_choices(desk, command, text, message):
    """File, line, section, key and what is allowed; status 2 from every command."""
    (desk.directory / "site.cfg").write_text(text)
    process = subprocess.run(
        [sys.executable, "-m", "iostats", command, "--config", str(desk.directory / "site.cfg"),
         *(("--job", "23") if command in ("start", "server") else ())],
        env=desk.environment(), cwd=str(REPOSITORY), capture_output=True, text=True)
    done = Done(process.returncode, process.stdout, process.stderr)
    assert (2, "") == (done.status, done.out)
    assert message in done.line
    assert [] == os.listdir(desk.home)


@pytest.mark.parametrize("variable, value, message", [
    ("IOSTATS_SERVER_DEADLINE", "soon", "environment: IOSTATS_SERVER_DEADLINE: [server] deadline: "
                                        "expected seconds, from 0 to 10000000, got 'soon'"),
    ("IOSTATS_NODE_RETRY_TIMEOUT", "", "IOSTATS_NODE_RETRY_TIMEOUT"),
    ("IOSTATS_REPORT_UNITS", "MB", "expected binary, decimal or bytes, got 'MB'"),
])
def test_a_mistake_in_a_variable_names_the_variable(desk, variable, value, message):
    """Status 2, as in a file."""
    done = desk.client("show", job=False, env={variable: value})
    assert 2 == done.status
    assert message in done.line


def test_a_configuration_that_is_not_there_is_one_line(desk):
    """--config names it, so it has to be there; a directory is no file."""
    done = desk.client("show", "--config", "/no/such/site.cfg", job=False)
    assert (2, "iostats: /no/such/site.cfg: cannot be read: No such file or directory") == (
        done.status, done.line)
    done = desk.client("show", "--config", desk.directory, job=False)
    assert 2 == done.status
    assert "cannot be read: Is a directory" in done.line


# -- names -----------------------------------------------------------------------------------

@pytest.mark.parametrize("line", [
    "x" * 300 + "   23 samples [reqs]",
    "ost_write   99999999999999999999 samples [reqs]",
    "ost_write   9223372036854775808 samples [reqs]",
    "ost_write   -5 samples [reqs]",
], ids=["a name of 300 characters", "20 digits", "2**63", "less than none"])
def test_a_counter_that_cannot_be_does_not_cost_the_report(desk, worked, line):
    """A server would refuse it, so it is not sent; all other numbers arrive."""
    path = f"sys/kernel/debug/lustre/osc/scratch-OST0001-osc-{INSTANCE}/stats"
    put(worked, path, stats(line, start=1_999_999_999))     # it came after the start
    server = desk.server("--nodes", "1", "--format", "json")
    done = stop(desk, worked, server)
    assert 1 == done.status
    assert f"{path}:4: expected" in done.line
    assert 41_003 == application(server.wait().record)["read_bytes"]
