"""
The disk that a directory is on, or would be on, and whether it is full.
"""

from __future__ import annotations

import os

LEAST_BYTES = 16 << 20               # less than this is a problem


def find_existing_part(directory: str) -> str:
    """Return `directory`, or its nearest ancestor that exists."""
    while not os.path.exists(directory):
        directory = os.path.dirname(os.path.abspath(directory))
    return directory


def find_mount_point(path: str) -> str:
    """The mount point of the disk that the existing `path` is on."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def explain_full(path: str) -> str:
    """
    Return what the disk of the existing `path` lacks, such as "expected 16 MiB free, found 0 MiB";
    "" where it has room for users.
    """
    disk = os.statvfs(path)
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < LEAST_BYTES:
        return f"expected {LEAST_BYTES >> 20} MiB free, found {free_bytes >> 20} MiB"
    # Some file systems have no fixed number of inodes, and say 0 of 0.
    if disk.f_files and not disk.f_favail:
        return f"expected free inodes, found none of {disk.f_files:,}"
    return ""
