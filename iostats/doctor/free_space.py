"""
The disk that a directory is on, or would be on, for the doctor.
"""

from __future__ import annotations

import os

LEAST_BYTES = 16 << 20               # less than this is a problem


def existing_part(directory: str) -> str:
    """`directory`, or the nearest directory above it that is there."""
    while not os.path.exists(directory):
        directory = os.path.dirname(os.path.abspath(directory))
    return directory


def free_bytes(directory: str) -> int:
    """What users may still write there, in bytes."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
