"""The tests themselves, as a CI system starts them."""

import subprocess
import sys

from trees import ROOT


def test_they_pass_where_signals_are_ignored():
    """`nohup make test &`, and CI systems that start their jobs in the background."""
    chosen = "tests/run/test_run.py::test_every_signal_that_we_get_is_the_commands"

    done = subprocess.run(["sh", "-c", 'trap "" HUP INT QUIT TERM USR1 USR2; exec "$@"', "sh",
                           sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen],
                          cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert 0 == done.returncode, done.stdout
