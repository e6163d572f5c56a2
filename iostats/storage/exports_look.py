"""
What there is to read of a target's exports, for a person: how many clients, and what a sweep costs.
"""

from __future__ import annotations

import os
import time
from collections import namedtuple

from iostats.base.errors import one_line
from iostats.lustre.exports import glance, nid_of
from iostats.storage.client_table import read_file
from iostats.storage.targets import exports_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.storage.targets import LocalTarget

_LOOKED_AT = 200                    # files of a target that are read

ExportsLook = namedtuple("ExportsLook", "path clients cpu_s bad why errno")
ExportsLook.__doc__ = """
What there is to read of the exports of one LocalTarget.

Attributes:
    path: their directory, or what could not be read.
    clients: how many there are; None where they cannot be read: then `why` says so, and `errno`.
    cpu_s: seconds of CPU that it takes to read all of them, by the first two hundred.
    bad: of these, how many could not be read or understood; `why`: the first of them.
"""


def look_at_exports(target: LocalTarget) -> ExportsLook:
    """The ExportsLook of a target."""
    try:
        path = exports_of(target)
        nids = [name for name in os.listdir(path) if nid_of(name)]
        began, bad, why, code, read = time.process_time(), 0, "", 0, 0
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for nid in nids[:_LOOKED_AT]:
                try:
                    found = glance(read_file(handle, nid), f"{path}/{nid}/stats")
                    read += 1
                except OSError as error:
                    bad, code = bad + 1, code or error.errno or 0
                    why = why or f"{path}/{nid}/stats: {error.strerror or error}"
                    continue
                if found.why:
                    bad, why = bad + 1, why or found.why
        finally:
            os.close(handle)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else target.directories[0]
        return ExportsLook(where, None, 0.0, 0, f"{where}: {error.strerror or error}", error.errno)
    if bad and not read:
        return ExportsLook(path, None, 0.0, bad, why, code)
    tried = len(nids[:_LOOKED_AT])
    cpu_s = (time.process_time() - began) / tried * len(nids) if tried else 0.0
    return ExportsLook(path, len(nids), cpu_s, bad, why, code)


def exports_in_words(target: LocalTarget) -> str:
    """The same, for a line of `harvest --list`."""
    look = look_at_exports(target)
    if look.clients is None:
        return f"exports not readable: {one_line(look.why)}"
    return (f"{look.clients} client{'' if look.clients == 1 else 's'}"
            + (f", {look.bad} not understood: {one_line(look.why)}" if look.bad else ""))
