"""
A connection to what answers like ldmsd, to what does not, and to what stops answering.
"""
from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading

import pytest
import uvloop
from control_desk import Silent, answering, listening
from processes import unresponsive_port
from test_munge import Munged, munged  # noqa: F401

from iostats.base.errors import ConfigError
from iostats.wire import munge
from iostats_ldms.control import answers, frames, queries
from iostats_ldms.control import authentication as authentication_module
from iostats_ldms.control import connection as connection_module
from iostats_ldms.control.authentication import load_authentication
from iostats_ldms.control.connection import Connection, Reply
from iostats_ldms.control.errors import (
    AuthenticationFailed,
    ControlError,
    NoAnswer,
    NotConnected,
    ProtocolError,
    Unreachable,
    VersionMismatch,
)
from iostats_ldms.control.observed import ObservedState
from iostats_ldms.control.protocol import Authentication
from iostats_ldms.statements.dialect import Statement

START = Statement("prdcr_start", (("name", "node-37"),))
ANSWERS = {"prdcr_start": (16, "The producer is already running."),
           "daemon_status": (0, '{"state":"ready"}'), "version": (0, '{"LDMSD Version":"4.5.3"}'),
           "prdcr_status": (0, "[]"), "updtr_status": (0, "[]"), "updtr_match_list": (0, "[]"),
           "plugn_status": (0, "[]"), "plugn_sets": (0, "[]"), "strgp_status": (0, "[]"),
           "prdcr_listen_status": (0, "[]")}


def opened(port, auth=None, **times):
    return Connection.open("127.0.0.1", port, auth,
                           **{"connect_within_s": 30.0, "answer_within_s": 30.0, **times})


def of(run):
    """What `run()` returns, on a loop of its own."""
    return asyncio.run(run())


@pytest.mark.parametrize("dialect", ["4.4", "4.5"])
@pytest.mark.parametrize("auth", [Authentication(), Authentication("ovis", "correct-horse-23")],
                         ids=["none", "ovis"])
def test_a_command_is_answered(auth, dialect):
    """With errno and reason."""
    asked = []

    async def run():
        async with answering(ANSWERS, auth=auth, asked=asked, dialect=dialect) as port:
            connection = await opened(port, auth)
            reply = await connection.command(START)
            connection.close()
            return connection.dialect, reply, await connection.lost
    assert of(run) == (dialect, Reply(16, "The producer is already running."), None)
    assert asked == [Statement("cfg_cntr", ()), START]


def test_uvloop():
    """Its transports are of other classes than asyncio's."""
    async def run():
        async with answering(ANSWERS) as port, listening(Silent) as hung:
            connection = await opened(port)
            reply = await connection.command(START)
            connection.close()
            with pytest.raises(NoAnswer):
                await opened(hung, answer_within_s=0.2)
            return reply
    loop = uvloop.new_event_loop()
    try:
        assert loop.run_until_complete(run()).errno == 16
    finally:
        loop.close()


def test_commands_do_not_wait_for_one_another():
    """100 are sent at once; they arrive in their order."""
    asked = []

    async def run():
        async with answering(ANSWERS, asked=asked) as port:
            connection = await opened(port)
            commands = [Statement("prdcr_start", (("name", f"node-{n}"),)) for n in range(100)]
            replies = await asyncio.gather(*map(connection.command, commands))
            connection.close()
            return commands, replies
    commands, replies = of(run)
    assert asked[1:] == commands
    assert {reply.errno for reply in replies} == {16}


def test_what_the_release_does_not_know_is_not_sent():
    """And is refused as ldmsd would."""
    asked = []

    async def run():
        async with answering(ANSWERS, asked=asked, dialect="4.4") as port:
            connection = await opened(port)
            replies = [await connection.command(Statement("stream_enable", ())),
                       await connection.command(Statement("prdcr_add", (("rail", "2"),)))]
            connection.close()
            return replies
    assert of(run) == [
        Reply(38, "LDMS 4.4 has no command stream_enable (not sent)"),
        Reply(22, "LDMS 4.4 has no attribute rail (prdcr_add) (not sent)")]
    assert [one.verb for one in asked] == ["cfg_cntr"]


def test_all_that_a_daemon_has():
    """With its directory, which comes in two parts."""
    part = ('{"directory":[{"name":"%s","schema":"meminfo","meta_size":23,"data_size":37,'
            '"info":[]}]}')

    async def run():
        async with answering(ANSWERS, sets=[part % "a", part % "b"]) as port:
            connection = await opened(port)
            found = await queries.read_observed_state(connection, with_sets=True)
            connection.close()
            return found
    found = of(run)
    assert (found.config_counter, found.release, found.state) == (23, "4.5.3", "ready")
    assert [one.instance for one in found.sets] == ["a", "b"]
    assert found == ObservedState(23, "4.5.3", sets=found.sets)


def test_a_directory_may_take_longer_as_long_as_it_comes():
    """Nine parts, four seconds from the first to the last, where three seconds are the limit."""
    connections = []

    async def run():
        async with answering(sets=['{"directory":[]}'] * 9, connections=connections) as port:
            connection = await opened(port, answer_within_s=3.0)
            connections[0].pause_s = 0.5
            found = await connection.sets()
            connections[0].pause_s = 30.0
            with pytest.raises(NoAnswer, match="no answer to the directory within 3"):
                await connection.sets()
            return found
    assert of(run) == []


def test_a_directory_without_an_end_is_bounded(monkeypatch):
    """Small sets are many in what its texts may have; three parts of 41 are more than 99."""
    monkeypatch.setattr(connection_module, "_MOST_SETS", 99)
    one = '{"name":"%d","schema":"s","data_size":1,"meta_size":1}'
    part = '{"directory":[' + ",".join(one % n for n in range(41)) + "]}"

    async def run():
        async with answering(sets=[part] * 2) as port:
            connection = await opened(port)
            assert 82 == len(await connection.sets())
            connection.close()
        async with answering(sets=[part] * 3) as port:
            connection = await opened(port)
            await connection.sets()
    with pytest.raises(ProtocolError, match="more than 99 sets in its directory"):
        of(run)


@pytest.mark.parametrize("answers, words", [
    ({**ANSWERS, "prdcr_status": (0, "[{}]")}, "prdcr_status: name"),
    ({**ANSWERS, "strgp_status": (12, "")}, "strgp_status is refused: no reason (errno 12)"),
    ({**ANSWERS, "cfg_cntr": (16, "Daemon busy.")},
     "still reading its configuration file (errno 16)"),
    ({**ANSWERS, "plugn_sets": (0, "\x1b[2J")}, "plugn_sets: expected JSON"),
], ids=["a field", "refused", "busy", "escapes"])
def test_a_daemon_that_answers_nonsense(answers, words):
    """Is told in one line, and asked no more of it."""
    async def run():
        async with answering(answers) as port:
            connection = await opened(port)
            try:
                await queries.read_observed_state(connection)
            finally:
                connection.close()
    with pytest.raises(ProtocolError) as error:
        of(run)
    assert words in str(error.value)
    assert str(error.value).isprintable()


def test_a_port_where_nobody_listens():
    """The system's reason."""
    async def run():
        async with listening(Silent) as port:
            pass
        await opened(port)
    with pytest.raises(NotConnected, match=r"^127\.0\.0\.1:\d+: no connection: Connection refused"):
        of(run)


@pytest.mark.parametrize("error, is_unreachable", [
    (OSError(errno.EHOSTUNREACH, "No route to host"), True),
    (OSError(errno.ECONNREFUSED, "Connection refused"), False),
    (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
    (OSError(errno.EMFILE, "Too many open files"), True),
    (OSError("Multiple exceptions: [Errno 101] a, [Errno 113] b"), True),
    (OSError("Multiple exceptions: [Errno 101] a, [Errno 111] b"), False)])
def test_whether_a_host_is_silent_or_its_process_dead(error, is_unreachable, monkeypatch):
    """A connection that a process had is closed with it; one to a silent host may still stand."""
    async def run():
        async def refused(*others):
            raise error
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refused)
        await opened(411)
    with pytest.raises(NotConnected) as found:
        of(run)
    assert is_unreachable == isinstance(found.value, Unreachable)


def test_a_host_that_says_nothing():
    async def run():
        with unresponsive_port() as port:
            await opened(port, connect_within_s=0.3)
    with pytest.raises(Unreachable, match=r"no connection within 0\.3 s"):
        of(run)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "x y", "\udc80", ""])
def test_a_host_that_does_not_exist(host):
    """The resolver's reason."""
    with pytest.raises(NotConnected) as error:
        asyncio.run(Connection.open(host, 411))
    assert str(error.value).isprintable()


def test_what_does_not_answer_is_left_in_time():
    """A hung daemon: the kernel accepts the connection for it."""
    async def run():
        async with listening(Silent) as port:
            await opened(port, answer_within_s=0.2)
    with pytest.raises(NoAnswer, match=r"connected, but no answer within 0\.2 s: it hangs"):
        of(run)


def test_a_command_that_is_not_answered_ends_the_connection():
    """Others that wait are told as well; it is unknown whether it was executed."""
    async def run():
        async with answering({**ANSWERS, "prdcr_stop": None, "start": None}) as port:
            connection = await opened(port, answer_within_s=0.3)
            found = await asyncio.gather(
                connection.command(Statement("prdcr_stop", (("name", "a"),))),
                connection.command(Statement("start", (("name", "b"),))), return_exceptions=True)
            with pytest.raises(NotConnected, match="the connection has ended: no answer to"):
                await connection.command(START)
            return [type(one) for one in found], str(found[0]), await connection.lost
    kinds, line, lost = of(run)
    assert kinds == [NoAnswer, NoAnswer]
    assert "no answer to prdcr_stop within 0.3 s; it is unknown whether it was executed" in line
    assert isinstance(lost, NoAnswer)


@pytest.mark.parametrize("first, closes, kind, words", [
    (b"HTTP/1.0 400 Bad Request\r\n\r\n", False, ProtocolError, "not ldmsd's protocol"),
    (b"", True, NotConnected, "before accepting ours: it ended, speaks another version"),
    (frames.make_frame(frames.REJECTED, b"Version mismatch\0"), False, VersionMismatch,
     "refuses our version of LDMS' protocol, 4.2.0.0"),
    (frames.make_frame(frames.ACCEPTED, frames.make_greeting("none", version=(4, 3, 0, 0))), False,
     VersionMismatch, "it speaks version 4.3.0.0"),
    (frames.make_frame(frames.REJECTED, b"\x1b[31mAuth mismatch\0"), False, AuthenticationFailed,
     "refuses the connection"),
    (frames.make_frame(frames.ACCEPTED, frames.make_greeting("none")), True, NotConnected,
     "before its first answer (authentication none); its log may say why"),
], ids=["http", "closes", "version", "newer", "auth", "closes later"])
def test_what_is_no_ldmsd_or_not_ours(first, closes, kind, words):
    """One line each."""
    async def run():
        async with listening(lambda: Silent(first, closes)) as port:
            await opened(port)
    with pytest.raises(kind) as error:
        of(run)
    assert words in str(error.value)
    assert str(error.value).isprintable()


def test_another_secret_word():
    """Is told, and no command is sent."""
    asked = []

    async def run():
        async with answering(auth=Authentication("ovis", "wrong-horse-37"), asked=asked) as port:
            await opened(port, Authentication("ovis", "correct-horse-23"))
    with pytest.raises(AuthenticationFailed, match=r"its secret word differs from ours \(ovis\)"):
        of(run)
    assert asked == []


def test_a_daemon_that_goes_away_is_noticed_at_once():
    """By `lost`, without a question."""
    connections = []

    async def run():
        async with answering(ANSWERS, connections=connections) as port:
            connection = await opened(port)
            connections[0].transport.abort()
            return await asyncio.wait_for(connection.lost, 30)
    assert isinstance(of(run), NotConnected)


def test_many_at_once():
    """500 connections, of which every fifth daemon hangs, end in the time of one."""
    async def run():
        async with answering(ANSWERS) as port, listening(Silent) as hung:
            found = await asyncio.gather(*(
                opened(port) if n % 5 else opened(hung, answer_within_s=1.0)
                for n in range(500)), return_exceptions=True)
            for one in found:
                if isinstance(one, Connection):
                    one.close()
            return [type(one) for one in found]
    found = of(run)
    assert (found.count(Connection), found.count(NoAnswer)) == (400, 100)


@pytest.mark.parametrize("text, secret", [
    ("secretword=correct-horse-23\n", "correct-horse-23"),
    ("# ours\n\nsecretword=correct-horse-23 # since May\n", "correct-horse-23"),
    ("secretword= \tcorrect-horse-23#x\n", "correct-horse-23"),
    ("secretword=#correct-horse-23\n", "correct-horse-23"),
    ("secretword=correct-horse-23\r\n", "correct-horse-23\r"),
    ("other=23\nsecretword=12345678", "12345678")])
def test_a_secret_word(text, secret, tmp_path):
    """As ldmsd reads it."""
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(0o600)
    assert load_authentication("ovis", str(path)) == Authentication("ovis", secret)


def test_a_unit_gets_the_secret_word_as_a_credential(tmp_path, monkeypatch):
    """It cannot read the file of root's; systemd decides who may read a credential."""
    theirs = tmp_path / "credentials"
    theirs.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(theirs))
    with pytest.raises(ConfigError, match="cannot read /no/such/secret: No such file"):
        load_authentication("ovis", "/no/such/secret")
    (theirs / "secret").write_text("secretword=correct-horse-23\n")
    (theirs / "secret").chmod(0o440)
    assert load_authentication("ovis", "/no/such/secret") == Authentication("ovis",
                                                                            "correct-horse-23")


@pytest.mark.parametrize("text, mode, words", [
    ("secretword=correct-horse-23\n", 0o640, "others can read the secret word (mode 0640)"),
    ("secretword=short\n", 0o600, "has 5 bytes; expected 8 to 512"),
    ("secretword=\n", 0o600, "has 0 bytes"), ("secretword=# \t#\n", 0o600, "has 0 bytes"),
    ("secret=correct-horse-23\n", 0o600, "expected a line secretword=WORD, found none")])
def test_a_file_without_a_usable_secret_word(text, mode, words, tmp_path):
    """One line, which never has the word in it."""
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ConfigError) as error:
        load_authentication("ovis", str(path))
    assert words in str(error.value)
    assert "correct-horse" not in str(error.value)


@pytest.mark.parametrize("plugin, conf, words", [
    ("ovis", "", "expected the absolute path of a file"),
    ("ovis", "relative", "relative: expected the absolute path"),
    ("ovis", "/no/such/file", "cannot read /no/such/file: No such file or directory"),
    ("ovis", "/", "cannot read /: Is a directory"),
    ("naive", "", "expected none, ovis or munge, got 'naive'")])
def test_an_authentication_that_cannot_be(plugin, conf, words):
    """Before any connection."""
    with pytest.raises(ConfigError, match=words):
        load_authentication(plugin, conf)


@pytest.mark.munge
def test_munge(munged):  # noqa: F811
    """Both ends know each other by munged, which says who the client is."""
    auth, asked, connections = load_authentication("munge", munged.socket), [], []

    async def run():
        async with answering(ANSWERS, auth=auth, asked=asked, connections=connections) as port:
            connection = await opened(port, auth)
            reply = await connection.command(START)
            connection.close()
            return reply
    assert of(run).errno == 16
    assert connections[0].user == (os.getuid(), os.getgid())
    made = authentication_module.make_credential(auth, ("10.0.0.23", 411), "")
    assert munge.decode(made, munged.socket)[0] == (           # a sockaddr_in, by hand
        b"\x02\0\x01\x9b\n\0\0\x17" + bytes(8))


@pytest.mark.munge
def test_munge_of_another_cluster(munged):  # noqa: F811
    """Whose key is another one: one line with munge's words."""
    other = Munged()
    try:
        auth, theirs = (load_authentication("munge", one.socket) for one in (munged, other))

        async def run():
            async with answering(ANSWERS, auth=theirs) as port:
                await opened(port, auth)
        with pytest.raises(ControlError) as error:
            of(run)
        assert ("munge rejects its credential" in str(error.value)
                or "during authentication (munge)" in str(error.value))
    finally:
        other.close()


@pytest.mark.munge
def test_without_munged(munged, tmp_path):  # noqa: F811
    """One line with munge's own words."""
    async def run():
        async with answering(auth=load_authentication("munge", munged.socket)) as port:
            await opened(port, load_authentication("munge", str(tmp_path / "socket")))
    with pytest.raises(AuthenticationFailed, match="munge cannot make a credential: "):
        of(run)


def test_whoever_is_cancelled_while_it_connects_ends():
    """Also in the moment in which the connection is refused, or there: at each turn of the loop."""
    async def run():
        async with listening(Silent) as port:
            pass
        async with answering(ANSWERS) as there:
            for one in (port, there):
                for turns in range(12):
                    task = asyncio.get_running_loop().create_task(opened(one))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    was_done = task.done()
                    task.cancel()
                    await asyncio.wait({task})
                    assert was_done or task.cancelled()
                    if was_done and not task.exception():
                        task.result().close()
    of(run)


@pytest.mark.parametrize("length, is_here", [(1000, True), (1_000_000, False)],
                         ids=["short", "long"])
def test_a_long_answer_is_read_beside_the_event_loop(length, is_here, monkeypatch):
    """A level above with 100,000 sets answers 10 MB; other daemons are asked meanwhile."""
    class Answers:
        where = "agg-1:411"

        async def command(self, statement):
            return Reply(0, "[" + " " * length + "]")

    readers = []
    monkeypatch.setattr(answers, "parse_producers",
                        lambda text, where: readers.append(threading.current_thread()))
    asyncio.run(queries.read_producers(Answers()))
    assert [is_here] == [reader is threading.main_thread() for reader in readers]
