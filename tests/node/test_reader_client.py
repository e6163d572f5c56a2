"""
Who may read what: the reader that gives ordinary users root's counters, the start that root
leaves for them, and a kernel that forbids them to root, too.

As on a real node: a debugfs directory that is root's alone (0700), a reader with
CAP_DAC_READ_SEARCH
and nothing else behind a socket of systemd's own activation, and a user who can read neither.
"""
from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    LLITE,
    OSC,
    Desk,
    put,
    stats,
    until,
    write_tree,
)

from iostats.lustre.paths import File
from iostats.node import reader_client

REPOSITORY = Path(__file__).resolve().parents[2]
USER, STRANGER, NOBODY = 12345, 23456, 65534
ONE_CAPABILITY = 1 << 2                             # CAP_DAC_READ_SEARCH, linux/capability.h
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]


def tool(name):
    """The path of a program; the test is skipped where there is none."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/lib/systemd")
    if not found:
        pytest.skip(f"needs {name}")
    return found


def as_user(uid):
    """The beginning of a command that runs as the user `uid`, without capabilities."""
    return [tool("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
            "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]


WITH_ONE_CAPABILITY = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                       "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search",
                       "--bounding-set=-all,+dac_read_search", "--no-new-privs"]


def is_listened_on(path):
    """The kernel's list of sockets has it in state 01, SS_UNCONNECTED, with __SO_ACCEPTCON."""
    return any(line.split()[3] == "00010000" for line in Path("/proc/net/unix").read_text()
               .splitlines() if line.endswith(f" {path}"))


class Node:
    """
    One node: its tree, `root`, with a debugfs that is root's alone; a copy of the client that
    everybody may read; and the directory of a user.
    """

    def __init__(self, directory):
        self.directory, self.root = directory, directory / "node"
        self.program = directory / "program"
        self.program.mkdir()
        shutil.copy(CLIENT, self.program)
        shutil.copytree(REPOSITORY / "iostats", self.program / "iostats",
                        ignore=shutil.ignore_patterns("__pycache__"))
        self.answers_within("60.0")                 # a real reader, on a machine that is busy
        self.public = directory / "run" / "start"
        self.socket = self.root / "run/iostats/reader.sock"
        self.socket.parent.mkdir(parents=True)
        self.socket.parent.chmod(0o755)
        self.work(**BEFORE)
        self.debugfs.chmod(0o700)
        self._started = []

    @property
    def debugfs(self):
        return self.root / "sys/kernel/debug"

    def work(self, **counters):
        """What the node's programs did so far."""
        write_tree(self.root, **counters)
        # /sys and /proc list what debugfs hides.
        for name in ("osc/scratch-OST0000-osc-ffff9a3c5d1e0800/uuid",
                     "mdc/scratch-MDT0000-mdc-ffff9a3c5d1e0800/uuid"):
            put(self.root, f"sys/fs/lustre/{name}", "scratch-clilov\n")

    def command(self, uid, role, *options):
        """The command line of the client as the user `uid`."""
        client = [PYTHON, "-I", "-S", self.program / "iostats_client.py", role,
                  "--root", self.root, *options]
        return [str(word) for word in [*(as_user(uid) if uid else ()), *client]]

    def environment(self, uid, env=None):
        home = self.directory / f"home-{uid}"
        if not home.exists():
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        return {"PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8",
                "IOSTATS_NODE_STATE_DIR": str(home / "state"),
                "IOSTATS_NODE_PUBLIC_DIR": str(self.public), **(env or {})}

    def client(self, role, *options, uid=USER, env=None):
        """Run the client as the user `uid`; what it printed."""
        return subprocess.run(self.command(uid, role, *options), text=True, capture_output=True,
                              env=self.environment(uid, env), timeout=60)

    def begin(self, *command, env=None, **how):
        """Start a process that ends with the test."""
        process = subprocess.Popen([str(word) for word in command], env=env,
                                   stdin=subprocess.DEVNULL, **how)
        self._started.append(process)
        return process

    def begin_reader(self, *command, bound=WITH_ONE_CAPABILITY):
        """Let socket activation run `command`, or the client as the unit does, per connection."""
        if not command:
            command = (PYTHON, "-I", "-S", self.program / "iostats_client.py", "show", "--json",
                       "--root", self.root)
        self.begin(tool("systemd-socket-activate"), "--accept", "--inetd", "--listen", self.socket,
                   "-E", "IOSTATS_NODE_READER=",
                   tool("setpriv"), *bound, *command, stderr=subprocess.DEVNULL)
        until(lambda: is_listened_on(self.socket), what="the reader's socket")
        self.socket.chmod(0o666)                    # SocketMode= of the unit

    def answers_within(self, seconds):
        """How long the client waits for a reader: "5.0" as it is installed."""
        path = self.program / "iostats" / "node" / "reader_client.py"
        text, count = re.subn(r"(?m)^(ANSWER_WITHIN_S = ).*$", rf"\g<1>{seconds}", path.read_text())
        assert 1 == count
        path.write_text(text)

    def begin_fake(self, *behaviour, uid=0):
        """A socket of the user `uid` that does `behaviour`, see FAKE."""
        if uid:
            os.chown(self.socket.parent, uid, uid)
        self.begin(*(as_user(uid) if uid else ()), PYTHON, "-c", FAKE, self.socket, *behaviour)
        until(self.socket.exists, what="the fake reader's socket")

    def close(self):
        for process in self._started:
            process.kill()
            process.wait()


# Somebody else behind the socket: silent, or sends the text, or sends without end.
FAKE = """
import os, socket, sys, time
os.umask(0)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen(5)
os.rename(sys.argv[1] + ".new", sys.argv[1])
held = []
while True:
    connection, _ = listener.accept()
    held.append(connection)
    try:
        if sys.argv[2] == "says":
            connection.sendall(sys.argv[3].encode())
            connection.shutdown(socket.SHUT_WR)
        while sys.argv[2] == "floods":
            connection.sendall(bytes(1 << 20))
        if sys.argv[2] == "trickles":
            while True:
                connection.sendall(b" ")
                time.sleep(0.25)
    except OSError:
        pass
"""


@pytest.fixture
def node():
    """A Node; below /tmp itself, as a socket's path has to be short and open to everybody."""
    directory = Path(tempfile.mkdtemp(prefix="iostats-test-", dir="/tmp"))
    directory.chmod(0o755)
    made = Node(directory)
    yield made
    made.close()
    shutil.rmtree(directory)


def application(done):
    """The application's bytes in the answer of `show --json`."""
    [fs] = json.loads(done.stdout)["file_systems"]
    return fs["application"] and (fs["application"]["read_bytes"],
                                  fs["application"]["write_bytes"])


# -- `show --json`, which is what the reader answers -----------------------------------------

def test_show_as_json_has_the_text_of_each_file_as_the_kernel_printed_it(tmp_path):
    """A snapshot can be made of it; a byte that is no ASCII comes back as that byte."""
    text = stats("open                      23 samples [usecs] 31 8117 61403",
                 "caf\xe9 \xff                   7 samples [regs]")
    put(tmp_path, LLITE, text)
    put(tmp_path, OSC, "torn")

    done = subprocess.run([sys.executable, "-I", "-S", CLIENT, "show", "--json", "--root",
                           tmp_path], capture_output=True, text=True)

    files = {file["source"]: file for file in json.loads(done.stdout)["files"]}
    assert (0, text, None) == tuple(files["llite"][k] for k in ("errno", "text", "unreadable"))
    assert (0, "torn") == (files["osc"]["errno"], files["osc"]["text"])
    assert files["osc"]["unreadable"]


# -- the reader for real ---------------------------------------------------------------------

@pytest.mark.root
class TestReader:
    """A capability-bound process against a directory that is root's alone."""

    pytestmark = as_root

    def test_without_the_reader_bytes_are_unknown_and_metadata_is_there(self, node):
        """`-`, never 0."""
        done = node.client("show", "--json")
        assert application(done) is None
        [llite] = [f for f in json.loads(done.stdout)["files"] if f["source"] == "llite"]
        assert (errno.EACCES, "", "permission denied") == (
            llite["errno"], llite["text"], llite["unreadable"])
        [md_stats] = [f for f in json.loads(done.stdout)["files"] if f["source"] == "md_stats"]
        assert 11 == md_stats["counters"]["close"]["samples"]

    def test_with_the_reader_bytes_are_exact(self, node):
        """7,000 read and 9,000 written, as root sees it; and not a word on standard error."""
        node.begin_reader()
        done = node.client("show", "--json")
        assert (7_000, 9_000) == application(done) == application(
            node.client("show", "--json", uid=0))
        assert ("", 0) == (done.stderr, done.returncode)

    def test_show_says_what_came_by_the_reader(self, node):
        """A user may want to know that it was not read by this very process."""
        node.begin_reader()
        done = node.client("show")
        assert "  note: for root alone, and read by the reader: llite, mdc, osc\n" in done.stdout
        assert "by the reader" not in node.client("show", uid=0).stdout

    def test_a_whole_job_of_an_ordinary_user_is_exact(self, node, tmp_path):
        """`start` and `stop` ask the reader by themselves: 41,003 bytes read, 53,007 written."""
        node.begin_reader()
        desk = Desk(tmp_path)
        try:
            server = desk.server("--nodes", "n1", "--json", tmp_path / "record.json")
            user = ("--job", desk.job, "--node", "n1")
            started = node.client("start", *user)
            node.work(**AFTER)
            stopped = node.client("stop", *user, "--server", f"127.0.0.1:{server.port}",
                                  env={"IOSTATS_SECRET": desk.secret.decode()})
            assert 0 == server.wait().status
            [fs] = json.loads((tmp_path / "record.json").read_text())["file_systems"]
        finally:
            desk.close()
        assert ("", 0, "", 0) == (started.stderr, started.returncode, stopped.stderr,
                                  stopped.returncode)
        assert (41_003, 53_007, False) == (
            fs["application"]["read_bytes"], fs["application"]["write_bytes"], fs["lower_bound"])

    def test_the_reader_has_this_one_capability_and_no_way_to_another(self, node):
        """What the kernel says of the process behind the socket."""
        node.begin_reader("/bin/cat", "/proc/self/status")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(node.socket))
            status = dict(line.split(":\t", 1) for line in connection.makefile().read().splitlines()
                          if ":\t" in line)
        assert [ONE_CAPABILITY] * 5 == [
            int(status[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
        assert ("1", str(NOBODY)) == (status["NoNewPrivs"], status["Uid"].split()[1])

    def test_a_reader_without_the_capability_is_told_and_changes_nothing(self, node):
        """Its unit was edited, say."""
        node.begin_reader(bound=as_user(NOBODY)[1:])
        done = node.client("show", "--json")
        assert (f"iostats: reader {node.socket}: it may not read them either (permission denied); "
                f"continuing without\n") == done.stderr
        assert application(done) is None

    def test_the_reader_is_not_asked_where_site_cfg_says_never(self, node):
        """[node] reader, empty."""
        node.begin_reader()
        done = node.client("show", "--json", env={"IOSTATS_NODE_READER": ""})
        assert application(done) is None
        assert "" == done.stderr

    def test_the_reader_is_not_asked_by_who_can_read_everything(self, node):
        """Root's snapshot does not depend on it: this one would be told to be garbage."""
        node.begin_fake("says", "garbage")
        done = node.client("show", "--json", uid=0)
        assert (7_000, 9_000) == application(done)
        assert "" == done.stderr

    def test_twenty_at_once_are_all_served(self, node):
        """A job's processes may all come in the same second."""
        node.begin_reader()
        answers = []

        def ask():
            answers.append(application(node.client("show", "--json")))
        node.environment(USER)
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [(7_000, 9_000)] * 20 == answers


# -- whom not to believe ---------------------------------------------------------------------

LIE = json.dumps({"files": [{
    "source": "llite", "name": "scratch-ffff9a3c5d1e0800", "path": "-", "errno": 0,
    "text": stats("read_bytes 1 samples [bytes] 1 99999999 99999999")}]})


@pytest.mark.root
class TestFakes:
    """One line, and the snapshot is what it was."""

    pytestmark = as_root

    @pytest.mark.parametrize("behaviour, why", [
        (("says", "garbage"), "expected the answer of `show --json`, got 7 bytes that begin with "
                              "'garbage'"),
        (("says", "[" * 100_000), "expected the answer of `show --json`, got 100000 bytes that "
                                  f"begin with '{'[' * 30}'"),
        (("says", '{"files": [7]}'), "expected the answer of `show --json`, got 14 bytes that "
                                     "begin with '{\"files\": [7]}'"),
        (("says", ""), "it closed the connection without an answer (too many at once, or see its "
                       "journal)"),
        (("is silent",), "no whole answer within 5 s"),
        (("trickles",), "no whole answer within 5 s"),
        (("floods",), "expected up to 64 MiB, got more"),
    ], ids=["garbage", "deep garbage", "another form", "nothing", "silence", "a trickle",
            "a flood"])
    def test_a_reader_that_is_none_costs_a_line_and_five_seconds_at_most(self, node, behaviour,
                                                                         why):
        """And start, show and stop go on with what they could read; the trickle has no end."""
        if "5 s" in why:
            node.answers_within("5.0")
        node.begin_fake(*behaviour)
        done = node.client("show", "--json")
        assert f"iostats: reader {node.socket}: {why}; continuing without\n" == done.stderr
        assert application(done) is None

    def test_a_socket_of_another_user_is_not_believed(self, node):
        """Who could make one would make our numbers."""
        node.begin_fake("says", LIE, uid=STRANGER)
        done = node.client("show", "--json")
        assert (f"iostats: reader {node.socket}: expected a socket of root, got one of user "
                f"{STRANGER}; continuing without\n") == done.stderr
        assert application(done) is None

    def test_a_socket_of_our_own_is_believed(self, node):
        """A user can only lie to himself."""
        node.begin_fake("says", LIE, uid=USER)
        assert (99_999_999, 0) == application(node.client("show", "--json"))

    def test_a_socket_that_nobody_listens_on_costs_a_line(self, node):
        """Left behind by a socket unit that is gone."""
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(str(node.socket))
        node.socket.chmod(0o666)
        done = node.client("show", "--json")
        assert (f"iostats: reader {node.socket}: Connection refused; continuing without\n"
                == done.stderr)


# -- which files are taken, without processes ------------------------------------------------

OURS = [File("llite", "a-1", "-", errno.EACCES, ""),
        File("osc", "a-OST0000-osc-1", "proc/x", 0, "ours"),
        File("mdc", "a-MDT0000-mdc-1", "-", errno.EPERM, ""),
        File("rpc_stats", "a-OST0000-osc-1", "-", errno.EIO, "")]
REFUSED = (errno.EACCES, errno.EPERM)


def filled(monkeypatch, *theirs):
    said = []
    monkeypatch.setattr(reader_client, "ask", lambda path: {(f.source, f.name): f for f in theirs})
    return (*reader_client.fill_files(OURS, REFUSED, "/r", said.append), said)


def test_only_what_was_refused_is_taken_and_only_under_the_same_name(monkeypatch):
    """What we could read ourselves, or failed for another reason, stays ours."""
    llite = File("llite", "a-1", "sys/y", 0, "theirs")
    files, gave, said = filled(
        monkeypatch, llite, File("mdc", "a-MDT0001-mdc-1", "z", 0, "another MDT"),
        *(file._replace(errno=0, text="theirs") for file in (OURS[1], OURS[3])))
    assert ([llite, *OURS[1:]], {"llite"}, []) == (files, gave, said)


def test_a_lockdown_behind_our_missing_permission_is_told(monkeypatch):
    """EACCES was ours; that not even root may read it is the better reason."""
    theirs = OURS[0]._replace(errno=errno.EPERM)
    files, gave, [said] = filled(monkeypatch, theirs)
    assert ([theirs, *OURS[1:]], set()) == (files, gave)
    assert said.startswith("reader /r: it may not read them either (forbidden by the kernel")


@pytest.mark.parametrize("file", [
    {"source": "llite", "name": "a-1", "path": "p", "errno": 0},
    {"source": "llite", "name": "a-1", "path": "p", "errno": "0", "text": ""},
    {"source": "llite", "name": "a-1", "path": "p", "errno": -1, "text": ""},
    {"source": "llite", "name": 7, "path": "p", "errno": 0, "text": ""},
    {"source": "llite", "name": "a-1", "path": "p", "errno": 0, "text": "\u2603"},
    {"source": "llite", "name": "a-1", "path": "p\nend 1", "errno": 0, "text": ""},
    {"source": "llite", "name": "a-1", "path": "\ud800", "errno": 0, "text": ""},
], ids=["no text", "errno a text", "errno negative", "name a number", "text no bytes",
        "a path of two lines", "a path that is no text"])
def test_an_answer_that_no_snapshot_could_hold_is_no_answer(file):
    """Checked before anything of it is taken."""
    with pytest.raises(reader_client.ReaderError,
                       match="expected the answer of `show --json`, got"):
        reader_client.decode_files(json.dumps({"files": [file]}).encode())


# -- a start that root leaves ----------------------------------------------------------------

@pytest.mark.root
class TestPublicStart:
    """Prolog as root, job as a user: the bytes are known without a reader."""

    pytestmark = as_root

    @pytest.fixture
    def desk(self, tmp_path):
        """The server's user."""
        made = Desk(tmp_path)
        yield made
        made.close()

    def start(self, node, job="4711", **how):
        return node.client("start", "--public", "--job", job, "--node", "n1", uid=0, **how)

    def stop(self, node, desk, server, uid=USER, **how):
        return node.client("stop", "--job", desk.job, "--node", "n1", "--server",
                           f"127.0.0.1:{server.port}", uid=uid,
                           env={"IOSTATS_SECRET": desk.secret.decode(),
                                "IOSTATS_NODE_RETRY_TIMEOUT": "0", **how})

    def test_it_can_be_read_by_all_and_written_by_root_alone(self, node):
        """Whatever root's umask is."""
        done = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *node.command(
            0, "start", "--public", "--job", "4711", "--node", "n1")],
            env=node.environment(0), capture_output=True, text=True)
        assert ("", "", 0) == (done.stdout, done.stderr, done.returncode)
        [start] = node.public.iterdir()
        assert ("4711%20n1.start", 0o644, 0) == (
            start.name, stat.S_IMODE(start.stat().st_mode), start.stat().st_uid)
        assert [0o755, 0o755] == [stat.S_IMODE(directory.stat().st_mode)
                                  for directory in (node.public, node.public.parent)]

    def test_only_root_can_leave_one(self, node):
        """Another user's would be no better than that user's own."""
        done = node.client("start", "--public", "--job", "4711", "--node", "n1")
        assert ("iostats: start --public: expected root, whose files the job's user can't change, "
                f"got user {USER}; use `start` alone\n", 2) == (done.stderr, done.returncode)
        assert not node.public.exists()

    def test_a_later_one_of_the_same_job_takes_its_place(self, node):
        """A job that was requeued begins again."""
        self.start(node)
        [path] = node.public.iterdir()
        first, inode = path.read_bytes(), path.stat().st_ino
        self.start(node)
        assert [path] == list(node.public.iterdir())
        assert path.read_bytes() != first
        assert path.stat().st_ino != inode

    def test_the_users_stop_uses_it_counts_once_and_leaves_it(self, node, desk):
        """Readable md_stats at both ends: 43 closes, however often `stop` is run."""
        server = desk.server("--nodes", "2", "--json", desk.directory / "record.json")
        self.start(node, desk.job)
        node.work(**AFTER)
        first, second = (self.stop(node, desk, server) for _ in range(2))
        assert [0, 0] == [first.returncode, second.returncode], (first.stderr, second.stderr)
        assert 1 == len(list(node.public.iterdir()))
        server.stop()
        record = json.loads((desk.directory / "record.json").read_text())
        assert 1 == record["coverage"]["reported"]
        assert 43 == record["file_systems"][0]["targets"]["MDT0000"]["close"]

    def test_roots_stop_removes_it_after_delivery(self, node, desk):
        """In the epilog; 41,003 bytes read, 53,007 written."""
        server = desk.server("--nodes", "1", "--json", desk.directory / "record.json")
        self.start(node, desk.job)
        node.work(**AFTER)
        done = self.stop(node, desk, server, uid=0)
        assert ("", 0) == (done.stderr, done.returncode)
        assert [] == list(node.public.iterdir())
        assert 0 == server.wait().status
        [fs] = json.loads((desk.directory / "record.json").read_text())["file_systems"]
        assert (41_003, 53_007) == (fs["application"]["read_bytes"],
                                    fs["application"]["write_bytes"])

    def test_roots_stop_that_is_not_delivered_keeps_it(self, node, desk):
        """Nothing is removed before the server has it."""
        server = desk.server("--nodes", "1")
        self.start(node, desk.job)
        secret = desk.secret.decode()
        server.stop()
        done = node.client("stop", "--job", desk.job, "--node", "n1", "--server",
                           f"127.0.0.1:{server.port}", uid=0,
                           env={"IOSTATS_SECRET": secret, "IOSTATS_NODE_RETRY_TIMEOUT": "0"})
        assert 3 == done.returncode
        assert 1 == len(list(node.public.iterdir()))

    def test_a_users_own_start_comes_first(self, node, desk):
        """Who starts himself wants that moment: of 54 closes the 43 since then."""
        self.start(node, desk.job)
        node.work(**dict(BEFORE, opens=31))
        node.client("start", "--job", desk.job, "--node", "n1")
        node.work(**AFTER)
        server = desk.server("--nodes", "1", "--json", desk.directory / "record.json")
        assert 0 == self.stop(node, desk, server).returncode
        server.wait()
        record = json.loads((desk.directory / "record.json").read_text())
        assert 23 == record["file_systems"][0]["targets"]["MDT0000"]["close"]

    @pytest.mark.parametrize("plant, got", [
        (lambda node: (node.public.rename(node.directory / "moved"),
                       node.public.symlink_to(node.directory / "moved")), "a link or a file"),
        (lambda node: os.chown(node.public, STRANGER, STRANGER), f"of user {STRANGER}"),
        (lambda node: node.public.chmod(0o777), "of mode 0777"),
        (lambda node: node.public.parent.chmod(0o775), "of mode 0775"),
        (lambda node: os.chown(node.public.parent, STRANGER, STRANGER), f"of user {STRANGER}"),
    ], ids=["a link", "another user's directory", "a directory that all may write to",
            "a directory above that others may write to", "another user's directory above"])
    def test_a_directory_that_others_can_change_is_not_used(self, node, desk, plant, got):
        """Neither by who writes there nor by who reads: somebody else's numbers might be in it."""
        self.start(node, desk.job)
        before = next(node.public.iterdir()).read_bytes()
        plant(node)
        server = desk.server("--nodes", "1")
        stopped, started = self.stop(node, desk, server), self.start(node, desk.job)
        assert 1 == stopped.returncode
        assert (f"{desk.job}%20n1.start: not used: expected directories of root, got "
                in stopped.stderr)
        assert got in stopped.stderr
        assert (1, 1) == (len(stopped.stderr.splitlines()), len(started.stderr.splitlines()))
        assert got in started.stderr
        assert 1 == started.returncode
        assert before == next(node.public.iterdir()).read_bytes()

    def test_a_file_of_another_user_is_not_used(self, node, desk):
        """Root's directory, and yet not root's file: a snapshot that its owner could change."""
        self.start(node, desk.job)
        [path] = node.public.iterdir()
        os.chown(path, STRANGER, STRANGER)
        done = self.stop(node, desk, desk.server("--nodes", "1"))
        assert (f"iostats: {path}: expected a file of user 0, got a link, a directory or a file of "
                f"user {STRANGER}; remove it\n", 1) == (done.stderr, done.returncode)

    def test_a_link_is_not_followed(self, node, desk):
        """Not to a file of root's either."""
        self.start(node, desk.job)
        [path] = node.public.iterdir()
        path.rename(path.with_suffix(".moved"))
        path.symlink_to(path.with_suffix(".moved"))
        done = self.stop(node, desk, desk.server("--nodes", "1"))
        assert f"{path}: expected a file of user 0, got a link" in done.stderr
        assert 1 == done.returncode

    def test_the_directory_is_not_made_below_one_of_another_user(self, node):
        """Root making directories there would be led somewhere else by a link."""
        theirs = node.directory / "theirs"
        theirs.mkdir()
        os.chown(theirs, STRANGER, STRANGER)
        done = self.start(node, env={"IOSTATS_NODE_PUBLIC_DIR": str(theirs / "start")})
        assert 1 == done.returncode
        assert f"got {theirs} of user {STRANGER}; fix it, or name another in" in done.stderr
        assert [] == list(theirs.iterdir())

    def test_what_nobody_fetched_for_months_is_removed(self, node):
        """/run is memory."""
        node.public.mkdir(parents=True)
        for name, days in (("23%20n1.start", 91), ("37%20n1.start", 89)):
            path = node.public / name
            path.write_text("old")
            os.utime(path, (time.time() - days * 86400,) * 2)
        self.start(node)
        assert ["37%20n1.start", "4711%20n1.start"] == sorted(
            path.name for path in node.public.iterdir())

    def test_a_clock_that_is_ahead_removes_no_start_of_this_boot(self, node):
        """The start of a running job, 91 days old by the clock of a prolog."""
        self.start(node)
        [path] = node.public.iterdir()
        os.utime(path, (time.time() - 91 * 86400,) * 2)
        self.start(node, job="4713")
        assert ["4711%20n1.start", "4713%20n1.start"] == sorted(
            path.name for path in node.public.iterdir())


# -- absence, permission, lockdown -----------------------------------------------------------

# A kernel in lockdown: opening a counter file in debugfs is EPERM for root, too.
LOCKED = """
import errno, os, sys, mfusepy
class Locked(mfusepy.Operations):
    use_ns = True
    def _real(self, path):
        return sys.argv[1] + path
    def getattr(self, path, fh=None):
        found = os.lstat(self._real(path))
        return {key: getattr(found, key) for key in ("st_mode", "st_nlink", "st_uid", "st_gid")}
    def readdir(self, path, fh):
        return [".", ".."] + os.listdir(self._real(path))
    def open(self, path, flags):
        raise OSError(errno.EPERM, path)
mfusepy.FUSE(Locked(), sys.argv[2], foreground=True, nothreads=True)
"""


@pytest.fixture
def locked(tmp_path):
    """A tree whose debugfs is a FUSE mount that answers EPERM to each open()."""
    checked = subprocess.run([sys.executable, "-m", "simlustre", "--check"], cwd=REPOSITORY,
                             capture_output=True, text=True)
    if checked.returncode:
        pytest.skip(checked.stdout.strip())
    root, behind = tmp_path / "node", tmp_path / "behind"
    write_tree(root, **BEFORE)
    debugfs = root / "sys/kernel/debug"
    debugfs.rename(behind)
    debugfs.mkdir()
    process = subprocess.Popen([sys.executable, "-c", LOCKED, behind, debugfs])
    until(lambda: os.path.ismount(debugfs), what="the mount")
    yield root
    subprocess.run(["fusermount3", "-u", debugfs], check=True)
    process.wait(20)


@pytest.mark.fuse
def test_lockdown_is_told_apart_in_show(locked):
    """Not a permission that root could have: EPERM, and the text says so."""
    show = [sys.executable, "-I", "-S", CLIENT, "show", "--root", locked]
    done = subprocess.run([*show, "--json"], capture_output=True, text=True)

    [llite] = [f for f in json.loads(done.stdout)["files"] if f["source"] == "llite"]
    assert (errno.EPERM, "forbidden by the kernel, even for root (lockdown)") == (
        llite["errno"], llite["unreadable"])
    assert application(done) is None
    assert "forbidden by the kernel, even for root (lockdown)" in subprocess.run(
        show, capture_output=True, text=True).stdout


@pytest.mark.fuse
def test_nothing_but_lockdown_does_not_send_the_user_to_root(locked):
    """Root is forbidden it as well."""
    shutil.rmtree(locked / "proc")
    done = subprocess.run([sys.executable, "-I", "-S", CLIENT, "show", "--node", "n1", "--root",
                           locked], capture_output=True, text=True)

    assert ("iostats: n1: none of 5 counter files could be read: forbidden by the kernel, even for "
            "root (lockdown); see `iostats_client.py doctor`\n", 1) == (
        done.stderr, done.returncode)


def test_a_mount_without_its_counters_is_not_taken_for_one_that_did_nothing(tmp_path):
    """debugfs is not mounted: /sys lists the mount, and its `stats` are nowhere."""
    write_tree(tmp_path, **BEFORE)
    shutil.rmtree(tmp_path / "sys/kernel/debug")
    done = subprocess.run([sys.executable, "-I", "-S", CLIENT, "show", "--json", "--root",
                           tmp_path], capture_output=True, text=True)

    [llite] = [f for f in json.loads(done.stdout)["files"] if f["source"] == "llite"]
    assert (errno.ENOENT, "not there (debugfs is not mounted?)") == (
        llite["errno"], llite["unreadable"])
    assert application(done) is None


# -- the units -------------------------------------------------------------------------------

SERVICE = "iostats-reader@.service"


@pytest.fixture
def installed(tmp_path):
    """Where `make install-reader` put everything."""
    done = subprocess.run(["make", "-s", "install-reader", f"DESTDIR={tmp_path}",
                           f"UNIT_PYTHON={sys.executable}"], cwd=REPOSITORY, text=True,
                          capture_output=True)
    assert (f"installed: the reader, in {tmp_path}/usr/local/lib/iostats\nleft to do:\n"
            "  enable the unit in the image:\n"
            f"      systemctl --root={tmp_path} enable iostats-reader.socket\n"
            "  or on the host that runs it:\n"
            "      systemctl daemon-reload; systemctl enable --now iostats-reader.socket\n"
            ) == done.stdout
    assert ("", 0) == (done.stderr, done.returncode)
    return tmp_path


def options_of(unit):
    """{option: [values]} of a unit file."""
    found = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_what_is_installed_runs(installed, tmp_path):
    """The command of the unit, on the copy of the client that was installed with it."""
    [command] = options_of(installed / "etc/systemd/system" / SERVICE)["ExecStart"]
    assert f"{sys.executable} -I -S /usr/local/lib/iostats/iostats_client.py show --json" == command
    words = command.replace("/usr/local", str(installed / "usr/local")).split()
    root = write_tree(tmp_path / "node", **BEFORE)
    done = subprocess.run([*words, "--root", root], capture_output=True, text=True)

    assert (7_000, 9_000) == application(done)


def test_an_edited_site_cfg_survives_and_the_rest_is_removed(installed):
    """An administrator's file is not ours to write over, nor to remove."""
    site = installed / "etc/iostats/site.cfg"
    site.write_text("[report]\nunits = decimal\n")
    make = ["make", "-s", f"DESTDIR={installed}"]
    for target in ("install-reader", "uninstall"):
        subprocess.run([*make, target], cwd=REPOSITORY, check=True, capture_output=True)
        assert "[report]\nunits = decimal\n" == site.read_text()

    assert [site] == [path for path in installed.rglob("*") if path.is_file()]


def test_a_site_cfg_that_an_earlier_release_kept_beside_the_program_stays_in_force(installed):
    """It was PREFIX/lib/iostats/site.cfg; what is in /etc/iostats goes before that."""
    (installed / "etc/iostats/site.cfg").unlink()
    (installed / "usr/local/lib/iostats/site.cfg").write_text("[report]\nunits = decimal\n")
    done = subprocess.run(["make", "-s", f"DESTDIR={installed}", "install-reader"], cwd=REPOSITORY,
                          check=True, capture_output=True, text=True)
    assert f"site.cfg: now {installed}/etc/iostats/site.cfg" in done.stdout
    assert "[report]\nunits = decimal\n" == (installed / "etc/iostats/site.cfg").read_text()


def test_the_units_are_what_systemd_understands(installed):
    """`systemd-analyze verify`: no unknown option, no missing program."""
    units = sorted((installed / "etc/systemd/system").iterdir())
    copy = installed / "verify"                   # its program has to be where it says
    copy.mkdir()
    for unit in units:
        (copy / unit.name).write_text(unit.read_text().replace("/usr/local",
                                                               f"{installed}/usr/local"))
    done = subprocess.run([tool("systemd-analyze"), "verify", *sorted(copy.iterdir())],
                          capture_output=True, text=True)

    assert ["iostats-reader.socket", SERVICE] == [unit.name for unit in units]
    assert ("", 0) == (done.stdout + done.stderr, done.returncode)


def test_the_reader_is_exposed_no_more_than_it_was(installed):
    """`systemd-analyze security` says 0.8 (10 is the worst); the threshold is in tenths."""
    done = subprocess.run([tool("systemd-analyze"), "security", "--offline=yes", "--threshold=10",
                           installed / "etc/systemd/system" / SERVICE],
                          capture_output=True, text=True)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "CAP_DAC_READ_SEARCH" == options_of(
        installed / "etc/systemd/system" / SERVICE)["CapabilityBoundingSet"][0]


def allowed_system_calls(filters):
    """Names that the unit's SystemCallFilter lines allow, written out by systemd itself."""
    groups, allowed = {}, set()
    text = subprocess.run([tool("systemd-analyze"), "syscall-filter"], capture_output=True,
                          text=True, check=True).stdout
    for line in text.splitlines():
        if line.startswith("@"):
            groups[line.strip()] = current = set()
        elif line.startswith("    ") and not line.strip().startswith("#"):
            current.add(line.strip())

    def written_out(name):
        return set().union(*map(written_out, groups[name])) if name.startswith("@") else {name}
    for line in filters:
        names = set().union(*map(written_out, line.lstrip("~").split()))
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed


@pytest.mark.strace
def test_the_reader_makes_no_system_call_that_its_unit_forbids(installed, tmp_path):
    """What it did under strace, against systemd's own lists."""
    root, log = write_tree(tmp_path / "node", **BEFORE), tmp_path / "strace.log"
    subprocess.run([tool("strace"), "-f", "-qq", "-o", log, sys.executable, "-I", "-S",
                    installed / "usr/local/lib/iostats/iostats_client.py", "show", "--json",
                    "--root", root], check=True, capture_output=True,
                   env={"IOSTATS_NODE_READER": ""})
    made = {line.split("(")[0].split()[-1] for line in log.read_text().splitlines()
            if "(" in line and not line.split()[1].startswith(("<", "+", "-"))}
    options = options_of(installed / "etc/systemd/system" / SERVICE)

    assert {"openat", "write"} <= made
    assert set() == made - allowed_system_calls(options["SystemCallFilter"])
