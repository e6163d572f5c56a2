"""
Figure: a storage server's agent, whole processes, against reading and counting lines.

Four targets; four of five counters of each entry are in use (15 on an OST of 2.16, with hist).  The
agent reads them, keeps its messages on the disk, and sends them to a server that takes everything:
`harvest --once` is a sweep in which all is new.  The two take turns; CPU is user and system time.

    agent.py serve PORT             that server
    agent.py sweeps CONFIG A B      a full sweep of the tree A, then of B, A, B ...: CPU of each
"""

import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_TARGETS, _SECRET = 4, "0123456789abcdef0123456789abcdef"
# The other one: 64 KiB at a time, newlines counted by one call in C.
_COUNT = """
import glob, sys
found = 0
for path in glob.glob(sys.argv[1] + "/proc/fs/lustre/obdfilter/*/job_stats"):
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 16):
            found += chunk.count(b"\\n")
"""


def run(quick):
    """The Table of this figure."""
    from measure import BARE_PYTHON, CLIENT, Server, Table, free_port, measure_process
    sizes, rounds = ((4000,), 1) if quick else ((100_000, 400_000), 3)
    rows = []
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        port = free_port()
        with Server([sys.executable, os.path.abspath(__file__), "serve", str(port)], port):
            config = _config(directory, port)
            for entries in sizes:
                trees = [_tree(os.path.join(directory, f"{entries}-{name}"), entries, changed)
                         for name, changed in (("a", 0), ("b", 100))]
                agent = [*BARE_PYTHON, CLIENT, "harvest", "--once", "--config", config, "--root",
                         trees[0]]
                count = [*BARE_PYTHON, "-c", _COUNT, trees[0]]
                whole = [(measure_process(agent), measure_process(count)) for _ in range(rounds)]
                some = _sweeps(config, trees, 2 * rounds)
                counted = statistics.median(cpu_s for _, (cpu_s, _) in whole)
                rows.append([
                    f"{entries:,}", f"{statistics.median(one[0] for one, _ in whole):.2f}",
                    f"{counted:.3f}",
                    f"{statistics.median(a[0] / b[0] for a, b in whole):.1f}",
                    f"{max(one[1] for one, _ in whole):.0f}",
                    f"{statistics.median(ours for ours, _ in some):.3f}",
                    f"{statistics.median(ours / theirs for ours, theirs in some):.1f}"])
    return [Table("agent: a sweep of four targets, four of five counters in use",
                  ["entries", "all new, CPU s", "reading and counting", "ratio", "MiB",
                   "1 % changed, CPU s", "ratio"], rows,
                  [f"median of {rounds} pairs of processes that took turns (aims: 25; 64 MiB at "
                   f"400,000); 1 %: of a", "running agent's later sweeps, each beside the reading "
                   "and counting of that moment (aim: 2.5)"])]


def _config(directory, port):
    secret, path = os.path.join(directory, "secret"), os.path.join(directory, "site.cfg")
    with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(_SECRET)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"[site]\nhost = 127.0.0.1\nport = {port}\nsecret = {secret}\n"
                   f"[server]\nauth = secret\n[node]\nretry_timeout = 600\n"
                   f"[harvest]\nspool_dir = {directory}/spool\n"
                   f"cpu_percent = 100\nspool_bytes = 1000000000\n")
    return path


def _tree(directory, entries, changed):
    """A root with `entries` on four OSTs, of which each `changed`th has gone on."""
    sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests"), HERE]
    from job_stats import _value
    from job_stats_text import Job, counters_of, render
    drawn, names = random.Random(4711), [name for name, _ in counters_of("2.16")]
    each = entries // _TARGETS
    for target in range(_TARGETS):
        place = f"{directory}/proc/fs/lustre/obdfilter/scratch-OST{target:04x}"
        os.makedirs(f"{place}/exports")         # without clients
        with open(f"{place}/job_cleanup_interval", "w", encoding="ascii") as file:
            file.write("600\n")
        with open(f"{place}/job_stats", "wb") as file:
            file.write(b"job_stats:\n")
            for at in range(each):
                use = drawn.sample(names, round(0.8 * len(names)))
                seen_ns = 1_795_000_000 * 10**9 + drawn.randrange(10**14)
                job = Job(b"%d" % (4_700_000 + 3 * at), seen_ns - drawn.randrange(1, 10**13),
                          seen_ns, {name: _value(drawn, name) for name in names if name in use})
                if changed and not at % changed:
                    job = job._replace(seen_ns=seen_ns + 10**9)
                file.write(render(job, "2.16"))
    return directory


def _sweeps(config, trees, count):
    """[(CPU seconds of a sweep with 1 % changed, of reading and counting)]."""
    from measure import BenchmarkError, environment
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "sweeps", config, *trees,
                           str(count)], env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"agent.py sweeps: exit status {done.returncode}")
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


# -- what runs in a process of its own -------------------------------------------------------

def sweeps(config, one, other, number):
    """Print the CPU of each sweep but the first, and of reading and counting the same files."""
    from iostats.base import config as site
    from iostats.storage import agent as storage_agent
    with tempfile.TemporaryDirectory() as directory:
        root = os.path.join(directory, "root")
        os.symlink(one, root)
        options = site.load(config, environ={})
        agent = storage_agent.Agent(options, root, "oss1",
                                    [("127.0.0.1", options.site.port)], [], sys.exit)
        agent.run_once()
        sys.argv[1] = root
        for at in range(int(number)):
            os.unlink(root)
            os.symlink((other, one)[at % 2], root)
            began = time.process_time()
            agent.run_once()
            used = time.process_time() - began
            began = time.process_time()
            exec(_COUNT, {})                    # of sys.argv[1]
            print(used, time.process_time() - began, flush=True)


def serve(port):
    """A site's server that takes every sweep, and makes nothing of it."""
    import msgspec

    from iostats.base import config as site
    from iostats.server.rpc_server import RpcServer
    from iostats.wire import protocol
    from iostats.wire.auth import Secret
    from iostats.wire.jsonrpc import Method

    async def work():
        server = RpcServer(protocol.SITE, [Secret(protocol.SITE, _SECRET.encode())],
                        site.load(os.devnull, environ={}))
        for method in ("packed_sweep", "packed_clients", "packed_events"):
            server.methods[method] = Method(lambda params, who: {"taken": True, "why": ""},
                                            msgspec.Raw)
        await server.listen_on("127.0.0.1", [int(port)])
        await asyncio.Event().wait()
    asyncio.run(work())


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(HERE))
    {"sweeps": sweeps, "serve": serve}[sys.argv[1]](*sys.argv[2:])
