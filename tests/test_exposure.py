"""
What leaves a machine: connections, secrets; and where the packages come from that we need.
docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import AFTER, BEFORE, CLIENT, REPOSITORY, Desk, until, write_tree
from site_desk import free_port
from storage import StorageServer, moved

from iostats import sinks
from iostats.wire import protocol

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])


# -- no network but what was asked for ------------------------------------------------------------

ADDRESS = re.compile(r"sa_family=AF_INET6?, sin6?_port=htons\((\d+)\).*?\"([0-9a-f.:]+)\"")


def met(desk, *command, status=0, env=None):
    """{(address, port)} that a command sends something to, or tries to; by strace."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    trace = desk.directory / "trace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=connect,sendto,sendmsg,sendmmsg",
         *map(str, command)], cwd=desk.directory, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY),
                                     "HOME": str(desk.home), **(env or {})})
    assert done.returncode == status, done
    return {(address, int(port)) for port, address in ADDRESS.findall(trace.read_text())}


@pytest.mark.strace
def test_nothing_is_sent_anywhere_but_to_the_server_that_was_named(desk):
    """All roles: no name is looked up, no update is looked for, nobody is told."""
    desk.site()
    here, config = {("127.0.0.1", desk.port)}, ("--config", desk.cfg)
    client = (sys.executable, "-I", "-S", CLIENT)
    iostats = (sys.executable, "-m", "iostats")
    root = desk.tree("nid1", **BEFORE)
    on = ("--node", "nid1", "--root", root)
    assert set() == met(desk, *client, "show", *on)
    assert set() == met(desk, *client, "prolog", *on, *config, "--job", "4711")
    write_tree(root, **AFTER)
    assert here == met(desk, *client, "epilog", *on, *config, "--job", "4711", "--nodes", "nid1")
    desk.record("4711")
    assert here == met(desk, *iostats, "report", "4711", *config)
    assert here == met(desk, *iostats, "jobs", *config)
    assert here == met(desk, *iostats, "top", "--once", *config, status=3)
    assert here == met(desk, *iostats, "query", "b", *config, status=3)
    assert set() == met(desk, *iostats, "config", *config)
    server = desk.server("--nodes", "1")
    job = ("--job", desk.job, "--state-dir", desk.state)
    assert set() == met(desk, *client, "start", *on, *job)
    assert {("127.0.0.1", server.port)} == met(desk, *client, "stop", *on, *job, "--server",
                                               f"127.0.0.1:{server.port}")
    assert 0 == server.wait().status
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    desk.configure(harvest_spool_dir=storage.root / "spool")
    assert here == met(desk, *client, "harvest", "--once", "--root", storage.root, "--node", "oss1",
                       *config)


@pytest.mark.strace
def test_a_server_opens_no_connection(tmp_path):
    """It listens, answers, and ends."""
    with Desk(tmp_path) as desk:
        assert set() == met(desk, sys.executable, REPOSITORY / "iostats_server.py", "--job",
                            desk.job, "--print-port")
        trace = tmp_path / "calls"
        if not shutil.which("strace"):
            pytest.skip("needs strace")
        port = free_port()
        process = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=connect", sys.executable,
             str(REPOSITORY / "iostats_server.py"), "--job", desk.job, "--nodes", "1", "--listen",
             f"127.0.0.1:{port}"], env=desk.environment(), cwd=tmp_path, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        desk.started.append(process)
        assert process.stderr.readline().endswith("waiting for 1 node\n")
        node = type("Server", (), {"port": port})
        assert 0 == desk.whole_job(node, "nid1").status
        assert 0 == process.wait(100)
        assert [] == ADDRESS.findall(trace.read_text())


@pytest.mark.strace
def test_a_secret_is_only_in_its_own_file(desk):
    """Not in a command line, an answer, a record, a log, the store, or what a node keeps."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    secret, job = "5ec2e7" * 8, "4711"
    desk.site_secret.write_text(secret)
    desk.site_secret.chmod(0o600)
    traced = ("strace", "-f", "-ff", "-qq", "-v", "-s", "1000000", "-e",
              "trace=execve,write,writev,pwrite64,sendto,sendmsg,rename,link", "-o")
    server = desk.begin_site()
    until(lambda: "the site's server on" in server.err, what="the site's server")
    with subprocess.Popen([*traced, desk.directory / "trace-server", "-p", str(server.process.pid)],
                          stderr=subprocess.PIPE) as watcher:
        until(lambda: "TracerPid:\t0\n" not in Path(
            f"/proc/{server.process.pid}/status").read_text(), what="the watcher")
        root = desk.tree("nid00001", **BEFORE)
        client = [sys.executable, "-I", "-S", CLIENT]
        for role in ("prolog", "epilog"):
            assert 0 == desk.hook(role, root=root, job=job, command=[
                *traced, desk.directory / f"trace-{role}", *client]).status
            write_tree(root, **AFTER)
        desk.record(job)
        assert 0 == desk.iostats("report", job).status
        assert 0 == server.stop().status
        watcher.wait(20)
        watcher.stderr.close()
    traces = list(desk.directory.glob("trace-*"))
    assert {"server", "prolog", "epilog"} == {path.name[6:].partition(".")[0] for path in traces}
    assert any(b"IOSTATS-MAC" in path.read_bytes() for path in traces)
    key = protocol.derive_key(secret.encode(), protocol.SITE)
    found = [path.name for path in desk.directory.rglob("*") if path.is_file()
             and re.search(b"|".join(map(re.escape, (secret.encode(), key, key.hex().encode()))),
                           path.read_bytes())]
    assert [desk.site_secret.name] == found


# -- who made what we need ------------------------------------------------------------------------

def _names(path):
    return {line.partition("==")[0] for line in path.read_text().splitlines()
            if re.match(r"[a-z0-9-]+==", line)}


def test_ci_installs_what_the_project_says_and_nothing_without_a_hash():
    """tools/requirements-ci.txt: every package of pyproject.toml, each with its hashes."""
    lines = (REPOSITORY / "tools" / "requirements-ci.txt").read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"\S", line) and line[0] != "#"]
    assert all("==" in lines[at] and "--hash=sha256:" in lines[at + 1] for at in heads)
    wanted = set()
    text = (REPOSITORY / "pyproject.toml").read_text().partition("[project.optional-dependencies]")
    extras = [name for name in sinks.list_names() if sinks.find_sink(name).REQUIRES]
    for extra in ("server", "mpi", "sim", "test", *extras):
        listed = re.search(rf"^{extra} = \[(.*?)\](?:\s*#.*)?$", text[2],
                           re.MULTILINE | re.DOTALL)[1]
        wanted.update(name.lower().replace("_", "-")
                      for name in re.findall(r'"([A-Za-z0-9_.-]+)', listed))
    assert set() == wanted - _names(REPOSITORY / "tools" / "requirements-ci.txt")


def test_the_licence_of_each_package_is_on_the_list():
    """docs/reference/licences.md, compared with what is installed here."""
    from importlib import metadata
    sys.path.insert(0, str(REPOSITORY / "tools"))
    try:
        import licences
    finally:
        sys.path.pop(0)
    listed = licences.listed((REPOSITORY / "docs" / "reference" / "licences.md").read_text())
    assert set() == _names(REPOSITORY / "tools" / "requirements-ci.txt") - set(listed)
    differ = {}
    for name, (licence, _) in listed.items():
        assert licences.families(licence), f"{name}: {licence}"
        try:
            found = licences.of(metadata.metadata(name))
        except metadata.PackageNotFoundError:
            continue
        # Older releases of a package, for older Pythons, may say it in other words.
        if not licences.families(found) & licences.families(licence):
            differ[name] = (licence, found)
    assert {} == differ
