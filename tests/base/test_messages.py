"""Messages on standard error: one line in a pipe, lines of its width on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from processes import REPOSITORY

from iostats.base.messages import format_message

TEXT = ("/var/lib/iostats/site.sqlite: cannot be written: database or disk is full; make room "
        "there, or name another in site.cfg")


@pytest.fixture
def terminal():
    """(descriptor of a terminal of 41 columns, what was written to it)."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 23, 41, 0, 0))
    yield its, lambda: os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    os.close(its)


def test_a_message_is_broken_at_blanks_on_a_terminal(terminal):
    descriptor, _ = terminal
    text = format_message(TEXT, descriptor)
    lines = text.splitlines()
    assert "iostats: /var/lib/iostats/site.sqlite:" == lines[0] and len(lines) > 2
    assert {" "} == {line[0] for line in lines[1:]} and max(map(len, lines)) <= 41
    assert f"iostats: {TEXT}" == " ".join(text.split())
    assert "iostats: short\n" == format_message("short", descriptor)


def test_a_message_is_one_line_in_a_pipe():
    """However long: what reads a log takes a line for a message."""
    reading, writing = os.pipe()
    try:
        assert f"iostats: {TEXT}\n" == format_message(TEXT, writing)
        assert "iostats: a\\x0ab\n" == format_message("a\nb", writing)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("command", [
    ["-m", "iostats", "report", "/nowhere/a-record-that-does-not-exist-anywhere.json"],
    ["iostats_client.py", "show", "--root", "/nowhere/a-tree-that-does-not-exist-anywhere"],
    ["iostats_server.py", "--nodes", "nid[1-", "--job", "4711"],
    ["-m", "iostats", "run", "--nodes", "nid[1-", "true"],
    ["-m", "iostats", "jobs", "--format", "a-column-that-does-not-exist-anywhere"],
], ids=lambda command: " ".join(command[:3]))
def test_each_command_breaks_its_messages_at_the_terminals_width(command, terminal):
    descriptor, written = terminal
    done = subprocess.run([sys.executable, *command], cwd=REPOSITORY, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=descriptor, timeout=100)
    assert done.returncode
    lines = written().splitlines()
    assert lines[0].startswith("iostats:") and lines[1:]
    assert max(map(len, lines)) <= 41, lines
