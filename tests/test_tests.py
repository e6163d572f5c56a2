"""The tests themselves, as a CI system starts them."""

import ast
import os
import re
import shlex
import subprocess
import sys

import processes
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


def test_random_cases_are_the_same_in_each_run(tmp_path):
    """In CI or not, whatever else is loaded; only a search (`make fuzz`) has others."""
    found = []
    for words, environ in ([], {}), (["-p", "iostats.report.why.causes"], {"CI": "1"}):
        file = tmp_path / f"drawn-{len(found)}"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words,
             "tests/fuzz/planted.py::test_what_is_drawn"], cwd=ROOT, capture_output=True, text=True,
            env={**{name: value for name, value in os.environ.items() if name != "CI"}, **environ,
                 "IOSTATS_EXAMPLES": "230", "IOSTATS_DRAWN": str(file)})
        assert 0 == done.returncode, done.stdout
        found.append(file.read_text())
    assert 230 <= len(found[0].splitlines())
    assert found[0] == found[1]


def test_a_campaign_of_chaos_that_fails_prints_how_to_repeat_it():
    """Each `make chaos` has a fresh seed."""
    def run(command):
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "IOSTATS_CHAOS_SEED": ""})
        return (re.findall(r"(?m)^IOSTATS_CHAOS=1 IOSTATS_CHAOS_SEED=.*", done.stdout),
                re.findall(r"AssertionError: (chosen \d+)", done.stdout))
    whole = f"IOSTATS_CHAOS=1 {shlex.quote(sys.executable)} -m pytest tests/chaos/planted.py"
    first, other = run(whole), run(whole)
    assert first[0] != other[0] and first[1] != other[1]
    assert other == run(*other[0])


# What is random by intent.
RANDOM = {
    "tests/processes.py": "ports and jobs that no other run of the tests on this machine has",
    "tests/etcd_desk.py": "keys of this run, in an etcd that several runs may share",
    "tests/events/test_dev_kmsg.py": "a mark in the kernel's log, which all of the machine shares",
    "tests/test_systemd.py": "a key of MUNGE",
    "tests/site_inside.py": "nonces",
    "tests/site/test_receive.py": "nonces",
    "tests/wire/test_munge.py": "nonces",
    "tests/wire/test_munge_threads.py": "nonces",
    "tests/fuzz/long.py": "the seed of a search, which prints it",
    "tests/chaos/campaign.py": "the seed of `make chaos`, which prints it",
}
_FRESH = {"os.urandom", "uuid.uuid4", "uuid.uuid1", "random.SystemRandom", "secrets.token_bytes",
          "secrets.token_hex", "numpy.random.seed", "random.seed"}


def _is_random(call):
    """Whether a call draws something else in each run."""
    name = ast.unparse(call.func)
    module, _, function = name.rpartition(".")
    if function in ("Random", "default_rng"):
        return not call.args
    return name in _FRESH or (module in ("random", "np.random", "numpy.random")
                              and function[0].islower())


def test_no_test_draws_from_an_unknown_seed():
    """A failure that chance alone brings is for `make fuzz` and `make chaos`."""
    found = {}
    for path in sorted(ROOT.glob("tests/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # `random` may be the parameter of a test that hypothesis gives.
        modules = {name.name for one in ast.walk(tree) if isinstance(one, ast.Import)
                   for name in one.names}
        lines = [one.lineno for one in ast.walk(tree) if isinstance(one, ast.Call)
                 and _is_random(one)
                 and not (ast.unparse(one.func).startswith("random.") and "random" not in modules)]
        if lines:
            found[path.relative_to(ROOT).as_posix()] = lines
    assert RANDOM.keys() == found.keys(), found


def test_hashes_of_texts_are_the_same_in_each_run_of_make():
    """The order of a set decides nothing by chance; a search has another order for each seed."""
    done = subprocess.run(["make", "-s", "--eval", "print: ; @echo $$PYTHONHASHSEED", "print"],
                          cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "MAKEFLAGS": "", "PYTHONHASHSEED": "41"})
    assert "23\n" == done.stdout, done.stderr


def test_forty_processes_of_tests_have_ports_of_their_own():
    """`make test` starts two for each core."""
    parts = [processes._own_part(processes._PARTS) for _ in range(40)]
    for _, holds in parts:
        holds.close()
    assert 40 == len({part for part, _ in parts})
