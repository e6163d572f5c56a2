"""
Figure 25: what the nodes' own I/O between two jobs costs a prolog and an epilog.

Whole processes, as Slurm starts them, with a site's server on the loopback, in pairs: as they are,
and with what reads, keeps and sends idle times taken out.  Each job has an idle time of ten minutes
before it (the file of the epilog before is made older between the two, which is not measured).
"""

import json
import os
import statistics
import sys
import tempfile

import tree
from measure import (
    BARE_PYTHON,
    CLIENT,
    SERVER,
    BenchmarkError,
    Server,
    Table,
    cost_of,
    free_port,
)

_HOME = os.path.dirname(CLIENT)
_RUN = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
if sys.argv.pop(1) == "without":
    from iostats.node import idle_time, prolog_epilog
    for function in (idle_time.claim, idle_time.is_over, idle_time.delete):
        setattr(idle_time, function.__name__, lambda *_, **__: None)
    setattr(prolog_epilog, prolog_epilog._compute_idle.__name__, lambda *_: {})
from iostats.cli.node import main
sys.exit(main())
"""
_KINDS = ("without", "with")


def run(quick):
    """The Tables of this figure."""
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        return [_table(directory, *((23, 2) if quick else (100, 15)))]


def _table(directory, targets, rounds):
    root = os.path.join(directory, "root")
    port = free_port()
    configs = {}
    for kind in _KINDS:
        configs[kind] = os.path.join(directory, f"{kind}.cfg")
        with open(configs[kind], "w", encoding="utf-8") as file:
            file.write(f"[node]\nhook_dir = {directory}/node {kind}\nhook_timeout = 20\n[site]\n"
                       f"host = 127.0.0.1\nport = {port}\nsecret = {directory}/secret\n"
                       f"store = {directory}/site.sqlite\n")
    costs = {}
    with Server([sys.executable, SERVER, "--site", "--quiet", "--config", configs["with"]], port):
        for number in range(rounds + 1):
            _make_older(f"{directory}/node with")
            for role, work in (("prolog", 3 * number + 2), ("epilog", 3 * number + 3)):
                tree.make(root, {"scratch": targets, "home": 4}, work)
                for kind in _KINDS if number % 2 else _KINDS[::-1]:
                    cost = cost_of([
                        *BARE_PYTHON, "-c", _RUN, _HOME, kind, role, "--root", root, "--job",
                        f"{number}{kind}", "--nodes", "node1", "--node", "node1", "--config",
                        configs[kind], "--quiet"])
                    if number > 1:              # the first ones compile, and have no idle time
                        costs.setdefault((role, kind), []).append(cost)
    _check(f"{directory}/node with")
    rows = []
    for role in ("prolog", "epilog"):
        for what in ("cpu_s", "wall_s"):
            without, all_of_it = ([getattr(one, what) for one in costs[role, kind]]
                                  for kind in _KINDS)
            pairs = list(zip(all_of_it, without))
            rows.append([f"{role}, {'CPU' if what == 'cpu_s' else 'wall'}",
                         f"{statistics.median(without) * 1e3:.1f}",
                         f"{statistics.median(all_of_it) * 1e3:.1f}",
                         f"{statistics.median(a - b for a, b in pairs) * 1e3:+.2f}",
                         f"{statistics.median(a / b for a, b in pairs):.3f}"])
    return Table(f"idle_time: a node with {targets} OSTs and another file system, ms",
                 ["run", "without", "with", "more", "with / without"], rows,
                 [f"median of {rounds - 1} pairs, in turns"])


def _check(directory):
    """The last epilog has known of more than one idle time."""
    with open(os.path.join(directory, "node1.idle"), encoding="utf-8") as file:
        seconds = [one["seconds"] for one in json.load(file)["file_systems"].values()]
    if len(seconds) != 2 or min(seconds) < 1200:
        raise BenchmarkError(f"expected idle times of two file systems, got {seconds}")


def _make_older(directory):
    """Let the last job be ten minutes ago."""
    from iostats.totals import snapshot
    path = os.path.join(directory, "node1.quiet")
    if os.path.exists(path):
        with open(path, "rb") as file:
            kept = snapshot.decode(file.read(), path)
        with open(path, "wb") as file:
            file.write(snapshot.encode(kept._replace(boot_ns=kept.boot_ns - 600 * 10**9)))


if __name__ == "__main__":
    from run import as_text
    for each in run("--quick" in sys.argv):
        print(as_text(each))
