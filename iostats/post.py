"""
Deliver a report to the server of its job, from a node.

The ports of the job are tried in their order.  Whoever answers `hello` with another job, or
with no proof that it has the job's secret, is not our server.  What fails is tried again with
growing waits, until `try_for` seconds are over.

HTTP/1.1 by hand over one socket: http.client and what it imports would cost a node more than
everything else that it does here.
"""

import json
import os
import socket
import time

from iostats import jobid, secret, wire
from iostats.errors import NotDelivered, UsageError

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0
_REPLY_WITHIN_S = 10.0
_LONGEST_ANSWER = 1 << 20


class _NotOurs(Exception):
    """What listens on this port is not the server of this job; the text says why."""


class _Refused(NotDelivered):
    """The server itself said no: trying again would not help."""

    later = False


def split_server(text):
    """(host, port or None) of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest[1:] if rest[:1] == ":" else rest
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise UsageError(f"--server: expected HOST or HOST:PORT, got {text!r}")
    return host, int(port) if port else None


def deliver(report, server, secret_path, config, say=lambda text: None, sleep=time.sleep):
    """
    Send `report` (the params of the method `report`); what the server answered.

    Raises NotDelivered, with everything that was tried, when it was not taken.
    """
    host, port = split_server(server)
    ports = [port] if port else jobid.ports(report["job"], config["server.port_first"],
                                            config["server.port_last"],
                                            config["server.port_tries"])
    began, wait, tries, said = time.monotonic(), _FIRST_WAIT_S, 0, None
    while True:
        tries += 1
        try:
            return _try_ports(report, host, ports, secret.load(secret_path))
        except _Refused:
            raise
        except NotDelivered as error:
            failed = error
        left = began + config["node.try_for"] - time.monotonic()
        if left <= 0:
            raise NotDelivered(f"{report['node']}: {tries} tries in "
                               f"{time.monotonic() - began:.0f} s: {failed}")
        # Nodes that ended in the same second do not come back in the same one.
        pause = min(wait * (0.5 + os.urandom(1)[0] / 256), left)
        if str(failed) != said:
            said = str(failed)
            say(f"{said}; trying again for {left:.0f} s")
        sleep(pause)
        wait = min(wait * 2, _LONGEST_WAIT_S)


def _try_ports(report, host, ports, password):
    key = wire.key_of(password, report["job"])
    others, silent = [], None
    for port in ports:
        try:
            with socket.create_connection((host, port), _REPLY_WITHIN_S) as connection:
                return _Conversation(connection, host, port, report["node"], key).report(report)
        except _NotOurs as error:
            others.append(f"port {port}: {error}")
        except (OSError, ValueError) as error:
            if not isinstance(error, ConnectionRefusedError) or silent is None:
                silent = f"{host}:{port}: {getattr(error, 'strerror', None) or error}"
            if isinstance(error, (socket.gaierror, socket.timeout)):
                break                          # the next port of that host fails as slowly
    raise NotDelivered(f"no answer from the server of job {report['job']}: "
                       + "; ".join(others + ([silent] if silent else [])))


def who_listens(host, port, node, key, job):
    """
    (hello's result, it proved that it has the secret) of whoever listens on a port.

    {} for what is no server of ours.  Raises OSError where nobody answers.
    """
    with socket.create_connection((host, port), _REPLY_WITHIN_S) as connection:
        try:
            return _Conversation(connection, host, port, node, key).hello(job)
        except (_NotOurs, ValueError):
            return {}, False


class _Conversation:
    """One connection to one port; every answer is checked before it is believed."""

    def __init__(self, connection, host, port, node, key):
        self._connection, self._node, self._key = connection, node, key
        self._host = f"{host}:{port}"
        self._clock_ahead_s = 0.0
        self._buffer = b""
        self._until = time.monotonic() + _REPLY_WITHIN_S

    def report(self, report):
        """Say hello, then send `report`; the server's result."""
        hello, proved = self.hello(report["job"])
        if hello["job"] != report["job"]:
            raise _NotOurs(f"the server of job {str(hello['job'])[:40]!r}")
        if not proved:
            raise _NotOurs("a server of this job with another secret (see --secret)")
        self._clock_ahead_s = time.time() - float(hello.get("time", "missing"))
        result, proved = self._call("report", {**report,
                                               "clock_ahead_s": round(self._clock_ahead_s, 3)})
        if not proved:
            raise _NotOurs("it could not prove its answer")
        return result

    def hello(self, job):
        """(the server's result, it proved that it has the secret)."""
        hello, proved = self._call("hello", {"job": job})
        if not isinstance(hello, dict) or "job" not in hello:
            raise _NotOurs("something else listens there")
        return hello, proved

    def _call(self, method, params):
        """(result, the answer was authenticated) of one call."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1},
                          separators=(",", ":")).encode()
        nonce = os.urandom(16).hex()
        now = int(time.time() - self._clock_ahead_s)
        header = wire.authorization(self._key, self._node, now, nonce, body)
        self._connection.sendall(
            b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nAuthorization: %s\r\n\r\n"
            % (self._host.encode(), len(body), header.encode()) + body)
        headers, body = self._answer()
        proved = wire.same(headers.get("iostats-mac", ""),
                           wire.answer_mac(self._key, nonce, body))
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise _NotOurs("something else listens there") from None
        if not isinstance(answer, dict):
            raise _NotOurs("something else listens there")
        if "error" in answer:
            error = answer["error"]
            message = error.get("message") if isinstance(error, dict) else error
            if proved:
                raise _Refused(f"{self._host}: the server refused the report: {message}")
            raise _NotOurs(str(message))
        return answer.get("result"), proved

    def _answer(self):
        """({lower-case header: value}, body) of one HTTP answer."""
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if not lines[0].startswith("HTTP/1.") or not 0 <= length <= _LONGEST_ANSWER:
            raise _NotOurs("something else listens there")
        while len(self._buffer) < length:
            self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return headers, body

    def _receive(self):
        # One bound for the whole conversation: an answer that trickles has no more time.
        self._connection.settimeout(max(0.001, self._until - time.monotonic()))
        try:
            part = self._connection.recv(65536)
        except socket.timeout:
            raise _NotOurs("something that does not answer listens there") from None
        if not part:
            raise ConnectionError("it closed the connection")
        self._buffer += part
        if len(self._buffer) > _LONGEST_ANSWER + 65536:
            raise _NotOurs("something else listens there")
