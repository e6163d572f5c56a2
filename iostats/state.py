"""
What a node keeps between `start` and `stop`: files in a folder that is this user's alone.

    FOLDER/JOB%20NODE.start          the start snapshot, see snapshot.py
    FOLDER/JOB%20NODE.SEQ.delta      a report that still has to be delivered, as it is sent

FOLDER is --state-dir, or site.cfg's, or /tmp/iostats-UID-RANDOM, found again by its owner and
mode.  It is 0700 and ours, or it is not used; no link is followed; a file is there whole or not at
all (written beside, synced, then linked or renamed into place).
"""

import os
import stat

from iostats.errors import StateError
from iostats.files import read_text
from iostats.jobid import as_filename

TMP = "/tmp"


class State:
    """The files of one job on one node."""

    def __init__(self, folder, job, node):
        self.folder = folder
        self._stem = as_filename(job, node)
        self.start_path = os.path.join(folder, self._stem + ".start")

    def keep_start(self, data, replace):
        """
        Keep `data` as the start snapshot; False when there is one already and not `replace`.

        Raises StateError when it can't be written.
        """
        return self._write(self.start_path, data, replace)

    def load_start(self):
        """The start snapshot's bytes, or None when there is none."""
        return _load(self.start_path)

    def delta_path(self, seq):
        """Where the report of the start `seq` waits."""
        return os.path.join(self.folder, f"{self._stem}.{seq}.delta")

    def keep_delta(self, seq, data):
        """Keep a report until it is delivered."""
        self._write(self.delta_path(seq), data, replace=True)

    def deltas(self):
        """{path: bytes} of the reports that wait, in no order."""
        found = {}
        for name in os.listdir(self.folder):
            if name.startswith(self._stem + ".") and name.endswith(".delta"):
                path = os.path.join(self.folder, name)
                data = _load(path)
                if data is not None:
                    found[path] = data
        return found

    def leave(self):
        """Remove the folder when it is one of ours below /tmp, and empty."""
        if os.path.dirname(self.folder) == TMP and os.path.basename(self.folder).startswith(
                _prefix()):
            try:
                os.rmdir(self.folder)
            except OSError:
                pass                                   # another job still has files there

    def _write(self, path, data, replace):
        try:
            return self._write_once(path, data, replace)
        except FileNotFoundError:                      # another job has just left the folder
            try:
                os.mkdir(self.folder, 0o700)
                return self._write_once(path, data, replace)
            except OSError as error:
                raise _not_kept(path, error)
        except OSError as error:
            raise _not_kept(path, error)

    @staticmethod
    def _write_once(path, data, replace):
        beside = f"{path}.{os.urandom(8).hex()}.new"
        try:
            try:
                handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                                 | os.O_CLOEXEC, 0o600)
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handle, view):]
                    os.fsync(handle)
                finally:
                    os.close(handle)
                if replace:
                    os.rename(beside, path)
                else:
                    os.link(beside, path)
            finally:
                forget(beside)
        except FileExistsError:
            return False
        return True


def _not_kept(path, error):
    return StateError(f"{path}: cannot be kept: {error.strerror}; name another folder with "
                      f"--state-dir")


def forget(path):
    """Remove `path`, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def open_state(folder, job, node):
    """The State of `job` on `node` in `folder`, which is made if it is not there."""
    if folder:
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
        except OSError as error:
            raise StateError(f"{folder}: cannot be made: {error.strerror}; name another folder "
                             f"with --state-dir") from None
        _check_private(folder)
        return State(folder, job, node)
    for folder in _private_folders():
        state = State(folder, job, node)
        if os.path.lexists(state.start_path) or state.deltas():
            return state
    return State(_default_folder(), job, node)


def _prefix():
    return f"iostats-{os.geteuid()}-"


def _private_folders():
    for name in sorted(os.listdir(TMP)):
        if name.startswith(_prefix()):
            path = os.path.join(TMP, name)
            if _what_is_wrong(path) is None:
                yield path


def _default_folder():
    for path in _private_folders():
        return path
    path = os.path.join(TMP, _prefix() + os.urandom(8).hex())
    try:
        os.mkdir(path, 0o700)
    except OSError as error:
        raise StateError(f"{path}: cannot be made: {error.strerror}; name another folder with "
                         f"--state-dir") from None
    return path


def _what_is_wrong(path):
    """None when `path` is a folder of this user alone, else what it is instead."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "a link or a file"
    if found.st_uid != os.geteuid():
        return f"a folder of user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"a folder of mode {stat.S_IMODE(found.st_mode):04o}"
    return None


def _check_private(path):
    wrong = _what_is_wrong(path)
    if wrong:
        raise StateError(f"{path}: expected a folder of user {os.geteuid()} with mode 0700, got "
                         f"{wrong}; mend it, or name another with --state-dir")


def _load(path):
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise StateError(f"{path}: expected a file of user {os.geteuid()}, got a link, a "
                             f"folder or a file of user {found.st_uid}; remove it")
        return read_text(path).encode("latin-1")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
