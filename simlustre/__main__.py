"""Command line of simlustre."""
from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import secrets
import sys
import threading

from . import daemon, static, tree
from .client import Client, Stripes, ping
from .counters import RELEASES
from .jobid import DEFAULT_NAME, JobIds
from .network import COMMANDS, SERVER, Network, NetworkError, Wire
from .target import NAME
from .truth import Truth

EPILOG = """\
examples, a client alone:
  python -m simlustre --backing /tmp/data --mount /tmp/node1 --fs scratch
  dd if=/dev/zero of=/tmp/node1/scratch/file bs=64k count=23
  cat /tmp/node1/root/sys/kernel/debug/lustre/llite/scratch-*/stats
  python -m simlustre --unmount /tmp/node1

a storage server, and a client of it:
  python -m simlustre --server oss1 --mount /tmp/oss1 --network /tmp/net \\
                      --target scratch-OST0000 --target scratch-MDT0000
  python -m simlustre --backing /tmp/data --mount /tmp/node1 --fs scratch \\
                      --network /tmp/net --nid 10.77.0.11@tcp
  SLURM_JOB_ID=4711 dd if=/dev/zero of=/tmp/node1/scratch/file bs=64k count=23
  cat /tmp/oss1/root/proc/fs/lustre/obdfilter/scratch-OST0000/job_stats
  echo clear > /tmp/oss1/root/proc/fs/lustre/obdfilter/scratch-OST0000/job_stats
  python -m simlustre --ctl /tmp/oss1 evict 10.77.0.11@tcp

what --ctl can do:
  {COMMANDS}

without FUSE:
  python -m simlustre --static --mount /tmp/node2 --fs scratch
  python -m simlustre --move /tmp/node2 scratch open=1 write_bytes=23x65536

exit status:
  0 done   1 not possible here (one line on stderr says why)   2 bad usage
"""


def main(arguments=None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        return _run(parser, args)
    except (daemon.MountError, static.StaticError, NetworkError) as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    print(f"simlustre: {reason}", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"simlustre: {message} (see --help)\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="simlustre", description="Simulate a Lustre client node, or a storage server.",
        epilog=EPILOG.replace("{COMMANDS}", "\n  ".join(COMMANDS.values())),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mount", metavar="MNT", help="where the simulated node appears; an empty directory")
    add("--backing", metavar="DIR", help="where the data really are; nodes may share it")
    add("--fs", metavar="NAME", action="append", help="a file system; may be given again")
    add("--release", choices=sorted(RELEASES), default="2.15",
        help="forms and places of the counters (default: 2.15)")
    add("--osts", metavar="N", type=int, default=4, help="OSTs of each fs (default: 4)")
    add("--mdts", metavar="N", type=int, default=1, help="MDTs of each fs (default: 1)")
    add("--instance", metavar="HEX16", help="end of the names of llite (default: random)")
    add("--foreground", action="store_true", help="stay; end with Ctrl-C or --unmount")
    add("--static", action="store_true", help="without FUSE: plain files, changed by --move")
    add("--move", nargs="+", metavar=("MNT", "FS COUNTER=N"),
        help="add to the counters of a --static tree; COUNTxSIZE@1 for all on OST 1")
    add("--network", metavar="DIR",
        help="where storage servers and their clients find each other; made where it is missing")
    add("--nid", metavar="NID", action="append", default=[],
        help="of this node (default: 10.77.0.1@tcp); may be given again: a client's connections "
             "are from each in turn")
    add("--node", metavar="NAME", help="its host name, for jobid_name (default: MNT's last part)")
    add("--jobid-var", metavar="VAR", default="SLURM_JOB_ID",
        help="disable, procname_uid, nodelocal or a variable (default: SLURM_JOB_ID)")
    add("--jobid-name", metavar="FORM", default=DEFAULT_NAME,
        help="as in Lustre (default: %%e.%%u)")
    add("--stripe-count", metavar="N", type=int, default=1, help="OSTs of a file (default: 1)")
    add("--stripe-size", metavar="KIB", type=int, default=1024,
        help="of a stripe; a multiple of 64 (default: 1024)")
    add("--rpc-size", metavar="MIB", type=int, default=4, choices=(1, 2, 4, 8, 16),
        help="what one read or write RPC moves at most (default: 4)")
    add("--slow", metavar="US", type=int, default=0,
        help="microseconds that each call of a program takes longer (default: 0)")
    add("--server", metavar="NAME", help="a storage server, not a client")
    add("--target", metavar="FS-OSTxxxx", action="append", default=[],
        help="an OST or MDT of the storage server; may be given again")
    add("--cleanup-interval", metavar="S", type=int, default=600,
        help="its job_cleanup_interval (default: 600)")
    add("--recovery", metavar="S", type=float, default=0,
        help="how long its targets wait for their clients after a start (default: 0, not at all)")
    add("--ping", metavar="S", type=float, default=0,
        help="a client asks its targets by itself in this interval, and learns of evictions and "
             "starts (default: 0, it does not)")
    add("--ctl", nargs="+", metavar=("MNT", "COMMAND"),
        help="tell a storage server to do something; see below")
    add("--unmount", metavar="MNT", help="unmount and wait until the process has gone")
    add("--check", action="store_true", help="say whether FUSE is available here")
    return parser


def _run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.check:
        problem = daemon.check()
        print(f"FUSE is not available here: {problem}" if problem else "FUSE is available here")
        return 1 if problem else 0
    if args.unmount:
        mount_point = os.path.abspath(args.unmount)
        if os.path.exists(os.path.join(mount_point, static.STATE)) \
                and not daemon.is_mounted(mount_point):
            print(f"{mount_point}: made by --static, nothing to unmount")
            return 0
        remark = daemon.unmount(mount_point)
        if remark:
            print(f"simlustre: {remark}", file=sys.stderr)
        return 0
    if args.move:
        if len(args.move) < 3:
            parser.error("--move needs MNT FS COUNTER=N ...")
        static.move(os.path.abspath(args.move[0]), args.move[1], args.move[2:])
        return 0
    for nid in args.nid:
        if not re.fullmatch(r"[0-9A-Za-z.:]+@[a-z][a-z0-9]*", nid):
            parser.error(f"--nid {nid!r}: expected such as 10.77.0.11@tcp")
    if args.ctl:
        return _tell(parser, os.path.abspath(args.ctl[0]), args.ctl[1:])
    if args.server:
        return _serve_targets(parser, args)
    options = _options(parser, args)
    mount_point = os.path.abspath(args.mount)
    if args.static:
        static.make(mount_point, options)
        return 0
    if not args.backing:
        parser.error("--backing DIR is needed (or --static)")
    return _mount(mount_point, os.path.abspath(args.backing), options, args)


def _options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> dict:
    if not args.mount or not args.fs:
        parser.error("--mount MNT and --fs NAME are needed")
    for fs in args.fs:
        # A Lustre file system name, and not that of our own directory in the mount.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,8}", fs) or fs == "root":
            parser.error(f"--fs {fs!r}: expected 1 to 8 of A-Z a-z 0-9 _ -, and not 'root'")
    if len(set(args.fs)) < len(args.fs):
        parser.error("--fs: the same name twice")
    if args.instance and not re.fullmatch(r"[0-9a-f]{16}", args.instance):
        parser.error(f"--instance {args.instance!r}: expected 16 hex digits")
    if args.stripe_count < 1 or args.stripe_size < 64 or args.stripe_size % 64:
        parser.error("--stripe-count: expected 1 or more; --stripe-size: a multiple of 64")
    if not 1 <= args.osts <= 65535 or not 1 <= args.mdts <= 65535:
        parser.error("--osts, --mdts: expected 1 to 65535")
    return {"fs": args.fs, "release": args.release, "osts": args.osts, "mdts": args.mdts,
            "instance": args.instance or "ffff" + secrets.token_hex(6)}


def _mount(mount_point: str, backing: str, options: dict, args: argparse.Namespace) -> int:
    _check_mount_point(mount_point)
    if (os.path.realpath(backing) + "/").startswith(os.path.realpath(mount_point) + "/"):
        raise daemon.MountError(f"{backing}: the backing directory must be outside of the mount")
    for fs in options["fs"]:
        directory = os.path.join(backing, fs)
        if not os.path.isdir(directory):
            os.makedirs(directory)
            os.chmod(directory, 0o1777)
    network = Network(args.network) if args.network else None
    counts = {fs: _targets_of(network, fs) if network else (options["osts"], options["mdts"])
              for fs in options["fs"]}
    job_ids = JobIds(args.jobid_var, args.jobid_name,
                     args.node or os.path.basename(mount_point), options["release"])
    stripes = Stripes(args.stripe_count, args.stripe_size << 10, args.rpc_size << 20)

    def serve(ready):
        from . import mount  # imports libfuse, which find_problem() has chosen
        release = RELEASES[options["release"]]

        def caller():
            return job_ids.of_process(*mount.fuse_get_context())
        truth = Truth(options["fs"], caller if network else None)

        nids = itertools.cycle(args.nid or ["10.77.0.1@tcp"])

        def wire(target, uuid):
            return Wire(network, target, next(nids), uuid, caller, truth) if network else None
        clients = [Client(fs, options["instance"], release, *counts[fs], stripes, wire)
                   for fs in options["fs"]]
        if args.ping:
            threading.Thread(target=ping, args=(clients, args.ping), daemon=True).start()
        files = tree.files_of(mount_point, release, clients, job_ids)
        files[".sim.json"] = _about(dict(options, backing=backing))
        node = mount.Node(backing, clients, files, ready, truth,
                          caller if network else lambda: "", args.slow)
        mount.serve(node, mount_point)
    return _begin(serve, mount_point, os.path.join(backing, "simlustre.log"), args.foreground)


def _serve_targets(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if not args.mount or not args.network or not args.target:
        parser.error("--server NAME needs --mount MNT, --network DIR and --target FS-OSTxxxx")
    if not SERVER.fullmatch(args.server):
        parser.error(f"--server {args.server!r}: expected a host name")
    for target in args.target:
        if not NAME.fullmatch(target):
            parser.error(f"--target {target!r}: expected such as scratch-OST0000, "
                         f"scratch-MDT0000, in lower-case hex digits")
    mount_point = os.path.abspath(args.mount)
    _check_mount_point(mount_point)
    network = Network(args.network)

    def serve(ready):
        from . import server_mount
        from .storage_server import StorageServer
        server = StorageServer(
            args.server, (args.nid or ["10.77.1.1@tcp"])[0], args.release, network, args.target,
            args.cleanup_interval, args.jobid_var, args.recovery)
        about = _about({"server": args.server, "network": network.directory})
        server_mount.serve(server_mount.ServerMount(server, {".sim.json": about}, ready),
                           mount_point)
    log = os.path.join(network.directory, f"{args.server}.log")
    return _begin(serve, mount_point, log, args.foreground)


def _tell(parser: argparse.ArgumentParser, mount_point: str, words: list) -> int:
    if not words:
        parser.error("--ctl needs MNT COMMAND ...")
    try:
        with open(os.path.join(mount_point, static.STATE)) as file:
            about = json.load(file)
        answer = Network(about["network"]).ask(f"{about['server']}.sock",
                                               {"do": "ctl", "words": words})
    except (OSError, KeyError):
        raise NetworkError(f"{mount_point}: no simulated storage server is mounted there") from None
    if answer["is"] != "ok":
        raise NetworkError(answer["say"])
    print(answer["say"])
    return 0


def _targets_of(network: Network, fs: str) -> tuple:
    osts, mdts = network.targets(fs)
    if not osts or not mdts:
        raise NetworkError(f"{network.directory}: file system {fs!r} has {osts} OSTs and {mdts} "
                           f"MDTs there; start its storage servers first (--server)")
    return osts, mdts


def _about(what: dict) -> tree.File:
    """.sim.json, by which --unmount and --ctl find the process."""
    return tree.File(lambda: json.dumps(dict(what, pid=os.getpid())) + "\n")


def _check_mount_point(mount_point: str) -> None:
    problem = daemon.find_problem()
    if problem:
        raise daemon.MountError(problem)
    if daemon.is_mounted(mount_point):
        raise daemon.MountError(f"{mount_point}: busy, a simlustre is mounted there already")
    os.makedirs(mount_point, exist_ok=True)
    if os.listdir(mount_point):
        raise daemon.MountError(f"{mount_point}: not empty; its files would be hidden")


def _begin(serve, mount_point: str, log: str, foreground: bool) -> int:
    """Run serve(ready) in the background, until it is mounted, or here to its end."""
    if not foreground:
        daemon.start(serve, mount_point, log)
        return 0
    mounted = []

    def ready():
        mounted.append(True)
        print(f"{mount_point}: mounted", flush=True)
    try:
        serve(ready)
    except RuntimeError:            # libfuse ended with an error, or by a signal such as Ctrl-C
        return 0 if mounted else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
