"""
What is in the way of relaying to other sites' servers, and of theirs to this one, for the doctor;
on the site's server alone.  Changes nothing.
"""

from __future__ import annotations

import os
import time

from iostats.base import disk_queue
from iostats.base.errors import ConfigError, IostatsError
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.doctor.site import clock
from iostats.wire import auth, client, protocol, relays, secret
from iostats.wire.relay_auth import RelaySecret, secret_from, secret_to
from iostats.wire.site_servers import REACH_WITHIN_S, site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.wire.relays import Destination, Source

_LATE_S = 300.0
_NAMED = 10


def examine(config: Config) -> list[Check]:
    """[Check] of [relay] and [relay_from]."""
    if not (config.free["relay"] or config.free["relay_from"]):
        return []
    try:
        name = relays.own_name(config)
        destinations, sources = relays.destinations(config), relays.sources(config)
    except ConfigError as error:
        return [Check(PROBLEM, "relay", str(error), "iostats config --check")]
    if not os.path.lexists(config["site.store"]):
        return []                                   # of another host
    return [one for to in destinations for one in _destination(config, to, name)] + [
        _source(config, source) for source in sources.values()] + _unknown(
            config, destinations, sources.values(), name)


def _unknown(config: Config, destinations: Iterable[Destination], sources: Iterable[Source],
             node: str) -> list[Check]:
    """[Check] of LNets of which no client is known, where some are of others."""
    try:
        signs = auth.client_credentials(config, protocol.SITE, config["site.secret"])
        known = site_servers(config, REACH_WITHIN_S).call(signs, node, "lnets", {})
    except (IostatsError, OSError):
        return []                                   # other lines say why
    if not known:
        return []
    wanted = [(f"relay to {to.cluster}", network, names or known.keys())
              for to in destinations for network, names in to.lnets.items()] + [
        (f"relay from {source.name}", network, source.file_systems)
        for source in sources for network in sorted(source.lnets)]
    found = []
    for what, network, names in wanted:
        there = sorted({one for name in names for one in known.get(name, {})})
        if network not in there:
            found.append(Check(NOTE, f"{what}, {network}", (
                f"no client of {', '.join(sorted(names)[:_NAMED])} is known in LNet {network}"
                + (f", only in {', '.join(there[:_NAMED])}" if there else "")
                + ": is it the one of `lctl list_nids` on the cluster's nodes?")))
    return found


def _destination(config: Config, to: Destination, name: str) -> list[Check]:
    """Whether a cluster's server knows this relay, and what waits for it."""
    what = f"relay to {to.cluster}"
    try:
        signs = [RelaySecret(name, secret_to(to), cluster=to.cluster)]
    except IostatsError as error:
        return [Check(NOTE if os.geteuid() else PROBLEM, what, str(error),
                      "" if os.geteuid() or os.path.lexists(to.secret)
                      else "systemctl restart iostats-site.service")]
    there = f"{to.host}:{to.port}"
    try:
        hello, by = client.server_at(to.host, to.port, protocol.SITE, signs, name,
                                     REACH_WITHIN_S)
    except OSError as error:
        found = [Check(PROBLEM, what, f"{there}: {error.strerror or error}",
                       f"ssh {to.host} systemctl start iostats-site.service")]
    else:
        if by is not None:
            found = [Check(OK, what, f"{there} knows this server as relay {name}"),
                     *clock(f"{what}, clock", hello)]
        elif hello.get("job") != protocol.SITE:
            found = [Check(PROBLEM, what, f"{there}: the port is in use by another program",
                           "iostats config --check")]
        else:
            theirs = os.path.join(os.path.dirname(to.secret), f"{name}.secret")
            found = [Check(PROBLEM, what, f"{there}: {signs[0].reject_reason}",
                           f"scp -p {quoted(to.secret)} {to.host}:{quoted(theirs)}")]
    return found + _backlog(config, to, what)


def _backlog(config: Config, to: Destination, what: str) -> list[Check]:
    directory = os.path.join(config["site.relay_spool_dir"], to.cluster)
    try:
        waits = disk_queue.backlog(directory)
    except OSError:
        return []                                   # the server has not made it, or it is root's
    if not waits.messages:
        return []
    age_s, most = max(0.0, time.time() - waits.oldest), config["site.relay_spool_bytes"]
    is_full = waits.bytes > most // 2
    return [Check(PROBLEM if is_full else NOTE if age_s > _LATE_S else OK, f"{what}, spool", (
        f"{directory}: {waits.messages} messages wait, {waits.bytes} of at most {most} bytes, the "
        f"oldest for {age_s:.0f} s") + ("; then the oldest are dropped" if is_full else ""),
        f"ssh {to.host} systemctl start iostats-site.service" if is_full else "")]


def _source(config: Config, source: Source) -> Check:
    """Whether there is a secret by which a relay can be known."""
    what = f"relay from {source.name}"
    try:
        password = secret_from(source)
    except IostatsError as error:
        return Check(NOTE if os.geteuid() else PROBLEM, what, str(error))
    try:
        is_the_sites = ("secret" in config["server.auth"]
                        and password == secret.load(config["site.secret"]))
    except IostatsError:
        is_the_sites = False
    if is_the_sites:
        return Check(PROBLEM, what, f"{source.secret}: expected another secret than [site] secret, "
                                    f"which would make the relay root here",
                     f"rm {quoted(source.secret)}")
    return Check(OK, what, f"may speak for {' '.join(sorted(source.file_systems))}")
