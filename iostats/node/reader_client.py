"""
Ask the reader for the counter files that only root may read.

The reader is `iostats_client.py show --json`, started by systemd for each connection to its socket,
with CAP_DAC_READ_SEARCH and nothing else (systemd/).  It takes no input, so there is nothing that
a user could ask it but this; its answer has each file's text as the kernel printed it.

It is trusted where root or this user made the socket (SO_PEERCRED), within limits of time and size;
without it a node has what it could read itself.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time

from iostats.base import strict_json
from iostats.base.errors import sanitize
from iostats.lustre.paths import File
from iostats.totals.snapshot import explain_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

ANSWER_WITHIN_S = 5.0
LONGEST_ANSWER = 64 << 20


class ReaderError(Exception):
    """The reason for which the reader's answer cannot be used."""


def fill_files(files: list[File], refused: Container[int], path: str,
               emit: Callable[[str], None]) -> tuple[list[File], set[str]]:
    """
    Return (`files` with those that were refused as the reader at `path` sees them, {sources it
    gave}).

    Everything else stays as it is.  `refused`: the errnos that count as a refusal.  `emit`
    gets one line where the reader was of no use.
    """
    try:
        answer = ask(path)
    except ReaderError as error:
        emit(f"reader {path}: {sanitize(error)}; continuing without")
        return files, set()
    completed: list[File] = []
    gave: set[str] = set()
    still = ""
    for file in files:
        if file.errno in refused:
            answered = answer.get((file.source, file.name))
            if answered is not None and not answered.errno:
                file = answered
                gave.add(file.source)
            else:
                if answered is not None and answered.errno == errno.EPERM:
                    file = answered                # our EACCES hides that not even root may
                still = explain_code(file.errno if answered is None else answered.errno)
        completed.append(file)
    if still and not gave:
        emit(f"reader {path}: it may not read them either ({still}); continuing without")
    return completed, gave


def ask(path: str) -> dict[tuple[str, str], File]:
    """Return {(source, name): File} as read by the reader at `path`; ReaderError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            return decode_files(_answer(connection, path, time.monotonic() + ANSWER_WITHIN_S))
    except socket.timeout:
        raise ReaderError(f"no whole answer within {ANSWER_WITHIN_S:g} s") from None
    except OSError as error:
        raise ReaderError(error.strerror or str(error)) from None


def _answer(connection: socket.socket, path: str, until: float) -> bytes:
    connection.settimeout(ANSWER_WITHIN_S)
    connection.connect(path)
    # struct ucred: pid, uid, gid of who called listen(), three ints (unix(7)).
    owner = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8],
                           sys.byteorder)
    if owner not in (0, os.geteuid()):
        raise ReaderError(f"expected a socket of root, got one of user {owner}")
    parts: list[bytes] = []
    length = 0
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise socket.timeout
        connection.settimeout(left)
        part = connection.recv(1 << 18)
        if not part:
            break
        parts.append(part)
        length += len(part)
        if length > LONGEST_ANSWER:
            raise ReaderError(f"expected up to {LONGEST_ANSWER >> 20} MiB, got more")
    if not parts:
        raise ReaderError("it closed the connection without an answer (too many at once, or see "
                          "its journal)")
    return b"".join(parts)


def decode_files(data: bytes) -> dict[tuple[str, str], File]:
    """Return {(source, name): File} of the answer of `show --json`; ReaderError."""
    try:
        files = {}
        for entry in strict_json.loads(data)["files"]:
            file = File(*(entry[name] for name in File._fields))
            if not (all(type(value) is str for value in (*file[:3], file.text))
                    and type(file.errno) is int and 0 <= file.errno < 4096):
                raise ValueError
            # What a snapshot on disk can hold: a byte a character, names of one line.
            file.text.encode("latin-1")
            if "\n" in file.path:
                raise ValueError
            files[file.source, file.name] = file
        return files
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ReaderError(f"expected the answer of `show --json`, got {len(data)} bytes that begin "
                          f"with {data[:30].decode('latin-1')!r}") from None
