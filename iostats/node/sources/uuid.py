"""
llite.*.uuid: a random name for each mount; no counters.

    e88223e6-d231-4dd2-b717-3318de572019

An instance directory may get the same name again after a remount; this tells the two apart, and
every user may read it in every release (/proc up to 2.11, /sys since 2.12).

Source: uuid_show(), lustre/llite/lproc_llite.c.
"""

from __future__ import annotations

from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "uuid"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount."""
    return read_all(root, "uuid", "llite", "uuid", config.node.file_systems)
