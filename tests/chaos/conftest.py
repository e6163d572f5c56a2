"""Each campaign that fails prints its seed, and the command that repeats it."""
import shlex
import sys

import pytest
from campaign import SEED, WHOLE


def pytest_report_header():
    return f"chaos: seed {SEED}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("repeat it", (
            f"IOSTATS_CHAOS={WHOLE:d} IOSTATS_CHAOS_SEED={SEED} {shlex.quote(sys.executable)} "
            f"-m pytest -s {shlex.quote(item.nodeid)}")))
