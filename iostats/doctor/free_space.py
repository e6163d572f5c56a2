"""
The disk that a directory is on, or would be on, for the doctor.
"""

from __future__ import annotations

import os

LEAST_BYTES = 16 << 20               # less than this is a problem


def find_existing_part(directory: str) -> str:
    """Return `directory`, or its nearest ancestor that exists."""
    while not os.path.exists(directory):
        directory = os.path.dirname(os.path.abspath(directory))
    return directory


def query_free_bytes(directory: str) -> int:
    """The bytes that users may still write to the disk."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
