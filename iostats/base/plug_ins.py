"""
Plug-ins: the modules and packages of a directory that say their own name, NAME = "...".

The directory is the list: adding a plug-in is adding a file.  What plug-ins share stands beside
them, and has no NAME.  Nothing is imported to find them.
"""

from __future__ import annotations

import os


def names(directory: str) -> list[str]:
    """The names of the plug-ins in `directory`, sorted; OSError."""
    found = []
    for entry in os.listdir(directory):
        name, ending = os.path.splitext(entry)
        path = os.path.join(directory, entry)
        if not ending and os.path.isfile(os.path.join(path, "__init__.py")):
            path = os.path.join(path, "__init__.py")
        elif ending != ".py":
            continue
        with open(path, encoding="utf-8") as file:
            if f'\nNAME = "{name}"\n' in file.read():
                found.append(name)
    return sorted(found)
