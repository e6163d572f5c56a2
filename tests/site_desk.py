"""
A site at a desk: the site's server, nodes whose prologs and epilogs report to it, and a directory
for programs that stand in for the batch system's.

`SiteDesk` is a Desk of processes.py with a port, a site.cfg and a store of its own.  Its servers
find no batch system but what is put into `bin`.
"""
from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from client_messages import ClientAgent, by_kind
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    REPOSITORY,
    SERVER,
    Desk,
    Done,
    free_port,
    until,
    write_tree,
)

from iostats.base import config as site
from iostats.cli.site_client import ask_site
from iostats.wire import auth, client, protocol

# The server waits a second for what comes late from accounting, and a minute after a record that
# could not be made; few tests are about that.  And most have agents that sweep once, and no more:
# their readings are not to get old.
_HASTY = """
import sys
from iostats.harvest import intake, job_lifecycle, job_lives, job_times
from iostats.jobs import open_jobs, records
from iostats.cli import server
from iostats.jobs import late_events
job_lifecycle.WRITES_BACK_S = job_times.WRITES_BACK_S = 2.0    # there is nothing to write back
intake.LATE_S = 600.0
job_lives.QUERY_EVERY_S = job_lives.QUERY_BUSY_EVERY_S = job_lives.CHECK_EVERY_S = 0.5
open_jobs.SETTLES_S = open_jobs.LATE_S = 0.03
records.POLL_EVERY_S = 0.01
records.RETRY_AFTER_S = 1.0
late_events.CHECK_EVERY_S = late_events._PAUSE_S = 0.2
sys.exit(server.main())
"""
_PLAIN = "import sys; from iostats.cli import server; sys.exit(server.main())"
THE_WORK = {"read_bytes": 41_003, "write_bytes": 53_007, "read_calls": 23, "write_calls": 37}


def application(record):
    """What programs did, of a record with one file system."""
    [fs] = record["file_systems"]
    return {name: fs["application"][name] for name in THE_WORK}


def reads(record):
    return application(record)["read_calls"]


def script(path, text):
    """Put an executable file there; who runs it meanwhile has all of the one before."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.chmod(0o755)
    return new.replace(path)


class SiteServer:
    """A running site server; see SiteDesk.site."""

    def __init__(self, process, out, err):
        self.process, self._out, self._err = process, out, err

    @property
    def err(self):
        return self._err.read_text(encoding="utf-8")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, number=signal.SIGTERM):
        """Send a signal; the Done."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        """The Done, when it has ended."""
        status = self.process.wait(100)
        return Done(status, self._out.read_text(encoding="utf-8"), self.err)


class SiteDesk(Desk):
    """A machine with a site's server, and nodes."""

    def __init__(self, directory):
        super().__init__(directory)
        self._client_agents = {}
        self.port, self._jobs = free_port(), 4710
        self.bin, self.hooks = self.directory / "bin", self.directory / "hooks"
        self.store, self.cfg = self.directory / "site.sqlite", self.directory / "site.cfg"
        self.site_secret = self.directory / "site.secret"
        self.bin.mkdir()
        self.choices = {
            "site.host": "127.0.0.1", "site.port": self.port, "site.secret": self.site_secret,
            "site.store": self.store, "site.deadline": 60, "node.hook_dir": self.hooks,
            "node.reader": "", "node.public_dir": "", "node.hook_timeout": 60}
        self.configure()

    def configure(self, **choices):
        """Write site.cfg; `choices`: section_key=value."""
        self.choices.update((name.replace("_", ".", 1), value) for name, value in choices.items())
        self.cfg.write_text(self.text(self.choices))

    @staticmethod
    def text(choices):
        """The text of a site.cfg."""
        sections = {}
        for name, value in choices.items():
            section, _, key = name.partition(".")
            sections.setdefault(section, []).append(f"{key} = {value}\n")
        return "".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items())

    @property
    def config(self):
        return site.load(str(self.cfg), environ={})

    def new_job(self):
        """The id of a job that no other test at this desk has."""
        self._jobs += 1
        return str(self._jobs)

    # -- the server

    def site(self, *arguments, hasty=True, **how):
        """A SiteServer that listens."""
        server = self.begin_site(*arguments, hasty=hasty, **how)
        until(lambda: server.process.poll() is not None or "the site's server on" in server.err,
              what="the site's server")
        assert server.process.poll() is None, server.err
        return server

    def begin_site(self, *arguments, hasty=False, env=None, setup="", **how):
        """A SiteServer that was started; `setup`: statements that run before."""
        self._number += 1
        out = self.directory / f"site-{self._number}.out"
        err = self.directory / f"site-{self._number}.err"
        command = [sys.executable, *(["-c", setup + (_HASTY if hasty else _PLAIN)]
                   if hasty or setup else [str(SERVER)]), "--site",
                   "--listen", "127.0.0.1", "--config", str(self.cfg), *map(str, arguments)]
        with out.open("w") as out_file, err.open("w") as err_file:
            process = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out_file,
                stderr=err_file, env={"PATH": str(self.bin), "PYTHONPATH": str(REPOSITORY),
                                      **(env or {})}, **how)
        self.started.append(process)
        return SiteServer(process, out, err)

    # -- the nodes

    def hook(self, role, node="nid00001", root=None, job=None, **how):
        """Run a prolog or epilog (or deliver) as a batch system does; the Done."""
        return self.begin_hook(role, node, root, job, **how)()

    def begin_hook(self, role, node="nid00001", root=None, job=None, *, env=None, config=None,
                   options=(), cwd="/", hook_dir=None, command=None, **how):
        """The same in two steps: a function that waits for the end."""
        if hook_dir is None:
            hook_dir = self.hooks / node
        if config is None:
            config = self.directory / f"{node}.cfg"
            text = self.text({**self.choices, "node.hook_dir": hook_dir})
            if not config.exists() or config.read_text() != text:    # another may just read it
                config.write_text(text)
        environment = {"SLURMD_NODENAME": node, "SLURM_JOB_NODELIST": node,
                       **({"SLURM_JOB_ID": job} if job else {}),
                       **(env or {})}
        command = command or [sys.executable, "-I", "-S", str(CLIENT)]
        process = subprocess.Popen(
            [*map(str, command), role, "--root", str(root or self.directory), "--config",
             str(config),
             *map(str, options)], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        self.started.append(process)

        def finish():
            out, err = process.communicate(timeout=100)
            return Done(process.returncode, out, err)
        return finish

    def work(self, job, node="nid00001", before=BEFORE, after=AFTER, env=None):
        """Prolog, work, epilog of one node; none of them says a word."""
        root = self.tree(node, **before)
        done = self.hook("prolog", node, root, job, env=env)
        assert (0, "", "") == (done.status, done.out, done.err), done
        write_tree(root, **after)
        done = self.hook("epilog", node, root, job, env=env)
        assert (0, "", "") == (done.status, done.out, done.err), done

    def kept(self, node="nid00001"):
        """Kinds of the files of jobs on a node, sorted: start, job, delta, refused."""
        return [name.rpartition(".")[2] for name in kept_in(self.hooks / node)]

    # -- the desk of a user

    def iostats(self, *arguments, env=None, stdin="", **how):
        """Run a subcommand of `iostats`, with this desk's site.cfg; the Done."""
        role, *rest = arguments
        return self.bare(role, "--config", self.cfg, *rest, env=env, stdin=stdin, **how)

    def bare(self, *arguments, env=None, stdin="", **how):
        """Run `iostats` with these arguments and no others; the Done."""
        done = subprocess.run(
            [sys.executable, "-m", "iostats", *map(str, arguments)],
            cwd=self.directory, env={"PATH": str(self.bin), "PYTHONPATH": str(REPOSITORY),
                                     "HOME": str(self.home), "LC_ALL": "C.UTF-8", **(env or {})},
            input=stdin, capture_output=True, text=True, timeout=100, **how)
        return Done(done.returncode, done.stdout, done.stderr)

    # -- what is known

    def asked(self, method, **params):
        """What the site's server answers to root."""
        return ask_site(self.config, method, params)

    def query(self, **ask):
        """The rows of the method `query`; none while there is no whole sweep."""
        answer = self.answer(**ask)
        return answer["rows"] if answer else []

    def answer(self, **ask):
        """The answer of the method `query`; None while there is no whole sweep."""
        try:
            return self.asked("query", **ask)
        except client.Refused:
            return None

    def wait_for_sweeps(self, count):
        """Until the site's server has so many more."""
        for _ in range(count):
            before = until(lambda: self.answer(level="e"), what="a sweep")["at"]
            until(lambda: self.answer(level="e")["at"] > before, what="another sweep")  # noqa: B023

    def written(self, job="4711"):
        """[(bytes that a job has written at the servers, are they a lower bound)]."""
        return [(row["write_bytes"], row["lower_bound"])
                for row in self.query(level="b", job=job)]

    def until_written(self, amount, job="4711"):
        """Wait until it is known that a job has written so many bytes, no more and no less."""
        until(lambda: [(amount, False)] == self.written(job), what=lambda:
              f"{amount} bytes of {job}, not {self.answer(level='b', job=job)},")

    def records(self, job):
        """The records of a job that the site's server has."""
        return self.asked("record", job=job)

    def record(self, job, true=lambda record: True):
        """The one record of a job, when there is one of which `true` holds."""
        def found():
            records = self.records(job)
            assert len(records) < 2, records
            return records[0] if records and true(records[0]) else None
        return until(found, what=f"the record of job {job}")

    def signs(self):
        """What signs as root of a node."""
        return auth.load_client_credentials(self.config, protocol.SITE, str(self.site_secret))

    def clients(self, node, file_system, gains):
        """
        The exports of a storage server in a sweep: {nid: what it has done since the one before},
        the amounts of CLIENT_METRICS, or without the last one; what the server answers.

        The sweeps are of every second, by the clock; a storage server that is new has one before in
        which its clients have done nothing.
        """
        agent = self._client_agents.get(node)
        if agent is None:
            agent = self._client_agents[node] = ClientAgent(node, every=1)
            self._tell(agent, by_kind(file_system, {
                nid: [0] * len(amounts) for nid, amounts in gains.items()}))
        return self._tell(agent, by_kind(file_system, gains))

    def _tell(self, agent, gains):
        time.sleep(1 - time.time() % 1)
        return client.call("127.0.0.1", self.port, protocol.SITE, self.signs(), agent.node,
                           "packed_clients", agent.params(int(time.time()), gains))

    def send(self, report, within_s=None):
        """Send a report (a dict) as its node; what the server answers."""
        return client.call("127.0.0.1", self.port, protocol.SITE, self.signs(), report["node"],
                           "report", report, within_s)


def kept_in(directory):
    """
    Names of the files of jobs in a hook_dir, sorted by kind; not what a node keeps between jobs.
    """
    return sorted((name for name in os.listdir(directory)
                   if not name.endswith((".idle", ".quiet"))),
                  key=lambda name: name.rpartition(".")[2]) if os.path.isdir(directory) else []


def a_report(job="4711", node="nid00001", seq="23", reads=23, read_bytes=41_003, about=(),
             **fields):
    """A small report as an epilog sends it, as a dict."""
    return {
        "protocol": 1, "job": job, "node": node, "seq": seq, "boot_id": "b" * 32, "user": "0",
        "reason": "", "ended": 1_795_225_060.0, "elapsed_s": 37.0, "clock_ahead_s": 0.0,
        "uptime_s": 1000.0, "mounts": {}, "deltas": [
            {"source": "llite", "file_system": "scratch",
             "values": {"read_calls": reads, "read_bytes": read_bytes, "write_calls": 0,
                        "write_bytes": 0}}],
        "about": {"scheduler": "none", "user": "alice", **dict(about)}, **fields}


def is_private(path):
    """Only its user can read it."""
    return not stat.S_IMODE(Path(path).stat().st_mode) & 0o077


# -- Slurm, as far as it is asked ----------------------------------------------------------------

def squeue(desk, *jobs):
    """Let `squeue` know these jobs, in the form of 23.02."""
    path = desk.directory / "squeue.json"
    path.with_suffix(".new").write_text(json.dumps({"jobs": jobs}))
    path.with_suffix(".new").replace(path)
    script(desk.bin / "squeue", f"#!/bin/sh\nexec /bin/cat '{path}'\n")
    script(desk.bin / "sacct", "#!/bin/sh\nexit 0\n")


def slurm_job(job, state="COMPLETED", **fields):
    """A job as `squeue --json` prints it."""
    return {"job_id": int(job), "job_state": [state], "user_name": "alice", "user_id": 12345,
            "nodes": "nid1", "start_time": 1_795_225_000, "end_time": 1_795_225_060,
            "exit_code": {"return_code": {"set": True, "number": 0}}, **fields}


SLURM = {"scheduler": "slurm", "nodes": "nid1"}
