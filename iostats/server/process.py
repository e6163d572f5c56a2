"""
Settings of a server's process: open files, memory that is returned to the kernel, a fast loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import socket
from typing import TYPE_CHECKING

from iostats.base.errors import StateError

if TYPE_CHECKING:
    from iostats.base.config import Config

_FEWEST_FILES = 32
_M_MMAP_THRESHOLD = -3                                 # of <malloc.h>


def use_uvloop() -> None:
    """Use uvloop where it is installed: it takes twice the connections a second."""
    with contextlib.suppress(ModuleNotFoundError):
        import uvloop
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def _return_memory() -> None:
    """
    Return the memory of large messages to the kernel.

    glibc raises its threshold when a large block is freed: after one message of 16 MiB the next
    ones come from a heap that does not shrink.  Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    with contextlib.suppress(OSError, AttributeError):           # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 17)


def check_open_files() -> None:
    """StateError where the limit is too low for even a small job."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < _FEWEST_FILES:
        raise StateError(f"open files: expected a limit of at least {_FEWEST_FILES}, got {hard} "
                         f"(ulimit -Hn)")


def raise_limits(config: Config, reserved: int = 64) -> None:
    """
    Allow as many open files as the system does, and no more connections than that less `reserved`.
    """
    _return_memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    max_connections = max(16, min(config.server.max_connections, soft - reserved))
    config.set_value("server.max_connections", str(max_connections),
                     "the limit of open files (ulimit -n)")


def notify_systemd(text: str) -> None:
    """sd_notify(3), for a unit of Type=notify: systemctl start waits until the server listens."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    if where.startswith(("/", "@")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX,
                                                         socket.SOCK_DGRAM) as sender:
            sender.connect(where.replace("@", "\0", 1) if where[0] == "@" else where)
            sender.send(text.encode())
