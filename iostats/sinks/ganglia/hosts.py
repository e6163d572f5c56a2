"""
Which host of gmond's a node is: its address, by which gmond knows it, and its name.

Both can be wrong in a way that makes a second host in gmond beside the node's own, so a node has no
Host before it is known which one it is.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import threading
import time

from iostats.sinks.ganglia.packet import Host, host_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

_KEEP_S, _TRY_AGAIN_S = 3600.0, 600.0       # an address; that there is none


def ip_of(nids: Iterable[str]) -> str:
    """
    The IPv4 address of the first of these NIDs that has one, those of LNet's tcp first; "".

    >>> ip_of(["27@gni", "10.9.0.11@o2ib", "10.77.0.11@tcp1"]), ip_of(["fd00::5@tcp"])
    ('10.77.0.11', '')
    """
    found = []
    for nid in nids:
        address, _, network = nid.partition("@")
        with contextlib.suppress(ValueError):
            found.append((not network.startswith("tcp"), ipaddress.IPv4Address(address)))
    return str(min(found)[1]) if found else ""


class AddressLookup:
    """
    Addresses of names, by /etc/hosts and DNS, in a thread of its own.

    `resolve(name)` gives an address, or raises OSError; `clock` gives seconds.
    """

    def __init__(self, resolve: Callable[[str], str] = socket.gethostbyname,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve, self._clock = resolve, clock
        self._known: dict[str, tuple[str, float]] = {}          # name -> address, until
        self._asked: set[str] = set()
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def get(self, name: str) -> str | None:
        """The address; "" where there is none; None while nobody has answered yet."""
        address, until = self._known.get(name, (None, 0.0))
        if self._clock() >= until and name not in self._asked:
            self._asked.add(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True,
                                                name="ganglia looks up")
                self._thread.start()
            self._queue.put(name)
        return address

    def _run(self) -> None:
        while True:
            name = self._queue.get()
            try:
                address, keep_s = self._resolve(name), _KEEP_S
            except (OSError, UnicodeError):                # UnicodeError: a label is too long
                address, keep_s = "", _TRY_AGAIN_S
            if address.startswith("127."):                 # Debian's /etc/hosts has this of itself
                address, keep_s = "", _TRY_AGAIN_S
            self._known[name] = address, self._clock() + keep_s
            self._asked.discard(name)


class Hosts:
    """
    The hosts of nodes; the options of [ganglia]: `address`, `domain`, whether `unnamed` are sent.
    """

    def __init__(self, address: str, domain: str, unnamed: bool,
                 lookup: AddressLookup | None = None) -> None:
        self._way, self._domain, self._unnamed = address, domain.strip("."), unnamed
        self._lookup = lookup or AddressLookup()

    def host_of(self, node: str, nids: Iterable[str], is_known: bool,
                ambiguous: Container[str] = ()) -> Host | None:
        """
        The Host of a node with these NIDs; None where it has none, or none yet.

        `ambiguous`: addresses that other nodes have as well, as in two networks of LNet; gmond
        would take these nodes for one, so they are known to it by their names.
        """
        own = ip_of(nids)
        if own in ambiguous:
            own = ""
        if not is_known:
            name = own or host_name(node)
            return Host(f"{name}:{name}", True) if self._unnamed else None
        full = f"{node}.{self._domain}" if self._domain and "." not in node else node
        name = host_name(full)
        if self._way == "name":
            return Host(f"{name}:{name}", True)
        if self._way == "lookup":
            found = self._lookup.get(full)
            if found is None:
                return None
            own = own if found in ambiguous else found or own
        return Host(f"{own or name}:{name}", True)
