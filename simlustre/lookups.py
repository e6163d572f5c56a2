"""
Tell stat() from the lookups on the way to something else.

FUSE asks the same question, getattr(path), for each component of a path walked and for the
file a stat() is about.  With no cache of names (entry_timeout=0) the pattern is

    stat("/scratch/a/b")     getattr /scratch, getattr /scratch/a, getattr /scratch/a/b
    open("/scratch/a/b")     the same three, then open /scratch/a/b

so that a lookup which its process follows by nothing below or on that path was a stat().
So `getattr` is near Lustre's, not exact: access() looks like a stat() here, and fstat() within a
second of another look at the file is answered by the kernel and never seen.
"""
from __future__ import annotations

from posixpath import dirname

KEEP = 2                # rename and link look up two names before they do anything
MOST_PROCESSES = 1000


class Lookups:
    def __init__(self, count):
        """`count(client, us)` is called for each lookup that turned out to be a stat()."""
        self._count = count
        self._open = {}                         # pid -> [(path, client, us), ...], oldest first

    def saw(self, pid: int, path: str, client, us: int) -> None:
        if pid not in self._open and len(self._open) >= MOST_PROCESSES:
            self.settle()
        pending = self._open.setdefault(pid, [])
        self._walked_through(pending, dirname(path))
        pending.append((path, client, us))
        while len(pending) > KEEP:
            self._count(*pending.pop(0)[1:])

    def missed(self, pid: int, path: str) -> None:
        """The name was not there; the directory was walked through all the same."""
        self._walked_through(self._open.get(pid, []), dirname(path))

    def used(self, pid: int, *paths: str) -> None:
        """Something was done to these paths: a lookup of each or of its directory was for that."""
        pending = self._open.pop(pid, [])
        for path in paths:
            self._walked_through(pending, path)
            self._walked_through(pending, dirname(path))
        for _, client, us in pending:
            self._count(client, us)

    def settle(self) -> None:
        """The counters are read: what nothing has followed so far counts as stat()."""
        for pid in list(self._open):
            self.used(pid)

    @staticmethod
    def _walked_through(pending: list, path: str) -> None:
        for index in range(len(pending) - 1, -1, -1):
            if pending[index][0] == path:
                del pending[index]
                return
