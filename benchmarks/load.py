"""
The nodes of a job, all at once, from one process: `python load.py SPEC.json`.

SPEC: {port, key (hex) or null, kind, nodes, at_once, report, jobs}; `jobs`, if there, is how many
jobs of the site's server the nodes are of, in equal parts.  `kind` is

    report           a connection for each node that says hello and then reports, as client.py
    two connections  the same, but the server closes after each answer (python-jsonrpc)
    hello            a connection for each node that only says hello

All bytes are made before the clock starts.  Answers are read as far as HTTP goes, and counted as
failed unless they are a 200 with a "result".  Prints one JSON object:

    {"began_at": time.monotonic() before the first connection, "seconds": from then to the last
     answer, "cpu_s": ours in that time,
     "last_sent_at": time.monotonic() when the last message had left, "failed": n, "why": text}
"""

import json
import os
import selectors
import socket
import sys
import time

from iostats.wire import protocol

_GIVES_UP_S, _GIVES_UP_AFTER = 120, 100


def main(path):
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    crowd = _Crowd(spec["port"], _prepared(spec), spec["at_once"])
    print(json.dumps(crowd.run()))


# -- before the clock starts -----------------------------------------------------------------

def _prepared(spec):
    """[connection]; a connection is a list of messages, a message a list of buffers."""
    key = bytes.fromhex(spec["key"]) if spec["key"] else None
    hello = json.dumps({"jsonrpc": "2.0", "method": "hello", "params": {}, "id": 1},
                       separators=(",", ":")).encode()
    if spec["kind"] == "hello":
        return [[_message("-", key, hello)]] * spec["nodes"]
    params = dict.fromkeys(_own(spec, 0), "@")
    params.update((name, value) for name, value in spec["report"].items() if name not in params)
    call = json.dumps({"jsonrpc": "2.0", "method": "report", "params": params, "id": 1},
                      separators=(",", ":")).encode()
    head, tail = call.split(json.dumps(dict.fromkeys(_own(spec, 0), "@"),
                                       separators=(",", ":"))[1:-1].encode())
    found = []
    for number in range(spec["nodes"]):
        fields = _own(spec, number)
        node = fields["node"]
        own = head + json.dumps(fields, separators=(",", ":"))[1:-1].encode()
        messages = [_message(node, key, hello), _message(node, key, own, tail)]
        found += [messages] if spec["kind"] == "report" else [[one] for one in messages]
    return found


def _own(spec, number):
    """What the report of a node has that no other's has."""
    fields = {"node": f"nid{number:05d}", "seq": os.urandom(8).hex()}
    if spec.get("jobs"):
        each = spec["nodes"] // spec["jobs"]
        job, place = divmod(number, each)
        fields.update(job=str(4711 + job), node=f"j{job}n{place}",
                      about={"scheduler": "none", "user": "alice",
                             "nodes": f"j{job}n[0-{each - 1}]" if each > 1 else f"j{job}n0"})
    return fields


def _message(node, key, body, tail=b""):
    """One POST; `tail` is shared between the nodes, for 10,000 of them would fill the memory."""
    header = ""
    if key:
        header = "Authorization: %s\r\n" % protocol.authorization(
            key, node, int(time.time()), os.urandom(16).hex(), body + tail)
    head = (f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body) + len(tail)}\r\n{header}\r\n").encode() + body
    return [head, tail] if tail else [head]


# -- the run -----------------------------------------------------------------------------------

class _Crowd:
    """`at_once` connections at any time, until all have had their answers."""

    def __init__(self, port, connections, at_once):
        self.address, self.at_once = ("127.0.0.1", port), at_once
        self.waiting = iter(connections)
        self.selector = selectors.DefaultSelector()
        self.open, self.failed, self.why, self.last_sent_at = 0, 0, "", 0.0

    def run(self):
        began, cpu = time.monotonic(), time.process_time()
        self.connect()
        while self.open:
            ready = self.selector.select(_GIVES_UP_S)
            if not ready:
                self.failed, self.why = self.failed + self.open, f"no answer in {_GIVES_UP_S} s"
                break
            for key, _ in ready:
                key.data.go_on()
            self.connect()
        return {"began_at": began, "seconds": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu,
                "last_sent_at": self.last_sent_at, "failed": self.failed, "why": self.why}

    def connect(self):
        """Open new connections up to `at_once`, unless the server does not take them."""
        while self.open < self.at_once and self.failed < _GIVES_UP_AFTER:
            messages = next(self.waiting, None)
            if messages is None:
                return
            self.open += 1
            _Connection(self, messages)

    def done(self, why=""):
        if why:
            self.failed, self.why = self.failed + 1, why
        self.open -= 1


class _Connection:
    """One connection: its messages in turn, each after the answer to the one before."""

    __slots__ = ("crowd", "messages", "turn", "socket", "left", "answer")

    def __init__(self, crowd, messages):
        self.crowd, self.messages, self.turn = crowd, messages, 0
        self.socket = socket.socket()
        try:
            self.socket.connect(crowd.address)      # at once, on the loopback
            self.socket.setblocking(False)
            crowd.selector.register(self.socket, selectors.EVENT_READ, self)
            self.send(messages[0])
        except OSError as error:
            self.end(str(error))

    def send(self, buffers):
        self.answer = b""
        sent = self.socket.sendmsg(buffers)
        self.left = b"".join(buffers)[sent:] if sent < sum(map(len, buffers)) else b""
        if self.left:
            self.crowd.selector.modify(self.socket, selectors.EVENT_WRITE, self)
        else:
            self.crowd.last_sent_at = time.monotonic()

    def go_on(self):
        try:
            if self.left:
                self.left = self.left[self.socket.send(self.left):]
                if not self.left:
                    self.crowd.last_sent_at = time.monotonic()
                    self.crowd.selector.modify(self.socket, selectors.EVENT_READ, self)
                return
            part = self.socket.recv(1 << 16)
            self.answer += part
            head, blank, body = self.answer.partition(b"\r\n\r\n")
            if blank and len(body) >= _length(head):
                self.answered(head, body)
            elif not part:
                self.end("it closed the connection")
        except OSError as error:
            self.end(str(error))

    def answered(self, head, body):
        self.turn += 1
        if head[9:12] != b"200" or b'"result"' not in body:
            self.end(f"{head[:80]!r} {body[:200]!r}")
        elif self.turn < len(self.messages):
            self.send(self.messages[self.turn])
        else:
            self.end()

    def end(self, why=""):
        if self.socket.fileno() >= 0:
            if self.socket.fileno() in self.crowd.selector.get_map():
                self.crowd.selector.unregister(self.socket)
            self.socket.close()
        self.crowd.done(why)


def _length(head):
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


if __name__ == "__main__":
    main(sys.argv[1])
