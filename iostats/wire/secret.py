"""
The job's secret: 32 random bytes, as 64 hex digits in a file that only its user can read.

The server makes it, and the nodes read it, in a directory that they share (site.cfg: [secret] dir,
~/.iostats by default); or it is in the environment, as IOSTATS_SECRET.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from iostats.base.errors import ConfigError, NotDelivered, StateError
from iostats.base.job_id import as_filename
from iostats.base.private_files import make_directories, read_text, write_whole

VARIABLE = "IOSTATS_SECRET"
_SHORTEST = 16

SecretHints = namedtuple("SecretHints", "missing short shared denied")
SecretHints.__doc__ = """
What to do about a secret.

Attributes:
    missing, short: where there is none, or one of too few characters.
    shared: where others can read it; `denied`: where we cannot.
"""
_NEW_ONE = "remove it where the server runs, which makes a new one"
_OF_A_SERVER = SecretHints(
    "the server makes it: is that running, and is the directory shared, or the file copied to "
    "here?", _NEW_ONE, _NEW_ONE,
    "it is another user's.  The site's server authenticates ordinary users by munge: [server] "
    "auth = munge secret in site.cfg, here and there")


def where(named: str | None, directory: str, job: str) -> str | None:
    """
    The path of the secret of `job`, or None for the environment.

    `named` (--secret) wins, then IOSTATS_SECRET, then a file in `directory` ([secret] dir).
    """
    if named:
        return named
    if os.environ.get(VARIABLE):
        return None
    home = os.path.expanduser(directory)
    if home.startswith("~"):
        raise ConfigError(f"[secret] dir: expected a directory, got {directory!r}, whose home "
                          f"is not known; name a file with --secret")
    return os.path.join(home, as_filename(job) + ".secret")


def load(path: str | None, hints: SecretHints = _OF_A_SERVER) -> bytes:
    """
    The secret's bytes, from `path`, or from the environment when that is None.

    Raises NotDelivered when there is none yet, StateError when it is not safe to use.
    """
    text = (os.environ[VARIABLE] if path is None else _read(path, hints)).strip()
    if len(text) < _SHORTEST:
        raise StateError(f"{path or VARIABLE}: expected a secret of at least {_SHORTEST} "
                         f"characters, got {len(text)}; {hints.short}")
    return text.encode("latin-1", "replace")


def _read(path: str, hints: SecretHints) -> str:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise StateError(f"{path}: expected a file of mode 0600, got mode "
                             f"{stat.S_IMODE(found.st_mode):04o}; others could have read it: "
                             f"{hints.shared}")
        return read_text(path)
    except FileNotFoundError:
        raise NotDelivered(f"{path}: no secret; {hints.missing}") from None
    except PermissionError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}; {hints.denied}") from None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None


def make(path: str | None) -> bool:
    """Make a new secret in `path`, unless one is there already; True when it was made."""
    if path is None or os.path.lexists(path):      # its directory may be read-only
        return False
    try:
        make_directories(os.path.dirname(path))
        return write_whole(path, os.urandom(32).hex().encode() + b"\n", replace=False)
    except OSError as error:
        raise StateError(f"{path}: the secret cannot be made: {error.strerror}; name another "
                         f"file with --secret") from None
