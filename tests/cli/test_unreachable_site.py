"""Commands whose site's server cannot be reached: each gives up after a moment and says so."""

import signal
import socket
import subprocess
import sys
import threading

import pytest
from processes import REPOSITORY, unresponsive_port

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
    with unresponsive_port() as port:
        yield port


@pytest.fixture
def hanging_resolver(monkeypatch):
    """No name is resolved, and no signal interrupts it."""
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *more: over.wait(60) and [])
    yield
    over.set()


@pytest.fixture
def short(monkeypatch, tmp_path):
    """A wait of 0.2 s in place of 3 s, and a site.cfg that has a secret and the server's place."""
    for module in (site_servers, event_servers, doctor_site):
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
def test_a_resolver_that_hangs_is_given_up(name, hosts, short, hanging_resolver, monkeypatch,
                                           capsys):
    monkeypatch.setattr(site_servers, "_HELLO_WITHIN_S", 0.2)
    module, arguments = COMMANDS[name]
    assert 3 == module.main([*arguments, *short(hosts, 19990)])
    assert "mgmt1:19990: no address of mgmt1 within 0.2 s" in capsys.readouterr().err


def test_a_collector_is_given_up_as_well(full, short, capsys):
    assert 3 == events.main(["--server", f"http://127.0.0.1:{full}", *short("127.0.0.1", 1)])
    assert "no connection within 0.2 s" in capsys.readouterr().err


def test_the_doctor_gives_up_a_resolver_that_hangs(short, hanging_resolver):
    here = site.load(short("mgmt1", 19990)[1], environ={})
    [found] = [one for one in doctor_site.examine(here, "nid00023") if one.name == "site"]
    assert (PROBLEM, "mgmt1:19990: no address of mgmt1 within 0.2 s", "ping -c 3 mgmt1") == (
        found.state, found.text, found.fix)


def test_a_server_that_is_reached_and_silent_is_waited_for_with_a_line(short, capsys):
    """It may only be busy."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = short("127.0.0.1", port)
        with pytest.raises(client.OtherServer, match="does not answer"):
            site_client.ask_site(site.load(config[1]), "jobs", {}, 0.7)
    assert (f"iostats: 127.0.0.1:{port} has not answered yet; waiting for up to 0.7 s\n"
            == capsys.readouterr().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_command_that_waits_without_a_word(name, short):
    """A server that takes connections, and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        role, arguments = name.split()[0], COMMANDS[name][1]
        command = subprocess.Popen(
            [sys.executable, "-m", "iostats", role, *arguments,
             *short("127.0.0.1", silent.getsockname()[1])],
            cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        silent.settimeout(60)
        connection, _ = silent.accept()
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        connection.close()
    assert (130, "", "") == (command.returncode, out, err)
