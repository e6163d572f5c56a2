"""
The rooms of iostats/: their order, and what each says of itself in its `__init__.py`.

Nothing is listed here: the order stands in iostats/__init__.py, "Pure" and "Standard library only"
in the rooms, and the rest is read from the directories and the imports.
"""

import ast
import functools
import sys

import pytest
from trees import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import rooms

ORDER = rooms.order()
ROOMS = [room for room in ORDER if room in rooms.rooms()]
MODULES = {f"{room}.{name}": path for room in ROOMS for name, path in rooms.modules(room).items()}
PURE = {str(path) for path in rooms.pure()}
STANDARD = {str(path) for room in ROOMS
            for path in rooms.stated(room, "Standard library only").values()}

OUTSIDE_WORLD = {"os", "socket", "subprocess", "time", "threading", "asyncio", "select",
                 "pathlib", "shutil", "tempfile", "urllib", "http", "signal", "multiprocessing"}
# sys.stdlib_module_names is there since 3.10 only; this is what we use of it.
STANDARD_LIBRARY = set(getattr(sys, "stdlib_module_names", ())) or {
    "__future__", "_thread", "argparse", "array", "binascii", "collections", "csv", "ctypes",
    "datetime", "errno", "fcntl", "fnmatch", "functools", "glob", "hashlib", "hmac", "io",
    "itertools", "json", "math", "operator", "os", "pwd", "re", "select", "signal", "socket",
    "stat", "subprocess", "sys", "time", "traceback", "types", "typing", "warnings", "zlib"}


@functools.lru_cache(None)
def tree_of(path):
    """Each file is parsed once, and asked by many tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes_at_run_time(node):
    """All of a tree but what stands under `if TYPE_CHECKING:`."""
    yield node
    is_for_checkers = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    for child in node.orelse if is_for_checkers else ast.iter_child_nodes(node):
        yield from nodes_at_run_time(child)


@functools.lru_cache(None)
def imports_of(path, at_run_time=False):
    """(modules of iostats, modules of others) that a file imports, anywhere in it."""
    ours, others = set(), set()
    for node in (nodes_at_run_time if at_run_time else ast.walk)(tree_of(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found = ([name for name in found if name.removeprefix("iostats.") in MODULES]
                     or found[:1])
        else:
            continue
        for module in found:
            if module.partition(".")[0] == "iostats":
                ours.add(module.partition(".")[2])
            elif module.partition(".")[0] in rooms.BESIDE:
                ours.add(module)
            else:
                others.add(module.partition(".")[0])
    return ours - {""}, others


@functools.lru_cache(None)
def calls_of(path):
    """Names of the functions that a file calls by their plain name."""
    return {node.func.id for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def reached_from(*names, at_run_time=False):
    """`names`, and all that they import of iostats, directly or not."""
    reached, left = set(), set(names)
    while left:
        name = left.pop()
        if name in MODULES and name not in reached:
            reached.add(name)
            left |= imports_of(MODULES[name], at_run_time)[0]
    return reached


# What the nodes' program reaches: thousands of nodes have Python and nothing else.
NODE_SIDE = reached_from("cli.node", *(name for name in MODULES if ".sources." in name))


def test_the_order_names_the_directories_that_are_there():
    """`ls iostats` and the docstring of iostats/__init__.py say the same."""
    assert set(ORDER) == rooms.rooms()
    assert {"__init__.py", "__main__.py"} == {path.name for path in rooms.PACKAGE.glob("*.py")}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_room_imports_only_rooms_to_its_left(name):
    """So the path of a number goes from left to right, with no way back."""
    allowed = set(ORDER[:ORDER.index(name.partition(".")[0]) + 1])
    ours, others = imports_of(MODULES[name])
    assert set() == {module for module in ours if module.partition(".")[0] not in allowed}
    assert set() == others & {"iostats_client", "iostats_server", "simldms", "simlustre"}


@pytest.mark.parametrize("name", sorted(name for name in MODULES if str(MODULES[name]) in PURE))
def test_what_is_called_pure_touches_nothing(name):
    """No clock, no file, no network: so each can be tested with values alone."""
    assert set() == imports_of(MODULES[name])[1] & OUTSIDE_WORLD
    assert set() == calls_of(MODULES[name]) & {"open", "print", "input", "exec", "eval",
                                               "__import__"}


@pytest.mark.parametrize("name", sorted(NODE_SIDE | {
    name for name in MODULES if str(MODULES[name]) in STANDARD}))
def test_what_runs_on_a_node_needs_python_and_nothing_else(name):
    """Copy and run, with `python3 -I -S`: nothing to install on ten thousand nodes."""
    mpi4py = {"mpi4py"} if name == "node.mpi_reduce" else set()     # for `--mpi` alone
    assert set() == imports_of(MODULES[name])[1] - STANDARD_LIBRARY - mpi4py


def test_only_what_nodes_import_does_without_typing():
    """It costs `start` 2 ms; tests/node/test_cost.py holds that `start` and `stop` do without."""
    on_nodes = reached_from("cli.node", "cli.batch_hooks",
                            *(name for name in MODULES if ".sources." in name), at_run_time=True)
    without = {name for name, path in MODULES.items()
               if "\nTYPE_CHECKING = False\n" in path.read_text(encoding="utf-8")}
    assert {"totals.snapshot", "wire.client"} <= without
    assert set() == without - on_nodes


@pytest.mark.parametrize("name", sorted(name for name in MODULES if ".sources." in name))
def test_a_source_is_imported_by_no_module(name):
    """The directory is the list: adding a source is adding a file."""
    assert [] == [other for other in MODULES if name in imports_of(MODULES[other])[0]]


def test_the_node_side_is_without_the_servers():
    """Neither a server nor what only it needs is reached from the nodes' program."""
    assert {"base", "lustre", "totals", "wire", "node", "storage"} <= {
        name.partition(".")[0] for name in NODE_SIDE}
    assert set() == {name for name in NODE_SIDE
                     if name.partition(".")[0] in ("report", "server", "site", "sinks", "run")}


@pytest.mark.parametrize("name", [*sorted(MODULES), *ROOMS])
def test_a_module_begins_with_what_it_is_for(name):
    """A sentence that a newcomer understands."""
    assert rooms.doc(MODULES.get(name) or rooms.directory(name) / "__init__.py")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_module_unpickles_or_evaluates_anything(name):
    """What comes from a network or a file is data."""
    # A description is YAML: of PyYAML it takes the parser's events, which make no objects.
    events_alone = {"yaml"} if name == "iostats_ldms.description.document" else set()
    assert events_alone == imports_of(MODULES[name])[1] & {"pickle", "marshal", "shelve", "dill",
                                                           "yaml"}
    assert set() == calls_of(MODULES[name]) & {"eval", "exec"}


def test_every_pure_module_has_its_test():
    """make quick and make coverage find them by the names."""
    tested = {test.relative_to(ROOT / "tests") for test in rooms.tests_of_pure()}
    assert tested


MAX_LINES = 600


def class_names(path):
    """Names of the classes and named tuples at the top of a module."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made_by = node.value.func
            if getattr(made_by, "id", getattr(made_by, "attr", "")) in ("namedtuple", "NamedTuple"):
                yield node.targets[0].id


def test_no_class_name_stands_twice():
    """Who reads a name, in a message or in a search, knows which it is."""
    places = {}
    for path in sorted(MODULES.values()):
        for name in class_names(path):
            places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {} == {name: found for name, found in places.items() if len(found) > 1}


def test_no_module_is_longer_than_600_lines():
    """Modules are cut by idea; one that is longer has two of them."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
               for path in MODULES.values()}
    assert set() == {name for name, lines in lengths.items() if lines > MAX_LINES}
