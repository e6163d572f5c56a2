"""
Both ends of a control connection in memory: what one sends the other understands, however the bytes
are cut, and neither goes on with an end that it does not believe.
"""
from __future__ import annotations

import hashlib
import struct
import tracemalloc

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats_ldms.control import encoding, frames
from iostats_ldms.control.encoding import UnsupportedStatement
from iostats_ldms.control.errors import (
    AuthenticationFailed,
    ControlError,
    ProtocolError,
    VersionMismatch,
)
from iostats_ldms.control.protocol import (
    Authentication,
    ClientProtocol,
    CommandAnswered,
    CredentialNeeded,
    CredentialReceived,
    DirectoryPart,
    Established,
)
from iostats_ldms.statements.dialect import Statement
from simldms.control_end import CommandReceived, DirectoryRequested, ServerProtocol

OVIS = Authentication("ovis", secret="correct-horse-23")
START = Statement("prdcr_start", (("name", "node-37"),))


def ends(auth=OVIS, other=None, dialect="4.5", **server):
    return (ClientProtocol(auth, "node-23:411", challenge=23, rail=37),
            ServerProtocol(other or auth, dialect, challenge=41, **server))


def talked(client, server):
    """(events of the client, events of the server) until both are silent."""
    of_client, of_server = [], []
    while True:
        there, back = client.outgoing(), server.outgoing()
        if not there and not back:
            return of_client, of_server
        of_server += server.receive(there)
        of_client += client.receive(back)


def established(auth=OVIS, dialect="4.5"):
    client, server = ends(auth, dialect=dialect)
    client.connect()
    assert talked(client, server) == ([Established(dialect)], [Established(dialect)])
    return client, server


@pytest.mark.parametrize("dialect", ["4.4", "4.5"])
@pytest.mark.parametrize("auth", [Authentication(), OVIS], ids=["none", "ovis"])
def test_both_ends_are_established_and_a_command_is_answered(auth, dialect):
    """The client learns from the greeting whether the daemon is of 4.4 or 4.5."""
    client, server = established(auth, dialect)
    client.send_command(23, START)
    assert talked(client, server) == ([], [CommandReceived(23, START)])
    server.answer(23, 16, "The producer is already running.")
    assert talked(client, server) == (
        [CommandAnswered(23, 16, "The producer is already running.")], [])


def test_a_connection_begins_with_the_bytes_that_ldmsd_expects():
    """By hand, from zap_sock.h and ldms_rail.h: CONNECT, zap 1.3.1.0, LDMS 4.2.0.0, a rail."""
    client = ClientProtocol(Authentication(), rail=0x0000002500000029)
    client.connect()
    rail = struct.pack("!IqqIIIQI", 1, -1, -1, 1, 0, 0x25 >> 1, 0x0000002500000029, 0)
    assert client.outgoing() == (
        struct.pack("!HHIIQ", 1, 0, 20 + 16 + 20 + 44, 1, 0) + b"\1\3\1\0SOCKET\0\0"
        + struct.pack("!I", 64) + b"\4\2\0\0none" + bytes(12) + rail)


def test_a_command_is_the_record_that_ldmsd_expects():
    """By hand, from ldmsd_request.h: prdcr_start is 0x102, name is attribute 1."""
    client, _server = established(Authentication())
    client.send_command(41, START)
    attribute = struct.pack("!III", 1, 1, 8) + b"node-37\0" + bytes(4)
    record = struct.pack("!IIIIII", 0xffffffff, 1, 3, 41, 0x102, 24 + len(attribute)) + attribute
    send = struct.pack("!QIII", 0, 5, 20 + len(record), len(record)) + record
    assert client.outgoing() == struct.pack("!HHIIQI", 2, 0, 24 + len(send), 1, 0, len(send)) + send


def test_the_answer_to_a_challenge_is_that_of_ovis():
    """SHA-224 in hexadecimal of the challenge in decimal and the secret word."""
    client, server = ends()
    client.connect()
    server.receive(client.outgoing())
    client.receive(server.outgoing())
    server.receive(client.outgoing())                   # the acknowledgement, and its challenge
    client.receive(server.outgoing())
    assert hashlib.sha224(b"41correct-horse-23").hexdigest().encode() + b"\0" in client.outgoing()


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_bytes_may_be_cut_anywhere(data):
    """What is complete is understood, and the rest waits."""
    client, server = ends()
    client.connect()
    heard = []
    while True:
        there, back = client.outgoing(), server.outgoing()
        if not there and not back:
            break
        for end, sent in ((server, there), (client, back)):
            while sent:
                n = data.draw(st.integers(1, len(sent)))
                heard += end.receive(sent[:n])
                sent = sent[n:]
    assert heard == [Established("4.5")] * 2


def test_an_errno_may_be_negative():
    """Some of ldmsd's own are."""
    client, server = established()
    client.send_command(23, START)
    talked(client, server)
    server.answer(23, -41, "no")
    assert talked(client, server)[0] == [CommandAnswered(23, -41, "no")]


def test_several_commands_are_under_way_at_once():
    """Each answer has its command's number."""
    client, server = established()
    for n in (23, 37, 41):
        client.send_command(n, Statement("prdcr_stop", (("name", f"node-{n}"),)))
    _, asked = talked(client, server)
    for one in reversed(asked):
        server.answer(one.number, 0, one.statement.attributes[0][1])
    answers, _ = talked(client, server)
    assert answers == [CommandAnswered(n, 0, f"node-{n}") for n in (41, 37, 23)]


def test_what_is_longer_than_a_record_is_put_together_again():
    """A status of 900,000 bytes comes in several records, a command of 600,000 as well."""
    client, server = established()
    long = "x" * 600_000
    client.send_command(23, Statement("config", (("name", "m"), ("path", long))))
    sent = client.outgoing()
    assert len(list(frames.Frames().feed(sent))) == 3
    [asked] = server.receive(sent)
    assert asked.statement.attributes == (("name", "m"), ("path", long))
    server.answer(23, 0, "[" + "7" * 900_000 + "]")
    [answer] = talked(client, server)[0]
    assert answer.text == "[" + "7" * 900_000 + "]"


def test_the_directory_comes_in_parts():
    """The last one says so."""
    client, server = established()
    client.send_directory(37)
    assert talked(client, server) == ([], [DirectoryRequested(37)])
    server.directory(37, ['{"directory": [23]}', '{"directory": [41]}'])
    assert talked(client, server)[0] == [DirectoryPart(37, 0, '{"directory": [23]}', False),
                                         DirectoryPart(37, 0, '{"directory": [41]}', True)]


def test_munge_is_asked_for_by_events():
    """A credential is wanted and one is to be checked; only both together are enough."""
    munge = Authentication("munge", socket="/run/munge.socket.2")
    client, server = ends(munge)
    client.connect()
    assert talked(client, server) == ([CredentialNeeded()], [CredentialNeeded()])
    assert client.give_credential("MUNGE:client:") == []
    assert server.give_credential("MUNGE:server:") == []
    assert talked(client, server) == ([CredentialReceived("MUNGE:server:")],
                                      [CredentialReceived("MUNGE:client:")])
    assert client.accept_credential() == [Established("4.5")]
    assert server.accept_credential() == [Established("4.5")]


def test_a_command_right_behind_a_credential_waits_until_that_is_checked():
    """One piece of data brings both where the client was quicker with its own check."""
    client, server = ends(Authentication("munge"))
    client.connect()
    talked(client, server)
    client.give_credential("MUNGE:client:")
    server.give_credential("MUNGE:server:")
    client.receive(server.outgoing())
    client.accept_credential()
    client.send_command(23, START)
    assert server.receive(client.outgoing()) == [CredentialReceived("MUNGE:client:")]
    assert server.accept_credential() == [Established("4.5"), CommandReceived(23, START)]
    client.send_command(37, START)
    assert server.receive(client.outgoing()) == [CommandReceived(37, START)]


def test_another_secret_word_is_told_by_both_ends():
    """Each checks the other's answer."""
    client, server = ends(OVIS, Authentication("ovis", secret="wrong-horse-37"))
    client.connect()
    with pytest.raises(AuthenticationFailed,
                       match=r"^node-23:411: its secret word differs from ours"):
        talked(client, server)
    client, server = ends(OVIS, Authentication("ovis", secret="wrong-horse-37"))
    client.connect()
    server.receive(client.outgoing())
    client.receive(server.outgoing())
    server.receive(client.outgoing())
    client._out.append(frames.make_request(frames.AUTH, struct.pack("<I", 2) + b"f" * 56 + b"\0"))
    with pytest.raises(AuthenticationFailed, match="secret word differs from ours"):
        server.receive(client.outgoing())


def test_our_own_challenge_is_not_answered():
    """It would be sent back to get the answer to it, and that given to us as its own."""
    client = ClientProtocol(OVIS, "node-23:411", challenge=23)
    client.connect()
    client.receive(frames.make_frame(frames.ACCEPTED, frames.make_greeting("ovis", 37)))
    client.outgoing()
    back = frames.make_request(frames.AUTH, struct.pack("<I", 1) + struct.pack("!Q", 23))
    with pytest.raises(AuthenticationFailed, match="returned our own challenge"):
        client.receive(back)
    assert client.outgoing() == b""


def test_an_end_that_skips_authentication_is_not_heard():
    """Neither a command without a proof, nor an answer."""
    client, server = ends()
    client.connect()
    server.receive(client.outgoing())
    client.receive(server.outgoing())
    client.outgoing()
    server.receive(frames.make_frame(frames.ACK_ACCEPTED))
    [record] = frames.make_records(frames.COMMAND, 23, 0x102, [(1, "node-37")])
    with pytest.raises(AuthenticationFailed, match="did not authenticate itself"):
        server.receive(frames.make_request(frames.SEND, record))
    with pytest.raises(AuthenticationFailed, match="did not authenticate itself"):
        client.receive(frames.make_request(frames.SEND, record))


def test_who_has_another_authentication_is_rejected():
    """In ldmsd's words, and ours beside them."""
    client, server = ends(Authentication(), OVIS)
    client.connect()
    with pytest.raises(AuthenticationFailed,
                       match="it refuses the connection: 'Auth mismatch'; our "
                                          "authentication is none"):
        talked(client, server)
    assert server.is_rejected


@pytest.mark.parametrize("version, line", [
    ((4, 3, 0, 0), "it refuses our version of LDMS' protocol, 4.2.0.0: 'Version mismatch'"),
    ((3, 4, 0, 0), "it refuses our version of LDMS' protocol, 4.2.0.0: 'Version mismatch'")])
def test_a_daemon_that_refuses_our_version(version, line):
    """One line with both sides."""
    client, server = ends(version=version)
    client.connect()
    with pytest.raises(VersionMismatch, match=line):
        talked(client, server)


def test_a_version_that_we_do_not_know_is_refused():
    """Also where the daemon would take us."""
    client = ClientProtocol(Authentication(), "node-23:411")
    with pytest.raises(VersionMismatch, match=r"it speaks version 5\.1\.0\.0 of LDMS' protocol, "
                                             r"expected 4\.2\.0\.0"):
        client.receive(frames.make_frame(frames.ACCEPTED,
                                    frames.make_greeting("none", 37, version=(5, 1, 0, 0))))


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2p1\r\n", bytes(40),
    struct.pack("!HHIIQ", 2, 0, (1 << 20) + 1, 1, 0),          # a frame of more than 1 MiB
    struct.pack("!HHIIQ", 8, 0, 19, 1, 0),                     # shorter than its header
    struct.pack("!HHIIQI", 8, 0, 24, 1, 0, 500),               # more data than it has
    frames.make_frame(frames.ACK_ACCEPTED),
    frames.make_frame(frames.ACCEPTED, b"\4\2"),
    frames.make_frame(frames.SENDRECV, b"x"),
], ids=["http", "ssh", "zeros", "long", "short", "longer inside", "acknowledged", "no greeting",
        "too early"])
def test_what_is_no_ldmsd_is_told_in_one_line(data):
    """Whatever it sends first."""
    with pytest.raises(ProtocolError, match=r"^node-23:411: not ldmsd's protocol: "):
        ClientProtocol(Authentication(), "node-23:411").receive(data)


def test_a_message_without_an_end_is_bounded():
    """64 MiB of one answer, or 1,000 answers that are not complete."""
    client, _server = established(Authentication())
    part = bytes(1 << 19)
    record = struct.pack("!IIIIII", 0xffffffff, 2, 0, 23, 0, 24 + len(part)) + part
    first = struct.pack("!IIIIII", 0xffffffff, 2, 1, 23, 0, 24 + len(part)) + part
    client.receive(frames.make_request(frames.SEND, first))
    with pytest.raises(ProtocolError, match="more than 64 MiB"):
        for _ in range(200):
            client.receive(frames.make_request(frames.SEND, record))
    client, _server = established(Authentication())
    with pytest.raises(ProtocolError, match="1000 messages at once"):
        for n in range(1001):
            client.receive(frames.make_request(frames.SEND, struct.pack(
                "!IIIIII", 0xffffffff, 2, 1, n, 0, 24)))


def test_what_is_kept_of_a_message_takes_no_more_memory_than_its_bytes():
    """40,000 records of two bytes each, as from a daemon that never ends its answer."""
    client, _server = established(Authentication())

    def record(flags, part):
        return frames.make_request(frames.SEND, struct.pack(
            "!IIIIII", 0xffffffff, 2, flags, 23, 0, 24 + len(part)) + part)
    client.receive(record(frames.FIRST, b""))
    tracemalloc.start()
    try:
        for _ in range(400):
            client.receive(record(0, b"37") * 100)
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 80_000 <= kept < 320_000


def test_what_comes_before_a_credential_is_accepted_is_bounded():
    """1 MiB: a daemon has little to say before it knows us."""
    client, server = ends(Authentication("munge"))
    client.connect()
    talked(client, server)
    server.give_credential("MUNGE:server:")
    client.receive(server.outgoing())
    part = frames.make_frame(frames.SENDRECV, bytes(300_000))
    client.receive(part * 4)
    with pytest.raises(ProtocolError, match="or 1 MiB, before its credential is accepted"):
        client.receive(part)


def test_an_answer_of_attributes_alone_is_bounded():
    """ldmsd's have one or two."""
    client, _server = established(Authentication())
    [right] = frames.make_records(frames.RESPONSE, 23, 0, [(encoding.STRING, "x")] * 1000)
    assert client.receive(frames.make_request(frames.SEND, right)) == [CommandAnswered(23, 0, "x")]
    [wrong] = frames.make_records(frames.RESPONSE, 37, 0, [(encoding.STRING, "x")] * 1001)
    with pytest.raises(ProtocolError, match="more than 1000 attributes"):
        client.receive(frames.make_request(frames.SEND, wrong))


def test_what_a_release_has_no_words_for_is_not_sent():
    """The release is known from its greeting."""
    client, _server = established(Authentication(), "4.4")
    with pytest.raises(UnsupportedStatement, match=r"LDMS 4\.4 has no attribute rail"):
        client.send_command(23, Statement("prdcr_add", (("name", "a"), ("rail", "2"))))
    assert client.outgoing() == b""


def test_what_ldmsd_asks_of_us_is_passed_over():
    """News of sets, quotas and messages of its own: 4.5 may send them to whom it likes."""
    client, server = established(Authentication())
    for command in (0, 9, 10, 0x103):
        data = struct.pack("!QII", 7, command, 16 + 30) + bytes(30)
        assert client.receive(frames.make_frame(frames.SENDRECV, data)) == []
    client.send_command(23, START)
    assert talked(client, server)[1] == [CommandReceived(23, START)]


def test_an_authentication_that_is_not_there_is_refused():
    """naive proves nothing."""
    with pytest.raises(AuthenticationFailed,
                       match="unsupported authentication naive; expected none, ovis"):
        ClientProtocol(Authentication("naive"))


def test_a_secret_word_is_not_shown():
    """In no log and no traceback."""
    assert "correct-horse" not in repr(OVIS)


@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans(), st.sampled_from(
    [Authentication(), OVIS]))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes_end_in_events_or_in_one_of_our_errors(pieces, is_begun, auth):
    """Of either end, at any time."""
    client, server = ends(auth)
    client.connect()
    if is_begun:
        talked(client, server)
    for end in (client, server):
        try:
            for piece in pieces:
                end.receive(piece)
        except ControlError as error:
            assert "\n" not in str(error)
