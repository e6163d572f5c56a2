"""
What is in the way of all jobs of a site, on a host with any part in that, for the doctor: prologs'
directory, the batch system, the site's server.  Changes nothing.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import time

from iostats import schedulers
from iostats.base import config as site
from iostats.base import private_files
from iostats.base.errors import (
    IostatsError,
    NotDelivered,
    NotReadable,
    StateError,
    UsageError,
    one_line,
)
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.doctor.free_space import LEAST_BYTES, existing_part, free_bytes
from iostats.node import delivery, start_files
from iostats.schedulers import commands as scheduler_commands
from iostats.wire import auth, client, protocol
from iostats.wire.site_servers import REACH_WITHIN_S, name_of, site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config

_CLOCK_OFF_S = 60.0


def examine(config: Config, node: str) -> list[Check]:
    """[Check] of this host; `node`: its name."""
    return (_hooks(config) + _batch(config) + _comments(config) + _secret(config)
            + _site(config, node))


def fetch(host: str, path: str) -> str:
    """The command that gets a secret, with its mode: of a file that is there scp keeps the mode."""
    return f"scp -p {host}:{quoted(path)} {quoted(path)}"


def at(host: str, node: str, command: str) -> str:
    """`command`, to be run on `host`."""
    here = host in (node, os.uname().nodename, "localhost", "::1") or host.startswith("127.")
    return command if here else f"ssh {host} {quoted(command)}"


def _batch(config: Config) -> list[Check]:
    """Which batch system it is, and where the server of a site would hear of its jobs."""
    try:
        system = schedulers.that_answers(config, os.environ)
    except UsageError as error:
        return [Check(PROBLEM, "batch system", f"{config.origin['batch.system']}: {error}",
                      "iostats config --check")]
    if system is None:
        return []
    if not hasattr(system, "facts_source"):
        return [Check(OK, "batch system", system.NAME)]
    try:
        return [Check(OK, "batch system", f"{system.NAME}; facts of jobs come from "
                                          f"{_facts_source(system.NAME)}")]
    except NotReadable as error:
        return [Check(NOTE, "batch system", f"{system.NAME}; job details unavailable: {error}")]


def _facts_source(system: str) -> str:
    """
    Where facts of jobs come from, tried in a process of its own, by the Python of the site's server
    where that is here: its packages (pyslurm) are not ours.
    """
    home = os.path.dirname(site.BESIDE)
    python = os.path.join(home, "venv/bin/python")
    status, text, wrong = scheduler_commands.ask([
        python if os.path.exists(python) else sys.executable, "-I", "-c", _TRY_SOURCE, home,
        system], shown=f"the commands of {system}")
    if status:
        raise NotReadable(wrong.rpartition("\n")[2] or f"the look-up ended with status {status}")
    return text.strip()


_TRY_SOURCE = """
import sys
sys.path.insert(0, sys.argv[1])
from iostats import schedulers
from iostats.base.errors import IostatsError
try:
    print(schedulers.named(sys.argv[2]).facts_source())
except IostatsError as error:
    sys.exit(str(error))
"""


def _comments(config: Config) -> list[Check]:
    """Who reads what [site] show = comment has written of a job."""
    private, said = schedulers.who_reads_comments(config)
    return [Check(OK if private else NOTE, "comments", said)] if said else []


def _secret(config: Config) -> list[Check]:
    """[Check] of a secret that others can read, of which munge says nothing, as it needs none."""
    path, methods = config["site.secret"], config["server.auth"]
    try:
        found = os.stat(path)
    except OSError:
        return []
    if "secret" not in methods:
        return []
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 and "munge" in methods:
        return [Check(PROBLEM, "site secret", (
            f"{path}: expected mode 0600, got {mode:04o}: a user who has read it can forge "
            f"reports, until the site has a new one"), f"chmod 600 {quoted(path)}")]
    if not os.geteuid() and found.st_uid:
        return [Check(NOTE, "site secret", (
            f"{path}: belongs to user {found.st_uid}, who can read all records and "
            f"forge reports; expected root, or the user of the site's server"),
            f"chown root {quoted(path)}")]
    return []


def _site(config: Config, node: str) -> list[Check]:
    """The site's server, which prologs, epilogs and the harvest need."""
    if not config["site.host"]:
        return []
    try:
        servers = site_servers(config).servers
    except (UsageError, NotDelivered) as error:
        return [Check(PROBLEM, "site", str(error), "iostats config --check")]
    try:
        signs = auth.client_credentials(config, protocol.SITE, config["site.secret"])
    except IostatsError as error:
        if os.geteuid():
            return [Check(NOTE, "site", f"{name_of(servers[0])}; only root reports there: {error}")]
        return [Check(PROBLEM, "site", str(error), fetch(servers[0][0], config["site.secret"]))]
    found = [_site_at(config, server, signs, node) for server in servers]
    answer = [place for place, checks in enumerate(found) if checks[0].state == OK]
    if not answer:                              # the others are standbys, and may well be off
        return [*found[0], *(checks[0]._replace(state=NOTE, fix="") for checks in found[1:])]
    if len(servers) == 1:
        return found[0]
    # One of several: the others are to be off.
    first, *more = answer
    if more:
        return [*found[first], Check(NOTE, "site", (
            f"{' and '.join(name_of(servers[place]) for place in answer)} answer: one alone is to "
            f"be on, as none knows what the others are told"),
            at(servers[more[0]][0], node, "systemctl stop iostats-site.service"))]
    silent = "; ".join(checks[0].text for place, checks in enumerate(found) if place != first)
    state, fix = (OK, "") if first == 0 else (NOTE, found[0][0].fix)
    return [found[first][0]._replace(state=state, text=f"{found[first][0].text} now; {silent}",
                                     fix=fix), *found[first][1:]]


def _site_at(config: Config, server: tuple[str, int], signs: list[auth.Credentials],
             node: str) -> list[Check]:
    """[Check] of one of the site's servers; the first one says whether it is that."""
    (host, port), where = server, name_of(server)
    get = fetch(host, config["site.secret"])
    try:
        hello, by = client.server_at(host, port, protocol.SITE, signs, node, REACH_WITHIN_S)
    except socket.gaierror as error:
        return [Check(PROBLEM, "site", f"{where}: {error.strerror or error} ([site] host)",
                      "iostats config --check")]
    except client.SilentPort as error:
        return [Check(PROBLEM, "site", f"{where}: {error}",
                      at(host, node, f"ss -ltnp sport = :{port}"))]
    except OSError as error:                           # refused: its host is there
        return [Check(PROBLEM, "site", f"{where}: {error.strerror or error}", (
            at(host, node, "systemctl start iostats-site.service")
            if isinstance(error, ConnectionError) else f"ping -c 3 {host}"))]
    except NotDelivered as error:                      # munge: it trusts root alone
        return [Check(NOTE if os.geteuid() else PROBLEM, "site", str(error),
                      "sudo iostats_client.py doctor" if os.geteuid() else
                      "iostats config --check")]
    if by is not None and hello.get("trouble"):
        return [Check(PROBLEM, "site", f"{where}: the server cannot keep what it gets: "
                                       f"{one_line(str(hello['trouble']))[:400]}",
                      f"ssh {host} df -h")]
    if by is not None:
        return [Check(OK, "site", f"{where} is the site's server"), *clock("site clock", hello),
                *_munge_unused(config)]
    if hello.get("job") != protocol.SITE:
        return [Check(PROBLEM, "site", f"{where}: the port is in use by another program",
                      at(host, node, f"ss -ltnp sport = :{port}"))]
    return [Check(PROBLEM, "site", f"{where}: " + "; ".join(one.reject_reason for one in signs),
                  get if any(isinstance(one, auth.Secret) for one in signs) else
                  "iostats config --check"),
            # MUNGE takes nothing that is minutes old, and says so in its own words.
            *(one for one in clock("site clock", hello) if one.state != OK)]


def clock(name: str, hello: dict[str, Any]) -> list[Check]:
    """[Check] of this host's clock beside that of the server whose `hello` this is."""
    theirs: Any = hello.get("time")
    if type(theirs) not in (int, float) or not abs(theirs) < 1e12:
        return []
    ahead = time.time() - theirs
    text = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    return [Check(OK, name, text) if abs(ahead) <= _CLOCK_OFF_S else
            Check(PROBLEM, name, text, "chronyc makestep")]


def _munge_unused(config: Config) -> list[Check]:
    """[Check] where users could read their own jobs' records, and may not."""
    from iostats.wire import munge
    if "munge" in config["server.auth"] or munge.available(config["server.munge_socket"]):
        return []
    return [Check(NOTE, "auth", f"munged works here, and is not used ([server] auth = "
                                f"{' '.join(config['server.auth'])}): users may not read their own "
                                f"jobs' records; here and at the site's server",
                  f"sed -i 's/^#*auth = .*/auth = munge secret/' {quoted(config.files[0])}"
                  if config.files else "iostats config --check")]


def _hooks(config: Config) -> list[Check]:
    """[Check] of where prolog and epilog keep what they have read; root's."""
    directory, name = config["node.hook_dir"], "hook_dir"
    if os.geteuid() or not (config["site.host"] or os.path.lexists(directory)):
        return []
    there = existing_part(directory)
    if not os.access(there, os.W_OK | os.X_OK) or os.statvfs(there).f_flag & os.ST_RDONLY:
        return [Check(PROBLEM, name,
                      f"{directory}: {there} cannot be written to: no job is measured "
                                     f"([node] hook_dir)", f"mount -o remount,rw {quoted(there)}")]
    free = free_bytes(there)
    if free < LEAST_BYTES:
        return [Check(PROBLEM, name,
                      f"{directory}: {free >> 20} MiB free: no job is measured ([node] "
                                     f"hook_dir)", f"du -xd1 {quoted(there)}")]
    if not os.path.lexists(directory):
        return [Check(NOTE, name, f"{directory}: not there yet: no prolog has run on this host")]
    try:
        private_files.check_private(directory, start_files.BY_HOOK_DIR)
    except StateError as error:
        ours = not os.path.islink(directory) and os.stat(directory).st_uid == 0
        return [Check(PROBLEM, name, str(error), f"chmod 700 {quoted(directory)}" if ours else
                      f"mv {quoted(directory)} {quoted(directory + '.old')}")]
    names = os.listdir(directory)
    waiting = [one for one in names if one.endswith(".delta")]
    refused = sum(one.endswith(".refused") for one in names)
    text = f"{directory}: {delivery.waiting_text(len(waiting))}" + (
        f", {refused} {'was' if refused == 1 else 'were'} refused and put aside (*.refused)"
        if refused else "")
    return [Check(NOTE if waiting or refused else OK, name, text,
                  "iostats_client.py deliver" if waiting else "")]
