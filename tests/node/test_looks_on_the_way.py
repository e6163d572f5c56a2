"""
Who runs anyway looks how the node stands with its targets: `watch`, and the process of `iostats
run` that waits for the command's end.
"""
from __future__ import annotations

import subprocess
import sys
import time

import pytest
from processes import CLIENT
from test_rates import LLITE_ONLY, Day

from iostats.node import rates

WAITS = """\
import sys
sys.path.insert(0, sys.argv[1])
from iostats.node import wait_for_end
wait_for_end._FIRST_CHECK_S = 0.05
looks = []
def scan():
    looks.append(1)
    print(len(looks), flush=True)
    {then}
wait_for_end.listen()
why = ""
try:
    wait_for_end.wait_for_end(0.2, check=wait_for_end.guard_failure(lambda: scan))
except wait_for_end.EndNotSeen as reason:
    why = str(reason)
print(repr(why), flush=True)
"""


def test_watch_looks_as_often_as_it_is_told_to(tmp_path, monkeypatch):
    """Twice 15 s after the last one, while a target is away; then each minute."""
    day = Day(tmp_path, monkeypatch, until_s=200.0)
    began, looked = day.now_s, []

    def scan():
        looked.append(day.now_s - began)
        return 15.0 if len(looked) < 3 else 60.0
    rates.run(day.kept, "seq", day.take, LLITE_ONLY, 600, lambda: day.now_s, day.sleep, scan)
    assert [0, 15, 30, 90, 150] == looked


def test_a_clock_that_is_set_back_delays_no_look(tmp_path, monkeypatch):
    day = Day(tmp_path, monkeypatch, until_s=-1000.0)
    began, looked = day.now_s, []

    def scan():
        looked.append(day.now_s - began)
        if len(looked) == 2:
            day.now_s -= 3600
        if len(looked) == 4:
            day.kept.delete_start()
        return 15.0
    day.until_s = day.now_s + 10_000
    rates.run(day.kept, "seq", day.take, LLITE_ONLY, 600, lambda: day.now_s, day.sleep, scan)
    # It is noticed a second later.
    assert [0, 15, 15 - 3600 + 1 + 15, 15 - 3600 + 1 + 30] == looked


@pytest.mark.parametrize("then, looks", [("return 0.05", 3), ("raise ValueError(23)", 1)])
def test_the_process_of_a_run_looks_until_its_command_ends(then, looks):
    """A look that fails is the last one, and no trouble."""
    with subprocess.Popen([sys.executable, "-c", WAITS.format(then=then), str(CLIENT.parent)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        seen = [process.stdout.readline().strip() for _ in range(looks)]
        if looks == 1:
            time.sleep(0.3)
        process.stdin.close()
        rest = process.stdout.read().split()
    assert [str(number) for number in range(1, looks + 1)] == seen
    assert (0, "''") == (process.returncode, rest[-1])
    assert looks == 3 or ["''"] == rest
