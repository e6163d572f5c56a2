"""
What is in the way of events on a storage server, for the doctor; changes nothing.
"""

from __future__ import annotations

import os

from iostats.base import disk_queue
from iostats.doctor.check import NOTE, OK, PROBLEM, Check
from iostats.storage.events_look import events_in_words, look_at_events, why_agent_reads_no_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

_AS_ROOT = "sudo iostats_client.py doctor"
_ON_THE_HOST = "nsenter -t 1 -m iostats_client.py doctor"
_LIST = "iostats_client.py harvest --list"
_UNIT = "make install-harvest"


def examine_events(config: Config, root: str) -> list[Check]:
    """[Check] of what can be read of events here, and by the agent that runs."""
    look = look_at_events(root, config)
    text, is_chosen = events_in_words(look), config["events.kernel_log"] == "no"
    if look.health not in ("", "healthy"):
        return [Check(PROBLEM, "health", f"health_check: {look.health}; which target: the kernel's "
                                         f"log", "lctl get_param health_check")]
    if look.targets is None or look.unread or (look.source == "none" and not is_chosen):
        return [Check(NOTE, "events", text, _AS_ROOT if os.geteuid() else
                      _ON_THE_HOST if look.source == "none" else _LIST)]
    if os.geteuid() == 0 and not is_chosen and root == "/":
        try:
            process = disk_queue.backlog(config["harvest.spool_dir"]).process
        except OSError:
            process = 0
        why = why_agent_reads_no_log(process) if process else ""
        if why:
            return [Check(PROBLEM, "events", f"the agent (process {process}) cannot read the "
                                             f"kernel's log: {why}", _UNIT)]
    return [Check(OK, "events", text)]
