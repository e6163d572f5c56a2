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
from iostats.base.errors import ConfigError, IostatsError, StateError, sanitize
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

_LEASE_S, _KEEP_ALIVE_S = 60, 20.0       # an agent that has ended is shown as long
_AGAIN_S = 15.0                          # after a failure
_MEMBER_WITHIN_S = 2.0                   # it has to answer
_ASK_EVERY_S = 5.0                       # whether a silent one is there: hundreds of agents ask it


class FollowedSettings:
    """Follows the settings of one storage server in etcd, from start() on.

    `node`: its name; `directory`: where they are stored; `emit`: gets a line at a time.
    """

    def __init__(self, config: Config, node: str, directory: str,
                 emit: Callable[[str], object]) -> None:
        self._config, self._node, self._emit = config, node, emit
        self._place = f"/{config.etcd.prefix.strip('/')}/"
        self._path = os.path.join(directory, settings.NAME)
        self._ended, self._woken = Stop(), threading.Event()
        self._changed = threading.Condition()       # guards what is below
        self._news: GroupSettings | None = None
        self._problem = ""
        self._seen: dict[str, Any] = {}             # the state to report
        self._threads: list[threading.Thread] = []
        try:
            self._last = settings.load_settings(self._path, self._place)
        except StateError as error:
            self._emit(f"{error}; site.cfg is in force until etcd answers")
            self._last = settings.NOTHING
        if self._last.revision is not None:
            self._news = self._last

    # -- the sweeps' thread

    def start(self) -> None:
        """Follow the settings in etcd, and report those in force, until end()."""
        for name, work in (("settings", self._follow), ("settings status", self._report)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, within_s: float = 2.0) -> None:
        """Stop; the agent's report in etcd is removed."""
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
        """Wait for new settings, for at most `seconds`."""
        self._woken.wait(max(0.0, seconds))

    def ask(self) -> None:
        """Query etcd once, without threads; a failure is logged."""
        try:
            with self._connect_etcd() as etcd:
                document = etcd.get(etcd.key("agents"))
                self._read_document(document and document.value)
        except IostatsError as error:
            self._emit(f"settings: {error}; what is in force stays")

    def take_new_settings(self) -> GroupSettings | None:
        """Return the GroupSettings that arrived since the last call; None without new ones."""
        with self._changed:
            group_settings, self._news = self._news, None
            self._woken.clear()
            return group_settings

    def note_in_force(self, group_settings: GroupSettings, values: dict[str, object],
                      every_s: int) -> None:
        """Report that these settings of a group are in force, and a sweep each `every_s`."""
        state = {"revision": group_settings.revision, "group": group_settings.group,
                 "settings": values, "sweep_every_s": every_s}
        if state != self._seen:
            with self._changed:
                self._seen = state
                self._changed.notify_all()

    # -- from etcd

    def _follow(self) -> None:
        logged = ""
        while not self._ended.is_set():
            try:
                with self._connect_etcd() as etcd:
                    self._follow_at(etcd)
            except Exception as error:             # a bug here is no reason to end the sweeps
                text = (str(error) if isinstance(error, (IostatsError, OSError)) else
                        f"internal error; please report: {error!r}")
                if text != logged:
                    logged = text
                    self._emit(f"settings: {sanitize(text)}; what is in force stays")
                self._ended.wait(_AGAIN_S)

    def _connect_etcd(self) -> Etcd:
        return from_config(self._config, timeout_s=_MEMBER_WITHIN_S)

    def _follow_at(self, etcd: Etcd) -> None:
        key, is_away = etcd.key("agents"), False
        for news in etcd.follow(key, self._ended, _ASK_EVERY_S):
            if isinstance(news, Away):
                is_away = True
                self._emit(f"settings: {sanitize(news.why)}; what is in force stays")
            elif isinstance(news, Back):
                if is_away:
                    self._emit("settings: etcd answers again")
                is_away = False
                with self._changed:
                    self._changed.notify_all()         # failed reports are retried now
            elif isinstance(news, Loaded):
                self._read_document(news.values.get(key))
            elif isinstance(news, Changes):
                self._read_document(news.changes[-1][1])

    def _read_document(self, document: bytes | None) -> None:
        """Read the document that etcd has now."""
        try:
            group_settings = settings.find_group(document, self._node)
        except settings.WrongSettings as error:
            of = "" if error.revision is None else f"description {error.revision}: "
            self._note(f"{of}{error}")
            last = self._last.revision
            self._emit(f"settings: {of}{error}; what is in force stays: "
                       f"{'site.cfg' if last is None else f'description {last}'}")
            return
        self._note("")
        if group_settings == self._last and self._seen:
            return
        try:
            settings.store_settings(self._path, self._place, group_settings)
        except OSError as error:
            self._emit(f"{self._path}: cannot be written: {private_files.explain_error(error)}; an "
                       f"agent that is started while etcd is unreachable uses older settings")
        with self._changed:
            self._last = self._news = group_settings
            self._woken.set()

    def _note(self, problem: str) -> None:
        with self._changed:
            if problem != self._problem:
                self._problem = problem
                self._changed.notify_all()

    # -- to etcd

    def _report(self) -> None:
        reported: dict[str, Any] = {}
        lease, etcd = 0, None
        while not self._ended.is_set():
            with self._changed:
                state = {**self._seen, "problem": self._problem} if self._seen else {}
            try:
                etcd = etcd or self._connect_etcd()
                if lease and not etcd.keep_alive(lease):
                    lease = 0
                if state and (state != reported or not lease):
                    lease = lease or etcd.grant(_LEASE_S)
                    etcd.put(etcd.key("agents_seen", self._node), json.dumps(
                        {**state, "time": round(time.time(), 3), "version": __version__},
                        separators=(",", ":")).encode(), lease)
                    reported = state
                pause_s = _KEEP_ALIVE_S
            except (EtcdAway, EtcdRefused, ConfigError, OSError):
                pause_s = _AGAIN_S                    # the other thread says it
            except Exception as error:
                self._emit(f"internal error; please report: {error!r}; settings are not reported")
                pause_s = _AGAIN_S
            with self._changed:
                now = {**self._seen, "problem": self._problem} if self._seen else {}
                if now == state and not self._ended.is_set():
                    self._changed.wait(pause_s)
        if etcd is not None:
            try:
                if lease:
                    etcd.revoke(lease)
                etcd.close()
            except (IostatsError, OSError):
                pass
