"""
The FUSE side of a storage server: MNT/root has its files, rendered when opened (server_tree.py).
"""
from __future__ import annotations

import errno
import os
import stat
import time

import mfusepy

from .mount import Fuse, options_of_mount
from .server_tree import files_of
from .storage_server import StorageServer
from .tree import DEBUGFS, DEBUGFS_MODE


class ServerMount(mfusepy.Operations):
    """The mount of a storage server: `root` and nothing else; methods are FUSE's."""

    use_ns = True

    def __init__(self, server: StorageServer, more: dict, ready):
        """`more`: files besides those of the storage server; `ready()` is called when mounted."""
        self._server, self._more, self._ready = server, more, ready
        self._made_for = self._files = self._directories = None
        self._handles: dict = {}
        self._next_handle = 1
        self._inodes: dict = {}             # path -> its number, which stays
        self._started_ns = time.time_ns()

    def init_with_config(self, connection, config):
        self._ready()

    def _look(self) -> dict:
        """path -> File; and `_directories`: path -> names."""
        server = self._server
        seen = (server.version, *(one.version for one in server.targets.values()))
        if seen != self._made_for:
            self._made_for = seen
            self._files = {f"root/{path}": file
                           for path, file in {**files_of(server), **self._more}.items()}
            self._directories = {"": set(), "root": set()}
            for path in self._files:
                while path:
                    path, _, name = path.rpartition("/")
                    self._directories.setdefault(path, set()).add(name)
        return self._files

    def _inode(self, path: str) -> int:
        return self._inodes.setdefault(path, (1 << 48) + len(self._inodes))

    def getattr(self, path, fh=None):
        with self._server.lock:
            files, size = self._look(), 0
            if path[1:] in self._directories:
                closed = path[1:] == f"root/{DEBUGFS}"
                mode = stat.S_IFDIR | (DEBUGFS_MODE if closed else 0o555)
            elif path[1:] in files:
                mode, size = stat.S_IFREG | files[path[1:]].mode, files[path[1:]].size()
            else:
                raise OSError(errno.ENOENT, path)
        return dict(st_mode=mode, st_ino=self._inode(path[1:]), st_nlink=1, st_size=size,
                    st_uid=os.geteuid(), st_gid=os.getegid(), st_mtime=self._started_ns,
                    st_ctime=self._started_ns, st_atime=self._started_ns, st_blksize=4096)

    def readdir(self, path, fh):
        with self._server.lock:
            self._look()
            below = path[1:] + "/" if path[1:] else ""
            return [(name, {"st_ino": self._inode(below + name)}, 0)        # 0: not listed
                    for name in [".", "..", *sorted(self._directories[path[1:]])]]

    def open(self, path, flags):
        with self._server.lock:
            file = self._look()[path[1:]]
            if flags & (os.O_WRONLY | os.O_RDWR) and not file.clear:
                raise OSError(errno.EACCES, path)
            content = b"" if file.read_at else file.render()
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._handles[handle] = file, content if isinstance(content, bytes) else content.encode()
        return handle

    def read(self, path, size, offset, fh):
        file, content = self._handles[fh]
        return file.read_at(size, offset) if file.read_at else content[offset:offset + size]

    def write(self, path, data, offset, fh):
        with self._server.lock:
            self._handles[fh][0].clear(data)
        return len(data)

    def truncate(self, path, length, fh=None):
        """`echo clear > job_stats`: the write does it."""

    def release(self, path, fh):
        file, _ = self._handles.pop(fh)
        if file.closed:
            with self._server.lock:
                file.closed()


def serve(mount: ServerMount, mount_point: str) -> None:
    """Mount, and answer until unmounted.  Errors of mounting go to stderr, by libfuse."""
    Fuse(mount, mount_point, foreground=True, nothreads=True, **options_of_mount())
