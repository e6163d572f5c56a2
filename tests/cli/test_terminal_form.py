"""
What a report can be on a terminal, by a real one (pty) and its environment; and in a file.
"""
from __future__ import annotations

import fcntl
import io
import os
import struct
import subprocess
import sys
import termios

import pytest
from processes import REPOSITORY

from iostats.cli.terminal_form import detect_screen

UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


@pytest.fixture
def terminal():
    """A stream on a terminal of 120 columns."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 37, 120, 0, 0))
    with open(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


@pytest.fixture
def in_environment(monkeypatch):
    def put(**variables):
        for name in ("LC_ALL", "LC_CTYPE", "LANG", "TERM", "COLUMNS", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    return put


@pytest.mark.parametrize("environment, is_ascii, has_colours, width", [
    (UTF8, False, True, 120),
    ({"LANG": "en_GB.utf8", "TERM": "xterm"}, False, True, 120),
    ({**UTF8, "LC_ALL": "C"}, True, True, 120),
    ({"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX", "TERM": "xterm"}, True, True, 120),
    ({"LANG": "de_DE@euro", "TERM": "xterm"}, True, True, 120),
    ({"TERM": "xterm"}, True, True, 120),
    ({**UTF8, "TERM": "linux"}, True, True, 120),
    ({**UTF8, "TERM": "dumb"}, True, False, 120),
    ({**UTF8, "NO_COLOR": "1"}, False, False, 120),
    ({**UTF8, "COLUMNS": "61"}, False, True, 61),
    ({**UTF8, "COLUMNS": "wide"}, False, True, 120),
    ({**UTF8, "COLUMNS": "0"}, False, True, 120),
], ids=str)
def test_a_terminal(terminal, in_environment, environment, is_ascii, has_colours, width):
    in_environment(**environment)
    found = detect_screen(terminal)
    assert (is_ascii, has_colours, width) == (
        found.is_ascii, found.paint is not None, found.width)
    if has_colours:
        assert found.paint("heading", "Transfers") == "\x1b[1mTransfers\x1b[0m"


def test_a_terminal_of_no_width_is_taken_for_80(terminal, in_environment):
    in_environment(**UTF8)
    fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    assert 80 == detect_screen(terminal).width


@pytest.mark.parametrize("encoding, locale, is_ascii", [
    ("utf-8", "C.UTF-8", False), ("utf-8", "C", True), ("iso8859-1", "C.UTF-8", True)])
def test_a_pipe_is_a_log(in_environment, encoding, locale, is_ascii):
    """Plain, in 80 columns, whatever TERM says."""
    in_environment(TERM="xterm", LC_ALL=locale)
    found = detect_screen(io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert (80, is_ascii, None, "grid") == found
    in_environment(TERM="xterm", LC_ALL=locale, COLUMNS="132")
    assert 132 == detect_screen(io.TextIOWrapper(io.BytesIO(), encoding=encoding)).width


def test_a_file_is_plain(in_environment):
    """A job's server writes UTF-8 to it; what COLUMNS is in a job's environment is no matter."""
    in_environment(**UTF8, COLUMNS="132")
    assert (80, False, None, "grid") == detect_screen(None)
    in_environment()
    assert (80, True, None, "grid") == detect_screen(None)


def test_rich_is_imported_for_terminals_alone():
    code = ("import sys; from iostats.cli.terminal_form import detect_screen; "
            "detect_screen(sys.stdout); "
            "print([name for name in sys.modules if name.partition('.')[0] == 'rich'])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**UTF8, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY)})
    assert ("[]\n", "") == (done.stdout, done.stderr)
