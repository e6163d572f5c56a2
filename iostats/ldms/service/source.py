"""
Where the service has its description from: etcd, followed in a thread, or a file, looked at again.

What is wrong is told, and the last good one stays in force.
"""

from __future__ import annotations

import asyncio
import os
import threading

from iostats.base.errors import IostatsError, one_line
from iostats.base.input_files import name_of
from iostats.etcd.client import Away, Back, Etcd, Stop
from iostats.ldms.description.problems import DescriptionError
from iostats.ldms.description.read import description
from iostats.ldms.description_file import text_of
from iostats.ldms.published.descriptions import read_current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.ldms.description.normal import Description
    from iostats.ldms.service.service import Service

_LOOK_S = 1.0                       # between two looks at a file
_AGAIN_S = 2.0                      # after a description that was not whole


class EtcdSource:
    """Follows the description that is valid in etcd; each becomes the service's."""

    def __init__(self, etcd: Etcd, service: Service, say: Callable[[str], object]):
        self._etcd, self._service, self._say = etcd, service, say
        self._loop = asyncio.get_running_loop()
        self._stop = Stop()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="description")
        self._taken = (-1, "")              # (number, SHA-256) of the last one

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for its end; it does not wait for it."""
        self._stop.set()

    def _follow(self) -> None:
        for news in self._etcd.follow(self._etcd.key("current"), self._stop):
            if isinstance(news, Away):
                self._say(f"etcd is away: {one_line(news.why)}; the description stays as it is")
            elif isinstance(news, Back):
                self._say("etcd is back")
            else:
                self._read()

    def _read(self) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                found = read_current(self._etcd)
            except IostatsError as error:
                if str(error) != told:
                    told = str(error)
                    self._say(f"the description cannot be read: {one_line(told)}")
                self._stop.wait(_AGAIN_S)
                continue
            if found is None:
                self._say("etcd has no description yet: iostats ldms load FILE")
                return
            revision, text = found
            name = f"etcd, description {revision.number}"
            made = _made(text, name, self._say)
            # Numbers begin at 1 again where all was deleted, or etcd is another one.
            if made is not None and (revision.number, revision.sha256) != self._taken:
                self._taken = (revision.number, revision.sha256)
                try:
                    self._loop.call_soon_threadsafe(self._service.describe, made, revision.number)
                except RuntimeError:            # the loop has ended
                    pass
            return


async def follow_file(path: str, service: Service, say: Callable[[str], object],
                      stop: asyncio.Event) -> None:
    """The description in a file becomes the service's each time that the file is another."""
    seen = _stamp(path)
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), _LOOK_S)
        except asyncio.TimeoutError:
            pass
        now = _stamp(path)
        if now == seen or now is None:
            continue
        seen = now
        try:
            made = _made(text_of(path), path, say)
        except IostatsError as error:
            say(one_line(str(error)))
            continue
        if made is not None:
            service.describe(made, None)


def _made(text: str, name: str, say: Callable[[str], object]) -> Description | None:
    try:
        found, warnings = description(text, name_of(name))
    except DescriptionError as error:
        for line in error.lines():
            say(line)
        say(f"{name}: is not taken; the description before it stays in force")
        return None
    for warning in warnings:
        say(f"warning: {warning.as_line(name_of(name))}")
    return found


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
