"""
What the kernel's log has of Lustre since a job's start, where this user may read it.

/dev/kmsg alone: journalctl would be a process more on each node, at each job's end.  The ring is
read from its oldest line on; where it does not reach back to the start, that is said.  A process
that stays keeps it open, and loses lines to a flood alone, which is an event itself.

Who may read it: every user, or with kernel.dmesg_restrict=1 those with CAP_SYSLOG.

Source: devkmsg_open(), check_syslog_permissions(), kernel/printk/printk.c.
"""

from __future__ import annotations

import os
import re
import time

from iostats.base.private_files import why
from iostats.events import dev_kmsg
from iostats.events.folding import Folder
from iostats.events.wall_clock import WallClock
from iostats.lustre import kernel_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.totals.snapshot import Snapshot

_LINES = 512                            # between two looks at the clock
_MOST_LINES = 200_000                   # in one reading: more than any ring has
_CLOCKS_S = 5.0                         # the log's clock and that of the boot are so far apart
_DEACTIVATED = b" INACTIVE by adm"      # cheaper than to parse each line
_MOST_DEACTIVATED = 1000
# Of a file whose data was thrown away.  It may be of another job on the node; `lfs fid2path` tells
# who may know it.
_PATH = re.compile(r"(/fid: \[[0-9a-fx:]{1,60}\]/).*( may get corrupted)")


class KernelLogSince:
    """
    The log, open.

    Attributes:
        unseen: why what it has of the job is not known; "" where it is.
        deactivated: {target: [when an administrator deactivated it, s since 1970]}.
    """

    def __init__(self, root: str, config: Config, start: Snapshot, boot_id: str) -> None:
        self.unseen, self.deactivated = "", {}          # type: str, dict[str, list[float]]
        self._since_s = start.wall_ns / 1e9
        self._since_up_s = start.boot_ns / 1e9 if start.boot_id == boot_id else 0.0
        self._is_first = root == "/"
        self._log: dev_kmsg.KernelMessages | None = None
        boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._clock = WallClock([(0, time.time() - time.clock_gettime(boot))])
        self._folder = Folder(boot_id, start.node, int(config["events.max_kept"]), self._clock)
        if config["events.kernel_log"] == "no":
            self.unseen = "the kernel's log is not read ([events] kernel_log)"
            return
        try:
            self._log = dev_kmsg.KernelMessages(os.path.join(root, "dev/kmsg"))
        except OSError as error:
            self.unseen = f"the kernel's log (/dev/kmsg): {why(error)}"

    def read(self) -> list[Event]:
        """[Event] that are new, or have grown, and were not over before the start."""
        if self._log is None:
            return []
        now = time.time()
        self._clock.lines_came(None, now)
        try:
            for _ in range(0, _MOST_LINES, _LINES):
                if self._log.read(self._take, self._folder.lost, _LINES):
                    break
        except OSError as error:
            self.unseen = f"the kernel's log (/dev/kmsg): {why(error)}"
            self._log.close()
            self._log = None
        return [_without_path(one) for one in self._folder.changed()
                if max(one.last, one.over or 0) >= self._since_s]

    def _take(self, data: bytes) -> None:
        if self._is_first:
            self._is_first = False
            found = kernel_log.record(data)
            if found and found.sequence and found.usec / 1e6 > self._since_up_s + _CLOCKS_S:
                self.unseen = "the kernel's log does not reach back to the start"
        self._folder.take(data)
        if _DEACTIVATED in data:
            found = kernel_log.record(data)
            said = kernel_log.message(found) if found else None
            if found and said and said.kind == kernel_log.DEACTIVATED and (
                    said.target in self.deactivated or len(self.deactivated) < _MOST_DEACTIVATED):
                self.deactivated.setdefault(said.target, []).append(self._clock.wall(found.usec))


def _without_path(one: Event) -> Event:
    return one if one.kind != kernel_log.DATA_LOST else one._replace(
        message=_PATH.sub(r"\1...\2", one.message))
