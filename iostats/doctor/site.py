"""
Check a host of a site for the doctor: prologs' directory, batch system, the site's server, relays.
Changes nothing.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import time

from iostats import schedulers
from iostats.base import config as site
from iostats.base import disk_queue, private_files
from iostats.base.errors import (
    ConfigError,
    IostatsError,
    NotDelivered,
    NotReadable,
    StateError,
    UsageError,
    sanitize,
)
from iostats.base.free_space import explain_full, find_existing_part
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quote_path
from iostats.node import delivery, start_files
from iostats.schedulers import commands as scheduler_commands
from iostats.wire import auth, client, protocol, relays
from iostats.wire.protocol import LNETS
from iostats.wire.relays import RelaySecret, load_destination_secret, load_source_secret
from iostats.wire.site_servers import REACH_WITHIN_S, format_name, make_site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.wire.protocol import Hello
    from iostats.wire.relays import Destination, Source

_CLOCK_OFF_S = 60.0


def examine(config: Config, node: str) -> list[Check]:
    """Return [Check] of this host; `node`: its name."""
    return (_check_hooks(config) + _check_batch_system(config) + _check_comments(config)
            + _check_secret(config) + _check_site_servers(config, node))


def fetch(host: str, path: str) -> str:
    """Return the command that copies a secret; scp preserves the mode of an existing file."""
    return f"scp -p {host}:{quote_path(path)} {quote_path(path)}"


def command_on(host: str, node: str, command: str) -> str:
    """Return `command`, to be run on `host`."""
    here = host in (node, os.uname().nodename, "localhost", "::1") or host.startswith("127.")
    return command if here else f"ssh {host} {quote_path(command)}"


def _check_batch_system(config: Config) -> list[Check]:
    """The Check of the batch system, and the source of the site's job facts."""
    try:
        system = schedulers.detect_queryable(config, os.environ)
    except UsageError as error:
        return [Check(PROBLEM, "batch system", f"{config.origin['batch.system']}: {error}",
                      "iostats config --check")]
    if system is None:
        return []
    if not hasattr(system, "facts_source"):
        return [Check(OK, "batch system", system.NAME)]
    try:
        return [Check(OK, "batch system", f"{system.NAME}; job facts come from "
                                          f"{_describe_facts_source(system.NAME)}")]
    except NotReadable as error:
        return [Check(NOTE, "batch system", f"{system.NAME}; job details unavailable: {error}")]


def _describe_facts_source(system: str) -> str:
    """
    The Check of the source of job facts, tried in a child process with the Python of the site's
    server if that is here: its packages (pyslurm) are not ours.
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
    print(schedulers.find_scheduler(sys.argv[2]).facts_source())
except IostatsError as error:
    sys.exit(str(error))
"""


def _check_comments(config: Config) -> list[Check]:
    """The Check of the users who can read the comments of [site] show = comment."""
    private, sentence = schedulers.find_comment_readers(config)
    return [Check(OK if private else NOTE, "comments", sentence)] if sentence else []


def _check_secret(config: Config) -> list[Check]:
    """[Check] of a secret that other users can read; munge does not report it, as it needs none."""
    path, methods = config.site.secret, config.server.auth
    try:
        status = os.stat(path)
    except OSError:
        return []
    if "secret" not in methods:
        return []
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 and "munge" in methods:
        return [Check(PROBLEM, "site secret", (
            f"{path}: expected mode 0600, got {mode:04o}: a user who has read it can forge "
            f"reports, until the site has a new one"), f"chmod 600 {quote_path(path)}")]
    if not os.geteuid() and status.st_uid:
        return [Check(NOTE, "site secret", (
            f"{path}: belongs to user {status.st_uid}, who can read all records and "
            f"forge reports; expected root, or the user of the site's server"),
            f"chown root {quote_path(path)}")]
    return []


def _check_site_servers(config: Config, node: str) -> list[Check]:
    """Return [Check] of the site's servers, which prologs, epilogs and the harvest need."""
    if not config.site.host:
        return []
    try:
        servers = make_site_servers(config).servers
    except (UsageError, NotDelivered) as error:
        return [Check(PROBLEM, "site", str(error), "iostats config --check")]
    try:
        signs = auth.load_client_credentials(config, protocol.SITE, config.site.secret)
    except IostatsError as error:
        if os.geteuid():
            return [Check(NOTE, "site",
                          f"{format_name(servers[0])}; only root reports there: {error}")]
        return [Check(PROBLEM, "site", str(error), fetch(servers[0][0], config.site.secret))]
    by_server = [_check_site_server(config, server, signs, node) for server in servers]
    answer = [place for place, checks in enumerate(by_server) if checks[0].state == OK]
    if not answer:                              # the others are standbys, and may well be off
        return [*by_server[0],
                *(checks[0]._replace(state=NOTE, fix="") for checks in by_server[1:])]
    if len(servers) == 1:
        return by_server[0]
    # One of several: the others are to be off.
    first, *more = answer
    if more:
        return [*by_server[first], Check(NOTE, "site", (
            f"{' and '.join(format_name(servers[place]) for place in answer)} answer: only one may "
            f"run, since each has only the reports that it received"),
            command_on(servers[more[0]][0], node, "systemctl stop iostats-site.service"))]
    silent = "; ".join(checks[0].text for place, checks in enumerate(by_server) if place != first)
    state, fix = (OK, "") if first == 0 else (NOTE, by_server[0][0].fix)
    return [
        by_server[first][0]._replace(state=state, text=f"{by_server[first][0].text} now; {silent}",
                                         fix=fix), *by_server[first][1:]]


def _check_site_server(config: Config, server: tuple[str, int], signs: list[auth.Credentials],
                       node: str) -> list[Check]:
    """Return [Check] of one of the site's servers; only the first one identifies itself."""
    (host, port), where = server, format_name(server)
    get = fetch(host, config.site.secret)
    try:
        hello, by = client.identify_server(host, port, protocol.SITE, signs, node, REACH_WITHIN_S)
    except socket.gaierror as error:
        return [Check(PROBLEM, "site", f"{where}: {error.strerror or error} ([site] host)",
                      "iostats config --check")]
    except client.SilentPort as error:
        return [Check(PROBLEM, "site", f"{where}: {error}",
                      command_on(host, node, f"ss -ltnp sport = :{port}"))]
    except OSError as error:                           # refused: its host is there
        return [Check(PROBLEM, "site", f"{where}: {error.strerror or error}", (
            command_on(host, node, "systemctl start iostats-site.service")
            if isinstance(error, ConnectionError) else f"ping -c 3 {host}"))]
    except NotDelivered as error:                      # munge: it trusts root alone
        return [Check(NOTE if os.geteuid() else PROBLEM, "site", str(error),
                      "sudo iostats_client.py doctor" if os.geteuid() else
                      "iostats config --check")]
    if by is not None and hello.get("trouble"):
        return [Check(PROBLEM, "site", f"{where}: the server cannot store messages: "
                                       f"{sanitize(str(hello['trouble']))[:400]}",
                      command_on(host, node, "df -h"))]
    if by is not None:
        return [Check(OK, "site", f"{where} is the site's server"),
                *check_clock("site clock", hello),
                *_check_unused_munge(config)]
    if hello.get("job") != protocol.SITE:
        return [Check(PROBLEM, "site", f"{where}: the port is in use by another program",
                      command_on(host, node, f"ss -ltnp sport = :{port}"))]
    return [Check(PROBLEM, "site",
                  f"{where}: " + "; ".join(credentials.reject_reason for credentials in signs),
                  get if any(isinstance(credentials, auth.Secret) for credentials in signs) else
                  "iostats config --check"),
            # MUNGE takes nothing that is minutes old, and says so in its own words.
            *(check for check in check_clock("site clock", hello) if check.state != OK)]


def check_clock(name: str, hello: Hello) -> list[Check]:
    """Return [Check] of this host's clock against the server whose `hello` this is."""
    server_time = hello.get("time")
    if (not isinstance(server_time, (int, float)) or isinstance(server_time, bool)
            or not abs(server_time) < 1e12):
        return []
    ahead_s = time.time() - server_time
    text = f"{abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} the server's"
    return [Check(OK, name, text) if abs(ahead_s) <= _CLOCK_OFF_S else
            Check(PROBLEM, name, text, "chronyc makestep")]


def _check_unused_munge(config: Config) -> list[Check]:
    """Return [Check] where users could read their own jobs' records, and may not."""
    from iostats.wire import munge
    if "munge" in config.server.auth or not munge.is_usable(config.server.munge_socket):
        return []
    return [Check(NOTE, "auth", f"munged works here, and is not used ([server] auth = "
                                f"{' '.join(config.server.auth)}): users may not read their own "
                                f"jobs' records; here and at the site's server",
                  f"sed -i 's/^#*auth = .*/auth = munge secret/' {quote_path(config.files[0])}"
                  if config.files else "iostats config --check")]


def _check_hooks(config: Config) -> list[Check]:
    """Return [Check] of root's directory for files of prolog and epilog."""
    directory, name = config.node.hook_dir, "hook_dir"
    if os.geteuid() or not (config.site.host or os.path.lexists(directory)):
        return []
    there = find_existing_part(directory)
    if not os.access(there, os.W_OK | os.X_OK) or os.statvfs(there).f_flag & os.ST_RDONLY:
        return [Check(PROBLEM, name,
                      f"{directory}: {there} cannot be written to: no job is measured "
                                     f"([node] hook_dir)",
                                     f"mount -o remount,rw {quote_path(there)}")]
    if explain_full(there):
        return []                                       # disks.py says so
    if not os.path.lexists(directory):
        return [Check(NOTE, name, f"{directory}: not there yet: no prolog has run on this host")]
    try:
        private_files.check_private_directory(directory, start_files.BY_HOOK_DIR)
    except StateError as error:
        is_trusted = not os.path.islink(directory) and os.stat(directory).st_uid == 0
        return [Check(PROBLEM, name, str(error), f"chmod 700 {quote_path(directory)}"
                      if is_trusted else
                      f"mv {quote_path(directory)} {quote_path(directory + '.old')}")]
    names = os.listdir(directory)
    waiting = [file_name for file_name in names if file_name.endswith(".delta")]
    refused = sum(file_name.endswith(".refused") for file_name in names)
    text = f"{directory}: {delivery.count_waiting(len(waiting))}" + (
        f", {refused} {'was' if refused == 1 else 'were'} refused and put aside (*.refused)"
        if refused else "")
    return [Check(NOTE if waiting or refused else OK, name, text,
                  "iostats_client.py deliver" if waiting else "")]


_LATE_S = 300.0
_NAMED = 10


def examine_relay(config: Config) -> list[Check]:
    """Return [Check] of [relay] and [relay_from]."""
    if not (config.free["relay"] or config.free["relay_from"]):
        return []
    try:
        name = relays.get_own_relay_name(config)
        destinations, sources = relays.list_destinations(config), relays.list_sources(config)
    except ConfigError as error:
        return [Check(PROBLEM, "relay", str(error), "iostats config --check")]
    if not os.path.lexists(config.site.store):
        return []                                   # of another host
    return [check for to in destinations for check in _check_destination(config, to, name)] + [
        _check_relay_secret(config, source) for source in sources.values()] + _check_unknown_lnets(
            config, destinations, sources.values(), name)


def _check_unknown_lnets(config: Config, destinations: Iterable[Destination],
                         sources: Iterable[Source],
                         node: str) -> list[Check]:
    """Return [Check] of LNets without a known client, if clients of others are known."""
    try:
        signs = auth.load_client_credentials(config, protocol.SITE, config.site.secret)
        lnets = make_site_servers(config, REACH_WITHIN_S).call(signs, node, LNETS, {})
    except (IostatsError, OSError):
        return []                                   # other lines say why
    if not lnets:
        return []
    listed = [(f"relay to {to.cluster}", network, names or lnets.keys())
              for to in destinations for network, names in to.lnets.items()] + [
        (f"relay from {source.name}", network, source.file_systems)
        for source in sources for network in sorted(source.lnets)]
    checks = []
    for origin, network, names in listed:
        there = sorted({network_name for name in names for network_name in lnets.get(name, {})})
        if network not in there:
            checks.append(Check(NOTE, f"{origin}, {network}", (
                f"no client of {', '.join(sorted(names)[:_NAMED])} is known in LNet {network}"
                + (f", only in {', '.join(there[:_NAMED])}" if there else "")
                + ": is it the one of `lctl list_nids` on the cluster's nodes?")))
    return checks


def _check_destination(config: Config, to: Destination, name: str) -> list[Check]:
    """Return [Check] of a relay at a cluster's server, and of the messages that wait for it."""
    check_name = f"relay to {to.cluster}"
    try:
        signs = [RelaySecret(name, load_destination_secret(to), cluster=to.cluster)]
    except IostatsError as error:
        return [Check(NOTE if os.geteuid() else PROBLEM, check_name, str(error),
                      "" if os.geteuid() or os.path.lexists(to.secret)
                      else "systemctl restart iostats-site.service")]
    there = f"{to.host}:{to.port}"
    try:
        hello, by = client.identify_server(to.host, to.port, protocol.SITE, signs, name,
                                           REACH_WITHIN_S)
    except OSError as error:
        checks = [Check(PROBLEM, check_name, f"{there}: {error.strerror or error}",
                        f"ssh {to.host} systemctl start iostats-site.service")]
    else:
        if by is not None:
            checks = [Check(OK, check_name, f"{there} knows this server as relay {name}"),
                      *check_clock(f"{check_name}, clock", hello)]
        elif hello.get("job") != protocol.SITE:
            checks = [Check(PROBLEM, check_name, f"{there}: the port is in use by another program",
                            "iostats config --check")]
        else:
            their_path = os.path.join(os.path.dirname(to.secret), f"{name}.secret")
            checks = [Check(PROBLEM, check_name, f"{there}: {signs[0].reject_reason}",
                            f"scp -p {quote_path(to.secret)} {to.host}:{quote_path(their_path)}")]
    return checks + _check_backlog(config, to, check_name)


def _check_backlog(config: Config, to: Destination, check_name: str) -> list[Check]:
    directory = os.path.join(config.site.relay_spool_dir, to.cluster)
    try:
        waits = disk_queue.read_backlog(directory)
    except OSError:
        return []                                   # the server has not made it, or it is root's
    if not waits.messages:
        return []
    age_s, max_bytes = max(0.0, time.time() - waits.oldest), config.site.relay_spool_bytes
    is_full = waits.bytes > max_bytes // 2
    return [Check(PROBLEM if is_full else NOTE if age_s > _LATE_S else OK, f"{check_name}, spool", (
        f"{directory}: {waits.messages} messages wait, {waits.bytes} of at most {max_bytes} bytes, "
        f"the oldest for {age_s:.0f} s") + ("; then the oldest are dropped" if is_full else ""),
        f"ssh {to.host} systemctl start iostats-site.service" if is_full else "")]


def _check_relay_secret(config: Config, source: Source) -> Check:
    """The Check of the secret of a relay."""
    check_name = f"relay from {source.name}"
    try:
        password = load_source_secret(source)
    except IostatsError as error:
        return Check(NOTE if os.geteuid() else PROBLEM, check_name, str(error))
    try:
        is_the_sites = ("secret" in config.server.auth
                        and password == auth.load(config.site.secret))
    except IostatsError:
        is_the_sites = False
    if is_the_sites:
        return Check(PROBLEM, check_name,
                     f"{source.secret}: expected another secret than [site] secret, "
                                    f"which would make the relay root here",
                     f"rm {quote_path(source.secret)}")
    return Check(OK, check_name, f"may speak for {' '.join(sorted(source.file_systems))}")
