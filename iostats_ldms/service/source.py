"""
Sources of the service's description: etcd, followed in a thread, or a file that is checked for
changes.

An invalid description is logged, and the last valid one stays in force.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from iostats.base.errors import IostatsError, sanitize
from iostats.base.input_files import format_input_name
from iostats.etcd.client import Away, Back, Etcd, Stop
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description, read_text
from iostats_ldms.published import read_current_description

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats_ldms.description.model import Description
    from iostats_ldms.service.service import Service

_CHECK_EVERY_S = 1.0                       # between two checks of a file
_RETRY_S = 2.0                      # after an incomplete description


class EtcdSource:
    """Follows the valid description in etcd and passes each new one to the service."""

    def __init__(self, etcd: Etcd, service: Service, emit: Callable[[str], object]):
        self._etcd, self._service, self._log = etcd, service, emit
        self._loop = asyncio.get_running_loop()
        self._stop = Stop()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="description")
        self._current = (-1, "")              # (number, SHA-256) of the last one

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._stop.set()

    def _follow(self) -> None:
        for news in self._etcd.follow(self._etcd.key("current"), self._stop):
            if isinstance(news, Away):
                self._log(f"etcd does not answer: {sanitize(news.why)}; the description stays in "
                          "force")
            elif isinstance(news, Back):
                self._log("etcd answers again")
            else:
                self._read()

    def _read(self) -> None:
        last_error = ""
        while not self._stop.is_set():
            try:
                result = read_current_description(self._etcd)
            except IostatsError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    self._log(f"the description cannot be read: {sanitize(last_error)}")
                self._stop.wait(_RETRY_S)
                continue
            if result is None:
                self._log("etcd has no description yet: iostats ldms load FILE")
                return
            revision, text = result
            name = f"etcd, description {revision.number}"
            made = _parse_or_log(text, name, self._log)
            # Numbers restart at 1 if everything was deleted, or etcd was replaced.
            if made is not None and (revision.number, revision.sha256) != self._current:
                self._current = (revision.number, revision.sha256)
                try:
                    self._loop.call_soon_threadsafe(self._service.describe, made, revision.number)
                except RuntimeError:            # the loop has ended
                    pass
            return


async def follow_file(path: str, service: Service, emit: Callable[[str], object],
                      stop: asyncio.Event) -> None:
    """Pass the description in a file to the service whenever the file changes."""
    stamp = _read_stamp(path)
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), _CHECK_EVERY_S)
        except asyncio.TimeoutError:
            pass
        now = _read_stamp(path)
        if now == stamp or now is None:
            continue
        stamp = now
        try:
            made = _parse_or_log(read_text(path), path, emit)
        except IostatsError as error:
            emit(sanitize(str(error)))
            continue
        if made is not None:
            service.describe(made, None)


def _parse_or_log(text: str, name: str, emit: Callable[[str], object]) -> Description | None:
    try:
        result, warnings = read_description(text, format_input_name(name))
    except DescriptionError as error:
        for line in error.format_lines():
            emit(line)
        emit(f"{name}: rejected; the previous description stays in force")
        return None
    for warning in warnings:
        emit(f"warning: {warning.format_line(format_input_name(name))}")
    return result


def _read_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        result = os.stat(path)
    except OSError:
        return None
    return result.st_mtime_ns, result.st_size, result.st_ino
