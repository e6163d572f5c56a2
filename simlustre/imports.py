"""
How a client stands with one target: `state` and `import` of its osc or mdc.

What happens         the history then has (ptlrpc_import_recovery_state_machine() and others)

mounted              CONNECTING FULL
evicted              DISCONN CONNECTING EVICTED RECOVER FULL
target is gone       DISCONN CONNECTING DISCONN CONNECTING DISCONN ..., tried each 5 s
it is back           CONNECTING REPLAY REPLAY_LOCKS REPLAY_WAIT, and when its recovery is over
                     RECOVER FULL

Source: lustre/ptlrpc/import.c; lprocfs_import_seq_show(), lustre/obdclass/lprocfs_status.c;
2.10 to 2.17, compared with captures of 2.15.8, 2.16.1 and 2.17.57.
"""
from __future__ import annotations

import time

TRIED_EVERY_S = 5
_KEPT = 16


class Import:
    """
    The history of one connection.

    Attributes:
        history: [(s since 1970, state)], oldest first.
        nid: of the storage server.
        attempts, generation: as in `import`.
    """

    def __init__(self, now: float | None = None):
        self.history: list = []
        self.nid, self.attempts, self.generation = "10.77.1.1@tcp", 1, 1
        self._replied = time.time() if now is None else now
        self._add(self._replied, "CONNECTING", "FULL")

    def _add(self, now: float, *states: str) -> None:
        self.history += [(int(now), state) for state in states]
        del self.history[:-_KEPT]

    @property
    def state(self) -> str:
        return self.history[-1][1]

    def replied(self, now: float) -> None:
        """The target has answered."""
        self._replied = now

    def evicted(self, now: float) -> None:
        """The target had thrown this client out, which is connected again."""
        self._add(now, "DISCONN", "CONNECTING", "EVICTED", "RECOVER", "FULL")
        self.attempts += 1
        self.generation += 1

    def lost(self, now: float) -> None:
        """Nothing answers for the target; may be called again and again."""
        is_new = self.state != "DISCONN"
        if is_new:
            self._add(now, "DISCONN")
        if is_new or now - self.history[-1][0] >= TRIED_EVERY_S:
            self._add(now, "CONNECTING", "DISCONN")
            self.attempts += 1

    def reconnected(self, now: float) -> None:
        """The target is back, and in recovery."""
        if self.state != "REPLAY_WAIT":
            if self.state != "DISCONN":
                self._add(now, "DISCONN")
            self._add(now, "CONNECTING", "REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT")
            self.attempts += 1

    def recovered(self, now: float) -> None:
        """Its recovery is over, with this client."""
        if self.state != "FULL":
            self._add(now, "RECOVER", "FULL")


def import_text(one: Import, name: str, target: str, release: str, now: float) -> str:
    """`import`, without what a test of events does not need; `release`: "2.17"."""
    version = tuple(map(int, release.split(".")))
    quoted = f'"{one.nid}"' if version >= (2, 16) else one.nid
    flags = ("IMPF_REPLAYABLE, IMPF_PINGABLE, IMPF_CONNECT_TRIED" if version >= (2, 17)
             else "replayable, pingable, connect_tried")
    is_up = one.state == "FULL"
    ago = int(now - one.history[-1][0])
    word = ("uptodate" if is_up else "out of date") if version >= (2, 17) else (
        "true" if is_up else "false")
    lines = ["import:", f"    name: {name}", f"    target: {target}_UUID",
             f"    state: {one.state}", f"    import_flags: [ {flags} ]", "    connection:",
             f"       failover_nids: [ {quoted} ]"]
    if version >= (2, 16):
        lines += ["       nids_stats:",
                  f'          "{one.nid}": {{ connects: {one.attempts}, replied: {one.generation}, '
                  f"uptodate: {word}, sec_ago: {ago} }}"]
    lines += [f"       current_connection: {quoted}",
              f"       connection_attempts: {one.attempts}",
              f"       generation: {one.generation}", "       in-progress_invalidations: 0"]
    if version >= (2, 12):
        lines.append(f"       idle: {int(now - one._replied)} sec")
    return "\n".join([*lines, "    rpcs:", "       inflight: 0", "       unregistering: 0",
                      "       timeouts: 0", "       avg_waittime: 37 usecs"]) + "\n"
