"""
Authentication by the secret, and what JobServer does with messages that were altered,
copied, kept back or made by others.

The server here is an object in this process with a clock of our own; no port is opened.  The
macs are made by hmac and hashlib from the text of docs/reference/wire.md, or were made by openssl.
"""
from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from iostats.base.config import load
from iostats.server.job_server import JobServer
from iostats.totals.job_totals import Totals
from iostats.wire import protocol
from iostats.wire.auth import Secret

SECRET = b"0123456789abcdef0123456789abcdef"
NOW = 1_790_277_040
NONCE = "000102030405060708090a0b0c0d0e0f"


def hexmac(key, text):
    """HMAC-SHA256, without iostats."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def job_key(secret=SECRET, job="4711"):
    return hmac.new(secret, f"iostats-1 job {job}".encode(), hashlib.sha256).digest()


def header(body, node="nid00023", time=NOW, nonce=NONCE, key=None):
    """An Authorization header as docs/reference/wire.md has it, without iostats."""
    mac = hexmac(key or job_key(),
                 f"request\n{node}\n{time}\n{nonce}\n{hashlib.sha256(body).hexdigest()}")
    return f"IOSTATS-1 node={node}, time={time}, nonce={nonce}, mac={mac}"


@pytest.fixture
def server():
    """The server of job 4711 of 3 nodes; `clock[0]` is its time, `up[0]` for how long it runs."""
    return server_of(3)


def server_of(nodes):
    clock, up = [NOW + 0.25], [3600.0]
    checks = Secret("4711", SECRET, 300.0, now=lambda: clock[0], up=lambda: up[0])
    one = JobServer(Totals("4711", nodes), [checks], load(environ={}), now=lambda: clock[0])
    one.clock, one.up, one.checks = clock, up, checks
    return one


def report(node="nid00023", **other):
    """A request `report` of 41,003 bytes read in 23 calls."""
    params = {"protocol": 1, "job": "4711", "node": node, "seq": "seq-37", "ended": float(NOW),
              "elapsed_s": 60.0, "deltas": [
                  {"source": "llite", "file_system": "scratch", "instance": "ffff9a3c",
                   "values": {"read_bytes": 41_003, "read_calls": 23}}], **other}
    return json.dumps({"jsonrpc": "2.0", "method": "report", "params": params, "id": 5}).encode()


def refused(server):
    return server.totals.record()["coverage"]["refused"]


def read_bytes(server):
    return [fs["application"]["read_bytes"] for fs in server.totals.record()["file_systems"]]


def code(reply):
    return json.loads(reply)["error"]["code"]


HELLO = b'{"jsonrpc":"2.0","method":"hello","id":23}'


# -- the macs --------------------------------------------------------------------------------

def test_the_macs_are_those_that_openssl_computes():
    """
    printf 'iostats-1 job 4711' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    printf 'request\\n...' | openssl dgst -sha256 -mac HMAC -macopt hexkey:...
    """
    key = protocol.derive_key(SECRET, "4711")
    assert "ce4539f21edcdfa7aaf9967c7271ea5fcfea62b7761741a3d07a44047b69f856" == key.hex()
    assert ("41ca7cf0fda3c5470f8c0554d97df409f7b2b65f5d14973527d94eda6a713248"
            == protocol.request_mac(key, "nid00023", "1790277040", NONCE, HELLO))
    assert ("bc33715442d14b7faec3392a0e3f37e9248a40724d33fc91801846a2fa0a7972"
            == protocol.answer_mac(key, NONCE, HELLO))


def test_the_header_is_the_one_of_the_documentation():
    """Scheme, four fields and their order, as another program would have to write them."""
    assert header(HELLO) == protocol.authorization(job_key(), "nid00023", NOW, NONCE, HELLO)


@pytest.mark.parametrize("text", [
    "", "IOSTATS-1", "IOSTATS-1 ", "Basic YWxpY2U6c2VjcmV0", "Bearer abc",
    "IOSTATS-2 node=a, time=1, nonce=b, mac=c", "iostats-1 node=a, time=1, nonce=b, mac=c",
    "IOSTATS-1 node=a, time=1, nonce=b", "IOSTATS-1 node=a, time=1, nonce=b, mac=c, more=d",
    "IOSTATS-1 node=a; time=1; nonce=b; mac=c", "IOSTATS-1 ,,,,", "IOSTATS-1 ====",
])
def test_a_header_of_another_form_has_no_fields(text):
    """None, never half of the fields and never an exception."""
    assert None is protocol.parse_fields(text)


@pytest.mark.parametrize("node, job", [("nid00023", "4711"), ("nid00023", protocol.SITE),
                                       ("a.b-c_d:e", "4711[37].pbs01"), ("n\udc80", "\u0192x9k")])
def test_what_a_munge_credential_holds_is_read_back_for_its_own_message_alone(node, job):
    """The text is that of docs/reference/wire.md."""
    digest = hashlib.sha256(HELLO).hexdigest()
    payload = protocol.make_munge_request(node, job, NONCE, HELLO)
    assert payload == "\n".join(("iostats-1 request", node, job, NONCE, digest)).encode(
        "utf-8", "surrogateescape")
    assert (node, job, NONCE) == protocol.parse_munge_request(payload, HELLO)
    assert None is protocol.parse_munge_request(payload, HELLO + b" ")
    assert f"iostats-1 answer\n{NONCE}\n{digest}".encode() == protocol.make_munge_answer(NONCE,
                                                                                         HELLO)


@pytest.mark.parametrize("payload", [
    b"", b"iostats-1 request", b"\n\n\n\n", b"\xff\n\xff\n\xff\n\xff\n\xff",
    protocol.make_munge_request("nid00023\n4711", "4711", NONCE, b""),
    protocol.make_munge_answer(NONCE, b""),
    protocol.make_munge_request("nid00023", "4711", NONCE, b"") + b"\n",
    protocol.make_munge_request("nid00023", "4711", NONCE, b"").replace(b"request", b"answer")],
    ids=["nothing", "head", "lines", "no text", "a line more", "an answer", "an end", "another"])
def test_a_munge_credential_of_another_form_has_no_fields(payload):
    assert None is protocol.parse_munge_request(payload, b"")


# -- what is authenticated -------------------------------------------------------------------

def test_a_message_made_with_the_secret_is_counted_and_its_answer_is_authenticated(server):
    """The answer's mac is over the answer's very bytes and the request's number."""
    body = report()
    reply, mac = server.answer(body, header(body))
    assert {"counted": True, "why": ""} == json.loads(reply)["result"]
    proof = hexmac(job_key(), f"answer\n{NONCE}\n{hashlib.sha256(reply).hexdigest()}")
    assert f"IOSTATS-MAC: {proof}" == mac
    assert [41_003] == read_bytes(server)
    assert {} == refused(server)


BODY = report()
ALTERED = {
    "altered body": (report(elapsed_s=61.0), header(BODY)),
    "a byte more in the body": (BODY + b" ", header(BODY)),
    "altered node": (BODY, header(BODY).replace("nid00023", "nid00024")),
    "altered time": (BODY, header(BODY).replace(str(NOW), str(NOW + 1))),
    "altered nonce": (BODY, header(BODY).replace(NONCE, NONCE[:-1] + "e")),
    "altered mac": (BODY, header(BODY)[:-1] + ("0" if header(BODY)[-1] != "0" else "1")),
    "mac in capitals": (BODY, header(BODY)[:-64] + header(BODY)[-64:].upper()),
    "mac cut off": (BODY, header(BODY)[:-1]),
    "empty mac": (BODY, header(BODY)[:-64]),
    "mac that is no ASCII": (BODY, header(BODY)[:-1] + "\xe9"),
    "no field mac": (BODY, header(BODY).rpartition(",")[0]),
    "another scheme": (BODY, header(BODY).replace("IOSTATS-1", "IOSTATS-2")),
    "wrong secret": (BODY, header(BODY, key=job_key(b"another secret of 37 bytes or so....."))),
    "key of another job": (BODY, header(BODY, key=job_key(job="4712"))),
    "the secret itself as the key": (BODY, header(BODY, key=SECRET)),
    "short nonce": (BODY, header(BODY, nonce="00")),
    "empty nonce": (BODY, header(BODY, nonce="")),
    "long nonce": (BODY, header(BODY, nonce="0" * 64)),
    "node that is no name": (BODY, header(BODY, node="nid/../23")),
    "no node": (BODY, header(BODY, node="")),
    "no header": (BODY, ""),
}


@pytest.mark.parametrize("body, authorization", list(ALTERED.values()), ids=list(ALTERED))
def test_a_message_that_was_altered_or_made_by_others_is_refused_and_counted(
        server, body, authorization):
    """-32001, nothing is added, and the report says that somebody tried."""
    reply, mac = server.answer(body, authorization)
    assert -32001 == code(reply)
    assert "" == mac
    assert [] == read_bytes(server)
    assert {"not authenticated": 1} == refused(server)


def test_after_a_refusal_the_right_message_still_counts(server):
    """A forger who saw a nonce can't use it up."""
    server.answer(*ALTERED["altered body"])
    reply, _ = server.answer(BODY, header(BODY))
    assert {"counted": True, "why": ""} == json.loads(reply)["result"]
    assert [41_003] == read_bytes(server)


@pytest.mark.parametrize("offset_s, expected", [
    (0, None), (299, None), (-299, None), (301, -32002), (-301, -32002), (600, -32002),
    (-600, -32002),
])
def test_a_message_is_stale_more_than_five_minutes_from_the_servers_clock(
        server, offset_s, expected):
    """On both sides; the tolerance is site.cfg's clock_tolerance, 300 s."""
    body = report()
    reply, mac = server.answer(body, header(body, time=NOW + offset_s))
    assert expected == json.loads(reply).get("error", {}).get("code")
    assert [] == read_bytes(server) if expected else [41_003] == read_bytes(server)
    assert ({"stale": 1} if expected else {}) == refused(server)
    assert mac                       # so the node knows that it is its clock, and who says so


@pytest.mark.parametrize("time", ["", "-5", "1e9", "now", "²", "9" * 400, "9" * 5000,
                                  f"{NOW}.5", f" {NOW}"])
def test_a_time_that_is_no_number_of_seconds_is_stale_not_a_crash(server, time):
    """Even when the mac is right: who has the secret can still make a mistake."""
    body = report()
    reply, _ = server.answer(body, header(body, time=time))
    assert code(reply) in (-32001, -32002)
    assert [] == read_bytes(server)


def test_a_replayed_message_is_refused_and_counted(server):
    """The same bytes again, half a minute later: -32003, and counted once."""
    body = report()
    server.answer(body, header(body))
    server.clock[0] += 30
    reply, mac = server.answer(body, header(body))
    assert -32003 == code(reply)
    assert mac
    assert [41_003] == read_bytes(server)
    assert {"replayed": 1} == refused(server)


@pytest.mark.parametrize("offset_s, expected", [(0, None), (-1, None), (-3, -32002)])
def test_what_was_heard_before_a_server_was_restarted_is_stale_to_the_next_one(
        server, offset_s, expected):
    """Which does not know the nonces of the first; a second run of a job may have its secret."""
    server.up[0] = 0.5
    body = report()
    reply, _ = server.answer(body, header(body, time=NOW + offset_s))
    assert expected == json.loads(reply).get("error", {}).get("code")
    assert ([] if expected else [41_003]) == read_bytes(server)


def test_a_message_from_the_future_cannot_be_replayed_when_its_time_has_come(server):
    """A nonce is remembered for as long as its message is not stale, on both sides of now."""
    body = report()
    early = header(body, time=NOW + 290)
    server.answer(body, early)
    server.clock[0] += 580           # the message is now 290 s old, and not stale
    for number in range(37):         # others come, so that old nonces are forgotten
        server.answer(HELLO, header(HELLO, time=NOW + 580, nonce="%032d" % number))
    reply, _ = server.answer(body, early)
    assert -32003 == code(reply)


def test_nonces_are_forgotten_when_their_messages_are_stale(server):
    """A server that lives for weeks does not grow."""
    for number in range(41):
        server.answer(HELLO, header(HELLO, nonce="%032d" % number))
    server.clock[0] += 602
    server.answer(HELLO, header(HELLO, time=NOW + 602))
    assert [NONCE] == server.checks.nonces()


def test_a_report_sent_again_with_a_new_nonce_counts_once(server):
    """What a node does that did not hear the answer."""
    body = report()
    server.answer(body, header(body))
    reply, _ = server.answer(body, header(body, nonce="f" * 32))
    assert {"counted": True, "why": "this report was counted before"} == json.loads(
        reply)["result"]
    assert [41_003] == read_bytes(server)


# -- who is who ------------------------------------------------------------------------------

@pytest.mark.parametrize("altered", [{"job": "4712"}, {"node": "nid00024"}],
                         ids=["another job", "another node"])
def test_a_report_of_another_job_or_node_than_its_header_is_refused(server, altered):
    """A node speaks for itself alone."""
    body = report(**altered)
    reply, mac = server.answer(body, header(body))
    assert -32004 == code(reply)
    assert mac
    assert [] == read_bytes(server)


def test_another_protocol_is_refused_with_the_one_that_is_spoken(server):
    """Nodes and server of two releases of iostats."""
    body = report(protocol=37)
    reply, _ = server.answer(body, header(body))
    assert -32004 == code(reply)
    assert "expected protocol 1, got 37" in json.loads(reply)["error"]["message"]


@pytest.mark.parametrize("authorization, is_proved", [
    ("", False), (header(HELLO), True), (header(HELLO, time=NOW - 600), True),
    (header(HELLO, key=job_key(b"another secret of 37 bytes or so.....")), False),
    (header(HELLO, key=job_key(job="4712")), False), ("Basic YWxpY2U=", False),
], ids=["no header", "of the job", "of the job, clock off", "wrong secret", "other job",
        "other scheme"])
def test_hello_is_answered_to_anyone_and_authenticated_to_those_with_the_secret(
        server, authorization, is_proved):
    """So that a node of another job learns that it knocked at the wrong door."""
    reply, mac = server.answer(HELLO, authorization)
    assert {"job": "4711", "protocol": 1, "time": NOW + 0.25} == json.loads(reply)["result"]
    expected = hexmac(job_key(), f"answer\n{NONCE}\n{hashlib.sha256(reply).hexdigest()}")
    assert (f"IOSTATS-MAC: {expected}" if is_proved else "") == mac
    assert {} == refused(server) or not is_proved


def test_status_shows_missing_nodes_to_those_with_the_secret_alone(server):
    """Names of nodes are nobody else's business."""
    body = b'{"jsonrpc":"2.0","method":"status","id":23}'
    reply, _ = server.answer(body, "")
    assert -32001 == code(reply)
    reply, _ = server.answer(body, header(body))
    assert {"job": "4711", "expected": 3, "reported": 0, "missing": {}} == json.loads(
        reply)["result"]


def test_every_report_of_a_batch_is_refused_when_the_batch_is_unauthenticated(server):
    """One header stands for the whole body."""
    batch = b"[" + report() + b"," + report("nid00024") + b"]"
    reply, _ = server.answer(batch, header(BODY))
    assert [-32001, -32001] == [one["error"]["code"] for one in json.loads(reply)]
    assert [] == read_bytes(server)


def test_a_notification_is_counted_and_has_no_answer(server):
    """A node that does not care may save the answer."""
    body = report().replace(b', "id": 5', b"")
    assert (None, "") == server.answer(body, header(body))
    assert [41_003] == read_bytes(server)


# -- reports that are not of their form ------------------------------------------------------

@pytest.mark.parametrize("altered", [
    {"seq": ""}, {"seq": "x" * 65}, {"node": "n" * 254}, {"job": "4" * 129}, {"ended": "now"},
    {"ended": 1e13}, {"elapsed_s": -1.0}, {"elapsed_s": None}, {"deltas": {}}, {"deltas": [5]},
    {"deltas": [{"source": "llite"}]},
    {"deltas": [{"source": "llite", "file_system": "scratch", "values": {"open": -1}}]},
    {"deltas": [{"source": "llite", "file_system": "scratch", "values": {"open": 2**63}}]},
    {"deltas": [{"source": "llite", "file_system": "scratch", "values": {"open": 2.5}}]},
    {"deltas": [{"source": "llite", "file_system": "scratch", "values": {"o" * 129: 5}}]},
    {"deltas": [{"source": "llite", "file_system": "s" * 129}]},
    {"mounts": {"scratch": "/scratch"}}, {"mounts": {"m" * 129: []}}, {"user": "u" * 129},
    {"reason": "r" * 501},
], ids=str)
def test_a_report_with_a_wrong_field_is_refused_whole(server, altered):
    """-32602, nothing is added, and no limit on a length or a number can be passed."""
    body = report(**altered)
    reply, _ = server.answer(body, header(body))
    assert -32602 == code(reply)
    assert [] == read_bytes(server)


def test_sums_beyond_64_bits_are_added_and_kept():
    """Seven nodes with 2**62 - 1 bytes, the most that a node can have gained; 2**64 is 18.4e18."""
    server = server_of(7)
    for place in range(7):
        node = f"nid{23 + place:05}"
        body = report(node, deltas=[{"source": "llite", "file_system": "scratch",
                                     "values": {"read_bytes": 2**62 - 1, "read_calls": 23}}])
        server.answer(body, header(body, node=node, nonce="%032d" % place))
    assert [32_281_802_128_991_715_321] == read_bytes(server)
