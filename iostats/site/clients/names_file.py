"""
The site's own list of nodes: [clients] names.

    # NID             node
    10.0.0.11@o2ib    node11
    10.1.0.11@o2ib    node11          a node may have several NIDs
"""

from __future__ import annotations

import re

from iostats.lustre.exports import nid_of
from iostats.lustre.nids import lnet_of

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,252}", re.ASCII)
_MOST_ERRORS = 20


def parsed_names(text: str, path: str) -> tuple[dict[str, str], list[str]]:
    """
    ({NID: node}, [what is wrong, one line each]) of a list; a wrong line costs itself alone.

    NIDs are as Lustre prints them: @tcp for @tcp0.

    >>> parsed_names("10.0.0.11@o2ib node11\\n10.0.0.12 node12\\n", "/etc/iostats/nodes")[1]
    ["/etc/iostats/nodes:2: expected a NID, such as 10.0.0.11@o2ib, got '10.0.0.12'"]
    """
    names: dict[str, str] = {}
    wrong: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split(None, 3)
        if not words:
            continue
        nid, name = _as_printed(words[0]), words[1] if len(words) == 2 else ""
        if nid_of(nid) is None:
            what = f"expected a NID, such as 10.0.0.11@o2ib, got {nid[:60]!r}"
        elif not name:
            what = f"expected a NID and the name of its node, got {line.strip()[:60]!r}"
        elif not _NAME.fullmatch(name):
            what = f"expected the name of a node, such as node11, got {name[:60]!r}"
        elif names.get(nid, name) != name:
            what = f"expected one node for {nid}, got {name[:60]!r} after {names[nid]!r}"
        else:
            names[nid] = name
            continue
        wrong.append(f"{path}:{number}: {what}")
    if len(wrong) > _MOST_ERRORS:
        wrong[_MOST_ERRORS:] = [f"{path}: {len(wrong) - _MOST_ERRORS} more lines are wrong"]
    return names, wrong


def _as_printed(nid: str) -> str:
    network = lnet_of(nid)
    return nid if network is None else f"{nid.rpartition('@')[0]}@{network}"
