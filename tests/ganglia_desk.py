"""
What Ganglia's tests share: a decoder of its datagrams that has nothing to do with ours, a gmond and
a gmetad of Debian's packages.
"""
from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import struct
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from processes import free_port, until

IDS = {129: "ushort", 130: "short", 131: "int", 132: "uint", 133: "string", 134: "float",
       135: "double"}


class Reader:
    """XDR, RFC 4506, as far as lib/gm_protocol.x of ganglia needs it."""

    def __init__(self, data):
        self.data = data

    def uint(self):
        found, self.data = struct.unpack(">I", self.data[:4])[0], self.data[4:]
        return found

    def string(self):
        length = self.uint()
        text, rest = self.data[:length], self.data[length:]
        assert len(text) == length
        fill = rest[:(4 - length % 4) % 4]
        assert fill == b"\0" * ((4 - length % 4) % 4)
        self.data = rest[len(fill):]
        return text.decode()

    def bool(self):
        found = self.uint()
        assert found in (0, 1)
        return bool(found)


def decoded(datagram):
    """A dict of all that is in one."""
    reader = Reader(datagram)
    kind = reader.uint()
    found = {"host": reader.string(), "name": reader.string(), "is_spoofed": reader.bool()}
    if kind == 128:
        found.update(type=reader.string(), named=reader.string(), units=reader.string(),
                     slope=reader.uint(), tmax=reader.uint(), dmax=reader.uint())
        found["extra"] = [(reader.string(), reader.string()) for _ in range(reader.uint())]
    else:
        assert "string" == IDS[kind]
        found.update(format=reader.string(), value=reader.string())
    assert b"" == reader.data
    return found


def values_of(datagrams):
    """{(host, metric): value} of those that are no metadata."""
    found = {}
    for one in map(decoded, datagrams):
        if "value" in one:
            key = one["host"], one["name"]
            assert key not in found
            found[key] = one["value"]
    return found


def swept(sink, site, *sweeps):
    """Give it these sweeps, {file system: ClientRates} each; waits until each is sent."""
    async def give():
        for one in sweeps:
            sink.sweep(site.sweep(one), site)
            if sink.walking is not None:
                await sink.walking
            while not sink.is_sent():
                await asyncio.sleep(0.001)
    asyncio.run(give())


class UdpReceiver:
    """A socket that datagrams are sent to."""

    def __init__(self, buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def received(self):
        """[datagram] of those that have come."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.socket.recv(65536, socket.MSG_DONTWAIT))
        return found

    def close(self):
        self.socket.close()


# -- Debian's ganglia ------------------------------------------------------------------------------

def read_all(port):
    """What a TCP port gives, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


_SENDS_NOWHERE = """\
udp_send_channel {
  host = 127.0.0.1
  port = %d
}
collection_group {
  collect_every = 1
  time_threshold = 1
  metric {
    name = "heartbeat"
  }
}
"""


class Gmond:
    """
    A gmond of our own, which measures nothing itself.

    `receives`: what stands in its udp_recv_channel, when it is not a port of its own; `cleans_up`:
    each second it removes what is too old, which only one that also sends does so often; `buffer`:
    it has room for as much as it may have, 4 MiB at most.
    """

    def __init__(self, directory, receives=None, cleans_up=False, buffer=False):
        if not shutil.which("gmond"):
            pytest.skip("needs Debian's ganglia-monitor")
        self.directory, self.process = directory, None
        directory.mkdir(exist_ok=True)
        self.port = free_port()
        receives = receives or f"bind = 127.0.0.1\n port = {self.port}"
        if buffer:
            most = int(Path("/proc/sys/net/core/rmem_max").read_text())
            receives += f"\n buffer = {min(most, 4 << 20)}"
        (directory / "gmond.conf").write_text(
            "globals {\n daemonize = no\n setuid = no\n deaf = no\n host_dmax = 0\n"
            + (f" mute = no\n cleanup_threshold = 1\n}}\n{_SENDS_NOWHERE % free_port()}"
               if cleans_up else " mute = yes\n}\n") +
            'cluster {\n name = "snake"\n}\n'
            f"udp_recv_channel {{\n {receives}\n}}\n"
            f"tcp_accept_channel {{\n bind = 127.0.0.1\n port = {self.port}\n}}\n"
            'modules {\n module {\n name = "core_metrics"\n }\n}\n')
        self.start()

    def start(self):
        """Start it, and wait until it listens."""
        with (self.directory / "gmond.log").open("w") as log:
            self.process = subprocess.Popen(
                ["gmond", "-f", "-c", str(self.directory / "gmond.conf")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        until(self._answers, what=lambda: f"gmond {(self.directory / 'gmond.log').read_text()}")

    def _answers(self):
        with contextlib.suppress(OSError):
            return read_all(self.port)

    def stop(self):
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def hosts(self):
        """{(name, IP): {metric: its XML}} of what it has."""
        return hosts_of(read_all(self.port))


def hosts_of(text):
    """{(name, IP): {metric: its XML}} in the XML of a gmond or a gmetad."""
    return {(host.get("NAME"), host.get("IP")): {one.get("NAME"): one
                                                 for one in host.iter("METRIC")}
            for host in xml.fromstring(text).iter("HOST")}


class Gmetad:
    """A gmetad of our own that asks a gmond each second; `directory` gets its RRDs."""

    def __init__(self, directory, gmond):
        if not shutil.which("gmetad"):
            pytest.skip("needs Debian's gmetad")
        self.rrds = directory / "rrds"
        self.rrds.mkdir(parents=True)
        self.port = free_port()
        path = directory / "gmetad.conf"
        path.write_text(f'data_source "snake" 1 127.0.0.1:{gmond.port}\nsetuid off\n'
                        f'rrd_rootdir "{self.rrds}"\nxml_port {self.port}\n'
                        f"interactive_port {free_port()}\ntrusted_hosts 127.0.0.1\n"
                        'RRAs "RRA:LAST:0.5:1:600"\n')
        self.process = subprocess.Popen(["gmetad", "-d", "1", "-c", str(path)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def hosts(self):
        """As of a Gmond; {} as long as it does not answer."""
        with contextlib.suppress(OSError, xml.ParseError):
            return hosts_of(read_all(self.port))
        return {}

    def last(self, host, metric):
        """The value that the RRD of a metric was given last, as text; None before."""
        path = self.rrds / "snake" / host / f"{metric}.rrd"
        if not path.exists():
            return None
        done = subprocess.run(["rrdtool", "lastupdate", str(path)], capture_output=True, text=True)
        return done.stdout.split()[-1] if done.returncode == 0 and ":" in done.stdout else None

    def stop(self):
        """End it."""
        self.process.kill()
        self.process.wait(20)
