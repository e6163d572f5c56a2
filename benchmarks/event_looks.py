"""
Figure: a look at the files of a storage server for events: the agent, against open, read and close.

Targets of up to 100 file systems on one machine, in the form of 2.17: recovery_status,
eviction_count, num_exports, instance and job_stats of each.  Two processes take turns: the agent's
gathering with all that a look is (reading, comparing, joining, the state written to the disk), and
a bare interpreter that opens, reads and closes the same files and does nothing with them.

    event_looks.py agent ROOT    a look for each line of its input: its CPU, and its peak memory
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_PLACES = {"recovery_status": "sys/kernel/debug/lustre", "eviction_count": "sys/fs/lustre",
           "num_exports": "sys/fs/lustre", "instance": "sys/fs/lustre"}
_BARE = """
import os, sys, time
paths = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names]
for _ in sys.stdin:
    began = time.process_time()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.read(file, 4096)
        os.close(file)
    print(time.process_time() - began, 0, flush=True)
"""


def run(quick):
    """The Table of this figure."""
    from measure import BARE_PYTHON, Table, environment
    rows = []
    for targets in (12, 1000) if quick else (12, 1000, 10_000, 100_000):
        rounds = 2 if quick else 5
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="iostats-bench-", dir=where) as directory:
            counts = _tree(directory, targets)
            ways = [subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True) for arguments in (
                [*BARE_PYTHON, os.path.abspath(__file__), "agent", directory],
                [*BARE_PYTHON, "-c", _BARE, os.path.join(directory, "sys")])]
            try:
                took = [_turn(ways)]
                for number in range(rounds):
                    for path in counts[:max(1, targets // 1000)]:
                        with open(path, "w") as file:
                            file.write(f"{number + 1}\n")
                    took.append(_turn(ways))
            finally:
                for way in ways:
                    way.stdin.close()
                    way.wait()
        mine, bare = (statistics.median(one[way][0] for one in took[1:]) for way in (0, 1))
        rows.append((f"{targets:,} targets", f"{mine:.4f}", f"{bare:.4f}", f"{mine / bare:.1f}",
                     f"{mine / targets * 1e6:.0f}", f"{max(one[0][1] for one in took):.0f}"))
    return [Table("events: a look at the files of one storage server",
                  ["", "agent, CPU s", "open, read, close", "ratio", "us a target", "agent, MiB"],
                  rows, ["a look is due every 10 s, and takes up to [harvest] cpu_percent of a "
                         "core: one that costs more is made less often"])]


def _tree(root, targets):
    """Paths of the eviction counts of a storage server that has `targets`."""
    counts = []
    for number in range(targets):
        name = f"fs{number % 100:02d}-OST{number // 100:04x}"
        for file, place in _PLACES.items():
            directory = os.path.join(root, place, "obdfilter", name)
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, file)
            with open(path, "w") as out:
                out.write("status: INACTIVE\n" if file == "recovery_status" else "0\n")
            if file == "eviction_count":
                counts.append(path)
    with open(os.path.join(root, "sys/fs/lustre/health_check"), "w") as out:
        out.write("healthy\n")
    return counts


def _turn(ways):
    """[(CPU seconds, MiB)] of each way."""
    from measure import BenchmarkError
    found = []
    for way in ways:
        way.stdin.write("go\n")
        way.stdin.flush()
        line = way.stdout.readline().split()
        if len(line) != 2:
            raise BenchmarkError("a look failed")
        found.append((float(line[0]), float(line[1])))
    return found


def _agent(root):
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.base import config as site_config
    from iostats.events.gather import Gathering
    config = site_config.load(os.devnull, environ={})
    gathering = Gathering(root, config, "oss1", "b" * 32, os.path.join(root, "state"), ("server",))
    for _ in sys.stdin:
        began = time.process_time()
        more = True
        while more:
            more = gathering.look().more
            gathering.told()
        took = time.process_time() - began
        with open("/proc/self/status") as file:
            peak = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
        print(took, peak, flush=True)


if __name__ == "__main__" and sys.argv[1:2] == ["agent"]:
    _agent(sys.argv[2])
