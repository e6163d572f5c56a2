"""
Check this node for the doctor: for each problem the command that fixes it.  Changes nothing.

Each check ends in a line: ok, note or problem, what was found where, and for a problem (and some
notes) a command.  Everything is read below --root, and judged by what the files contain; the
version file is only quoted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from iostats import schedulers
from iostats.base import config as site
from iostats.base import node_list
from iostats.base.errors import ConfigError, IostatsError
from iostats.base.free_space import explain_full, find_existing_part
from iostats.base.private_files import read_text
from iostats.doctor import disks, job_server, storage, targets
from iostats.doctor import site as doctor_site
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quote_path
from iostats.events.lnet_changes import (
    Share,
    count_waiting_messages,
    describe_drops,
    is_much,
    read_lnet,
    read_peers,
)
from iostats.lustre import paths as lustre_paths
from iostats.node import identity as this_node
from iostats.node import start_files
from iostats.totals.snapshot import parse_readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.lustre.stats import Reading
    from iostats.totals.snapshot import CounterSource, Readings, Snapshot

_INSTALL_READER = "make install-reader && systemctl enable --now iostats-reader.socket"
_MOUNT_DEBUGFS = "mount -t debugfs none /sys/kernel/debug"
_FIRST_WALL_CLOCK_NS = 10 ** 18  # see lustre/stats.py
_SHOW, _AS_ROOT = "lnetctl net show -v", "sudo iostats_client.py doctor"


def examine_counters(now: Snapshot, modules: dict[str, CounterSource], counters: list[File],
                     readings: Readings, root: str, config: Config,
                     by_reader: set[str]) -> list[Check]:
    """
    Return [Check] of the counter files `counters` of the snapshot `now`.

    `modules`: source -> module; `readings`: of `now`; `by_reader`: sources read by the reader.
    """
    read, refused = readings
    lockdown = _Lockdown(root)
    files = {source: [file for file in counters if file.source == source] for source in modules}
    checks = [_check_source(module, files[source], refused, read, root, source in by_reader,
                            lockdown)
              for source, module in modules.items() if hasattr(module, "parse")
              and (files[source] or not getattr(module, "ONLY_IF_USED", False))]
    return [*checks, lockdown.check(counters), _release(root, counters, read, modules),
            _start_time(root, read, modules), _check_stats_track(now),
            *_check_tiny_writes(root, read),
            _check_jobid_var(root, config)]


def _check_source(module: CounterSource, files: list[File], refused: dict[tuple[str, str], str],
                  read: dict[tuple[str, str], Reading], root: str, by_reader: bool,
                  lockdown: _Lockdown) -> Check:
    """The Check of one kind of counter file."""
    line = module.TITLE
    if not files:
        return Check(NOTE, line, "no file")
    good = [file for file in files if (file.source, file.name) in read]
    bad = [file for file in files if (file.source, file.name) in refused]
    lines = [why for file in good for why in read[file.source, file.name].bad.values()]
    if not bad and lines:
        return Check(PROBLEM, line, f"not counted: {lines[0]}" + (
            f", and {len(lines) - 1} more" if lines[1:] else "") + "; please send us what this "
            "prints", "iostats_client.py show --json")
    if not bad:
        readers = ("by the reader: this user may not read it" if by_reader
                   else _describe_readers(root, good[0].path))
        return Check(OK, line, f"{len(good)} in /{_get_directory(good[0])}; {readers}; "
                               f"{_summarize_counters(read, good)}")
    code, why = bad[0].errno, refused[bad[0].source, bad[0].name]
    text = f"{len(bad)} of {len(files)} not read: {why}"
    if code == errno.EACCES:
        closed = _find_closed(root, getattr(module, "DIRECTORY", ""))
        return Check(PROBLEM, line, text + (f" by {closed}" if closed else "") + " (or use root)",
                     lockdown.fix or _INSTALL_READER)
    if code == errno.EPERM:
        return Check(PROBLEM, line, text, lockdown.fix or lockdown.last_resort)
    if code == errno.ENOENT:
        if os.path.exists(os.path.join(root, "sys/kernel/debug/lustre")):
            return Check(PROBLEM, line, f"{len(bad)} of {len(files)} not in debugfs, which is "
                                        f"mounted", "umount -a -t lustre && mount -a -t lustre")
        return Check(PROBLEM, line, text, _MOUNT_DEBUGFS)
    return Check(PROBLEM, line, text + "; please send us what this prints",
                 "iostats_client.py show --json")


def _get_directory(file: File) -> str:
    place: str = file.path.rpartition(f"/{file.name}/")[0]
    return place or file.path


def _describe_readers(root: str, path: str) -> str:
    """The users who may read a file, by its mode and those of the directories above it."""
    above = ""
    for part in path.split("/"):
        above = f"{above}/{part}"
        status = os.stat(root.rstrip("/") + above)
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if not status.st_mode & needed:
            return f"for root alone ({above} is {stat.S_IMODE(status.st_mode):04o})"
    return f"for everybody ({stat.S_IMODE(status.st_mode):04o})"


def _find_closed(root: str, kind: str) -> str:
    """The directory or file that this process may not enter or read, with its mode; "" for none."""
    for place in lustre_paths.PLACES if kind else ():
        above = root.rstrip("/")
        for part in [*place.split("/"), kind]:
            above = f"{above}/{part}"
            if not os.path.exists(above):
                break
            if not os.access(above, os.R_OK | os.X_OK):
                status = os.stat(above)
                return f"{above} ({stat.S_IMODE(status.st_mode):04o}, user {status.st_uid})"
    return ""


def _summarize_counters(read: dict[tuple[str, str], Reading], files: list[File]) -> str:
    """The number of counters, and the units of those that differ between releases."""
    counters = {}
    for file in files:
        counters.update(read[file.source, file.name].counters)
    shown = [f"{name} [{counters[name].unit}]" for name in
             ("read_bytes", "write_bytes", "open", "ost_read", "mds_close", "close", "create")
             if name in counters][:3]
    return f"{len(counters)} counters" + (f": {', '.join(shown)} ..." if shown else "")


class _Lockdown:
    """
    Kernel lockdown: from "integrity" on, debugfs files that can be written are closed to root, too.

    Attributes:
        state: "none", "integrity", "confidentiality", or "" where the kernel does not tell.
        fix: the command that ends it with the next boot; "" where it is not in force.
    """

    def __init__(self, root: str) -> None:
        # none [integrity] confidentiality
        text = read_first_text(root, "sys/kernel/security/lockdown")
        self.state = text.partition("[")[2].partition("]")[0]
        by_boot = "lockdown=" in read_first_text(root, "proc/cmdline")
        self.last_resort = ("grubby --update-kernel=ALL --remove-args=lockdown" if by_boot
                            else "mokutil --disable-validation")
        self.fix = self.last_resort if self.state not in ("", "none") else ""

    def check(self, counters: list[File]) -> Check:
        if not self.state:
            return Check(NOTE, "lockdown", "the kernel does not show it "
                                           "(/sys/kernel/security/lockdown)")
        if self.state == "none":
            return Check(OK, "lockdown", "none")
        if any(file.errno in (errno.EPERM, errno.EACCES) for file in counters):
            return Check(PROBLEM, "lockdown", f"{self.state}: counters in debugfs are closed, even "
                                              f"to root and the reader, until the next boot",
                         self.fix)
        return Check(NOTE, "lockdown", f"{self.state}, and no counter file is closed by it")


def describe_releases(signs: list[tuple[int, int, str]]) -> str:
    """
    The releases that all `signs` have in common, in words; a sign is (first, last, description), as
    minor numbers of 2.x.

    >>> describe_releases([(12, 17, "debugfs"), (5, 14, "no start_time")])
    '2.12 to 2.14'
    """
    first, last = max([5, *(sign[0] for sign in signs)]), min([17, *(sign[1] for sign in signs)])
    if first > last:
        return f"2.{first} with some of 2.{last} (a vendor's backports)"
    if last == 17:
        return f"2.{first} or newer"
    return f"2.{first}" + ("" if first == last else f" {'or' if last == first + 1 else 'to'} "
                                                    f"2.{last}")


def _release(root: str, counters: list[File], read: dict[tuple[str, str], Reading],
             modules: dict[str, CounterSource]) -> Check:
    """
    The Check of Lustre's release, by the contents of files; for an unreadable file, by its place.
    """
    signs = []
    for source, module in modules.items():
        proc_until = getattr(module, "IN_PROC_UNTIL", None)
        if proc_until is None:
            continue
        path = next((file.path for file in counters if file.source == source), "")
        if path.startswith("proc/"):
            signs.append((5, proc_until, f"{source} in /proc"))
        elif path.startswith("sys/kernel/debug/"):
            signs.append((proc_until + 1, 17, f"{source} in debugfs"))
        elif path and os.path.isdir(os.path.join(root, "sys/fs/lustre/llite")):
            signs.append((proc_until + 1, 17, f"{source} not in /proc"))
    units = {counter.unit for (source, _), reading in read.items() if source == "llite"
             for counter in reading.counters.values()}
    for unit, first, last in (("regs", 5, 13), ("usec", 14, 15), ("usecs", 15, 17)):
        if unit in units:
            signs.append((first, last, f"[{unit}]"))
    header = next((file.text for file in counters if file.source in ("llite", "md_stats")
                   and (file.source, file.name) in read), "")
    if header:
        old = "secs.usecs" in header
        signs.append((5, 9, "secs.usecs") if old else (10, 17, "secs.nsecs"))
        if "start_time" in header:
            signs.append((15, 17, "start_time"))
        elif not read_first_text(root, "sys/fs/lustre/enable_stats_header"):
            signs.append((5, 14, "no start_time"))
    boot_clock = any(0 < (reading.snapshot_ns or 0) < _FIRST_WALL_CLOCK_NS
                     for reading in read.values())
    release = "2.15.0 or 2.15.1" if boot_clock else describe_releases(signs)
    version = read_first_text(root, "sys/fs/lustre/version",
                              "proc/fs/lustre/version").strip().partition("\n")
    reasons = [sign for _, _, sign in signs] + ["seconds since boot"] * boot_clock
    return Check(NOTE, "release", (
        f"looks like {release}: {', '.join(reasons)}" if reasons else
        "no counter file shows which") + f"; the version file says {version[0] or 'nothing'}")


def _start_time(root: str, read: dict[tuple[str, str], Reading],
                modules: dict[str, CounterSource]) -> Check:
    stats = {(source, name): reading for (source, name), reading in read.items()
             if modules[source].LAYER and not hasattr(modules[source], "START_TIME_LATE")}
    if stats and all(reading.start_ns for reading in stats.values()):
        return Check(OK, "start_time", "shown: it can be proved that no counter was cleared")
    off = read_first_text(root, "sys/fs/lustre/enable_stats_header").strip() == "0"
    return Check(NOTE, "start_time", "not shown: a clear is seen only by counters that decreased",
                 "lctl set_param enable_stats_header=1" if off else "")


def _check_stats_track(now: Snapshot) -> Check:
    track_files = [file for file in now.files if file.source.startswith("stats_track_")
                   and not file.errno]
    # Of the three the one with a number filters; the others then say `untracked`.
    off = sorted((file for file in track_files if file.text.strip() != "0 (all)"),
                 key=lambda file: not file.text.strip().isdigit())
    if off:
        return Check(PROBLEM, "stats_track", f"{off[0].name}: {off[0].source} is "
                     f"{off[0].text.strip()!r}: llite counts that alone, not the whole node",
                     f"lctl set_param llite.*.{off[0].source}=0")
    if not track_files:
        return Check(NOTE, "stats_track", "not shown")
    return Check(OK, "stats_track", "0 (all): the whole node is counted")


def _check_tiny_writes(root: str, read: dict[tuple[str, str], Reading]) -> list[Check]:
    """Whether small writes are counted; nothing where the release always does (up to 2.14)."""
    settings = {}
    for (source, name), reading in read.items():
        # start_time came with the release that does not count them any more, 2.14.56.
        if source == "llite" and reading.start_ns is not None:
            settings[name] = read_first_text(root, f"sys/fs/lustre/llite/{name}/tiny_write").strip()
    if "1" not in settings.values():
        return [Check(OK, "tiny_write", "0: small writes are in the bytes written")] * (
            "0" in settings.values())
    calls = missing = 0
    for name, switched in settings.items():
        counters = read["llite", name].counters
        if switched == "1" and "write" in counters:
            calls += counters["write"].samples
            missing += max(0, counters["write"].samples - (
                counters["write_bytes"].samples if "write_bytes" in counters else 0))
    return [Check(NOTE, "tiny_write", f"1: small writes into unsent pages are not in the bytes "
                  f"written, {missing} of {calls} write() calls so far; 0 counts them, and makes "
                  f"each of them 2 to 9 times as slow (docs/reference/counters.md)",
                  "lctl set_param llite.*.tiny_write=0")]


def _check_jobid_var(root: str, config: Config) -> Check:
    value = read_first_text(root, "sys/fs/lustre/jobid_var", "proc/fs/lustre/jobid_var").strip()
    variables = config.node.job_id_variables
    here = [name for name in variables if os.environ.get(name)] or variables
    command = f"lctl set_param jobid_var={here[0] if here else 'SLURM_JOB_ID'}"
    if not value:
        return Check(NOTE, "jobid_var", "not shown")
    if value == "disable":
        return Check(NOTE, "jobid_var", "disable: the servers' job_stats do not know this node's "
                                        "jobs", command)
    if value in variables or value in ("nodelocal", "session") or value in (
            schedulers.find_scheduler(name).JOB_ID_VARIABLE for name in schedulers.list_names()):
        return Check(OK, "jobid_var", value)
    return Check(NOTE, "jobid_var", f"{value}: the servers' job_stats have no job ids from here",
                 command)


def read_first_text(root: str, *paths: str) -> str:
    """The first of `paths` below `root` that can be read, or ""."""
    for path in paths:
        try:
            return read_text(os.path.join(root, path))
        except OSError:
            continue
    return ""


_OLDEST_PYTHON = (3, 9)


def examine(options: Mapping[str, str], root: str,
            modules: dict[str, CounterSource]) -> list[Check]:
    """
    Return [Check] of this node.

    `options`: the command line, {option: value}; `modules`: source -> module of sources/.
    """
    checks = [_check_python()]
    check: Check | None
    config, check = _load_config(options)
    checks = [*disks.examine(config, root), *checks, check]
    try:
        node, check = this_node.find_node_name(options.get("--node")), None
    except IostatsError as error:
        node, check = this_node.find_node_name(), Check(
            PROBLEM, "node", str(error), f"iostats_client.py doctor --node {os.uname()[1]}")
    warnings: list[str] = []
    by_reader: set[str] = set()
    now = this_node.take_snapshot(root, config, modules, "-", node, "-", emit=warnings.append,
                                  by_reader=by_reader)
    read, refused = parse_readings(now, modules)
    counters = [file for file in now.files if hasattr(modules.get(file.source), "parse")]
    checks.append(_check_mounts(root, [file for file in counters if modules[file.source].LAYER]))
    if counters:
        checks += examine_counters(now, modules, counters, (read, refused), root, config,
                                          by_reader)
    checks += targets.examine(now.files, root) + examine_network(root)
    checks += storage.examine_lnet_health(root, time.time()) + storage.examine(config, root)
    checks.append(_check_reader(root, config, warnings, by_reader))
    checks += _check_state_directory(config)
    job, job_check = _find_job(options, config)
    checks += [job_check, check or _check_node_list(node)]
    return (checks + doctor_site.examine(config, node) + doctor_site.examine_relay(config)
            + job_server.examine(options, config, job, node))


# -- this machine ----------------------------------------------------------------------------

def _check_python() -> Check:
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Check(PROBLEM, "python", f"{sys.executable} is {version}, and 3.9 is needed",
                     "dnf install python3.11 || apt-get install python3")
    return Check(OK, "python", f"{version}, {sys.executable}")


def _load_config(options: Mapping[str, str]) -> tuple[Config, Check]:
    """Return (Config, Check); for an invalid site.cfg the default Config."""
    try:
        config = site.load(options.get("--config"))
    except ConfigError as error:
        return _apply_options(options, site.Config()), Check(PROBLEM, "configuration", str(error),
                                                             _suggest_repair(str(error)))
    variables = [where.partition(": ")[2] for where in config.origin.values()
                 if where.startswith("environment: ")]
    sources = ", ".join(config.files + variables)
    return _apply_options(options, config), Check(OK, "configuration",
                                                  sources or "defaults, no file")


def _apply_options(options: Mapping[str, str], config: Config) -> Config:
    for option, name in (("--server", "server.host"), ("--state-dir", "node.state_dir")):
        if option in options:
            config.set_value(name, options[option], option)
    return config


def _suggest_repair(message: str) -> str:
    """The command that takes the line out of force that `message` begins with."""
    if message.startswith("environment: "):
        return "unset " + message.split(": ")[1]
    path, _, rest = message.partition(":")
    lineno = rest.partition(":")[0]
    if lineno.isdigit():
        return f"sed -i '{lineno}s/^/#/' {quote_path(path)}"
    return (f"chmod a+r {quote_path(path)}" if os.path.exists(path) else
            f"cp {quote_path(site.BESIDE)} {quote_path(path)}")


def _check_mounts(root: str, counters: list[File]) -> Check:
    points = lustre_paths.list_mount_points(root)
    if not counters:
        return Check(NOTE, "lustre", "no Lustre file system is mounted")
    if not points:
        return Check(NOTE, "lustre", "mounted, but not at a path that this process can see")
    return Check(OK, "lustre", "; ".join(f"{name} on {', '.join(where)}"
                                         for name, where in sorted(points.items())))


# -- the reader, the state directory, the job ---------------------------------------------------

def _check_reader(root: str, config: Config, warnings: list[str], by_reader: set[str]) -> Check:
    if not config.node.reader:
        return Check(NOTE, "reader", "never asked ([node] reader in site.cfg is empty)")
    path = os.path.join(root, config.node.reader.lstrip("/"))
    trouble = warnings[0] if warnings else ""
    if not trouble and not os.path.exists(path):
        return Check(NOTE, "reader", f"none: {path} is not there")
    if not trouble and not by_reader:
        from iostats.node import reader_client
        try:
            reader_client.ask(path)
        except reader_client.ReaderError as error:
            trouble = f"reader {path}: {error}"
    if trouble:
        why = trouble.partition(": ")[2].replace("; continuing without", "")
        return Check(PROBLEM, "reader", f"{path}: {why}",
                     "systemctl restart iostats-reader.socket")
    return Check(OK, "reader", f"{path} answers" + (f", and gave {', '.join(sorted(by_reader))}"
                                                    if by_reader else ""))


def _check_state_directory(config: Config) -> list[Check]:
    directory = config.node.state_dir or start_files.TMP
    if config.node.state_dir and os.path.lexists(directory):
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return [Check(PROBLEM, "state directory",
                          f"{directory}: a link, a file, or a directory of user "
                          f"{status.st_uid}", disks.OWN_STATE_DIR)]
        if status.st_mode & 0o077:
            return [Check(PROBLEM, "state directory", f"{directory}: mode "
                          f"{stat.S_IMODE(status.st_mode):04o}, others could have been there",
                          f"chmod 700 {quote_path(directory)}")]
    there = find_existing_part(directory)
    if not os.access(there, os.W_OK | os.X_OK):
        return [Check(PROBLEM, "state directory", f"{directory}: {there} cannot be written to",
                      disks.OWN_STATE_DIR)]
    if explain_full(there):
        return []                                       # disks.py says so
    return [Check(OK, "state directory", directory if config.node.state_dir else
                  f"a private one below {directory}")]


def _find_job(options: Mapping[str, str], config: Config) -> tuple[str | None, Check]:
    """Return (job id or None, Check)."""
    try:
        job = this_node.find_job(options.get("--job"), config)
    except IostatsError as error:
        variables = [name for name in config.node.job_id_variables if os.environ.get(name)]
        if "--job" in options or variables:
            return None, Check(PROBLEM, "job", str(error),
                               f"unset {variables[0]}" if "--job" not in options else
                               "iostats_client.py doctor --job ID")
        return None, Check(NOTE, "job", f"none: {error}")
    where = "--job" if "--job" in options else next(
        (name for name in config.node.job_id_variables if os.environ.get(name)),
        schedulers.detect_scheduler(os.environ).NAME)
    return job, Check(OK, "job", f"{job}, from {where}")


def _check_node_list(node: str) -> Check:
    """The Check whether the server expects this node by its name."""
    for name in schedulers.list_names():
        system = schedulers.find_scheduler(name)
        listed = getattr(system, "NODE_LIST_VARIABLE", "")
        in_file = getattr(system, "NODE_FILE_VARIABLE", "")
        where = next((variable for variable in (listed, in_file) if os.environ.get(variable)), "")
        if where:
            text = os.environ[where]
            if where == in_file:
                text = ",".join(read_first_text("/", text).split())
                if not text:
                    return Check(PROBLEM, "node", f"{node}; {where}: {os.environ[where]} cannot be "
                                                  f"read", f"unset {where}")
            break
    else:
        system = schedulers.detect_scheduler(os.environ)
        where, text = f"{system.NAME}'s list", system.about(os.environ).get("nodes", "")
    if not text:
        return Check(OK, "node", f"{node}; no batch system tells the nodes of the job")
    fix = getattr(system, "ON_EACH_NODE", "")
    try:
        names = node_list.expand_node_list(text)
    except ValueError as error:
        return Check(PROBLEM, "node", f"{node}; {where}: expected a list such as nid[00001-00128], "
                                      f"got {str(error)[:40]!r}", f"unset {where}")
    if node in names:
        return Check(OK, "node", f"{node}, one of {len(set(names))} in {where}")
    short = node.partition(".")[0]
    same_host = [name for name in names if name.partition(".")[0] == short]
    if same_host:
        return Check(PROBLEM, "node", f"{node} is not in {where}, which calls it {same_host[0]}",
                     f"export SLURMD_NODENAME={same_host[0]}")
    return Check(PROBLEM, "node", f"{node} is not in {where}: {text[:60]}",
                 f"{fix} iostats_client.py doctor".strip())


def examine_network(root: str) -> list[Check]:
    """Return [Check] of LNet; [] without LNet, or without permission to read it."""
    seen = read_lnet(root)
    if seen.stats is None:
        # Debugfs is closed to users whether or not LNet is there.
        if not os.path.isdir(os.path.join(root, "sys/module/lnet")):
            return []
        return [Check(NOTE, "lnet", seen.why, _AS_ROOT if os.geteuid() else "")] if seen.why else []
    down = [nid for nid, interface in (seen.interfaces or {}).items() if not interface.is_up]
    if down:
        return [Check(PROBLEM, "lnet", f"{len(down)} of {len(seen.interfaces or ())} interfaces "
                                       f"are down: {', '.join(down[:5])}", _SHOW)]
    routers = [nid for nid, is_up in (seen.routers or {}).items() if not is_up]
    if routers:
        return [Check(NOTE, "lnet", f"{len(routers)} of {len(seen.routers or ())} routers are "
                                    f"down: {', '.join(routers[:5])}", "lnetctl route show -v")]
    drops = Share(seen.stats.dropped, sum(seen.stats[:4]))
    text = (f"{describe_drops(drops)} since it was started; "
            f"{count_waiting_messages(seen.interfaces):,} wait for an interface now"
            f"{_describe_short_peers(root)}")
    return [Check(NOTE, "lnet", text, "lnetctl net show -v 3") if is_much(drops) else
            Check(OK, "lnet", text)]


def _describe_short_peers(root: str) -> str:
    """The messages that wait for credits of peers, such as ", 59 for 2 of 2,300 peers"."""
    peers = read_peers(root)
    if peers is None:
        return ""
    counts = [peer.waiting for peer in peers.values() if peer.waiting]
    return f", {sum(counts):,} for {len(counts):,} of {len(peers):,} peers"
