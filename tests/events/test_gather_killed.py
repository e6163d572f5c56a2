"""
A process that gathers, and is killed by SIGKILL at any moment: nothing is lost, nothing doubled.
"""
from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from kernel_lines import LOST, RESTORED, failed_lock, lock, record, silent
from processes import REPOSITORY

from iostats.base.config import Config
from iostats.events.event import from_json, merge_copies
from iostats.events.gather import Gathering

# What it finds is on the disk before told(), as an agent does it.
GATHER = """
import json, os, sys, time
from iostats.base.config import Config
from iostats.events.event import as_json
from iostats.events.gather import Gathering
root = sys.argv[1]
one = Gathering(root, Config(), "oss1", "a-boot", root + "/state", ("server",))
out = os.open(root + "/told", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
while True:
    events = one.scan().events
    os.write(out, "".join(json.dumps(as_json(event)) + "\\n" for event in events).encode())
    one.acknowledge()
    if os.path.exists(root + "/done") and not events:
        break
"""
TEXTS = ([silent(f"10.9.0.{number}@o2ib2") for number in range(20)]
         + [failed_lock(f"10.9.1.{number}@o2ib2") for number in range(5)]
         + [lock(f"10.9.1.{number}@o2ib2") for number in range(5)] + [LOST, RESTORED]
         + ["Skipped 23 previous similar messages"])


def history(chosen):
    """[record]: 1,500 lines in ten minutes, some at once, some apart."""
    seconds, found = 700.0, []
    for number in range(1500):
        seconds += chosen.choice([0, 0, 0.001, 0.3, 1.2])
        found.append(record(seconds, chosen.choice(TEXTS), number=23 + number))
    return found


@pytest.mark.parametrize("seed", [23, 37, 41])
def test_a_gathering_that_is_killed_again_and_again(tmp_path, seed):
    chosen = random.Random(seed)
    lines = history(chosen)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"".join(lines))
    whole = Gathering(str(tmp_path), Config(), "oss1", "a-boot", roles=("server",))
    expected = {one.id: one for one in whole.scan().events}
    (tmp_path / "dev/kmsg").write_bytes(b"")

    def started():
        return subprocess.Popen([sys.executable, "-c", GATHER, str(tmp_path)],
                                env={**os.environ, "PYTHONPATH": REPOSITORY})
    running, kills, sent = started(), 0, 0
    try:
        while sent < len(lines):
            part = chosen.randrange(1, 60)
            with open(tmp_path / "dev/kmsg", "ab") as file:
                file.write(b"".join(lines[sent:sent + part]))
            sent += part
            time.sleep(chosen.random() * 0.15)
            if chosen.random() < 0.5:
                running.send_signal(signal.SIGKILL)
                assert -9 == running.wait(100)
                kills += 1
                running = started()
        (tmp_path / "done").write_text("")
        assert 0 == running.wait(100)
    finally:
        running.kill()
        running.wait()
    told = {}
    for line in (tmp_path / "told").read_text().splitlines():
        one = from_json(json.loads(line))
        told[one.id] = merge_copies(told[one.id], one) if one.id in told else one
    assert kills >= 5
    assert {key: (one.kind, one.target, one.count, one.skipped) for key, one in expected.items()} \
        == {key: (one.kind, one.target, one.count, one.skipped) for key, one in told.items()}
