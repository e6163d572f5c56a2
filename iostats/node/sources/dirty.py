"""
osc.*.cur_dirty_bytes: what programs wrote and the node has not sent yet; of now, no counter.

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
    """[File] of each mount's OSTs."""
    return read_all(root, "dirty", "osc", "cur_dirty_bytes", config["node.file_systems"])


def dirty_bytes(files: Iterable[File]) -> dict[str, int]:
    """{file system: bytes} of `files`; a file system of which any can't be read is left out."""
    found: dict[str, int] = {}
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
            found[place[0]] = found.get(place[0], 0) + int(file.text)
    return {name: dirty for name, dirty in found.items() if name not in unknown}
