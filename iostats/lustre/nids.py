"""
NIDs of clients and their networks: 10.9.0.11@o2ib2 is of the LNet o2ib2.

Source: libcfs_net2str_r(), libcfs_str2net_internal(), lnet/lnet/nidstrings.c, 2.5 to 2.17: the
number 0 is not printed, and may be written.
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.ids import Nid

_LNET = re.compile(r"([a-z](?:[a-z0-9]*[a-z])?)([0-9]{0,5})")      # its number has 16 bits

# Types of networks, libcfs_netstrfns[] of these releases.
_TYPES = frozenset((
    "tcp", "o2ib", "gni", "gip", "ptlf", "kfi", "efa", "bxi3f",                 # 2.17
    "cib", "elan", "gm", "iib", "mx", "openib", "ptl", "ra", "vib"))            # up to 2.7


@lru_cache(maxsize=1024)
def parse_network_name(text: str) -> str | None:
    """
    Parse the name of a network, as Lustre prints it; None for other texts.

    >>> [parse_network_name(text)
    ...  for text in ("o2ib", "o2ib0", "tcp05", "o2ib12", "O2IB", "10.9.0.1@tcp")]
    ['o2ib', 'o2ib', 'tcp5', 'o2ib12', None, None]
    """
    match = _LNET.fullmatch(text)
    if match is None or int(match[2] or 0) > 0xffff:
        return None
    return match[1] + str(int(match[2] or 0) or "")


def parse_client_lnet(text: str) -> str | None:
    """
    Parse a network as lnet() does; None if its type is not one of clients.

    >>> [parse_client_lnet(text) for text in ("o2ib02", "bxi3f4", "banana", "lo")]
    ['o2ib2', 'bxi3f4', None, None]
    """
    network = parse_network_name(text)
    return network if network and network.rstrip("0123456789") in _TYPES else None


def find_lnet(nid: Nid) -> str | None:
    """
    Return the network of a NID, as lnet() does; None for other texts.

    >>> find_lnet("10.9.0.11@o2ib2"), find_lnet("fd00:172:16:11::5@tcp0"), find_lnet("node1")
    ('o2ib2', 'tcp', None)
    """
    address, at, network = nid.rpartition("@")
    return parse_network_name(network) if at and address else None
