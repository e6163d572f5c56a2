"""
Which node a NID is: by the site's own list, else /etc/hosts and DNS, else the NID itself.
"""

from __future__ import annotations

from iostats.lustre.exports import is_server_itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iostats.base.config import Config

STORAGE_SERVERS = "(storage servers)"           # 0@lo: clients on these themselves


class NodeNames:
    """The names of nodes; no method waits for anything."""

    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._config, self._now = config, now
        self._names: dict[str, str] = {}
        self._nids: dict[str, set[str]] = {}

    def see(self, nids: Iterable[str]) -> None:
        """There are these NIDs."""
        for nid in nids:
            if nid not in self._names:
                self._name(nid, STORAGE_SERVERS if is_server_itself(nid) else nid)

    def _name(self, nid: str, name: str) -> None:
        old = self._names.get(nid)
        if old is not None:
            self._nids[old].discard(nid)
        self._names[nid] = name
        self._nids.setdefault(name, set()).add(nid)

    def node_of(self, nid: str) -> str:
        """The node's name; the NID itself where it is not known, or not yet."""
        return self._names.get(nid, nid)

    def nids_of(self, node: str) -> list[str]:
        """The NIDs of a node, of those that were seen, sorted."""
        return sorted(self._nids.get(node, ()))

    def is_known(self, nid: str) -> bool:
        """Whether a node's name was found for it."""
        return self.node_of(nid) != nid
