"""
What the sinks' tests share: a site whose storage servers have been read, made of real
CorrectedTargets and real blocks; databases of Debian's packages; a database that answers as told.
"""
from __future__ import annotations

import asyncio
import collections
import http.server
import json
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
from processes import free_port, until
from sweep_blocks import Block, Column

from iostats import sinks
from iostats.base import config
from iostats.base.job_facts import Facts
from iostats.harvest.intake import SiteSweep
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget

EVERY_S = 20
UNITS = {"read_bytes": "bytes", "write_bytes": "bytes", "read": "usecs", "write": "usecs"}


class Agent(collections.namedtuple("Agent", "slot clock_ahead_s every_s", defaults=(0.0, EVERY_S))):
    """What is known of a storage server's agent."""

    def has_sent(self, slot):
        return self.slot >= slot


class Clients:
    """What is known of clients: nothing; see ganglia_desk.ClientSite."""

    sweep = names = None


class Site:
    """
    A harvest as the sinks see it: targets, whose jobs they are, agents.

    `began`: the time of its first sweep, seconds since 1970.
    """

    def __init__(self, began):
        self.names, self.targets, self.agents = JobIds(), {}, {}
        self.silent = set()             # storage servers whose agents are dead
        self.known, self.slot, self.began, self.boot = {}, None, began, "boot"
        self.starts = True              # whether job_stats have start_time
        self.clients = Clients()

    def is_overdue(self, target):
        return target.node in self.silent

    def find_job(self, job_id):
        """A job's id begins with a digit; what is behind a colon is its node."""
        return job_id.partition(":")[0] if job_id[:1].isdigit() else ""

    def is_job(self, job_id):
        return bool(self.find_job(job_id))

    def facts(self, job_id):
        return self.known.get(self.find_job(job_id))

    @staticmethod
    def settled(job):
        """No job was settled before."""
        return {}

    def knows(self, name, **facts):
        """What the batch system tells of a job."""
        self.known[name] = Facts(**{"job": name, "raw_job": name, **facts})

    def sweep(self, entries, slot=None):
        """
        The SiteSweep in which these have changed: {(fs, target): {id: {counter: samples, or
        (samples, sum)}}}, the values as the file has them.
        """
        first = self.slot is None
        self.slot = slot or (self.began if first else self.slot + EVERY_S)
        for key, some in entries.items():
            target = self.targets.get(key)
            if target is None:
                target = self.targets[key] = CorrectedTarget(self.names, *key)
            target.add_block(self._block(key, some), _node_of(key), self.boot, first)
        for key in self.targets.keys() - entries.keys():
            self.targets[key].add_block(self._block(key, {}), _node_of(key), self.boot, False)
        for key in self.targets:
            self.agents[_node_of(key)] = Agent(self.slot)
        return SiteSweep(self.slot, EVERY_S, True, list(self.targets.values()))

    def _block(self, key, entries):
        ids, counters = list(entries), {}
        for at, job_id in enumerate(ids):
            for name, amount in entries[job_id].items():
                samples, total = amount if isinstance(amount, tuple) else (amount, None)
                column = counters.setdefault(name, ([], [], []))
                column[0].append(at)
                column[1].append(samples)
                column[2].append(total)
        return Block(
            file_system=key[0], target=key[1], read_at=float(self.slot), ended=True,
            cleanup_s=600, entries=len(ids), ids=ids,
            started=[int((self.began - 1) * 1e9) if self.starts else 0] * len(ids),
            seen=[int(self.slot * 1e9)] * len(ids),
            counters={name: Column(
                unit=UNITS.get(name, "reqs"), at=at, samples=samples,
                **({} if None in sums else {"sum": sums})) for name, (at, samples, sums)
                in counters.items()})


def _node_of(key):
    return "oss1" if key[1].startswith("OST") else "mds1"


def swept(sink, site, *sweeps_entries):
    """Give `sink` these sweeps, one after the other, on a loop; waits until it has taken each."""
    async def give():
        for entries in sweeps_entries:
            sink.sweep(site.sweep(entries), site)
            await sink.walking
    asyncio.run(give())


def sent(sink):
    """Wait until the database has all that was given to `sink`, an InfluxDB."""
    until(lambda: not sink.count_pending_sweeps()
          and not number_of(sink, "iostats_influxdb_spooled_points"), what="all points are sent")


def kept(sink):
    """Wait until all that was given to it is in its directory."""
    until(lambda: not sink.count_pending_sweeps(), what="all points are kept")


def config_of(**options):
    """A Config with these: config_of(influxdb_url=...)."""
    found = config.Config()
    sinks.add_sections(found)
    for name, value in options.items():
        found.set_value(name.replace("_", ".", 1), str(value), "the test")
    return found


class Said(list):
    """What a sink has said; call it as its `emit`."""

    def __call__(self, text):
        self.append(text)


# -- databases ---------------------------------------------------------------------------------

def get(url, **params):
    """The body of an answer, bytes."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(params)}", timeout=20) as answer:
        return answer.read()


class Victoria:
    """A VictoriaMetrics of our own, with its data in `directory`; it can be stopped and started."""

    def __init__(self, directory):
        self.directory, self.process = directory, None
        if not shutil.which("victoria-metrics"):
            pytest.skip("needs Debian's victoria-metrics")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(
            ["victoria-metrics", f"-storageDataPath={self.directory}", "-retentionPeriod=100y",
             f"-httpListenAddr=127.0.0.1:{self.port}", "-search.latencyOffset=0s",
             "-search.disableCache", "-loggerLevel=ERROR"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, what="VictoriaMetrics answers")

    def _answers(self):
        try:
            return get(f"{self.url}/health") == b"OK"
        except OSError:
            return False

    def stop(self):
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def series(self, match='{__name__=~"lustre.*"}'):
        """{(metric, its labels in order): {time, s: value}} of all that it has."""
        get(f"{self.url}/internal/force_flush")
        found = {}
        for line in get(f"{self.url}/api/v1/export", **{"match[]": match}).splitlines():
            one = json.loads(line)
            labels = dict(one["metric"])
            key = (labels.pop("__name__"), tuple(sorted(labels.items())))
            found[key] = dict(zip((t / 1000 for t in one["timestamps"]), one["values"]))
        return found

    def query(self, text, at):
        """{labels without the name, in order: value} of a query at a time."""
        return query(self.url, text, at)


def query(url, text, at):
    """The same, of any database that has Prometheus' API."""
    answer = json.loads(get(f"{url}/api/v1/query", query=text, time=at))
    assert "success" == answer["status"], answer
    return {tuple(sorted((name, value) for name, value in one["metric"].items()
                         if name != "__name__")): float(one["value"][1])
            for one in answer["data"]["result"]}


class Answering:
    """
    A database that answers as it is told: `answers` has (status, headers, body), "hang" or
    "drop" for each write to come, and after that 204.

    Attributes:
        writes: [(path with query, authorization, lines of the body)] of those that it has read.
        wanted: the authorization that it takes, and answers 401 to all others; None: it takes any.
    """

    def __init__(self, *answers):
        self.answers, self.writes = collections.deque(answers), []
        self.wanted = None
        self.let_go = threading.Event()
        desk = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                import gzip
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                who = self.headers.get("Authorization")
                if desk.wanted not in (None, who):
                    what = (401, {}, b"")
                else:
                    what = desk.answers.popleft() if desk.answers else (204, {}, b"")
                what = what(body) if callable(what) else what
                desk.writes.append((self.path, who, body.decode().split("\n")))
                if what == "hang":
                    desk.let_go.wait(30)
                if what in ("hang", "drop"):
                    self.close_connection = True
                    return
                status, headers, text = what
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        """End it."""
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


def number_of(sink, name):
    """One of the numbers that a sink tells of itself."""
    return {one.name: one.value for one in sink.numbers()}[name]


def now_slot():
    """A sweep's time, five minutes ago: a database takes it, and shows it at once."""
    return int(time.time()) // EVERY_S * EVERY_S - 300
