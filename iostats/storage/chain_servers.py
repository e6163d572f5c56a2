"""
Which of the site's servers has which chain of messages, where there are several.

A chain goes on at the server that took what came before: another one knows nothing of it, unless it
has the same store.  So what waits of a chain is offered to the server that is asked now, and where
that asks for a full sweep instead, it is kept for the one that has the rest.

    DIRECTORY/servers      {run: HOST:PORT of the server that took its last message, "": of the
                           last of all}, as JSON
"""

from __future__ import annotations

import json
import os

from iostats.base import private_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = "servers"


class ChainServers:
    """
    Of the chains in one directory; a file that cannot be read or written is as none.

    `servers`: names of all there are; with one alone nothing is kept on the disk.
    """

    @property
    def last(self) -> str:
        """The server that took the last message; "": not known."""
        return self._taken_by.get("", "")

    def __init__(self, directory: str, servers: Iterable[str]) -> None:
        self._path, self._servers = os.path.join(directory, _NAME), list(servers)
        self._taken_by: dict[str, str] = {}
        self._unknown_to: set[tuple[str, str]] = set()
        if len(self._servers) > 1:
            try:
                found = json.loads(private_files.read_text(self._path))
                self._taken_by = {str(run): str(server) for run, server in found.items()}
            except (OSError, ValueError, AttributeError, RecursionError):
                pass

    def taken(self, run: str, server: str, waiting: Iterable[str]) -> None:
        """`server` has taken a message of `run`; `waiting`: the runs of all that wait."""
        if len(self._servers) < 2 or self._taken_by.get(run) == self.last == server:
            return
        left = set(waiting)
        self._taken_by = {one: its for one, its in self._taken_by.items() if one in left}
        self._taken_by.update({run: server, "": server})
        self._unknown_to.discard((run, server))
        try:
            private_files.write_whole(self._path, json.dumps(self._taken_by).encode())
        except OSError:
            pass

    def is_for_another(self, run: str, server: str) -> bool:
        """`server` does not know the chain `run`; whether another one has the rest of it."""
        owner = self._taken_by.get(run, server)
        if owner == server or owner not in self._servers:
            return False
        self._unknown_to.add((run, server))
        return True

    def is_unknown_to(self, run: str, server: str) -> bool:
        """Whether that was so before."""
        return (run, server) in self._unknown_to

    def known_by(self, server: str) -> None:
        """`server` is asked anew: it may have another store than before."""
        self._unknown_to = {one for one in self._unknown_to if one[1] != server}
