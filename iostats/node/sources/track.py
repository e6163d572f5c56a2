"""
llite.*.stats_track_{pid,ppid,gid}: whose calls llite counts; no counters.

    0 (all)

Anything else, a number or `untracked`, means that the numbers of this mount are not those of the
node.  Every user may read it (/proc up to 2.11, /sys since 2.12).

Source: ll_rd_track_id(), stats_track_pid_show(), lustre/llite/lproc_llite.c.
"""

from __future__ import annotations

from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "track"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount; the source of each is the file's name."""
    return [file for name in ("stats_track_pid", "stats_track_ppid", "stats_track_gid")
            for file in read_all(root, name, "llite", name, config.node.file_systems)]
