"""
A real etcd on this machine, for tests: one member or more, each a process that can be killed, made
to hang, started again, and cut off from the others.

    def test_something(etcd):                    # one member, whole at each test; a new prefix
        Etcd(etcd.endpoints).put(f"/{etcd.prefix}/current", b"23")

    def test_failover(etcd_three):               # three members, whole at each test
        etcd_three.leader().kill()

    with EtcdCluster(directory, tls=True, password="..") as etcd: ...

Members talk to each other by way of `Wires`, which tell from whom a connection is by the header
X-Server-From (etcd's rafthttp), so that one member can be cut off both ways while clients still
reach it.  Needs Debian's etcd-server and etcd-client.
"""
from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import uuid
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from processes import free_port, until

UP_WITHIN_S = 90


class EtcdMember:
    """
    One etcd; `url`: where clients ask it.  It is running once EtcdCluster has been made.

    Attributes:
        name: such as m1.
        id: its member id (member_id of each answer's header), as a number.
    """

    def __init__(self, cluster, name, command, url):
        self.cluster, self.name, self.url, self._command = cluster, name, url, command
        self.data = cluster.data / name
        self.log = cluster.directory / f"{name}.log"
        self.process, self.id = None, 0

    def start(self):
        """Start it, or start it again, with the data that it had; it may not serve yet."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.cluster.directory,
                                            env={"PATH": os.environ["PATH"], "ETCD_API": "3"})

    def kill(self):
        """kill -9, as when its host is gone."""
        self.process.kill()
        self.process.wait()

    def hang(self):
        """SIGSTOP: connections stay, and nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        """The end of a hang."""
        self.process.send_signal(signal.SIGCONT)

    def cut_off(self):
        """No other member hears of it, nor it of them; clients do."""
        self.cluster.wires.cut.add(self.id)

    def join(self):
        """The end of being cut off."""
        self.cluster.wires.cut.discard(self.id)
        self.cluster.wires.renew()

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def is_serving(self):
        """Whether it answers a read that needs a leader."""
        try:
            return "header" in self.ask("kv/range", {"key": "AA=="}, 1)
        except OSError as error:
            told = error.read() if hasattr(error, "code") else b""
            return b"user name" in told or b"permission denied" in told

    def ask(self, path, body, within_s=20.0):
        """The answer of its JSON gateway, by other code than ours; OSError."""
        request = Request(f"{self.url}/v3/{path}", json.dumps(body).encode())
        with urlopen(request, timeout=within_s, context=self.cluster.tls_context) as answer:
            return json.loads(answer.read())


class EtcdCluster:
    """
    `members` EtcdMembers that serve.  `tls`: https alone, with certificates of its own (`ca`,
    `cert`, `key`: paths); `client_cert`: clients need one of `ca`; `password`: of the user root,
    without whom nothing is answered.
    """

    def __init__(self, directory, members=1, tls=False, client_cert=False, password="",
                 options=()):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        # etcd waits for the disk at each write, and a busy machine's takes half a second.
        self.data = Path(tempfile.mkdtemp(
            prefix="etcd-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else self.directory))
        self.password, self.tls_context, self.prefix = password, None, "orion"
        self.ca = self.cert = self.key = ""
        self.wires = Wires()
        scheme, more = "http", list(options)
        if tls:
            scheme = "https"
            self.ca, self.cert, self.key = certificates(self.directory)
            more += ["--cert-file", self.cert, "--key-file", self.key]
            if client_cert:
                more += ["--client-cert-auth", "--trusted-ca-file", self.ca]
            self.tls_context = ssl.create_default_context(cafile=self.ca)
            self.tls_context.load_cert_chain(self.cert, self.key)
        names = [f"m{number}" for number in range(1, members + 1)]
        clients = {name: f"{scheme}://127.0.0.1:{free_port()}" for name in names}
        behind = {name: free_port() for name in names}
        ways = {name: self.wires.to(behind[name]) for name in names}
        peers = {name: f"http://127.0.0.1:{ways[name]}" for name in names}
        self.members = [EtcdMember(self, name, [
            "etcd", "--name", name, "--data-dir", str(self.data / name),
            "--listen-client-urls", clients[name], "--advertise-client-urls", clients[name],
            "--listen-peer-urls", f"http://127.0.0.1:{behind[name]}",
            "--initial-advertise-peer-urls", peers[name], "--initial-cluster",
            ",".join(f"{one}={peers[one]}" for one in names),
            "--initial-cluster-token", uuid.uuid4().hex, "--logger", "zap", *more], clients[name])
            for name in names]
        try:
            token = self.members[0]._command.index("--initial-cluster-token") + 1
            for member in self.members:
                member._command[token] = self.members[0]._command[token]
                member.start()
            self.wait()
            for member, name in zip(self.members, names):
                self.wires.names[behind[name]] = member.id
            if password:
                self._need_password(password)
        except BaseException:
            self.close()
            raise

    @property
    def endpoints(self):
        """The URLs of all members."""
        return [member.url for member in self.members]

    def wait(self):
        """Until all members serve."""
        for member in self.members:
            until(member.is_serving, UP_WITHIN_S,
                  lambda member=member: f"{member.name}\n{member.log.read_text()[-2000:]}\nstart")
            if not member.id and not self.password:
                member.id = int(member.ask("kv/range", {"key": "AA=="})["header"]["member_id"])

    def leader(self):
        """The EtcdMember that leads, once there is one."""
        def found():
            for member in self.members:
                try:
                    leads = int(member.ask("maintenance/status", {}, 1).get("leader", 0))
                except OSError:
                    continue
                if leads:
                    return next(one for one in self.members if one.id == leads)
        return until(found, UP_WITHIN_S, "a leader")

    def follower(self):
        """An EtcdMember that does not lead."""
        leads = self.leader()
        return next(one for one in self.members if one is not leads)

    def make_whole(self):
        """All members run, none hangs, none is cut off, and all serve."""
        for member in self.members:
            if member.id in self.wires.cut:
                member.join()
            if member.is_running:
                member.go_on()
            else:
                member.start()
        self.wait()

    def ctl(self, *arguments):
        """What etcdctl prints, which asks the first member."""
        done = subprocess.run(
            ["etcdctl", "--endpoints", self.members[0].url, *(
                ["--cacert", self.ca, "--cert", self.cert, "--key", self.key] if self.ca else []),
             *arguments], env={"PATH": os.environ["PATH"], "ETCDCTL_API": "3"},
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def _need_password(self, password):
        self.ctl("user", "add", f"root:{password}")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("auth", "enable")

    def close(self):
        """End all members."""
        for member in self.members:
            if member.process is not None:
                member.process.kill()
                member.process.wait()
        shutil.rmtree(self.data)
        self.wires.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def certificates(directory, subject="/O=etcd", by=None):
    """
    Paths of (a CA's certificate, one of 127.0.0.1 by it, its key), made in `directory`.

    `subject`: where users have passwords, the gateway takes no client with a common name (CN);
    `by`: the directory of a CA that was made before.
    """
    directory = Path(directory)
    directory.mkdir(exist_ok=True)
    ca, ca_key = (Path(by or directory, name) for name in ("ca.pem", "ca.key"))

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, timeout=60,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    if by is None:
        openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", "9",
                "-subj", "/CN=etcd of tests", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", *new_key, "-keyout", "etcd.key", "-out", "etcd.csr", "-subj", subject)
    (directory / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    openssl("x509", "-req", "-in", "etcd.csr", "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
            "-days", "9", "-extfile", "san", "-out", "etcd.pem")
    return str(ca), str(directory / "etcd.pem"), str(directory / "etcd.key")


class Wires:
    """
    The ways to members, in one thread: bytes are passed on, but for members in `cut`, which nothing
    reaches and from which nothing comes; those connections stay, and are silent.
    """

    def __init__(self):
        self.cut, self.names = set(), {}             # member ids; {port: member id}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, self._close_all)
        self._pairs, self._ends = {}, False
        self._thread = None

    def to(self, port):
        """The port that leads to `port`."""
        listens = socket.create_server(("127.0.0.1", free_port()))
        listens.setblocking(False)
        self._selector.register(listens, selectors.EVENT_READ,
                                lambda one: self._accept(one, port))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return listens.getsockname()[1]

    def renew(self):
        """Drop all connections, so that members make new ones."""
        self._wake.send(b"x")

    def close(self):
        self._ends = True
        self._wake.send(b"x")
        if self._thread is not None:
            self._thread.join(10)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()
        self._wake.close()

    def _run(self):
        while not self._ends:
            for key, _ in self._selector.select():
                try:
                    key.data(key.fileobj)
                except (OSError, KeyError):
                    self._drop(key.fileobj)

    def _accept(self, listens, port):
        comes, _ = listens.accept()
        try:
            goes = socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            comes.close()
            return
        of = {"from": None, "to": port}
        for one, other in ((comes, goes), (goes, comes)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ,
                                    lambda one, first=one is comes: self._pass(one, of, first))

    def _pass(self, one, of, is_first):
        data = one.recv(1 << 16)
        if is_first and of["from"] is None:
            found = re.search(rb"X-Server-From: ([0-9a-f]+)", data)
            of["from"] = int(found[1], 16) if found else None
        if not data:
            self._drop(one)
        elif not {of["from"], self.names.get(of["to"])} & self.cut:
            self._pairs[one].settimeout(20)
            self._pairs[one].sendall(data)

    def _drop(self, one):
        for end in (one, self._pairs.pop(one, None)):
            if end is not None:
                self._pairs.pop(end, None)
                try:
                    self._selector.unregister(end)
                except (KeyError, ValueError):
                    pass
                end.close()

    def _close_all(self, woken):
        woken.recv(100)
        for one in list(self._pairs):
            self._drop(one)


class EtcdForTest:
    """What the fixture `etcd` gives: `endpoints`, a `prefix` of the test's own, `cluster`."""

    def __init__(self, cluster):
        self.cluster, self.endpoints = cluster, cluster.endpoints
        self.prefix = f"test-{uuid.uuid4().hex[:12]}"


def _need_etcd():
    missing = [name for name in ("etcd", "etcdctl") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{' '.join(missing)} not installed (make setup)")


@pytest.fixture(scope="session")
def _etcd_of_session(tmp_path_factory):
    _need_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture
def etcd(_etcd_of_session):
    """An EtcdForTest; its one member is all tests': those that kill have a cluster of their own."""
    _etcd_of_session.make_whole()
    return EtcdForTest(_etcd_of_session)


@pytest.fixture(scope="session")
def _three_of_session(tmp_path_factory):
    _need_etcd()
    with EtcdCluster(tmp_path_factory.mktemp("etcd3"), members=3) as cluster:
        yield cluster


@pytest.fixture
def etcd_three(_three_of_session):
    """An EtcdCluster of three members that all serve; `prefix` is the test's own."""
    _three_of_session.make_whole()
    _three_of_session.prefix = f"test-{uuid.uuid4().hex[:12]}"
    yield _three_of_session
    _three_of_session.make_whole()
