"""The commands of docs/tutorial, one after the other; each prints what the page shows below it."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
INSTALLED = re.compile(r"python3 -m venv|\.venv/bin/pip")   # as the tests' own environment is


def steps_of(page):
    """[(command, [line of its output])] of a tutorial."""
    steps = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ "):
            steps.append((line[6:], []))
        elif line.startswith("    "):
            steps[-1][1].append(line[4:])
    return steps


def shape(line):
    """A line without the host's name, rates, ratios, and the widths of columns.

    Two ratios count as one: `diff` has a second one, of the rates, where two jobs' times differ.
    """
    line = re.sub(r"\bon [\w-]+$", "on HOST", line)
    line = " ".join(re.sub(r"[\d.]+ [KMG]iB/s|1/[\d.]+|[\d.]+x", "#", line).split())
    return re.sub(r"#( #)+", "#", line)


@pytest.mark.fuse
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: prolog and epilog run as root")
@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE: /dev/fuse is missing")
@pytest.mark.parametrize("name", ["first_report", "first_site"])
def test_a_tutorial_works_as_it_stands(name, tmp_path):
    steps = [step for step in steps_of(HOME / f"docs/tutorial/{name}.md")
             if not INSTALLED.match(step[0])]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = "set -m\n" + "".join(f"{command}\necho \"== $?\"\n" for command, _ in steps)
    script = script.replace("/tmp/tour", str(tmp_path / "tour")).replace("19990", port).replace(
        ".venv/bin/", f"{Path(sys.executable).parent}/")
    environ = {key: value for key, value in os.environ.items()
               if not key.startswith(("SLURM_", "IOSTATS_"))}
    try:
        done = subprocess.run(["bash", "-c", script], cwd=HOME, capture_output=True, text=True,
                              env={**environ, "LC_ALL": "C.UTF-8"}, timeout=300)
    finally:
        for mount in (tmp_path / "tour").glob("*/root"):        # of a tutorial that failed
            subprocess.run([sys.executable, "-m", "simlustre", "--unmount", mount.parent],
                           cwd=HOME, check=False)
    results = re.split(r"^== (\d+)\n", done.stdout, flags=re.M)
    outputs, statuses = results[0:-1:2], results[1::2]
    assert ["0"] * len(steps) == statuses, done.stdout + done.stderr
    for (command, expected), output in zip(steps, outputs):
        # The report of `iostats run` goes to standard error.
        printed = [shape(line) for line in (output + done.stderr).replace(
            str(tmp_path), "/tmp").splitlines()]
        assert [] == [line for line in expected if shape(line) not in printed], (command, output)
    assert not (tmp_path / "tour").exists()
