"""
A target's recovery: after a start it waits for the clients that it had, for some time.

    status: RECOVERING                  status: COMPLETE
    recovery_start: 1795225320          recovery_start: 1795225320
    time_remaining: 23                  recovery_duration: 7
    connected_clients: 1/3              completed_clients: 2/3
    ...                                 ...

It begins with the first client that comes back.  Requests wait until it is over: all clients are
back, or the time is; those that are not back then are evicted.

Source: lprocfs_recovery_status_seq_show(), lustre/obdclass/lprocfs_status_server.c;
target_start_recovery_timer(), target_finish_recovery(), lustre/ldlm/ldlm_lib.c;
class_disconnect_stale_exports(), lustre/obdclass/genops.c; 2.10 to 2.17.
"""
from __future__ import annotations

from .kernel_log import INFO, WARNING

# Line of genops.c where each stale client is named; up to 2.15 they are only counted.
_NAMED_AT = {"2.16": 1527, "2.17": 1616}


class Recovery:
    """
    Of one start of a target.

    `clients`: {uuid: NID} of those that it had; `window_s`: how long it waits for them; `release`:
    "2.17"; `say(level, text)` is told what the kernel's log has.

    Attributes:
        missing: {uuid: NID} that are not back.
        is_over: requests are served.
    """

    def __init__(self, name: str, clients: dict, window_s: float, release: str, emit):
        self._name, self._window_s, self._emit = name, window_s, emit
        self._named_at = _NAMED_AT.get(release)
        self._most, self.missing = len(clients), dict(clients)
        self._began = self._ended = None        # seconds since 1970
        self.is_over = not clients
        self._stale = 0

    def came_back(self, uuid: str, now: float) -> None:
        """A client has connected; one that it did not have is nothing to it."""
        if self.is_over or uuid not in self.missing:
            return
        if self._began is None:
            self._began = now
            one = self._most == 1
            self._emit(WARNING, f"{self._name}: Will be in recovery for at least "
                       f"{_minutes(self._window_s)}, or until {self._most} client{'s' * (not one)} "
                       f"reconnect{'s' * one}")
        del self.missing[uuid]
        if not self.missing:
            self._finish(now, {})

    def scan(self, now: float) -> dict:
        """{uuid: NID} of those to evict, as the time has run out; {} in all other cases."""
        if self.is_over or self._began is None or now < self._began + self._window_s:
            return {}
        stale, self.missing = self.missing, {}
        self._emit(WARNING, f"{self._name}: recovery is timed out, evict stale exports")
        self._finish(now, stale)
        return stale

    def _finish(self, now: float, stale: dict) -> None:
        self.is_over, self._ended, self._stale = True, now, len(stale)
        if self._named_at:
            for uuid, nid in stale.items():
                self._emit(WARNING, f"37:0:(genops.c:{self._named_at}:"
                           f"class_disconnect_stale_exports()) {self._name}: disconnect stale "
                           f"client {uuid}@{nid}")
        if stale:
            self._emit(WARNING, f"{self._name}: disconnecting {len(stale)} stale clients")
        back = self._most - len(stale)
        self._emit(INFO, f"{self._name}: Recovery over after "
                   f"{_minutes(max(now - self._began, 1))}, of {self._most} clients {back} "
                   f"recovered and {len(stale)} {'was' if len(stale) == 1 else 'were'} evicted.")

    def status(self, now: float) -> str:
        """recovery_status."""
        if not self._most:
            return "status: INACTIVE\n"
        if self._ended is not None:
            return (f"status: COMPLETE\nrecovery_start: {self._began:.0f}\n"
                    f"recovery_duration: {self._ended - self._began:.0f}\n"
                    f"completed_clients: {self._most - self._stale}/{self._most}\n"
                    "replayed_requests: 0\nlast_transno: 4294967296\nVBR: DISABLED\n"
                    "IR: DISABLED\n")
        if self._began is None:
            return "status: WAITING_FOR_CLIENTS\n"
        back = self._most - len(self.missing)
        left_s = max(self._began + self._window_s - now, 0)
        return (f"status: RECOVERING\nrecovery_start: {self._began:.0f}\n"
                f"time_remaining: {left_s:.0f}\n"
                f"connected_clients: {back}/{self._most}\nreq_replay_clients: {back}\n"
                f"lock_repay_clients: {back}\ncompleted_clients: 0\nevicted_clients: 0\n"
                "replayed_requests: 0\nqueued_requests: 0\nnext_transno: 4294967297\n")


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
