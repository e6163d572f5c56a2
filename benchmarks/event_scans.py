"""
Figure: a look at the files of a storage server for events: the agent, against open, read and close.

Targets of up to 100 file systems on one machine, in the form of 2.17: recovery_status,
eviction_count, num_exports, instance and the five files of the capacity of each; three of LNet;
metrics of targets and five services, and quotas of 10,000 users.  Three processes take turns: the
agent's gathering with all that a look is (reading, comparing, joining, the state written to the
disk), the same that reads metrics and quotas in each look, in place of once in one and five
minutes, and a bare interpreter that opens, reads and closes the files of the first one and does
nothing with them.

    event_scans.py agent ROOT            a look for each line of its input: its CPU, and its peak
                                         memory
    event_scans.py agent ROOT metrics    likewise, with metrics and quotas in each
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
paths = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names
         if name not in sys.argv[2:]]
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
    from measure import BARE_PYTHON, Table, environment, run_in_turn
    rows = []
    for targets in (12, 1000) if quick else (12, 1000, 10_000, 100_000):
        rounds = 2 if quick else 5
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="iostats-bench-", dir=where) as directory:
            counts = _tree(directory, targets)
            agent = [*BARE_PYTHON, os.path.abspath(__file__), "agent", directory]
            ways = [subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True) for arguments in (
                agent, [*BARE_PYTHON, "-c", _BARE, os.path.join(directory, "sys"), *_METRICS,
                        *_SERVICE], [*agent, "metrics"])]
            try:
                took = [run_in_turn(ways)]
                for number in range(rounds):
                    for path in counts[:max(1, targets // 1000)]:
                        with open(path, "w") as file:
                            file.write(f"{number + 1}\n")
                    took.append(run_in_turn(ways))
            finally:
                for way in ways:
                    way.stdin.close()
                    way.wait()
        mine, bare, every = (statistics.median(one[way][0] for one in took[1:])
                             for way in (0, 1, 2))
        rows.append((f"{targets:,} targets", f"{mine:.4f}", f"{every:.4f}", f"{bare:.4f}",
                     f"{mine / bare:.1f}",
                     f"{mine / targets * 1e6:.0f}", f"{max(one[0][1] for one in took):.0f}"))
    return [Table("events: a look at the files of one storage server",
                  ["", "agent, CPU s", "with metrics", "open, read, close", "ratio", "us a target",
                   "agent, MiB"],
                  rows, ["metrics are read each minute, quotas of 10,000 users each five",
                         "a look is due every 10 s, and takes up to [harvest] cpu_percent of a "
                         "core: one that costs more is made less often"])]


_CAPACITY = ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree")
_BAR = "16:\t\t        23  72  72   |   37  80  80\n"
_METRICS = {                            # file -> (directory, text)
    "tot_granted": ("sys/fs/lustre/obdfilter/{}", "4100\n"),
    "tot_dirty": ("sys/fs/lustre/obdfilter/{}", "2300\n"),
    "lock_count": ("sys/fs/lustre/ldlm/namespaces/filter-{}_UUID", "53\n"),
    "lock_timeouts": ("sys/fs/lustre/ldlm/namespaces/filter-{}_UUID", "0\n"),
    "brw_stats": ("sys/kernel/debug/lustre/osd-ldiskfs/{}", "snapshot_time: 23.37 secs.nsecs\n" + (
        "".join(f"\n{title:<22} rpcs  % cum % |\n{_BAR * 12}" for title in (
            "pages per bulk r/w", "discontiguous pages", "discontiguous blocks",
            "disk fragmented I/Os", "disk I/Os in flight", "I/O time (1/1000s)",
            "disk I/O size", "block maps msec"))))}
_SERVICE = {"threads_started": ("sys/fs", "23\n"), "threads_max": ("sys/fs", "64\n"),
            "stats": ("sys/kernel/debug", (
                "req_waittime              41 samples [usecs] 3 6638 9524258 703415796\n"
                "req_qdepth                41 samples [reqs] 0 3 1602 2816\n"))}
_SERVICES = ("ost", "ost_io", "ost_create", "ost_seq", "ost_out")
_USERS = 10_000
_LNET = {"stats": "0 1 0 23 37 0 41 4700 5300 0 53\n",
         "nis": "nid status alive refs peer rtr max tx min\n10.9.0.3@tcp up 0 2 8 0 256 255 200\n",
         "routers": "ref  rtr_ref alive router\n"}


def _tree(root, targets):
    """Paths of the eviction counts of a storage server that has `targets`."""
    counts = []
    os.makedirs(os.path.join(root, "sys/kernel/debug/lnet"))
    for file, text in _LNET.items():
        with open(os.path.join(root, "sys/kernel/debug/lnet", file), "w") as out:
            out.write(text)
    for service in _SERVICES:
        for file, (place, text) in _SERVICE.items():
            _write(root, f"{place}/lustre/ost/OSS/{service}", file, text)
    _write(root, "proc/fs/lustre/qmt/fs00-QMT0000/dt-0x0", "glb-usr", "global_pool0_dt_usr\n" + (
        "".join(f"- id:      {number}\n  limits:   {{ hard: {4100:>20}, soft: {0:>20}, "
                f"granted: {23:>20}, time: {0:>20} }}\n" for number in range(1, _USERS + 1))))
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
        directory = os.path.join(root, "sys/fs/lustre/osd-ldiskfs", name)
        os.makedirs(directory)
        for file in _CAPACITY:
            with open(os.path.join(directory, file), "w") as out:
                out.write("1000000\n")
        for file, (place, text) in _METRICS.items():
            _write(root, place.format(name), file, text)
    with open(os.path.join(root, "sys/fs/lustre/health_check"), "w") as out:
        out.write("healthy\n")
    return counts


def _write(root, directory, file, text):
    os.makedirs(os.path.join(root, directory), exist_ok=True)
    with open(os.path.join(root, directory, file), "w") as out:
        out.write(text)


def _agent(root, with_metrics):
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    from measure import peak_mib

    from iostats.base import config as site_config
    from iostats.events.gather import Gathering
    from iostats.events.sources import metrics, quota
    config = site_config.load(os.devnull, environ={})
    state = os.path.join(root, f"state{with_metrics}")
    gathering = Gathering(root, config, "oss1", "b" * 32, state, ("server",))
    later_s = 0.0
    for _ in sys.stdin:
        if with_metrics:                # both are due again
            later_s += max(metrics.EVERY_S, quota.EVERY_S)
        began = time.process_time()
        more = True
        while more:
            more = gathering.scan(time.time() + later_s).more
            gathering.acknowledge()
        took = time.process_time() - began
        print(took, peak_mib(), flush=True)


if __name__ == "__main__" and sys.argv[1:2] == ["agent"]:
    _agent(sys.argv[2], "metrics" in sys.argv[3:])
