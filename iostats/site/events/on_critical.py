"""
The program of [events] on_critical: it is told of critical events, as JSON on its standard input.

    {"host": "mgmt1", "time": 1795333380.1, "events": [{"id": ..., "clients_names": [...]}],
     "more": 0}

`events` are as in docs/events.md, up to 100, by when they became known; `more` is how many others
came with them.  One program runs at a time: what comes meanwhile waits in the store, and the next
run has it together.  Each event is told once, when it is first seen to be that severe: not when it
grows, and not again after a restart.  So it is noted as told before the program is started, and a
server that is killed just then tells of it to no one.  A program that fails is not started again
for the same events; a line in the server's log says why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict

from iostats.base.errors import ConfigError, one_line
from iostats.base.private_files import read_text
from iostats.events.event import as_json
from iostats.events.kinds import SEVERITIES
from iostats.site.events.followers import Follower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event

log = logging.getLogger("iostats")

NAME = "on_critical"
MOST_TOLD = 100                     # events in one run
_REMEMBERED = 10_000                # ids of events that were told
_MOST_STDERR = 4096
_LOOK_EVERY_S = 0.1
_ENDS_WITHIN_S = 5.0                # after SIGTERM
# Popen(user=...) would fork the server; without it, Popen is a vfork and an exec.
_AS_USER = """
import os, sys
name, uid, gid, path = sys.argv[1:]
try:
    os.initgroups(name, int(gid))
    os.setgid(int(gid))
    os.setuid(int(uid))
    os.execv(path, [path])
except OSError as error:
    sys.exit(f"cannot be started as {name}: {error.strerror}")
"""


def followers_of(config: Config, directory: str) -> list[Follower]:
    """[the follower], or [] where no program is named; ConfigError."""
    path = config["events.on_critical"]
    if not path:
        return []
    require_program(config)
    return [OnCritical(directory, path, SEVERITIES.index(config["events.on_critical_severity"]),
                       config["events.on_critical_timeout"], _user_of(config))]


def require_program(config: Config) -> None:
    """ConfigError where a program is named that is not on this machine."""
    path = config["events.on_critical"]
    if path and not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise ConfigError(f"{config.origin['events.on_critical']}: [events] on_critical: expected "
                          f"a program, got {path!r}, which "
                          f"{'is none' if os.path.exists(path) else 'is not there'}")


def _user_of(config: Config) -> pwd.struct_passwd | None:
    """Who the program runs as; None for the server's own user; ConfigError."""
    name = config["events.on_critical_user"]
    if not name:
        return None
    where = f"{config.origin['events.on_critical_user']}: [events] on_critical_user"
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f"{where}: expected a user of this host, got {name!r}") from None
    if os.geteuid() not in (0, user.pw_uid):
        raise ConfigError(f"{where}: expected the user of the site's server, as it does not run as "
                          f"root, got {name!r}")
    return user if user.pw_uid != os.geteuid() else None


class OnCritical(Follower):
    """
    Tells the program; `least`: severity from which on; `timeout_s`: then it is ended; `user`: who
    it runs as, or None.

    Attributes:
        failures: runs that failed.
    """

    def __init__(self, directory: str, path: str, least: int, timeout_s: float,
                 user: pwd.struct_passwd | None = None) -> None:
        super().__init__(NAME, directory, self._told_of)
        self._program, self._least, self._timeout_s = path, least, timeout_s
        self._user = user
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._stopped = threading.Event()
        self.failures = 0

    def begin(self, last: int, places: str) -> None:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            told = json.loads(read_text(self.path))["told"]
            self._ids = OrderedDict.fromkeys(one for one in told if isinstance(one, str))
        super().begin(last, places)

    def kept(self) -> dict[str, Any]:
        return {**super().kept(), "told": list(self._ids)}

    def _told_of(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        if self._stopped.is_set():
            return 0
        new = [event for event in events
               if event.severity >= self._least and event.id not in self._ids]
        if new:
            for event in new:
                self._ids[event.id] = None
            while len(self._ids) > _REMEMBERED:
                self._ids.popitem(last=False)
            self.keep()
            why = self._run_program({
                "host": socket.gethostname(), "time": time.time(),
                "events": [{**as_json(event), "clients_names": [names.get(one, one)
                                                                for one in event.clients]}
                           for event in new[:MOST_TOLD]], "more": len(new[MOST_TOLD:])})
            if why:
                self.failures += 1
                if self.failures & (self.failures - 1) == 0:     # 1, 2, 4, 8, ...
                    log.warning("[events] on_critical: %s: %s (failure %s); it was told of %s "
                                "events, %s the last", self._program, why, self.failures,
                                len(new), new[-1].id)
        return len(events)

    def _run_program(self, document: Mapping[str, Any]) -> str:
        """Why it failed; "" where it did not."""
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(document).encode() + b"\n")
            file.seek(0)
            try:
                process = self._started(file)
            except (OSError, subprocess.SubprocessError) as error:
                return f"cannot be started: {getattr(error, 'strerror', None) or error}"
        assert process.stderr is not None
        with process.stderr:
            said, is_late = self._watched(process, process.stderr.fileno())
        if process.returncode is None:              # we end; it goes on by itself
            process.returncode = 0                  # so that Popen does not complain
            return ""
        line = said.decode("utf-8", "replace").strip().partition("\n")[0]
        line = one_line(line)[:200]
        if is_late:
            return f"ended after {self._timeout_s:g} s, [events] on_critical_timeout"
        if process.returncode:
            how = (f"exit status {process.returncode}" if process.returncode > 0
                   else f"ended by signal {-process.returncode}")
            return f"{how}{': ' * bool(line)}{line}"
        return ""

    def _started(self, file: Any) -> subprocess.Popen[bytes]:
        command = [self._program]
        if self._user is not None:
            command = [sys.executable, "-I", "-S", "-c", _AS_USER, self._user.pw_name,
                       str(self._user.pw_uid), str(self._user.pw_gid), self._program]
        return subprocess.Popen(
            command, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
            start_new_session=True,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "HOME": self._user.pw_dir if self._user else os.path.expanduser("~"),
                 "LC_ALL": "C.UTF-8"})

    def _watched(self, process: subprocess.Popen[bytes], stderr: int) -> tuple[bytes, bool]:
        """(the beginning of what it said, whether it was ended as it took too long)."""
        said, is_open, ends = b"", True, time.monotonic() + self._timeout_s
        is_late = False
        while process.poll() is None and not self._stopped.is_set():
            if time.monotonic() >= ends:
                # First it may clean up; what it has started is ended with it.
                _signal(process, signal.SIGKILL if is_late else signal.SIGTERM)
                is_late, ends = True, time.monotonic() + _ENDS_WITHIN_S
            if not is_open:
                self._stopped.wait(_LOOK_EVERY_S)
            elif select.select([stderr], [], [], _LOOK_EVERY_S)[0]:
                part = os.read(stderr, 65536)
                said, is_open = (said + part)[:_MOST_STDERR], bool(part)
        if is_open and select.select([stderr], [], [], 0)[0]:
            said = (said + os.read(stderr, 65536))[:_MOST_STDERR]
        return said, is_late

    def close(self) -> None:
        self._stopped.set()
        super().close()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
