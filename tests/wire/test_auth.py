"""
Authentication by munge, and what [server] auth does when munge or the secret is not there.

A real munged, real servers and clients, and where root runs the tests, another user's.
Authentication by the secret is in test_protocol.py.
"""
from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    REPOSITORY,
    Desk,
    Done,
    Listener,
    Server,
    http_answer,
    job_with_free_ports,
    until,
    write_tree,
)
from test_client import python_for_nobody
from test_munge import NOBODY, as_root, munged  # noqa: F401

from iostats.base.config import load
from iostats.base.errors import ConfigError, NotDelivered, StateError
from iostats.server.job_server import JobServer
from iostats.server.rpc_server import RpcServer
from iostats.totals.job_totals import Totals
from iostats.wire import auth as wire_auth
from iostats.wire import client as wire_client
from iostats.wire import munge, protocol
from iostats.wire.jsonrpc import Method

pytestmark = pytest.mark.munge

NONCE = "000102030405060708090a0b0c0d0e0f"
HELLO = b'{"jsonrpc":"2.0","method":"hello","params":{"job":"4711"},"id":23}'
SECRET = b"0123456789abcdef0123456789abcdef"


def report(node="nid00023", job="4711"):
    """A request `report` of 41,003 bytes read in 23 calls."""
    params = {"protocol": 1, "job": job, "node": node, "seq": "seq-37", "ended": 1.8e9,
              "elapsed_s": 60.0, "deltas": [
                  {"source": "llite", "file_system": "scratch",
                   "values": {"read_bytes": 41_003, "read_calls": 23}}]}
    return json.dumps({"jsonrpc": "2.0", "method": "report", "params": params, "id": 5}).encode()


def payload(body, node="nid00023", job="4711", nonce=NONCE):
    """What docs/reference/wire.md puts into the credential of a request, without iostats."""
    return (f"iostats-1 request\n{node}\n{job}\n{nonce}\n"
            f"{hashlib.sha256(body).hexdigest()}").encode()


def choices(munged, auth="munge", **more):  # noqa: F811
    """The Config of a node or a server."""
    return load(environ={"IOSTATS_SERVER_AUTH": auth, "IOSTATS_SERVER_MUNGE_SOCKET": munged.socket,
                         **more})


def job_server(munged, **about):  # noqa: F811
    """The server of job 4711, in this process, with no port."""
    checks = [wire_auth.Munge("4711", munged.socket, **about)]
    return JobServer(Totals("4711", 3), checks, load(environ={}),
                                       now=lambda: 1.8e9)


def read_bytes(one):
    return [fs["application"]["read_bytes"] for fs in one.totals.record()["file_systems"]]


def refused(one):
    return one.totals.record()["coverage"]["refused"]


def error(reply):
    found = json.loads(reply)["error"]
    return found["code"], found["message"]


# -- what a server accepts -------------------------------------------------------------------

def test_a_message_of_this_user_is_counted_and_its_answer_is_authenticated(munged):  # noqa: F811
    """Made by munge's own command, by the words of docs/reference/wire.md; read by it, too."""
    one, body = job_server(munged), report()
    reply, proof = one.answer(body, f"MUNGE {munged.munge(payload(body))}")
    assert {"counted": True, "why": ""} == json.loads(reply)["result"]
    assert [41_003] == read_bytes(one)
    name, _, credential = proof.partition(": ")
    assert "IOSTATS-MUNGE" == name
    said = munged.unmunge(credential).stdout
    assert f" ({os.geteuid()})\nGID: " in said
    assert said.endswith(f"\n\niostats-1 answer\n{NONCE}\n{hashlib.sha256(reply).hexdigest()}")


BODY = report()
ALTERED = {
    "altered body": (report("nid00024"), payload(BODY)),
    "a byte more in the body": (BODY + b" ", payload(BODY)),
    "another job": (BODY, payload(BODY, job="4712")),
    "the site": (BODY, payload(BODY, job="(site)")),
    "short nonce": (BODY, payload(BODY, nonce="00")),
    "node that is no name": (BODY, payload(BODY, node="nid/../23")),
    "a line more": (BODY, payload(BODY) + b"\n"),
    "a line less": (BODY, payload(BODY).rpartition(b"\n")[0]),
    "an answer": (BODY, b"iostats-1 answer\n" + payload(BODY).partition(b"\n")[2]),
    "not UTF-8": (BODY, b"\xff\n" * 5),
    "nothing": (BODY, b""),
}


@pytest.mark.parametrize("body, holds", list(ALTERED.values()), ids=list(ALTERED))
def test_a_credential_of_something_else_is_refused_and_counted(munged, body, holds):  # noqa: F811
    """-32001, nothing is added, and the answer is not proved."""
    one = job_server(munged)
    reply, proof = one.answer(body, f"MUNGE {munged.munge(holds)}")
    assert (-32001, "") == (error(reply)[0], proof)
    assert ([], {"not authenticated": 1}) == (read_bytes(one), refused(one))


@pytest.mark.parametrize("header", [
    "MUNGE", "MUNGE ", "MUNGE MUNGE:AwQD:", "munge x", "IOSTATS-1 node=nid00023, time=1, nonce=0, "
    "mac=0", "Basic YWxpY2U6c2VjcmV0", "MUNGE \xe9"])
def test_what_is_no_credential_is_refused_and_counted(munged, header):  # noqa: F811
    """The secret's way, too, where site.cfg does not name it."""
    one = job_server(munged)
    reply, proof = one.answer(BODY, header)
    assert (-32001, "", {"not authenticated": 1}) == (error(reply)[0], proof, refused(one))


def test_an_altered_credential_is_refused(munged):  # noqa: F811
    """By munged."""
    credential = munged.munge(payload(BODY))
    place = len(credential) // 2
    other = "A" if credential[place] != "A" else "B"
    one = job_server(munged)
    reply, proof = one.answer(BODY, f"MUNGE {credential[:place]}{other}{credential[place + 1:]}")
    assert ((-32001, "munge: Invalid credential"), "") == (error(reply), proof)
    assert [] == read_bytes(one)


def test_a_replayed_message_is_refused_and_counted(munged):  # noqa: F811
    """munged remembers it; the node learns it with proof."""
    one, header = job_server(munged), f"MUNGE {munged.munge(payload(BODY))}"
    one.answer(BODY, header)
    reply, proof = one.answer(BODY, header)
    assert (-32003, "munge: Replayed credential") == error(reply)
    assert proof.startswith("IOSTATS-MUNGE: MUNGE:")
    assert ([41_003], {"replayed": 1}) == (read_bytes(one), refused(one))


def test_an_old_message_is_stale_and_hello_is_answered_with_proof(munged):  # noqa: F811
    """A second after its time, which is munge's 300 s otherwise, and time enough to be taken."""
    one = job_server(munged)
    body, hello = (f"MUNGE {munged.munge(payload(what), '--ttl=5')}" for what in (BODY, HELLO))

    def is_stale():
        return error(one.answer(BODY, body)[0])[0] == -32002

    one.answer(BODY, body)
    until(is_stale, what="the end of its time")
    assert [41_003] == read_bytes(one)
    assert refused(one)["stale"] == 1
    reply, proof = one.answer(HELLO, hello)
    assert "4711" == json.loads(reply)["result"]["job"]
    assert proof.startswith("IOSTATS-MUNGE: ")


@pytest.mark.parametrize("uids, who", [({NOBODY, 0}, "root"), ({NOBODY, 0}, NOBODY),
                                       (wire_auth.ANYONE, NOBODY)], ids=str)
@pytest.mark.parametrize("mark", [pytest.param(None, marks=as_root)], ids=["as root"])
def test_a_job_of_user_65534_takes_its_own_messages_and_roots(
        munged, uids, who, mark):  # noqa: F811
    """As its server would that runs as that user; or one that takes all."""
    one = job_server(munged, uids=uids)
    reply, _ = one.answer(BODY, "MUNGE " + munged.munge(
        payload(BODY), user=None if who == "root" else who))
    assert json.loads(reply)["result"]["counted"]
    assert [41_003] == read_bytes(one)


@pytest.mark.parametrize("mark", [pytest.param(None, marks=as_root)], ids=["as root"])
def test_another_user_is_refused_by_name_and_counted(munged, mark):  # noqa: F811
    """munged says who it is; the answer is proved, so that the node can tell its user."""
    one = job_server(munged)
    reply, proof = one.answer(BODY, f"MUNGE {munged.munge(payload(BODY), user=NOBODY)}")
    assert (-32001, "not authenticated: user 65534 may not report to the server of job 4711") == (
        error(reply))
    assert proof.startswith("IOSTATS-MUNGE: ")
    assert ([], {"not authenticated": 1}) == (read_bytes(one), refused(one))


def test_methods_learn_the_user_and_can_refuse_one(munged):  # noqa: F811
    """Whom they are called by: (node, uid); None for the uid where the secret is the proof."""
    one = RpcServer("4711", [wire_auth.Munge("4711", munged.socket),
                                            wire_auth.Secret("4711", SECRET)], load(environ={}))
    met = []
    one.methods["who"] = Method(
        lambda params, sender: met.append(one.require_authenticated(sender)), None)
    one.methods["no"] = Method(
        lambda params, sender: one.require_authenticated(sender, {23}), None)
    body = b'{"jsonrpc":"2.0","method":"who","id":23}'
    one.answer(body, "MUNGE " + munged.munge(payload(body)))
    one.answer(body, wire_auth.Secret("4711", SECRET).authorization(
        "nid00037", int(time.time()), NONCE, body))
    assert [("nid00023", os.geteuid()), ("nid00037", None)] == met
    body = b'{"jsonrpc":"2.0","method":"no","id":23}'
    assert (-32001, f"not authenticated: user {os.geteuid()} may not report to the server of job "
                    f"4711") == error(one.answer(body, "MUNGE " + munged.munge(payload(body)))[0])


# -- what a node accepts ---------------------------------------------------------------------

def answer_to(nonce, body):
    return f"iostats-1 answer\n{nonce}\n{hashlib.sha256(body).hexdigest()}".encode()


def test_an_answer_of_this_user_is_accepted_for_this_request_alone(munged):  # noqa: F811
    """And not with another nonce, another body, another sort of message, or none."""
    node = wire_auth.Munge("4711", munged.socket)

    def accepted(holds):
        return node.verify_answer({"iostats-munge": munged.munge(holds)}, NONCE, b"41")

    assert accepted(answer_to(NONCE, b"41"))
    for other in (answer_to("f" * 32, b"41"), answer_to(NONCE, b"43"), payload(b"41"), b""):
        assert not accepted(other)
        assert "its munge credential is for another answer" == node.reject_reason
    assert not node.verify_answer({"iostats-munge": "MUNGE:AwQD:"}, NONCE, b"41")
    assert node.reject_reason.startswith("munge rejects its answer: ")
    assert not node.verify_answer({"iostats-mac": "0" * 64}, NONCE, b"41")
    assert "the server of job 4711 does not authenticate itself by munge" == node.reject_reason


def test_an_answer_that_another_read_before_is_still_ours(munged):  # noqa: F811
    """Its nonce is of this very request; a server with another clock is accepted likewise."""
    credential = munged.munge(answer_to(NONCE, b"41"))
    munge.decode(credential, munged.socket)
    node = wire_auth.Munge("4711", munged.socket)
    assert node.verify_answer({"iostats-munge": credential}, NONCE, b"41")


@pytest.mark.parametrize("mark", [pytest.param(None, marks=as_root)], ids=["as root"])
def test_whose_server_root_trusts(munged, mark):  # noqa: F811
    """Itself, the job's user where the batch system names one, and those of site.cfg."""
    def accepted(job_uid=None, **more):
        [node] = wire_auth.load_client_credentials(choices(munged, **more), "4711", None,
                                                   job_uid=job_uid)
        answer = munged.munge(answer_to(NONCE, b"41"), user=NOBODY)
        found = node.verify_answer({"iostats-munge": answer}, NONCE, b"41")
        return found or node.reject_reason

    assert ("the server of job 4711 is run by user 65534, whom this node does not trust "
            "(site.cfg: [server] munge_users)") == accepted()
    assert accepted(job_uid=23) is not True
    assert accepted(job_uid=NOBODY) is True
    assert accepted(IOSTATS_SERVER_MUNGE_USERS="23 65534") is True
    assert accepted(IOSTATS_SERVER_MUNGE_USERS="nobody") is True


# -- [server] auth ---------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["", "kerberos", "munge,secret", "secret secret", "Munge"])
def test_auth_has_two_words(text):
    """A typo must not open a server."""
    with pytest.raises(ConfigError, match=r"\[server\] auth: expected secret or munge, or both, "
                                          r"the preferred one first, got "):
        load(environ={"IOSTATS_SERVER_AUTH": text})


def test_an_unknown_user_in_munge_users_is_a_mistake_in_the_configuration(munged):  # noqa: F811
    """Not somebody that nobody is."""
    with pytest.raises(ConfigError, match="munge_users: expected users of this machine, or their "
                                          "numbers, got 'no-such-user-23'"):
        wire_auth.load_client_credentials(choices(munged,
                                                  IOSTATS_SERVER_MUNGE_USERS="no-such-user-23"),
                            "4711", None)


@pytest.fixture
def kept_secret(tmp_path):
    """The path of a secret, and of one that is not there."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return str(path), str(tmp_path / "none")


class _Nothing:
    """A munged that is not there."""

    socket = "/nonexistent/munge.socket"


@pytest.mark.parametrize("auth, has_munge, has_secret, kinds, told", [
    ("secret", True, True, "Secret", 0), ("munge", True, True, "Munge", 0),
    ("munge secret", True, True, "Munge Secret", 0),
    ("secret munge", True, True, "Secret Munge", 0),
    ("munge secret", False, True, "Secret", 1), ("munge secret", True, False, "Munge", 0),
    ("secret munge", False, True, "Secret Munge", 0),     # not tried before it is needed
    ("secret munge", True, False, "Munge", 1),
    ("secret", True, False, NotDelivered, 0), ("munge", False, True, NotDelivered, 0),
    ("munge secret", False, False, NotDelivered, 0),
])
def test_a_node_takes_what_works_in_the_order_of_auth(
        munged, kept_secret, auth, has_munge, has_secret, kinds, told):  # noqa: F811
    """And says so when the preferred one does not."""
    config, said = choices(munged if has_munge else _Nothing, auth), []
    where = kept_secret[0 if has_secret else 1]
    if kinds is NotDelivered:
        with pytest.raises(NotDelivered) as failed:
            wire_auth.load_client_credentials(config, "4711", where, said.append)
        assert ("munge" in auth) is ("munge does not work here: " in str(failed.value))
        assert ("secret" in auth) is ("no secret; the server makes it" in str(failed.value))
    else:
        found = wire_auth.load_client_credentials(config, "4711", where, said.append)
        assert kinds.split() == [type(one).__name__ for one in found]
    assert told == len(said)
    if told:
        assert said[0].endswith("; continuing with " + ("the secret" if kinds == "Secret" else
                                                      "munge"))


def test_a_server_checks_every_kind_that_works(munged, kept_secret):  # noqa: F811
    """Whatever the order; without munge it says so, and with munge alone it does not begin."""
    def kinds(auth, found=munged):
        return [type(one).__name__ for one in wire_auth.load_server_credentials(
            choices(found, auth), "4711", kept_secret[0], said.append)]

    said = []
    assert ["Munge"] == kinds("munge")
    assert ["Secret", "Munge"] == kinds("secret munge")
    assert [] == said
    assert ["Secret"] == kinds("munge secret", _Nothing)
    assert ["munge does not work here: "] == [line[:26] for line in said]
    with pytest.raises(NotDelivered, match="munge does not work here: "):
        kinds("munge", _Nothing)
    Path(kept_secret[0]).chmod(0o644)
    with pytest.raises(StateError, match="expected a file of mode 0600"):
        kinds("munge secret")


# -- whole jobs ------------------------------------------------------------------------------

DESK = Desk


def by(munged, auth="munge", **more):  # noqa: F811
    """The environment of a process that uses munge."""
    return {"IOSTATS_SERVER_AUTH": auth, "IOSTATS_SERVER_MUNGE_SOCKET": munged.socket,
            "IOSTATS_NODE_RETRY_TIMEOUT": "0", **more}


def worked(desk, name="nid00023"):
    """The options of a node's client; its work is done, and it has not stopped."""
    root = desk.tree(name, **BEFORE)
    assert 0 == desk.client("start", *desk.on(name, root)).status
    write_tree(root, **AFTER)
    return desk.on(name, root)


def application(done):
    [fs] = done.record["file_systems"]
    return fs["application"]["read_bytes"], fs["application"]["write_bytes"]


def test_a_job_by_munge_alone_needs_no_secret(desk, munged):  # noqa: F811
    """41,003 bytes read, 53,007 written, and there is no secret anywhere."""
    one = desk.server("--nodes", "1", "--format", "json", env=by(munged))
    done = desk.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk), env=by(munged))
    assert (0, "") == (done.status, done.err)
    assert (41_003, 53_007) == application(one.wait())
    assert not (desk.home / ".iostats").exists()


@pytest.mark.parametrize("of_server, of_node", [
    ("munge secret", "secret"), ("munge secret", "munge"), ("secret", "munge secret"),
    ("munge", "secret munge"), ("secret munge", "munge secret"),
])
def test_what_both_have_in_common_is_found(desk, munged, of_server, of_node):  # noqa: F811
    """While a site goes over from one to the other."""
    one = desk.server("--nodes", "1", "--format", "json", env=by(munged, of_server))
    done = desk.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk),
                       env=by(munged, of_node))
    assert 0 == done.status
    assert (41_003, 53_007) == application(one.wait())


def test_what_both_have_not_in_common_is_refused(desk, munged):  # noqa: F811
    """One line, the delta is kept, and the right way delivers it."""
    one = desk.server("--nodes", "1", "--format", "json", env=by(munged, "secret"))
    stop = ("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk))
    done = desk.client(*stop, env=by(munged))
    assert 3 == done.status
    assert f"the server of job {desk.job} does not authenticate itself by munge" in done.line
    assert 0 == desk.client(*stop, env=by(munged, "secret")).status
    record = one.wait().record
    assert {"not authenticated": 1} == record["coverage"]["refused"]


def test_without_munged_a_server_of_munge_alone_does_not_begin(desk):
    """Status 3, and what is missing."""
    done = desk.run_server("--nodes", "1", env=by(_Nothing))
    assert 3 == done.status
    assert done.line.startswith("iostats: munge does not work here: Failed to access "
                                '"/nonexistent/munge.socket": No such file or directory')
    assert done.line.endswith("(site.cfg: [server] auth)")


def test_without_munged_a_node_keeps_its_delta(desk, munged):  # noqa: F811
    """And `stop` again sends it, once munged is there."""
    one = desk.server("--nodes", "1", "--format", "json", env=by(munged))
    stop = ("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk))
    done = desk.client(*stop, env=by(_Nothing))
    assert 3 == done.status
    assert "munge does not work here: " in done.line
    assert "; stored in " in done.line
    assert 0 == desk.client(*stop, env=by(munged)).status
    assert (41_003, 53_007) == application(one.wait())


def test_without_munged_the_secret_is_used_where_auth_names_it(desk):
    """One line on standard error of each, and everything is delivered."""
    one = desk.server("--nodes", "1", "--format", "json", env=by(_Nothing, "munge secret"))
    assert one.err.startswith("iostats: munge does not work here: ")
    done = desk.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk),
                       env=by(_Nothing, "munge secret"))
    assert 0 == done.status
    assert done.line.endswith("; continuing with the secret")
    assert (41_003, 53_007) == application(one.wait())


def test_a_munged_that_ends_under_a_server_costs_a_try(desk):
    """All messages are unauthenticated meanwhile; afterwards the same report is counted once."""
    from test_munge import Munged
    own = Munged()
    try:
        one = desk.server("--nodes", "1", "--format", "json", env=by(own))
        stop = ("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk))
        own.end()
        assert 3 == desk.client(*stop, env=by(own)).status
        own.begin()
        assert 0 == desk.client(*stop, env=by(own)).status
        assert (41_003, 53_007) == application(one.wait())
    finally:
        own.close()


def test_without_munge_in_auth_its_library_is_not_loaded(desk):
    """Neither ctypes nor our binding, in `start` and `stop`."""
    one = desk.server("--nodes", "1")
    options = worked(desk)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", CLIENT, "stop", "--job", desk.job,
         "--server", f"127.0.0.1:{one.port}", *map(str, options)],
        env=desk.environment(), capture_output=True, text=True)
    assert 0 == done.returncode
    found = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "iostats.wire.auth" in found
    assert set() == found & {"iostats.wire.munge", "ctypes", "pwd"}


# -- another user ----------------------------------------------------------------------------

class Nobodys(Desk):
    """The home and processes of user 65534, and a copy of iostats that it can read."""

    as_nobody = dict(user=NOBODY, group=NOBODY, extra_groups=[])

    def __init__(self):
        directory = Path(tempfile.mkdtemp())
        directory.chmod(0o755)
        super().__init__(directory)
        shutil.copytree(REPOSITORY / "iostats", directory / "iostats",
                        ignore=shutil.ignore_patterns("__pycache__"))
        self.script = directory / CLIENT.name
        shutil.copy(CLIENT, self.script)
        self.state.mkdir(mode=0o700)
        for path in (self.home, self.state):
            os.chown(path, NOBODY, NOBODY)

    def client(self, *arguments, env=None):
        """As that user."""
        return super().client(*arguments, env=env, python=python_for_nobody(), script=self.script,
                              **self.as_nobody)

    def server(self, *arguments, job=None, env=None):
        """As that user: what it imports may lie where it can't go, so it becomes that user late."""
        out, err = self.directory / "server.out", self.directory / "server.err"
        begin = ("import os, sys; sys.path.insert(0, sys.argv.pop(1)); import asyncio, ctypes; "
                 "import msgspec.json, encodings.idna, importlib.util, iostats.cli.server, "
                 "iostats.wire.client, iostats.wire.munge, pwd, shutil\n"
                 "try:\n    import uvloop\nexcept ImportError:\n    pass\n"
                 f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
                 "sys.exit(iostats.cli.server.main())")
        with out.open("w") as out_file, err.open("w") as err_file:
            process = subprocess.Popen(
                [sys.executable, "-c", begin, str(REPOSITORY), "--job", job or self.job, *arguments,
                 "--listen", "127.0.0.1"], env=self.environment(env), cwd=self.directory,
                stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file)
        self.started.append(process)
        found = Server(process, job or self.job, out, err)
        found.wait_until_listening()
        return found

    def close(self):
        super().close()
        shutil.rmtree(self.directory)


@pytest.fixture
def nobodys():
    """User 65534's home and processes."""
    with Nobodys() as one:
        yield one


class TestTwoUsers:
    """Root, and user 65534; one munged tells them apart."""

    pytestmark = as_root

    def test_a_whole_job_of_an_ordinary_user(self, nobodys, munged):  # noqa: F811
        """Server and node are that user's: 41,003 bytes read, 53,007 written."""
        one = nobodys.server("--nodes", "1", "--format", "json", env=by(munged))
        done = nobodys.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(nobodys),
                              env=by(munged))
        assert (0, "") == (done.status, done.err)
        assert (41_003, 53_007) == application(one.wait())

    def test_root_reports_to_a_users_server_that_site_cfg_names(
            self, desk, nobodys, munged):  # noqa: F811
        """As an epilog does."""
        one = nobodys.server("--nodes", "1", "--format", "json", job=desk.job, env=by(munged))
        done = desk.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk),
                           env=by(munged, IOSTATS_SERVER_MUNGE_USERS="nobody"))
        assert (0, "") == (done.status, done.err)
        assert (41_003, 53_007) == application(one.wait())

    def test_root_reports_to_the_server_of_the_jobs_user(self, desk, nobodys, munged):  # noqa: F811
        """The user whom the batch system names; another user's server is not trusted."""
        one = nobodys.server("--nodes", "1", "--format", "json", job=desk.job, env=by(munged))
        stop = ("stop", "--server", f"127.0.0.1:{one.port}", *worked(desk))
        done = desk.client(*stop, env=by(munged, FLUX_JOB_ID="f2Jx9k", FLUX_JOB_USERID="23"))
        assert 3 == done.status
        assert "is run by user 65534, whom this node does not trust" in done.line
        done = desk.client(*stop, env=by(munged, FLUX_JOB_ID="f2Jx9k",
                                         FLUX_JOB_USERID=str(NOBODY)))
        assert (0, "") == (done.status, done.err)
        assert (41_003, 53_007) == application(one.wait())

    def test_another_users_node_is_refused_with_its_uid_and_counted(
            self, desk, nobodys, munged):  # noqa: F811
        """Root's server is trusted, and refuses it: status 3, and the report stays."""
        one = desk.server("--nodes", "1", "--format", "json", env=by(munged))
        nobodys.job = desk.job
        done = nobodys.client("stop", "--server", f"127.0.0.1:{one.port}", *worked(nobodys),
                              env=by(munged))
        assert 3 == done.status
        assert ("the server refused the report: not authenticated: user 65534 may not report to "
                f"the server of job {desk.job}") in done.line
        assert "; stored in " in done.line
        record = one.stop().record
        assert [] == record["file_systems"]
        assert {"not authenticated": 2} == record["coverage"]["refused"]

    def test_another_users_server_is_passed_by_and_the_next_port_is_tried(
            self, desk, nobodys, munged):  # noqa: F811
        """User 65534 sits on the job's first port, with a real server of this very job."""
        desk.job, [first, second] = job_with_free_ports(2)
        options = worked(desk)
        squatter = nobodys.server("--nodes", "1", "--format", "json", job=desk.job,
                                  env=by(munged))
        assert first == squatter.port
        done = desk.client("stop", "--server", "127.0.0.1", *options,
                           env=by(munged, IOSTATS_SERVER_PORT_TRIES="1"))
        assert 3 == done.status
        assert (f"port {first}: the server of job {desk.job} is run by user 65534, whom this node "
                f"does not trust (site.cfg: [server] munge_users)") in done.line
        one = desk.server("--nodes", "1", "--format", "json", env=by(munged))
        assert second == one.port
        assert 0 == desk.client("stop", "--server", "127.0.0.1", *options, env=by(munged)).status
        assert (41_003, 53_007) == application(one.wait())
        assert [] == squatter.stop().record["file_systems"]


# -- post.call -------------------------------------------------------------------------------

def test_any_method_can_be_called(desk, munged):  # noqa: F811
    """`status`, by munge and by the secret."""
    one = desk.server("--nodes", "37", env=by(munged, "munge secret"))
    where = str(desk.home / ".iostats" / f"{desk.job}.secret")
    for auth in ("munge", "secret"):
        signs = wire_auth.load_client_credentials(choices(munged, auth), desk.job, where)
        assert {"job": desk.job, "expected": 37, "reported": 0, "missing": {}} == wire_client.call(
            "127.0.0.1", one.port, desk.job, signs, "nid00023", "status", None, within_s=10)


def test_what_a_server_refuses_has_its_code_and_is_not_for_later(desk, munged):  # noqa: F811
    """-32601: an older server, say."""
    one = desk.server("--nodes", "37", env=by(munged))
    signs = [wire_auth.Munge(desk.job, munged.socket)]
    with pytest.raises(wire_client.Refused,
                       match="the server refused `jobs`: Method not found") as no:
        wire_client.call("127.0.0.1", one.port, desk.job, signs, "nid00023", "jobs", {})
    assert (-32601, False) == (no.value.code, no.value.later)


@pytest.mark.parametrize("answer, why", [
    (None, "the program on the port does not answer"),
    (b"", "it closed the connection|the program on the port does not answer"),
    (http_answer(b"{}"), "the port is in use by another program"),
    (http_answer(b'{"result": {"job": "4711"}}'), "the server of job '4711'"),
    (b"x" * 100_000, "the port is in use by another program"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n", "the port is in use by another program"),
], ids=["silent", "empty", "JSON", "another job", "endless", "longer than wanted"])
def test_another_program_on_the_port_is_reported_within_the_timeout(munged, answer, why):  # noqa: F811
    """One try, and NotDelivered, which may go better later."""
    with Listener(0, answer) as other, pytest.raises(NotDelivered, match=why) as failed:
        wire_client.call("127.0.0.1", other.port, protocol.SITE,
                         [wire_auth.Munge(protocol.SITE, munged.socket)], "nid00023", "jobs", {},
                         within_s=20 if answer else 0.3, longest=40)
    assert failed.value.later


def test_a_port_without_a_server_is_reported_with_the_servers_name(munged):  # noqa: F811
    """The site's."""
    _, [port] = job_with_free_ports(1)
    with pytest.raises(NotDelivered, match=f"no answer from the site's server: 127.0.0.1:{port}: "
                                           f"Connection refused"):
        wire_client.call("127.0.0.1", port, protocol.SITE,
                         [wire_auth.Secret(protocol.SITE, SECRET)],
                         "nid00023", "jobs", {})


class Later(RpcServer):
    """A server of the site that keeps its answers until it is told to send them."""

    def __init__(self, checks):
        super().__init__(protocol.SITE, checks, load(environ={}))
        self.kept = []
        self.methods["jobs"] = Method(lambda params, who: ["x" * 5_000_000], None)

    def send(self, transport, data, keep):
        self.kept.append((transport, data, keep))

    def send_all(self):
        while self.kept:
            super().send(*self.kept.pop(0))


@pytest.mark.parametrize("way", ["secret", "munge"])
def test_a_server_can_keep_its_answers_back_for_a_while(munged, way):  # noqa: F811
    """One of 5 MB; it is not sent before the server wants it, and then it is whole and proved."""
    async def serve():
        def checks():
            return [wire_auth.Munge(protocol.SITE, munged.socket) if way == "munge" else
                    wire_auth.Secret(protocol.SITE, SECRET)]
        one, loop = Later(checks()), asyncio.get_running_loop()
        _, free = job_with_free_ports(1)
        assert free == [await one.listen_on("127.0.0.1", free)]
        asked = loop.run_in_executor(None, lambda: wire_client.call(
            "127.0.0.1", one.port, protocol.SITE, checks(), "nid00023", "jobs", {}, 20, 1 << 23))
        for _ in range(2):                             # hello, and the method
            while not one.kept:
                assert not asked.done()
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
            assert not asked.done()
            one.send_all()
        found = await asked
        one.close()
        return found
    assert ["x" * 5_000_000] == asyncio.run(serve())


def test_an_answer_that_closes_the_connection_is_kept_back_with_it():
    """And what comes after that on the connection is not answered any more."""
    async def serve():
        one = Later([])
        _, free = job_with_free_ports(1)
        await one.listen_on("127.0.0.1", free)
        connection = socket.create_connection(("127.0.0.1", one.port))
        connection.setblocking(False)
        request = (b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                   % (len(HELLO), HELLO))
        loop, got = asyncio.get_running_loop(), b""
        await loop.sock_sendall(connection, request + request)
        while not one.kept:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert 1 == len(one.kept)
        one.send_all()
        while True:
            part = await loop.sock_recv(connection, 65536)
            if not part:
                break
            got += part
        connection.close()
        one.close()
        return got
    got = asyncio.run(serve())
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert 1 == got.count(b'"job":"(site)"')


# -- doctor ----------------------------------------------------------------------------------

def doctor(desk, port, env):
    """{name: (state, text, command)} of the doctor's checks of the server."""
    done: Done = desk.client("doctor", "--json", "--node", "nid00023", "--root",
                             desk.tree(**BEFORE), "--server", f"127.0.0.1:{port}", env=env)
    return {one["name"]: (one["state"], one["text"], one["fix"] or one["check"])
            for one in done.record["checks"]}


def test_the_doctor_says_that_munge_works(desk, munged):  # noqa: F811
    """And asks for no secret."""
    one = desk.server(env=by(munged))
    checks = doctor(desk, one.port, by(munged))
    assert ("ok", "munged works here, and proves whose the server is", "") == checks["munge"]
    assert "ok" == checks["clock"][0]
    assert "secret" not in checks


def test_the_doctor_says_that_munged_is_not_there(desk, munged):  # noqa: F811
    """A problem where nothing else is left; a note where the secret is."""
    one = desk.server(env=by(munged, "munge secret"))
    state, text, fix = doctor(desk, one.port, by(_Nothing))["munge"]
    assert ("problem", "systemctl start munge") == (state, fix)
    assert text.startswith("munge does not work here: Failed to access ")
    checks = doctor(desk, one.port, by(_Nothing, "munge secret"))
    assert ("note", "ok") == (checks["munge"][0], checks["secret"][0])


def test_the_doctor_says_that_the_server_does_not_use_munge(desk, munged):  # noqa: F811
    """It has another site.cfg."""
    one = desk.server(env=by(munged, "secret"))
    assert ("problem", f"the server of job {desk.job} does not authenticate itself by munge",
            "iostats config --check") == doctor(desk, one.port, by(munged))["munge"]
