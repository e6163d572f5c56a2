"""
The files `state` and `import` of each osc and mdc, as text: how a client stands with its targets.

    PLACE/osc/scratch-OST0003-osc-ffff9a3c5d1e0800/state      see imports.py
    PLACE/osc/scratch-OST0003-osc-ffff9a3c5d1e0800/import

PLACE is /proc/fs/lustre up to 2.16, where every user may read them, and debugfs from 2.17 on
(088b9064d9, 42c17d20e1), where root alone may.  `import` may be written to, so that a kernel under
lockdown gives it to no one from 2.17 on.  The file `timeouts` beside them has estimates of service
times; how many requests timed out stands in `import`.

Of `import` only the lines that change with events are stored, 150 of 2,500 bytes, since a start
stores those of all targets.  Nothing here is understood, and nothing sent to a server by reading.

Source: lproc_osc.c, lproc_mdc.c; lprocfs_import_seq_show(), lprocfs_timeouts_seq_show(),
lustre/obdclass/lprocfs_status.c; 2.5.3 to 2.17.0.
"""

from __future__ import annotations

import os
from errno import ENODEV, ENOENT

from iostats.lustre import stats
from iostats.lustre.paths import ABSENT, File, list_directories, select_file_systems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STATE, IMPORT = "state", "import"               # the sources of the Files
_LONGEST = 1 << 16                              # one read: a file has 600 or 3,000 bytes
# The stored parts of `import`: from the first word to the second one.
_KEPT = (("    import_flags: ", "\n    connection:", "import:\n"),
         ("       connection_attempts: ", "\n       in-progress", "\n    connection:\n"),
         ("       timeouts: ", "\n", "\n    rpcs:\n"))


def read(root: str, only: Sequence[str] = ()) -> list[File]:
    """
    Return [File] of both for each target, by name; one that may not be read has its errno.

    `only`: as of paths.read_all().
    """
    files: list[File] = []
    for kind in ("osc", "mdc"):
        refused: dict[str, int] = {}
        path_of: dict[str, str] = {}                   # name -> where its `state` is
        listed: set[str] = set()
        hidden = 0
        for directory, names, code in list_directories(root, kind):
            hidden = hidden or code or 0
            for name in select_file_systems(names, kind, only):
                if name in path_of or (name not in listed
                                       and stats.split_target_name(name) is None):
                    continue
                listed.add(name)
                path = f"{directory}/{name}/{STATE}"
                try:
                    text = _read_text(f"{root}/{path}")
                except OSError as error:
                    if error.errno == ENODEV:
                        refused[name] = 0           # there is no import now
                    elif error.errno not in ABSENT:
                        refused[name] = error.errno or 0
                    elif error.errno == ENOENT and os.path.exists(f"{root}/{directory}/{name}"):
                        break                       # of this release, they are in another place
                    continue
                path_of[name] = path
                files.append(File(STATE, name, path, 0, text))
                path = f"{directory}/{name}/{IMPORT}"
                try:
                    files.append(File(IMPORT, name, path, 0,
                                      shorten_import(_read_text(f"{root}/{path}"))))
                except OSError as error:
                    files.append(File(IMPORT, name, "-", error.errno or 0, ""))
        for name in listed.difference(path_of):
            code = refused.get(name, hidden)
            if code:
                files += [File(STATE, name, "-", code, ""), File(IMPORT, name, "-", code, "")]
    return sorted(files, key=lambda file: file[:2])


def shorten_import(text: str) -> str:
    """
    Return the part of an `import` file that is stored; all of an unexpected format.

    >>> shorten_import("import:\\n    import_flags: [ a ]\\n    connection:\\n       nid: b\\n"
    ...           "       connection_attempts: 23\\n       generation: 3\\n"
    ...           "       in-progress_invalidations: 0\\n    rpcs:\\n       timeouts: 7\\n")[-31:]
    ' 3\\n    rpcs:\\n       timeouts: 7'
    """
    parts: list[str] = []
    end = 0
    for first, last, title in _KEPT:
        begin = text.find(first, end)
        end = text.find(last, begin)
        if begin < 0 or end < 0:
            return text
        parts += title, text[begin:end]
    return "".join(parts)


def _read_text(path: str) -> str:
    # Neither a pipe nor a device is waited for: it may be another tree than the kernel's.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return os.read(handle, _LONGEST).decode("latin-1")
    finally:
        os.close(handle)
