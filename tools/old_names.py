#!/usr/bin/env python3
"""
Find names that no longer exist: in tests, benchmarks, tools and simulations, which the strict run
of mypy does not check.

    .venv/bin/python tools/old_names.py

A method, an argument or a module that was renamed leaves its old name in code that runs seldom, as
a benchmark does.  mypy checks this code without annotations of its own, and of its errors those
about names are reported here; of what a fixture gives a test it knows no type.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PLACES = ("tests", "benchmarks", "tools", "simlustre", "simldms", "packaging")
# Trees of counter files, recipes for programs that are not here, and files of which pytest allows
# several with one name.
_IGNORED = re.compile(r"tests/data/|tests/corpus/|packaging/(spack|easybuild)/|/conftest\.py$")
_OURS = r'"(?:iostats|iostats_ldms|simlustre|simldms)\b'
_ABOUT_NAMES = re.compile(
    r'error: .* has no attribute "(?P<attribute>\w+)".*\[attr-defined\]$'
    r'|error: Item "(\w+)" of "\2 \| None" has no attribute "(?P<item>\w+)".*\[union-attr\]$'
    r"|error: (?:Unexpected keyword|Missing (?:positional|named)) .*\[call-arg\]$"
    r"|error: .*\[name-defined\]$"
    rf"|error: Cannot find implementation or library stub for module named {_OURS}")
# Types of Python's that mypy infers where a test knows better; no name of ours is one of theirs.
_NOT_OURS = re.compile(
    r'error: "(?:object|None|AST|expr|stmt|bytes|OSError|Callable\[.*?|def .*?)" has no|TypedDict')
# Attributes that a test adds to an object of ours: one.said = []
_ADDED = re.compile(r"(?m)^[^=\n]*?\.\w[^=\n]* = ")


def list_files():
    """List the files to check, relative to the checkout."""
    paths = (path.relative_to(HOME).as_posix() for place in PLACES
             for path in sorted((HOME / place).rglob("*.py")))
    return [path for path in paths if not _IGNORED.search(path)]


def list_added(texts):
    """List the attributes that files assign, from their texts."""
    return {name for text in texts for left in _ADDED.findall(text)
            for name in re.findall(r"\.(\w+)", left)}


def select_lines(text, added=()):
    """Select the lines of mypy's output that are about names, without attributes in `added`."""
    matches = ((line, _ABOUT_NAMES.search(line)) for line in text.splitlines()
               if not _NOT_OURS.search(line))
    return [line for line, match in matches
            if match and (match["attribute"] or match["item"]) not in added]


def start_mypy():
    """Start mypy; the process."""
    files = list_files()
    # Tests import from the directories of others, as tests/conftest.py arranges it.
    directories = sorted({os.path.dirname(path) for path in files
                          if not (HOME / path).with_name("__init__.py").exists()})
    command = [sys.executable, "-m", "mypy", "--config-file", "", "--python-version", "3.12",
               "--cache-dir", ".mypy_cache/tests", "--check-untyped-defs",
               "--explicit-package-bases", "--follow-imports", "silent", "--no-error-summary"]
    return subprocess.Popen(
        [*command, *files], cwd=HOME, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "MYPYPATH": ":".join([".", *directories])})


def end_mypy(process):
    """Wait for mypy; [line] about names, or about a failure of mypy itself."""
    text = process.communicate()[0]
    if process.returncode not in (0, 1):
        return [*text.splitlines(), f"mypy: ended with status {process.returncode}"]
    return select_lines(text, list_added(
        (HOME / path).read_text(encoding="utf-8") for path in list_files()))


def main():
    """Run mypy; the exit status."""
    lines = end_mypy(start_mypy())
    print("\n".join([*lines, f"{len(lines)} names that do not exist" if lines else
                             "no names that do not exist"]))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
