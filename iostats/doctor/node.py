"""
What is in the way on this node, and the one command that fixes it; changes nothing.

Each check ends in a line: ok, note or problem, what was found where, and for a problem (and some
notes) a command.  Everything is read below --root, and judged by what the files show; the version
file is only quoted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from iostats import schedulers
from iostats.base import config as site
from iostats.base import job_id, node_list
from iostats.base.errors import ConfigError, IostatsError, NotDelivered
from iostats.base.private_files import read_text
from iostats.doctor import site as doctor_site
from iostats.doctor import storage
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.lustre import paths as lustre_paths
from iostats.node import identity as this_node
from iostats.node import start_files
from iostats.totals.snapshot import readings
from iostats.wire import auth, client, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.lustre.stats import Reading
    from iostats.totals.snapshot import Snapshot

_INSTALL_READER = "make install-reader && systemctl enable --now iostats-reader.socket"
_MOUNT_DEBUGFS = "mount -t debugfs none /sys/kernel/debug"
_FREE_BYTES = 16 << 20
_OLDEST_PYTHON = (3, 9)
_FIRST_WALL_CLOCK_NS = 10 ** 18                    # see lustre.py


def examine(given: dict[str, Any], root: str, known: dict[str, ModuleType]) -> list[Check]:
    """
    [Check] of this node.

    `given`: the command line, {option: value}; `known`: source -> module of sources/.
    """
    checks = [_python()]
    check: Check | None
    config, check = _config(given)
    checks.append(check)
    try:
        node, check = this_node.name(given.get("--node")), None
    except IostatsError as error:
        node, check = this_node.name(), Check(PROBLEM, "node", str(error),
                                              f"iostats_client.py doctor --node {os.uname()[1]}")
    said: list[str] = []
    by_reader: set[str] = set()
    now = this_node.snapshot(root, config, known, "-", node, "-", say=said.append,
                             by_reader=by_reader)
    read, refused = readings(now, known)
    counters = [file for file in now.files if hasattr(known.get(file.source), "parse")]
    checks.append(_mounts(root, counters))
    if counters:
        lockdown = _Lockdown(root)
        for source, module in known.items():
            if hasattr(module, "parse"):
                checks.append(_source(module, [f for f in counters if f.source == source], refused,
                                      read, root, source in by_reader, lockdown))
        checks += [lockdown.check(counters), _release(root, counters, read, known),
                   _start_time(root, read, known), _stats_track(now), *_tiny_write(root, read),
                   _jobid_var(root, config)]
    checks += storage.examine(config, root)
    checks.append(_reader(root, config, said, by_reader))
    checks.append(_state_directory(config))
    job, job_check = _job(given, config)
    checks += [job_check, check or _node_list(node)]
    return checks + doctor_site.examine(config, node) + _server(given, config, job, node)


# -- this machine ----------------------------------------------------------------------------

def _python() -> Check:
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Check(PROBLEM, "python", f"{sys.executable} is {version}, and 3.9 is needed",
                     "dnf install python3.11 || apt-get install python3")
    return Check(OK, "python", f"{version}, {sys.executable}")


def _config(given: dict[str, Any]) -> tuple[Config, Check]:
    """(Config, Check); with a mistake, the one of the defaults."""
    try:
        config = site.load(given.get("--config"))
    except ConfigError as error:
        return _with_options(given, site.Config()), Check(PROBLEM, "configuration", str(error),
                                                          _without_the_mistake(str(error)))
    variables = [where.partition(": ")[2] for where in config.origin.values()
                 if where.startswith("environment: ")]
    found = ", ".join(config.files + variables)
    return _with_options(given, config), Check(
        NOTE if config.notes else OK, "configuration",
        "; ".join([found or "defaults, no file", *config.notes]))


def _with_options(given: dict[str, Any], config: Config) -> Config:
    for option, name in (("--server", "server.host"), ("--state-dir", "node.state_dir")):
        if option in given:
            config.take(name, given[option], option)
    return config


def _without_the_mistake(message: str) -> str:
    """The command that takes the line out of force that `message` begins with."""
    if message.startswith("environment: "):
        return "unset " + message.split(": ")[1]
    path, _, rest = message.partition(":")
    lineno = rest.partition(":")[0]
    if lineno.isdigit():
        return f"sed -i '{lineno}s/^/#/' {quoted(path)}"
    return (f"chmod a+r {quoted(path)}" if os.path.exists(path) else
            f"cp {quoted(site.BESIDE)} {quoted(path)}")


def _mounts(root: str, counters: list[File]) -> Check:
    points = lustre_paths.mount_points(root)
    if not counters:
        return Check(NOTE, "lustre", "no Lustre file system is mounted")
    if not points:
        return Check(NOTE, "lustre", "mounted, but where is not in sight of this process")
    return Check(OK, "lustre", "; ".join(f"{name} on {', '.join(where)}"
                                         for name, where in sorted(points.items())))


# -- counter files ---------------------------------------------------------------------------

def _source(module: ModuleType, found: list[File], refused: dict[tuple[str, str], str],
            read: dict[tuple[str, str], Reading], root: str, by_reader: bool,
            lockdown: _Lockdown) -> Check:
    """The Check of one kind of counter file."""
    line = module.TITLE
    if not found:
        return Check(NOTE, line, "no file")
    good = [file for file in found if (file.source, file.name) in read]
    bad = [file for file in found if (file.source, file.name) in refused]
    lines = [why for file in good for why in read[file.source, file.name].bad.values()]
    if not bad and lines:
        return Check(PROBLEM, line, f"not counted: {lines[0]}" + (
            f", and {len(lines) - 1} more" if lines[1:] else "") + "; please send us what this "
            "prints", "iostats_client.py show --json")
    if not bad:
        who = ("by the reader: this user may not read it" if by_reader
               else _who_may_read(root, good[0].path))
        return Check(OK, line, f"{len(good)} in /{_place(good[0])}; {who}; "
                                 f"{_in_short(read, good)}")
    code, why = bad[0].errno, refused[bad[0].source, bad[0].name]
    text = f"{len(bad)} of {len(found)} not read: {why}"
    if code == errno.EACCES:
        closed = _closed_by(root, getattr(module, "DIRECTORY", ""))
        return Check(PROBLEM, line, text + (f" by {closed}" if closed else "") + " (or use root)",
                     lockdown.fix or _INSTALL_READER)
    if code == errno.EPERM:
        return Check(PROBLEM, line, text, lockdown.fix or lockdown.last_resort)
    if code == errno.ENOENT:
        if os.path.exists(os.path.join(root, "sys/kernel/debug/lustre")):
            return Check(PROBLEM, line, f"{len(bad)} of {len(found)} not in debugfs, which is "
                                          f"mounted", "umount -a -t lustre && mount -a -t lustre")
        return Check(PROBLEM, line, text, _MOUNT_DEBUGFS)
    return Check(PROBLEM, line, text + "; please send us what this prints",
                 "iostats_client.py show --json")


def _place(file: File) -> str:
    place: str = file.path.rpartition(f"/{file.name}/")[0]
    return place or file.path


def _who_may_read(root: str, path: str) -> str:
    """Who may read a file, by its mode and those of the directories above it."""
    above = ""
    for part in path.split("/"):
        above = f"{above}/{part}"
        found = os.stat(root.rstrip("/") + above)
        needed = stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IROTH
        if not found.st_mode & needed:
            return f"for root alone ({above} is {stat.S_IMODE(found.st_mode):04o})"
    return f"for everybody ({stat.S_IMODE(found.st_mode):04o})"


def _closed_by(root: str, kind: str) -> str:
    """The directory or file that this process may not enter or read, and its mode; "" for none."""
    for place in lustre_paths.PLACES if kind else ():
        above = root.rstrip("/")
        for part in [*place.split("/"), kind]:
            above = f"{above}/{part}"
            if not os.path.exists(above):
                break
            if not os.access(above, os.R_OK | os.X_OK):
                found = os.stat(above)
                return f"{above} ({stat.S_IMODE(found.st_mode):04o}, user {found.st_uid})"
    return ""


def _in_short(read: dict[tuple[str, str], Reading], found: list[File]) -> str:
    """How many counters, and the units of some that differ between releases."""
    counters = {}
    for file in found:
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
        text = _text(root, "sys/kernel/security/lockdown")
        self.state = text.partition("[")[2].partition("]")[0]
        by_boot = "lockdown=" in _text(root, "proc/cmdline")
        self.last_resort = ("grubby --update-kernel=ALL --remove-args=lockdown" if by_boot
                            else "mokutil --disable-validation")
        self.fix = self.last_resort if self.state not in ("", "none") else ""

    def check(self, counters: list[File]) -> Check:
        if not self.state:
            return Check(NOTE, "lockdown", "the kernel does not tell "
                                           "(/sys/kernel/security/lockdown)")
        if self.state == "none":
            return Check(OK, "lockdown", "none")
        if any(file.errno in (errno.EPERM, errno.EACCES) for file in counters):
            return Check(PROBLEM, "lockdown", f"{self.state}: counters in debugfs are closed, even "
                                              f"to root and the reader, until the next boot",
                         self.fix)
        return Check(NOTE, "lockdown", f"{self.state}, and no counter file is closed by it")


def _text(root: str, *paths: str) -> str:
    """The first of `paths` that can be read, or ""."""
    for path in paths:
        try:
            return read_text(os.path.join(root, path))
        except OSError:
            continue
    return ""


# -- which release ---------------------------------------------------------------------------

def looks_like(signs: list[tuple[int, int, str]]) -> str:
    """
    Words for the releases that all `signs` have in common; a sign is (first, last, what it is),
    as minor numbers of 2.x.

    >>> looks_like([(12, 17, "debugfs"), (5, 14, "no start_time")])
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
             known: dict[str, ModuleType]) -> Check:
    """By what the files show; where a file is only refused, by where it is not."""
    signs = []
    for source, module in known.items():
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
        elif not _text(root, "sys/fs/lustre/enable_stats_header"):
            signs.append((5, 14, "no start_time"))
    boot_clock = any(0 < reading.snapshot_ns < _FIRST_WALL_CLOCK_NS for reading in read.values())
    release = "2.15.0 or 2.15.1" if boot_clock else looks_like(signs)
    version = _text(root, "sys/fs/lustre/version", "proc/fs/lustre/version").strip().partition("\n")
    return Check(NOTE, "release", f"looks like {release}: "
                 + ", ".join([what for _, _, what in signs]
                             + ["seconds since boot"] * boot_clock)
                 + f"; the version file says {version[0] or 'nothing'}")


def _start_time(root: str, read: dict[tuple[str, str], Reading],
                known: dict[str, ModuleType]) -> Check:
    stats = {(source, name): one for (source, name), one in read.items()
             if known[source].LAYER and not hasattr(known[source], "START_TIME_LATE")}
    if stats and all(one.start_ns for one in stats.values()):
        return Check(OK, "start_time", "shown: that nothing was cleared can be proved")
    off = _text(root, "sys/fs/lustre/enable_stats_header").strip() == "0"
    return Check(NOTE, "start_time", "not shown: a clear is seen only by counters that went back",
                 "lctl set_param enable_stats_header=1" if off else "")


def _stats_track(now: Snapshot) -> Check:
    found = [file for file in now.files if file.source.startswith("stats_track_")
             and not file.errno]
    # Of the three the one with a number filters; the others then say `untracked`.
    off = sorted((file for file in found if file.text.strip() != "0 (all)"),
                 key=lambda file: not file.text.strip().isdigit())
    if off:
        return Check(PROBLEM, "stats_track", f"{off[0].name}: {off[0].source} is "
                     f"{off[0].text.strip()!r}: llite counts that alone, not the whole node",
                     f"lctl set_param llite.*.{off[0].source}=0")
    if not found:
        return Check(NOTE, "stats_track", "not shown")
    return Check(OK, "stats_track", "0 (all): the whole node is counted")


def _tiny_write(root: str, read: dict[tuple[str, str], Reading]) -> list[Check]:
    """Whether small writes are counted; nothing where the release always does (up to 2.14)."""
    found = {}
    for (source, name), one in read.items():
        # start_time came with the release that does not count them any more, 2.14.56.
        if source == "llite" and one.start_ns is not None:
            found[name] = _text(root, f"sys/fs/lustre/llite/{name}/tiny_write").strip()
    if "1" not in found.values():
        return [Check(OK, "tiny_write", "0: small writes are in the bytes written")] * (
            "0" in found.values())
    calls = missing = 0
    for name, switched in found.items():
        counters = read["llite", name].counters
        if switched == "1" and "write" in counters:
            calls += counters["write"].samples
            missing += max(0, counters["write"].samples - (
                counters["write_bytes"].samples if "write_bytes" in counters else 0))
    return [Check(NOTE, "tiny_write", f"1: small writes into unsent pages are not in the bytes "
                  f"written, {missing} of {calls} write() calls so far; 0 counts them, and makes "
                  f"each of them 2 to 9 times as slow (docs/counters.md)",
                  "lctl set_param llite.*.tiny_write=0")]


def _jobid_var(root: str, config: Config) -> Check:
    value = _text(root, "sys/fs/lustre/jobid_var", "proc/fs/lustre/jobid_var").strip()
    variables = config["node.job_id_variables"]
    here = [name for name in variables if os.environ.get(name)] or variables
    command = f"lctl set_param jobid_var={here[0] if here else 'SLURM_JOB_ID'}"
    if not value:
        return Check(NOTE, "jobid_var", "not shown")
    if value == "disable":
        return Check(NOTE, "jobid_var", "disable: the servers' job_stats do not know this node's "
                                        "jobs", command)
    if value in variables or value in ("nodelocal", "session") or value in (
            schedulers.named(name).JOB_ID_VARIABLE for name in schedulers.names()):
        return Check(OK, "jobid_var", value)
    return Check(NOTE, "jobid_var", f"{value}: the servers' job_stats have no job ids from here",
                 command)


# -- the reader, the state directory, the job ---------------------------------------------------

def _reader(root: str, config: Config, said: list[str], by_reader: set[str]) -> Check:
    if not config["node.reader"]:
        return Check(NOTE, "reader", "never asked ([node] reader in site.cfg is empty)")
    path = os.path.join(root, config["node.reader"].lstrip("/"))
    trouble = said[0] if said else ""
    if not trouble and not os.path.exists(path):
        return Check(NOTE, "reader", f"none: {path} is not there")
    if not trouble and not by_reader:
        from iostats.node import reader_client
        try:
            reader_client.ask(path)
        except reader_client.ReaderError as error:
            trouble = f"reader {path}: {error}"
    if trouble:
        why = trouble.partition(": ")[2].replace("; going on without", "")
        return Check(PROBLEM, "reader", f"{path}: {why}",
                     "systemctl restart iostats-reader.socket")
    return Check(OK, "reader", f"{path} answers" + (f", and gave {', '.join(sorted(by_reader))}"
                                                    if by_reader else ""))


def _state_directory(config: Config) -> Check:
    directory = config["node.state_dir"] or start_files.TMP
    fix = "export IOSTATS_NODE_STATE_DIR=~/.iostats/state"
    if config["node.state_dir"] and os.path.lexists(directory):
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return Check(PROBLEM, "state directory",
                         f"{directory}: a link, a file, or a directory of user "
                                                  f"{found.st_uid}", fix)
        if found.st_mode & 0o077:
            return Check(PROBLEM, "state directory", f"{directory}: mode "
                         f"{stat.S_IMODE(found.st_mode):04o}, others could have been there",
                         f"chmod 700 {quoted(directory)}")
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(os.path.abspath(there))
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(PROBLEM, "state directory", f"{directory}: {there} cannot be written to", fix)
    about = os.statvfs(there)
    free = about.f_bavail * about.f_frsize
    if free < _FREE_BYTES:
        return Check(PROBLEM, "state directory", f"{directory}: {free >> 20} MiB free", fix)
    return Check(OK, "state directory", directory if config["node.state_dir"] else
                 f"a private one below {directory}")


def _job(given: dict[str, Any], config: Config) -> tuple[str | None, Check]:
    """(job id or None, Check)."""
    try:
        job = this_node.job(given.get("--job"), config)
    except IostatsError as error:
        variables = [name for name in config["node.job_id_variables"] if os.environ.get(name)]
        if "--job" in given or variables:
            return None, Check(PROBLEM, "job", str(error),
                               f"unset {variables[0]}" if "--job" not in given else
                               "iostats_client.py doctor --job ID")
        return None, Check(NOTE, "job", f"none: {error}")
    where = "--job" if "--job" in given else next(
        (name for name in config["node.job_id_variables"] if os.environ.get(name)),
        schedulers.here(os.environ).NAME)
    return job, Check(OK, "job", f"{job}, from {where}")


def _node_list(node: str) -> Check:
    """Whether the server will expect this node by its name."""
    for name in schedulers.names():
        system = schedulers.named(name)
        listed = getattr(system, "NODE_LIST_VARIABLE", "")
        in_file = getattr(system, "NODE_FILE_VARIABLE", "")
        where = next((one for one in (listed, in_file) if os.environ.get(one)), "")
        if where:
            text = os.environ[where]
            if where == in_file:
                text = ",".join(_text("/", text).split())
                if not text:
                    return Check(PROBLEM, "node", f"{node}; {where}: {os.environ[where]} cannot be "
                                                  f"read", f"unset {where}")
            break
    else:
        system = schedulers.here(os.environ)
        where, text = f"{system.NAME}'s list", system.about(os.environ).get("nodes", "")
    if not text:
        return Check(OK, "node", f"{node}; no batch system tells the nodes of the job")
    fix = getattr(system, "ON_EACH_NODE", "")
    try:
        names = node_list.expanded(text)
    except ValueError as error:
        return Check(PROBLEM, "node", f"{node}; {where}: expected a list such as nid[00001-00128], "
                                      f"got {str(error)[:40]!r}", f"unset {where}")
    if node in names:
        return Check(OK, "node", f"{node}, one of {len(set(names))} in {where}")
    short = node.partition(".")[0]
    alike = [name for name in names if name.partition(".")[0] == short]
    if alike:
        return Check(PROBLEM, "node", f"{node} is not in {where}, which calls it {alike[0]}",
                     f"export SLURMD_NODENAME={alike[0]}")
    return Check(PROBLEM, "node", f"{node} is not in {where}: {text[:60]}",
                 f"{fix} iostats_client.py doctor".strip())


# -- the server ------------------------------------------------------------------------------

def _server(given: dict[str, Any], config: Config, job: str | None, node: str) -> list[Check]:
    """Port, job, secret and clock of the job's server."""
    host = config["server.host"]
    if not host:
        return [Check(NOTE, "server", "none named (--server, or [server] host in site.cfg)")]
    try:
        host, port = client.split_server(host)
    except IostatsError as error:
        return [Check(PROBLEM, "server", str(error), "iostats_client.py doctor --server HOST")]
    if job is None:
        return [Check(NOTE, "server", f"{host}: not asked, its ports follow from the job's id")]
    ports = [port] if port else job_id.ports(job, config["server.port_first"],
                                             config["server.port_last"],
                                             config["server.port_tries"])
    known, signs = _known_by(given, config, job, host)
    others, begin = [], f"iostats_server.py --job {job} &"
    for port in ports:
        try:
            hello, by = client.who_listens(host, port, job,
                                           signs or [auth.Secret(job, b"none")], node)
        except (OSError, NotDelivered) as error:
            if not isinstance(error, ConnectionRefusedError):
                others.append(f"port {port}: {getattr(error, 'strerror', None) or error}")
                break
            continue
        if hello.get("job") == job:
            return [Check(OK, "server", f"{host}:{port} is the server of job {job}"),
                    *known, *_trust_and_clock(hello, by, signs, host, given, config, job)]
        others.append(f"port {port}: " + (f"the server of job {str(hello['job'])[:40]!r}"
                                          if "job" in hello else "in use by another program"))
    text = "; ".join(others) or f"no server found on {_ports_text(ports)}"
    # Without a server there need not be a secret yet; one that is not safe is told.
    return [Check(PROBLEM, "server", f"{host}: {text}; start it there", begin),
            *(check for check in known if not check.fix.startswith("scp "))]


def _ports_text(ports: list[int]) -> str:
    """
    >>> _ports_text([24567]), _ports_text([24567, 24824]), _ports_text([24567, 24824, 25081, 25338])
    ('port 24567', 'ports 24567 and 24824', 'ports 24567, 24824 and 2 more')
    """
    *first, last = map(str, ports)
    if len(first) > 1:
        first, last = first[:2], f"{len(ports) - 2} more"
    return f"ports {', '.join(first)} and {last}" if first else f"port {last}"


def _known_by(given: dict[str, Any], config: Config, job: str,
              host: str) -> tuple[list[Check], list[auth.Credentials]]:
    """([Check] of what could not be had, [what signs]) of site.cfg's [server] auth."""
    checks, signs = [], []
    for word in config["server.auth"]:
        if word == "munge":
            try:
                signs += auth.client_credentials({**config, "server.auth": ["munge"]}, job, None)
            except ConfigError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "iostats config --check"))
            except IostatsError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "systemctl start munge"))
        else:
            password, check = _secret(given, config, job, host)
            if password is not None:
                signs.append(auth.Secret(job, password))
            elif check is not None:
                checks.append(check)
    if signs:                              # one way that works is enough
        checks = [one._replace(state=NOTE) if one.fix.startswith(("scp ", "systemctl")) else one
                  for one in checks]
    return checks, signs


def _secret(given: dict[str, Any], config: Config, job: str,
            host: str) -> tuple[bytes | None, Check | None]:
    """(the secret or None, a Check when there is something wrong with it)."""
    path = None
    try:
        path = secret.where(given.get("--secret"), config["secret.dir"], job)
        return secret.load(path), None
    except NotDelivered as error:
        return None, Check(PROBLEM, "secret", str(error), doctor_site.fetch(host, path or ""))
    except IostatsError as error:
        return None, Check(PROBLEM, "secret", str(error),
                           f"rm {quoted(path)}" if path else f"unset {secret.VARIABLE}")


def _trust_and_clock(hello: dict[str, Any], by: auth.Credentials | None,
                     signs: list[auth.Credentials], host: str, given: dict[str, Any],
                     config: Config, job: str) -> list[Check]:
    """[Check] of a server of this job: by what we know it, and its clock."""
    if not signs:
        return []
    path = (secret.where(given.get("--secret"), config["secret.dir"], job)
            if "secret" in config["server.auth"] else None)
    where = path or secret.VARIABLE
    if by is None:
        return [Check(PROBLEM, "munge", one.reject_reason, "iostats config --check")
                if isinstance(one, auth.Munge) else
                Check(PROBLEM, "secret", f"{where}: the server has another one",
                      doctor_site.fetch(host, path) if path else f"unset {secret.VARIABLE}")
                for one in signs]
    return [Check(OK, "munge", "munged works here, and proves whose the server is")
            if isinstance(by, auth.Munge) else
            Check(OK, "secret", f"{where}: the server has the same"),
            *doctor_site.clock("clock", hello)]
