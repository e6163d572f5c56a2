"""
NIDs of clients and their networks: 10.9.0.11@o2ib2 is of the LNet o2ib2.

Source: libcfs_net2str_r(), libcfs_str2net_internal(), lnet/lnet/nidstrings.c, 2.5 to 2.17: the
number 0 is not printed, and may be written.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LNET = re.compile(r"([a-z](?:[a-z0-9]*[a-z])?)([0-9]{0,5})")      # its number has 16 bits

# Types of networks, libcfs_netstrfns[] of these releases.
_TYPES = frozenset((
    "tcp", "o2ib", "gni", "gip", "ptlf", "kfi", "efa", "bxi3f",                 # 2.17
    "cib", "elan", "gm", "iib", "mx", "openib", "ptl", "ra", "vib"))            # up to 2.7


@lru_cache(maxsize=1024)
def lnet(text: str) -> str | None:
    """
    The network that `text` is the name of, as Lustre prints it; None for what is none.

    >>> [lnet(text) for text in ("o2ib", "o2ib0", "tcp05", "o2ib12", "O2IB", "10.9.0.1@tcp")]
    ['o2ib', 'o2ib', 'tcp5', 'o2ib12', None, None]
    """
    found = _LNET.fullmatch(text)
    if found is None or int(found[2] or 0) > 0xffff:
        return None
    return found[1] + str(int(found[2] or 0) or "")


def lnet_of_clients(text: str) -> str | None:
    """
    The same, where it is of a type that Lustre has for clients.

    >>> [lnet_of_clients(text) for text in ("o2ib02", "bxi3f4", "banana", "lo")]
    ['o2ib2', 'bxi3f4', None, None]
    """
    found = lnet(text)
    return found if found and found.rstrip("0123456789") in _TYPES else None


def lnet_of(nid: str) -> str | None:
    """
    The network of a NID, as of `lnet`; None for what is no NID.

    >>> lnet_of("10.9.0.11@o2ib2"), lnet_of("fd00:172:16:11::5@tcp0"), lnet_of("node1")
    ('o2ib2', 'tcp', None)
    """
    address, at, network = nid.rpartition("@")
    return lnet(network) if at and address else None
