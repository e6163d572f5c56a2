"""
A munged that does not answer, and senders who make a server ask it: everybody else is answered.

Every wait is on an event: munged is asked here through a function that a test holds back.
"""
from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time

import pytest
from processes import Desk
from site_desk import free_port
from test_long_answers import answer_of

from iostats.base import config as site
from iostats.server import http_server, long_answers
from iostats.server.rpc_server import RpcServer
from iostats.wire import auth, munge, protocol
from iostats.wire.jsonrpc import Method

SECRET = b"s" * 64


class Munged:
    """In place of munge: a credential "nid1 NAME NONCE", which is answered when it may be."""

    EXPIRED, REWOUND, REPLAYED = 15, 16, 17
    MungeError = munge.MungeError

    def __init__(self):
        self.may_answer, self.asked = threading.Event(), 0
        self.threads = set()

    def decode(self, credential, socket=""):
        self.asked += 1
        self.threads.add(threading.get_ident())
        assert self.may_answer.wait(60)
        if credential == "junk":
            raise munge.MungeError(munge.BAD_CREDENTIAL, "Invalid credential")
        return bytes.fromhex(credential), 0, 0

    def encode(self, payload, socket=""):
        self.threads.add(threading.get_ident())
        return payload.hex()


def played(play, munged, kinds=("munge", "secret"), **options):
    """What `play(server, ask)` returns; `ask(how, body)`: a connection that has sent it."""
    async def whole():
        config = site.load(os.devnull, environ={})
        for name, value in options.items():
            config.set_value(f"server.{name}", value, "a test")
        by_munge = auth.Munge(protocol.SITE, library=munged)
        by_secret = auth.Secret(protocol.SITE, SECRET)
        credentials = {"munge": by_munge, "secret": by_secret}
        server = RpcServer(protocol.SITE, [credentials[kind] for kind in kinds], config)
        server.methods["who"] = Method(
            lambda params, sender: server.require_authenticated(sender).node, None)
        await server.listen_on("127.0.0.1", [free_port()])
        opened = []

        async def ask(how, method="who", node="nid23", pad=0):
            body = json.dumps({"jsonrpc": "2.0", "method": method, "params": {}, "id": method}
                              ).encode() + b" " * pad
            nonce = os.urandom(16).hex()
            header = {"munge": lambda: "MUNGE " + protocol.make_munge_request(
                          node, protocol.SITE, nonce, body).hex(),
                      "secret": lambda: by_secret.authorization(
                          node, int(time.time()), nonce, body),
                      "junk": lambda: "MUNGE junk"}[how]()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            opened.append(writer)
            writer.write(b"POST / HTTP/1.1\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n"
                         % (header.encode(), len(body)) + body)
            return reader, writer
        try:
            return await asyncio.wait_for(play(server, ask), 60)
        finally:
            munged.may_answer.set()
            for writer in opened:
                writer.close()
            server.close()
    return asyncio.run(whole())


@pytest.mark.parametrize("how", ["munge", "junk"])
def test_messages_with_the_secret_are_answered_while_munged_does_not_answer(how):
    """Twice as many wait as may ask at once; with the loop blocked the first one would hang it."""
    munged = Munged()

    async def play(server, ask):
        waiting = [await ask(how) for _ in range(2 * long_answers.BLOCKING_AT_ONCE)]
        quick, _ = await ask("secret", node="nid37")
        first = (await answer_of(quick))["result"]
        assert munged.asked <= long_answers.BLOCKING_AT_ONCE
        munged.may_answer.set()
        return first, [await answer_of(reader) for reader, _ in waiting]
    first, others = played(play, munged)
    assert "nid37" == first
    if how == "munge":
        assert {"nid23"} == {one["result"] for one in others}
    else:
        assert {protocol.NOT_AUTHENTICATED} == {one["error"]["code"] for one in others}
    assert threading.get_ident() not in munged.threads
    assert len(munged.threads) <= long_answers.BLOCKING_AT_ONCE


def test_a_message_that_munged_does_not_decode_in_time_is_refused(monkeypatch):
    """It says why, and the thread that still waits keeps nothing from ending."""
    monkeypatch.setattr(long_answers, "BLOCKING_TIMEOUT_S", 0.1)
    munged = Munged()

    async def play(server, ask):
        answers = [await ask("munge") for _ in range(23)]
        return [(await answer_of(reader))["error"] for reader, _ in answers]
    for error in played(play, munged):
        assert protocol.NOT_AUTHENTICATED == error["code"]
        assert "munged has not answered within 0.1 s" in error["message"]


def test_munge_is_asked_only_where_it_is_switched_on():
    """[server] auth = secret: who sends a credential of munge is refused at once."""
    munged = Munged()

    async def play(server, ask):
        reader, _ = await ask("munge")
        return (await answer_of(reader))["error"]["message"]
    assert "expected Authorization: IOSTATS-1 (site.cfg: [server] auth)" in played(
        play, munged, kinds=("secret",))
    assert 0 == munged.asked


def test_questions_behind_one_that_waits_for_munge_are_answered_in_their_order():
    munged = Munged()

    async def play(server, ask):
        reader, writer = await ask("munge")
        hello = b'{"jsonrpc":"2.0","method":"hello","id":%d}'
        for number in (37, 41):
            body = hello % number
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        munged.may_answer.set()
        return [(await answer_of(reader))["id"] for _ in range(3)]
    assert ["who", 37, 41] == played(play, munged)


def test_what_waits_for_munge_is_held_within_the_same_bound(monkeypatch):
    """Of 23 bodies of 64 KiB in a room of 512 KiB most are refused before munge answers."""
    monkeypatch.setattr(http_server, "MAX_UNFINISHED_BYTES", 512 << 10)
    munged, most = Munged(), []

    async def play(server, ask):
        waiting = [await ask("munge", pad=65_000) for _ in range(23)]
        hello, _ = await ask("secret")
        await answer_of(hello)
        most.append(server.connections.held)
        munged.may_answer.set()
        heads = [await reader.readline() for reader, _ in waiting]
        return heads, server.connections.held
    heads, left = played(play, munged, max_message_bytes="100000")
    assert {b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"} == set(heads)
    assert 7 <= heads.count(b"HTTP/1.1 200 OK\r\n") <= 8
    assert 400_000 < most[0] <= 512 << 10 and left == 0


# -- the real one ----------------------------------------------------------------------------------

@pytest.mark.munge
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_job_with_the_secret_is_counted_while_munged_does_not_answer(tmp_path, how):
    """41 senders of a credential at the server of a job; it was blocked for ever, or 2.3 s each."""
    from test_munge import Munged as RealMunged
    real = RealMunged()
    try:
        with Desk(tmp_path) as desk:
            server = desk.server("--nodes", "1", "--format", "json", env={
                "IOSTATS_SERVER_AUTH": "secret munge", "IOSTATS_SERVER_MUNGE_SOCKET": real.socket})
            credential = real.munge(b"23")
            if how == "stopped":
                real.process.send_signal(signal.SIGSTOP)
            else:
                real.process.kill()                    # its socket stays behind
                real.process.wait()
            body = b'{"jsonrpc":"2.0","method":"status","id":1}'
            message = (f"POST / HTTP/1.1\r\nAuthorization: MUNGE {credential}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n").encode() + body
            senders = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(41)]
            for one in senders:
                one.sendall(message)
            assert 0 == desk.whole_job(server, "nid1").status
            for one in senders:
                one.close()
            record = server.wait().record
            assert record["coverage"]["complete"]
    finally:
        real.process.send_signal(signal.SIGCONT)
        real.process.kill()
        real.process.wait()
