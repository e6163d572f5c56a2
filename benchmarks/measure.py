"""
What the figures share: processes and their cost, pairs of runs, free ports, children that end.

The machine is never idle, so a figure is a ratio of runs that took turns (A B A B ...), and what
is printed is the median over the rounds.
"""

import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(HERE)
CLIENT = os.path.join(REPOSITORY, "iostats_client.py")
SERVER = os.path.join(REPOSITORY, "iostats_server.py")

# As on a node: the interpreter itself, without a virtual environment around it.
BARE_PYTHON = (getattr(sys, "_base_executable", None) or sys.executable, "-I", "-S")

_CHILD_ENDS_WITHIN_S = 10
_CHILD_LISTENS_WITHIN_S = 20

Table = namedtuple("Table", "title headers rows notes")
Table.__doc__ = """
What a figure prints.

Attributes:
    title: one line.
    headers, rows: as for tabulate.
    notes: lines below the table.
"""

Cost = namedtuple("Cost", "wall_s cpu_s")
Cost.__doc__ = "What one whole process took: on the clock, and user and system time."


class BenchmarkError(Exception):
    """A run that was to be measured did not do its work."""


def run_in_turn(processes):
    """[(number, ...)] that each process answers to a line `go`, one process after the other."""
    answers = []
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise BenchmarkError(f"{process.args}: exit status {process.wait()}")
        answers.append(tuple(map(float, line.split())))
    return answers


def environment():
    """For all children: no variable of ours or of a batch system, and this repository's code."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": "/nonexistent", "PYTHONPATH": REPOSITORY}


def cost_of(arguments):
    """Run a program to its end, with /dev/null for its output; its Cost."""
    actions = [(os.POSIX_SPAWN_OPEN, handle, os.devnull, os.O_RDWR, 0) for handle in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(arguments[0], arguments, environment(), file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    wall_s = time.perf_counter() - began
    if status:
        raise BenchmarkError(f"{' '.join(arguments)}: exit status "
                             f"{os.waitstatus_to_exitcode(status)}")
    return Cost(wall_s, used.ru_utime + used.ru_stime)


# A new process has the peak of the one that started it (ru_maxrss), so a small one stands between.
_LAUNCHER = """
import os, resource, subprocess, sys
status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(int(sys.argv[1]), b"%f %d" % (used.ru_utime + used.ru_stime, used.ru_maxrss))
sys.exit(status)
"""


def measure_process(arguments, given="", cwd=None, env=None):
    """(CPU seconds, MiB at the peak) of a whole process that reads the text `given`."""
    reads, writes = os.pipe()
    with open(reads, encoding="ascii") as file:
        try:
            status = subprocess.run(
                [*BARE_PYTHON, "-c", _LAUNCHER, str(writes), *map(str, arguments)], input=given,
                text=True, cwd=cwd, env=env or environment(), pass_fds=(writes,)).returncode
        finally:
            os.close(writes)
        if status:
            raise BenchmarkError(f"{' '.join(map(str, arguments))}: exit status {status}")
        seconds, peak_kib = file.read().split()
    return float(seconds), int(peak_kib) / 1024


def peak_mib():
    """The most memory that this process has had."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def cpu_s(process):
    """User and system time of a running Popen so far, in nanoseconds: clock_getcpuclockid(3)."""
    return time.clock_gettime(~process.pid << 3 | 2)


def median_ratio(ours, peers):
    """The median of the ratios of each round."""
    return statistics.median(a / b for a, b in zip(ours, peers))


def free_port():
    """A free port of the loopback, of those that the kernel gives to no connection."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Server:
    """
    A child that listens on a port of the loopback; stopped at the end of the `with`.

    Attributes:
        port: where it listens.
        output, output_at: its standard output, and when (time.monotonic) the last of it came.
    """

    def __init__(self, arguments, port):
        self.port, self.output, self.output_at = port, b"", None
        self._used = self._cpu_before_s = None
        self._arguments = arguments

    def _read(self):
        while True:
            part = os.read(self._child.stdout.fileno(), 1 << 16)
            if not part:
                return
            self.output_at = time.monotonic()
            self.output += part

    def __enter__(self):
        # A signal between the child's start and the `try` would leave it running.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._child = subprocess.Popen(
                self._arguments, env=environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING))
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            self._wait_until_it_listens()
        except BaseException:                   # also of a signal that ends the benchmark
            self.__exit__()
            raise
        return self

    def _wait_until_it_listens(self):
        ends_at = time.monotonic() + _CHILD_LISTENS_WITHIN_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            if time.monotonic() > ends_at or self._ended():
                raise BenchmarkError(f"{self._child.args}: does not listen on {self.port}")
            time.sleep(0.02)
        self._cpu_before_s = self._cpu_s()

    def _ended(self):
        if self._used is None:
            pid, status, used = os.wait4(self._child.pid, os.WNOHANG)
            if pid:
                self._used, self._child.returncode = used, os.waitstatus_to_exitcode(status)
        return self._used is not None

    def _cpu_s(self):
        with open(f"/proc/{self._child.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_s_so_far(self):
        """CPU seconds since it listened, in the kernel's ticks (10 ms)."""
        return self._cpu_s() - self._cpu_before_s

    def peak_bytes(self):
        """The most memory that it has had so far."""
        with open(f"/proc/{self._child.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

    def wait(self, within_s=_CHILD_ENDS_WITHIN_S):
        """Wait for its end: (peak memory in bytes, CPU seconds since it listened)."""
        ends_at = time.monotonic() + within_s
        while not self._ended():
            if time.monotonic() > ends_at:
                raise BenchmarkError(f"{self._child.args}: has not ended in {within_s} s")
            time.sleep(0.005)
        self._reader.join(within_s)
        cpu_s = self._used.ru_utime + self._used.ru_stime - self._cpu_before_s
        return self._used.ru_maxrss * 1024, cpu_s

    def __exit__(self, *_):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._ended():
                self._child.send_signal(number)
                with contextlib.suppress(BenchmarkError):
                    self.wait(3)
        self._reader.join(3)
        self._child.stdout.close()


def run_child(file, *arguments):
    """Run a benchmark's file in a process of its own; return the JSON that it prints."""
    done = subprocess.run([sys.executable, os.path.abspath(file), *map(str, arguments)], cwd=HERE,
                          env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise BenchmarkError(f"{os.path.basename(file)} {' '.join(map(str, arguments))}: "
                             f"{done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def load(spec, directory, within_s=300):
    """Run load.py in a process of its own; what it says, see there."""
    path = os.path.join(directory, "load.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    done = subprocess.run([sys.executable, os.path.join(HERE, "load.py"), path],
                          env=environment(), stdout=subprocess.PIPE, timeout=within_s, check=False)
    if done.returncode:
        raise BenchmarkError(f"load.py: exit status {done.returncode}")
    said = json.loads(done.stdout)
    if said["failed"]:
        raise BenchmarkError(f"load.py: {said['failed']} conversations failed: {said['why']}")
    return said
