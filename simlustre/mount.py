"""
The FUSE side: passes file operations through to the backing directory and counts them.

    MNT/<fs>/...       backing/<fs>/...
    MNT/root/...       counter files, rendered when opened (tree.py)
    MNT/truth.json     what was asked of this layer, also by job: truth_by_job.json (truth.py)

How exact: with direct_io each read() and write() of a program is one request, as long as it
covers up to 256 pages, 1 MiB (libfuse 3), or 32 pages, 128 KiB (libfuse 2); measured.  Larger
ones come in pieces, and so does 1 MiB from a buffer that does not begin on a page.  So bytes
are always exact, calls up to a page less than that size.  One thread serves requests in the
order they come in, also the end of close(), for which a program does not wait.  Shared
mmap() is refused (ENODEV), an effect of direct_io.

What counts as what (llite): an open that creates is `mknod` and `open`, and mknod(2) of a FIFO is
`mknod`.  mknod(2) of a file would be `mknod` and `create` (so it is on a real 2.15.8, 2.16.1 and
2.17.57), but libfuse makes it an open that creates and a close, and so it is counted.
opendir is `open` too
(ll_dir_open).  Only what succeeds is counted.
"""
from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

import mfusepy
from mfusepy import fuse_get_context

from . import tree
from .client import PAGE_BYTES, Client, Unsent
from .lookups import Lookups
from .truth import Truth

BASE_STAT = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_rdev", "st_size",
             "st_blksize", "st_blocks")
# libfuse renames a file that is unlinked while open, and unlinks it after the last close.
HIDDEN = ".fuse_hidden"
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
RENAME_NOREPLACE = 1
NEVER_CACHED = getattr(os, "O_DIRECT", 0)
NEVER_PASSED_ON = os.O_CREAT | os.O_EXCL | getattr(os, "O_DIRECT", 0)   # the last wants alignment


class OpenFile:
    """An open data file."""

    def __init__(self, node: Node, client: Client, fd: int, mdt: int, path: str, flags: int):
        self.node, self.client, self.fd, self.mdt = node, client, fd, mdt
        self.libaio = path.endswith(".libaio")
        self.direct = self.libaio or bool(flags & NEVER_CACHED)
        self.tiny = not (self.direct or flags & (os.O_APPEND | os.O_SYNC | os.O_DSYNC))
        self.cached = 0, 0                  # first and end of what is in memory
        self.inode = os.fstat(fd).st_ino
        self.layout = client.layout_of(self.inode)
        self.unsent = Unsent(self.layout)
        self.job = node.job_of_caller()     # close() comes in nobody's name
        client.opened(self.inode)

    def read(self, size: int, offset: int) -> bytes:
        start_ns = self.node.begin()
        data = os.pread(self.fd, size, offset)
        end, (first, last) = offset + len(data), self.cached
        cached = min(last, end) - offset if first <= offset < last else 0
        us = _us_since(start_ns)
        self.client.read(self.layout, offset, len(data), us, 1, cached, self.libaio)
        if data and not self.direct:
            first = (end - 1) // PAGE_BYTES * PAGE_BYTES
            self.cached = first, min(first + PAGE_BYTES, os.fstat(self.fd).st_size)
        self.node.truth.moved(self.client.fs, "read", len(data))
        return data

    def write(self, data: bytes, offset: int) -> int:
        start_ns = self.node.begin()
        size = os.pwrite(self.fd, data, offset)
        self.client.wrote(self.unsent, offset, size, _us_since(start_ns), self.tiny, self.libaio)
        if self.direct:
            self.unsent.send()
        self.cached = 0, 0
        self.node.truth.moved(self.client.fs, "write", size)
        return size

    def lock(self, operation: int) -> None:
        """flock(); EDEADLK where it would have to wait, since no other request is served then."""
        start_ns = self.node.begin()
        self.client.locking()
        try:
            fcntl.flock(self.fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EWOULDBLOCK if operation & fcntl.LOCK_NB else errno.EDEADLK,
                          "locked") from None
        self.client.did("flock", _us_since(start_ns), self.mdt)
        self.node.truth.asked(self.client.fs, "flock")

    def sync(self) -> None:
        start_ns = self.node.begin()
        os.fsync(self.fd)
        us = _us_since(start_ns)
        self.unsent.send()
        for osc in self.layout.oscs:
            osc.sent("ost_sync", us)
        if self.unsent.was_lost():
            raise OSError(errno.EIO, "evicted; what was not sent is lost")
        self.client.did("fsync", us, self.mdt)
        self.node.truth.asked(self.client.fs, "fsync")

    def close(self) -> None:
        start_ns = self.node.begin()
        os.close(self.fd)
        self.unsent.send()
        self.client.closed(self.inode)
        self.client.did("close", _us_since(start_ns), self.mdt, job=self.job)
        self.node.truth.asked(self.client.fs, "release", self.job)


class OpenDirectory:
    def __init__(self, node: Node, client: Client, real: str, mdt: int):
        self.node, self.client, self.mdt = node, client, mdt
        self.inode = os.lstat(real).st_ino
        self.job = node.job_of_caller()
        client.opened(self.inode)

    def close(self) -> None:
        self.client.closed(self.inode)
        self.client.did("close", 0, self.mdt, job=self.job)
        self.node.truth.asked(self.client.fs, "releasedir", self.job)


class OpenText:
    """A counter file, as it was when opened; any write clears the counters behind it."""

    def __init__(self, content: str, clear=None):
        self.content, self.clear = content.encode(), clear

    def read(self, size: int, offset: int) -> bytes:
        return self.content[offset:offset + size]

    def write(self, data: bytes, offset: int) -> int:
        self.clear(data)
        return len(data)

    def lock(self, operation: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class Node(mfusepy.Operations):
    """All of one simulated node; the methods are FUSE's and return what mfusepy expects."""

    use_ns = True

    def __init__(self, backing: str, clients: list, files: dict, ready, truth: Truth,
                 job_of_caller=lambda: "", slow_us: int = 0):
        """
        Args:
            slow_us: what each call of a program takes longer, as on a busy Lustre.
            files: path below `root` -> tree.File.
            ready: called when mounted.
            job_of_caller: the job id of the process whose request is served now.
        """
        self.backing, self.files, self.ready = backing, files, ready
        self.clients = {client.fs: client for client in clients}
        self.truth, self.job_of_caller, self._slow_s = truth, job_of_caller, slow_us / 1e6
        self.lookups = Lookups(lambda asked, us: asked[0].did("getattr", us, job=asked[1]))
        self.texts = {"truth.json": truth.render}
        if truth.is_by_job:
            self.texts["truth_by_job.json"] = truth.render_by_job
        self.directories = {"": {*self.clients, "root", *self.texts}}
        for path in ["root/" + path for path in files]:
            while path:
                path, _, name = path.rpartition("/")
                self.directories.setdefault(path, set()).add(name)
        self.inodes = {path: (1 << 48) + number for number, path in enumerate(
            sorted(self.directories) + ["root/" + path for path in files] + list(self.texts))}
        self.started_ns = time.time_ns()
        self._handles: dict = {}
        self._next_handle = 1
        # libfuse answers mkdir, chmod and the like with the attributes, and asks for them
        # by a getattr of its own, at once; no program has called stat().
        self._attributes_due = False

    def init_with_config(self, connection, config):
        # close() is sent in the background; with the default of 12 at a time, the end of a
        # program with many open files could be counted after a reader has come and gone.
        if connection is not None:
            connection.max_background = 60000
        self.ready()

    def destroy(self, path):
        for client in self.clients.values():
            client.left()

    def begin(self) -> int:
        """A call begins, and waits as long as it has to; when, in ns."""
        start_ns = time.perf_counter_ns()
        if self._slow_s:
            time.sleep(self._slow_s)
        return start_ns

    # Paths

    def _split(self, path: str):
        """(client, path in the backing directory), or EPERM for what is not in a file system."""
        client = self.clients.get(path[1:].partition("/")[0])
        if client is None:
            raise OSError(errno.EPERM, "not in a file system")
        return client, self.backing + path

    def _mdt(self, client: Client, real: str) -> int:
        if len(client.mdc) == 1:
            return 0
        return os.lstat(os.path.dirname(real)).st_ino % len(client.mdc)

    def _do(self, operation, request: str, path: str, work, *more_paths: str, also=(),
            objects=lambda: ()):
        """
        Run `work(real path)`, count `operation` (or nothing, if None) and its time.  `also`,
        and what `objects()` gives then: see Client.did.
        """
        client, real = self._split(path)
        self.lookups.used(fuse_get_context()[2], path, *more_paths)
        mdt = self._mdt(client, real)
        start_ns = self.begin()
        result = work(real)
        us = _us_since(start_ns)
        if operation:
            client.did(operation, us, mdt, also=also, objects=objects())
        self.truth.asked(client.fs, request)
        return result

    def _set(self, operation: str, request: str, path: str, work):
        """Like _do, for what libfuse may split: chown() can arrive as chmod and chown."""
        same_request, self._attributes_due = self._attributes_due, False
        self._do(None if same_request else operation, request, path, work)
        self._attributes_due = True

    def _make(self, operation: str, request: str, path: str, work, *more_paths: str):
        def make_and_give(real):
            work(real)
            self._give(real)
        self._do(operation, request, path, make_and_give, *more_paths)
        self._attributes_due = True

    @staticmethod
    def _give(real: str) -> None:
        """A new file belongs to its maker; its group is the directory's if that is setgid."""
        uid, gid, _ = fuse_get_context()
        directory = os.lstat(os.path.dirname(real))
        if directory.st_mode & stat.S_ISGID:
            gid = directory.st_gid
        if os.geteuid() == 0 and (uid, gid) != (0, 0):
            os.lchown(real, uid, gid)

    def _handle(self, opened) -> int:
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._handles[handle] = opened
        return handle

    # Attributes

    def getattr(self, path, fh=None):
        ours, self._attributes_due = self._attributes_due, False
        if path[1:] in self.inodes:
            client = self.clients.get(path[1:])
            if client is None:
                return self._attributes_of_ours(path[1:])
        client, real = self._split_or_missing(path)
        pid = fuse_get_context()[2]
        start_ns = self.begin()
        try:
            found = os.lstat(real)
        except OSError:
            self.lookups.missed(pid, path)
            raise
        if not ours:
            us = _us_since(start_ns)
            self.lookups.saw(pid, path, (client, self.job_of_caller()), us)
            self.truth.asked(client.fs, "getattr")
        attributes = {name: getattr(found, name) for name in BASE_STAT}
        attributes.update(st_atime=found.st_atime_ns, st_mtime=found.st_mtime_ns,
                          st_ctime=found.st_ctime_ns)
        return attributes

    def _split_or_missing(self, path: str):
        try:
            return self._split(path)
        except OSError:
            raise OSError(errno.ENOENT, path) from None

    def _attributes_of_ours(self, path: str) -> dict:
        """Sizes are 0, as in /proc and debugfs."""
        if path in self.directories:
            mode = stat.S_IFDIR | (tree.DEBUGFS_MODE if path == "root/" + tree.DEBUGFS else 0o555)
        elif path in self.texts:
            mode = stat.S_IFREG | 0o444
        else:
            mode = stat.S_IFREG | self.files[path[len("root/"):]].mode
        return dict(st_mode=mode, st_ino=self.inodes[path], st_nlink=1, st_uid=os.geteuid(),
                    st_gid=os.getegid(), st_mtime=self.started_ns, st_ctime=self.started_ns,
                    st_atime=self.started_ns, st_blksize=4096)

    def chmod(self, path, mode):
        self._set("setattr", "chmod", path, lambda real: os.chmod(real, mode))

    def chown(self, path, uid, gid):
        self._set("setattr", "chown", path, lambda real: os.lchown(real, uid, gid))

    def utimens(self, path, times=None):
        def set_times(real):
            was, now = os.lstat(real), time.time_ns()
            special = ({UTIME_NOW: now, UTIME_OMIT: was.st_atime_ns},
                       {UTIME_NOW: now, UTIME_OMIT: was.st_mtime_ns})
            wanted = tuple(known.get(ns, ns) for known, ns in zip(special, times or (now, now)))
            os.utime(real, ns=wanted, follow_symlinks=False)
        self._set("setattr", "utimens", path, set_times)

    def truncate(self, path, length, fh=None):
        if path[1:] in self.inodes:
            self._attributes_due = True
            return                                  # `echo 0 > stats`; the write clears
        self._truncated(path, length, "truncate")
        self._attributes_due = True

    def _truncated(self, path: str, length: int, request: str) -> None:
        client, real = self._split(path)
        self._do("truncate", request, path, lambda real: os.truncate(real, length))
        for osc in client.layout_of(os.lstat(real).st_ino).oscs:
            osc.sent("ost_punch", 0)

    # Names

    def mkdir(self, path, mode):
        self._make("mkdir", "mkdir", path, lambda real: os.mkdir(real, mode))

    def mknod(self, path, mode, dev):
        self._make("mknod(2)", "mknod", path, lambda real: os.mknod(real, mode, dev))

    def symlink(self, target, source):
        self._make("symlink", "symlink", target, lambda real: os.symlink(source, real))

    def link(self, target, source):
        if self._split(source)[0] is not self._split(target)[0]:
            raise OSError(errno.EXDEV, "other file system")
        self._do("link", "link", target, lambda real: os.link(
            self.backing + source, real, follow_symlinks=False), source)
        self._attributes_due = True

    def readlink(self, path):
        return self._do(None, "readlink", path, os.readlink)

    def unlink(self, path):
        client, real = self._split(path)
        if os.path.basename(path).startswith(HIDDEN):
            return os.unlink(real)                  # counted when it was hidden
        objects = self._freed(client, real)
        self._forget(client, real)
        self._do("unlink", "unlink", path, os.unlink, objects=lambda: objects)

    def rmdir(self, path):
        client, real = self._split(path)
        self._forget(client, real)
        self._do("rmdir", "rmdir", path, os.rmdir)

    @staticmethod
    def _forget(client: Client, real: str) -> None:
        found = os.lstat(real)
        if found.st_nlink == 1 or stat.S_ISDIR(found.st_mode):
            client.forget(found.st_ino)

    @staticmethod
    def _freed(client: Client, real: str) -> tuple:
        """The objects that go with this name, as of Client.did."""
        try:
            found = os.lstat(real)
        except FileNotFoundError:
            return ()
        if found.st_nlink > 1 or not stat.S_ISREG(found.st_mode):
            return ()
        return "destroy", client.objects_of(found.st_ino)

    def rename(self, old, new):
        client, real = self._split(old)
        if client is not self._split(new)[0]:
            raise OSError(errno.EXDEV, "other file system")
        if os.path.basename(new).startswith(HIDDEN):
            operation, also, objects = "unlink", (), self._freed(client, real)
        else:
            # As mdt_rename_counter_tally() and mdt_reint_rename() of 2.16; others know fewer.
            operation, objects = "rename", self._freed(client, self.backing + new)
            same = os.path.dirname(old) == os.path.dirname(new)
            kind = "dir" if stat.S_ISDIR(os.lstat(real).st_mode) else "file"
            also = ["samedir_rename" if same else "crossdir_rename"]
            also += [f"parallel_rename_{kind}"] if same or kind == "file" else []
        self._do(operation, operation, old, lambda real: os.rename(real, self.backing + new), new,
                 also=also, objects=lambda: objects)

    # Directories

    def opendir(self, path):
        if path[1:] in self.directories:
            return self._handle(OpenText(""))
        client, real = self._split(path)
        self._do("open", "opendir", path, lambda real: None)
        return self._handle(OpenDirectory(self, client, real, self._mdt(client, real)))

    def readdir(self, path, fh):
        """One request for the whole directory, whatever number of getdents() reads it."""
        if path[1:] in self.directories:
            below = path[1:] + "/" if path[1:] else ""
            return [(name, {"st_ino": self.inodes.get(below + name, 1)}, 0)     # 0: not listed
                    for name in [".", "..", *sorted(self.directories[path[1:]])]]
        return self._do("readdir", "readdir", path, self._entries)

    @staticmethod
    def _entries(real: str) -> list:
        entries = [(".", {"st_ino": os.lstat(real).st_ino, "st_mode": stat.S_IFDIR}, 0),
                   ("..", {"st_ino": os.lstat(real + "/..").st_ino, "st_mode": stat.S_IFDIR}, 0)]
        with os.scandir(real) as found:
            entries += [(entry.name, {"st_ino": entry.inode(), "st_mode": _type(entry)}, 0)
                        for entry in found if not entry.name.startswith(HIDDEN)]
        return entries

    def releasedir(self, path, fh):
        self.release(path, fh)

    def fsyncdir(self, path, datasync, fh):
        self._do("fsync", "fsyncdir", path, lambda real: None)

    # Files

    def open(self, path, flags):
        """
        O_TRUNC of an existing file counts one `truncate`, as in Lustre, where the kernel's
        handle_truncate() calls ll_setattr() with ATTR_SIZE after the open.  It comes here as
        a flag (libfuse 3) or as a truncate request (libfuse 2), never as both.
        """
        if path[1:] in self.inodes and path[1:] not in self.clients:
            return self._open_ours(path[1:], flags)
        client, real = self._split(path)
        fd = self._do("open", "open", path, lambda real: os.open(
            real, flags & ~NEVER_PASSED_ON & ~os.O_TRUNC))
        if flags & os.O_TRUNC:
            self._truncated(path, 0, "truncate")
        return self._handle(OpenFile(self, client, fd, self._mdt(client, real), path, flags))

    def _open_ours(self, path: str, flags: int) -> int:
        self.lookups.settle()
        if path in self.texts:
            return self._handle(OpenText(self.texts[path]()))
        file = self.files[path[len("root/"):]]
        if flags & (os.O_WRONLY | os.O_RDWR) and not file.clear:
            raise OSError(errno.EACCES, path)       # root gets here in spite of mode 0444
        return self._handle(OpenText(file.render(), file.clear))

    def create(self, path, mode, flags):
        """A file another node has made meanwhile is opened, and counted as opened, only."""
        client, real = self._split(path)
        passed_on = flags & ~NEVER_PASSED_ON & ~os.O_TRUNC | os.O_CREAT

        def create_and_give(real):
            fd = os.open(real, passed_on | os.O_EXCL, mode)
            self._give(real)
            return fd

        def objects():
            return "create", client.objects_of(os.lstat(real).st_ino)
        start_ns = self.begin()
        try:
            fd = self._do("mknod", "create", path, create_and_give, objects=objects)
            client.did("open", _us_since(start_ns), self._mdt(client, real))
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            handle = self.open(path, flags)
            self._attributes_due = True
            return handle
        self._attributes_due = True
        return self._handle(OpenFile(self, client, fd, self._mdt(client, real), path, flags))

    def read(self, path, size, offset, fh):
        return self._handles[fh].read(size, offset)

    def write(self, path, data, offset, fh):
        return self._handles[fh].write(data, offset)

    def flock(self, path, fh, operation):
        self._handles[fh].lock(operation)

    def fsync(self, path, datasync, fh):
        self._handles[fh].sync()

    def release(self, path, fh):
        self._handles.pop(fh).close()

    # The rest

    def statfs(self, path):
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree",
                 "f_favail", "f_namemax")
        if path[1:].partition("/")[0] in self.clients:
            found = self._do("statfs", "statfs", path, os.statvfs)
        else:
            found = os.statvfs(self.backing)
        return {name: getattr(found, name) for name in names}

    def setxattr(self, path, name, value, options, position=0):
        self._no_acl(name)
        self._do("setxattr", "setxattr", path, lambda real: os.setxattr(
            real, name, value, options, follow_symlinks=False))

    def getxattr(self, path, name, position=0):
        self._no_acl(name)
        if name == "security.capability" or path[1:] in self.inodes:    # the kernel asks; `ls -l`
            raise OSError(errno.ENODATA, name)
        return self._do("getxattr", "getxattr", path, lambda real: os.getxattr(
            real, name, follow_symlinks=False))

    def listxattr(self, path):
        if path[1:] in self.inodes:
            return []
        return self._do("listxattr", "listxattr", path, lambda real: os.listxattr(
            real, follow_symlinks=False))

    def removexattr(self, path, name):
        self._no_acl(name)
        self._do("removexattr", "removexattr", path, lambda real: os.removexattr(
            real, name, follow_symlinks=False))

    @staticmethod
    def _no_acl(name: str) -> None:
        """An ACL would be stored, and then not obeyed: default_permissions knows modes only."""
        if name.startswith("system."):
            raise OSError(errno.EOPNOTSUPP, name)


class Fuse(mfusepy.FUSE):
    """mfusepy drops rename flags; exchanging two files must not become replacing one."""

    def rename_fuse_3(self, old, new, flags):
        if flags & ~RENAME_NOREPLACE:
            return -errno.EINVAL
        return self.rename_fuse_2(old, new)


def serve(node: Node, mount_point: str) -> None:
    """Mount, and answer until unmounted.  Errors of mounting go to stderr, by libfuse."""
    os.umask(0)
    Fuse(node, mount_point, foreground=True, nothreads=True, **options_of_mount())


def options_of_mount() -> dict:
    """What libfuse gets for each of our mounts."""
    options = dict(fsname="simlustre", subtype="simlustre", default_permissions=True,
                   entry_timeout=0, use_ino=True, direct_io=True)
    if os.geteuid() == 0 or _others_allowed():
        options["allow_other"] = True
    if mfusepy.fuse_version_major == 2:
        options["big_writes"] = True            # else writes come in pieces of 4 KiB
    return options


def _others_allowed() -> bool:
    try:
        with open("/etc/fuse.conf") as config:
            return any(line.strip() == "user_allow_other" for line in config)
    except OSError:
        return False


def _us_since(start_ns: int) -> int:
    return (time.perf_counter_ns() - start_ns) // 1000


def _type(entry: os.DirEntry) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG
