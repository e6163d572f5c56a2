"""
What is in the way on this node, and the one command that fixes it; changes nothing.

Each check ends in a line: ok, note or problem, what was found where, and for a problem (and some
notes) a command.  Everything is read below --root, and judged by what the files show; the version
file is only quoted.
"""

from __future__ import annotations

import os
import stat
import sys

from iostats import schedulers
from iostats.base import config as site
from iostats.base import node_list
from iostats.base.errors import ConfigError, IostatsError
from iostats.doctor import counters as doctor_counters
from iostats.doctor import job_server, relay, storage, targets
from iostats.doctor import site as doctor_site
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.doctor.free_space import LEAST_BYTES, existing_part, free_bytes
from iostats.lustre import paths as lustre_paths
from iostats.node import identity as this_node
from iostats.node import start_files
from iostats.totals.snapshot import readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config
    from iostats.lustre.paths import File

_OLDEST_PYTHON = (3, 9)


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
        checks += doctor_counters.examine(now, known, counters, (read, refused), root, config,
                                          by_reader)
    checks += targets.examine(now.files, root)
    checks += storage.examine(config, root)
    checks.append(_reader(root, config, said, by_reader))
    checks.append(_state_directory(config))
    job, job_check = _job(given, config)
    checks += [job_check, check or _node_list(node)]
    return (checks + doctor_site.examine(config, node) + relay.examine(config)
            + job_server.examine(given, config, job, node))


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
        return Check(NOTE, "lustre", "mounted, but not at a path that this process can see")
    return Check(OK, "lustre", "; ".join(f"{name} on {', '.join(where)}"
                                         for name, where in sorted(points.items())))


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
    there = existing_part(directory)
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(PROBLEM, "state directory", f"{directory}: {there} cannot be written to", fix)
    free = free_bytes(there)
    if free < LEAST_BYTES:
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
                text = ",".join(doctor_counters.text_below("/", text).split())
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
