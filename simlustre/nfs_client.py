"""
The kernel's NFS client, as far as /proc/self/mountstats and mountinfo show it: mounts, superblocks
that several of them share, and what programs did.

Written from nfs_show_stats() of fs/nfs/super.c and rpc_clnt_show_stats() of net/sunrpc/stats.c; a
real client of Linux 6.1 printed the same form (NFS 4.0 to 4.2, nconnect, a shared superblock).
"""
from __future__ import annotations

_OPERATIONS = ("NULL", "READ", "WRITE", "COMMIT", "OPEN", "CLOSE", "GETATTR", "LOOKUP", "ACCESS",
               "SETCLIENTID", "RENEW", "EXCHANGE_ID", "SECINFO_NO_NAME")


class Superblock:
    """What the mounts of one export share."""

    def __init__(self, born: float, columns: int = 9, connections: int = 1) -> None:
        self.born, self.columns, self.connections = born, columns, connections
        self.events = [0] * 27
        self.bytes = [0] * 8
        self.operations = {name: [0] * columns for name in _OPERATIONS}

    def call(self, name: str, count: int, transmissions: int = 0, timeouts: int = 0,
             rtt_ms: int = 0, execution_ms: int = 0) -> None:
        """Count requests of one kind."""
        row = self.operations[name]
        for at, number in ((0, count), (1, transmissions or count), (2, timeouts), (6, rtt_ms),
                           (7, execution_ms)):
            row[at] += number

    def read(self, size: int, direct: bool = False) -> None:
        """A program reads so many bytes, in one request."""
        self.bytes[2 if direct else 0] += size
        self.bytes[4] += size
        self.call("READ", 1)

    def write(self, size: int, direct: bool = False) -> None:
        """A program writes so many bytes, in one request."""
        self.bytes[3 if direct else 1] += size
        self.bytes[5] += size
        self.call("WRITE", 1)

    def text(self, now: float) -> str:
        """What each of its mounts prints, behind its own line."""
        rows = "".join(f"\t{name:>12}: {' '.join(map(str, row))}\n"
                       for name, row in self.operations.items())
        return (
            "\topts:\trw,vers=4.2,rsize=131072,hard,proto=tcp,sec=sys,local_lock=none\n"
            f"\tage:\t{int(now - self.born)}\n"
            "\timpl_id:\tname='',domain='',date='0,0'\n"
            "\tcaps:\tcaps=0xeffbc0bf,wtmult=512,dtsize=131072,bsize=0,namlen=255\n"
            "\tsec:\tflavor=1,pseudoflavor=1\n"
            f"\tevents:\t{' '.join(map(str, self.events))} \n"
            f"\tbytes:\t{' '.join(map(str, self.bytes))} \n"
            "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
            + "\txprt:\ttcp 0 0 2 0 1 58 58 0 58 0 2 0 0\n" * self.connections
            + f"\tper-op statistics\n{rows}\n")


class NfsClient:
    """A node's NFS mounts."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0
        self.mounts: list[tuple[str, str, int, Superblock]] = []

    def mount(self, device: str, point: str, shared: Superblock | None = None,
              **form: int) -> Superblock:
        """A mount of its own, or one that shares the superblock of another one."""
        used = {block: number for _, _, number, block in self.mounts}
        block = shared or Superblock(self.now, **form)
        number = used.get(block) or min(set(range(41, 999)) - set(used.values()))
        self.mounts.append((device, point, number, block))
        return block

    def unmount(self, point: str) -> None:
        """The counters of a superblock end with its last mount; its number is used again."""
        self.mounts = [mount for mount in self.mounts if mount[1] != point]

    def write_files(self, root) -> None:
        """The files below `root`."""
        stats = "device proc mounted on /proc with fstype proc\n"
        info = "21 1 0:20 / /proc rw - proc proc rw\n26 21 0:26 / /proc/fs/nfsd rw - nfsd nfsd rw\n"
        for device, point, number, block in self.mounts:
            stats += (f"device {device} mounted on {point} with fstype nfs4 statvers=1.1\n"
                      + block.text(self.now))
            info += f"33 1 0:{number} / {point} rw,relatime shared:1 - nfs4 {device} rw,vers=4.2\n"
        stats += "device tmpfs mounted on /tmp with fstype tmpfs\n"
        directory = root / "proc" / "self"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "mountstats").write_text(stats)
        (directory / "mountinfo").write_text(info)


def write_disk_files(root, job: str, read_bytes: int, write_bytes: int, reads: int,
                     writes: int) -> None:
    """The files below `root` of a job's cgroup, as of Slurm, with what it did on nvme0n1."""
    cgroup = f"system.slice/slurmstepd.scope/job_{job}"
    names = root / "sys" / "dev" / "block"
    for directory in (names, root / "proc" / "self", root / "sys" / "fs" / "cgroup" / cgroup):
        directory.mkdir(parents=True, exist_ok=True)
    if not (names / "259:0").is_symlink():
        (names / "259:0").symlink_to("../../devices/pci0000:00/nvme/nvme0/nvme0n1")
    (root / "proc" / "self" / "cgroup").write_text(f"0::/{cgroup}/step_0/user/task_0\n")
    (root / "sys" / "fs" / "cgroup" / cgroup / "io.stat").write_text(
        f"259:0 rbytes={read_bytes} wbytes={write_bytes} rios={reads} wios={writes} dbytes=0 "
        f"dios=0\n")
