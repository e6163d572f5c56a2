"""
Figure: what LNet, capacities, metrics, pools of objects, quotas and changelogs add to all that an
agent does.

One OSS of 12 targets, in the form of 2.17: entries of jobs, of which 1 % go on between two sweeps,
and clients, of which each has a file on each target, and is a peer of LNet; five services, and
quotas of 10,000 users.  Two agents take turns at ten minutes of a day: 30 sweeps and 60 scans for
events, which are sent to a server that takes them.  One has all sources of events, the other all
but those six.

    storage_sources.py agent CONFIG A B all|before    ten minutes for each line of its input, on the
                                                      trees A and B by turns: their CPU
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_TARGETS, _SWEEPS, _SCANS_OF_A_SWEEP, _EVERY_S = 12, 30, 2, 10.0
_SOURCES = ("capacity", "changelog", "lnet", "metrics", "precreate", "quota")


def run(quick):
    """The Table of this figure."""
    rows = [_compare(entries, clients, 2 if quick else 7) for entries, clients in (
        [(1_200, 100)] if quick else [(3_000, 100), (3_000, 1_000), (12_000, 1_000)])]
    from measure import Table
    return [Table("storage_sources: ten minutes of an agent with 12 targets, 30 sweeps",
                  ["entries, clients", "all sources, CPU s", "without six", "ratio"], rows,
                  ["median of pairs of agents that took turns (aim: 1.2)"])]


def _compare(entries, clients, rounds):
    from agent import _config
    from measure import BARE_PYTHON, Server, environment, free_port, run_in_turn
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="iostats-bench-", dir=where) as directory:
        port = free_port()
        trees = [_tree(os.path.join(directory, name), entries, clients, goes_on)
                 for name, goes_on in (("a", False), ("b", True))]
        ways = []
        with Server([sys.executable, os.path.join(HERE, "agent.py"), "serve", str(port)], port):
            try:
                for way in ("all", "before"):
                    own = os.path.join(directory, way)
                    os.mkdir(own)
                    ways.append(subprocess.Popen(
                        [*BARE_PYTHON, os.path.abspath(__file__), "agent", _config(own, port),
                         *trees, way], env=environment(), stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True))
                took = [run_in_turn(ways) for _ in range(rounds + 1)][1:]
            finally:
                for agent in ways:
                    agent.stdin.close()
                    agent.wait()
    ours, before = (statistics.median(pair[place][0] for pair in took) for place in (0, 1))
    return [f"{entries:,}, {clients:,}", f"{ours:.2f}", f"{before:.2f}",
            f"{statistics.median(all_s / before_s for (all_s,), (before_s,) in took):.2f}"]


def _tree(root, entries, clients, goes_on):
    """A root, with what has gone on at 1 % of the entries and 10 % of the clients, or without."""
    sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests"), HERE]
    import event_scans
    from exports import _write as write_exports
    from job_stats_text import Job, Value, counters_of, render
    os.makedirs(root)
    event_scans._tree(root, _TARGETS)
    with open(f"{root}/sys/kernel/debug/lnet/peers", "w", encoding="ascii") as file:
        file.write("nid refs state last max rtr min tx min queue\n" + "".join(
            f"{_nid(number)} 1 NA -1 8 8 8 {8 - number % 9} {5 - number % 11} 0\n"
            for number in range(clients)))
    names = [name for name, _ in counters_of("2.16")][:12]
    began_ns = 1_795_000_000 * 10**9
    exports = {}
    for target in range(_TARGETS):
        place = f"obdfilter/fs{target:02d}-OST0000"
        os.makedirs(f"{root}/proc/fs/lustre/{place}")
        with open(f"{root}/sys/fs/lustre/{place}/job_cleanup_interval", "w",
                  encoding="ascii") as file:
            file.write("600\n")
        with open(f"{root}/proc/fs/lustre/{place}/job_stats", "wb") as file:
            file.write(b"job_stats:\n")
            for number in range(entries // _TARGETS):
                has_news = goes_on and number % 100 == 0
                value = Value(23 + has_news, 4096, 1 << 20, 37_000 * (23 + has_news), 41 << 30)
                file.write(render(Job(
                    b"%d" % (4_700_000 + number), began_ns + number,
                    began_ns + 10**9 * (1 + has_news), dict.fromkeys(names, value)), "2.16"))
        for number in range(clients):
            path = f"{root}/sys/kernel/debug/lustre/{place}/exports/{_nid(number)}/stats"
            os.makedirs(os.path.dirname(path))
            more = 37 if goes_on and number % 10 == 0 else 0
            exports[path] = [4100 + number + more] * 6
    write_exports(exports)
    return root


def _nid(number):
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}@o2ib3"


def _agent(config, one, other, way):
    """What runs in a process of its own."""
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    from iostats.base import config as site
    from iostats.events import gather, server_reading, sources
    from iostats.storage import agent as storage_agent
    sources.list_sources()
    if way == "before":
        for name in _SOURCES:
            del sources._seen[name]
        # Read with the rest of a target, for these sources.
        server_reading._read_capacity = server_reading._read_changelog_users = lambda *_: None
    scan, later_s = gather.Gathering.scan, 0.0
    gather.Gathering.scan = lambda self: scan(self, time.time() + later_s)
    with tempfile.TemporaryDirectory() as directory:
        root = os.path.join(directory, "root")
        os.symlink(one, root)
        options = site.load(config, environ={})
        agent = storage_agent.Agent(options, root, "oss1", [("127.0.0.1", options.site.port)], [],
                                    sys.exit)
        at = 0
        for _ in sys.stdin:
            began = time.process_time()
            for _ in range(_SWEEPS):
                os.unlink(root)
                os.symlink((one, other)[at % 2], root)
                at += 1
                for _ in range(_SCANS_OF_A_SWEEP - 1):
                    later_s += _EVERY_S
                    agent.events.scan_once()
                later_s += _EVERY_S
                agent.run_once()                # a scan, too
            print(time.process_time() - began, flush=True)


if __name__ == "__main__" and sys.argv[1:2] == ["agent"]:
    _agent(*sys.argv[2:])
