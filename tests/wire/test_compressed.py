"""
Messages with Content-Encoding: deflate, over HTTP: what they say is what they say uncompressed, and
no few bytes make a server unpack many.
"""
from __future__ import annotations

import base64
import http.client
import json
import time
import zlib

import pytest
import sweep_blocks
from harvest_desk import SECRET, SiteOfTest
from site_desk import free_port

from iostats.wire import client, protocol
from iostats.wire.auth import Secret

SWEEP = sweep_blocks.message({"node": "oss1", "run": "0123456789abcdef", "seq": 1, "full": True,
                              "slot": 1_795_225_400, "every": 20, "last": True}, [])
NUMBER = [0]


@pytest.fixture
def site():
    with SiteOfTest(free_port()) as one:
        yield one


def request():
    params = {"protocol": 2, "sweep": base64.b64encode(SWEEP).decode()}
    return json.dumps({"jsonrpc": "2.0", "method": "packed_sweep", "params": params,
                       "id": 23}).encode()


def asked(site, body, encoding="deflate", secret=SECRET):
    """(HTTP status, answer) of a body as it is sent."""
    NUMBER[0] += 1
    key = protocol.derive_key(secret.encode(), protocol.SITE)
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    try:
        connection.request("POST", "/", body, {
            "Content-Encoding": encoding, "Authorization": protocol.authorization(
                key, "oss1", int(time.time()), f"{NUMBER[0]:032x}", body)})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("encoding", ["deflate", "Deflate", " deflate "])
def test_a_compressed_message_is_accepted(site, encoding):
    """The mac is over the body as it is sent."""
    status, answer = asked(site, zlib.compress(request()), encoding)
    assert (200, {"taken": True, "why": ""}) == (status, answer["result"])
    assert "0123456789abcdef" == site.messages[0].run


def test_a_body_without_an_encoding_is_accepted(site):
    assert {"taken": True, "why": ""} == asked(site, request(), "identity")[1]["result"]


def test_a_packed_sweep_is_sent_as_it_is_with_the_clock_beside_it(site):
    """
    client.py puts clock_ahead_s beside it, and reports the offset that it has learned.
    """
    learned = []
    answer = client.call("127.0.0.1", site.port, protocol.SITE,
                         [Secret(protocol.SITE, SECRET.encode())],
                         "oss1", "packed_sweep", SWEEP, learn=learned.append)
    assert {"taken": True, "why": ""} == answer
    assert abs(learned[0]) < 1 and round(learned[0], 3) == site.messages[0].clock_ahead_s
    assert [SWEEP] == site.packed


def test_a_hello_alone_tells_the_time(site):
    learned = []
    hello = client.call("127.0.0.1", site.port, protocol.SITE,
                        [Secret(protocol.SITE, SECRET.encode())],
                        "oss1", "hello", {"job": protocol.SITE}, learn=learned.append)
    assert protocol.SITE == hello["job"] and abs(learned[0]) < 1


def test_a_compression_bomb_is_too_large(site):
    """64 MiB of blanks in 64 KiB; 16 MiB are the limit."""
    squeeze = zlib.compressobj(9)
    bomb = b"".join(squeeze.compress(b" " * (1 << 20)) for _ in range(64)) + squeeze.flush()
    status, answer = asked(site, bomb)
    assert 413 == status and "max_message_bytes" in answer["error"]["message"]
    status, answer = asked(site, zlib.compress(request()))
    assert {"taken": True, "why": ""} == answer["result"]


def test_nothing_is_inflated_for_an_unauthenticated_sender(site):
    """The answer is about who it is, whatever is in it."""
    for body in (zlib.compress(request()), zlib.compress(b" " * (1 << 25)), b"none at all"):
        status, answer = asked(site, body, secret="f" * 64)
        assert (200, protocol.NOT_AUTHENTICATED) == (status, answer["error"]["code"])
    assert [] == site.messages


@pytest.mark.parametrize("body", [
    b"", b"none at all", zlib.compress(request())[:-1], zlib.compress(request()) + b"x",
    zlib.compress(b"no JSON")], ids=["empty", "none", "cut off", "more", "no JSON"])
def test_an_incomplete_stream_is_a_parse_error(site, body):
    status, answer = asked(site, body)
    assert (200, protocol.PARSE_ERROR) == (status, answer["error"]["code"])
    assert [] == site.messages


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, deflate", "\x00"])
def test_another_encoding_is_refused(site, encoding):
    status, answer = asked(site, request(), encoding)
    assert status in (400, 415) and "error" in answer
    assert [] == site.messages
