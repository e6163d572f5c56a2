"""
The house of docs/architecture.md, as far as imports can show it.

    words     say what things are called           import words
    thought   bytes in, values out; no I/O         imports words and thought
    hands     read files, ask the kernel, send     import all but cli
    cli       the roles                            is imported by the entry points alone
"""

import ast
import re
import sys

import pytest
from conftest import ROOT

import iostats

PACKAGE = ROOT / "iostats"
FILES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
         for path in sorted(PACKAGE.rglob("*.py")) if path.name not in ("__init__.py",
                                                                        "__main__.py")}

OUTSIDE_WORLD = {"os", "socket", "subprocess", "time", "threading", "asyncio", "select",
                 "pathlib", "shutil", "tempfile", "urllib", "http", "signal", "multiprocessing"}
# sys.stdlib_module_names is there since 3.10 only; this is what we use of it.
STANDARD_LIBRARY = set(getattr(sys, "stdlib_module_names", ())) or {
    "__future__", "_thread", "argparse", "array", "binascii", "collections", "csv", "ctypes",
    "datetime", "errno", "fcntl", "fnmatch", "functools", "glob", "hashlib", "hmac", "io",
    "itertools", "json", "math", "operator", "os", "pwd", "re", "select", "signal", "socket",
    "stat", "subprocess", "sys", "time", "traceback", "types", "typing", "warnings", "zlib"}


def imports_of(name):
    """(modules of iostats, modules of others) that the module `name` imports, anywhere in it."""
    ours, others = set(), set()
    path = FILES.get(name) or PACKAGE / name / "__init__.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: imports are absolute"
            found = ([f"iostats.{alias.name}" for alias in node.names]
                     if node.module == "iostats" else [node.module])
        else:
            continue
        for module in found:
            if module.partition(".")[0] == "iostats":
                ours.add(module.partition(".")[2])
            else:
                others.add(module.partition(".")[0])
    return ours - {"__version__", ""}, others


def calls_of(name):
    """Names of the functions that the module `name` calls by their plain name."""
    return {node.func.id for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def layers_of_the_map():
    """[(names of modules)] of each part of the map in iostats/__init__.py."""
    head = iostats.__doc__.partition("\n\n")[2]
    return [re.findall(r"(?m)^    (\w+)/?(?: |$)", part) for part in head.split("\n\n")]


def reached_from(*names):
    """`names`, and all that they import of iostats, directly or not."""
    reached, left = set(), set(names)
    while left:
        name = left.pop()
        reached.add(name)
        left |= imports_of(name)[0] - reached
    return reached


WORDS, THOUGHT = map(set, layers_of_the_map()[:2])
# A node has Python and nothing else: what these import from outside would have to be there.
NODE_SIDE = reached_from("cli.node", *(name for name in FILES if name.startswith("sources.")))


@pytest.mark.parametrize("name", sorted(WORDS))
def test_words_import_nothing_of_ours_but_words(name):
    """They stand at the bottom: everything may use them."""
    assert set() == imports_of(name)[0] - WORDS


@pytest.mark.parametrize("name", sorted(THOUGHT))
def test_thought_imports_words_and_thought_and_touches_nothing(name):
    """No clock, no file, no network: so each can be tested with values alone."""
    ours, others = imports_of(name)
    assert set() == ours - WORDS - THOUGHT
    assert set() == others & OUTSIDE_WORLD
    assert set() == calls_of(name) & {"open", "print", "input", "exec", "eval", "__import__"}


@pytest.mark.parametrize("name", sorted(NODE_SIDE))
def test_what_runs_on_a_node_needs_python_and_nothing_else(name):
    """Copy and run, with `python3 -I -S`: nothing to install on ten thousand nodes."""
    mpi4py = {"mpi4py"} if name == "mpi" else set()      # for `--mpi` alone, and there already
    assert set() == imports_of(name)[1] - STANDARD_LIBRARY - mpi4py


@pytest.mark.parametrize("name", sorted(FILES))
def test_nobody_imports_the_roles_or_the_scripts(name):
    """cli/ is the top: what two roles share stands below it."""
    ours, others = imports_of(name)
    assert set() == {module for module in ours if module.partition(".")[0] in ("cli", "__main__")
                     and not name.startswith("cli.")}
    assert set() == others & {"iostats_client", "iostats_server", "simlustre"}


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.startswith("sources.")))
def test_a_source_is_imported_by_nobody(name):
    """The folder is the list: adding a source is adding a file."""
    assert [] == [other for other in FILES if name in imports_of(other)[0]]


def test_every_module_stands_in_the_map_and_every_name_of_the_map_is_there():
    """iostats/__init__.py is the first thing that a newcomer reads."""
    on_the_map = {name for layer in layers_of_the_map() for name in layer}
    assert {name.partition(".")[0] for name in FILES} == on_the_map


def test_the_map_puts_words_before_thought_before_hands():
    """And these are where they belong; new ones have their place by the map."""
    assert {"errors", "counters", "units"} <= WORDS
    assert {"lustre", "rpc_histogram", "job_stats", "snapshot", "delta", "jobid", "wire",
            "aggregate", "zeroing", "jobstate", "report", "jsonrpc"} <= THOUGHT
    assert {"files", "config", "node", "state", "secret", "post", "show", "server"} <= set(
        layers_of_the_map()[2])


def test_the_node_side_is_what_the_nodes_program_reaches():
    """And neither the server nor what only it needs is in it."""
    assert {"files", "sources", "config", "node", "state", "secret", "post", "show", "snapshot",
            "delta", "jobid", "wire", "aggregate", "lustre", "rpc_histogram"} <= NODE_SIDE
    assert set() == NODE_SIDE & {"server", "jsonrpc", "report", "cli.server"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_module_begins_with_what_it_is_for(name):
    """A sentence that a newcomer understands."""
    assert ast.get_docstring(ast.parse(FILES[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_module_unpickles_or_evaluates_anything(name):
    """What comes from a network or a file is data."""
    assert set() == imports_of(name)[1] & {"pickle", "marshal", "shelve", "dill", "yaml"}
    assert set() == calls_of(name) & {"eval", "exec"}


def test_coverage_is_measured_of_words_and_thought_whole():
    """By `make coverage`: the list in pyproject.toml is that of the map."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    measured = text.partition("[tool.coverage.run]")[2].partition("]\n")[0]
    assert {f"iostats/{name}.py" for name in WORDS | THOUGHT} == set(
        re.findall(r'"(iostats/.*?)"', measured))
