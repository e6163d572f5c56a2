"""
Figure 18: what events cost a node with 1,000 targets: at prolog and epilog, and for each look.

Whole processes, as Slurm starts them, with a site's server on the loopback, on three trees that
take turns: without the files `state` and `import`; with them, each with 16 states; with them, and
every target lost its connection during the job.
"""

import os
import shutil
import statistics
import sys
import tempfile

import tree
from measure import BARE_PYTHON, CLIENT, SERVER, Server, Table, cost_of, free_port

_IDLE = [(1795225000 + 25 * turn, state) for turn in range(4)
         for state in ("CONNECTING", "IDLE", "CONNECTING", "FULL")]
_LOST = _IDLE[3:] + [(1795226000, "DISCONN"), (1795226000, "CONNECTING"), (1795226005, "DISCONN")]
_LOOK = """\
import resource, sys
sys.path.insert(0, sys.argv[1])
from iostats.base import config
from iostats.node import node_events, start_files
from iostats.totals import snapshot
kept = start_files.StartFiles(sys.argv[3], "4711", "node1")
choices = config.load("/dev/null", {})
start = snapshot.decode(open(sys.argv[4], "rb").read(), "start")
found = node_events.NodeEvents(kept, start, sys.argv[2], choices)
found.scan(start.boot_id)
began = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(10):
    found.scan(start.boot_id)
ended = resource.getrusage(resource.RUSAGE_SELF)
print((ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) / 10)
"""


def run(quick):
    """The Tables of this figure."""
    tables = []
    for targets in (23,) if quick else (100, 1000):
        with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
            tables.append(_table(directory, targets, rounds=1 if quick else 9))
    return tables


def _table(directory, targets, rounds):
    roots = {}
    for name, before, after in (("no states", None, None), ("quiet", _IDLE, _IDLE),
                                ("all lost", _IDLE, _LOST)):
        roots[name] = [os.path.join(directory, f"{name}-{moment}".replace(" ", "-"))
                       for moment in ("before", "after")]
        for root, work, states in zip(roots[name], (23, 37), (before, after)):
            tree.make(root, {"scratch": targets}, work, states)
    port = free_port()
    config = os.path.join(directory, "site.cfg")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[node]\nhook_dir = {directory}/node\nhook_timeout = 20\n[site]\n"
                   f"host = 127.0.0.1\nport = {port}\nsecret = {directory}/secret\n"
                   f"store = {directory}/site.sqlite\n")
    costs = {}
    with Server([sys.executable, SERVER, "--site", "--quiet", "--config", config], port):
        for number in range(rounds + 1):
            for name, (before, after) in roots.items():
                job = ["--job", f"{number}{name[:1]}", "--nodes", "node1", "--node", "node1",
                       "--config", config, "--quiet"]
                for role, root in (("prolog", before), ("epilog", after)):
                    cost = cost_of([*BARE_PYTHON, CLIENT, role, "--root", root, *job])
                    if number:                      # the first round compiles
                        costs.setdefault((role, name), []).append(cost.cpu_s)
    rows = []
    for (role, name), found in costs.items():
        without = costs[role, "no states"]
        more = statistics.median(a - b for a, b in zip(found, without))
        rows.append([f"{role}, {name}", f"{statistics.median(found) * 1e3:.1f}",
                     "-" if name == "no states" else f"{more * 1e3:+.1f}",
                     "-" if name == "no states" else
                     f"{statistics.median(a / b for a, b in zip(found, without)):.2f}"])
    rows.append(["one look, quiet", f"{_look(directory, roots['quiet'][0]) * 1e3:.1f}", "-", "-"])
    return Table(f"node_events: one node with {targets:,} targets, CPU of whole processes",
                 ["run", "CPU ms", "more", "/ no states"], rows,
                 [f"median of {rounds} rounds that took turns; 16 states each; a look is one of a "
                  f"process that runs anyway"])


def _look(directory, root):
    """CPU seconds of one look at targets of which none has changed."""
    import subprocess
    state = os.path.join(directory, "look")
    cost_of([*BARE_PYTHON, CLIENT, "start", "--job", "4711", "--node", "node1", "--quiet",
             "--state-dir", state, "--root", root])
    [start] = [name for name in os.listdir(state) if name.endswith(".start")]
    done = subprocess.run([*BARE_PYTHON, "-c", _LOOK, os.path.dirname(CLIENT), root, state,
                           os.path.join(state, start)], stdout=subprocess.PIPE, check=True)
    shutil.rmtree(state)
    return float(done.stdout)
