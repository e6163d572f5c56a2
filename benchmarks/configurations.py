"""
Figure: configuration files of a cluster's ldmsds from its description, whole processes.

Two samplers' plugins on each node, 500 nodes for each aggregator.  Beside it: a bare interpreter
that writes files of the same sizes, and LDMS' own parser (ldmsd_yaml_parser), where it is on PATH.
CPU time is user and system time; the files are in memory, where that is possible.
"""

import os
import shutil
import statistics
import sys
import tempfile

_DESCRIPTION = """\
daemons:
  - names: "s-[1-{nodes}]"
    hosts: "node-[1-{nodes}]"
    endpoints:
      - {{names: "n-[1-{nodes}]", ports: "10001", maestro_comm: true, xprt: sock}}
  - names: "agg-[1-{aggregators}]"
    hosts: "head-[1-{aggregators}]"
    endpoints:
      - {{names: "a-[1-{aggregators}]", ports: "10002", maestro_comm: true, xprt: sock}}
aggregators:
  - daemons: "agg-[1-{aggregators}]"
    peers:
      - daemons: "s-[1-{nodes}]"
        endpoints: "n-[1-{nodes}]"
        type: active
        reconnect: 20s
        updaters:
          - {{interval: 1s, offset: 100ms, mode: pull, sets: [{{regex: ".*", field: inst}}]}}
samplers:
  - daemons: "s-[1-{nodes}]"
    plugins: [mem, vm]
plugins:
  mem: {{name: meminfo, interval: 1s, offset: "0", config: [{{schema: meminfo, perm: "0777"}}]}}
  vm: {{name: vmstat, interval: 1s, offset: "0", config: [{{schema: vmstat}}]}}
"""
_WRITE = """
import os, sys
text = b"x" * (1 << 22)
for number, size in enumerate(map(int, sys.stdin.read().split())):
    path = "%s/%d.conf" % (sys.argv[1], number)
    with open(path + ".new", "wb") as file:
        file.write(text[:size])
    os.rename(path + ".new", path)
"""
_MOST_OF_LDMS = 8000               # its time grows with the square


def run(quick):
    """The Table of this figure."""
    from measure import BARE_PYTHON, REPOSITORY, Table
    sizes, rounds = ((300,), 1) if quick else ((2000, 8000, 30_000), 3)
    peer = shutil.which("ldmsd_yaml_parser")
    rows = []
    for nodes in sizes:
        with tempfile.TemporaryDirectory(prefix="iostats-bench-", dir=_in_memory()) as directory:
            path, out = f"{directory}/cluster.yaml", f"{directory}/ours"
            with open(path, "w", encoding="ascii") as file:
                file.write(_DESCRIPTION.format(nodes=nodes, aggregators=-(-nodes // 500)))
            ours, bare = [], []
            for _ in range(rounds):
                shutil.rmtree(out, ignore_errors=True)
                ours.append(_used([sys.executable, "-m", "iostats", "ldms", "generate", path, "-o",
                                   out], cwd=REPOSITORY))
                lengths = " ".join(str(one.stat().st_size) for one in os.scandir(out))
                os.mkdir(f"{directory}/bare")
                bare.append(_used([*BARE_PYTHON, "-c", _WRITE, f"{directory}/bare"], lengths))
                shutil.rmtree(f"{directory}/bare")
            theirs = None
            if peer and nodes <= _MOST_OF_LDMS:
                os.mkdir(f"{directory}/theirs")
                theirs = _used([peer, "-y", path, "-p", f"{directory}/theirs"])[0]
            cpu_s = statistics.median(one for one, _ in ours)
            rows.append([
                f"{nodes:,}", f"{cpu_s:.2f}", f"{1e6 * cpu_s / nodes:.0f}",
                f"{max(mib for _, mib in ours):.0f}",
                f"{statistics.median(one for one, _ in bare):.2f}",
                f"{statistics.median(a / b for (a, _), (b, _) in zip(ours, bare)):.1f}",
                f"{theirs:.1f}" if theirs else "-", f"{theirs / cpu_s:.0f}" if theirs else "-"])
    return [Table("configurations: files of all daemons of a cluster",
                  ["samplers", "CPU s", "us each", "MiB", "files alone", "ratio", "LDMS' own",
                   "times ours"], rows,
                  [f"median of {rounds}; files alone: a bare interpreter writes as many bytes to "
                   "as many files;", "LDMS' own: ldmsd_yaml_parser, once (aim: 30,000 in 10 s, "
                   "and linear)"])]


def _in_memory():
    """Where a disk's other users do not count; None where there is no such place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _used(arguments, given="", cwd=None):
    """(CPU seconds, MiB at the peak) of a whole process that is given this text."""
    from measure import environment, measure_process
    own = environment()
    own.update((name, os.environ[name]) for name in ("PYTHONPATH", "LD_LIBRARY_PATH")
               if name in os.environ)
    return measure_process(arguments, given, cwd, own)
