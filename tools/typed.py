#!/usr/bin/env python3
"""
mypy, and how many expressions have a type: it fails where these are fewer than the floors below,
and where Any stands in the signature of a public function.

    .venv/bin/python tools/typed.py           as `make test` runs it
    .venv/bin/python tools/typed.py --rooms   with the figures of each room, and the lowest modules

An expression without a type is one that mypy takes for Any, so it checks nothing there.
"""

import ast
import collections
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
# In percent.  Raise them with the figures.
FLOOR, FLOOR_OF_A_MODULE = 99.0, 95.0
# Modules of a few lines that cannot reach it, and why.
EXCEPT = {
    "iostats.base.ids": "NewType() itself is an expression without a type, one of nine",
    "iostats.base.named_tuple": "typing.NamedTuple itself is an expression without a type, of six",
    "iostats.base.strict_json": "json.loads() gives Any",
    "iostats.store.migrations.env": "alembic's attributes are a dict of Any",
    "iostats.wire.messages.arrays": "numpy's types of shapes and of integers have Any in them",
    "iostats.wire.method_name": "TypeVar() itself is an expression without a type, of three",
    "iostats_client": "mypy does not see the lines for Python 3.8 and older",
}
# Public functions with Any in their signature, and why.
ANY_IN_SIGNATURES = {
    "iostats/base/strict_json.py loads": "as json.loads(): each caller names the type of its JSON",
    "iostats/node/mpi_reduce.py Communicator.allgather": "as mpi4py declares it",
    "iostats/node/mpi_reduce.py Communicator.bcast": "as mpi4py declares it",
    "iostats/node/mpi_reduce.py Communicator.reduce": "as mpi4py declares it",
    "iostats/store/postgresql.py PostgresqlConnection.execute": "as psycopg declares it: the types "
        "of columns are not known to it",
}


def run_mypy(directory):
    """Run mypy on all that pyproject.toml lists; {module: (expressions without a type, all)}."""
    status = subprocess.call([sys.executable, "-m", "mypy", "--any-exprs-report", directory],
                             cwd=HOME)
    if status:
        raise SystemExit(status)
    return parse_report((Path(directory) / "any-exprs.txt").read_text(encoding="utf-8"))


def parse_report(text):
    """{module: (expressions without a type, all)} of mypy's any-exprs.txt."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: (int(row[1]), int(row[2])) for row in rows
            if len(row) == 4 and row[1].isdigit() and row[0] != "Total"}


def share(counts):
    """The typed expressions of [(without a type, all)] in percent."""
    without, of_all = map(sum, zip(*counts))
    return 100 * (1 - without / of_all)


def problems(modules, floor=FLOOR, floor_of_a_module=FLOOR_OF_A_MODULE):
    """[line] about what is below the floors."""
    lines = [f"{name}: expected {floor_of_a_module} % typed expressions or more, got "
             f"{share([counts]):.2f} % ({counts[0]} of {counts[1]} have no type)"
             for name, counts in modules.items()
             if name not in EXCEPT and share([counts]) < floor_of_a_module]
    if share(modules.values()) < floor:
        lines.append(f"all modules: expected {floor} % typed expressions or more, got "
                     f"{share(modules.values()):.2f} %")
    return lines


def list_any(source, name):
    """["NAME FUNCTION"] of the public functions of a module with Any in their signature."""
    return [f"{name} {function}" for function, signature in _list_signatures(
                ast.parse(source).body, "")
            if any(getattr(node, "id", getattr(node, "attr", "")) == "Any" for part in signature
                   for node in ast.walk(_parse_text(part)))]


def _list_signatures(statements, outer):
    """Yield (name, [annotation]) of public functions; those of TYPE_CHECKING too."""
    for node in statements:
        name = getattr(node, "name", "")
        if isinstance(node, (ast.If, ast.Try)):
            yield from _list_signatures([*node.body, *node.orelse], outer)
        elif name.startswith("_") and not name.startswith("__"):
            continue
        elif isinstance(node, ast.ClassDef):
            yield from _list_signatures(node.body, f"{outer}{name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            of_arguments = [argument.annotation for argument in (
                *given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
                if argument is not None]
            yield f"{outer}{name}", [part for part in (*of_arguments, node.returns) if part]


def _parse_text(annotation):
    """An annotation that is a text, such as "list[Any]", as what the text says."""
    text = getattr(annotation, "value", None)
    return ast.parse(text) if isinstance(text, str) else annotation


def signature_problems():
    """[line] about Any in signatures, and about exceptions that are none any more."""
    found = [line for room in ("iostats", "iostats_ldms")
             for path in sorted((HOME / room).rglob("*.py"))
             for line in list_any(path.read_text(encoding="utf-8"), path.relative_to(HOME))]
    return [f"{line}: expected types in a public signature, got Any (say object, or a TypeVar)"
            for line in found if line not in ANY_IN_SIGNATURES] + [
        f"{line}: has no Any; remove it from ANY_IN_SIGNATURES"
        for line in ANY_IN_SIGNATURES if line not in found]


def room_lines(modules):
    """[line] of the rooms, then of the ten lowest modules."""
    by_room = collections.defaultdict(list)
    for name, counts in modules.items():
        by_room[".".join(name.split(".")[:2])].append(counts)
    lines = [f"{room:<28}{share(counts):7.2f} %" for room, counts in sorted(by_room.items())]
    lowest = sorted(modules, key=lambda name: share([modules[name]]))[:10]
    return [*lines, "", *(f"{name:<44}{share([modules[name]]):7.2f} %" for name in lowest)]


def main():
    """Run mypy; the exit status."""
    with tempfile.TemporaryDirectory() as directory:
        modules = run_mypy(directory)
    if "--rooms" in sys.argv:
        print("\n".join(room_lines(modules)))
    lines = problems(modules) + signature_problems()
    print("\n".join([*lines, f"{share(modules.values()):.2f} % of all expressions have a type; the "
                             f"floor is {FLOOR} %"]))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
