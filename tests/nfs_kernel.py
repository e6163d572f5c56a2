"""
A node with NFS mounts, as simlustre/nfs_client.py has them, and the Snapshot of these.
"""
from __future__ import annotations

from iostats.node.sources import nfs
from iostats.totals.snapshot import Snapshot
from simlustre import nfs_client
from simlustre.nfs_client import Superblock as Superblock


class NfsClient(nfs_client.NfsClient):
    """A node's NFS mounts."""

    def snapshot(self, root, config) -> Snapshot:
        """The Snapshot of the node's NFS mounts now."""
        self.write_files(root)
        ns = int(self.now * 1e9)
        files = tuple(nfs.read(str(root), config))
        return Snapshot("4711", "node001", "seq", "boot", ns, ns, files)
