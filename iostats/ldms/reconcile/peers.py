"""
Which of the producers that came by advertisement are peers of the group as well.
"""

from __future__ import annotations

from iostats.ldms.description.host_lists import is_same_host, without_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.control.observed import ProducerSeen
    from iostats.ldms.description.normal import AggregatorGroup, Description

_LONGEST_NAME = 31                  # snprintf(.., 32, "%s:%s") in ldmsd_request.c, 4.4.6 and 4.5.3


class Peers:
    """
    The described peers of a group, as they are known when they advertise themselves.

    ldmsd calls such a producer HOSTNAME:PORT, by what gethostname() and the first `listen` are at
    the sampler.  A peer that is described by an address, or by another name of its host, is not
    known by that.
    """

    def __init__(self, description: Description, group: AggregatorGroup) -> None:
        self._listen: dict[str, set[tuple[str, int]]] = {}
        for producer in group.producers if group.listens else ():
            daemon = description.daemons.get(producer.daemon)
            if producer.kind == "advertised" or daemon is None:
                continue
            for endpoint in daemon.endpoints:
                for host in (daemon.host, endpoint.host):
                    self._listen.setdefault(without_domain(host).lower(), set()).add(
                        (host, endpoint.port))

    def has(self, seen: ProducerSeen) -> bool:
        """Whether this producer, which advertised itself, is one of them."""
        return any(seen.name == f"{seen.host}:{port}"[:_LONGEST_NAME]
                   and is_same_host(host, seen.host)
                   for host, port in self._listen.get(without_domain(seen.host).lower(), ()))
