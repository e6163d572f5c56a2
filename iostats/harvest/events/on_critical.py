"""
The program of [events] on_critical: it gets critical events as JSON on its standard input.

    {"host": "mgmt1", "time": 1795333380.1, "events": [{"id": ..., "clients_names": [...]}],
     "more": 0}

`events` are as in docs/how-to/events.md, up to 100, in their order of arrival; `more` is the number
of further ones.  One program runs at a time: later events wait in the store, and the next run gets
them together.  Each event is sent once, when it first has that severity: not when it grows, and not
again after a restart.  So it is recorded as sent before the program is started, and a server that
is killed at that moment sends it to no program.  A program that fails is not started again for the
same events; a line in the server's log has the reason.
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
from typing import TYPE_CHECKING

from iostats.base.errors import ConfigError, sanitize
from iostats.base.users import find_user
from iostats.events.event import as_json
from iostats.events.kinds import SEVERITIES
from iostats.harvest.events.followers import Follower

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.store.event_store import EventStore

log = logging.getLogger(__name__)

NAME = "on_critical"
MAX_EVENTS = 100                # events in one run
_MAX_SENT_IDS = 10_000          # ids of events that were sent
_MAX_STDERR = 4096
_POLL_EVERY_S = 0.1
_ENDS_WITHIN_S = 5.0            # after SIGTERM
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


def make_followers(config: Config) -> list[Follower]:
    """Return [the OnCritical], or [] if no program is configured; ConfigError."""
    path = config.events.on_critical
    if not path:
        return []
    require_program(config)
    return [OnCritical(path, SEVERITIES.index(config.events.on_critical_severity),
                       config.events.on_critical_timeout, _find_program_user(config))]


def require_program(config: Config) -> None:
    """ConfigError if the configured program is not on this machine."""
    path = config.events.on_critical
    if path and not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise ConfigError(f"{config.origin['events.on_critical']}: [events] on_critical: expected "
                          f"a program, got {path!r}, which "
                          f"{'is none' if os.path.exists(path) else 'is not there'}")


def _find_program_user(config: Config) -> pwd.struct_passwd | None:
    """The user that the program runs as; None for the server's own user; ConfigError."""
    name = config.events.on_critical_user
    if not name:
        return None
    where = f"{config.origin['events.on_critical_user']}: [events] on_critical_user"
    user = find_user(name)
    if user is None:
        raise ConfigError(f"{where}: expected a user of this host, got {name!r}")
    if os.geteuid() not in (0, user.pw_uid):
        raise ConfigError(f"{where}: expected the user of the site's server, as it does not run as "
                          f"root, got {name!r}")
    return user if user.pw_uid != os.geteuid() else None


class _ProgramFailed(Exception):
    """The program did not end with exit status 0; the text says how it ended."""


class OnCritical(Follower):
    """
    Runs the program; `least`: the lowest severity; `timeout_s`: until the program is ended; `user`:
    the user that it runs as, or None.

    Attributes:
        failures: runs that failed.
    """

    def __init__(self, path: str, least: int, timeout_s: float,
                 user: pwd.struct_passwd | None = None) -> None:
        super().__init__(NAME, self._send_events)
        self._program, self._min_severity, self._timeout_s = path, least, timeout_s
        self._user = user
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._stopped = threading.Event()
        self.failures = 0

    def begin(self, last: int, store: EventStore) -> None:
        super().begin(last, store)
        with contextlib.suppress(ValueError, TypeError):
            sent = self.saved_members().get("sent")
            self._ids = OrderedDict.fromkeys(event_id for event_id in (
                sent if isinstance(sent, list) else ()) if isinstance(event_id, str))

    def saved_state(self) -> dict[str, object]:
        return {**super().saved_state(), "sent": list(self._ids)}

    def _send_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        if self._stopped.is_set():
            return 0
        new = [event for event in events
               if event.severity >= self._min_severity and event.id not in self._ids]
        if new:
            for event in new:
                self._ids[event.id] = None
            while len(self._ids) > _MAX_SENT_IDS:
                self._ids.popitem(last=False)
            self.save()
            document = {
                "host": socket.gethostname(), "time": time.time(),
                "events": [{**as_json(event), "clients_names": [names.get(client, client)
                                                                for client in event.clients]}
                           for event in new[:MAX_EVENTS]], "more": len(new[MAX_EVENTS:])}
            try:
                self._run_program(document)
            except _ProgramFailed as error:
                self.failures += 1
                if self.failures & (self.failures - 1) == 0:     # 1, 2, 4, 8, ...
                    log.warning("[events] on_critical: %s: %s (failure %s); it received %s "
                                "events, %s the last", self._program, error, self.failures,
                                len(new), new[-1].id)
        return len(events)

    def _run_program(self, document: Mapping[str, object]) -> None:
        """Run the program, and wait for its end; _ProgramFailed."""
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(document).encode() + b"\n")
            file.seek(0)
            try:
                process = self._start(file)
            except (OSError, subprocess.SubprocessError) as error:
                raise _ProgramFailed(f"cannot be started: "
                                     f"{getattr(error, 'strerror', None) or error}") from None
        assert process.stderr is not None
        with process.stderr:
            stderr, is_late = self._wait_for_end(process, process.stderr.fileno())
        if process.returncode is None:              # we end; it continues
            process.returncode = 0                  # so that Popen does not complain
            return
        line = stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        line = sanitize(line)[:200]
        if is_late:
            raise _ProgramFailed(f"ended after {self._timeout_s:g} s, [events] "
                                 f"on_critical_timeout")
        if process.returncode:
            how = (f"exit status {process.returncode}" if process.returncode > 0
                   else f"ended by signal {-process.returncode}")
            raise _ProgramFailed(f"{how}{': ' * bool(line)}{line}")

    def _start(self, file: Any) -> subprocess.Popen[bytes]:
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

    def _wait_for_end(self, process: subprocess.Popen[bytes], stderr: int) -> tuple[bytes, bool]:
        """Return (the beginning of its stderr, whether it was ended after the timeout)."""
        output, is_open, ends = b"", True, time.monotonic() + self._timeout_s
        is_late = False
        while process.poll() is None and not self._stopped.is_set():
            if time.monotonic() >= ends:
                # First it may clean up; the processes that it has started are ended with it.
                _send_signal(process, signal.SIGKILL if is_late else signal.SIGTERM)
                is_late, ends = True, time.monotonic() + _ENDS_WITHIN_S
            if not is_open:
                self._stopped.wait(_POLL_EVERY_S)
            elif select.select([stderr], [], [], _POLL_EVERY_S)[0]:
                part = os.read(stderr, 65536)
                output, is_open = (output + part)[:_MAX_STDERR], bool(part)
        if is_open and select.select([stderr], [], [], 0)[0]:
            output = (output + os.read(stderr, 65536))[:_MAX_STDERR]
        return output, is_late

    def close(self) -> None:
        self._stopped.set()
        super().close()


def _send_signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
