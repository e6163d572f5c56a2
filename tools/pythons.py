"""
The tests of the node side with Python 3.9, which nodes may have, and those of the pure modules with
the newest one.  Random cases are fewer than in `make test`.

    python tools/pythons.py           which they are, and where: "3.9.18 /usr/bin/python3.9"
    python tools/pythons.py test      run the tests with each of them; with "oldest" after it, with
                                      Python 3.9 alone

They are looked for on PATH and among pyenv's versions.  Each gets a virtual environment below
.venv, with the packages of tools/requirements-ci.txt.  What is not found, what these packages
cannot be installed for, and the Python that .venv itself has, which runs all tests anyway, is left
out with a line that says so.
"""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME / "tools"))
import rooms

OLDEST = (3, 9)
VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
# Real clusters, databases and mounts are tested once, by `make test`.
WITHOUT = ("browser", "etcd", "fuse", "ganglia", "gridengine", "ldms", "mpi", "munge",
           "prometheus", "slurm", "strace", "systemd", "victoria")


def found(environ=os.environ):
    """{(3, 9, 18): path} of each Python 3.9 or newer of this machine; a release once."""
    roots = [environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    if shutil.which("pyenv"):
        roots.insert(0, subprocess.run(["pyenv", "root"], capture_output=True,
                                       text=True).stdout.strip())
    paths = [path for root in roots if root
             for path in sorted(glob.glob(f"{root}/versions/3.*/bin/python3"))]
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 30))]
    paths += filter(None, map(shutil.which, names))
    releases = {}
    for path in paths:
        try:
            done = subprocess.run([path, "-I", "-S", "-c", VERSION], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0:
            release = tuple(map(int, done.stdout.split(".")))
            if release >= OLDEST:
                releases.setdefault(release, path)
    return releases


def chosen(releases, own=sys.version_info[:3]):
    """([(release, path)] of 3.9 and the newest, [what is left out, and why])."""
    wanted, left_out = [], []
    oldest = [release for release in releases if release[:2] == OLDEST]
    if not oldest:
        left_out.append("Python 3.9: there is none on PATH or among pyenv's versions")
    for release in {*sorted(oldest)[-1:], *([max(releases)] if releases else [])}:
        if release[:2] == own[:2]:
            left_out.append(f"Python {named(release)}: `make test` runs with it")
        else:
            wanted.append((release, releases[release]))
    return sorted(wanted), left_out


def named(release):
    return ".".join(map(str, release))


def ready(release, path):
    """
    The python of this release's virtual environment, made if it is not there.

    Raises subprocess.CalledProcessError where it or its packages cannot be installed.
    """
    venv = HOME / ".venv" / f"python{named(release)}"
    stamp, lock = venv / "ready", HOME / "tools/requirements-ci.txt"
    python = venv / "bin/python"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        quietly = str(HOME / "tools/quietly")
        subprocess.run([quietly, path, "-m", "venv", str(venv)], check=True)
        subprocess.run([quietly, str(python), "-m", "pip", "install",
                        "--disable-pip-version-check", "--require-hashes", "--only-binary",
                        ":all:", "-r", str(lock)], check=True)
        stamp.touch()
    return python


def main():
    """Print what there is, or run the tests; the exit status."""
    wanted, left_out = chosen(found())
    for line in left_out:
        print(f"pythons: left out: {line}")
    failed = 0
    if sys.argv[2:] == ["oldest"]:
        wanted = [(release, path) for release, path in wanted if release[:2] == OLDEST]
    for release, path in wanted:
        print(f"{named(release)} {path}", flush=True)
        if sys.argv[1:2] == ["test"]:
            tests = dict.fromkeys(map(str, rooms.tests_of_nodes() if release[:2] == OLDEST
                                      else rooms.tests_of_pure()))
            without = " and ".join(f"not {mark}" for mark in WITHOUT)
            try:
                python = ready(release, path)
            except subprocess.CalledProcessError as error:
                print(f"pythons: left out: Python {named(release)}: its packages cannot be "
                      f"installed: {' '.join(map(str, error.cmd[1:4]))} ... ended with status "
                      f"{error.returncode}")
                continue
            failed |= subprocess.run(
                [python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                 f"--numprocesses={3 * (os.cpu_count() or 1)}", "-m", without, *tests],
                cwd=HOME, env={**os.environ, "IOSTATS_EXAMPLES": "20"}).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
