"""
The node of a NID: from the site's own list, else /etc/hosts and DNS, else the NID itself.

The list is read again when it changes.  /etc/hosts and DNS are queried in threads, each NID again
after an hour, or after ten minutes if it had no name; a missing answer costs a pause, and the known
name stays.

The site's own list is the file of [clients] names:

    # NID             node
    10.0.0.11@o2ib    node11
    10.1.0.11@o2ib    node11          a node may have several NIDs
"""

from __future__ import annotations

import heapq
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from iostats.base.config import Config
from iostats.base.errors import describe_error, sanitize
from iostats.base.ids import Nid, NodeName
from iostats.base.private_files import open_regular
from iostats.lustre.exports import is_server_itself, parse_nid
from iostats.lustre.nids import find_lnet
from iostats.server.long_answers import Threads, TimedOut

log = logging.getLogger(__name__)

STORAGE_SERVERS = "(storage servers)"           # 0@lo: clients on the storage servers themselves
_QUERIES_AT_ONCE, _WITHIN_S = 4, 30.0  # DNS queries
_REFRESH_S, _RETRY_UNNAMED_S = 3600.0, 600.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LOG_AGAIN_S = 10.0, 600.0, 3600.0    # if DNS does not answer
_MAX_NIDS = 1_000_000           # further NIDs have no name
_CHECK_EVERY_S = 2.0            # the list
_MAX_BYTES = 64 << 20           # of the list
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,252}", re.ASCII)
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_MAX_ERRORS = 20


class NodeNames:
    """
    The names of nodes; no method waits for anything.

    `name_of`: address -> name, "" without one, OSError without an answer.
    """

    def __init__(self, config: Config, name_of: Callable[[str], str] | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._path = config.clients.names
        self._suffixes = config.clients.remove_suffixes
        self._is_short = config.clients.short_names == "yes"
        self._name_of, self._clock = name_of or look_up_name, clock
        self._threads = Threads(_QUERIES_AT_ONCE, _WITHIN_S)
        self._names: dict[Nid, NodeName] = {}            # of all known NIDs
        self._nids: dict[NodeName, dict[Nid, None]] = {}
        self._resolved: dict[Nid, NodeName] = {}            # by /etc/hosts and DNS
        self._listed: dict[Nid, NodeName] = {}
        self._due: list[tuple[float, Nid]] = []     # a heap
        self._resolving = 0
        self._pause_s, self._retry_at, self._log_at = _FIRST_PAUSE_S, 0.0, 0.0
        self._version: tuple[int, ...] | None = None
        self._check_at, self._is_reading, self._was_read = 0.0, False, False
        if self._path:
            self._take_list(_read_content(self._path, None), None)

    # -- queries ---------------------------------------------------------------------------------

    def find_node(self, nid: Nid) -> NodeName:
        """The node's name; the NID itself if it is unknown, or not resolved yet."""
        return self._names.get(nid, NodeName(nid))

    def list_nids(self, node: NodeName) -> list[Nid]:
        """The known NIDs of a node, sorted."""
        return sorted(self._nids.get(node, ()))

    def is_known(self, nid: Nid) -> bool:
        """Whether the node's name is known."""
        return str(self.find_node(nid)) != nid

    # -- background work -------------------------------------------------------------------------

    def add_nids(self, nids: Iterable[Nid]) -> None:
        """Add NIDs whose names are needed."""
        for nid in nids:
            if nid and nid not in self._names and len(self._names) < _MAX_NIDS:
                self._rename(nid)
                if nid not in self._listed and _parse_address(nid):
                    heapq.heappush(self._due, (0.0, nid))

    def _rename(self, nid: Nid) -> None:
        name = NodeName(STORAGE_SERVERS) if is_server_itself(nid) else (
            self._listed.get(nid) or self._resolved.get(nid) or NodeName(nid))
        old = self._names.get(nid)
        if name == old:
            return
        if old is not None:
            del self._nids[old][nid]
            if not self._nids[old]:
                del self._nids[old]
        self._names[nid] = name
        self._nids.setdefault(name, {})[nid] = None

    def refresh(self) -> None:
        """
        Resolve unknown names, and check the list for changes; call it now and then in a running
        loop.
        """
        now = self._clock()
        if self._path and now >= self._check_at and not self._is_reading:
            self._check_at, self._is_reading = now + _CHECK_EVERY_S, True
            version = self._version
            self._threads.call(lambda: _read_content(self._path, version), self._take_list)
        self._resolve_due()

    def _resolve_due(self) -> None:
        now = self._clock()
        while (self._resolving < _QUERIES_AT_ONCE and self._due and self._due[0][0] <= now
               and now >= self._retry_at):
            _, nid = heapq.heappop(self._due)
            if nid in self._listed:                     # it is resolved if it leaves the list
                continue
            self._resolving += 1
            self._threads.call(partial(self._name_of, _parse_address(nid)),
                               partial(self._note_name, nid))

    def _note_name(self, nid: Nid, name: Any, error: BaseException | None) -> None:
        self._resolving -= 1
        if error is not None:
            if self._clock() >= self._retry_at:
                self._retry_at = self._clock() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                self._log_no_answer(nid, error)
            heapq.heappush(self._due, (self._retry_at, nid))
            return
        self._pause_s = _FIRST_PAUSE_S
        self._resolved[nid] = NodeName(self._shorten(name))
        heapq.heappush(self._due, (self._clock() + (_REFRESH_S if self._resolved[nid] else
                                                    _RETRY_UNNAMED_S), nid))
        self._rename(nid)
        self._resolve_due()

    def _log_no_answer(self, nid: Nid, error: BaseException) -> None:
        """Log, once an hour, that names cannot be resolved."""
        if self._clock() >= self._log_at:
            self._log_at = self._clock() + _LOG_AGAIN_S
            why = "no answer" if isinstance(error, TimedOut) else describe_error(error)[:200]
            log.warning("the name of %s cannot be found: %s; nodes without a name are shown by "
                        "their NIDs (site.cfg: [clients] names)", nid, why, extra={"node": nid})

    def _shorten(self, name: str) -> str:
        """A name from /etc/hosts or DNS in the site's form; "" for an invalid name."""
        if not _NAME.fullmatch(name):
            return ""
        first, dot, domain = name.rstrip(".").partition(".")
        for suffix in self._suffixes:
            if first.endswith(suffix) and len(first) > len(suffix):
                first = first[:-len(suffix)]
                break
        return first if self._is_short else first + dot + domain

    # -- the list --------------------------------------------------------------------------------

    def _take_list(self, content: Any, error: BaseException | None) -> None:
        """Use the list's present content; `content`: of _read_content."""
        self._is_reading = False
        if error is not None:                           # a file server that hangs blocks threads
            self._check_at = self._clock() + _LONGEST_PAUSE_S
            self._log_unusable("cannot be read: no answer")
        if error is not None or content is None:          # no answer, or unchanged
            return
        self._version, text, why = content
        if why:
            self._log_unusable(why)
            return
        self._was_read = True
        listed, wrong = parse_names(text, self._path)
        for line in wrong:
            log.warning("%s", sanitize(line))
        before, self._listed = self._listed, listed
        for nid in before.keys() | listed.keys():
            if nid in self._names and before.get(nid) != listed.get(nid):
                self._rename(nid)
                if nid not in listed and _parse_address(nid):
                    heapq.heappush(self._due, (0.0, nid))

    def _log_unusable(self, why: str) -> None:
        """Log why the list cannot be used, and which names are used."""
        log.error("%s: %s; %s (site.cfg: [clients] names)", self._path, why, (
            "the names read before are still used" if self._was_read else
            "no names are taken from it yet"))


def _read_content(path: str, version: tuple[int, ...] | None
             ) -> tuple[tuple[int, ...], str, str] | None:
    """(version, text, reason if it cannot be read) of a file; None if it still has `version`."""
    try:
        status = os.stat(path)
        now = (status.st_mtime_ns, status.st_size, status.st_ino)
        if now == version:
            return None
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            return now, "", f"expected up to {_MAX_BYTES >> 20} MiB, got more"
        return now, text, ""
    except OSError as error:
        none = (-1,)
        return None if version == none else (none, "", f"cannot be read: {error.strerror}")


def _parse_address(nid: Nid) -> str:
    """The IP address in a NID; "" without one."""
    address = nid.partition("@")[0]
    try:                                    # not ipaddress, which takes ten times as long
        socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return ""
    return address


def look_up_name(address: str) -> str:
    """The name of an address from /etc/hosts and DNS; "" without one; OSError without an answer."""
    try:
        return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            return ""
        raise


def parse_names(text: str, path: str) -> tuple[dict[Nid, NodeName], list[str]]:
    """
    Return ({NID: node}, [an error for each wrong line]) of a list; the other lines count.

    NIDs are as Lustre prints them: @tcp for @tcp0.

    >>> parse_names("10.0.0.11@o2ib node11\\n10.0.0.12 node12\\n", "/etc/iostats/nodes")[1]
    ["/etc/iostats/nodes:2: expected a NID, such as 10.0.0.11@o2ib, got '10.0.0.12'"]
    """
    names: dict[Nid, NodeName] = {}
    errors: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split(None, 3)
        if not words:
            continue
        nid, name = _as_printed(Nid(words[0])), words[1] if len(words) == 2 else ""
        if parse_nid(nid) is None:
            error = f"expected a NID, such as 10.0.0.11@o2ib, got {nid[:60]!r}"
        elif not name:
            error = f"expected a NID and the name of its node, got {line.strip()[:60]!r}"
        elif not _NAME.fullmatch(name):
            error = f"expected the name of a node, such as node11, got {name[:60]!r}"
        elif names.get(nid, name) != name:
            error = f"expected one node for {nid}, got {name[:60]!r} after {names[nid]!r}"
        else:
            names[nid] = NodeName(name)
            continue
        errors.append(f"{path}:{number}: {error}")
    if len(errors) > _MAX_ERRORS:
        errors[_MAX_ERRORS:] = [f"{path}: {len(errors) - _MAX_ERRORS} more lines are wrong"]
    return names, errors


def _as_printed(nid: Nid) -> Nid:
    network = find_lnet(nid)
    return nid if network is None else Nid(f"{nid.rpartition('@')[0]}@{network}")
