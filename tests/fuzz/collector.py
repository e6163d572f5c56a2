"""Targets of the collector: calls of XML-RPC, raw bytes at its port, and the file that it keeps."""
from __future__ import annotations

import json
import os
import tempfile
import xmlrpc.client

from collector_desk import NOW, Clock, KnownMachine, evicted

from iostats.base.errors import WireError
from iostats.collector import access, xml_rpc
from iostats.collector.collector_server import CollectorConnection, CollectorServer
from iostats.collector.journal_of_events import FILE, EventsJournal
from iostats.collector.methods import Answers

from .messages import _received, _Transport
from .tools import allowed, checked_line, no_bug_logged, target

_FAULTS = {-32700, -32600, -32601, -32602, -32010}
_METHODS = (("getTraps", (0,)), ("getNodesNames", ("scratch",)), ("getNodeInfo", ("mds1",)),
            ("getFileSystems", ()), ("getFileSystemInfo", ("scratch",)))


def _calls():
    return [xmlrpc.client.dumps(params, name).encode() for name, params in _METHODS] + [
        xmlrpc.client.dumps((2.5, True), "getTraps").encode("utf-16"),
        b"<?xml version='1.0' encoding='iso-8859-1'?><methodCall><methodName>getTraps</methodName>"
        b"<params><param><value><i8>23</i8></value></param></params></methodCall>",
        b"<!DOCTYPE a [<!ENTITY a \"aaa\"><!ENTITY b \"&a;&a;\">]><methodCall>&b;</methodCall>"]


def _server():
    journal = EventsJournal("", 23, Clock(), checked_line)
    journal.add([evicted(number, count=number + 1) for number in range(7)])
    answers = Answers(journal, KnownMachine(fileSystems=["scratch"]), 5, Clock())
    return CollectorServer(journal, answers, access.parse_networks(["127.0.0.1"]), ["localhost"],
                           41)


def _check_xml(answer):
    """It is what the standard library's client can read; a fault has a code of ours."""
    try:
        xmlrpc.client.loads(answer)
    except xmlrpc.client.Fault as fault:
        assert fault.faultCode in _FAULTS, fault
        checked_line(fault.faultString)


@target(_calls, 8192)
def xml_rpc_call(data):
    """A call, or a documented fault; and whatever is answered is XML-RPC."""
    with allowed(WireError):
        call = xml_rpc.parse_call(data)
        assert len(call.method) <= 80 and len(call.params) < 200
        again = xmlrpc.client.dumps(tuple(
            float(one) if type(one) is int and abs(one) >= 2**31 else one
            for one in call.params), call.method)
        if again.isprintable():
            assert call.method == xml_rpc.parse_call(again.encode()).method
    with no_bug_logged():
        _check_xml(_server()._make_xml_answer(data))


class _FromHere(_Transport):
    """A connection of the loopback."""

    def get_extra_info(self, name):
        return ("127.0.0.1", 4711) if name == "peername" else None


def _requests():
    head = (b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"
            b"Content-Length: %d\r\n\r\n")
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "events",
                        "params": {"after": 0, "limit": 3, "severity": 1}}).encode()
    calls = [head % (b"text/xml", len(one)) + one for one in _calls()[:5]]
    return [bytes([0]) + one for one in (
        *calls, b"".join(calls), head % (b"application/json", len(asked)) + asked,
        b"GET /events?after=23 HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 41\r\n\r\n",
        b"GET /events HTTP/1.1\r\nOrigin: http://a\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
        b"OPTIONS / HTTP/1.1\r\nHost: evil.example\r\n\r\n")]


@target(_requests, 8192)
def collector_http(data):
    """Raw bytes at the port, however the network cuts them: whole answers, or a stream."""
    one, transport = _server(), _FromHere()
    _received(CollectorConnection(one), transport, data)
    assert one.connections.held == 0 and not one.streams
    left = bytes(transport.written)
    while left:
        head, blank, left = left.partition(b"\r\n\r\n")
        assert blank and head.startswith(b"HTTP/1.1 "), head[:100]
        if b"text/event-stream" in head:
            _check_stream(left)
            return
        [length] = [int(line.split(b":")[1]) for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")]
        body, left = left[:length], left[length:]
        assert len(body) == length
        if body[:1] == b"<":
            _check_xml(body)
        elif body:
            json.loads(body)


def _check_stream(data):
    """Of lines that each reader of server-sent events understands."""
    for line in data.decode().split("\n"):
        name, _, value = line.partition(": ")
        assert name in ("", ":", "id", "event", "data", "retry"), line
        assert name != "data" or isinstance(json.loads(value), dict)


def _journals():
    with tempfile.TemporaryDirectory() as directory:
        journal = EventsJournal(directory, 23, Clock(), checked_line)
        journal.add([evicted(23), evicted(37, count=41)], 4711, "a-store")
        journal.stamp()
        journal.add([evicted(23, count=2)])
        journal.close()
        with open(os.path.join(directory, FILE), "rb") as file:
            return [file.read(), b"", b"{}\n[]\n"]


@target(_journals, 8192)
def events_journal(data):
    """A file that is damaged: what is left is kept, in order, and goes on."""
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, FILE), "wb") as file:
            file.write(data)
        journal = EventsJournal(directory, 23, Clock(), checked_line)
        found = list(journal.buffer)
        assert sorted(one.place for one in found) == [one.place for one in found]
        assert sorted(one.tick for one in found) == [one.tick for one in found]
        stamp = journal.stamp()
        assert all(one.tick < stamp for one in found)
        [new] = journal.add([evicted(99)])
        assert new.tick >= stamp and all(new.place > one.place for one in found)
        assert [new] == journal.buffer.since(stamp)
        journal.close()
        again = EventsJournal(directory, 23, Clock(NOW + 1), checked_line)
        assert list(again.buffer) == list(journal.buffer)
        again.close()
