"""
`iostats top` live in a pseudo terminal, on a tree of a storage server that changes meanwhile.
"""
from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from exports_kernel import NS, ExportsKernel
from processes import REPOSITORY, Listener, until
from test_top import MDT, OST, tree


class Terminal:
    """`iostats top` in a pseudo terminal of some size."""

    def __init__(self, *arguments, columns=80, rows=16, program=None):
        self.master, slave = pty.openpty()
        self.output = b""
        self.size(columns, rows)
        self._slave = slave
        self.before = self.modes()
        command = [sys.executable, *(["-c", program] if program else ["-m", "iostats", "top"]),
                   *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env={
                "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TERM": "xterm",
                "TZ": "UTC"})

    def size(self, columns, rows):
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self):
        """How the terminal is set; what a shell would find after us."""
        return termios.tcgetattr(self._slave)

    def read(self):
        while select.select([self.master], [], [], 0.02)[0]:
            try:
                self.output += os.read(self.master, 65536)
            except OSError:
                break
        return self.output

    def screen(self):
        """[line] of what was drawn last and is here to its end; [] when nothing is."""
        for frame in reversed(self.read().split(b"\x1b[H")):
            text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame.decode(errors="replace"))
            lines = text.split("\r\n")
            if [self.columns] * self.rows == list(map(len, lines)):
                return [line.rstrip() for line in lines]
        return []

    def shows(self, words):
        """Wait for a screen that matches the expression; its lines."""
        return until(lambda: (lines := self.screen()) and re.search(
            words, "\n".join(lines), re.M) and lines, what=f"a screen with {words!r}")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """The exit status, when it has ended."""
        until(lambda: self.read() is None or self.process.poll() is not None, what="its end")
        self.read()
        return self.process.returncode

    def is_given_back(self):
        """As it was: modes, the cursor shown, the other screen left; it may come a moment later."""
        def as_before():
            output = self.read()
            return (self.before == self.modes()
                    and output.rfind(b"\x1b[?25h") > output.rfind(b"\x1b[?25l")
                    and output.rfind(b"\x1b[?1049l") > output.rfind(b"\x1b[?1049h"))
        return until(as_before, what="the terminal as it was")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def terminal(tmp_path):
    """A function that starts a live `top --local` on a tree that a call of `tree` changes."""
    started = []

    def start(*arguments, **how):
        tree(tmp_path, 1)
        one = Terminal("--local", "--root", tmp_path, "--every", "0.3", *arguments, **how)
        started.append(one)
        one.shows(r"^\(all\) +scratch")
        return one
    start.root = tmp_path
    yield start
    for one in started:
        one.close()


def test_keys_sort_group_filter_and_quit(terminal):
    live = terminal("--by", "target")
    live.shows("by target, written first")
    for key, words in (("m", "by target, metadata first"), ("r", "by target, read first"),
                       ("i", "by target, requests first"), ("o", "by target, open first"),
                       ("%", r"OPEN %"), ("%", r"OPEN/S"), ("l", "by target, latency first"),
                       ("l", "by target, written first"), ("o", "META/S +OSS/MDS"),
                       ("w", "by target, written first"),
                       ("s", "by storage server, written first"), ("F", "by file system"),
                       ("j", "by job"), ("t", "by target"), ("f", "written first, scratch"),
                       ("f", "written first, below")):
        live.press(key)
        live.shows(words)
    live.press("/mdt")
    live.shows("^rows with: mdt_")
    live.press("\r")
    lines = live.shows("with 'mdt'")
    assert ["MDT0000"] == [line.split()[0] for line in lines if line[:3] in ("MDT", "OST")]
    live.press("/ost\x1b")                         # not this one
    live.press("\x1b[A\x1bOP")                     # nor the keys up and F1
    live.press("w")
    assert "written first, with 'mdt'" in live.shows("q quit$")[0]
    live.press("/\x15\r")
    lines = live.shows("(?s)MDT0000.*OST0000")
    assert lines[-1] == ("w r i m sort  ocgaxdyl show  % share  j u n s t F L by  / find  f fs  "
                         "q quit")
    live.press("q")
    assert (0, True) == (live.end(), live.is_given_back())


def test_the_key_of_a_level_that_job_stats_cannot_tell_does_nothing(terminal):
    """Nothing on a storage server knows of users: the key does nothing."""
    live = terminal()
    live.press("u")
    live.press("m")
    assert "by job, metadata first" in live.shows("metadata first")[0]


def test_new_io_is_shown(terminal):
    """Round after round, until one of them falls between two looks."""
    live, rounds = terminal(), iter(range(2, 2000))

    def moved():
        tree(terminal.root, next(rounds))
        return any(re.match(r"4711 +scratch +\d*[1-9]", line) for line in live.screen())
    until(moved, what="a rate of job 4711")


@pytest.mark.parametrize("number, status", [
    (signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP,
                                                                 128 + signal.SIGHUP)])
def test_a_signal_gives_the_terminal_back(terminal, number, status):
    live = terminal()
    assert live.before != live.modes()
    live.process.send_signal(number)
    assert (status, True) == (live.end(), live.is_given_back())
    assert b"Traceback" not in live.output


def test_an_internal_error_gives_the_terminal_back_and_is_not_hidden(terminal):
    live = terminal(program="""
import sys
from iostats.load import table as loadtable
from iostats.cli import top
real, calls = loadtable.parts, []
def parts(answer, *rest):
    if answer["sort"] == "metadata":
        raise ZeroDivisionError("a bug")
    return real(answer, *rest)
loadtable.parts = parts
sys.exit(top.main())
""")
    live.press("m")
    assert (1, True) == (live.end(), live.is_given_back())
    assert b"ZeroDivisionError: a bug" in live.output


def test_targets_that_go_away_are_named_and_the_table_stays(terminal):
    """The last table stays; with the targets back it goes on."""
    live = terminal()
    for path in (OST, MDT):
        (terminal.root / path).unlink()
        (terminal.root / path).parent.rmdir()
    live.shows("no OST or MDT here")
    tree(terminal.root, 5)
    until(lambda: (lines := live.screen()) and "no OST" not in "\n".join(lines),
          what="the end of the message")
    live.press("q")
    assert (0, True) == (live.end(), live.is_given_back())


def test_a_server_that_never_answers_keeps_no_key_waiting(tmp_path):
    """It accepts, and says nothing: q works all the same, and gives the terminal back."""
    with Listener(0, None) as silent:
        (tmp_path / "site.secret").write_text("s" * 64)
        (tmp_path / "site.secret").chmod(0o600)
        (tmp_path / "site.cfg").write_text(
            f"[site]\nhost = 127.0.0.1\nport = {silent.port}\nsecret = {tmp_path}/site.secret\n")
        live = Terminal("--config", tmp_path / "site.cfg")
        try:
            live.shows("^reading")
            until(lambda: silent.met, what="a question")
            live.press("q")
            assert (0, True) == (live.end(), live.is_given_back())
        finally:
            live.close()


@pytest.mark.parametrize("columns, rows", [(20, 16), (20, 2), (5, 3), (1, 1), (300, 60)])
def test_any_size_of_terminal_will_do(terminal, columns, rows):
    """Also when it changes while we run."""
    live = terminal()
    live.size(columns, rows)
    live.process.send_signal(signal.SIGWINCH)
    live.press("m")
    until(live.screen, what=f"{rows} lines of {columns}")
    assert live.process.poll() is None
    live.press("q")
    assert (0, True) == (live.end(), live.is_given_back())


def test_stopped_by_ctrl_z_it_gives_the_terminal_back_until_it_goes_on(terminal):
    live = terminal()
    live.process.send_signal(signal.SIGTSTP)
    status = pathlib.Path(f"/proc/{live.process.pid}/stat")
    until(lambda: live.read() and status.read_text().rpartition(")")[2].split()[0] == "T",
          what="the stop")
    live.read()
    assert live.is_given_back()
    live.process.send_signal(signal.SIGCONT)
    until(lambda: live.read() and live.before != live.modes(), what="going on")
    live.press("q")
    assert (0, True) == (live.end(), live.is_given_back())


def test_by_node_a_note_is_there_however_many_rows_there_are(terminal):
    """Eight clients write; that the MDT cannot be read is in the lines above the keys."""
    kernel = ExportsKernel("2.17", "OST", time.time_ns() - 60 * NS)
    nids = [f"10.0.0.{number}@tcp" for number in range(1, 9)]
    for nid in nids:
        kernel.mount(time.time_ns() - 50 * NS, nid, nid)
    kernel.save(time.time_ns(), terminal.root)
    live = terminal("--by", "node", rows=11, columns=400)

    def is_shown():
        for nid in nids:
            kernel.write(time.time_ns(), nid, 1 << 20, 23)
        kernel.save(time.time_ns(), terminal.root)
        return any("more rows)" in line for line in live.screen())
    until(is_shown, what="more rows than lines")
    lines = live.screen()
    assert lines[1].startswith("NODE") and lines[2].startswith("(all)")
    assert any(re.match(r"note: scratch: MDT0000: cannot be read: .*exports", line)
               for line in lines[-4:])
    live.press("q")
    assert 0 == live.end()
