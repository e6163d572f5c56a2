"""
What a node keeps between `start` and `stop`: files in a directory that is this user's alone.

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
from iostats.base.job_id import as_filename
from iostats.base.private_files import (
    forget,
    make_private,
    not_kept,
    read_text,
    what_is_wrong,
    write_whole,
)
from iostats.node.identity import boot_id, seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TMP = "/tmp"
BY_OPTION, BY_HOOK_DIR = "with --state-dir", "in site.cfg: [node] hook_dir"
_PUBLIC_START_LIVES_S = 90 * 86400        # no `stop` has removed it, and /run is memory


class StartFiles:
    """The files of one job on one node."""

    def __init__(self, directory: str, job: str, node: str, public_dir: str = "",
                 how: str = BY_OPTION) -> None:
        """`how` to name another directory: BY_OPTION, or as site.cfg's key."""
        self.directory, self.public_dir, self._how = directory, public_dir, how
        self._stem = as_filename(job, node)
        self._path = os.path.join(directory, self._stem)
        self.start_path = self.loaded_from = self._path + ".start"
        self.watch_path = self._path + ".watch"
        self.events_path = self._path + ".events"
        self.journal_path = self._path + ".journal"
        self.public_path = public_dir and os.path.join(public_dir, self._stem + ".start")

    def keep_start(self, data: bytes, replace: bool) -> bool:
        """
        Keep `data` as the start snapshot; False when there is one already and not `replace`.

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
            wrong = _what_is_wrong_with_public(self.public_dir)
            if wrong:
                raise StateError(f"{self.public_path}: not used: expected directories of root, got "
                                 f"{wrong}; start the job yourself, or name another directory in "
                                 f"site.cfg, [node] public_dir")
            data, self.loaded_from = _load(self.public_path, owner=0), self.public_path
        return data

    def keep_public_start(self, data: bytes) -> None:
        """Keep `data`, as root, where the job's user finds it; StateError."""
        path = os.path.abspath(self.public_dir)
        try:
            _make_public(path)
            self._write_once(self.public_path, data, replace=True, mode=0o644)
            _forget_old(path, time.time(), boot_id(), seconds_since_boot())
        except OSError as error:
            raise StateError(f"{self.public_path}: cannot be kept: {error.strerror}; name another "
                             f"directory in site.cfg, [node] public_dir") from None

    def forget_public_start(self) -> None:
        """Remove what root left for this job; for root alone, others can't."""
        if (os.geteuid() == 0 and self.public_path and os.path.lexists(self.public_path)
                and not _what_is_wrong_with_public(self.public_dir)):
            forget(self.public_path)

    def keep_mark(self, data: bytes) -> None:
        """Keep `data` as the snapshot of the next mark."""
        number = len(self.marks()) + 1
        while not self._write(f"{self._path}.mark.{number:04d}", data, replace=False):
            number += 1

    def marks(self) -> list[str]:
        """Paths of the marks' snapshots, in their order."""
        stem = self._stem + ".mark."
        return [os.path.join(self.directory, name) for name in sorted(_entries(self.directory))
                if name.startswith(stem) and name[len(stem):].isdigit()]

    def keep_watch(self, data: bytes) -> None:
        """Keep what `watch` has seen so far."""
        self._write(self.watch_path, data, replace=True)

    def keep_events(self, data: bytes) -> None:
        """Keep what went wrong so far."""
        self._write(self.events_path, data, replace=True)

    def load(self, path: str) -> bytes | None:
        """The bytes of one of our files, or None when it is not there."""
        return _load(path)

    def forget_start(self) -> None:
        """Remove the start snapshot, and what `mark`, `watch` and looks for events kept."""
        # The start last: a crash in between leaves nothing behind that no `stop` would remove.
        for path in (*self.marks(), self.watch_path, self.events_path, self.start_path):
            forget(path)

    def forget_pieces(self) -> None:
        """Remove what a process that was killed has left of a file: see write_whole."""
        for name in _entries(self.directory):
            if name.startswith(self._stem + ".") and name.endswith(".new"):
                forget(os.path.join(self.directory, name))

    def forget_watch(self) -> None:
        """Remove what `watch` has seen, rates and events."""
        forget(self.watch_path)
        forget(self.events_path)

    def delta_path(self, seq: str) -> str:
        """Where the report of the start `seq` waits."""
        # Ours is of hex digits; that of a damaged start leads out of no directory.
        return os.path.join(self.directory, f"{self._stem}.{as_filename(seq)}.delta")

    def keep_delta(self, seq: str, data: bytes) -> None:
        """Keep a report until it is delivered."""
        self._write(self.delta_path(seq), data, replace=True)

    def deltas(self) -> dict[str, bytes]:
        """{path: bytes} of the reports that wait, in no order."""
        found = {}
        for name in _entries(self.directory):
            if name.startswith(self._stem + ".") and name.endswith(".delta"):
                path = os.path.join(self.directory, name)
                data = _load(path)
                if data is not None:
                    found[path] = data
        return found

    def leave(self) -> None:
        """Remove the directory when it is one of ours below /tmp, and empty."""
        if os.path.dirname(self.directory) == TMP and os.path.basename(self.directory).startswith(
                _prefix()):
            try:
                os.rmdir(self.directory)
            except OSError:
                pass                                   # another job still has files there

    def _write(self, path: str, data: bytes, replace: bool) -> bool:
        try:
            return self._write_once(path, data, replace)
        except FileNotFoundError:                      # another job has just left the directory
            try:
                os.mkdir(self.directory, 0o700)
                return self._write_once(path, data, replace)
            except OSError as error:
                raise not_kept(path, error, self._how)
        except OSError as error:
            raise not_kept(path, error, self._how)

    @staticmethod
    def _write_once(path: str, data: bytes, replace: bool, mode: int = 0o600) -> bool:
        return write_whole(path, data, replace, mode)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:                          # another job has just left it
        return []


def _holds_work(state: StartFiles) -> bool:
    return os.path.lexists(state.start_path) or bool(state.deltas())


def open_start_files(directory: str, job: str, node: str, public_dir: str = "",
                     holds: Callable[[StartFiles], bool] = _holds_work,
                     how: str = BY_OPTION) -> StartFiles:
    """
    The StartFiles of `job` on `node` in `directory`, which is made if it is not there.

    `how`: as of StartFiles; `holds`: whether one of our directories below /tmp is this job's, where
    none is named.
    """
    if directory:
        make_private(directory, how)
        return StartFiles(directory, job, node, public_dir, how)
    for directory in _private_directories():
        state = StartFiles(directory, job, node, public_dir)
        if holds(state):
            return state
    return StartFiles(_default_directory(), job, node, public_dir)


def _prefix() -> str:
    return f"iostats-{os.geteuid()}-"


def _private_directories() -> Iterator[str]:
    for name in sorted(os.listdir(TMP)):
        if name.startswith(_prefix()):
            path = os.path.join(TMP, name)
            try:
                wrong = what_is_wrong(path)
            except FileNotFoundError:                  # another job has just left it
                continue
            if wrong is None:
                yield path


def _default_directory() -> str:
    for path in _private_directories():
        return path
    path = os.path.join(TMP, _prefix() + os.urandom(8).hex())
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise StateError(f"{path}: cannot be made: {error.strerror}; name another directory with "
                         f"--state-dir") from None
    return path


def _what_is_wrong_with_public(path: str, allowed: int = 0) -> str | None:
    """
    None when only root can put a file into `path`, else what is in the way.

    `allowed`: S_ISVTX for a directory above it.  Who may write to one of those could move this one
    away, unless it is sticky, as /tmp is.
    """
    path = os.path.abspath(path)
    if not allowed and not stat.S_ISDIR(os.lstat(path).st_mode):
        return f"{path}, a link or a file"
    while True:
        found = os.lstat(path)
        if found.st_uid != 0:
            return f"{path} of user {found.st_uid}"
        if (found.st_mode & 0o022 and not stat.S_ISLNK(found.st_mode)
                and not found.st_mode & allowed):
            return f"{path} of mode {stat.S_IMODE(found.st_mode):04o}"
        if path == "/":
            return None
        path, allowed = os.path.dirname(path), stat.S_ISVTX


def _make_public(path: str) -> None:
    """Make `path`, open to read, if it is not there; StateError where it is not root's alone."""
    above = os.path.dirname(path)
    if not os.path.lexists(above):
        _make_public(above)
    wrong = _what_is_wrong_with_public(above, allowed=stat.S_ISVTX)
    if not wrong and not os.path.lexists(path):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o755)                          # whatever the umask is
    wrong = wrong or _what_is_wrong_with_public(path)
    if wrong:
        raise StateError(f"{path}: expected directories that only root can write to, got {wrong}; "
                         f"fix it, or name another in site.cfg, [node] public_dir")


def _forget_old(directory: str, now: float, boot_id: str, up: float) -> None:
    """
    Remove starts that have not been used for 90 days; one of this boot stays for the first 90 days
    after the boot, whatever the wall clock says.
    """
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if os.lstat(path).st_mtime < now - _PUBLIC_START_LIVES_S and (
                up > _PUBLIC_START_LIVES_S or not _is_of_boot(path, boot_id)):
            forget(path)


def _is_of_boot(path: str, boot_id: str) -> bool:
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
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
            raise StateError(f"{path}: expected a file of user {owner}, got a link, a "
                             f"directory or a file of user {found.st_uid}; remove it")
        return read_text(path).encode("latin-1")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
