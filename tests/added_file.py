"""
A copy of the package with one more file: to see that adding a plug-in is adding a file.
"""
from __future__ import annotations

import shutil

from processes import CLIENT, REPOSITORY, SERVER


def copy_with(directory, path, text):
    """Copy the package and its programs to `directory`, with the file `path` of iostats/ added."""
    shutil.copytree(REPOSITORY / "iostats", directory / "iostats",
                    ignore=shutil.ignore_patterns("__pycache__"))
    for program in (CLIENT, SERVER):
        shutil.copy(program, directory)
    assert not (directory / "iostats" / path).exists()
    (directory / "iostats" / path).write_text(text)
    return directory
