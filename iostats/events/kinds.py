"""
The kinds of events: severity, meaning, usual reason and remedy of each.

The list is closed: what another release sends of another kind is `other` here.
docs/reference/events.md is made from it.  Severities are those of lustre-collector (2004), where 2
is the first that needs action.
"""

from __future__ import annotations

from iostats.base.errors import UsageError
from iostats.base.named_tuple import NamedTuple
from iostats.lustre import kernel_log, system_log

INFO, WARNING, CRITICAL, FATAL = range(4)
SEVERITIES = ("info", "warning", "critical", "fatal")


class Kind(NamedTuple):
    """A kind of event: its severity, its text, and what to do about it."""

    severity: int       # 0 to 3, an index of SEVERITIES
    meaning: str        # what happened
    cause: str          # why it comes, as far as it is known
    what_to_do: str     # by an administrator


HEALTHY, LOG_LOST, EVENTS_DROPPED = "healthy", "log_lost", "events_dropped"
NEARLY_FULL, TARGET_FULL = "nearly_full", "target_full"
CHANGELOG_LAG, QUOTA_FULL = "changelog_lag", "quota_full"
NO_GRANTS, REQUESTS_WAIT, HSM_FAILED = "no_grants", "requests_wait", "hsm_failed"
NO_OBJECTS = "no_objects"
LNET_DROPS, LNET_DOWN, ROUTER_DOWN = "lnet_drops", "lnet_down", "router_down"
LNET_RESENDS, LNET_UNHEALTHY = "lnet_resends", "lnet_unhealthy"
# Of `iostats ldms run`: no storage server reports them.
AGGREGATOR_DOWN, SAMPLER_DOWN = "aggregator_down", "sampler_down"
LDMSD_RESTARTED, PRODUCERS_MOVED = "ldmsd_restarted", "producers_moved"
DESCRIPTION_VALID, COMMAND_REFUSED = "description_valid", "command_refused"
NOT_DESCRIBED, CORRECTED, ETCD_AWAY = "not_described", "corrected", "etcd_away"

KINDS = {
    kernel_log.EVICTED: Kind(
        CRITICAL,
        "A storage server evicted a client.  Data that it had written and not yet sent is "
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
        "A client connected again before the storage server had dropped it.  Nothing is lost",
        "The client lost messages, or waited too long for an answer",
        "Nothing for one; from one node again and again: its network"),
    kernel_log.RECOVERY: Kind(
        WARNING,
        "A target waits for its clients after a restart, until all are back or the time is over.  "
        "Calls wait",
        "The target was started, or failed over",
        "Wait.  Clients that do not reconnect are evicted at its end"),
    kernel_log.LOCK_TIMEOUT: Kind(
        WARNING, "A lock was not granted in time",
        "Its holder is slow or unreachable, or the storage server is overloaded",
        "Look for an eviction at the same target; if there is none, for load"),
    kernel_log.TIMEOUTS: Kind(
        WARNING, "Requests were not answered in time, and are sent again",
        "The storage server or the network is slow or unreachable",
        "Single ones: nothing.  Many: load of the storage server, errors of the network"),
    kernel_log.CHECKSUM_ERROR: Kind(
        WARNING,
        "The checksum of data on a storage server differs from that on the client; the data is "
        "sent again",
        "Memory, a network adapter or a cable changed the data; or a program changed a mapped page "
        "while it was sent, which is harmless (the message then names mmap)",
        "Always the same node: its memory and network adapter.  Many nodes: those of the storage "
        "server, and the switches between"),
    kernel_log.DATA_LOST: Kind(
        FATAL, "A client discarded data that it had not yet written",
        "It was evicted, or the target gave an error", "Write the file again"),
    kernel_log.NOT_HEALTHY: Kind(
        CRITICAL, "A storage server reports that it, or a target, is not healthy",
        "A disk or a target failed, a target is read-only, or a request has waited for very long",
        "`lctl get_param health_check` and the kernel's log of that server"),
    kernel_log.LBUG: Kind(
        FATAL, "An assertion of Lustre failed; the thread, or the node, hangs",
        "A bug of Lustre, or damaged memory or data",
        "Keep the kernel's log, restart the machine, look for the message in jira.whamcloud.com"),
    kernel_log.TARGET_DOWN: Kind(
        CRITICAL, "A target was stopped, or is no longer on its storage server",
        "It was unmounted or failed over; or the storage server stops",
        "Was it planned?  If not: mount it, here or on its partner"),
    kernel_log.TARGET_UP: Kind(
        INFO, "A target was started", "It was mounted, here after a failover too", "Nothing"),
    NEARLY_FULL: Kind(
        WARNING, "A target is nearly full: [events] full_percent of its space or inodes is used",
        "Its files grow; if other targets have room: large files with few stripes are on it",
        "`iostats capacity` has the forecast and the other targets; `lfs find --ost INDEX --size "
        "+100G` finds the large files, `lfs migrate` moves them"),
    TARGET_FULL: Kind(
        CRITICAL,
        "A target is full: less than a thousandth of its space, or fewer than 32 inodes, are "
        "available.  An MDS makes no new files on such an OST; writes to files that are there, "
        "and new files on such an MDT, fail with ENOSPC when nothing is left",
        "Its files have grown to its size",
        "Delete or move files: `lfs find --ost INDEX`; new files avoid a deactivated OST "
        "(`osp.*.max_create_count=0` on the MDS)"),
    CHANGELOG_LAG: Kind(
        WARNING, "A program that reads an MDT's changelog is far behind: [events] "
        "changelog_records or more are not cleared, and stay on the MDT",
        "The program (robinhood, lustre_rsync, an HSM tool) is stopped or slow, or was removed",
        "Start it again; one that is no longer used: `lctl --device MDT changelog_deregister ID`"),
    QUOTA_FULL: Kind(
        WARNING, "A user, a group or a project has used up a quota: the hard limit, or the soft "
        "one for longer than the grace period.  Writes, or new files, fail with EDQUOT",
        "Its files have grown to the limit",
        "`iostats quota` has the limits; `lfs quota -u USER MOUNT` what is used on each target; "
        "delete files, or `lfs setquota`"),
    NO_GRANTS: Kind(
        WARNING, "An OST has granted to its clients all the space that is available, and grants no "
        "more: a client without a grant writes synchronously, so slowly",
        "It is nearly full; or many clients have large grants (`osc.*.max_dirty_mb`)",
        "`iostats capacity` has the other OSTs; move files with `lfs migrate`; on clients: "
        "`lctl get_param osc.*.cur_grant_bytes`"),
    NO_OBJECTS: Kind(
        WARNING, "An MDT had no objects of an OST for a minute, or got no new ones: new files that "
        "are striped over this OST wait, or go to other OSTs",
        "The OST is full or down, or slower than files are made; its message has which",
        "Is the OST up, and not full (`iostats capacity`)?  `lctl get_param osp.*.prealloc_*` on "
        "the MDS"),
    REQUESTS_WAIT: Kind(
        WARNING, "Requests wait a second or more for a thread of a storage server's service, on "
        "average over a minute",
        "The disks are slow or overloaded; too few threads are allowed; or an NRS policy (TBF) "
        "holds requests back",
        "`iostats targets --services`; `iostats top` has the jobs; `lctl get_param "
        "*.*.*.threads_* *.*.*.nrs_policies` on it"),
    HSM_FAILED: Kind(
        WARNING, "Copytools failed to archive, restore or remove files",
        "The archive can't be reached or is full, or files were changed while they were copied",
        "The copytool's log; `lctl get_param mdt.*.hsm.actions` on the MDS has each request"),
    system_log.BACKEND_ERROR: Kind(
        CRITICAL, "The file system of a target is damaged, or its journal was aborted",
        "A disk or its controller failed, or the file system is inconsistent",
        "Stop the target, check its disks, run `e2fsck -fp` on its device, mount it again"),
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
    LNET_DROPS: Kind(
        WARNING, "LNet dropped 1 % or more of a machine's messages, and ten or more of them",
        "The next machine on their way is down; or they were answers that came too late, after the "
        "request was given up: load or errors of the network, or of the other side",
        "Is another machine down (evicted, target_down)?  Else the counters of the network "
        "adapters and switches; `lnetctl net show -v 3` and `lnetctl peer show -v 3` there have "
        "the drops by interface and peer"),
    LNET_DOWN: Kind(
        WARNING, "A network interface of LNet is down; messages wait, or take another one",
        "Its link is down (link_down), or it was switched off",
        "`lnetctl net show`, `ip link`, `ibstat`"),
    ROUTER_DOWN: Kind(
        WARNING, "A router of LNet is down, as seen from this machine; the other routers are used, "
        "if there are any",
        "The router is down, restarts, or its network is broken",
        "Is it up?  `lnetctl route show -v` here, `lnetctl ping` of its NID"),
    LNET_RESENDS: Kind(
        WARNING, "LNet resent 1 % or more as many messages as it sent, and ten or more",
        "Tries failed or expired: errors or load of the network, of its adapters, or of the peers",
        "`lnetctl stats show` there: local_... counts are of its own adapters, remote_... and "
        "network_... of peers and the way to them; `lnetctl peer show -v 3` has them by peer"),
    LNET_UNHEALTHY: Kind(
        WARNING, "The health of an LNet interface is below its maximum: other interfaces are used, "
        "if there are any",
        "Messages failed or expired on it: its link, adapter or driver",
        "`lnetctl net show -v 3` (health stats), then the adapter, its cable and switch port"),
    kernel_log.OTHER: Kind(
        WARNING, "An error of Lustre or LNet without a kind of its own",
        "It is described by the message",
        "Search for the message; alone and once, it often means nothing"),
    HEALTHY: Kind(INFO, "A storage server is healthy again", "What was wrong is over", "Nothing"),
    LOG_LOST: Kind(
        WARNING, "Lines of the kernel's log were overwritten before they were read; events may "
        "be missing",
        "More was logged than its buffer holds, while no one read it",
        "A larger buffer: log_buf_len= on the kernel's command line"),
    EVENTS_DROPPED: Kind(
        WARNING, "There were more events at once than are stored; these are only counted",
        "A flood: one cause, many messages", "Check the events of the same time"),
    AGGREGATOR_DOWN: Kind(
        CRITICAL, "An aggregator of LDMS does not answer.  Its producers run on the others of its "
        "group, if there are any",
        "Its ldmsd or its host is down, hangs, or can't be reached",
        "Its host and its log; `iostats ldms status` shows where its producers run"),
    SAMPLER_DOWN: Kind(
        WARNING, "A sampler of LDMS does not answer, or many; their metric sets are not collected",
        "The node is down, or its ldmsd is", "Is the node up?  If so: ldmsd's log there"),
    LDMSD_RESTARTED: Kind(
        INFO, "An ldmsd restarted, and was configured again", "It was restarted, or crashed",
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


def parse_severity(text: str, origin: str) -> int:
    """
    The number of a severity, from its name, the beginning of that, or the number; UsageError names
    `origin`, the option or file.

    >>> [parse_severity(text, "--severity") for text in ("warn", "critical", "3")]
    [1, 2, 3]
    """
    for number, name in enumerate(SEVERITIES):
        if text == str(number) or (text and name.startswith(text.lower())):
            return number
    raise UsageError(
        f"{origin}: expected {', '.join(SEVERITIES)} or 0 to {len(SEVERITIES) - 1}, got "
                     f"{text[:40]!r}")
