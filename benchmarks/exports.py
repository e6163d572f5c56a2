"""
Figure: what clients do, read from 120,000 exports: the agent, against open, read and close alone.

One OSS of 12 targets with 10,000 clients each, in the form of 2.17, six counters in use.  Three
processes take turns at the same files: the agent (`harvest`, with all that a sweep is: reading,
sums, messages, a server that takes them), a bare interpreter that opens, reads and closes each file
and does nothing with it, and lustreHarvest's way: words split, dictionaries of dictionaries, all of
it pickled and hashed.  Between two rounds a tenth of the files, none, or all of them go on.

    exports.py agent CONFIG ROOT    a sweep for each line of its input: its CPU, and its peak memory
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_TARGETS = 12
_PEAK = """
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
"""
_BARE = """
import os, sys, time
paths = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names
         if name == "stats"]
for _ in sys.stdin:
    began = time.process_time()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.read(file, 8192)
        os.close(file)
    print(time.process_time() - began, 0, flush=True)
"""
# gatherStats(), readStatsFile() and constructMessage() of lustreHarvest, as Python 3 has them.
_WORDS = _PEAK + """
import hashlib, os, pickle, sys, time
top = sys.argv[1] + "/sys/kernel/debug/lustre/obdfilter/"
def stats(path):
    found = {}
    with open(path) as file:
        for line in file:
            words = line.split()
            found[words[0]] = words[1:]
    operations = None
    for name, words in found.items():
        if len(words) < 3 or name in ("read_bytes", "write_bytes", "snapshot_time", "ping"):
            continue
        if words[2] in ("[reqs]", "[usecs]"):
            operations = (operations or 0) + int(words[0])
    return tuple(int(found[name][5]) if name in found else None
                 for name in ("read_bytes", "write_bytes")) + (operations,)
for _ in sys.stdin:
    began = time.process_time()
    all = {}
    for target in os.listdir(top):
        all[target] = {"type": "oss"}
        for client in os.listdir(top + target + "/exports"):
            try:
                found = stats(top + target + "/exports/" + client + "/stats")
            except Exception:
                continue
            if found[:2] != (None, None):
                all[target][client] = tuple(one or 0 for one in found)
    body = pickle.dumps(all)
    hashlib.md5(body).hexdigest()
    print(time.process_time() - began, peak(), flush=True)
"""


def run(quick):
    """The Table of this figure."""
    from agent import _config
    from measure import BARE_PYTHON, Server, Table, environment, free_port, run_in_turn
    clients, rounds = (200, 2) if quick else (10_000, 3)
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows = []
    with tempfile.TemporaryDirectory(prefix="iostats-bench-", dir=where) as directory:
        port, root = free_port(), os.path.join(directory, "oss1")
        files = _tree(root, clients)
        config = _config(directory, port)
        with Server([sys.executable, os.path.join(HERE, "agent.py"), "serve", str(port)], port):
            ways = [subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True) for arguments in (
                [*BARE_PYTHON, os.path.abspath(__file__), "agent", config, root],
                [*BARE_PYTHON, "-c", _BARE, root], [*BARE_PYTHON, "-c", _WORDS, root])]
            try:
                took = [run_in_turn(ways)]
                rows.append(_row("the first sweep: all new", took))
                for what, share in (("10 % changed", 10), ("none changed", 0),
                                    ("all changed", 1)):
                    took = []
                    for number in range(rounds):
                        _change(files, share, number)
                        took.append(run_in_turn(ways))
                    rows.append(_row(what, took))
            finally:
                for way in ways:
                    way.stdin.close()
                    way.wait()
    return [Table(
        f"exports: a sweep over {len(files):,} files of 12 targets",
        ["", "agent, CPU s", "open, read, close", "ratio", "agent, MiB",
         "lustreHarvest's way, CPU s", "MiB"], rows,
        [f"median of {rounds} rounds in which the three took turns (aims: 1.5 with 10 % changed; "
         "64 MiB)"])]


def _row(what, took):
    def of(way, place=0):
        return statistics.median(one[way][place] for one in took)
    ratio = statistics.median(one[0][0] / one[1][0] for one in took)
    return [what, f"{of(0):.2f}", f"{of(1):.2f}", f"{ratio:.2f}",
            f"{max(one[0][1] for one in took):.0f}", f"{of(2):.2f}", f"{of(2, 1):.0f}"]


def _tree(root, clients):
    """{path: its numbers} of each client's file on each target below `root`."""
    drawn, files = random.Random(4711), {}
    for target in range(_TARGETS):
        name = f"obdfilter/scratch-OST{target:04x}"
        for place, file, text in (("proc/fs/lustre", "job_stats", "job_stats:\n"),
                                  ("sys/fs/lustre", "job_cleanup_interval", "600\n")):
            os.makedirs(f"{root}/{place}/{name}", exist_ok=True)
            with open(f"{root}/{place}/{name}/{file}", "w", encoding="ascii") as out:
                out.write(text)
        for client in range(clients):
            nid = f"10.{client >> 16}.{client >> 8 & 255}.{client & 255}@o2ib3"
            path = f"{root}/sys/kernel/debug/lustre/{name}/exports/{nid}/stats"
            os.makedirs(os.path.dirname(path))
            files[path] = [drawn.randrange(1, 10**7) for _ in range(6)]
    _write(files)
    return files


def _change(files, share, number):
    """Each `share`th client of each target goes on; none for 0."""
    if share:
        some = [path for place, path in enumerate(files) if (place + number) % share == 0]
        for path in some:
            files[path] = [one + 37 for one in files[path]]
        _write({path: files[path] for path in some})


def _write(files):
    at_s = time.time()
    for path, (reads, writes, *others) in files.items():
        lines = [f"{'snapshot_time':<36}{at_s:.9f} secs.nsecs",
                 f"{'start_time':<36}1795332706.724097298 secs.nsecs",
                 f"{'elapsed_time':<36}{at_s - 1795332706.724097298:.9f} secs.nsecs"]
        for name, unit, count in (("read_bytes", "bytes", reads), ("write_bytes", "bytes", writes),
                                  ("read", "usecs", reads), ("write", "usecs", writes),
                                  *zip(("setattr", "punch", "sync", "statfs"), ["usecs"] * 4,
                                       others)):
            most = 4_194_304 if unit == "bytes" else 61_403
            lines.append(f"{name:<35} {count} samples [{unit}] 31 {most} {count * 30_011} "
                         f"{count * 8_117_031 % 2**63}")
        with open(path, "w", encoding="ascii") as out:
            out.write("\n".join(lines) + "\n")


def agent(config, root):
    """A sweep for each line of the input; prints the CPU it took, and the most memory so far."""
    from measure import peak_mib

    from iostats.base import config as site
    from iostats.storage import agent as storage_agent
    options = site.load(config, environ={})
    options.harvest.exports = "yes"
    one = storage_agent.Agent(options, root, "oss1", [("127.0.0.1", options.site.port)], [],
                              sys.exit)
    for _ in sys.stdin:
        began = time.process_time()
        one.run_once()
        print(time.process_time() - began, peak_mib(), flush=True)


if __name__ == "__main__":
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    {"agent": agent}[sys.argv[1]](*sys.argv[2:])
