"""
Real hosts on one machine: network namespaces around one bridge, whose links can be taken down.

    with Hosts(["nid1", "nid2"]) as hosts:
        process = subprocess.Popen(..., preexec_fn=hosts["nid1"].enter)
        hosts["nid1"].cut()             # its cable is out
        hosts["nid1"].mend()

The bridge is in a namespace too, that of the host "server", 10.78.0.1; the others are 10.78.0.11
and so on.  A namespace goes with the process that holds it, its interfaces go with the namespace,
and these processes go with this one.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys

import pytest

CLONE_NEWNET = 0x40000000
SERVER = "10.78.0.1"
_HOLD = ("import ctypes, sys; ctypes.CDLL(None).prctl(1, 9); "          # PR_SET_PDEATHSIG, SIGKILL
         "print('ready', flush=True); sys.stdin.read()")
_libc = ctypes.CDLL(None, use_errno=True)


def _set_namespace(handle):
    if _libc.setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Host:
    """
    One of them.

    Attributes:
        name: its name; `address`: where it is reached.
    """

    def __init__(self, name, address):
        self.name, self.address, self._port, self._bridge = name, address, None, None
        self._holder = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-I", "-S", "-c", _HOLD], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self._holder.stdout.readline() != b"ready\n":
            self.close()
            pytest.skip("no network namespaces here")
        self._handle = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def pid(self):
        return self._holder.pid

    def enter(self):
        """Move the calling thread here: for `preexec_fn`."""
        _set_namespace(self._handle)

    @contextlib.contextmanager
    def inside(self):
        """What is connected, listened on or started in this block (and thread) is here."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.enter()
            yield
        finally:
            _set_namespace(before)
            os.close(before)

    def ip(self, *lines):
        """Run `ip` commands here."""
        subprocess.run(["nsenter", "-t", str(self.pid), "-n", "ip", "-batch", "-"],
                       input="".join(f"{line}\n" for line in lines), text=True, check=True)

    def plug_into(self, bridge, number):
        """A cable from here to the host whose bridge it is."""
        self._bridge, self._port = bridge, f"v{number}"
        bridge.ip(f"link add {self._port} type veth peer name eth0 netns {self.pid}",
                  f"link set {self._port} master br0 up")
        self.ip("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up")

    def cut(self):
        """The cable is out."""
        self._bridge.ip(f"link set {self._port} down")

    def mend(self):
        """It is in again."""
        self._bridge.ip(f"link set {self._port} up")

    def close(self):
        self._holder.kill()
        self._holder.communicate()
        if hasattr(self, "_handle"):
            os.close(self._handle)


class Hosts:
    """{name: Host}: "server", and those that are named."""

    def __init__(self, names):
        for command in ("ip", "unshare", "nsenter"):
            if not shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
                pytest.skip(f"needs {command}")
        self._hosts = {}
        try:
            server = self._hosts["server"] = Host("server", SERVER)
            server.ip("link set lo up", "link add br0 type bridge", f"addr add {SERVER}/24 dev br0",
                      "link set br0 up")
            for number, name in enumerate(names):
                one = self._hosts[name] = Host(name, f"10.78.0.{11 + number}")
                one.plug_into(server, number)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name):
        return self._hosts[name]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        for one in self._hosts.values():
            one.close()
