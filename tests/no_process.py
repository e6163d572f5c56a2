"""
A place in which no process can be started: the tests of pure modules run in it.
"""

import contextlib
import os
import subprocess

import pytest


def _refuse(*arguments, **how):
    raise AssertionError("a test of a pure module starts no process (tools/rooms.py tests)")


@contextlib.contextmanager
def no_process():
    """Whatever starts a process in here is an AssertionError."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", _refuse)
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
            patch.setattr(os, name, _refuse)
        yield
