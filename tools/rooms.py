"""
The rooms of iostats/, as the package itself states them, and the packages beside it, such as
iostats_ldms/, which count as rooms to the right of all others; for the tests and the Makefile.

    python tools/rooms.py pure        files of the pure modules, commas between
    python tools/rooms.py tests       their tests
    python tools/rooms.py nodes       the tests of the rooms that run on nodes
"""

import ast
import re
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PACKAGE = HOME / "iostats"
BESIDE = sorted(path.parent.name for path in HOME.glob("iostats_*/__init__.py"))


def doc(path):
    """The docstring of a module's file; ""."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def order():
    """The rooms from left to right, as iostats/__init__.py has them, and the packages beside."""
    [line] = re.findall(r"(?m)^    (base <(?:[^\n]|\n +<)*)$", doc(PACKAGE / "__init__.py"))
    return [*re.split(r"\s*<\s*", line), *BESIDE]


def rooms():
    """The directories that are there."""
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | set(BESIDE)


def directory(room):
    """The directory of a room, or of a package beside iostats/."""
    return HOME / room if room in BESIDE else PACKAGE / room


def modules(room):
    """{name in the room: file}, directories inside it included: "sources.llite"."""
    top = directory(room)
    return {".".join(path.relative_to(top).with_suffix("").parts): path
            for path in sorted(top.rglob("*.py")) if path.name != "__init__.py"}


def stated(room, what):
    """
    {name: file} of those modules of `room` of which its docstring says `what` ("Pure",
    "Standard library only"): "Pure: all.", "Pure: all but a, b.", "Pure: a, b." or "Pure."
    """
    found = re.search(rf"(?m)^{what}(?:: (?P<but>all but )?(?P<names>(?:[^.]|\.(?=\w))+))?\.$",
                      doc(directory(room) / "__init__.py"))
    if not found:
        return {}
    every = modules(room)
    if found["names"] in (None, "all"):
        return every
    named = {name for name in every for wanted in re.split(r",\s+", found["names"])
             if name == wanted or name.startswith(f"{wanted}.")}
    missing = {wanted for wanted in re.split(r",\s+", found["names"])
               if not any(name == wanted or name.startswith(f"{wanted}.") for name in every)}
    assert not missing, f"{directory(room)}/__init__.py: no module {', '.join(sorted(missing))}"
    return {name: path for name, path in every.items() if (name in named) != bool(found["but"])}


def pure():
    """[file] of all modules without I/O, clock or network."""
    return [path for room in order() if room in rooms() for path in stated(room, "Pure").values()]


def tests_of_pure():
    """
    [file] of their tests: tests/ROOM/test_MODULE.py or tests/ROOM/test_MODULE_*.py; of a package
    whose modules all are pure also tests/ROOM/test_PACKAGE*.py, else test_PACKAGE_MODULE*.py.
    """
    found, all_pure = [], set(pure())
    for path in pure():
        room, *package, name = path.relative_to(
            HOME if path.relative_to(HOME).parts[0] in BESIDE else PACKAGE).with_suffix("").parts
        names = [name, "_".join((*package, name))]
        if package and all_pure.issuperset(set(path.parent.glob("*.py")) - {
                path.parent / "__init__.py"}):
            names.append(package[-1])
        for name in names:
            for pattern in (f"test_{name}.py", f"test_{name}_*.py"):
                found += [test for test in sorted((HOME / "tests" / room).glob(pattern))
                          if test not in found]
    return found


def tests_of_nodes():
    """[file] of the tests of the rooms in which all is of the standard library: nodes have them."""
    return [test for room in order()
            if room in rooms() and stated(room, "Standard library only") == modules(room)
            for test in sorted((HOME / "tests" / room).glob("test_*.py"))]


if __name__ == "__main__":
    paths = {"pure": pure, "tests": tests_of_pure, "nodes": tests_of_nodes}[sys.argv[1]]()
    print(("," if sys.argv[1] == "pure" else " ").join(str(p.relative_to(HOME)) for p in paths))
