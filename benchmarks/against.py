"""
The CPU of `start`, of a job's server and of a storage server's agent against another commit.

    python benchmarks/against.py COMMIT [PAIRS]

Not a figure of run.py: it prints the median of the ratios of pairs, A B A B.  The CPU is that of
whole processes, user and system; `start` runs as on a node, the server takes 1,000 nodes' reports.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import agent
import tree
from client import FILE_SYSTEMS
from measure import BARE_PYTHON, REPOSITORY, Server, cost_of, free_port

_SERVER = """
import sys, tempfile
sys.path[:0] = [sys.argv[1] + "/benchmarks", sys.argv[1]]
import server
with tempfile.TemporaryDirectory() as directory:
    print(server.one_run("iostats", directory, server.report_of(directory), 1000)["cpu_s"])
"""
def main(commit, pairs=20):
    """Print the ratio of each."""
    with tempfile.TemporaryDirectory() as directory:
        other = os.path.join(directory, "other")
        os.mkdir(other)
        with subprocess.Popen(["git", "archive", commit], cwd=REPOSITORY,
                              stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", other], stdin=archive.stdout, check=True)
        root = os.path.join(directory, "node")
        tree.make(root, FILE_SYSTEMS, 23)
        homes = {other: os.path.join(directory, "a"), REPOSITORY: os.path.join(directory, "b")}

        def start(home, number):
            return cost_of([*BARE_PYTHON, f"{home}/iostats_client.py", "start", "--job", "4711",
                            "--quiet", "--node", f"nid{number:05}", "--root", root,
                            "--state-dir", homes[home]]).cpu_s
        _print_ratio(f"start, against {commit}", start, homes, 10 * pairs)
        _print_ratio(f"server of 1,000 nodes, against {commit}", _measure_server, homes, pairs)
        sweep = agent._tree(os.path.join(directory, "oss"), 20_000, 0)

        def harvest(home, _):
            port = free_port()
            with tempfile.TemporaryDirectory() as place, Server(
                    [sys.executable, f"{home}/benchmarks/agent.py", "serve", str(port)], port):
                return cost_of([*BARE_PYTHON, f"{home}/iostats_client.py", "harvest", "--once",
                                "--config", agent._config(place, port), "--root", sweep]).cpu_s
        _print_ratio(f"agent of 20,000 entries, against {commit}", harvest, homes, pairs)


def _print_ratio(name, measure, homes, pairs):
    """Print the median of the ratios of pairs; the first one compiles, and does not count."""
    used = [[measure(home, number) for home in homes] for number in range(pairs + 1)][1:]
    ratio = statistics.median(after / before for before, after in used)
    print(f"{name}: {ratio:.3f}, {statistics.median(after for _, after in used) * 1000:.1f} ms; "
          f"{pairs} pairs", flush=True)


def _measure_server(home, _):
    return float(subprocess.run([sys.executable, "-c", _SERVER, home], check=True, text=True,
                                stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
