r"""
The kernel's log: what disks, file systems of targets, memory and network interfaces report.

    LDISKFS-fs error (device dm-3): ldiskfs_lookup:1803: inode #2: comm mdt00_001: deleted inode ...
    Aborting journal on device dm-3-8.
    LDISKFS-fs (dm-3): Remounting filesystem read-only
    WARNING: Pool 'ost3' has encountered an uncorrectable I/O failure and has been suspended.
    blk_update_request: critical medium error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0 ...
    nvme nvme0: I/O 23 QID 5 timeout, reset controller
    device-mapper: multipath: 253:3: Failing path 8:16.
    md/raid:md0: Disk failure on sdb1, disabling device.
    INFO: task ll_ost00_003:4711 blocked for more than 120 seconds.
    Out of memory: Killed process 4711 (solver) total-vm:65011712kB, anon-rss:62914560kB, ...
    mlx5_core 0000:41:00.0 ib0: Link down
    hfi1 0000:81:00.0: hfi1_0: 8051: Link down
    cxi_ss1 0000:21:00.0: cxi0[hsn0] CXI_EVENT_LINK_DOWN

Only whole messages have a kind, as kernels 3.10 to 6.x print them.  A process chooses its name, up
to 15 bytes: it stands for itself alone, and a task is one of Lustre's by the names of its threads.

Sources: save_error_info() and __ext4_error(), fs/ext4/super.c, as Lustre builds it; journal.c of
jbd2; zio_suspend(), mmp_thread() of OpenZFS 0.7 to 2.4; print_req_error(), block/ (3.10:
blk_update_request()); nvme_timeout(), drivers/nvme/host/pci.c; fail_path(), drivers/md/dm-mpath.c;
raid1.c, raid10.c, raid5.c; check_hung_task(), kernel/hung_task.c; oom_kill_process(),
mm/oom_kill.c; mlx5e_update_carrier(), en_main.c of mlx5; handle_8051_interrupt(), chip.c of hfi1;
cass_phy_link_down(), cass_phy.c of the cxi driver (Slingshot host software 12.0 to 14.0).
"""

from __future__ import annotations

import re

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple

BACKEND_ERROR, READ_ONLY, POOL_SUSPENDED = "backend_error", "read_only", "pool_suspended"
DISK_ERROR, DISK_TIMEOUT, DISK_FAILED = "disk_error", "disk_timeout", "disk_failed"
PATH_FAILED, HUNG_TASK = "path_failed", "hung_task"
OUT_OF_MEMORY, LINK_DOWN = "out_of_memory", "link_down"
# About the storage of targets, on storage servers.
OF_STORAGE = (BACKEND_ERROR, READ_ONLY, POOL_SUSPENDED, DISK_ERROR, DISK_TIMEOUT, DISK_FAILED,
              PATH_FAILED)
KINDS = (*OF_STORAGE, HUNG_TASK, OUT_OF_MEMORY, LINK_DOWN)


class SystemMessage(NamedTuple):
    """A message of the kernel about storage, memory, a hung thread or a network interface."""

    kind: str    # one of KINDS
    device: str  # a block device ("dm-3", "8:16" of a path), a ZFS pool, a process, or an interface
    text: str    # one line, fit for a terminal


_LONGEST_TEXT = 300
_DEVICE = r"(?P<device>[A-Za-z0-9!:._-]{1,64})"
_ERROR = (r"(?:I/O|critical (?:medium|target|space allocation|nexus)|timeout|"
          r"recoverable transport|protection|device offline)")
_COMM = r"(?P<device>.{1,15}?)"             # TASK_COMM_LEN less its end
# Threads of Lustre: services, locks, requests, and the journals and pools that they wait for.
_THREAD = (r"(?P<device>(?:ll_(?:ost|mdt|mgs|evictor|cfg|agl|sa)|mdt|ldlm_|ptlrpc|osp-|lod|mgc|"
           r"tgt_|obd_|jbd2/|txg_|z_|kiblnd|socknal|lnet)[\w./:-]{0,15})")
_OOM = (r"(?:(?:Out of memory|Memory cgroup out of memory): )?Killed process \d{1,10}"
        r",? (?:UID \d{1,10} )?\(" + _COMM + r"\),?(?: UID \d{1,10},)? "
        r"total-vm:\d{1,20}kB, anon-rss:(?P<anon_kb>\d{1,20})kB, file-rss:\d{1,20}kB"
        r"(?:, shmem-rss:\d{1,20}kB)?(?:, UID:\d{1,10} pgtables:\d{1,20}(?:kB)?"
        r" oom_score_adj:-?\d{1,5})?")

# What a line begins with -> [(kind, the form of all of it)]
_FORMS: dict[str, list[tuple[str, str]]] = {
    "LDISKFS-fs ": [
        (BACKEND_ERROR, rf"LDISKFS-fs error \(device {_DEVICE}\):? .+"),
        (READ_ONLY, rf"LDISKFS-fs \({_DEVICE}\): Remounting filesystem read-only")],
    "Aborting journal on device ": [
        (BACKEND_ERROR, rf"Aborting journal on device {_DEVICE}\.")],
    "WARNING: ": [
        (POOL_SUSPENDED, r"WARNING: Pool '(?P<device>[\w:. -]{1,64})' has encountered an "
                         r"uncorrectable I/O failure and has been suspended\."),
        (POOL_SUSPENDED, r"WARNING: MMP writes to pool '(?P<device>[\w:. -]{1,64})' have not "
                         r"succeeded in over \d{1,20} ms; suspending pool\. Hrtime \d{1,20}")],
    **{start: [(DISK_ERROR, rf"(?:end_request: |blk_update_request: |print_req_error: )?{_ERROR} "
                            rf"error, dev {_DEVICE}, sector \d{{1,20}}(?: op 0x[0-9a-f]{{1,8}}:"
                            rf"\(\w{{1,20}}\))?(?: flags (?:0x)?[0-9a-f]{{1,8}})?"
                            rf"(?: phys_seg \d{{1,5}} prio class \d{{1,3}})?")]
       for start in ("end_request: ", "blk_update_request: ", "print_req_error: ", "I/O error, ",
                     "critical ", "timeout error, ", "recoverable transport ", "protection error, ",
                     "device offline error, ")},
    "nvme nvme": [
        (DISK_TIMEOUT, rf"nvme {_DEVICE}: (?:I/O \d{{1,8}} (?:\([\w ]{{1,40}}\) )?QID \d{{1,5}}|"
                       r"I/O tag \d{1,8} \([0-9a-f]{1,8}\)(?: opcode 0x[0-9a-f]{1,2})?"
                       r"(?: \([\w ]{1,40}\))? QID \d{1,5}) timeout, (?:aborting|"
                       r"reset controller|disable controller|completion polled).{0,80}"),
        (DISK_TIMEOUT, rf"nvme {_DEVICE}: controller is down; will reset: CSTS=0x[0-9a-f]{{1,8}}, "
                       r"PCI_STATUS.{1,40}"),
        (DISK_FAILED, rf"nvme {_DEVICE}: Removing after probe failure(?: status: -?\d{{1,5}})?")],
    "device-mapper: multipath: ": [
        (PATH_FAILED, r"device-mapper: multipath: (?:\d{1,8}:\d{1,8}: )?Failing path "
                      r"(?P<device>\d{1,8}:\d{1,8})\.")],
    "md/raid": [
        (DISK_FAILED, rf"md/raid(?:1|10)?:{_DEVICE}: Disk failure on \w{{1,40}}, disabling "
                      r"device\.(?: ?Operation continuing on \d{1,5} devices\.)?"),
        (DISK_FAILED, rf"md/raid:{_DEVICE}: Cannot continue operation "
                      r"\(\d{1,5}/\d{1,5} failed\)\.")],
    "INFO: task ": [
        (HUNG_TASK, rf"INFO: task {_THREAD}:\d{{1,10}} blocked(?: in I/O wait)? for more than "
                    r"\d{1,10} seconds\.")],
    "Out of memory: Killed ": [(OUT_OF_MEMORY, _OOM)],
    "Memory cgroup out of memory: Killed ": [(OUT_OF_MEMORY, _OOM)],
    "Killed process ": [(OUT_OF_MEMORY, _OOM)],
    "mlx5_core ": [
        (LINK_DOWN, r"mlx5_core [0-9a-f:.]{7,12} (?P<device>[\w.-]{1,16}): Link down")],
    "hfi1 ": [
        (LINK_DOWN, r"hfi1 [0-9a-f:.]{7,12}: (?P<device>hfi1_\d{1,3}): 8051: Link down"
                    r"(?: \(ignoring downgrade\))?")],
    "cxi_ss1 ": [
        (LINK_DOWN, r"cxi_ss1 [0-9a-f:.]{7,12}: (?P<device>cxi\d{1,5})\[[\w.-]{0,16}\] "
                    r"CXI_EVENT_LINK_DOWN")],
}
STARTS = tuple(start.encode() for start in _FORMS)
_compiled: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def parse_message(text: str) -> SystemMessage | None:
    """
    Parse a line of the kernel's log; None if it is of no known kind.

    >>> parse_message("md/raid1:md0: Disk failure on sdb1, disabling device.").device
    'md0'
    >>> parse_message("Killed process 7 (a) total-vm:9kB, anon-rss:2048kB, file-rss:0kB").text
    'killed a, out of memory (2 MiB)'
    """
    start = next((start for start in _FORMS if text.startswith(start)), "")
    if not start:
        return None
    if start not in _compiled:
        _compiled[start] = [(kind, re.compile(form)) for kind, form in _FORMS[start]]
    text = text.rstrip()
    for kind, form in _compiled[start]:
        match = form.fullmatch(text)
        if match:
            device = sanitize(match["device"])
            if kind == OUT_OF_MEMORY:
                text = f"killed {device}, out of memory ({int(match['anon_kb']) // 1024} MiB)"
            return SystemMessage(kind, device, sanitize(text)[:_LONGEST_TEXT])
    return None
