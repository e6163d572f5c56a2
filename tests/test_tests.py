"""The tests themselves, as a CI system starts them."""

import os
import subprocess
import sys

import pytest
import pythons
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


@pytest.mark.parametrize("releases, wanted, left_out", [
    ([(3, 9, 18), (3, 10, 13), (3, 11, 7), (3, 13, 0)], [(3, 9, 18), (3, 13, 0)], []),
    ([(3, 9, 2), (3, 9, 18), (3, 11, 7)], [(3, 9, 18)],
     ["Python 3.11.7: `make test` runs with it"]),
    ([(3, 11, 7), (3, 12, 1)], [(3, 12, 1)],
     ["Python 3.9: there is none on PATH or among pyenv's versions"]),
    ([], [], ["Python 3.9: there is none on PATH or among pyenv's versions"]),
], ids=["both", "this one is the newest", "no 3.9", "none"])
def test_the_oldest_and_the_newest_python_are_chosen_and_the_rest_has_a_reason(
        releases, wanted, left_out):
    """`make pythons`; the tests of all of them are run with this one anyway."""
    found, reasons = pythons.chosen({one: str(one) for one in releases}, own=(3, 11, 7))
    assert (wanted, left_out) == ([release for release, _ in found], reasons)
