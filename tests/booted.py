"""
A machine with a booted systemd, for the tests: Debian's own, in namespaces, over a copy of this
machine's file system that is thrown away (booted.sh).  `make install-...` is run in it as the
documents say; its packages come from what these tests have themselves, as wheels, by pip's own
options (PIP_FIND_LINKS), so that no network is needed.
"""

import base64
import contextlib
import hashlib
import importlib.metadata
import os
import re
import select
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest
from processes import until

from iostats import sinks

REPOSITORY = Path(__file__).resolve().parents[1]
SYSTEMD = "/lib/systemd/systemd"
WEB_PACKAGES = ("markdown-it-py", "starlette", "uvicorn")       # beside those of the server
SITE_PACKAGES = ("SQLAlchemy", "alembic")                       # the same, on the site's host
POSTGRESQL_PACKAGES = ("psycopg", "psycopg-binary")             # the same, of its store
SERVER_PACKAGES = ("ClusterShell", "httptools", "Jinja2", "msgspec", "numpy", "rich", "tabulate",
                   "uvloop",
                   *filter(None, (sinks.get_package(sinks.find_sink(name))
                                  for name in sinks.list_names())))
_WITHIN_S = 120                                     # for whatever is waited for; a busy machine

Done = namedtuple("Done", "status out err")


def why_not():
    """Why no systemd can be booted here; "" where it can."""
    missing = [tool for tool in ("unshare", "nsenter", "setpriv", "pgrep", "ip", "make", "munged")
               if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    if os.geteuid():
        return "needs root, for namespaces"
    if missing or not os.path.exists(SYSTEMD):
        return f"needs {' '.join(missing) or SYSTEMD} (make setup)"
    return ""


@contextlib.contextmanager
def booted(directory):
    """A Machine, until the end; the test is skipped where there can be none."""
    if why_not():
        pytest.skip(why_not())
    wheels = directory / "wheels"
    top = directory / "top"
    top.mkdir()
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "bash",
             REPOSITORY / "tests/booted.sh", top, REPOSITORY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        ready, _, _ = select.select([process.stdout], [], [], _WITHIN_S)
        line = process.stdout.readline() if ready else ""
        if not line.startswith("up "):
            said = (directory / "log").read_text()[-2000:]
            if "Operation not permitted" in said or "permission denied" in said:
                pytest.skip(f"no systemd can be booted here: {said.strip()[-200:]}")
            pytest.fail(f"no systemd was booted: {said}")
        machine = Machine(int(line.split()[1]), top)
        machine.until(lambda: machine("systemctl", "is-system-running", "--wait").status == 0)
        make_wheels(wheels)
        for wheel in wheels.iterdir():
            machine.put(f"/opt/wheels/{wheel.name}", wheel.read_bytes())
        yield machine
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class Machine:
    """What can be done in it, as root."""

    def __init__(self, pid, top):
        self.root = Path(f"/proc/{pid}/root")
        self.debugfs = self.path("/sys/kernel/debug")
        self._enter = ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-C", "-w"]
        # The Python of the tests, where that of the system can't use their packages.
        self.python = "/usr/bin/python3"
        version = subprocess.run([self.python, "-c", "import ensurepip, sys; "
                                  "print(*sys.version_info[:2])"],
                                 capture_output=True, text=True).stdout
        if version.split() != [str(part) for part in sys.version_info[:2]]:
            self.python = os.path.realpath(sys.executable)

    def path(self, path):
        return self.root / path.lstrip("/")

    def __call__(self, *command, user=None, env=None, stdin="", status=None):
        """Run a command there; the Done.  `status`: what it has to end with."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
                   "--inh-caps=-all", "--bounding-set=-all"] if user else []
        done = subprocess.run(
            [*self._enter, *as_user, *map(str, command)], input=stdin, capture_output=True,
            text=True, timeout=600, env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:"
                                         "/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                                         "HOME": f"/home/{user}" if user else "/root",
                                         **(env or {})})
        found = Done(done.returncode, done.stdout, done.stderr)
        assert status in (None, found.status), (command, found, self.journal())
        return found

    def make(self, *words, status=0):
        """`make` in the checkout, as its documents say."""
        return self("make", "-s", "-C", REPOSITORY, *words, f"UNIT_PYTHON={self.python}",
                    env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/opt/wheels",
                         "PIP_NO_CACHE_DIR": "1"}, status=status)

    def put(self, path, data, mode=0o644):
        """A file, with the directories above it."""
        at = self.path(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data if isinstance(data, bytes) else data.encode())
        at.chmod(mode)

    def journal(self, *units):
        named = [word for unit in units for word in ("-u", unit)]
        return subprocess.run([*self._enter, "journalctl", "--no-pager", "-o", "cat", "-n", "60",
                               *named], capture_output=True, text=True).stdout

    def is_active(self, unit):
        return self("systemctl", "is-active", unit).out.strip()

    def property(self, unit, name):
        return self("systemctl", "show", "-P", name, unit).out.strip()

    def files(self):
        """{path} of all that is below the directories where programs, settings and data lie."""
        return {os.path.join(directory, name).replace(str(self.root), "", 1)
                for top in ("/etc", "/usr/local", "/var/lib", "/opt", "/run/systemd/system")
                for directory, below, names in os.walk(self.path(top))
                for name in below + names}

    def until(self, is_so, *units):
        """Wait until `is_so()`."""
        until(is_so, _WITHIN_S, lambda: f"what is waited for ({self.journal(*units)})")


# -- wheels ------------------------------------------------------------------------------------

def make_wheels(directory):
    """The packages of the server, as they are installed here, and what they need, as wheels."""
    directory.mkdir()
    wanted, done = [*SERVER_PACKAGES, *SITE_PACKAGES, *POSTGRESQL_PACKAGES, *WEB_PACKAGES], set()
    while wanted:
        name = wanted.pop()
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:     # of another system or Python
            continue
        if one.metadata["Name"] in done:
            continue
        done.add(one.metadata["Name"])
        _wheel(one, directory)
        wanted += [re.match(r"[\w.-]+", text).group() for text in one.requires or ()
                   if "extra ==" not in text]


def _wheel(one, directory):
    """Its files, zipped.  Source: packaging.python.org, "Binary distribution format"."""
    tags = [tag.split("-") for tag in re.findall(r"(?m)^Tag: (\S+)", one.read_text("WHEEL"))]
    tag = "-".join(".".join(dict.fromkeys(parts)) for parts in zip(*tags))
    stem = re.sub(r"[^\w.]+", "_", one.metadata["Name"]) + "-" + one.version
    info = next(file.parts[0] for file in one.files if file.name == "METADATA")
    record = []
    with zipfile.ZipFile(directory / f"{stem}-{tag}.whl", "w") as wheel:
        for file in one.files:
            if (file.parts[0] == ".." or file.suffix == ".pyc"
                    or file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")):
                continue
            data = file.locate().read_bytes()
            name = "/".join(file.parts)
            if file.parts[0] == info:
                name = "/".join((f"{stem}.dist-info", *file.parts[1:]))
            wheel.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        record.append(f"{stem}.dist-info/RECORD,,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(record))
