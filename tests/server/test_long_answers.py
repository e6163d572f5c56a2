"""
Answers that take long: the server goes on with what else comes, and each connection gets its
answers in the order of its questions.
"""
from __future__ import annotations

import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_desk import free_port

from iostats.base import config as site
from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.load import ranking
from iostats.load.levels import TOTALS
from iostats.load.sums import TargetLoad, sum_load
from iostats.server.rpc_server import RpcServer
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method


def played(play, **options):
    """What `play(server, ask)` returns; `ask(*methods)`: a connection that sends them at once."""
    async def whole():
        config = site.load(os.devnull, environ={})
        for name, value in options.items():
            config.set_value(f"server.{name}", value, "a test")
        server = RpcServer(protocol.SITE, [], config)
        server.public_methods = server.methods                 # these tests need no secret
        await server.listen_on("127.0.0.1", [free_port()])
        opened = []

        async def ask(*methods):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            opened.append(writer)
            for method in methods:
                body = json.dumps({"jsonrpc": "2.0", "method": method, "params": {},
                                   "id": method}).encode()
                writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return reader, writer
        try:
            return await asyncio.wait_for(play(server, ask), 60)
        finally:
            for writer in opened:
                writer.close()
            server.close()
    return asyncio.run(whole())


async def answer_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].split()[0])
    return json.loads(await reader.readexactly(length))


def test_others_are_answered_while_a_long_answer_is_made():
    """It is not over before the other one has been asked."""
    async def play(server, ask):
        asked = []

        def long(params, sender):
            while not asked:
                yield
            return 23
        server.methods.update(long=Method(long, None), quick=Method(
            lambda params, sender: asked.append(37), None))
        slow, _ = await ask("long")
        quick, _ = await ask("quick")
        assert "quick" == (await answer_of(quick))["id"]
        return (await answer_of(slow))["result"]
    assert 23 == played(play)


def test_questions_behind_a_long_one_are_answered_after_it_in_their_order():
    async def play(server, ask):
        order = []

        def long(params, sender):
            order.append("begun")
            for _ in range(41):
                yield
            order.append("long")
            return len(order)
        server.methods.update(long=Method(long, None), quick=Method(
            lambda params, sender: order.append("quick"), None))
        reader, _ = await ask("long", "quick", "long", "long", "quick")
        ids = [(await answer_of(reader))["id"] for _ in range(5)]
        return ids, order
    ids, order = played(play)
    assert ["long", "quick", "long", "long", "quick"] == ids
    assert ["begun", "long", "quick", "begun", "long", "begun", "long", "quick"] == order


def test_a_client_that_waits_for_a_long_answer_is_not_idle():
    """A connection that says nothing is closed after 0.2 s, and this one when it has its answer."""
    async def play(server, ask):
        now = asyncio.get_running_loop().time
        until = now() + 0.8

        def long(params, sender):
            while now() < until:
                yield
            return 23
        server.methods.update(long=Method(long, None))
        reader, _ = await ask("long")
        return (await answer_of(reader))["result"], await reader.read()
    assert (23, b"") == played(play, idle_timeout="0.2")


@pytest.mark.parametrize("silence", ["0", "0.01"])
def test_a_long_answer_hangs_no_server_with_an_idle_timeout_of_0(silence):
    """Who waits was put behind the others again and again, in one turn of the loop."""
    async def play(server, ask):
        asked = []

        def long(params, sender):
            while not asked:
                yield
            return 23
        server.methods.update(long=Method(long, None))
        slow, _ = await ask("long")
        await asyncio.sleep(0.2)                    # some turns in which silence is looked for
        asked.append(37)
        return (await answer_of(slow))["result"]
    assert 23 == played(play, idle_timeout=silence)


def test_a_long_answer_may_end_in_an_error_and_in_a_bug():
    async def play(server, ask):
        def refused(params, sender):
            yield
            raise WireError(protocol.REFUSED, "not now")

        def broken(params, sender):
            yield
            raise ZeroDivisionError
        server.methods.update(refused=Method(refused, None), broken=Method(broken, None))
        reader, _ = await ask("refused", "broken", "hello")
        return [await answer_of(reader) for _ in range(3)]
    refused, broken, hello = played(play)
    assert (protocol.REFUSED, "not now") == (refused["error"]["code"], refused["error"]["message"])
    assert protocol.INTERNAL_ERROR == broken["error"]["code"]
    assert protocol.SITE == hello["result"]["job"]


def test_work_for_a_client_that_disconnected_ends():
    async def play(server, ask):
        steps = []

        def endless(params, sender):
            while True:
                steps.append(1)
                yield
        server.methods["endless"] = Method(endless, None)
        _, writer = await ask("endless")
        while not steps:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while not server.long_answers.is_idle():
            await asyncio.sleep(0.01)
        reader, _ = await ask("hello")
        return (await answer_of(reader))["result"]["job"]
    assert protocol.SITE == played(play)


def test_a_client_that_keeps_asking_behind_a_long_answer_is_disconnected():
    """After 1 MiB of questions, not when memory is full."""
    async def play(server, ask):
        def endless(params, sender):
            while True:
                yield
        server.methods["endless"] = Method(endless, None)
        _, writer = await ask("endless")
        with pytest.raises(ConnectionError):
            while True:
                body = b" " * 65536
                writer.write(b"POST / HTTP/1.1\r\nContent-Length: 65536\r\n\r\n" + body)
                await writer.drain()
        while not server.long_answers.is_idle():
            await asyncio.sleep(0.01)
        return "done"
    assert "done" == played(play)


class Known:
    """Every id is a job of nobody."""

    @staticmethod
    def find_job(id):
        return id

    @staticmethod
    def facts(id):
        return None


@given(st.lists(st.lists(st.sampled_from((0, 1, 23, 37, 41)), max_size=50), max_size=5),
       st.sampled_from((1, 3, 23)), st.sampled_from(("job-target", "job")))
def test_the_first_rows_of_many_are_those_of_all_in_their_order(parts, count, by):
    """Whatever is left out on the way: all rows that there are, cut behind so many."""
    load = sum_load([TargetLoad("scratch", f"OST{number:04x}", "oss1", None,
                                       [str(4711 + place) for place in range(len(amounts))],
                                       [amounts, amounts, amounts, amounts])
                          for number, amounts in enumerate(parts)], Known, TOTALS)
    first = ranking.answer(load, ranking.LoadQuery(by, count=count), Known)
    every = ranking.answer(load, ranking.LoadQuery(by, count=10_000), Known)
    assert every["rows"][:count] == first["rows"]
    assert len(every["rows"]) == len(first["rows"]) + first["left_off"]


def test_work_in_steps_returns_its_result():
    def work():
        yield
        yield
        return 23
    assert 23 == run_to_end(work())
