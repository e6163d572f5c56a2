"""
An agent's settings as they change in etcd, in threads of their own: settings.py says what they are.

    follow   each change of /PREFIX/agents -> news()
    tell     /PREFIX/agents_seen/HOST, with a lease: what is in force here, and what was wrong

Nothing that fails here, or takes long, keeps a sweep back.
"""

from __future__ import annotations

import json
import os
import threading
import time

from iostats import __version__
from iostats.base import private_files
from iostats.base.errors import ConfigError, IostatsError, StateError, one_line
from iostats.etcd.answers import EtcdAway, EtcdRefused
from iostats.etcd.client import Away, Back, Changes, Loaded, Stop, from_config
from iostats.storage import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config
    from iostats.etcd.client import Etcd
    from iostats.storage.settings import GroupSettings

_LEASE_S, _KEEP_ALIVE_S = 60, 20.0       # an agent that has gone is shown as long
_AGAIN_S = 15.0                          # after a failure
_MEMBER_WITHIN_S = 2.0                   # it has to answer
_ASK_EVERY_S = 5.0                       # whether a silent one is there: hundreds of agents ask it


class FollowedSettings:
    """
    The settings of one storage server, once start() was called.

    `node`: its name; `directory`: where they are kept; `say`: gets a line at a time.
    """

    def __init__(self, config: Config, node: str, directory: str,
                 say: Callable[[str], object]) -> None:
        self._config, self._node, self._say = config, node, say
        self._place = f"/{config['etcd.prefix'].strip('/')}/"
        self._path = os.path.join(directory, settings.NAME)
        self._ended, self._woken = Stop(), threading.Event()
        self._changed = threading.Condition()       # guards what is below
        self._news: GroupSettings | None = None
        self._problem = ""
        self._seen: dict[str, Any] = {}             # what is to be told
        self._threads: list[threading.Thread] = []
        try:
            self._last = settings.kept_at(self._path, self._place)
        except StateError as error:
            self._say(f"{error}; site.cfg is in force until etcd answers")
            self._last = settings.NOTHING
        if self._last.revision is not None:
            self._news = self._last

    # -- the sweeps' thread

    def start(self) -> None:
        """Follow, and tell, until end()."""
        for name, work in (("settings", self._follow), ("settings told", self._tell)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, within_s: float = 2.0) -> None:
        """Stop; what is told here goes."""
        self._ended.set()
        with self._changed:
            self._changed.notify_all()
        until = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def has_news(self) -> bool:
        return self._news is not None

    def wait(self, seconds: float) -> None:
        """Until there is news, at most so long."""
        self._woken.wait(max(0.0, seconds))

    def ask(self) -> None:
        """Ask etcd once, without threads; a line where it does not answer."""
        try:
            with self._etcd() as etcd:
                found = etcd.get(etcd.key("agents"))
                self._take(found and found.value)
        except IostatsError as error:
            self._say(f"settings: {error}; what is in force stays")

    def news(self) -> GroupSettings | None:
        """The GroupSettings that came since it was asked last; None: none did."""
        with self._changed:
            found, self._news = self._news, None
            self._woken.clear()
            return found

    def in_force(self, taken: GroupSettings, values: dict[str, Any], every_s: int) -> None:
        """`taken` is in force now: all these values, and a sweep each `every_s`; it is told."""
        seen = {"revision": taken.revision, "group": taken.group, "settings": values,
                "sweep_every_s": every_s}
        if seen != self._seen:
            with self._changed:
                self._seen = seen
                self._changed.notify_all()

    # -- from etcd

    def _follow(self) -> None:
        said = ""
        while not self._ended.is_set():
            try:
                with self._etcd() as etcd:
                    self._follow_at(etcd)
            except Exception as error:             # a bug here is no reason to end the sweeps
                text = (str(error) if isinstance(error, (IostatsError, OSError)) else
                        f"internal error; please report: {error!r}")
                if text != said:
                    said = text
                    self._say(f"settings: {one_line(text)}; what is in force stays")
                self._ended.wait(_AGAIN_S)

    def _etcd(self) -> Etcd:
        return from_config(self._config, timeout_s=_MEMBER_WITHIN_S)

    def _follow_at(self, etcd: Etcd) -> None:
        key, is_away = etcd.key("agents"), False
        for news in etcd.follow(key, self._ended, _ASK_EVERY_S):
            if isinstance(news, Away):
                is_away = True
                self._say(f"settings: {one_line(news.why)}; what is in force stays")
            elif isinstance(news, Back):
                if is_away:
                    self._say("settings: etcd answers again")
                is_away = False
                with self._changed:
                    self._changed.notify_all()         # what could not be told is told now
            elif isinstance(news, Loaded):
                self._take(news.values.get(key))
            elif isinstance(news, Changes):
                self._take(news.changes[-1][1])

    def _take(self, document: bytes | None) -> None:
        """What stands in etcd now."""
        try:
            found = settings.group_of(document, self._node)
        except settings.WrongSettings as error:
            of = "" if error.revision is None else f"description {error.revision}: "
            self._note(f"{of}{error}")
            last = self._last.revision
            self._say(f"settings: {of}{error}; what is in force stays: "
                      f"{'site.cfg' if last is None else f'description {last}'}")
            return
        self._note("")
        if found == self._last and self._seen:
            return
        try:
            settings.keep_at(self._path, self._place, found)
        except OSError as error:
            self._say(f"{self._path}: cannot be kept: {private_files.why(error)}; an agent that "
                      f"is started while etcd is away has older settings")
        with self._changed:
            self._last = self._news = found
            self._woken.set()

    def _note(self, problem: str) -> None:
        with self._changed:
            if problem != self._problem:
                self._problem = problem
                self._changed.notify_all()

    # -- to etcd

    def _tell(self) -> None:
        told: dict[str, Any] = {}
        lease, etcd = 0, None
        while not self._ended.is_set():
            with self._changed:
                seen = {**self._seen, "problem": self._problem} if self._seen else {}
            try:
                etcd = etcd or self._etcd()
                if lease and not etcd.keep_alive(lease):
                    lease = 0
                if seen and (seen != told or not lease):
                    lease = lease or etcd.grant(_LEASE_S)
                    etcd.put(etcd.key("agents_seen", self._node), json.dumps(
                        {**seen, "time": round(time.time(), 3), "version": __version__},
                        separators=(",", ":")).encode(), lease)
                    told = seen
                pause = _KEEP_ALIVE_S
            except (EtcdAway, EtcdRefused, ConfigError, OSError):
                pause = _AGAIN_S                    # the other thread says it
            except Exception as error:
                self._say(f"internal error; please report: {error!r}; settings are not told")
                pause = _AGAIN_S
            with self._changed:
                now = {**self._seen, "problem": self._problem} if self._seen else {}
                if now == seen and not self._ended.is_set():
                    self._changed.wait(pause)
        if etcd is not None:
            try:
                if lease:
                    etcd.revoke(lease)
                etcd.close()
            except (IostatsError, OSError):
                pass
