"""Command line of simlustre."""
from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import sys

from . import daemon, static, tree
from .client import Client
from .counters import RELEASES

EPILOG = """\
examples:
  python -m simlustre --backing /tmp/data --mount /tmp/node1 --fs scratch
  dd if=/dev/zero of=/tmp/node1/scratch/file bs=64k count=23
  cat /tmp/node1/root/sys/kernel/debug/lustre/llite/scratch-*/stats
  python -m simlustre --unmount /tmp/node1

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
    except (daemon.MountError, static.StaticError) as error:
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
        prog="simlustre", description="Simulate a Lustre client node.", epilog=EPILOG,
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
        help="add to the counters of a --static tree")
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
    options = _options(parser, args)
    mount_point = os.path.abspath(args.mount)
    if args.static:
        static.make(mount_point, options)
        return 0
    if not args.backing:
        parser.error("--backing DIR is needed (or --static)")
    return _mount(mount_point, os.path.abspath(args.backing), options, args.foreground)


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
    if not 1 <= args.osts <= 65535 or not 1 <= args.mdts <= 65535:
        parser.error("--osts, --mdts: expected 1 to 65535")
    return {"fs": args.fs, "release": args.release, "osts": args.osts, "mdts": args.mdts,
            "instance": args.instance or "ffff" + secrets.token_hex(6)}


def _mount(mount_point: str, backing: str, options: dict, foreground: bool) -> int:
    problem = daemon.find_problem()
    if problem:
        raise daemon.MountError(problem)
    if daemon.is_mounted(mount_point):
        raise daemon.MountError(f"{mount_point}: busy, a simlustre is mounted there already")
    os.makedirs(mount_point, exist_ok=True)
    if os.listdir(mount_point):
        raise daemon.MountError(f"{mount_point}: not empty; its files would be hidden")
    if (os.path.realpath(backing) + "/").startswith(os.path.realpath(mount_point) + "/"):
        raise daemon.MountError(f"{backing}: the backing directory must be outside of the mount")
    for fs in options["fs"]:
        directory = os.path.join(backing, fs)
        if not os.path.isdir(directory):
            os.makedirs(directory)
            os.chmod(directory, 0o1777)

    def serve(ready):
        from . import mount  # imports libfuse, which find_problem() has chosen
        release = RELEASES[options["release"]]
        clients = [Client(fs, options["instance"], release, options["osts"], options["mdts"])
                   for fs in options["fs"]]
        files = tree.files_of(mount_point, release, clients)
        about = json.dumps(dict(options, pid=os.getpid(), backing=backing)) + "\n"
        files[".sim.json"] = tree.File(lambda: about)
        mount.serve(mount.Node(backing, clients, files, ready), mount_point)

    if not foreground:
        daemon.start(serve, mount_point, os.path.join(backing, "simlustre.log"))
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
