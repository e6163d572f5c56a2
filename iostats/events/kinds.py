"""
The kinds of events: how severe each is, what it means, why it comes, and what to do.

The list is closed: what another release sends of another kind is `other` here.  docs/events.md is
made from it.  Severities are those of lustre-collector (2004), where 2 is the first that needs a
hand.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.errors import UsageError
from iostats.lustre import kernel_log, system_log

INFO, WARNING, CRITICAL, FATAL = range(4)
SEVERITIES = ("info", "warning", "critical", "fatal")

Kind = namedtuple("Kind", "severity meaning cause what_to_do")
Kind.__doc__ = """
One kind of event.

Attributes:
    severity: 0 to 3, an index of SEVERITIES.
    meaning: what happened.
    cause: why it comes, as far as it is known.
    what_to_do: by an administrator.
"""

HEALTHY, LOG_LOST, EVENTS_DROPPED = "healthy", "log_lost", "events_dropped"
# Of `iostats ldms run`: no storage server tells them.
AGGREGATOR_DOWN, SAMPLER_DOWN = "aggregator_down", "sampler_down"
LDMSD_RESTARTED, PRODUCERS_MOVED = "ldmsd_restarted", "producers_moved"
DESCRIPTION_VALID, COMMAND_REFUSED = "description_valid", "command_refused"
NOT_DESCRIBED, CORRECTED, ETCD_AWAY = "not_described", "corrected", "etcd_away"

KINDS = {
    kernel_log.EVICTED: Kind(
        CRITICAL,
        "A storage server threw a client out.  What the client had written and not yet sent is "
        "lost; calls under way fail with EIO or ESHUTDOWN",
        "The client did not answer: it crashed, hangs, or the network lost its messages "
        "(`silent`: no ping; `lock`: it did not give back a lock; `recovery`: it did not come back "
        "after a restart; `administrator`: on request; `unknown`: the server only counted it)",
        "Is the node up?  Look for network errors on both sides at this time; run the job again"),
    kernel_log.CONNECTION_LOST: Kind(
        WARNING,
        "A client, or another storage server, has no connection to a target.  Calls wait until it "
        "is back",
        "The storage server is down, restarts or is overloaded, or the network is broken",
        "Is the target up (target_down, recovery)?  If only this node lost it: its network"),
    kernel_log.CONNECTION_RESTORED: Kind(
        INFO, "The connection to a target is back", "The target or the network is back",
        "Nothing"),
    kernel_log.CLIENT_RECONNECTING: Kind(
        INFO,
        "A client that the storage server still knew connected again.  Nothing is lost",
        "The client lost messages, or waited too long for an answer",
        "Nothing for one; from one node again and again: its network"),
    kernel_log.RECOVERY: Kind(
        WARNING,
        "A target waits for its clients after a restart, until all are back or the time is over.  "
        "Calls wait",
        "The target was started, or failed over",
        "Wait.  Clients that do not come back are evicted at its end"),
    kernel_log.LOCK_TIMEOUT: Kind(
        WARNING, "A lock was not granted in time",
        "Its holder is slow or gone, or the storage server is overloaded",
        "Look for an eviction at the same target; if there is none, for load"),
    kernel_log.TIMEOUTS: Kind(
        WARNING, "Requests were not answered in time, and are sent again",
        "The storage server or the network is slow or gone",
        "Single ones: nothing.  Many: load of the storage server, errors of the network"),
    kernel_log.DATA_LOST: Kind(
        FATAL, "A client threw away data that it had not yet written",
        "It was evicted, or the target gave an error", "Write the file again"),
    kernel_log.NOT_HEALTHY: Kind(
        CRITICAL, "A storage server says of itself, or of a target, that it is not healthy",
        "A disk or a target failed, a target is read-only, or a request has waited for very long",
        "`lctl get_param health_check` and the kernel's log of that server"),
    kernel_log.LBUG: Kind(
        FATAL, "Lustre found itself in a state that cannot be; the thread, or the node, stands "
        "still",
        "A bug of Lustre, or damaged memory or data",
        "Keep the kernel's log, restart the machine, look for the message in jira.whamcloud.com"),
    kernel_log.TARGET_DOWN: Kind(
        CRITICAL, "A target was stopped, or is gone from its storage server",
        "It was unmounted or failed over; or the storage server stops",
        "Was it planned?  If not: mount it, here or on its partner"),
    kernel_log.TARGET_UP: Kind(
        INFO, "A target was started", "It was mounted, here after a failover too", "Nothing"),
    system_log.BACKEND_ERROR: Kind(
        CRITICAL, "The file system of a target is damaged, or its journal was aborted",
        "A disk or its controller failed, or the file system is inconsistent",
        "Stop the target, look at its disks, run `e2fsck -fp` on its device, mount it again"),
    system_log.READ_ONLY: Kind(
        CRITICAL, "The file system of a target became read-only: writes to it fail with EROFS",
        "An error of the disks or of the file system (backend_error, disk_error just before)",
        "As for backend_error: a read-only target does not recover by itself"),
    system_log.POOL_SUSPENDED: Kind(
        CRITICAL, "A ZFS pool was suspended: all requests to its targets wait",
        "Too many of its disks do not answer; or another host may have imported it (MMP)",
        "`zpool status -x`; when the disks are back: `zpool clear`"),
    system_log.DISK_ERROR: Kind(
        CRITICAL, "A disk failed a read or write request",
        "The disk, its cable, expander or controller", "`smartctl -a`, the array's own log; "
        "replace a disk with medium errors"),
    system_log.DISK_TIMEOUT: Kind(
        CRITICAL, "An NVMe disk did not answer in time; its controller is reset",
        "The disk or its firmware, the PCIe link, or power management",
        "`nvme smart-log`, the firmware; if it happens again: replace the disk"),
    system_log.DISK_FAILED: Kind(
        CRITICAL, "A disk of an array was taken out of use: the array is degraded, or stopped",
        "The disk failed", "`cat /proc/mdstat`; replace the disk"),
    system_log.PATH_FAILED: Kind(
        CRITICAL, "A path to a multipath device was taken out of use",
        "A cable, port, switch or controller of the storage network",
        "`multipath -ll`; I/O continues on the other paths, if there are any"),
    system_log.HUNG_TASK: Kind(
        CRITICAL, "A Lustre thread has been blocked for minutes",
        "What it waits for does not answer: a disk, the network, or another thread",
        "See the events of the same machine just before; its stack is in the kernel log"),
    system_log.OUT_OF_MEMORY: Kind(
        CRITICAL, "The kernel killed a process because memory was used up",
        "The job needs more memory than the node, or its cgroup, has",
        "More memory for the job, or fewer processes per node"),
    system_log.LINK_DOWN: Kind(
        CRITICAL, "A network interface lost its link", "A cable, a port or a switch; or it was "
        "switched off", "`ip link`, `ibstat`; check the port of the switch"),
    kernel_log.OTHER: Kind(
        WARNING, "An error of Lustre or LNet without a kind of its own",
        "The message says it", "Search for the message; alone and once, it often means nothing"),
    HEALTHY: Kind(INFO, "A storage server is healthy again", "What was wrong is over", "Nothing"),
    LOG_LOST: Kind(
        WARNING, "Lines of the kernel's log were overwritten before they were read; events may "
        "be missing",
        "More was logged than its buffer holds, while no one read it",
        "A larger buffer: log_buf_len= on the kernel's command line"),
    EVENTS_DROPPED: Kind(
        WARNING, "There were more events at once than are kept; these are only counted",
        "A flood: one cause, many messages", "Look at the events of the same time"),
    AGGREGATOR_DOWN: Kind(
        CRITICAL, "An aggregator of LDMS does not answer.  Its producers run on the others of its "
        "group, if there are any",
        "Its ldmsd or its host is down, hangs, or can't be reached",
        "Its host and its log; `iostats ldms status` shows where its producers run"),
    SAMPLER_DOWN: Kind(
        WARNING, "A sampler of LDMS does not answer, or many; their metric sets are not collected",
        "The node is down, or its ldmsd is", "Is the node up?  If so: ldmsd's log there"),
    LDMSD_RESTARTED: Kind(
        INFO, "An ldmsd began anew, and was told all again", "It was restarted, or crashed",
        "Nothing for one; again and again: its log"),
    PRODUCERS_MOVED: Kind(
        INFO, "Producers, or metric sets, run on another aggregator than before",
        "An aggregator failed or is back, or the description is another", "Nothing"),
    DESCRIPTION_VALID: Kind(
        INFO, "A description of the monitoring is valid from now on", "`iostats ldms load`, or "
        "`rollback`", "Nothing"),
    COMMAND_REFUSED: Kind(
        WARNING, "An ldmsd did not carry out a command; something is not as it is described",
        "The message has its answer", "`iostats ldms status` has what is missing; ldmsd's log"),
    NOT_DESCRIBED: Kind(
        INFO, "Something runs in an ldmsd that is not in the description; it is left alone",
        "It was configured by hand, or by its own file", "Describe it, or remove it"),
    CORRECTED: Kind(
        INFO, "Something was changed in an ldmsd by hand, and is as it is described again",
        "A command that is not ours", "Change the description: `iostats ldms load`"),
    ETCD_AWAY: Kind(
        CRITICAL, "An instance of `iostats ldms run` can't ask etcd: no member answers, or they "
        "have no quorum.  LDMS' daemons are left as they are",
        "etcd's members, or the network, are down", "`etcdctl endpoint status --cluster`"),
}
CAUSES = ("", "silent", "lock", "administrator", "recovery", "unknown")


def severity_of(text: str, what: str) -> int:
    """
    The number of a severity: its name, the beginning of it, or the number; UsageError names `what`
    it stood in.

    >>> [severity_of(text, "--severity") for text in ("warn", "critical", "3")]
    [1, 2, 3]
    """
    for number, name in enumerate(SEVERITIES):
        if text == str(number) or (text and name.startswith(text.lower())):
            return number
    raise UsageError(f"{what}: expected {', '.join(SEVERITIES)} or 0 to {len(SEVERITIES) - 1}, got "
                     f"{text[:40]!r}")
