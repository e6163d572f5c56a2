"""
Figure 2: one node with 2,000 OSC directories, against reading the same files and nothing else.

The peers are a loop of open, read and close in a bare interpreter, and cat(1).  Whole processes,
so that an interpreter's start is in all of them but cat's.
"""

import os
import shutil
import statistics
import sys
import tempfile

import tree
from measure import BARE_PYTHON, CLIENT, SERVER, Server, Table, cost_of, free_port, median_ratio

_READ_ALL = """\
import os, sys
for path in open(sys.argv[1]).read().split("\\n"):
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    while os.read(handle, 65536):
        pass
    os.close(handle)
"""


def run(quick):
    """The Table of this figure."""
    oscs = 200 if quick else 2000
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        before, after = os.path.join(directory, "before"), os.path.join(directory, "after")
        for root, work in ((before, 23), (after, 37)):
            tree.make(root, {"scratch": oscs}, work)
        paths = tree.counter_files(before)
        listed = os.path.join(directory, "paths")
        with open(listed, "w", encoding="utf-8") as file:
            file.write("\n".join(paths))
        port, secret = free_port(), os.path.join(directory, "secret")
        with Server([sys.executable, SERVER, "--job", "4711", "--nodes", "90000", "--quiet",
                     "--deadline", "3600", "--secret", secret, "--listen", f"127.0.0.1:{port}"],
                    port):
            costs = _costs(directory, listed, port, rounds=2 if quick else 7)
    return [_table(costs, oscs, len(paths))]


def _costs(directory, listed, port, rounds):
    """name -> [Cost], one a round; the first round is left out."""
    costs = {}
    for number in range(rounds + 1):
        ours = ["--job", "4711", "--quiet", "--node", f"node{number}", "--state-dir",
                os.path.join(directory, "state")]
        commands = {
            "open, read, close": [*BARE_PYTHON, "-c", _READ_ALL, listed],
            "cat": [shutil.which("xargs"), "-a", listed, "cat"],
            "start": [*BARE_PYTHON, CLIENT, "start", *ours, "--root",
                      os.path.join(directory, "before")],
            "stop": [*BARE_PYTHON, CLIENT, "stop", *ours, "--root",
                     os.path.join(directory, "after"), "--server", f"127.0.0.1:{port}",
                     "--secret", os.path.join(directory, "secret")],
        }
        for name, command in commands.items():
            cost = cost_of(command)
            if number:
                costs.setdefault(name, []).append(cost)
    return costs


def _table(costs, oscs, files):
    peer = costs["open, read, close"]
    rows = []
    for name, ours in costs.items():
        wall_s, cpu_s = [one.wall_s for one in ours], [one.cpu_s for one in ours]
        rows.append([name, f"{statistics.median(wall_s) * 1e3:.0f}",
                     f"{statistics.median(wall_s) / files * 1e6:.0f}",
                     f"{statistics.median(cpu_s) / files * 1e6:.0f}",
                     f"{median_ratio(wall_s, [one.wall_s for one in peer]):.2f}"])
    return Table(f"wide: one node with {oscs} OSC directories, {files} files",
                 ["run", "wall ms", "wall us/file", "CPU us/file", "/ open, read, close"], rows,
                 [f"median of {len(peer)} rounds; `stop` parses two snapshots and sends its "
                  f"report"])
