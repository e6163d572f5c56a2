"""The tests themselves, as a CI system starts them."""

import os
import subprocess
import sys

import pytest
from no_process import no_process
from trees import ROOT


def test_they_pass_where_signals_are_ignored():
    """`nohup make test &`, and CI systems that start their jobs in the background."""
    chosen = "tests/run/test_run.py::test_every_signal_that_we_get_is_the_commands"

    done = subprocess.run(["sh", "-c", 'trap "" HUP INT QUIT TERM USR1 USR2; exec "$@"', "sh",
                           sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen],
                          cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize("start", [
    lambda: subprocess.run(["true"]), lambda: subprocess.check_output("true", shell=True),
    lambda: os.fork(), lambda: os.system("true"),
    lambda: os.posix_spawn("/bin/true", ["true"], {})],
    ids=["run", "check_output", "fork", "system", "posix_spawn"])
def test_a_test_of_a_pure_module_that_starts_a_process_fails(start):
    """`make quick` is to stay quick: such tests belong into another file."""
    with no_process(), pytest.raises(AssertionError, match="starts no process"):
        start()
