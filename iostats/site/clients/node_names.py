"""
Which node a NID is: by the site's own list, else /etc/hosts and DNS, else the NID itself.

The list is read again when it changes.  /etc/hosts and DNS are asked in threads, each NID again
after an hour, or after ten minutes where it had no name; an answer that does not come costs a
pause, and the name that was known stays.
"""

from __future__ import annotations

import heapq
import logging
import os
import re
import socket
import time
from functools import partial

from iostats.base.errors import one_line
from iostats.base.private_files import open_regular
from iostats.lustre.exports import is_server_itself
from iostats.server.blocking_calls import Threads, TimedOut
from iostats.site.clients.names_file import parsed_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.base.config import Config

log = logging.getLogger("iostats")

STORAGE_SERVERS = "(storage servers)"           # 0@lo: clients on these themselves
_AT_ONCE, _WITHIN_S = 4, 30.0                   # questions to DNS
_AGAIN_S, _NONE_AGAIN_S = 3600.0, 600.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 600.0  # where nobody answers
_MOST_SEEN = 1_000_000                          # NIDs; others have no name
_LOOK_EVERY_S = 2.0                             # at the list
_MOST_BYTES = 64 << 20                          # of the list
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,252}", re.ASCII)
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class NodeNames:
    """
    The names of nodes; no method waits for anything.

    `name_of`: address -> name, "" where there is none, OSError where nobody answers.
    """

    def __init__(self, config: Config, name_of: Callable[[str], str] | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._path = config["clients.names"]
        self._suffixes = config["clients.remove_suffixes"]
        self._is_short = config["clients.short_names"] == "yes"
        self._name_of, self._clock = name_of or looked_up, clock
        self._threads = Threads(_AT_ONCE, _WITHIN_S)
        self._names: dict[str, str] = {}            # of all NIDs that were seen
        self._nids: dict[str, dict[str, None]] = {}
        self._found: dict[str, str] = {}            # by /etc/hosts and DNS
        self._listed: dict[str, str] = {}
        self._due: list[tuple[float, str]] = []     # a heap
        self._asking = 0
        self._pause_s, self._retry_at = _FIRST_PAUSE_S, 0.0
        self._version: tuple[int, ...] | None = None
        self._look_at, self._is_reading, self._was_read = 0.0, False, False
        if self._path:
            self._read(_content(self._path, None), None)

    # -- questions -------------------------------------------------------------------------------

    def node_of(self, nid: str) -> str:
        """The node's name; the NID itself where it is not known, or not yet."""
        return self._names.get(nid, nid)

    def nids_of(self, node: str) -> list[str]:
        """The NIDs of a node, of those that were seen, sorted."""
        return sorted(self._nids.get(node, ()))

    def is_known(self, nid: str) -> bool:
        """Whether a node's name was found for it."""
        return self.node_of(nid) != nid

    # -- what there is to do ---------------------------------------------------------------------

    def see(self, nids: Iterable[str]) -> None:
        """There are these NIDs."""
        for nid in nids:
            if nid and nid not in self._names and len(self._names) < _MOST_SEEN:
                self._rename(nid)
                if nid not in self._listed and _address_of(nid):
                    heapq.heappush(self._due, (0.0, nid))

    def _rename(self, nid: str) -> None:
        name = STORAGE_SERVERS if is_server_itself(nid) else (
            self._listed.get(nid) or self._found.get(nid) or nid)
        old = self._names.get(nid)
        if name == old:
            return
        if old is not None:
            del self._nids[old][nid]
            if not self._nids[old]:
                del self._nids[old]
        self._names[nid] = name
        self._nids.setdefault(name, {})[nid] = None

    def look(self) -> None:
        """Ask for what is not known, and look at the list; in a running loop, now and then."""
        now = self._clock()
        if self._path and now >= self._look_at and not self._is_reading:
            self._look_at, self._is_reading = now + _LOOK_EVERY_S, True
            version = self._version
            self._threads.call(lambda: _content(self._path, version), self._read)
        self._ask()

    def _ask(self) -> None:
        now = self._clock()
        while (self._asking < _AT_ONCE and self._due and self._due[0][0] <= now
               and now >= self._retry_at):
            _, nid = heapq.heappop(self._due)
            if nid in self._listed:                     # it is asked for when it leaves the list
                continue
            self._asking += 1
            self._threads.call(partial(self._name_of, _address_of(nid)), partial(self._told, nid))

    def _told(self, nid: str, name: Any, error: BaseException | None) -> None:
        self._asking -= 1
        if error is not None:
            if self._clock() >= self._retry_at:
                self._retry_at = self._clock() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                why = "no answer" if isinstance(error, TimedOut) else one_line(error)[:200]
                log.warning("the name of %s cannot be found: %s; nodes without a name are shown "
                            "by their NIDs (site.cfg: [clients] names)", nid, why)
            heapq.heappush(self._due, (self._retry_at, nid))
            return
        self._pause_s = _FIRST_PAUSE_S
        self._found[nid] = self._short(name)
        heapq.heappush(self._due, (self._clock() + (_AGAIN_S if self._found[nid] else
                                                    _NONE_AGAIN_S), nid))
        self._rename(nid)
        self._ask()

    def _short(self, name: str) -> str:
        """A name of /etc/hosts or DNS as nodes are called; "" for what is no name."""
        if not _NAME.fullmatch(name):
            return ""
        first, dot, domain = name.rstrip(".").partition(".")
        for suffix in self._suffixes:
            if first.endswith(suffix) and len(first) > len(suffix):
                first = first[:-len(suffix)]
                break
        return first if self._is_short else first + dot + domain

    # -- the list --------------------------------------------------------------------------------

    def _read(self, found: Any, error: BaseException | None) -> None:
        """Take the list as it is now; `found`: of _content."""
        self._is_reading = False
        if error is not None:                           # a file server that hangs takes threads
            self._look_at = self._clock() + _LONGEST_PAUSE_S
            self._say("cannot be read: no answer")
        if error is not None or found is None:          # it did not come, or has not changed
            return
        self._version, text, why = found
        if why:
            self._say(why)
            return
        self._was_read = True
        listed, wrong = parsed_names(text, self._path)
        for line in wrong:
            log.warning("%s", one_line(line))
        before, self._listed = self._listed, listed
        for nid in before.keys() | listed.keys():
            if nid in self._names and before.get(nid) != listed.get(nid):
                self._rename(nid)
                if nid not in listed and _address_of(nid):
                    heapq.heappush(self._due, (0.0, nid))

    def _say(self, why: str) -> None:
        """Log why the list cannot be taken as it is now, and which names are used."""
        log.error("%s: %s; %s (site.cfg: [clients] names)", self._path, why, (
            "the names that it had before are still used" if self._was_read else
            "no names are taken from it yet"))


def _content(path: str, version: tuple[int, ...] | None
             ) -> tuple[tuple[int, ...], str, str] | None:
    """
    (its version, text, why it cannot be read) of a file; None where it is still of `version`.
    """
    try:
        found = os.stat(path)
        now = (found.st_mtime_ns, found.st_size, found.st_ino)
        if now == version:
            return None
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            return now, "", f"expected up to {_MOST_BYTES >> 20} MiB, got more"
        return now, text, ""
    except OSError as error:
        none = (-1,)
        return None if version == none else (none, "", f"cannot be read: {error.strerror}")


def _address_of(nid: str) -> str:
    """The IP address in a NID; "" where there is none."""
    address = nid.partition("@")[0]
    try:                                    # not ipaddress, which takes ten times as long
        socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return ""
    return address


def looked_up(address: str) -> str:
    """The name of an address by /etc/hosts and DNS; "": it has none; OSError: nobody answers."""
    try:
        return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            return ""
        raise
