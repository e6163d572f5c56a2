"""
make demo: sample_job.sh over four simulated nodes, and the table that says what it did.

Each node is a FUSE mount that keeps Lustre's counters while ordinary programs (dd, mkdir, the
shell) work in it; all four see the same files.  Without FUSE the same programs run on plain
directories, and a script changes the counters; the output says so, because this proves less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
NODES = ("node1", "node2", "node3", "node4")


def simlustre(*arguments, check=True):
    """Run `python -m simlustre`; the finished process."""
    return subprocess.run([sys.executable, "-m", "simlustre", *map(str, arguments)], cwd=HOME,
                          check=check, capture_output=True, text=True)


def run(directory, release="2.15", fuse=None, server_options=(), say=print,
        job="4711"):
    """
    The sample job in `directory`; (exit status, its output, {node: what FUSE itself counted}).

    `fuse`: None finds out whether FUSE is available.
    """
    nodes = directory / "nodes"
    nodes.mkdir()
    if fuse is None:
        asked = simlustre("--check", check=False)
        fuse = asked.returncode == 0
        if not fuse:
            say(f"FUSE is not available here ({(asked.stderr or asked.stdout).strip()}).\n"
                f"SIMULATED COUNTERS: the programs run on plain directories, and a script changes "
                f"the counters.\n")
    common = ["--fs", "scratch", "--release", release]
    mounted = []
    try:
        for node in NODES:
            (nodes / node).mkdir()
            if fuse:
                simlustre("--backing", directory / "data", "--mount", nodes / node, *common)
                mounted.append(nodes / node)
            else:
                simlustre("--static", "--mount", nodes / node, *common)
                (nodes / node / "scratch" / f"iostats-sample-{job}").mkdir(parents=True)
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SLURM_", "PBS_", "IOSTATS_"))}
        environ.update(
            JOB=job, LAUNCH=str(HOME / "tools" / "on_nodes"), NODES="node[1-4]",
            NODES_DIR=str(nodes), DATA=str(nodes / "node1" / "scratch"), SERVER_HOST="127.0.0.1",
            PYTHON=sys.executable, HOME=str(directory), PYTHONPATH=str(HOME),
            IOSTATS_NODE_STATE_DIR=str(directory / "state"),
            IOSTATS_SERVER_OPTIONS=" ".join(server_options))
        if not fuse:
            environ["DEMO_NO_FUSE"] = "1"
        done = subprocess.run(["bash", str(HOME / "sample_job.sh")], env=environ, cwd=directory,
                              capture_output=True, text=True, timeout=600)
        witness = {mount.name: json.loads((mount / "truth.json").read_text())["scratch"]
                   for mount in mounted}
        return done.returncode, done.stdout + done.stderr, witness
    finally:
        for mount in mounted:
            simlustre("--unmount", mount, check=False)


def main():
    """The demo as a command; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].partition(".")[0])
    parser.add_argument("--release", default="2.15", help="Lustre release to play (2.15)")
    parser.add_argument("--no-fuse", action="store_true", help="change the counters by a script")
    parser.add_argument("--job", default="4711", help="its job id, and so its ports (4711)")
    options = parser.parse_args()
    print("Four simulated nodes share 23 files of 37 MiB: written, read back, 41 more opens,\n"
          "13 directories.  So the table has to say 851.0 MiB, 851.0 MiB, 87 opens, 23 files "
          "created,\n13 mkdirs.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="iostats-demo-") as directory:
        if options.no_fuse:
            print("SIMULATED COUNTERS: the programs run on plain directories, and a script changes "
                  "the counters.\n")
        status, text, _ = run(Path(directory), options.release, False if options.no_fuse else None,
                              job=options.job)
    print(text, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
