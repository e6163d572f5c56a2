"""
Daemons that an aggregator would collect twice: as its peers, and because they advertise to it.
"""

from __future__ import annotations

import ipaddress

from iostats.base.addresses import is_address
from iostats.ldms.description.host_lists import without_domain
from iostats.ldms.description.regexes import FAULTS, compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.ldms.description.normal import (
        AggregatorGroup,
        LdmsDaemon,
        Listen,
        SamplerGroup,
    )
    from iostats.ldms.description.reading import Draft


def warn_of_peers_that_advertise(groups: Sequence[AggregatorGroup],
                                 advertising: Iterable[SamplerGroup | AggregatorGroup],
                                 reading: Draft) -> None:
    """A warning at each prdcr_listen that takes peers of its own group."""
    with_both = {member: group for group in groups if group.listens and group.producers
                 for member in group.members}
    if not with_both:
        return
    listens_at = {(_lower(host), endpoint.port): with_both[daemon]
                  for daemon, endpoint in reading.endpoints.values() if daemon in with_both
                  for host in (endpoint.host, reading.daemons[daemon].host)}
    peers = {group.name: {producer.daemon for producer in group.producers
                          if producer.kind != "advertised"} for group in with_both.values()}
    both: dict[tuple[str, str], dict[str, None]] = {}
    for each in advertising:
        for name, entries in each.advertises:
            for entry in entries:
                group = listens_at.get((_lower(entry.host), entry.port))
                if group is None or name not in peers[group.name]:
                    continue
                taking = next((listen for listen in group.listens
                               if _may_take(listen, reading.daemons[name])), None)
                # With disable_start it is there, and ldmsd does not start it.
                if taking is not None and not taking.disable_start:
                    both.setdefault((group.name, taking.name), {})[name] = None
    for place, names in both.items():
        one = len(names) == 1
        reading.listen_places[place].warning(
            f"{len(names)} peer{'' if one else 's'} of this group, such as {next(iter(names))}, "
            f"advertise{'s' if one else ''} to it as well: their sets would be collected twice, "
            "and stored twice; take them out of `peers` or out of `advertise`, or let `regex` or "
            "`ip` here leave them out")


def _may_take(listen: Listen, daemon: LdmsDaemon) -> bool:
    """
    Whether ldmsd would take the advertisement: `regex` is for its host name, `ip` for its address
    (__is_advertiser_matched(), ldmsd_request.c).  What the description does not say may match.
    """
    hosts = {daemon.host, *(endpoint.host for endpoint in daemon.endpoints)}
    addresses = {host for host in hosts if is_address(host)}
    names = {form for host in hosts - addresses for form in (host, without_domain(host))}
    return (not listen.regex or not names or any(_matches(listen.regex, name) for name in names)) \
        and (not listen.ip or not addresses or any(_is_in(host, listen.ip) for host in addresses))


def _matches(expression: str, name: str) -> bool:
    try:
        return compiled(expression).search(name) is not None
    except FAULTS:
        return True


def _is_in(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return True


def _lower(host: str) -> str:
    return without_domain(host).lower()
