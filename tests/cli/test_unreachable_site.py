"""Commands whose site's server cannot be reached: each gives up after a moment and says so."""

import json
import signal
import socket
import subprocess
import sys
import threading

import pytest
from processes import REPOSITORY, unresponsive_port
from site_desk import a_report

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.cli import (
    event_servers,
    events,
    jobs,
    node,
    nodes,
    query,
    report,
    site_client,
    top,
    why,
)
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
    monkeypatch.setattr(site_client, "_connections", {})
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


@pytest.mark.parametrize("within_s", [2.0, 60.0])
def test_a_server_that_is_reached_and_silent_is_waited_for_with_a_line(short, capsys, monkeypatch,
                                                                       within_s):
    """It may only be busy; but `hello` is answered at once by a server that runs."""
    monkeypatch.setattr(site_servers, "SILENT_WITHIN_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = short("127.0.0.1", port)
        with pytest.raises(client.OtherServer, match="does not answer"):
            site_client.ask_site(site.load(config[1]), "jobs", {}, within_s)
    assert (f"iostats: 127.0.0.1:{port} has not answered yet; waiting for up to 2 s\n"
            == capsys.readouterr().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_waits_long_for_a_silent_server(name, short, monkeypatch, capsys):
    """Each has an error as soon as `hello` is late, however long an answer may take."""
    monkeypatch.setattr(site_servers, "SILENT_WITHIN_S", 0.3)
    asked = []
    call = client._query
    monkeypatch.setattr(client, "_query", lambda *more: asked.append(more[10]) or call(*more))
    module, arguments = COMMANDS[name]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert 3 == module.main([*arguments, *short("127.0.0.1", silent.getsockname()[1])])
    assert "the program on the port does not answer" in capsys.readouterr().err
    assert asked and {0.3} == set(asked)


def test_a_result_that_takes_long_is_waited_for_with_a_line(site, monkeypatch, capsys):
    """The server answers `hello`, and works until the line is printed."""
    ask, run, printed = client._Conversation._call, threading.Timer.run, threading.Event()

    def slowly(self, method, *more):
        if method == "jobs":
            assert printed.wait(60)
        return ask(self, method, *more)

    def run_soon(timer):
        # That line alone: `hello` has its 10 s, since this machine may be busy.
        if "has answered" in timer.args[0]:
            timer.function(*timer.args, **timer.kwargs)
            printed.set()
        else:
            run(timer)
    monkeypatch.setattr(threading.Timer, "run", run_soon)
    monkeypatch.setattr(client._Conversation, "_call", slowly)
    assert [] == site_client.ask_site(site.config, "jobs", {})["jobs"]
    assert (f"iostats: 127.0.0.1:{site.port} has answered, and not sent the result yet; waiting "
            "for up to 30 s\n") == capsys.readouterr().err


def test_deliver_and_an_agent_name_a_host_that_the_resolver_does_not_answer(
        hanging_resolver, monkeypatch, short, tmp_path, capsys):
    """And what they have waits on the disk."""
    monkeypatch.setattr(client, "UNATTENDED_REACH_WITHIN_S", 0.2)
    # An agent's process is its own: this one stays as it is, and so do those that it starts.
    monkeypatch.setattr("os.setpriority", lambda which, who, priority: None)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    for directory in ("hooks", "spool"):
        (tmp_path / directory).mkdir(mode=0o700)
    (tmp_path / "hooks/4711%20nid00023.23.delta").write_text(json.dumps(a_report("4711")))
    path = short("mgmt1", 19990)[1]
    with open(path, "a") as file:
        file.write(f"[node]\nhook_dir = {tmp_path}/hooks\nretry_timeout = 2\n"
                   f"[harvest]\nspool_dir = {tmp_path}/spool\n")
    assert 3 == node.main(["deliver", "--config", path])
    assert ("iostats: no answer from the site's server: mgmt1:19990: no address of mgmt1 within "
            f"0.2 s; 1 report waits in {tmp_path}/hooks\n") == capsys.readouterr().err
    assert 3 == node.main(["harvest", "--once", "--config", path, "--root", str(tmp_path)])
    assert ("mgmt1:19990: no address of mgmt1 within 0.2 s; 2 messages wait in "
            f"{tmp_path}/spool\n") in capsys.readouterr().err


@pytest.mark.parametrize("server", ["mgmt1", "mgmt1:19990"])
def test_stop_names_a_host_that_the_resolver_does_not_answer(hanging_resolver, monkeypatch,
                                                             tmp_path, server):
    """Once, and not as ports without an answer."""
    monkeypatch.setattr(client, "UNATTENDED_REACH_WITHIN_S", 0.2)
    here = site.load(environ={"IOSTATS_NODE_RETRY_TIMEOUT": "0", "IOSTATS_SERVER_AUTH": "secret"})
    secret = tmp_path / "job.secret"
    secret.write_text("23" * 32)
    secret.chmod(0o600)
    with pytest.raises(NotDelivered, match=(
            "0 s: no answer from the server of job 4711: mgmt1: no address of mgmt1 within "
            r"0\.2 s$")):
        client.deliver({"job": "4711", "node": "nid00023"}, server, str(secret), here,
                       method="report")


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_command_that_waits_without_a_word(name, short):
    """A server that takes connections, and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_port = silent.getsockname()[1]
        role, arguments = name.split()[0], COMMANDS[name][1]
        command = subprocess.Popen(
            [sys.executable, "-m", "iostats", role, *arguments,
             *short("127.0.0.1", silent_port)],
            cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        silent.settimeout(60)
        connection, _ = silent.accept()
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        connection.close()
    assert (130, "") == (command.returncode, out)
    # On a machine so slow that the signal came after 3.6 s, it has said why it waits.
    assert err in ("", f"iostats: 127.0.0.1:{silent_port} has not answered yet; waiting for up to "
                       "10 s\n")
