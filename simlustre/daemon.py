"""
Start a mount in the background, check whether FUSE is available, and unmount.

The parent waits on a pipe: the child sends READY from FUSE's init callback, or what libfuse
had to say on stderr, and then ends.
"""
from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile

from .network import NetworkError

READY = b"\0ready\n"
GONE_WITHIN_S = 10


class MountError(Exception):
    """The mount is not possible; the message is for the user."""


def find_problem() -> str:
    """Why FUSE is not available here, as far as can be seen without mounting; "" if it is."""
    if not sys.platform.startswith("linux"):
        return "FUSE mounts are for Linux only"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"cannot open /dev/fuse: {error.strerror}"
    # libfuse 3 takes requests of 1 MiB, libfuse 2 of 128 KiB; mfusepy would take 2 first.
    from ctypes.util import find_library
    if find_library("fuse3"):
        os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    try:
        import mfusepy  # noqa: F401  looks for libfuse when imported
    except ImportError:
        return "the Python package mfusepy is not installed (pip install mfusepy)"
    except (OSError, AttributeError) as error:
        return f"libfuse cannot be used: {error} (install fuse3)"
    if os.geteuid() != 0 and not (shutil.which("fusermount3") or shutil.which("fusermount")):
        return "no fusermount3 for an ordinary user (install fuse3)"
    return ""


def check() -> str:
    """find_problem(), and a trial: only mounting shows whether mounting is allowed."""
    problem = find_problem()
    if problem:
        return problem
    with tempfile.TemporaryDirectory(prefix="simlustre-") as directory:
        mount_point = os.path.join(directory, "mount")
        os.mkdir(mount_point)
        command = [sys.executable, "-m", "simlustre", "--backing",
                   os.path.join(directory, "backing"),
                   "--mount", mount_point, "--fs", "trial"]
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        trial = subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd=here)
        if trial.returncode:
            return trial.stderr.strip().partition("simlustre: ")[2] or trial.stderr.strip()
        unmount(mount_point)
    return ""


def start(serve, mount_point: str, log: str) -> None:
    """
    Run serve(ready) in a process of its own; return when `ready` was called there.

    What goes wrong later is written to the file `log`.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    if os.fork() == 0:
        _become_daemon(serve, reading, writing, log)
    os.close(writing)
    said = b""
    while READY not in said:
        piece = os.read(reading, 65536)
        if not piece:
            lines = [line for line in said.decode(errors="replace").split("\n") if line.strip()]
            reason = lines[0] if lines else "no reason given"
            raise MountError(f"{mount_point}: cannot mount: {reason}")
        said += piece
    os.close(reading)
    os.stat(mount_point)                # answered only by a mount that works


def _become_daemon(serve, reading: int, writing: int, log: str):
    def ready():
        os.write(writing, READY)
        os.close(writing)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)

    status = 1
    try:
        os.close(reading)
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(writing, 2)
        os.set_inheritable(writing, False)
        serve(ready)
        status = 0
    except RuntimeError:                # mfusepy's; libfuse has printed the reason on stderr
        pass
    except NetworkError as error:
        os.write(2, f"{error}\n".encode())
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def is_mounted(mount_point: str) -> bool:
    """Asks /proc, not the mount, which may be dead and hang."""
    escaped = mount_point.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    with open("/proc/self/mounts", errors="surrogateescape") as mounts:
        return any(line.split(" ")[1:3] == [escaped, "fuse.simlustre"] for line in mounts)


def unmount(mount_point: str) -> str:
    """Unmount and wait until the process has gone; returns a remark for the user, or ""."""
    if not is_mounted(mount_point):
        raise MountError(f"{mount_point}: no simlustre is mounted there")
    process = _process_of(mount_point)
    remark = ""
    try:
        _umount(mount_point, [], ["-u"])
    except MountError as error:
        _umount(mount_point, ["-l"], ["-u", "-z"])
        remark = f"{error}; unmounted as soon as it is no longer used (lazily)"
    if process is not None:
        gone = select.poll()
        gone.register(process, select.POLLIN)
        if not gone.poll(GONE_WITHIN_S * 1000):
            remark = f"{mount_point}: unmounted, but its process waits for open files"
        os.close(process)
    return remark


def _process_of(mount_point: str):
    """A pidfd of the mount's process, or None: it has gone, or is in another PID namespace."""
    try:
        with open(os.path.join(mount_point, "root", ".sim.json")) as file:
            pid = json.load(file)["pid"]
        process = os.pidfd_open(pid)
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"simlustre" in file.read():
                return process
        os.close(process)
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    return None


def _umount(mount_point: str, umount_options: list, fusermount_options: list) -> None:
    commands = [[name, *fusermount_options, mount_point]
                for name in ("fusermount3", "fusermount") if shutil.which(name)]
    if os.geteuid() == 0:
        commands.insert(0, ["umount", *umount_options, mount_point])
    reason = "no umount or fusermount3 found"
    for command in commands:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return
        reason = done.stderr.strip().partition("\n")[0]
    raise MountError(reason)
