"""
What several test files share: where the samples are, a whole way from tree to record, and the
rule that nothing is skipped in silence.

Real files of real Lustre systems lie beside the checkout, in ../shared; they are not copied into
the project.  Where the directory is missing those tests are skipped with a reason; with
IOSTATS_NO_SKIPS=1 (as in .ci/run) every skipped test fails the run.
"""

import os
import pathlib
import re
import signal
import sys
import time

import pytest
from cluster import slurm, slurm_cluster  # noqa: F401
from gridengine import gridengine, gridengine_cluster  # noqa: F401
from hypothesis import HealthCheck, settings

from iostats.base import config
from iostats.node import identity, sources
from iostats.totals import delta
from iostats.totals.job_totals import Report, Totals

# Some tests have something for those of other rooms.
sys.path += sorted({str(path.parent) for path in pathlib.Path(__file__).parent.glob("*/test_*.py")})
ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
_SHARED = ROOT.parent / "shared"
_NOT_THERE = "no real samples: there is no directory shared/ beside the checkout"
_skipped = []

# A loaded machine is no failure.  In CI the random cases are the same ones each time: what a new
# one finds is for who runs the tests at a desk, not for who has just changed something else.
settings.register_profile("iostats", deadline=None, derandomize=bool(os.environ.get("CI")),
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("iostats")

# `nohup`, a shell's `&` and some CI systems start a command with signals ignored, and programs that
# are started here would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
                signal.SIGUSR2):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT
                      else signal.SIG_DFL)
os.umask(0o022)                    # other users may read what is not said to be private


def samples(directory, pattern):
    """
    [pytest.param] of the paths below shared/`directory` that match the glob `pattern`, each with
    its path from there as id; a single skipped one where the directory is not there.
    """
    top = _SHARED / directory
    if not top.is_dir():
        return [pytest.param(None, id="none", marks=pytest.mark.skip(reason=_NOT_THERE))]
    return [pytest.param(path, id=str(path.relative_to(top))) for path in sorted(top.glob(pattern))]


def shared(*parts):
    """The path shared/PARTS; the test is skipped where there is no shared/ beside the checkout."""
    if not _SHARED.is_dir():
        pytest.skip(_NOT_THERE)
    return _SHARED.joinpath(*parts)


def snapshot(tree):
    """The Snapshot of the node whose proc/ and sys/ lie below `tree`."""
    return identity.snapshot(str(tree), config.Config(), sources.of_side("node"), "4711", "node001",
                             "seq")


def report(node="node001", deltas=(), **fields):
    """A node's report as aggregate.Totals takes it; a minute long unless `fields` say more."""
    return Report(**{**dict(
        node=node, seq=f"seq of {node}", boot_id=f"boot of {node}", user="alice", reason="",
        ended=1_795_225_060.0, elapsed_s=60.0, clock_ahead_s=0.0, mounts={},
        deltas=list(deltas)), **fields})


def record_between(before, after):
    """The record of a one-node job between the trees `before` and `after`."""
    totals = Totals("4711", 1)
    totals.add(report(deltas=delta.between(snapshot(before), snapshot(after),
                                           sources.of_side("node"))))
    return totals.record()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """
    Whatever process is free runs the next test; those of one real cluster or machine, which take
    seconds to start, all run in one process, and first.  (pytest-xdist's own groups have no effect
    with pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByMachine(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            found = re.search(r"/test_(slurm|gridengine|systemd)", nodeid)
            return found[1] if found else nodeid

    return ByMachine(config, log)


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report):
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session):
    if _skipped and os.environ.get("IOSTATS_NO_SKIPS") == "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if _skipped and os.environ.get("IOSTATS_NO_SKIPS") == "1":
        terminalreporter.section("skipped, which IOSTATS_NO_SKIPS=1 makes a failure", red=True)
        for nodeid in _skipped:
            terminalreporter.line(nodeid)


@pytest.fixture
def utc(monkeypatch):
    """Local times are those of UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
