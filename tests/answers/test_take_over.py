"""
Several servers of a site with one store in PostgreSQL: one is active, another takes over when that
one is killed, hangs or is cut off.
"""
from __future__ import annotations

import contextlib
import signal
import socket
import threading

import pytest
from postgresql import Cluster
from processes import free_port, until
from site_desk import SiteDesk, a_report
from storage import StorageServer, moved

from iostats.base.errors import NotDelivered
from iostats.wire import client, protocol, site_servers

pytestmark = pytest.mark.postgresql
JOBS = [str(4711 + number) for number in range(7)]
NODES = ("nid00001", "nid00002", "nid00003")


class TwoServers(SiteDesk):
    """A desk with two ports and one database."""

    def __init__(self, directory, url):
        super().__init__(directory)
        self.other = free_port()
        self.configure(site_host=f"127.0.0.1, 127.0.0.1:{self.other}", site_store=url,
                       harvest_interval=1)
        self.servers = site_servers.make_site_servers(self.config)

    def standby(self, env=()):
        """The second server, which stands by."""
        server = self.begin_site(hasty=True, env={"IOSTATS_SITE_PORT": str(self.other),
                                                  **dict(env)})
        until(lambda: "another server has it open; this one stands by" in server.err,
              what="the server that stands by")
        assert server.process.poll() is None, server.err
        return server

    def deliver(self, job, node):
        """Send a report until one of the servers has acknowledged it."""
        report = a_report(job, node, about={"nodes": "nid[00001-00003]"})

        def delivered():
            try:
                return self.servers.call(self.signs(), node, "report", report, 5.0)
            except NotDelivered:
                return None
        assert until(delivered, what="an answer")["counted"]


    def until_read(self, read_bytes):
        """Wait until job 4799 has read so much by the storage servers, exactly."""
        until(lambda: [(read_bytes, False)] == [
            (row["read_bytes"], row["lower_bound"]) for row in self.query(level="b", job="4799")],
            what=f"{read_bytes} bytes read by 4799")

    def coverage(self, job, reported):
        """(Reads of a job, missing nodes, marked), with `reported` nodes in the record."""
        record = self.record(job, lambda record: record["coverage"]["reported"] == reported)
        [fs] = record["file_systems"]
        return (fs["application"]["read_calls"], list(record["coverage"]["missing"]),
                fs["lower_bound"])


class Cable:
    """A port of this machine that leads to PostgreSQL's socket, and between them may be cut."""

    def __init__(self, path):
        self._path, self._is_whole = path, threading.Event()
        self._ends, self._threads = [], []
        self._is_whole.set()
        self._port = socket.create_server(("127.0.0.1", 0))
        self.port = self._port.getsockname()[1]
        self._start(self._accept)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.reconnect()
        for end in (self._port, *self._ends):
            with contextlib.suppress(OSError):          # the other side has closed it
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for end in (self._port, *self._ends):
            end.close()

    def cut(self):
        """Nothing passes any more; neither end is closed."""
        self._is_whole.clear()

    def reconnect(self):
        """All passes, also what has come since it was cut."""
        self._is_whole.set()

    def _start(self, work, *arguments):
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):              # the port is closed
            while True:
                client, _ = self._port.accept()
                server = socket.socket(socket.AF_UNIX)
                self._ends += (client, server)
                server.connect(self._path)
                self._start(self._pass, client, server)
                self._start(self._pass, server, client)

    def _pass(self, source, to):
        with contextlib.suppress(OSError):              # both are closed
            while True:
                data = source.recv(65536)
                self._is_whole.wait()
                if not data:
                    break
                to.sendall(data)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Answer:
    """A report that is sent to the first server, and waits for its answer."""

    def __init__(self, desk, job, node):
        self._desk, self._report, self._error = desk, a_report(job, node), None
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self):
        try:
            client.call("127.0.0.1", self._desk.port, protocol.SITE, self._desk.signs(),
                        self._report["node"], "report", self._report, 100.0)
        except NotDelivered as error:
            self._error = error

    def refusal(self):
        """The code of the error with which the server refused it; None without an answer."""
        self._thread.join(100)
        assert self._error is not None, "the report was acknowledged"
        return getattr(self._error, "code", None)


@pytest.fixture
def desk(tmp_path, postgresql):
    desk = TwoServers(tmp_path, postgresql.database())
    yield desk
    desk.close()


def serves(server):
    until(lambda: "the site's server on" in server.err, what="the server that takes over")


def amounts(desk):
    """{job: (nodes in its one record, their reads)}."""
    found = {}
    for job in JOBS:
        record = desk.record(job, lambda record: record["coverage"]["reported"] == len(NODES))
        [fs] = record["file_systems"]
        found[job] = record["coverage"]["reported"], fs["application"]["read_calls"]
    return found


def test_nothing_is_lost_or_counted_twice_when_the_active_server_is_killed(desk):
    """Reports and sweeps, some acknowledged by the one and some by the other, some sent to both."""
    active = desk.site()
    standby = desk.standby()
    oss = StorageServer(desk, "oss1")
    oss.show("OST0000", {"4799": moved(1009)})
    agent = oss.agent(patient=True)
    desk.until_written(0, "4799")
    for job in JOBS[:4]:
        for node in NODES[:2]:
            desk.deliver(job, node)
    active.kill()
    oss.show("OST0000", {"4799": moved(23 * 1009)})
    for job in JOBS:
        for node in NODES:                 # the first two again
            desk.deliver(job, node)
    serves(standby)
    assert dict.fromkeys(JOBS, (3, 3 * 23)) == amounts(desk)
    desk.until_read(23 * 1009)
    agent.terminate()
    agent.communicate(timeout=100)
    active = desk.begin_site(hasty=True)                # it comes back, and stands by
    until(lambda: "this one stands by" in active.err, what="the first server")
    assert 0 == standby.stop().status
    serves(active)
    assert dict.fromkeys(JOBS, (3, 3 * 23)) == amounts(desk)


def test_a_server_that_wakes_up_late_changes_nothing(desk):
    """PostgreSQL has ended its session; it says so in one line, and ends."""
    active = desk.site()
    standby = desk.standby()
    for job in JOBS:
        desk.deliver(job, "nid00001")
    active.process.send_signal(signal.SIGSTOP)
    serves(standby)
    for job in JOBS:
        for node in NODES:
            desk.deliver(job, node)
    active.process.send_signal(signal.SIGCONT)
    done = active.wait()
    assert 1 == done.status
    last = done.err.splitlines()[-1]
    assert last.startswith("iostats: postgresql://iostats@/") and "the server ends" in last
    assert "Traceback" not in done.err
    assert dict.fromkeys(JOBS, (3, 3 * 23)) == amounts(desk)


def test_a_server_that_is_cut_off_from_postgresql_changes_nothing(tmp_path, postgresql):
    """
    Nothing passes between it and PostgreSQL, and neither end sees its connection closed; nodes
    still reach it, and it acknowledges none of what they send.
    """
    url, _, directory = postgresql.database().partition("?host=")
    with Cable(f"{directory}/.s.PGSQL.5432") as cable, TwoServers(tmp_path, url) as desk:
        active = desk.site(env={"PGHOST": "127.0.0.1", "PGPORT": str(cable.port)})
        standby = desk.standby(env={"PGHOST": directory})
        for job in JOBS:
            desk.deliver(job, "nid00001")
        cable.cut()
        cut_off = [Answer(desk, job, "nid00002") for job in JOBS[:3]]
        serves(standby)
        for job in JOBS:
            for node in NODES:
                desk.deliver(job, node)
        cable.reconnect()                                    # what was on the way arrives now
        done = active.wait()
        assert 1 == done.status
        assert "the server ends" in done.err.splitlines()[-1] and "Traceback" not in done.err
        assert {protocol.INTERNAL_ERROR, None} >= {one.refusal() for one in cut_off}    # later
        assert dict.fromkeys(JOBS, (3, 3 * 23)) == amounts(desk)


def test_a_postgresql_that_crashes_loses_nothing_that_was_acknowledged(tmp_path):
    """The server says so in one line and ends; systemd starts it again."""
    with Cluster(synced=True) as cluster, TwoServers(tmp_path, cluster.database()) as desk:
        server = desk.site()
        for job in JOBS[:4]:
            for node in NODES[:2]:
                desk.deliver(job, node)
        cluster.stop()
        done = server.wait()
        assert 1 == done.status and "Traceback" not in done.err
        [line] = [line for line in done.err.splitlines() if "the server ends" in line]
        assert line.startswith("iostats: postgresql://iostats@/")
        refused = desk.begin_site(hasty=True).wait()    # while PostgreSQL is away
        assert 1 == refused.status
        [line] = refused.err.splitlines()
        assert "cannot be opened: " in line
        cluster.start()
        desk.site()
        for job in JOBS:
            for node in (NODES if job in JOBS[4:] else NODES[2:]):   # not the others again
                desk.deliver(job, node)
        assert dict.fromkeys(JOBS, (3, 3 * 23)) == amounts(desk)
