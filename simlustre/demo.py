"""
The demo, `python -m simlustre.demo`: sample_job.sh over four simulated nodes, and the table of what
it did; then a job with two faults, the findings that name them, and its page.

Each node is a FUSE mount that keeps Lustre's counters while ordinary programs (dd, mkdir, the
shell) work in it; all four see the same files.  Without FUSE the same programs run on plain
directories, and a script changes the counters; the output says so, because this proves less.
"""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from simlustre.nfs_client import NfsClient, write_disk_files

CHECKOUT = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (CHECKOUT / "sample_job.sh").exists()
BIN = Path(sys.executable).parent
if IS_CHECKOUT:
    SAMPLE_JOB = CHECKOUT / "sample_job.sh"
    CLIENT = [sys.executable, "-I", "-S", CHECKOUT / "iostats_client.py"]
    SERVER = [sys.executable, CHECKOUT / "iostats_server.py"]
else:                                       # installed from the wheel
    SAMPLE_JOB = Path(sys.prefix, "share", "iostats", "sample_job.sh")
    CLIENT, SERVER = [BIN / "iostats"], [BIN / "iostats", "server"]
NODES = ("node1", "node2", "node3", "node4")

# The second job: on each node dd appends to one file, which has one stripe, and so is on one OST.
# A call takes 0.25 ms longer than the simulation needs for it, as on a Lustre that has work to do.
WRITES, WRITE_BYTES, SLOW_US = 5_750, 8_192, 250
ADVICE = """\
# The thresholds are for jobs of minutes; this one takes some seconds.
[findings]
from_seconds = 0
large_bytes = 67108864
"""
# Counters that a script moves have no times.
WITHOUT_TIMES = "from_percent = 0\n"


def simlustre(*arguments, check=True):
    """Run `python -m simlustre`; the finished process."""
    return subprocess.run([sys.executable, "-m", "simlustre", *map(str, arguments)],
                          env=environ_of_python(os.environ), check=check, capture_output=True,
                          text=True)


def environ_of_python(environ):
    """`environ`, with the checkout first in Python's path if this is one."""
    return {**environ, "PYTHONPATH": str(CHECKOUT)} if IS_CHECKOUT else dict(environ)


def has_fuse(emit=print):
    """Whether nodes can be FUSE mounts here; says why they can't."""
    asked = simlustre("--check", check=False)
    if asked.returncode:
        emit(f"{(asked.stderr or asked.stdout).strip()}.\n")
    return asked.returncode == 0


class Nodes:
    """The simulated nodes, for as long as the `with` lasts."""

    def __init__(self, directory, release, fuse, slow_us=0):
        self.directory, self.release, self.fuse, self.slow_us = directory, release, fuse, slow_us
        self.mounts = directory / "nodes"

    def __enter__(self):
        self.mounts.mkdir(parents=True)
        with contextlib.ExitStack() as undo:
            for node in NODES:
                mount = self.mounts / node
                mount.mkdir()
                where = ("--static",) if not self.fuse else (
                    "--backing", self.directory / "data", "--slow", self.slow_us)
                simlustre(*where, "--mount", mount, "--fs", "scratch", "--release", self.release)
                if self.fuse:
                    undo.callback(simlustre, "--unmount", mount, check=False)
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def environ(self, job):
        """The environment of a job on them."""
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SLURM_", "PBS_", "IOSTATS_"))}
        environ.update(
            JOB=job, LAUNCH=shlex.join(["bash", str(Path(__file__).with_name("on_nodes"))]),
            NODES="node[1-4]",
            NODES_DIR=str(self.mounts), DATA=str(self.mounts / "node1" / "scratch"),
            SERVER_HOST="127.0.0.1", PYTHON=sys.executable, HOME=str(self.directory),
            PATH=f"{BIN}:{os.environ['PATH']}",
            IOSTATS_NODE_STATE_DIR=str(self.directory / "state"))
        return environ_of_python(environ)

    def witness(self):
        """{node: what FUSE itself counted}."""
        return {node: json.loads((self.mounts / node / "truth.json").read_text())["scratch"]
                for node in NODES} if self.fuse else {}


def sample_job(nodes, job, server_options=()):
    """sample_job.sh; (exit status, its output)."""
    environ = nodes.environ(job)
    environ["IOSTATS_SERVER_OPTIONS"] = " ".join(server_options)
    if not nodes.fuse:
        environ["DEMO_NO_FUSE"] = "1"
        for node in NODES:
            (nodes.mounts / node / "scratch" / f"iostats-sample-{job}").mkdir(parents=True)
    done = subprocess.run(["bash", str(SAMPLE_JOB)], env=environ, cwd=nodes.directory,
                          capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def run(directory, release="2.15", fuse=None, server_options=(), job="4711"):
    """
    The sample job in `directory`; (exit status, its output, {node: what FUSE itself counted}).

    `fuse`: None finds out whether FUSE is available.
    """
    with Nodes(directory, release, has_fuse() if fuse is None else fuse) as nodes:
        status, text = sample_job(nodes, job, server_options)
        return status, text, nodes.witness()


class OtherFileSystems:
    """
    A node's root with Lustre's counter files below `lustre`, and with those of an NFS mount and a
    local disk, which are SIMULATED: no program does anything there.
    """

    def __init__(self, directory, lustre, job):
        self.root, self.job, self.nfs = directory, job, NfsClient()
        for path in ("proc/fs", "proc/sys", "proc/mounts", "sys/kernel", "sys/fs/lustre"):
            link = directory / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(lustre / path)
        self.home = self.nfs.mount("nfs1:/home", "/home")
        self.nfs.now += 3600
        self.nfs.write_files(directory)
        write_disk_files(directory, job, 0, 0, 0, 0)

    def work(self):
        """A program is read from NFS, and writes temporary files to the disk."""
        for _ in range(23):
            self.home.read(128 << 10)
        self.home.call("GETATTR", 37, rtt_ms=11, execution_ms=13)
        self.nfs.now += 60
        self.nfs.write_files(self.root)
        write_disk_files(self.root, self.job, 0, 41 << 20, 0, 53)


def slow_job(nodes, job, kept):
    """
    The job with two faults: 23,000 writes of 8 KiB, all to one OST; (exit status, output).

    Its record and the configuration of its report are in `kept`.
    """
    kept.mkdir(parents=True, exist_ok=True)
    config = kept / "site.cfg"
    config.write_text(ADVICE + ("" if nodes.fuse else WITHOUT_TIMES))
    environ, state = nodes.environ(job), nodes.directory / "slow"
    roots = {node: OtherFileSystems(nodes.directory / f"root.{node}", nodes.mounts / node / "root",
                                    job) for node in NODES}

    def client(command, node):
        return [*CLIENT, *command, "--job", job, "--node", node,
                "--root", roots[node].root, "--state-dir", f"{state}.{node}"]

    def work(node):
        rank, scratch = NODES.index(node), nodes.mounts / node / "scratch"
        if not nodes.fuse:
            return [sys.executable, "-m", "simlustre", "--move", nodes.mounts / node, "scratch",
                    f"write_bytes={WRITES}x{WRITE_BYTES}@1", "open=1", "close=1"]
        return ["dd", "if=/dev/zero", f"of={scratch / 'all'}", f"bs={WRITE_BYTES}",
                f"count={WRITES}", f"seek={rank * WRITES}", "conv=notrunc", "status=none"]

    def begin(command):
        return subprocess.Popen([*map(str, command)], env=environ, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def on_each(command):
        """Run it for all nodes at once; their output."""
        running = [begin(command(node)) for node in NODES]
        return "".join(process.communicate(timeout=300)[0] for process in running)

    server = begin([*SERVER, "--quiet", "--job", job, "--nodes", "node[1-4]", "--config", config,
                    "--json", kept / f"{job}.json"])
    said = on_each(lambda node: client(["start"], node))
    watchers = [begin(client(["watch", "--every", "1"], node)) for node in NODES]
    said += on_each(work)
    for root in roots.values():
        root.work()
    said += on_each(lambda node: client(["stop", "--server", "127.0.0.1"], node))
    for watcher in watchers:
        watcher.communicate(timeout=60)
    return server.wait(120), said + server.stdout.read()


def page_of(job, kept):
    """(exit status, what `iostats report --html` said); the page is kept/JOB.html."""
    done = subprocess.run(
        [sys.executable, "-m", "iostats", "report", "--config", kept / "site.cfg",
         "--html", kept / f"{job}.html", kept / f"{job}.json"], env=environ_of_python(os.environ),
        capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    """The demo as a command; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].partition(".")[0])
    parser.add_argument("--release", default="2.15", help="Lustre release to play (2.15)")
    parser.add_argument("--no-fuse", action="store_true", help="change the counters by a script")
    parser.add_argument("--job", type=int, default=4711,
                        help="the first job's id, and so its ports; the second's: one more (4711)")
    parser.add_argument("--keep", type=Path, default=Path("build/demo"), metavar="DIR",
                        help="where the page and the record of the second job stay (build/demo)")
    options = parser.parse_args()
    print("Four simulated nodes share 23 files of 37 MiB: written, read back, 41 more\n"
          "opens, 13 directories.  So the table has to say 851.0 MiB, 851.0 MiB, 87 opens,\n"
          "23 files created, 13 mkdirs.\n", flush=True)
    fuse = not options.no_fuse and has_fuse()
    if not fuse:
        print("SIMULATED COUNTERS: the programs run on plain directories, and a\n"
              "script changes the counters.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="iostats-demo-") as directory:
        with Nodes(Path(directory) / "sample", options.release, fuse) as nodes:
            status, text = sample_job(nodes, str(options.job))
        print(f"{text}\nA job with two faults: the four nodes append to one file, which is on one\n"
              f"of four OSTs, {len(NODES) * WRITES:,} writes of {WRITE_BYTES >> 10} KiB (179.7 "
              f"MiB).  Its findings have to say just\nthese two.  The numbers of NFS and of local "
              f"disks are made up.\n", flush=True)
        job, kept = str(options.job + 1), options.keep.resolve()
        with Nodes(Path(directory) / "slow", options.release, fuse, SLOW_US) as nodes:
            second, text = slow_job(nodes, job, kept)
    print(text)
    made, said = page_of(job, kept)
    if made:
        print(said, end="")
    else:
        print(f"Its page, for a browser:  {kept / job}.html\n"
              f"More of it:               "
              + shlex.join([str(BIN / "iostats"), "report", "--long",
                            "--config", str(kept / "site.cfg"), str(kept / f"{job}.json")]))
    return status or second or made


if __name__ == "__main__":
    sys.exit(main())
