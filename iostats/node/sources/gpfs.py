"""
mmpmon's fs_io_s: what programs of this node read from and wrote to GPFS (Storage Scale).

    _fs_io_s_ _n_ 10.22.0.6 _nn_ node1 _rc_ 0 _t_ 1579358234 _tu_ 53212 _cl_ gpfs.domain
        _fs_ scratch _d_ 48 _br_ 205607400434 _bw_ 74839282351 _oc_ 2377656 ...         (one line)

mmpmon is a program for root, and asks a daemon that may hang, so it is not run here: the site's
prolog and epilog put its answer into a file just before they call ours.  An answer that is older
than the snapshot by more than 15 s is not used, nor the same one twice, so that a failed mmpmon
leaves no number.

The bytes have 64 bits, and are those of the page pool and disks together.  The calls of programs
have 32 bits, and restart at 0 when these are full, any number of times, so that they are lower
bounds; they also show where the bytes may have been cleared.  The counters begin with the mount,
and again with `reset` of mmpmon, which any root may send.

Source: Storage Scale 6.0.1, "Display I/O statistics per mounted file system", "Counter sizes and
counter wrapping"; the line above is of a real node (GPFS 4 or 5, 2020).
"""

from __future__ import annotations

import os
import time

from iostats.base.errors import StatsSyntaxError
from iostats.base.private_files import read_if_readable
from iostats.lustre.paths import File, make_choice
from iostats.lustre.stats import ANSWERED, MAY_RESTART, Counter, Reading, are_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "gpfs"
LAYER, TITLE, LETTER = "", "GPFS", "f"
READ_AT = ("start", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = True
PATH = "run/iostats/mmpmon"
_OLD_S, _LONGEST_NAME = 15, 128         # what a server takes
_BYTES = {"_br_": "read_bytes", "_bw_": "write_bytes"}
_CALLS = {"_oc_": "open", "_cc_": "close", "_rdc_": "read_calls", "_wc_": "write_calls",
          "_dir_": "readdir", "_iu_": "inode_updates"}
_UPDATES = "inode_updates"              # to disks: no call of a program
_HEAD = "_fs_io_s_ "


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each file system, named CLUSTER:FILE_SYSTEM; without old answers."""
    files, is_chosen = [], make_choice(config.node.file_systems)
    for line in read_if_readable(os.path.join(root, PATH)).split("\n"):
        words = _parse_fields(line)
        moment, name = words.get("_t_", ""), f"{words.get('_cl_', '')}:{words.get('_fs_', '')}"
        if moment.isdigit() and abs(time.time() - int(moment)) <= _OLD_S and (
                len(name) <= _LONGEST_NAME and is_chosen(name)):
            files.append(File(NAME, name, PATH, 0, f"{line}\n"))
    return files


def _parse_fields(line: str) -> dict[str, str]:
    """Return {keyword: value} of an answer about a file system; {} of any other line."""
    words = line.split()[1:] if line.startswith(_HEAD) else []
    return dict(zip(words[::2], words[1::2]))


def parse(text: str, origin: str = PATH) -> Reading:
    """The Reading of one file system: read_bytes and write_bytes; its calls may restart."""
    words = _parse_fields(text)
    numbers = [words.get(keyword, "") for keyword in _BYTES]
    if words.get("_rc_") != "0" or not are_digits(numbers) or max(map(int, numbers)) >= 2**63:
        raise StatsSyntaxError(origin, 1, text.strip(), f"{_HEAD}... _rc_ 0 and bytes below 2**63")
    counts = {f"{MAY_RESTART}{name}": int(words[keyword]) for keyword, name in _CALLS.items()
              if are_digits([words.get(keyword, "")])}
    moment = "".join(words.get(keyword, "0").rjust(6, "0") for keyword in ("_t_", "_tu_"))
    return Reading({metric: Counter(int(number), "reqs")
                    for metric, number in zip(_BYTES.values(), numbers)}, 0, None,
                   {**counts, ANSWERED: int(moment) if are_digits([moment]) else 0})


def is_sent(metric: str) -> bool:
    """False for updates of inodes, which no report shows."""
    return metric != _UPDATES


def split(name: str) -> tuple[str, str, str] | None:
    """Return (CLUSTER:FILE_SYSTEM, "", "") of a file's name."""
    return name, "", ""
