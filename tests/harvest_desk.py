"""
A storage server at a desk: job_stats in a directory, the agent as its administrator starts it, and
a site's server in this process that keeps what it is sent.

`entries()` replays the messages as docs/reference/wire.md has them, and is another account of what
they mean than the one of the site's server.
"""
from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path
from typing import Any, cast

from exports_kernel import messages_of
from job_stats_text import Job, Value, text
from processes import CLIENT, Desk, Done, free_port, until
from site_desk import SiteDesk
from storage import PATIENT

from iostats.base import config as site
from iostats.base.errors import WireError
from iostats.lustre.job_stats_rows import FIELDS
from iostats.server.rpc_server import RpcServer
from iostats.storage import agent as storage_agent
from iostats.wire import protocol
from iostats.wire.auth import Secret
from iostats.wire.jsonrpc import Method
from iostats.wire.messages.events import decode_events
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

NS = 1_000_000_000
BEGAN = 1_795_225_320 * NS
OST = ("scratch", "OST0000")
SECRET = "0123456789abcdef0123456789abcdef"


_OF_HEAD = ("protocol", "node", "boot_id", "run", "seq", "full", "slot", "every_s", "last")
Message = cast(Any, namedtuple("Message", (*_OF_HEAD, "clock_ahead_s", "targets")))
_OF_BLOCK = ("file_system", "target", "read_at", "cleanup_s", "ended", "entries", "bad", "why",
             "unreadable", "ids", "gone")
Block = cast(Any, namedtuple("Block", (*_OF_BLOCK, "entries_of")))


class SiteOfTest(RpcServer):
    """
    The site's server in a thread: takes sweeps in their order, and answers as it should.

    Attributes:
        messages: every Message that was taken, once; `heard`: (run, seq, outcome) of all that came.
        refusal: a WireError that is answered instead, or None; `events_refusal`: to events.
    """

    def __init__(self, port, ahead_s=0.0, known=None):
        """`ahead_s`: its clock is so far ahead of this machine's; `known`: another's messages."""
        self.messages, self.heard, self.refusal = list(known or ()), [], None
        self.packed = []                        # the bytes of each packed_sweep
        self.clients = []                       # those of each packed_clients
        self.events = []                        # the ReceivedEvents of each packed_events
        self.events_refusal = None
        self._loop, self._ready = None, threading.Event()
        config = site.load(os.devnull, environ={})
        super().__init__(protocol.SITE, [Secret(protocol.SITE, SECRET.encode(), now=self._clock)],
                         config,
                         self._clock)
        self._ahead_s = ahead_s
        self.methods["packed_sweep"] = Method(self._sweep, PackedSweep)
        self.methods["packed_clients"] = Method(self._clients, PackedSweep)
        self.methods["packed_events"] = Method(self._events, PackedSweep)
        self._wanted = port
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def _clock(self):
        return time.time() + self._ahead_s

    async def _serve(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        await self.listen_on("127.0.0.1", [self._wanted])
        self._ready.set()
        await self._end.wait()
        super().close()

    def close(self):
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(20)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _sweep(self, params, sender):
        self.packed.append(params.sweep)
        taken = decode_sweep(params, 16 << 20)
        return self._take(Message(**{name: getattr(taken.head, name) for name in _OF_HEAD},
                                  clock_ahead_s=taken.clock_ahead_s,
                                  targets=[_listed(rows) for rows, _ in taken.blocks]), sender)

    def _clients(self, params, sender):
        head, _ = messages_of(params.sweep)
        answer = self._take(Message(**{name: head[name.replace("every_s", "every")]
                                       for name in _OF_HEAD},
                                    clock_ahead_s=params.clock_ahead_s, targets=[]), sender)
        if answer["why"] == "":
            self.clients.append(params.sweep)
        return answer

    def _events(self, params, sender):
        taken = decode_events(params, 16 << 20)
        assert taken.head.node == self.require_authenticated(sender).node
        if self.events_refusal is not None:
            raise self.events_refusal
        self.events.append(taken)
        return {"taken": True, "why": ""}

    def _take(self, message, sender):
        assert message.node == self.require_authenticated(sender).node
        here = (message.run, message.seq)
        if self.refusal is not None:
            self.heard.append((*here, "refused"))
            raise self.refusal
        run, seq = (self.messages[-1].run, self.messages[-1].seq) if self.messages else ("", 0)
        if message.run == run and message.seq <= seq:
            self.heard.append((*here, "again"))
            return {"taken": True, "why": "taken before"}
        if here != (run, seq + 1) and not (message.seq == 1 and message.full):
            self.heard.append((*here, "hole"))
            return {"taken": False, "want": "full", "why": f"expected {seq + 1} of {run}"}
        self.messages.append(message)
        self.heard.append((*here, "taken"))
        return {"taken": True, "why": ""}

    # -- what the messages say

    def sweeps(self):
        """[[Message]]: the messages of each whole sweep."""
        found, parts = [], []
        for message in list(self.messages):
            if parts and (parts[0].run, parts[0].slot) != (message.run, message.slot):
                parts = []
            parts.append(message)
            if message.last:
                found.append(parts)
                parts = []
        return found

    def entries(self):
        """{(file system, target): {id: (started, seen, {counter: numbers})}} after all of them."""
        known, reading = {}, {}
        for message in list(self.messages):
            for block in message.targets:
                key = (block.file_system, block.target)
                rows = known.setdefault(key, {})
                mark, seen = reading.get(key, (None, None))
                if mark != (message.run, block.read_at):
                    seen = set()
                    reading[key] = (message.run, block.read_at), seen
                rows.update(block.entries_of)
                seen.update(block.ids)
                if block.ended and not block.unreadable:
                    for job in block.gone:
                        del rows[job]
                    for job in set(rows) - seen if message.full else ():
                        del rows[job]
        return known


def _listed(rows):
    """A Block of the rows of a sweep."""
    at = {column: place for place, column in enumerate(rows.columns)}
    values = rows.values.tolist()
    found = {job: (int(rows.started_ns[row]), int(rows.seen_ns[row]), {
        name: (unit, *(values[row][at[name, field]] if (name, field) in at else None
                       for field in FIELDS))
        for name, unit in rows.units.items() if values[row][at[name, "samples"]]})
        for row, job in enumerate(rows.head.ids)}
    return Block(**{name: getattr(rows.head, name) for name in _OF_BLOCK}, entries_of=found)


def refusal(code=protocol.REFUSED, text="no"):
    return WireError(code, text)


# -- job_stats ---------------------------------------------------------------------------------

def a_job(number, amount=41_003, name=None, seen_s=37):
    """A Job of 23 writes, and `amount` bytes."""
    return Job((name or str(4711 + number)).encode(), BEGAN + number, BEGAN + seen_s * NS + number,
               {"write_bytes": Value(23, 1, amount, amount, 1009 * amount),
                "punch": Value(37, 31, 8117, 61_403, 402_653_184)})


def shown(jobs):
    """
    What `entries()` has of these Jobs, as 2.15.2 to 2.17 print them: min, max and sumsq are not
    sent of entries with a start_time.
    """
    return {job.job_id.decode(): (job.started_ns, job.seen_ns, {
        name: ("bytes" if name.endswith("_bytes") else "usecs", value.samples, None, None,
               value.sum, None) for name, value in job.counters.items()})
        for job in jobs}


class StorageDesk(Desk):
    """The desk of one storage server's administrator."""

    def __init__(self, directory):
        super().__init__(directory)
        self.port = free_port()
        # In memory, as the kernel's files are: 50,000 on a busy disk take minutes.  Each message is
        # synced, too, which takes half a second there.
        self._quick = Path(tempfile.mkdtemp(
            prefix="spool-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else self.directory))
        self.spool, self.root = self._quick / "spool", self._quick / "oss1"
        self._quick.chmod(0o755)                            # counters are for everybody
        self.root.mkdir()
        (self.directory / "site.secret").write_text(SECRET)
        (self.directory / "site.secret").chmod(0o600)
        self.choices = {
            "site.host": "127.0.0.1", "site.port": self.port, "harvest.interval": 1,
            "site.secret": self.directory / "site.secret", "harvest.spool_dir": self.spool,
            "harvest.cpu_percent": 100, "harvest.exports": "no", "node.retry_timeout": 60}
        self._sites = []

    def write_config(self, **choices):
        """The path of a site.cfg; `choices`: section_key=value."""
        self._number += 1
        path = self.directory / f"agent-{self._number}.cfg"
        path.write_text(SiteDesk.text({**self.choices, **{
            name.replace("_", ".", 1): value for name, value in choices.items()}}))
        return path

    def agent(self, emit=lambda text: None, ports=(), **choices):
        """An agent in this process; `choices`: as of write_config; `ports`: of several servers."""
        config = site.load(str(self.write_config(**choices)), environ={})
        return storage_agent.Agent(config, str(self.root), "oss1",
                                   [("127.0.0.1", port) for port in ports or [self.port]], [], emit)

    def site(self, ahead_s=0.0, known=None, port=None):
        """The site's server; `port`: of another one than the first."""
        one = SiteOfTest(port or self.port, ahead_s, known)
        self._sites.append(one)
        return one

    def show(self, jobs, target="OST0000", file_system="scratch", release="2.15.2", cleanup_s=600,
             place="proc/fs/lustre"):
        """Let a target print these Jobs (or bytes), from one moment to the next."""
        kind = "obdfilter" if target.startswith("OST") else "mdt"
        directory = self.root / place / kind / f"{file_system}-{target}"
        directory.mkdir(parents=True, exist_ok=True)
        if cleanup_s is not None:
            (directory / "job_cleanup_interval").write_text(f"{cleanup_s}\n")
        data = jobs if isinstance(jobs, bytes) else text(jobs, release, target[:3])
        new = directory.parent / f"new-{target}"
        new.write_bytes(data)
        new.rename(directory / "job_stats")
        return directory / "job_stats"

    def begin(self, *arguments, root=None, python=sys.executable, before=(), env=None,
              patient=True, **choices):
        """An Agent that was started; `choices`: section_key=value; `patient`: see PATIENT, or such
        a text."""
        config = self.write_config(**choices)
        err = self.directory / f"agent-{self._number}.err"
        with err.open("w") as file:
            process = subprocess.Popen(
                [*before, python, "-I", "-S", *(
                    ["-c", patient if isinstance(patient, str) else PATIENT] if patient else
                    [str(CLIENT)]),
                 "harvest", *map(str, arguments),
                 "--root", str(root or self.root), "--node", "oss1", "--config", str(config)],
                env=self.environment(env), cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=file, text=True)
        self.started.append(process)
        return Agent(process, err)

    def once(self, *arguments, **how):
        """One sweep, to its end; the Done."""
        return self.begin("--once", *arguments, **how).wait()

    def waiting(self):
        """Names of the messages that wait, in their order."""
        return sorted(path.name for path in self.spool.glob("*.message"))

    def close(self):
        super().close()
        for one in self._sites:
            one.close()
        shutil.rmtree(self._quick)


class Agent:
    """A running agent."""

    def __init__(self, process, err):
        self.process, self._err = process, err

    @property
    def err(self):
        return self._err.read_text(encoding="utf-8")

    def says(self, words):
        """Wait until it has said that."""
        until(lambda: words in self.err or self.process.poll() is not None, what=words)
        assert words in self.err, self.err

    def runs(self):
        """Wait until it ends by itself when it gets SIGTERM: Python would end by the signal."""
        def catches():
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            return int(caught.split()[1], 16) >> signal.SIGTERM - 1 & 1
        until(lambda: self.process.poll() is not None or catches(), what="its handler of SIGTERM")
        assert self.process.poll() is None, self.err

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, number=15):
        self.process.send_signal(number)
        return self.wait()

    def wait(self, within_s=100):
        out, _ = self.process.communicate(timeout=within_s)
        return Done(self.process.returncode, out, self.err)


def peak_kib(process):
    """The most memory that a running process has had, KiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def until_received(site, jobs, key=OST):
    """Wait until the site has these Jobs, and no others, of one target."""
    wanted, looked_at = shown(jobs), -1

    def is_so():
        # A look at thousands of entries keeps the site, which is in this process, from its work.
        nonlocal looked_at
        before, looked_at = looked_at, len(site.messages)
        return before != looked_at and site.entries().get(key) == wanted
    until(is_so, what=f"all of {key}")
