"""
Figure 6: what prolog and epilog cost a node, also a busy one, and what the site's server takes.

Whole processes as Slurm starts them, on the node of figure 1, with a real site server on the
loopback.  "Busy" is with four processes for each core that do nothing but compute.
"""

import concurrent.futures
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import tree
from measure import BARE_PYTHON, CLIENT, SERVER, Server, Table, cost_of, free_port, median_ratio
from server import report_of

FILE_SYSTEMS = {"home": 2, "work": 6, "scratch": 8}
_BUSY_FOR_EACH_CORE = 4
_THREADS = 8


def run(quick):
    """The Tables of this figure."""
    rounds, reports = (5, 200) if quick else (20, 2000)
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        root = os.path.join(directory, "root")
        tree.make(root, FILE_SYSTEMS, 23)
        port = free_port()
        config = os.path.join(directory, "site.cfg")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[node]\nhook_dir = {directory}/node\n[site]\nhost = 127.0.0.1\n"
                       f"port = {port}\nsecret = {directory}/secret\nstore = "
                       f"{directory}/site.sqlite\n")
        with Server([sys.executable, SERVER, "--site", "--quiet", "--config", config],
                    port) as site:
            idle = _costs(root, config, rounds, "idle")
            with _Busy():
                busy = _costs(root, config, rounds, "busy")
            wait_table = _wait_table(idle, busy)
            rate = _rate(directory, config, reports, site)
        return [wait_table, _rate_table(directory, reports, rate)]


class _Busy:
    """Processes that compute, for as long as the `with` lasts."""

    def __enter__(self):
        self._busy = [subprocess.Popen([*BARE_PYTHON, "-c", "while True: pass"])
                      for _ in range(_BUSY_FOR_EACH_CORE * os.cpu_count())]

    def __exit__(self, *error):
        for one in self._busy:
            one.kill()
            one.wait()


def _costs(root, config, rounds, name):
    """name -> [Cost], one a round; the first round, which compiles, is left out."""
    costs = {"bare": [], "prolog": [], "epilog": []}
    for number in range(rounds + 1):
        job = ["--job", f"{name}-{number}", "--nodes", "node1", "--node", "node1", "--root", root,
               "--config", config, "--quiet"]
        for role, found in costs.items():
            command = ["-c", "pass"] if role == "bare" else [CLIENT, role, *job]
            cost = cost_of([*BARE_PYTHON, *command])
            if number:
                found.append(cost)
    return costs


def _wait_table(*both):
    rows = []
    for how, costs in zip(("idle", "busy"), both):
        for name, found in costs.items():
            wall_s = [one.wall_s for one in found]
            rows.append([f"{name if name != 'bare' else 'python3 -I -S -c pass'}, {how}",
                         f"{statistics.median(wall_s) * 1e3:.1f}", f"{max(wall_s) * 1e3:.1f}",
                         f"{median_ratio(wall_s, [one.wall_s for one in costs['bare']]):.2f}"])
    return Table("batch: prolog and epilog, whole processes (aim: within 1 s on a busy node)",
                 ["run", "wall ms", "slowest", "wall / bare"], rows,
                 [f"median of {len(both[0]['bare'])} rounds; busy: {_BUSY_FOR_EACH_CORE} processes "
                  f"for each core compute in the background",
                  "the epilog ends when the site's server has its report on the disk"])


def _rate(directory, config, count, site):
    """(reports a second, CPU seconds of the server for each), of many nodes at once."""
    from iostats.base import config as site_cfg
    from iostats.wire import auth, client, protocol
    choices = site_cfg.load(config, {})
    message = report_of(directory)
    signs = auth.load_client_credentials(choices, protocol.SITE, choices.site.secret)

    def send(number):
        node = f"node{number}"
        report = {**message, "node": node, "job": str(number // 100), "seq": node,
                  "about": {"scheduler": "none", "nodes": "node[0-99999]"}}
        client.call("127.0.0.1", site.port, protocol.SITE, signs, node, "report", report)

    cpu_s, began = site.cpu_s_so_far(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(send, range(count)):
            pass
    wall_s = time.monotonic() - began
    return count / wall_s, (site.cpu_s_so_far() - cpu_s) / count


def _rate_table(directory, count, rate):
    bare = _bare_rate(os.path.join(directory, "bare.sqlite"), count // 4)
    return Table(f"batch: the site's server, {count} reports of 16 kB from {_THREADS} clients",
                 ["what", "a second", "ms of CPU each"],
                 [["site's server: authenticated, checked, on the disk", f"{rate[0]:.0f}",
                   f"{rate[1] * 1e3:.2f}"],
                  ["SQLite alone: one commit for each", f"{bare:.0f}", "-"]],
                 ["clients and server share the cores; reports that come together are one commit"])


def _bare_rate(path, count):
    """Rows of 3 kB a second, each with a commit of its own, synced."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    file.execute("CREATE TABLE reports (node INTEGER PRIMARY KEY, body BLOB)")
    body, began = os.urandom(3000), time.monotonic()
    for number in range(count):
        file.execute("INSERT INTO reports VALUES (?, ?)", (number, body))
    return count / (time.monotonic() - began)
