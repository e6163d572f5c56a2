"""
make demo-site: a small site on this machine, from storage servers to tables.

Two simulated storage servers (oss1 with three OSTs, mds1) have four clients, node[1-4], on which
three jobs of two users work, and somebody without a job; during a fourth one a target evicts a
node, and another target is stopped and comes back.  Real agents read the storage servers'
counters and the kernel's log, real prologs and epilogs those of the nodes, and a real site's server
adds them up.  What each job does, and what happens to it, is known beforehand, and the numbers in
the tables and the events are checked against it.

Simulated are Lustre (simlustre, by FUSE mounts, which ordinary users can make where FUSE allows it)
and the batch system: scripts in the place of squeue, sacct and scontrol.

exit status: 0 all numbers are right   1 one is not, or it can't be shown here; a line says what
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME))

from demo_site_numbers import (
    BEFORE,
    EVICTED,
    HIT,
    HIT_WORK,
    JOBS,
    NODES,
    OF_NOBODY,
    OF_NODES,
    OF_STEPS,
    STEPS,
    STOPPED,
    WITHOUT_JOB,
    WORK,
    Checks,
    check_events,
    check_job_events,
    check_nodes,
    check_record,
    check_sweeps,
    check_text,
)

from iostats.base import config as site_config
from iostats.base.errors import IostatsError
from iostats.cli.site_client import ask_site
from simlustre.counters import RELEASES

SERVERS = {"oss1": ("10.77.1.1@tcp", ["OST0000", "OST0001", "OST0002"]),
           "mds1": ("10.77.1.2@tcp", ["MDT0000"])}
# A job is settled one and a half cleanup intervals after its end, a minute at least: on real nodes
# written pages wait in memory.  Here nothing does, and nobody wants to wait.
INTERVAL_S, CLEANUP_S, WRITES_BACK_S = 4, 12, 4.0
WITHIN_S = 120.0
SITE_SERVER = f"""
import sys
from iostats.harvest import job_lifecycle, job_lives, job_times
from iostats.jobs import all_jobs, by_node, job_runs, quotas_of_record
from iostats.cli import server
for module in (all_jobs, by_node, job_lifecycle, job_runs, job_times):
    module.WRITES_BACK_S = {WRITES_BACK_S}
all_jobs.LATE_S = 2.0
quotas_of_record.list_quota_ids = lambda user: {{("user", 12_300 + len(user)): user}}
job_lives.QUERY_EVERY_S = job_lives.QUERY_BUSY_EVERY_S = job_lives.CHECK_EVERY_S = 1.0
sys.exit(server.main())
"""

# Metrics of targets and services are read every minute on a real storage server.
AGENT = f"""
import sys
sys.path.insert(0, {str(HOME)!r})
from iostats.events.sources import metrics, precreate
metrics.EVERY_S = precreate.EVERY_S = 15.0
from iostats.cli.node import main
sys.exit(main())
"""

INTRODUCTION = """\
Two storage servers, four nodes, of which node2 has two networks, three jobs of
two users, and a copy without a job.  Simulated are Lustre {release}, which counts
what real programs do in FUSE mounts, and the batch system (scripts in the place
of squeue, sacct and scontrol).  Real are the agents, the prologs and epilogs,
and the site's server.

  JOB   USER   NAME      NODES        WHAT IT DOES
{jobs}
  -     -      -         node4        19 MiB copied by dd

Starting all that; then two sweeps of the storage servers, one every {every} s ...
"""


FILLED = "scratch-OST0001", 93
# (kind, id, KiB of the hard limit, KiB granted), and the percent of it that is granted.
QUOTAS = {("user", 12305, 1 << 30, 1041529570): 97, ("project", 4711, 1 << 20, 241173): 23}
HSM_DONE, HSM_FAILED = 41, 7
MORE_FILES = ("for i in $(seq 23); do head -c 1048576 /dev/zero >more$i; done\n"
              "for i in $(seq 37); do head -c 4096 /dev/zero >small$i; done")
LNET_DROPPED = 4100
FULL = """\
{target} fills up, to {percent} % (files that nobody writes here).  How full the
targets are:
"""
TROUBLE = """\
And what goes wrong: while job {job} runs on {nodes},
{target} evicts {node}, as by lctl set_param *.evict_client=...;
then {stopped} is stopped and started again.
"""


class Failed(Exception):
    """The demo can't go on; the message says why."""


def finished(command, **how):
    """
    As subprocess.run(), with what it printed; ^C is for the demo alone, and waits for its end: what
    is half mounted could not be unmounted.
    """
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, **how)
    try:
        out, err = process.communicate()
    except KeyboardInterrupt:
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def width():
    """Of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


class Site:
    """All that runs, below one directory."""

    def __init__(self, directory, release, store=None):
        """`store`: a URL; None for a file of SQLite."""
        self.directory, self.release = directory, release
        self.store = store or directory / "site.sqlite"
        self.mounts, self.started, self.listed = [], [], {}
        self.bin, self.cfg = directory / "bin", directory / "site.cfg"
        self.bin.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        names = {**NODES, **{server: [nid] for server, (nid, _) in SERVERS.items()}}
        (directory / "nodes").write_text("".join(
            f"{nid} {name}\n" for name, nids in names.items() for nid in nids))
        self.write_config(self.cfg)
        self.config = site_config.load(str(self.cfg), environ={})

    def write_config(self, path, **more):
        """A site.cfg; `more`: section_key=value."""
        choices = {"site_host": "127.0.0.1", "site_port": self.port,
                   "site_secret": self.directory / "site.secret",
                   "site_store": self.store, "site_deadline": 60,
                   "harvest_interval": INTERVAL_S, "harvest_cpu_percent": 100,
                   "harvest_job_id": "%j.%s",
                   "batch_system": "slurm", "node_reader": "", "node_public_dir": "",
                   "node_hook_timeout": 30, "report_job_fields": "JobID,JobName,User,NNodes,"
                   "ReadBytes,WriteBytes,Opens,Operations",
                   "clients_names": self.directory / "nodes", "clients_jobs_interval": 1,
                   "events_every": 1, **more}
        sections = {}
        for name, value in choices.items():
            section, _, key = name.partition("_")
            sections.setdefault(section, []).append(f"{key} = {value}\n")
        path.write_text("".join(f"[{section}]\n{''.join(lines)}"
                                for section, lines in sections.items()))
        return path

    # -- what is started

    def simlustre(self, *words, check=True):
        done = finished([sys.executable, "-m", "simlustre", *words], cwd=HOME)
        if check and done.returncode:
            raise Failed(done.stderr.strip())
        return done

    def mount(self, name, *words):
        where = self.directory / name
        self.mounts.insert(0, where)        # clients are unmounted before their storage servers
        self.simlustre("--mount", where, "--network", self.directory / "network", "--release",
                       self.release, *words)

    def environment(self, **more):
        return {"PATH": f"{self.bin}:{os.environ.get('PATH', '/usr/bin:/bin')}",
                "PYTHONPATH": str(HOME), "HOME": str(self.directory), "LC_ALL": "C.UTF-8", **more}

    def begin(self, name, *command):
        """Run it until the end of the demo; what it says goes to the file NAME.log."""
        log = self.directory / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *map(str, command)], env=self.environment(), cwd=self.directory,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        self.started.append((process, name, log))

    def agent(self, name):
        config = self.write_config(self.directory / f"{name}.cfg",
                                   harvest_spool_dir=self.directory / f"{name}.spool")
        self.begin(f"agent-{name}", "-I", "-S", "-c", AGENT, "harvest", "--root",
                   self.directory / name / "root", "--node", name, "--config", config)

    def run(self, node, job, script):
        """
        A script on a node, as a step of a job: Slurm's TaskProlog makes the variable.
        """
        environ = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.directory),
                   **({"LUSTRE_JOBID": f"{job}.{STEPS[node]}"} if job else {})}
        where = self.directory / node / "scratch"
        done = finished(["bash", "-e", "-c", f"cd '{where}'\n{script}"], env=environ)
        if done.returncode:
            raise Failed(f"{node}: {done.stderr.strip()}")

    def hook(self, role, node, job):
        """The prolog or epilog of a job on a node."""
        config = self.write_config(self.directory / f"{node}.cfg",
                                   node_hook_dir=self.directory / f"{node}.hooks")
        done = finished(
            [sys.executable, "-I", "-S", HOME / "iostats_client.py", role, "--root",
             self.directory / node / "root", "--config", config],
            env=self.environment(SLURMD_NODENAME=node, SLURM_JOB_ID=job.job,
                                 SLURM_JOB_NODELIST=",".join(job.nodes)))
        if done.returncode or done.stderr:
            raise Failed(f"{role} of {job.job} on {node}: {done.stderr.strip()}")

    def close(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process, _, _ in reversed(self.started):
            process.terminate()
        for process, _, _ in self.started:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for where in self.mounts:
            self.simlustre("--unmount", where, check=False)

    def look_after(self):
        """Failed where something has ended that should not."""
        for process, name, log in self.started:
            if process.poll() is not None:
                raise Failed(f"{name} has ended with exit status {process.returncode}:\n"
                             f"{log.read_text().strip()}")

    # -- the batch system

    def squeue(self, state, started, ended=0, jobs=JOBS):
        """Let squeue, sacct and scontrol tell of the jobs, which have their nodes alone."""
        self.listed.update((job.job, (job, state, int(started), int(ended))) for job in jobs)
        jobs = [{"job_id": int(job.job), "job_state": [state], "name": job.name,
                 "user_name": job.user, "user_id": 12_300 + len(job.user), "partition": "demo",
                 "nodes": ",".join(job.nodes), "node_count": len(job.nodes),
                 "start_time": started, "end_time": ended,
                 "exit_code": {"return_code": {"set": True, "number": 0}}}
                for job, state, started, ended in self.listed.values()]

        def moment(seconds):
            return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) if seconds else (
                "N/A")
        lines = [f"{one['job_id']}|{one['job_id']}|{one['job_state'][0]}|{one['user_id']}|"
                 f"{one['user_name']}||demo|{one['node_count']}|{moment(one['start_time'])}|"
                 f"{moment(one['end_time'])}|{one['nodes']}|NO\n" for one in jobs]
        for name, text in (("squeue.json", json.dumps({"jobs": jobs})),
                           ("squeue.txt", "".join(lines))):
            new = self.directory / "new"
            new.write_text(text)
            new.replace(self.directory / name)
        if ended or (self.bin / "squeue").exists():
            return
        for name, text in (
                ("squeue", f'case "$*" in *--json*) exec cat "{self.directory}/squeue.json"; esac\n'
                           f'exec cat "{self.directory}/squeue.txt"'),
                ("sacct", 'case "$*" in *--json*) echo \'{"jobs": []}\';; esac'),
                ("scontrol", "date '+Configuration data as of %Y-%m-%dT%H:%M:%S'\n"
                             "echo 'ClusterName = demo'; echo 'MinJobAge = 300 sec'")):
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)

    # -- what is asked

    def asked(self, method, **params):
        """What the site's server answers; None while it has nothing to say."""
        try:
            return ask_site(self.config, method, params, 10.0)
        except IostatsError:
            return None

    def iostats(self, *words):
        """What `iostats WORDS` prints."""
        done = finished(
            [sys.executable, "-m", "iostats", words[0], "--config", self.cfg, *words[1:]],
            env=self.environment(COLUMNS=str(width())), cwd=self.directory)
        if done.returncode:
            raise Failed(f"iostats {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def until(self, true, what):
        """Wait for that, and return it."""
        end = time.monotonic() + WITHIN_S
        while True:
            found = true()
            if found:
                return found
            self.look_after()
            if time.monotonic() > end:
                raise Failed(f"waited {WITHIN_S:.0f} s for {what}")
            time.sleep(0.1)


class Sweeps:
    """Every sweep's rates from now on: answers[by] is {moment: answer}, by job and by node."""

    def __init__(self, site):
        self._site, self._ended = site, threading.Event()
        self.answers = {"job": {}, "node": {}}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self):
        while not self._ended.wait(0.3):
            for by, answers in self.answers.items():
                answer = self._site.asked("load", by=by, count=1000)
                if answer:
                    answers.setdefault(answer["at"], answer)

    def last(self):
        """The moment of the last sweep; 0 before the first one."""
        return max(self.answers["node"], default=0)

    def close(self):
        self._ended.set()
        self._thread.join()


def start(site):
    """
    Storage servers, clients, agents, the site's server; until it can tell rates.  What the clients
    had done before the agents came, as of truths().
    """
    for name, (nid, targets) in SERVERS.items():
        site.mount(name, "--server", name, "--nid", nid, "--cleanup-interval", CLEANUP_S,
                   "--recovery", 30, *(
            word for target in targets for word in ("--target", f"scratch-{target}")))
    for node, nids in NODES.items():
        site.mount(node, "--backing", site.directory / "data", "--fs", "scratch", "--ping", 0.5,
                   "--jobid-var", "LUSTRE_JOBID", *(
            word for nid in nids for word in ("--nid", nid)))
    for quota in QUOTAS:
        site.simlustre("--ctl", site.directory / "mds1", "quota", "scratch", *quota)
    site.simlustre("--ctl", site.directory / "mds1", "hsm", "scratch-MDT0000", HSM_DONE, 0)
    site.run("node1", "", BEFORE)
    site.squeue("PENDING", 0)
    site.begin("site-server", "-c", SITE_SERVER, "--site", "--listen", "127.0.0.1", "--config",
               site.cfg)
    site.until(lambda: "the site's server on" in (site.directory / "site-server.log").read_text(),
               "the site's server")
    wanted = sum(len(targets) for _, targets in SERVERS.values())

    def has_rates():
        answer = site.asked("load", by="job", count=1)
        return answer and not answer["missing"].get("scratch") and any(
            one["targets"] == wanted for one in answer["file_systems"])
    before = truths(site)
    for name in SERVERS:
        site.agent(name)
    site.until(has_rates, "two sweeps of all targets")
    return before


def work(site):
    """The copy without a job, then each job from its prologs to the end of its work; its start."""
    site.run(WITHOUT_JOB[0], "", WITHOUT_JOB[1])
    started = int(time.time())
    site.squeue("RUNNING", started)
    at_once(lambda job, node: site.hook("prolog", node, job), on_nodes())
    at_once(site.run, [(node, *work) for node, work in WORK.items()])
    return started


def on_nodes():
    """(job, node) of all jobs."""
    return [(job, node) for job in JOBS for node in job.nodes]


def at_once(do, calls):
    """do(*call) for each of `calls`, all at the same time; the first of their Failed."""
    failed = []

    def one(*call):
        try:
            do(*call)
        except Failed as error:
            failed.append(error)
    threads = [threading.Thread(target=one, args=call) for call in calls]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for thread in threads:
            thread.join()                       # they are of a second or two
        raise
    if failed:
        raise failed[0]


def truths(site):
    """
    {node: {job id, or other: what was sent for it}}; reading it comes after the end of each
    close().
    """
    return {node: {_job_of(name): one["sent"] for name, one in json.loads(
        (site.directory / node / "truth_by_job.json").read_text())["scratch"].items()}
        for node in NODES}


def _job_of(name):
    job, _, step = name.partition(".")
    return job if job.isdigit() and step else name


def end(site, started):
    """The jobs' epilogs; {job: its record} when the last one is settled."""
    at_once(lambda job, node: site.hook("epilog", node, job), on_nodes())
    site.squeue("COMPLETED", started, time.time())

    def settled():
        found = {job.job: site.asked("record", job=job.job) for job in JOBS}
        return found if all(
            one and one[0]["harvest"] and one[0]["harvest"]["final"] and one[0].get("by_node")
            for one in found.values()) else None
    return {job: one[0] for job, one in site.until(settled, "the jobs' final records").items()}


def trouble(site):
    """
    One more job; while it runs, a target evicts a node of it, and another one is stopped and
    started.  When that was.
    """
    site.run(HIT.nodes[0], "", "mkdir restart")
    started = int(time.time())
    site.squeue("RUNNING", started, jobs=[HIT])
    at_once(lambda node: site.hook("prolog", node, HIT), [(node,) for node in HIT.nodes])
    done = {"began": time.time()}

    def ctl(what, *words):
        began = time.time()
        site.simlustre("--ctl", site.directory / "oss1", *words)
        done[what] = began, time.time()

    def stands(node, target, *words):
        [path] = (site.directory / node / "root").glob(f"**/{target}-osc-*/state")
        text = path.read_text()
        return text.startswith("current_state: FULL\n") and all(word in text for word in words)
    node, target = EVICTED
    ctl("evicted", "evict", NODES[node][0], target)
    site.until(lambda: stands(node, target, "EVICTED"), "the evicted node")
    ctl("stopped", "stop", STOPPED)
    time.sleep(3)                               # its clients notice, and so do the agents
    ctl("started", "start", STOPPED)
    site.until(lambda: all(stands(one, STOPPED, "DISCONN") for one in HIT.nodes), "the target")
    at_once(site.run, [(node, HIT.job, script) for node, script in HIT_WORK.items()])
    at_once(lambda node: site.hook("epilog", node, HIT), [(node,) for node in HIT.nodes])
    site.squeue("COMPLETED", started, time.time(), jobs=[HIT])
    return done


def show_metrics(site, checks):
    """Some more files; bulk requests of each OST, the services, and the quotas."""
    site.run("node2", "", MORE_FILES)
    expected = {}
    for node in truths(site).values():
        for targets in node.values():
            for target, counts in targets.items():
                if target.startswith("OST"):
                    requests = expected.setdefault(f"scratch-{target}", [0, 0])
                    for place, name in enumerate(("read_bytes", "write_bytes")):
                        requests[place] += counts.get(name, (0, 0))[0]

    def counted():
        rows = {row["target"]: row["values"] for row in (
            site.asked("metrics") or {"targets": ()})["targets"]}
        return {target: [rows.get(target, {}).get(name) for name in ("read_rpcs", "write_rpcs")]
                for target in expected}
    site.until(lambda: counted() == expected, f"bulk requests at the OSTs, {expected}")
    checks.equal("bulk requests at the OSTs", expected, counted())
    print("What the storage servers' own counters show: requests of the last 15 s, their\n"
          "services, and the quotas that are nearest to their limits:\n")
    show(site, "targets", "-o", "Target,Reads,SmallReads,Writes,SmallWrites,Granted,Locks")
    show(site, "targets", "--services")
    quotas = {(row["kind"], row["id"]): row for row in site.asked("quotas")["quotas"]}
    for (kind, number, hard, granted), percent in QUOTAS.items():
        row = quotas.get((kind, number)) or {"granted": 0, "hard": 0}
        checks.equal(f"quota of {kind} {number}", (granted << 10, hard << 10),
                     (row["granted"], row["hard"]))
        checks.equal(f"percent of {kind} {number}", percent, row["granted"] * 100 // row["hard"])
    show(site, "quota")
    [event] = site.until(lambda: site.asked("events", kinds=["hsm_failed"])["events"],
                         "the event of the copytool")
    checks.equal("the target of the copytool that failed", "scratch-MDT0000", event["target"])


def fill(site, checks):
    """A target becomes nearly full: it is in the table, and an event says so."""
    target, percent = FILLED
    print(FULL.format(target=target, percent=percent), flush=True)
    site.simlustre("--ctl", site.directory / "oss1", "fill", target, percent)

    def is_known():
        rows = (site.asked("capacity") or {"targets": ()})["targets"]
        return {row["target"]: row for row in rows} if any(
            row["target"] == target and row["bytes_used_percent"] > 90 for row in rows) else None
    rows = site.until(is_known, "the capacity of the target")
    # A twentieth is reserved, so 93 % of the space is 97 % of what is used and available.
    checks.equal("the share that is used", 100 * percent // (percent + 2),
                 int(rows[target]["bytes_used_percent"]))
    checks.equal("targets with a capacity", sum(len(found) for _, found in SERVERS.values()),
                 len(rows))
    events = site.until(lambda: site.asked("events", kinds=["nearly_full"])["events"],
                        "the event of the target")
    checks.equal("targets that are nearly full", [target], [row["target"] for row in events])
    show(site, "capacity")
    site.simlustre("--ctl", site.directory / "oss1", "lnet", "dropped", LNET_DROPPED)
    [event] = site.until(lambda: site.asked("events", kinds=["lnet_drops"])["events"],
                         "the event of dropped messages")
    checks.equal("messages that LNet dropped", LNET_DROPPED, event["count"])
    site.simlustre("--ctl", site.directory / "oss1", "lnet", "health", "700")
    [event] = site.until(lambda: site.asked("events", kinds=["lnet_unhealthy"])["events"],
                         "the event of an unhealthy interface")
    checks.equal("where the health of an LNet interface is low", "oss1", event["node"])
    site.simlustre("--ctl", site.directory / "oss1", "lnet", "waiting", "23")
    site.simlustre("--ctl", site.directory / "mds1", "precreate", target, "28")
    [event] = site.until(lambda: site.asked("events", kinds=["no_objects"])["events"],
                         "the event of an OST that makes no objects")
    checks.equal("the OST that makes no objects", (target, "mds1"),
                 (event["target"], event["node"]))
    site.simlustre("--ctl", site.directory / "mds1", "precreate", target, "0")
    waiting = "nodes", "-S", "now-1hour"
    site.until(lambda: -23 in [row["lnet_lowest"] for row in json.loads(
        site.iostats(*waiting, "--json"))["nodes"]], "messages that wait for clients")
    show(site, *waiting, "-o", "Node,Waiting,MinCredits")
    print("LNet's messages on the storage servers, while no client does any I/O:\n")
    text = show(site, "top", "--once", "--by", "lnet")
    checks.equal("the LNet of the storage servers has a row", True,
                 any(line.startswith("tcp ") for line in text.splitlines()))


def record_of(site, job):
    found = site.asked("record", job=job)
    return found[0] if found else None


def with_events(site):
    """The record of that job when it has what storage servers and nodes tell."""
    def known():
        record = record_of(site, HIT.job)
        kinds = {one["kind"] for one in (record or {}).get("events") or ()}
        return record if {"evicted", "target_down", "recovery"} <= kinds else None
    return site.until(known, "the events of the last job")


def show(site, *words):
    """A command, and what it prints."""
    text = site.iostats(*words)
    print(f"$ iostats {' '.join(words)}\n{text.rstrip()}\n", flush=True)
    return text


def demo(site):
    """All of it, on the screen; the Checks."""
    checks = Checks()
    print(INTRODUCTION.format(release=site.release, every=INTERVAL_S, jobs="\n".join(
        f"  {job.job}  {job.user:<5}  {job.name:<8}  {' '.join(job.nodes):<11}  {job.does}"
        for job in JOBS)), flush=True)
    before = start(site)
    sweeps = Sweeps(site)
    try:
        seen = site.until(sweeps.last, "a sweep")
        site.until(lambda: sweeps.last() > seen, "the next sweep")  # so that the work is in one
        started = work(site)
        done = time.time()
        truth = truths(site)
        site.simlustre("--ctl", site.directory / "mds1", "hsm", "scratch-MDT0000", HSM_DONE,
                       HSM_FAILED)
        site.until(lambda: sweeps.last() > done, "the sweep after the work")
        print("The jobs have done their work.  Who loads the file system:\n")
        show(site, "top", "--once")
        show(site, "top", "--once", "--by", "node")
        print("The epilogs report.  When the jobs' entries in job_stats have expired, in about\n"
              "20 s, the totals are final ...\n", flush=True)
        records = end(site, started)
    finally:
        sweeps.close()
    # In 2.10 a request without the variable has no job id at all, and job_stats do not show it.
    check_sweeps(checks, sweeps.answers, 0 if site.release == "2.10" else OF_NOBODY)
    for job in JOBS:
        check_record(checks, job, records[job.job], truth)
    since = "-S", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seen))
    check_nodes(checks, json.loads(site.iostats("nodes", *since, "--json"))["nodes"], before, truth)
    check_text(checks, "jobs", show(site, "jobs", "--sort", "JobID"),
               {job.job: (job.read, job.written) for job in JOBS})
    check_text(checks, "nodes", show(site, "nodes", *since), OF_NODES)
    show_metrics(site, checks)
    print("What a job's nodes did is known sweep by sweep, and these jobs were shorter\n"
          "than one: the report's last row has what they did in it, at most.\n")
    show(site, "report", JOBS[0].job)
    for job in JOBS:
        checks.equal(f"job {job.job}, quotas that are nearly used up", [
            ("scratch", "alice", "space", granted << 10) for (_, number, _, granted), percent
            in QUOTAS.items() if job.user == "alice" and percent >= 90],
            [(row["file_system"], row["name"], row["resource"], row["granted"])
             for row in records[job.job]["quotas"]["nearly_used"]])
        lnet = records[job.job]["lnet"]
        checks.equal(f"job {job.job}, nodes that report LNet's messages, and those dropped",
                     (len(job.nodes), 0, True),
                     (lnet["nodes"], lnet["dropped"], lnet["sent"] > 0))
    [servers] = records[JOBS[0].job]["harvest"]["file_systems"]
    checks.equal("bytes written by each step", OF_STEPS, {
        step: metrics["write_bytes"] for step, metrics in servers["steps"].items()})
    fill(site, checks)
    print(TROUBLE.format(job=HIT.job, nodes=" and ".join(HIT.nodes), node=EVICTED[0],
                         target=EVICTED[1], stopped=STOPPED), flush=True)
    done = trouble(site)
    hit = with_events(site)
    # A node's states have whole seconds, and its clock is corrected by some milliseconds.
    since = "-S", f"uts{int(done['began']) - 1}"
    rows = [json.loads(line) for line in site.iostats("events", *since, "--json").splitlines()]
    check_events(checks, rows, done)
    show(site, "events", *since)
    others = {job.job: record_of(site, job.job) for job in JOBS}
    check_job_events(checks, {**others, HIT.job: hit}, show(site, "report", HIT.job))
    print("Where that job's time went:\n")
    show(site, "why", HIT.job)
    return checks


def begin_postgresql(at_end):
    """The URL of a database of a PostgreSQL that runs until the end of the demo."""
    sys.path.insert(0, str(HOME / "tests"))
    import postgresql
    if postgresql.programs() is None or not importlib.util.find_spec("psycopg"):
        raise Failed("needs Debian's postgresql, and psycopg: pip install '.[postgresql]'")
    cluster = at_end.enter_context(postgresql.Cluster())
    print(f"The store is in PostgreSQL, {cluster.programs.parent.name}.\n", flush=True)
    return cluster.database()


def main():
    """The demo as a command; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].partition(".")[0])
    parser.add_argument("--release", default="2.17", choices=RELEASES,
                        help="Lustre release to play (2.17)")
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "postgresql"),
                        help="what the site's server stores its data in (sqlite)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with contextlib.ExitStack() as at_end:
        directory = at_end.enter_context(tempfile.TemporaryDirectory(prefix="iostats-site-"))
        try:
            store = begin_postgresql(at_end) if options.store == "postgresql" else None
        except Failed as error:
            print(f"demo-site: {error}", file=sys.stderr)
            return 1
        site = Site(Path(directory), options.release, store)
        try:
            can = site.simlustre("--check", check=False)
            if can.returncode:
                raise Failed(f"{(can.stderr or can.stdout).strip()}; `make demo` needs no FUSE")
            checks = demo(site)
        except Failed as error:
            print(f"demo-site: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\ndemo-site: interrupted", file=sys.stderr)
            return 128 + signal.SIGINT
        finally:
            site.close()
    for line in checks.wrong:
        print(f"demo-site: wrong number: {line}", file=sys.stderr)
    if not checks.wrong:
        print(f"{checks.count} numbers were compared with what was done: all are right.")
    return 1 if checks.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
