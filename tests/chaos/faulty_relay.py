"""
A TCP relay that fails on purpose: delays, trickles, cuts, resets, half-open connections, and
messages that arrive when nobody waits for them any more, at any byte and in either direction.

    client -> Relay.port -> the server          the way OUT
    client <- Relay.port <- the server          the way BACK

Each connection takes the next Fault of `faults`; when there is none, it is passed on faithfully.
"""
from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Callable, NamedTuple, Optional

OUT, BACK = "out", "back"

# What happens when `at` bytes have passed:
CUT = "cut"             # both ends see an orderly end
RESET = "reset"         # both ends see a reset
HALF_OPEN = "half-open"  # nothing passes any more, and nobody is told
HELD = "held"           # this way's bytes are kept, and pass at `release`, whoever has gone
# From the beginning:
TRICKLE = "trickle"     # one byte at a time
DELAY = "delay"         # each piece a moment late


class Fault(NamedTuple):
    """
    Attributes:
        how: CUT, RESET, HALF_OPEN, HELD, TRICKLE or DELAY.
        way: OUT or BACK.
        at: bytes of this way that pass before; the next one does not.
        then: called at that moment, in the relay's thread.
    """

    how: str
    way: str = OUT
    at: int = 0
    then: Optional[Callable] = None


class Relay:
    """
    Listens on a port of its own.

    Attributes:
        port: where.
        faults: of the next connections.
        passed: [[bytes out, bytes back]] of each connection that there was.
        struck: how many faults have happened, with what their `then` did.
    """

    def __init__(self, port, host="127.0.0.1"):
        """`port`: of the server, on `host` as well."""
        self._to, self.faults, self.passed, self.struck = (host, port), deque(), [], 0
        self._open, self._released = [], threading.Event()
        self._socket = socket.create_server((host, 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def release(self):
        """Let pass what was held."""
        self._released.set()
        for one in list(self._open):
            one.join(20)
        self._released.clear()

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
        self._thread.join(10)
        self.release()

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            fault = self.faults.popleft() if self.faults else None
            counts = [0, 0]
            self.passed.append(counts)
            one = threading.Thread(target=self._run, args=(client, fault, counts), daemon=True)
            self._open = [other for other in self._open if other.is_alive()] + [one]
            one.start()

    def _run(self, client, fault, counts):
        try:
            server = socket.create_connection(self._to, timeout=10)
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._pass_on(client, server, fault, counts)
        except OSError:                            # one of them has gone: so does the other
            pass
        finally:
            client.close()
            server.close()

    def _pass_on(self, client, server, fault, counts):
        ways, wanted = {client: (0, server), server: (1, client)}, None
        if fault is not None:
            wanted = 0 if fault.way == OUT else 1
        while True:
            readable, _, _ = select.select([client, server], [], [], 30)
            if not readable:
                return
            for one in readable:
                number, other = ways[one]
                data = one.recv(65536)
                if not data:
                    return
                if number == wanted and fault.how == TRICKLE:
                    for place in range(len(data)):
                        other.sendall(data[place:place + 1])
                        time.sleep(0.0005)
                elif number == wanted and fault.how == DELAY:
                    time.sleep(0.03)
                    other.sendall(data)
                elif number == wanted and counts[number] + len(data) > fault.at:
                    before = fault.at - counts[number]
                    other.sendall(data[:before])
                    counts[number] += before
                    self._strike(fault, one, other, data[before:])
                    return
                else:
                    other.sendall(data)
                counts[number] += len(data)

    def _strike(self, fault, one, other, rest):
        """`rest` came from `one`, and does not go to `other`, or not yet."""
        if fault.then is not None:
            fault.then()
        self.struck += 1
        if fault.how == RESET:
            for end in (one, other):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault.how == HALF_OPEN:
            self._released.wait(60)
        elif fault.how == HELD:
            one.settimeout(0.05)
            while not self._released.is_set():
                try:
                    more = one.recv(65536)
                except socket.timeout:
                    continue
                except OSError:
                    more = b""
                if not more:
                    self._released.wait(60)
                    break
                rest += more
            other.sendall(rest)
            other.settimeout(5)
            other.recv(65536)                      # it has been read, and answered
