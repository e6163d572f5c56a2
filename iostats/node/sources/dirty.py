"""
osc.*.cur_dirty_bytes: data written by programs that the node has not sent yet; a present value, not
a counter.

    1048576

At the end it is in the application's bytes and not yet in the network's; what was there at the
start comes in the network's alone.  Every user may read it (/proc up to 2.11, /sys since 2.12).

Source: cur_dirty_bytes_show(), lustre/osc/lproc_osc.c.
"""

from __future__ import annotations

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "dirty"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's OSTs."""
    return read_all(root, "dirty", "osc", "cur_dirty_bytes", config.node.file_systems)


def sum_dirty_bytes(files: Iterable[File]) -> dict[str, int]:
    """{file system: bytes} of `files`, without file systems of which a file is unreadable."""
    by_file_system: dict[str, int] = {}
    unknown = set()
    for file in files:
        if file.source != NAME:
            continue
        place = stats.split_target_name(file.name)
        if place is None:
            continue
        if file.errno or not file.text.strip().isdigit():
            unknown.add(place[0])
        else:
            by_file_system[place[0]] = by_file_system.get(place[0], 0) + int(file.text)
    return {name: dirty for name, dirty in by_file_system.items() if name not in unknown}
