"""
The version of this program, and the commit from which it was built.
"""

from __future__ import annotations

import os

import iostats

COMMIT_FILE = "commit.txt"              # in the package: written when it is built or installed
_PACKAGE = os.path.dirname(os.path.abspath(iostats.__file__))


def format_version() -> str:
    """
    Return the line of `--version`: "iostats 0.1.0 (commit 1f2e3d4c5b6a)"; without an unknown
    commit.
    """
    commit = find_commit()
    return f"iostats {iostats.__version__}" + (f" (commit {commit})" if commit else "")


def find_commit() -> str:
    """Return the commit that this package was built from, or that is checked out; "" if unknown."""
    try:
        with open(os.path.join(_PACKAGE, COMMIT_FILE), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return _read_checked_out_commit(os.path.dirname(_PACKAGE))


def _read_checked_out_commit(directory: str) -> str:
    """
    Return the first 12 digits of the commit checked out in `directory`; "" if it is not a git
    checkout.
    """
    if not os.path.exists(os.path.join(directory, ".git")):
        return ""
    import subprocess
    try:
        result = subprocess.run(["git", "-C", directory, "rev-parse", "--short=12", "HEAD"],
                                capture_output=True, text=True, timeout=3)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
