"""
Commands whose site's server cannot be reached: each gives up after a moment and says so.

The host that does not answer is a listening socket of ours whose queue is full.
"""

import signal
import socket
import subprocess
import sys
import threading

import pytest
from processes import REPOSITORY

from iostats.base import config as site
from iostats.cli import event_servers, events, jobs, nodes, query, report, site_client, top, why
from iostats.doctor import site as doctor_site
from iostats.doctor.check import PROBLEM
from iostats.wire import client, site_servers

COMMANDS = {
    "jobs": (jobs, []), "report": (report, ["4711"]), "why": (why, ["4711"]), "nodes": (nodes, []),
    "nodes --down": (nodes, ["--down"]), "query": (query, ["jobs"]), "top": (top, ["--once"]),
    "events": (events, [])}


@pytest.fixture
def full():
    """The port of a server that takes no more connections."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = []
        for _ in range(3):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
            waiting.append(one)
        yield listening.getsockname()[1]
        for one in waiting:
            one.close()


@pytest.fixture
def short(monkeypatch, tmp_path):
    """A wait of 0.2 s in place of 3 s, and a site.cfg that has a secret and the server's place."""
    for module in (site_servers, event_servers):
        monkeypatch.setattr(module, "REACH_WITHIN_S", 0.2)
    monkeypatch.setattr(site_client, "_asked", {})
    secret = tmp_path / "site.secret"
    secret.write_text("23" * 32)
    secret.chmod(0o600)

    def config(host, port):
        path = tmp_path / "site.cfg"
        path.write_text(f"[site]\nhost = {host}\nport = {port}\nsecret = {secret}\n"
                        f"[server]\nauth = secret\n")
        return ["--config", str(path)]
    return config


@pytest.mark.parametrize("name", COMMANDS)
def test_a_host_that_does_not_answer_is_given_up(name, full, short, capsys):
    module, arguments = COMMANDS[name]
    assert 3 == module.main([*arguments, *short("127.0.0.1", full)])
    assert f"127.0.0.1:{full}: no connection within 0.2 s" in capsys.readouterr().err


@pytest.mark.parametrize("hosts", ["mgmt1", "mgmt1 mgmt2"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_resolver_that_hangs_is_given_up(name, hosts, short, monkeypatch, capsys):
    """No signal interrupts it."""
    over = threading.Event()
    monkeypatch.setattr(site_servers, "_HELLO_WITHIN_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *more: over.wait(60) and [])
    module, arguments = COMMANDS[name]
    assert 3 == module.main([*arguments, *short(hosts, 19990)])
    over.set()
    assert "mgmt1:19990: no address of mgmt1 within 0.2 s" in capsys.readouterr().err


def test_a_collector_is_given_up_as_well(full, short, capsys):
    assert 3 == events.main(["--server", f"http://127.0.0.1:{full}", *short("127.0.0.1", 1)])
    assert "no connection within 0.2 s" in capsys.readouterr().err


def test_the_doctor_gives_up_a_resolver_that_hangs(short, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(doctor_site, "REACH_WITHIN_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *more: over.wait(60) and [])
    here = site.load(short("mgmt1", 19990)[1], environ={})
    [found] = [one for one in doctor_site.examine(here, "nid00023") if one.name == "site"]
    over.set()
    assert (PROBLEM, "mgmt1:19990: no address of mgmt1 within 0.2 s", "ping -c 3 mgmt1") == (
        found.state, found.text, found.fix)


def test_a_server_that_is_reached_and_silent_is_waited_for_with_a_line(short, monkeypatch, capsys):
    """It may only be busy."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = short("127.0.0.1", port)
        with pytest.raises(client.OtherServer, match="does not answer"):
            site_client.ask_site(site.load(config[1]), "jobs", {}, 0.7)
    assert (f"iostats: 127.0.0.1:{port} has not answered yet; waiting for up to 0.7 s\n"
            == capsys.readouterr().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_command_that_waits_without_a_word(name, tmp_path):
    """A server that takes connections, and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (tmp_path / "site.secret").write_text("23" * 32)
        (tmp_path / "site.secret").chmod(0o600)
        (tmp_path / "site.cfg").write_text(
            f"[site]\nhost = 127.0.0.1\nport = {silent.getsockname()[1]}\n"
            f"secret = {tmp_path}/site.secret\n[server]\nauth = secret\n")
        role, arguments = name.split()[0], COMMANDS[name][1]
        command = subprocess.Popen(
            [sys.executable, "-m", "iostats", role, *arguments, "--config",
             str(tmp_path / "site.cfg")], cwd=REPOSITORY, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        silent.settimeout(60)
        connection, _ = silent.accept()
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        connection.close()
    assert (130, "", "") == (command.returncode, out, err)
