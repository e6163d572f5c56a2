"""
A disk that fails on demand: a FUSE mount that hands everything on to a directory, but what it is
told to fail.

    python bad_disk.py DIRECTORY MOUNT_POINT

MOUNT_POINT/.fault takes one line, and is in no listing:

    OPERATION NTH ERRNO TIMES HOW     the NTH operation of that name ("any": of all) from now on,
                                      and those after it, TIMES in all, fail with ERRNO
    calm                              nothing fails any more

HOW is "before" (nothing of it is done), "after" (it is done, and called a failure all the same) or
"half" (half of a write is done).  Read, it has how many operations there were since the last line,
as JSON, and under "failed" how many were failed.
"""
from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

CONTROL = "/.fault"
OPERATIONS = ("create", "open", "read", "write", "fsync", "rename", "link", "unlink", "readdir",
              "mkdir", "truncate", "getattr")


class BadDisk:
    """
    The mount, seen from a test.

    Attributes:
        path: the mount point.
    """

    def __init__(self, directory, mount_point):
        """`mount_point`: a directory; the test is skipped where there can be no FUSE."""
        self.path = mount_point
        for one in (directory, mount_point):
            os.makedirs(one, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(directory), str(mount_point)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            self._process.communicate()
            pytest.skip("FUSE is not available here")
        self.calm()

    def fail(self, operation, nth=1, number=errno.EIO, times=1, how="before"):
        """The nth of these operations from now on fails, and `times` - 1 after it."""
        self._tell(f"{operation} {nth} {number} {times} {how}\n")

    def calm(self):
        """All is well again."""
        self._tell("calm\n")

    def counts(self):
        """{operation: how many there were since the last `fail` or `calm`, "failed": ...}."""
        with open(str(self.path) + CONTROL) as file:
            return json.load(file)

    def _tell(self, line):
        handle = os.open(str(self.path) + CONTROL, os.O_WRONLY)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _serve(directory, mount_point):
    from ctypes.util import find_library
    if find_library("fuse3"):
        os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    import mfusepy

    class Disk(mfusepy.Operations):
        use_ns = True

        def __init__(self):
            self._counts, self._fault = dict.fromkeys((*OPERATIONS, "any", "failed"), 0), None

        def init_with_config(self, connection, config):
            for name in ("entry_timeout", "attr_timeout", "negative_timeout"):
                if config is not None and hasattr(config, name):
                    setattr(config, name, 0.0)
            sys.stdout.write("ready\n")
            sys.stdout.flush()

        def _real(self, path):
            return directory + path

        def _do(self, name, action, half=None):
            self._counts[name] += 1
            self._counts["any"] += 1
            if self._fault is not None:
                which, nth, number, times, how = self._fault
                if which in (name, "any") and nth <= self._counts[which] < nth + times:
                    self._counts["failed"] += 1
                    if how == "after":
                        action()
                    elif how == "half" and half is not None:
                        half()
                    raise OSError(number, os.strerror(number))
            return action()

        # what it is told

        def _told(self, line):
            words = line.split()
            self._counts = dict.fromkeys((*OPERATIONS, "any", "failed"), 0)
            self._fault = None
            if words[0] != "calm":
                self._fault = (words[0], int(words[1]), int(words[2]), int(words[3]), words[4])

        def _told_of(self):
            return (json.dumps(self._counts) + "\n").encode()

        # files

        def getattr(self, path, fh=None):
            if path == CONTROL:
                return dict(st_mode=0o100600, st_nlink=1, st_size=4096, st_uid=os.geteuid())
            found = self._do("getattr", lambda: os.lstat(self._real(path)))
            attributes = {name: getattr(found, name) for name in (
                "st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")}
            attributes.update(st_atime=found.st_atime_ns, st_mtime=found.st_mtime_ns,
                              st_ctime=found.st_ctime_ns)
            return attributes

        def create(self, path, mode, fi=None):
            return self._do("create", lambda: os.open(
                self._real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))

        def open(self, path, flags):
            if path == CONTROL:
                return 0
            # The kernel has seen to O_APPEND: it tells where to write.
            return self._do("open", lambda: os.open(
                self._real(path), flags & ~(os.O_APPEND | os.O_CREAT | os.O_EXCL)))

        def read(self, path, size, offset, fh):
            if path == CONTROL:
                return self._told_of()[offset:offset + size]
            return self._do("read", lambda: os.pread(fh, size, offset))

        def write(self, path, data, offset, fh):
            if path == CONTROL:
                self._told(data.decode())
                return len(data)
            return self._do("write", lambda: os.pwrite(fh, data, offset),
                            lambda: os.pwrite(fh, data[:len(data) // 2], offset))

        def truncate(self, path, length, fh=None):
            if path != CONTROL:
                self._do("truncate", lambda: os.truncate(self._real(path), length))

        def fsync(self, path, datasync, fh):
            return self._do("fsync", lambda: os.fsync(fh))

        def flush(self, path, fh):
            return 0

        def release(self, path, fh):
            if path != CONTROL:
                os.close(fh)

        # names

        def rename(self, old, new):
            self._do("rename", lambda: os.rename(self._real(old), self._real(new)))

        def link(self, target, source):
            self._do("link", lambda: os.link(self._real(source), self._real(target)))

        def unlink(self, path):
            self._do("unlink", lambda: os.unlink(self._real(path)))

        def mkdir(self, path, mode):
            self._do("mkdir", lambda: os.mkdir(self._real(path), mode))

        def rmdir(self, path):
            os.rmdir(self._real(path))

        def chmod(self, path, mode):
            os.chmod(self._real(path), mode)

        def utimens(self, path, times=None):
            os.utime(self._real(path), ns=times)

        def readdir(self, path, fh):
            return self._do("readdir", lambda: [".", "..", *os.listdir(self._real(path))])

        def statfs(self, path):
            found = os.statvfs(self._real(path))
            return {name: getattr(found, name) for name in (
                "f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files",
                "f_flag", "f_frsize", "f_namemax")}

    mfusepy.FUSE(Disk(), mount_point, foreground=True, nothreads=True, direct_io=True,
                 hard_remove=True, fsname="iostats-bad-disk", subtype="iostats-bad-disk")


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
