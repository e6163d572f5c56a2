"""Each campaign that fails prints its seed, and the command that repeats it."""
import pytest
from campaign import SEED, WHOLE


def pytest_report_header():
    return f"chaos: seed {SEED}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        command = f"make chaos SEED={SEED} TARGETS='{item.nodeid}'" if WHOLE else (
            f"IOSTATS_CHAOS_SEED={SEED} python -m pytest '{item.nodeid}'")
        report.sections.append(("repeat it", command))
