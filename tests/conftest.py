"""
What holds for all tests: nothing is skipped unseen, signals and file modes are those of a login
shell, and the tests of one real cluster run in one process.

With IOSTATS_NO_SKIPS=1 (as in .ci/run) every skipped test fails the run, but those marked
ldms, for which nothing is packaged.  Tests import nothing from here, since a room's directory may
have a conftest.py of its own.
"""

import asyncio
import os
import pathlib
import re
import signal
import sys
import time

import examples
import pytest
from browser_desk import _browser_of_module, browser  # noqa: F401
from cluster import slurm, slurm_cluster  # noqa: F401
from etcd_desk import (  # noqa: F401
    _etcd_of_session,
    _three_of_session,
    etcd,
    etcd_three,
)
from fixtures import (  # noqa: F401
    desk,
    inside,
    loop,
    machine,
    of_all,
    postgresql,
    site,
    sqlite_store,
    store,
    store_address,
    store_path,
    worked,
)
from gridengine import gridengine, gridengine_cluster  # noqa: F401
from no_process import no_process

# Some tests have something for those of other rooms.
sys.path += sorted({str(path.parent) for path in pathlib.Path(__file__).parent.glob("*/test_*.py")})
sys.path.append(str(pathlib.Path(__file__).parent.parent / "tools"))
import rooms

# Local times are the same on every machine.
os.environ["TZ"] = "UTC"
time.tzset()

_PURE_TESTS = set(rooms.tests_of_pure())
_skipped = []

examples.load_profile()


@pytest.fixture(autouse=True)
def stores_inside_are_closed():
    yield
    if "harvest_inside" in sys.modules:
        sys.modules["harvest_inside"].close_all()


# `nohup`, a shell's `&` and some CI systems start a command with signals ignored, and programs that
# are started here would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
                signal.SIGUSR2):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT
                      else signal.SIG_DFL)
os.umask(0o022)                    # other users may read what is not made private


@pytest.fixture(autouse=True, scope="module")
def pure_tests_start_no_process(request):
    """The tests of pure modules need values alone, so that `make quick` is quick."""
    if request.path not in _PURE_TESTS:
        yield
        return
    with no_process():
        yield


if sys.version_info < (3, 10):
    _LOOP = asyncio.new_event_loop()

    @pytest.fixture(autouse=True)
    def a_loop_for_events():
        """Python 3.9 makes no asyncio.Event without a loop, and asyncio.run() leaves none."""
        asyncio.set_event_loop(_LOOP)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """
    Whatever process is free runs the next test.  Those of one real cluster or machine, which take
    seconds to start, all run in one process, and first; so do those of a file that share something
    of the module, which each process would make anew.  (pytest-xdist's own groups have no effect
    with pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling
    tests = pathlib.Path(__file__).parent
    shares = {path.relative_to(tests.parent).as_posix() for path in tests.rglob("test_*.py")
              if re.search(r'scope="module"|[(, ]browser[,)]', path.read_text(encoding="utf-8"))}

    class ByMachine(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            found = re.search(r"/test_(slurm|gridengine|systemd)", nodeid)
            path = nodeid.partition("::")[0]
            return found[1] if found else path if path in shares else nodeid

    return ByMachine(config, log)


def pytest_sessionstart():
    examples.prepare_search()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A test that fails in a search prints the command that repeats it."""
    outcome = yield
    report, seed = outcome.get_result(), item.config.getoption("--hypothesis-seed")
    if report.failed and examples.is_search() and item.get_closest_marker("hypothesis"):
        report.sections.append(("repeat it", examples.repeat_command(item.nodeid, seed)))


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail") and "ldms" not in report.keywords:
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
