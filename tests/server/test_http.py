"""
HTTP as the server of a job speaks it: requests, invalid ones, limits, and idle connections.
"""
from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import resource
import socket
import threading
import time

import msgspec
import pytest
from processes import (
    Desk,
    until,
)
from test_job_server import started_nodes, stop_all

from iostats.base import config as site
from iostats.server.rpc_server import RpcServer
from iostats.wire.jsonrpc import Method

HELLO = b'{"jsonrpc": "2.0", "method": "hello", "id": 23}'


DESK = Desk


def answers_hello(server):
    assert server.process.poll() is None, server.err
    with contextlib.suppress(OSError, http.client.HTTPException):
        return server.call("hello")["result"]["job"] == server.job


# -- HTTP ------------------------------------------------------------------------------------

def raw(server, data, timeout=60):
    """Everything that comes back for `data` until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout) as one:
        with contextlib.suppress(ConnectionError):
            one.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionError):
            while True:
                part = one.recv(65536)
                if not part:
                    break
                found += part
        return found


def request(body, *headers):
    """The bytes of a POST."""
    head = ["POST / HTTP/1.1", "Host: iostats", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


def test_several_requests_on_one_connection_are_answered_in_order(desk, loop):
    """Keep-alive, one after another."""
    server = desk.server("--nodes", "1", env=loop)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    with contextlib.closing(connection):
        for number in (23, 37, 41):
            connection.request("POST", "/", b'{"jsonrpc": "2.0", "method": "hello", "id": %d}'
                               % number)
            found = json.loads(connection.getresponse().read())
            assert (number, desk.job) == (found["id"], found["result"]["job"])


def test_requests_sent_before_the_answers_are_read_are_answered_in_order(desk, loop):
    """Pipelining, and the last one says close."""
    server = desk.server("--nodes", "1", env=loop)
    found = raw(server, request(HELLO.replace(b"23", b"37")) + request(HELLO, "Connection: close"))
    assert [b'"id":37', b'"id":23'] == re.findall(rb'"id":\d\d', found)
    assert 2 == found.count(b"HTTP/1.1 200 OK")


def test_a_request_that_comes_byte_by_byte_is_answered(desk):
    """TCP may cut a message anywhere."""
    server = desk.server("--nodes", "1")
    with socket.create_connection(("127.0.0.1", server.port), 20) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(HELLO):
            one.sendall(bytes([byte]))
        assert one.recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_a_chunked_request_is_answered(desk):
    """HTTP/1.1 lets a client not know its length."""
    server = desk.server("--nodes", "1")
    chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (5, HELLO[:5], len(HELLO) - 5, HELLO[5:])
    found = raw(server, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
                        b"Connection: close\r\n\r\n" + chunks)
    assert desk.job.encode() in found


def test_a_batch_is_answered_and_notifications_alone_are_204(desk):
    """python-jsonrpc's wire form, and what the specification adds to it."""
    server = desk.server("--nodes", "1")
    status, body = server.post(b"[" + HELLO + b"," + HELLO.replace(b"23", b"37") + b"]")
    assert (200, [23, 37]) == (status, [one["id"] for one in json.loads(body)])
    assert (204, b"") == server.post(b'{"jsonrpc": "2.0", "method": "hello"}')
    assert (204, b"") == server.post(b'[{"jsonrpc": "2.0", "method": "hello"}]')


def test_anything_but_post_is_405(desk):
    """A browser on the port does no harm, and counts as nothing but a refusal."""
    server = desk.server("--nodes", "1", "--format", "json")
    assert [405] * 5 == [server.post(None, method=method)[0]
                         for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")]
    assert {"method not allowed": 5} == server.stop().record["coverage"]["refused"]


GARBAGE = {
    "random bytes": bytes(range(255, -1, -1)) * 5,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "blank lines and a word": b"\r\n\r\nhello\r\n\r\n",
    "no number as length": b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    "empty length": b"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "the same length twice": b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n"
                             b"\r\nhello",
    "a folded header": b"POST / HTTP/1.1\r\nContent-Length: 5\r\n 6\r\n\r\nhello",
    "newlines alone": b"POST / HTTP/1.1\nContent-Length: 5\n\nhello",
    "a blank before the colon": b"POST / HTTP/1.1\r\nContent-Length : 5\r\n\r\nhello",
    "chunks of another name": b"POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 5\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length of 5,000 zeros, of a body too long": b"POST / HTTP/1.1\r\nContent-Length: "
                                                   + b"0" * 5000 + b"16777217\r\n\r\n",
    "a length of 400 digits": b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n",
    "a chunk of no size": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "no colon": b"POST / HTTP/1.1\r\nContentLength 5\r\n\r\n",
    "a zero in a header": b"POST / HTTP/1.1\r\nA: \0\r\n\r\n",
    "HTTP/7.3": b"POST / HTTP/7.3\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


def test_invalid_http_is_refused_and_the_server_lives(desk):
    """400 or 413, the connection is closed, each is counted once, and the next node is served."""
    server = desk.server("--nodes", "1", "--format", "json")
    for name, data in GARBAGE.items():
        found = raw(server, data)
        assert found.startswith((b"HTTP/1.1 400 Bad Request", b"HTTP/1.1 413 Content Too Large")), \
            name
        assert b"POST" not in found, name        # it may have been a GET
        assert desk.job == server.call("hello")["result"]["job"], name
    assert 0 == desk.whole_job(server, "nid00001").status
    done = server.wait()
    assert 1 == len(done.lines), done            # its first line, and no traceback
    assert {"bad request": 20, "content too large": 1} == done.record["coverage"]["refused"]


def test_what_is_no_json_rpc_is_answered_with_its_code(desk):
    """HTTP 200 and the error in the body, as JSON-RPC over HTTP has it."""
    server = desk.server("--nodes", "1")
    for body in (b"", b"\0\xff\xfe", b"[" * 60_000, b"{", b"null", b"[]"):
        status, found = server.post(body)
        assert 200 == status, body[:10]
        assert json.loads(found)["error"]["code"] in (-32700, -32600), body[:10]


# -- too much --------------------------------------------------------------------------------

def memory_kib(process):
    """Resident memory of a process, and its highest mark so far."""
    with open(f"/proc/{process.pid}/status") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["VmRSS"].split()[0]), int(found["VmHWM"].split()[0])


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"),
                                reason="needs /proc to see a process's memory")


@needs_proc
def test_a_message_of_2_gb_is_refused_unread(desk, loop):
    """413 after its header, and memory does not grow."""
    server = desk.server("--nodes", "1", "--format", "json", env=loop)
    before, _ = memory_kib(server.process)
    found = raw(server, b"POST / HTTP/1.1\r\nContent-Length: 2147483648\r\n\r\n" + b"x" * 65536)
    assert found.startswith(b"HTTP/1.1 413 Content Too Large")
    assert b"expected at most 16777216 bytes" in found
    assert memory_kib(server.process)[1] - before < 8 * 1024
    assert {"content too large": 1} == server.stop().record["coverage"]["refused"]


@needs_proc
def test_a_message_that_grows_without_an_end_is_refused_at_the_limit(desk, loop):
    """Chunks have no Content-Length; the limit holds while they come."""
    server = desk.server("--nodes", "1", "--format", "json",
                         env={**loop, "IOSTATS_SERVER_MAX_MESSAGE_BYTES": str(1 << 20)})
    before, _ = memory_kib(server.process)
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), 20) as one:
        one.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 30:
                one.sendall(chunk)
                sent += 65536
    assert sent < 64 << 20
    assert memory_kib(server.process)[1] - before < 16 * 1024
    assert {"content too large": 1} == server.stop().record["coverage"]["refused"]


@needs_proc
def test_headers_without_an_end_are_refused_at_the_limit(desk):
    """A header is part of a message."""
    server = desk.server("--nodes", "1", "--format", "json",
                         env={"IOSTATS_SERVER_MAX_MESSAGE_BYTES": str(1 << 20)})
    before, _ = memory_kib(server.process)
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), 20) as one:
        one.sendall(b"POST / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 30:
                one.sendall(b"X-More: " + b"x" * 65000 + b"\r\n")
                sent += 65010
    assert sent < 64 << 20
    assert memory_kib(server.process)[1] - before < 16 * 1024
    [refused] = server.stop().record["coverage"]["refused"]
    assert refused in ("content too large", "bad request")


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


@pytest.fixture
def many_files():
    """This process may open as many files as the machine lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1500:
        pytest.skip(f"needs 1,500 open files, the limit here is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1500), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_silent_connections_do_not_keep_a_node_out(desk, loop, many_files):
    """The server may open 256 files; the connections that say nothing give way."""
    nodes = started_nodes(desk, ["nid00001"])
    server = desk.server("--nodes", "1", "--format", "json", env=loop, preexec_fn=few_files)
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
        stop_all(desk, server, nodes)
        done = server.wait()
    assert 0 == done.status
    assert done.record["coverage"]["complete"]
    assert 1 == len(done.lines), done


def test_a_connection_that_trickles_is_closed(desk, loop):
    """A byte now and then is no sign of life, only a whole message is."""
    server = desk.server("--nodes", "1", env={**loop, "IOSTATS_SERVER_IDLE_TIMEOUT": "0.4"})
    ends = time.monotonic() + 60
    with socket.create_connection(("127.0.0.1", server.port), 0.05) as one:
        one.sendall(b"POST / HTTP/1.1\r\nX: ")
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < ends:
                one.sendall(b"x")
                with contextlib.suppress(socket.timeout):
                    if one.recv(1) == b"":
                        break
    assert time.monotonic() < ends
    until(lambda: answers_hello(server), what="an answer to hello")


def test_a_silent_connection_is_closed_and_one_that_talks_is_not(desk):
    """After [server] idle_timeout seconds."""
    server = desk.server("--nodes", "1", env={"IOSTATS_SERVER_IDLE_TIMEOUT": "5"})
    talking = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    talking.connect()                 # it is the older one of the two
    first = talking.sock
    with contextlib.closing(talking), \
            socket.create_connection(("127.0.0.1", server.port), 0.05) as silent:

        def silent_is_closed():
            talking.request("POST", "/", HELLO)
            talking.getresponse().read()
            assert first is talking.sock, "the connection that talks was closed"
            try:
                return silent.recv(1) == b""
            except socket.timeout:
                return False
            except ConnectionError:
                return True
        until(silent_is_closed, what="the end of the silent connection")


class _Busy(RpcServer):
    """A server whose method `slow` holds its loop until `go_on`."""

    def __init__(self, run):
        config = site.load(os.devnull, environ={"IOSTATS_SERVER_IDLE_TIMEOUT": "0.2"})
        super().__init__("4711", [], config)
        self.is_slow, self.go_on, self.ready = (threading.Event() for _ in range(3))
        self.methods["slow"] = Method(self._slow, msgspec.Raw)
        self.public_methods.add("slow")
        self.thread = threading.Thread(target=lambda: run(self._serve()))

    def _slow(self, params, sender):
        self.is_slow.set()
        return self.go_on.wait(60)

    async def _serve(self):
        self.loop, self.end = asyncio.get_running_loop(), asyncio.Event()
        await self.listen_on("127.0.0.1", [0])
        self.ready.set()
        await self.end.wait()
        self.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_node_whose_message_waits_while_the_server_is_busy_is_not_idle(loop):
    """
    Of 50,000 nodes 268 were closed: their reports had come while others' were worked off, which
    took longer than [server] idle_timeout, and were not read yet when idle connections were closed.
    """
    server = _Busy(pytest.importorskip(loop).run)
    server.thread.start()
    try:
        assert server.ready.wait(60)
        one, other = (http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                      for _ in range(2))
        with contextlib.closing(one), contextlib.closing(other):
            for connection in (one, other):
                connection.request("POST", "/", HELLO)
                assert b"4711" in connection.getresponse().read()
            one.request("POST", "/", HELLO.replace(b'"hello"', b'"slow"'))
            assert server.is_slow.wait(60)
            other.request("POST", "/", HELLO)
            time.sleep(0.5)                             # longer than the silence that is allowed
            server.go_on.set()
            assert b"4711" in other.getresponse().read()
    finally:
        server.go_on.set()
        server.loop.call_soon_threadsafe(server.end.set)
        server.thread.join(60)


def test_a_length_may_begin_with_any_number_of_zeros(desk):
    """The parser takes it; int() would take 4,300 digits of it, and a traceback was in the log."""
    server = desk.server("--nodes", "1", "--format", "json")
    found = raw(server, b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: "
                + b"0" * 5000 + b"%d\r\n\r\n" % len(HELLO) + HELLO)
    assert found.startswith(b"HTTP/1.1 200 OK") and desk.job.encode() in found
    done = server.stop()
    assert 1 == len(done.lines), done            # its first line, and no traceback
    assert {} == done.record["coverage"]["refused"]
