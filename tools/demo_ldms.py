"""
make demo-ldms: a cluster's monitoring on this machine, described by one file, through failures.

Eight simulated samplers (ldmsd, by simldms) have a metric set each, three simulated aggregators
collect them, and two instances of `iostats ldms run` share the work by a real etcd.  An aggregator
is killed and comes back, an instance is killed, and the file is changed while all runs.  Each time
all sets have to be collected again, each by one aggregator, and what stays has to be left alone.

With --real the samplers and aggregators are those of LDMS (4.4 or 4.5), whose ldmsd is on PATH.

exit status: 0 no set was lost   1 one was, or it can't be shown here; a line says what
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

from iostats_ldms.control import queries
from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import ControlError

SAMPLERS = [f"node-{n}" for n in range(1, 9)]
AGGREGATORS = [f"agg-{n}" for n in range(1, 4)]
KILLED = "agg-2"
SETS = [f"{name}/mem" for name in SAMPLERS]
WITHIN_S = 60.0                                   # of a loaded machine; as a rule it is 2 to 8
FRESH_S = 3.0

DESCRIPTION = """\
daemons:
  - names: "node-[1-8]"
    hosts: 127.0.0.1
    endpoints: [{{names: "node-[1-8]", ports: "{samplers}", maestro_comm: true}}]
  - names: "agg-[1-3]"
    hosts: 127.0.0.1
    endpoints: [{{names: "agg-[1-3]", ports: "{aggregators}", maestro_comm: true}}]

samplers:
  - {{daemons: "node-[1-8]", plugins: [mem]}}

plugins:
  mem: {{name: meminfo, interval: {interval}, offset: 0s, config: [{{schema: meminfo}}]}}

aggregators:
  - daemons: "agg-[1-3]"
    peers:
      - {{endpoints: "node-[1-8]", type: active, reconnect: 1s,
         updaters: [{{mode: pull, interval: {interval}, offset: 100ms}}]}}
"""


class Failed(Exception):
    """The demo can't go on; the message says why."""


class Cluster:
    """All that runs, below one directory; `is_real`: by LDMS' own ldmsd."""

    def __init__(self, directory, is_real=False):
        self.directory, self.is_real = directory, is_real
        self.started, self.is_interrupted = {}, False
        names = [*SAMPLERS, *AGGREGATORS, "etcd", "peers"]
        self.ports = dict(zip(names, free_ports(len(names))))
        self.etcd = f"http://127.0.0.1:{self.ports['etcd']}"
        (directory / "site.cfg").write_text(
            f"[etcd]\nendpoints = {self.etcd}\nprefix = orion\n[ldms]\npoll = 1\nlease = 3\n")
        self.describe("1s")

    def describe(self, interval):
        (self.directory / "cluster.yaml").write_text(DESCRIPTION.format(
            interval=interval, samplers=",".join(str(self.ports[name]) for name in SAMPLERS),
            aggregators=",".join(str(self.ports[name]) for name in AGGREGATORS)))

    def start(self, name, *command):
        """A process of this name; what it prints is in NAME.log."""
        self.go_on()
        with open(self.directory / f"{name}.log", "ab") as log:
            self.started[name] = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd=self.directory, env=self._environment())

    def start_ldmsd(self, name):
        """A daemon that listens, and has nothing else."""
        if self.is_real:
            conf = self.directory / f"{name}.conf"
            conf.write_text(f"listen xprt=sock port={self.ports[name]} host=127.0.0.1\n")
            self.start(name, "ldmsd", "-F", "-c", conf, "-n", name, "-v", "ERROR",
                       "-l", self.directory / f"{name}.ldmsd.log",
                       "-r", self.directory / f"{name}.pid")
            return
        self.start(name, sys.executable, "-m", "simldms", "-x", f"sock:{self.ports[name]}",
                   "-n", name)

    def start_etcd(self):
        peers = f"http://127.0.0.1:{self.ports['peers']}"
        self.start("etcd", "etcd", "--data-dir", self.directory / "etcd",
                   "--listen-client-urls", self.etcd, "--advertise-client-urls", self.etcd,
                   "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                   "--initial-cluster", f"default={peers}")

    def start_instance(self, name):
        self.start(name, sys.executable, "-m", "iostats", "ldms", "run", "--config", "site.cfg")

    def interrupt(self, *_):
        """A signal came: it is looked at where nothing is half started."""
        self.is_interrupted = True

    def go_on(self):
        if self.is_interrupted:
            raise KeyboardInterrupt

    def kill(self, name):
        process = self.started.pop(name)
        process.kill()
        process.wait()

    def iostats(self, *words):
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "iostats", *words, "--config", "site.cfg"], text=True,
            stdin=subprocess.DEVNULL, capture_output=True, cwd=self.directory,
            env=self._environment(), start_new_session=True)
        if done.returncode:
            raise Failed(f"iostats {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def show(self, *words, when=None):
        """Print a command and what it prints, once that is as it should be."""
        def text():
            found = self.iostats(*words)
            return found if when is None or when(found) else None
        found, _ = self.until(text, f"what `iostats {' '.join(words)}` is to show")
        print(f"$ iostats {shlex.join(words)}\n{found.rstrip()}\n", flush=True)
        return found

    def until(self, true, what):
        """The first true value of `true()`, and how many seconds it took."""
        began = time.monotonic()
        while time.monotonic() < began + WITHIN_S:
            self.go_on()
            for name, process in self.started.items():
                if process.poll() is not None:
                    raise Failed(f"{name} ended with status {process.returncode}: "
                                 + self.log(name))
            value = true()
            if value:
                return value, time.monotonic() - began
            time.sleep(0.1)
        raise Failed(f"{what} did not happen within {WITHIN_S:g} s: {self.log('run-1')}")

    def log(self, name):
        """The last line that a process printed."""
        return (self.directory / f"{name}.log").read_text(errors="replace").strip()[-300:]

    def close(self):
        for name in list(self.started):
            self.kill(name)

    def _environment(self):
        return {**os.environ, "PYTHONPATH": str(HOME)}


def free_ports(count):
    """
    That many ports of 127.0.0.1 that are free just now, above those of jobs, and below those that
    connections are given: one of these could be taken before a daemon listens there.
    """
    found, held = [], []
    try:
        for port in random.sample(range(30_000, 32_768), 1000):
            one = socket.socket()
            held.append(one)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
        raise OSError("no port of 127.0.0.1 is free")
    finally:
        for one in held:
            one.close()


async def _seen(ports):
    async def one(port):
        try:
            connection = await Connection.open("127.0.0.1", port, answer_within_s=2.0)
        except ControlError:
            return None
        try:
            return await queries.read_observed_state(connection, with_sets=True)
        except ControlError:
            return None
        finally:
            connection.close()
    return await asyncio.gather(*map(one, ports))


def seen(cluster, names):
    """{name: control.asking.ObservedState} of the daemons that answer."""
    found = asyncio.run(_seen([cluster.ports[name] for name in names]))
    return {name: one for name, one in zip(names, found) if one is not None}


def collected(cluster):
    """{set: the aggregators that have it, and not an old one}."""
    now, found = time.time(), {}
    for name, one in seen(cluster, AGGREGATORS).items():
        for each in one.sets:
            if each.sampled_s > now - FRESH_S:
                found.setdefault(each.instance, []).append(name)
    return found


def all_once(cluster):
    """collected(), where it is each set by one aggregator; else None."""
    found = collected(cluster)
    return found if sorted(found) == sorted(SETS) and all(
        len(names) == 1 for names in found.values()) else None


def of_each(found):
    """A line for each aggregator: what it has."""
    return "\n".join(f"  {name}: " + " ".join(sorted(
        instance.partition("/")[0] for instance, [one] in found.items() if one == name))
        for name in AGGREGATORS if [name] in found.values())


def counters(cluster, names):
    """{name: how many changes it has carried out}."""
    return {name: one.config_counter for name, one in seen(cluster, names).items()}


def moved_needlessly(before, after, why, *, from_=None, to=None):
    """
    A line for each set that has another aggregator than before: but for those of `from_`, or those
    that went `to`.
    """
    return [f"{instance} was moved from {before[instance][0]} to {after[instance][0]}: {why}"
            for instance in sorted(before) if before[instance] != after[instance]
            and [from_] != before[instance] and [to] != after[instance]]


def told_wrongly(before, after, expected):
    """A line where the counters rose by more or less than `expected`."""
    told = sum(after.get(name, 0) - before[name] for name in before)
    return [] if told == expected else [
        f"{' and '.join(before)} carried out {told} changes; expected {expected}, the starts of "
        f"{expected} producers"]


def rows_of(text):
    """{aggregator: its state} of `iostats ldms status`."""
    return dict(re.findall(r"^  (agg-\d)\s+(\w+)", text, re.MULTILINE))


def owner(cluster, text):
    """The name of the instance that cares for the aggregators, as `iostats ldms status` says."""
    found = re.search(r"aggregators .* by \S+\.(\d+)$", text, re.MULTILINE)
    return next((name for name, process in cluster.started.items()
                 if found and process.pid == int(found[1])), None)


def demo(cluster):
    """All of it, on the screen; what was wrong, one line each."""
    kind = "real" if cluster.is_real else "simulated"
    print(f"Eight {kind} samplers, three {kind} aggregators, a real etcd, and two\n"
          "instances of `iostats ldms run`; cluster.yaml says what is to be.\n", flush=True)
    cluster.start_etcd()
    for name in (*SAMPLERS, *AGGREGATORS):
        cluster.start_ldmsd(name)
    cluster.until(lambda: _is_up(cluster.ports["etcd"]), "etcd")
    cluster.show("ldms", "load", "cluster.yaml")
    for name in ("run-1", "run-2"):
        cluster.start_instance(name)
    whole, took = cluster.until(lambda: all_once(cluster), "that all sets are collected")
    print(f"After {took:.1f} s each of the 8 sets is collected, by one aggregator:\n"
          f"{of_each(whole)}\n", flush=True)
    less, wrong = one_dies(cluster, whole)
    again, more = it_comes_back(cluster, less)
    return wrong + more + twice_as_often(cluster, again)


def one_dies(cluster, before):
    """(what is collected then, what was wrong)."""
    stay = [name for name in AGGREGATORS if name != KILLED]
    had = sum(names == [KILLED] for names in before.values())
    changes = counters(cluster, stay)
    cluster.kill(KILLED)
    after, took = cluster.until(lambda: all_once(cluster), f"that others have {KILLED}'s sets")
    wrong = moved_needlessly(before, after, "both run", from_=KILLED)
    wrong += told_wrongly(changes, counters(cluster, stay), had)
    print(f"kill -9 of {KILLED}, which had {had}: after {took:.1f} s the others have them, and\n"
          f"were told nothing but to start them:\n{of_each(after)}\n", flush=True)
    cluster.show("ldms", "status", when=lambda text: rows_of(text).get(KILLED) == "down")
    return after, wrong


def it_comes_back(cluster, before):
    """(what is collected then, what was wrong)."""
    cluster.start_ldmsd(KILLED)

    def has_share():
        found = all_once(cluster)
        return found if found and [KILLED] in found.values() else None
    after, took = cluster.until(has_share, f"that {KILLED} has its share")
    print(f"{KILLED} comes back, and after {took:.1f} s it has its share:\n"
          f"{of_each(after)}\n", flush=True)
    return after, moved_needlessly(before, after, f"{KILLED} came back", to=KILLED)


def twice_as_often(cluster, before):
    """The file is changed, and an instance dies; what was wrong."""
    own = owner(cluster, cluster.iostats("ldms", "status")) or "run-1"
    cluster.describe("500ms")
    cluster.kill(own)
    cluster.show("ldms", "load", "cluster.yaml", "--note", "twice as often")
    _, took = cluster.until(lambda: has_new_interval(cluster), "the new interval")
    print(f"The instance that cared for the aggregators was killed just before.  The other\n"
          f"one has taken over, and after {took:.1f} s all samplers and updaters have the new\n"
          "interval.\n", flush=True)
    after, _ = cluster.until(lambda: all_once(cluster), "that all sets are collected")
    cluster.show("ldms", "status", when=lambda text: "still description" not in text
                 and set(rows_of(text).values()) == {"up"})
    return moved_needlessly(before, after, "an interval was changed")


def has_new_interval(cluster):
    """Whether each sampler samples, and each updater updates, every 500 ms."""
    found = seen(cluster, [*SAMPLERS, *AGGREGATORS])
    return len(found) == len(SAMPLERS) + len(AGGREGATORS) and all(
        one.update_hint_us == 500_000 for name in SAMPLERS for one in found[name].sets) and all(
        updater.interval_us == 500_000 and updater.is_started
        for name in AGGREGATORS for updater in found[name].updaters.values())


def _is_up(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def main():
    """The demo as a command; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].partition(".")[0])
    parser.add_argument("--real", action="store_true", help="with the ldmsd that is on PATH")
    options = parser.parse_args()
    if options.real and shutil.which("ldmsd") is None:
        print("demo-ldms: there is no ldmsd on PATH", file=sys.stderr)
        return 1
    if shutil.which("etcd") is None:
        print("demo-ldms: there is no etcd on PATH; install Debian's etcd-server", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="iostats-ldms-") as directory:
        cluster = Cluster(Path(directory), options.real)
        signal.signal(signal.SIGINT, cluster.interrupt)
        signal.signal(signal.SIGTERM, cluster.interrupt)
        try:
            wrong = demo(cluster)
        except (Failed, KeyboardInterrupt) as error:
            # A process that has no session of its own yet dies of the same signal.
            if cluster.is_interrupted:
                print("\ndemo-ldms: interrupted", file=sys.stderr)
                return 128 + signal.SIGINT
            print(f"demo-ldms: {error}", file=sys.stderr)
            return 1
        finally:
            cluster.close()
    for line in wrong:
        print(f"demo-ldms: {line}", file=sys.stderr)
    if not wrong:
        print("No set was lost, none was collected twice, and what could stay was left alone.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
