"""
The files of a node between `start` and `stop`, in a directory of this user alone.

    DIRECTORY/JOB%20NODE.start          the start snapshot, see snapshot.py
    DIRECTORY/JOB%20NODE.mark.0001      the snapshot at a mark, likewise
    DIRECTORY/JOB%20NODE.watch          what `watch` has seen so far
    DIRECTORY/JOB%20NODE.events         what went wrong so far: node_events.py
    DIRECTORY/JOB%20NODE.SEQ.delta      a report that still has to be delivered, as it is sent
    DIRECTORY/JOB%20NODE.journal        what the job's server on this node has counted: journal.py
    PUBLIC/JOB%20NODE.start          root's `start --public`: everybody may read it

DIRECTORY is --state-dir, or site.cfg's, or /tmp/iostats-UID-RANDOM, found again by its owner and
mode.  It is 0700 and ours, or it is not used; no link is followed; a file is there whole or not at
all (written beside, synced, then linked or renamed into place).

PUBLIC is site.cfg's [node] public_dir.  It is used only if it and all directories above it
are root's, and only root can put or replace files there.
"""

from __future__ import annotations

import os
import stat
import time

from iostats.base.errors import StateError
from iostats.base.job_id import make_filename
from iostats.base.private_files import (
    explain_permissions,
    make_private_directory,
    make_write_error,
    read_text,
    remove_if_present,
    remove_unfinished,
    write_atomically,
)
from iostats.node.identity import read_boot_id, read_seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TMP = "/tmp"
BY_STATE_DIR, BY_HOOK_DIR = "in site.cfg: [node] state_dir", "in site.cfg: [node] hook_dir"
_PUBLIC_START_LIVES_S = 90 * 86400        # no `stop` has removed it, and /run is memory


class StartFiles:
    """The files of one job on one node."""

    def __init__(self, directory: str, job: str, node: str, public_dir: str = "",
                 how: str = BY_STATE_DIR) -> None:
        """`how` to name another directory: BY_STATE_DIR or BY_HOOK_DIR."""
        self.directory, self.public_dir, self._how = directory, public_dir, how
        self._stem = make_filename(job, node)
        self._path = os.path.join(directory, self._stem)
        self.start_path = self.loaded_from = self._path + ".start"
        self.watch_path = self._path + ".watch"
        self.events_path = self._path + ".events"
        self.journal_path = self._path + ".journal"
        self.public_path = public_dir and os.path.join(public_dir, self._stem + ".start")

    def store_start(self, data: bytes | bytearray, replace: bool) -> bool:
        """
        Store the start snapshot; False if there is one and not `replace`.

        Raises StateError when it can't be written.
        """
        return self._write(self.start_path, data, replace)

    def load_start(self) -> bytes | None:
        """
        The start snapshot's bytes, or None when there is none; `loaded_from` is then its path.

        Our own, or else the one that root left for this job.
        """
        data, self.loaded_from = _load(self.start_path), self.start_path
        if data is None and self.public_path and os.path.lexists(self.public_path):
            try:
                _check_only_root_writes(self.public_dir)
            except _OthersCanWrite as wrong:
                raise StateError(f"{self.public_path}: not used: expected directories of root, got "
                                 f"{wrong}; start the job yourself, or name another directory in "
                                 f"site.cfg, [node] public_dir") from None
            data, self.loaded_from = _load(self.public_path, owner=0), self.public_path
        return data

    def store_public_start(self, data: bytes | bytearray) -> None:
        """Store the start snapshot, as root, where the job's user can read it; StateError."""
        path = os.path.abspath(self.public_dir)
        try:
            _make_public(path)
            self._write_once(self.public_path, data, replace=True, mode=0o644)
            _delete_old(path, time.time(), read_boot_id(), read_seconds_since_boot())
        except OSError as error:
            raise StateError(f"{self.public_path}: cannot be written: {error.strerror}; "
                             f"name another directory in site.cfg, [node] public_dir") from None

    def delete_public_start(self) -> None:
        """Remove root's files for this job; only root can."""
        if os.geteuid() == 0 and self.public_path and os.path.lexists(self.public_path):
            try:
                _check_only_root_writes(self.public_dir)
            except _OthersCanWrite:
                return
            remove_if_present(self.public_path)

    def store_mark(self, data: bytes | bytearray) -> None:
        """Store the snapshot of the next mark."""
        number = len(self.marks()) + 1
        while not self._write(f"{self._path}.mark.{number:04d}", data, replace=False):
            number += 1

    def marks(self) -> list[str]:
        """Paths of the marks' snapshots, in their order."""
        stem = self._stem + ".mark."
        return [os.path.join(self.directory, name) for name in sorted(_list_entries(self.directory))
                if name.startswith(stem) and name[len(stem):].isdigit()]

    def store_watch(self, data: bytes) -> None:
        """Store the series of `watch`."""
        self._write(self.watch_path, data, replace=True)

    def store_events(self, data: bytes) -> None:
        """Store the events so far."""
        self._write(self.events_path, data, replace=True)

    def load(self, path: str) -> bytes | None:
        """The bytes of one of our files, or None if it does not exist."""
        return _load(path)

    def delete_start(self) -> None:
        """Remove the start snapshot, and the files of `mark`, `watch` and events."""
        # The start last: a crash in between leaves nothing behind that no `stop` would remove.
        for path in (*self.marks(), self.watch_path, self.events_path, self.start_path):
            remove_if_present(path)

    def delete_pieces(self) -> None:
        """Remove the partial files of a process that was killed."""
        remove_unfinished(os.path.join(self.directory, self._stem))

    def delete_watch(self) -> None:
        """Remove the files of `watch`: rates and events."""
        remove_if_present(self.watch_path)
        remove_if_present(self.events_path)

    def make_delta_path(self, seq: str) -> str:
        """The path of the report of start `seq`."""
        # Ours is of hex digits; that of a damaged start leads out of no directory.
        return os.path.join(self.directory, f"{self._stem}.{make_filename(seq)}.delta")

    def store_delta(self, seq: str, data: bytes) -> None:
        """Store a report until it is delivered."""
        self._write(self.make_delta_path(seq), data, replace=True)

    def deltas(self) -> dict[str, bytes]:
        """Return {path: bytes} of the reports that wait, in no order."""
        contents = {}
        for name in _list_entries(self.directory):
            if name.startswith(self._stem + ".") and name.endswith(".delta"):
                path = os.path.join(self.directory, name)
                data = _load(path)
                if data is not None:
                    contents[path] = data
        return contents

    def leave(self) -> None:
        """Remove the job's directory if it is empty and below /tmp."""
        if os.path.dirname(self.directory) == TMP and os.path.basename(self.directory).startswith(
                _make_prefix()):
            try:
                os.rmdir(self.directory)
            except OSError:
                pass                                   # another job still has files there

    def _write(self, path: str, data: bytes | bytearray, replace: bool) -> bool:
        try:
            return self._write_once(path, data, replace)
        except FileNotFoundError:                      # another job has just left the directory
            try:
                os.mkdir(self.directory, 0o700)
                return self._write_once(path, data, replace)
            except OSError as error:
                raise make_write_error(path, error, self._how) from error
        except OSError as error:
            raise make_write_error(path, error, self._how) from error

    @staticmethod
    def _write_once(path: str, data: bytes | bytearray, replace: bool, mode: int = 0o600) -> bool:
        return write_atomically(path, data, replace, mode)


def _list_entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:                          # another job has just left it
        return []


def _has_work(state: StartFiles) -> bool:
    return os.path.lexists(state.start_path) or bool(state.deltas())


def open_start_files(directory: str, job: str, node: str, public_dir: str = "",
                     holds: Callable[[StartFiles], bool] = _has_work,
                     how: str = BY_STATE_DIR) -> StartFiles:
    """
    The StartFiles of `job` on `node` in `directory`, which is created if necessary.

    `how`: as of StartFiles; `holds`: whether one of our directories below /tmp is this job's, where
    none is named.
    """
    if directory:
        make_private_directory(directory, how)
        return StartFiles(directory, job, node, public_dir, how)
    for directory in _list_private_directories():
        state = StartFiles(directory, job, node, public_dir)
        if holds(state):
            return state
    return StartFiles(_choose_default_directory(), job, node, public_dir)


def _make_prefix() -> str:
    return f"iostats-{os.geteuid()}-"


def _list_private_directories() -> Iterator[str]:
    for name in sorted(os.listdir(TMP)):
        if name.startswith(_make_prefix()):
            path = os.path.join(TMP, name)
            try:
                wrong = explain_permissions(path)
            except FileNotFoundError:                  # another job has just left it
                continue
            if wrong is None:
                yield path


def _choose_default_directory() -> str:
    for path in _list_private_directories():
        return path
    path = os.path.join(TMP, _make_prefix() + os.urandom(8).hex())
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise StateError(f"{path}: cannot be made: {error.strerror}; name another directory "
                         f"{BY_STATE_DIR}") from None
    return path


class _OthersCanWrite(Exception):
    """Others than root can put a file into a directory; the text says where."""


def _check_only_root_writes(path: str, allowed: int = 0) -> None:
    """
    Check that only root can put a file into `path`; _OthersCanWrite.

    `allowed`: S_ISVTX for a directory above it.  Who may write to one of those could move this one
    away, unless it is sticky, as /tmp is.
    """
    path = os.path.abspath(path)
    if not allowed and not stat.S_ISDIR(os.lstat(path).st_mode):
        raise _OthersCanWrite(f"{path}, a link or a file")
    while True:
        status = os.lstat(path)
        if status.st_uid != 0:
            raise _OthersCanWrite(f"{path} of user {status.st_uid}")
        if (status.st_mode & 0o022 and not stat.S_ISLNK(status.st_mode)
                and not status.st_mode & allowed):
            raise _OthersCanWrite(f"{path} of mode {stat.S_IMODE(status.st_mode):04o}")
        if path == "/":
            return
        path, allowed = os.path.dirname(path), stat.S_ISVTX


def _make_public(path: str) -> None:
    """
    Create `path`, readable for everybody, if it does not exist; StateError if users other than root
    can change it.
    """
    above = os.path.dirname(path)
    if not os.path.lexists(above):
        _make_public(above)
    try:
        _check_only_root_writes(above, allowed=stat.S_ISVTX)
        if not os.path.lexists(path):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o755)                      # whatever the umask is
        _check_only_root_writes(path)
    except _OthersCanWrite as wrong:
        raise StateError(f"{path}: expected directories that only root can write to, got {wrong}; "
                         f"fix it, or name another in site.cfg, [node] public_dir") from None


def _delete_old(directory: str, now: float, boot_id: str, up: float) -> None:
    """
    Remove starts that were not used for 90 days; one of this boot stays for the first 90 days of
    the boot, even if the wall clock is wrong.
    """
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.lstat(path).st_mtime < now - _PUBLIC_START_LIVES_S and (
                up > _PUBLIC_START_LIVES_S or not _is_from_boot(path, boot_id)):
            remove_if_present(path)


def _is_from_boot(path: str, boot_id: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return f"\nboot_id {boot_id}\n".encode() in os.read(handle, 4096)
    except OSError:
        return False
    finally:
        os.close(handle)


def _load(path: str, owner: int | None = None) -> bytes | None:
    """The bytes of `path`, a file of ours or of the user `owner`; None when it is not there."""
    owner = os.geteuid() if owner is None else owner
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise StateError(f"{path}: expected a file of user {owner}, got a link, a "
                             f"directory or a file of user {status.st_uid}; remove it")
        return read_text(path).encode("latin-1")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
