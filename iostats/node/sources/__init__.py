"""
What is read on a node, one file each; the directory is the list.

A source is a module, named as the source, with

    SIDE = "node"              who reads it: a compute node, in each snapshot, or with
                               "node, after the start" in all but the first
    CALLS_SUFFIX               what the samples of a [bytes] counter are: "_calls", "_rpcs"
    read(root, config)         [File], without understanding them
    parse(text, origin)        Reading, or StatsSyntaxError; absent for what is no counter file
    split(name)                (file system, target or "", instance) of a directory's name, or None

Adding a source is adding a file; tests/test_sources.py says what one lacks.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def of_side(side: str) -> dict[str, ModuleType]:
    """{source: module} of the sources that `side` reads."""
    found = {}
    for filename in sorted(os.listdir(os.path.dirname(__file__))):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and name != "__init__":
            __import__(f"{__name__}.{name}")
            module = sys.modules[f"{__name__}.{name}"]
            if module.SIDE == side:
                found[name] = module
    return found
