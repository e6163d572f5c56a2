"""The tests themselves, as a CI system starts them."""

import ast
import collections
import functools
import importlib
import os
import re
import shlex
import subprocess
import sys
import textwrap
import types

import processes
import pytest
import pythons
from no_process import no_process
from trees import ROOT


def test_they_pass_where_signals_are_ignored():
    """`nohup make test &`, and CI systems that start their jobs in the background."""
    chosen = "tests/run/test_run.py::test_every_signal_that_we_get_is_the_commands"

    done = subprocess.run(["sh", "-c", 'trap "" HUP INT QUIT TERM USR1 USR2; exec "$@"', "sh",
                           sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen],
                          cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize("start", [
    lambda: subprocess.run(["true"]), lambda: subprocess.check_output("true", shell=True),
    lambda: os.fork(), lambda: os.system("true"),
    lambda: os.posix_spawn("/bin/true", ["true"], {})],
    ids=["run", "check_output", "fork", "system", "posix_spawn"])
def test_a_test_of_a_pure_module_that_starts_a_process_fails(start):
    """`make quick` is to stay quick: such tests belong into another file."""
    with no_process(), pytest.raises(AssertionError, match="starts no process"):
        start()


@pytest.mark.parametrize("releases, wanted, left_out", [
    ([(3, 9, 18), (3, 10, 13), (3, 11, 7), (3, 13, 0)], [(3, 9, 18), (3, 13, 0)], []),
    ([(3, 9, 2), (3, 9, 18), (3, 11, 7)], [(3, 9, 18)],
     ["Python 3.11.7: `make test` runs with it"]),
    ([(3, 11, 7), (3, 12, 1)], [(3, 12, 1)],
     ["Python 3.9: there is none on PATH or among pyenv's versions"]),
    ([], [], ["Python 3.9: there is none on PATH or among pyenv's versions"]),
], ids=["both", "this one is the newest", "no 3.9", "none"])
def test_the_oldest_and_the_newest_python_are_chosen_and_the_rest_has_a_reason(
        releases, wanted, left_out):
    """`make pythons`; the tests of all of them are run with this one anyway."""
    found, reasons = pythons.chosen({one: str(one) for one in releases}, own=(3, 11, 7))
    assert (wanted, left_out) == ([release for release, _ in found], reasons)


def test_random_cases_are_the_same_in_each_run(tmp_path):
    """In CI or not, whatever else is loaded; only a search (`make fuzz`) has others."""
    found = []
    for words, environ in ([], {}), (["-p", "iostats.report.why.causes"], {"CI": "1"}):
        file = tmp_path / f"drawn-{len(found)}"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words,
             "tests/fuzz/planted.py::test_what_is_drawn"], cwd=ROOT, capture_output=True, text=True,
            env={**{name: value for name, value in os.environ.items() if name != "CI"}, **environ,
                 "IOSTATS_EXAMPLES": "230", "IOSTATS_DRAWN": str(file)})
        assert 0 == done.returncode, done.stdout
        found.append(file.read_text())
    assert 230 <= len(found[0].splitlines())
    assert found[0] == found[1]


def test_a_campaign_of_chaos_that_fails_prints_how_to_repeat_it():
    """Each `make chaos` has a fresh seed."""
    def run(command):
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "IOSTATS_CHAOS_SEED": ""})
        return (re.findall(r"(?m)^IOSTATS_CHAOS=1 IOSTATS_CHAOS_SEED=.*", done.stdout),
                re.findall(r"AssertionError: (chosen \d+)", done.stdout))
    whole = f"IOSTATS_CHAOS=1 {shlex.quote(sys.executable)} -m pytest tests/chaos/planted.py"
    first, other = run(whole), run(whole)
    assert first[0] != other[0] and first[1] != other[1]
    assert other == run(*other[0])


# What is random by intent.
RANDOM = {
    "tests/processes.py": "ports and jobs that no other run of the tests on this machine has",
    "tests/etcd_desk.py": "keys of this run, in an etcd that several runs may share",
    "tests/events/test_dev_kmsg.py": "a mark in the kernel's log, which all of the machine shares",
    "tests/test_systemd.py": "a key of MUNGE",
    "tests/site_inside.py": "nonces",
    "tests/answers/test_receive.py": "nonces",
    "tests/wire/test_munge.py": "nonces",
    "tests/wire/test_munge_threads.py": "nonces",
    "tests/fuzz/long.py": "the seed of a search, which prints it",
    "tests/chaos/campaign.py": "the seed of `make chaos`, which prints it",
    "tests/chaos/soak.py": "the seed of `make soak`, which prints it",
}
_FRESH = {"os.urandom", "uuid.uuid4", "uuid.uuid1", "random.SystemRandom", "secrets.token_bytes",
          "secrets.token_hex", "numpy.random.seed", "random.seed"}


def _is_random(call):
    """Whether a call draws something else in each run."""
    name = ast.unparse(call.func)
    module, _, function = name.rpartition(".")
    if function in ("Random", "default_rng"):
        return not call.args
    return name in _FRESH or (module in ("random", "np.random", "numpy.random")
                              and function[0].islower())


@functools.cache
def _modules():
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(ROOT.glob("tests/**/*.py"))}


def test_each_story_of_a_test_is_run():
    """Without the call that awaits its `story`, a test passes, whatever the story is."""
    lost = [f"{path}::{test.name}" for path, tree in _modules().items() for test in tree.body
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
            for story in test.body if isinstance(story, ast.AsyncFunctionDef)
            if not any(isinstance(name, ast.Name) and name.id == story.name
                       for statement in test.body if statement is not story
                       for name in ast.walk(statement))]
    assert [] == lost


def test_no_test_draws_from_an_unknown_seed():
    """A failure that chance alone brings is for `make fuzz` and `make chaos`."""
    found = {}
    for path, tree in _modules().items():
        # `random` may be the parameter of a test that hypothesis gives.
        modules = {name.name for one in ast.walk(tree) if isinstance(one, ast.Import)
                   for name in one.names}
        lines = [one.lineno for one in ast.walk(tree) if isinstance(one, ast.Call)
                 and _is_random(one)
                 and not (ast.unparse(one.func).startswith("random.") and "random" not in modules)]
        if lines:
            found[path] = lines
    assert RANDOM.keys() == found.keys(), found


def test_hashes_of_texts_are_the_same_in_each_run_of_make():
    """The order of a set decides nothing by chance; a search has another order for each seed."""
    done = subprocess.run(["make", "-s", "--eval", "print: ; @echo $$PYTHONHASHSEED", "print"],
                          cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "MAKEFLAGS": "", "PYTHONHASHSEED": "41"})
    assert "23\n" == done.stdout, done.stderr


def test_forty_processes_of_tests_have_ports_of_their_own():
    """`make test` starts two for each core."""
    parts = [processes._own_part(processes._PARTS) for _ in range(40)]
    for _, holds in parts:
        holds.close()
    assert 40 == len({part for part, _ in parts})


def test_names_of_tests_are_the_same_in_each_collection(request):
    """
    pytest-xdist needs it: each of its processes collects for itself, at its own time.

    `make test` has collected before, into the file IOSTATS_COLLECTED.
    """
    collected = [item.nodeid for item in request.session.items]
    if os.environ.get("IOSTATS_COLLECTED"):
        other = (ROOT / os.environ["IOSTATS_COLLECTED"]).read_text(encoding="utf-8")
    else:
        files = sorted({name.partition("::")[0] for name in collected})
        other = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only",
                                "-p", "no:cacheprovider", *files], cwd=ROOT, capture_output=True,
                               text=True).stdout
    assert set() == set(collected) - set(other.splitlines()), other[-2000:]


# -- names in strings ------------------------------------------------------------------------------

_PRODUCT = ("iostats", "iostats_ldms", "simldms", "simlustre")


@functools.cache
def _parse(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _list_modules(*directories):
    """The paths of the modules of the product, or of those in these directories."""
    return [path.relative_to(ROOT).as_posix() for name in directories or ("iostats", "iostats_ldms")
            for path in sorted((ROOT / name).rglob("*.py"))]


def _load(module, name):
    """What is imported by a name from a module of the product; None where it is not there."""
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if hasattr(found, name) else importlib.import_module(
            f"{module}.{name}")
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in _PRODUCT:
            raise
        return None


def _load_names(tree):
    """({name: object of the product that a tree imports by it}, [what is not there])."""
    names, missing = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _PRODUCT:
            for one in node.names if node.names[0].name != "*" else ():
                found = names[one.asname or one.name] = _load(node.module, one.name)
                missing += [f"{node.module}.{one.name}"] if found is None else []
    return names, missing


def _list_scripts(tree):
    """The trees of the programs in the strings of a module."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Constant, ast.JoinedStr)):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join((one.value if isinstance(one.value, str) else "")
                       if isinstance(one, ast.Constant) else "0" for one in parts)
        if "iostats" in text and "import" in text:
            try:
                yield ast.parse(textwrap.dedent(text))
            except SyntaxError:
                pass


def _list_lost_in_scripts(tree):
    """The names of the product in the programs of a module that are not there."""
    for script in _list_scripts(tree):
        names, missing = _load_names(script)
        yield from missing
        yield from (ast.unparse(one) for one in ast.walk(script)
                    if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)
                    and one.value.id in names and not hasattr(names[one.value.id], one.attr))


def _find_named(node, names):
    """The object that a name, or an attribute of one, stands for; None if unknown."""
    if isinstance(node, ast.Attribute):
        return getattr(_find_named(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def test_names_of_the_product_in_strings_are_there():
    """After a rename: (module, "name") of a table or a patch, and programs that tests start."""
    lost = []
    for path in sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where, names = path.relative_to(ROOT).as_posix(), _load_names(tree)[0]
        for node in ast.walk(tree):
            values = getattr(node, "args" if isinstance(node, ast.Call) else "elts", [])
            for owner, name in zip(values, values[1:]) if isinstance(
                    node, (ast.Call, ast.Tuple)) else ():
                known = _find_named(owner, names)
                if isinstance(name, ast.Constant) and str(name.value).isidentifier() and isinstance(
                        known, (types.ModuleType, type)) and not hasattr(known, name.value):
                    lost.append(f"{where}:{node.lineno}: {ast.unparse(owner)}.{name.value}")
        lost += [f"{where}: {name}" for name in _list_lost_in_scripts(tree)]
    lost += [f"{path}: {name}" for path in _list_modules()
             for name in _list_lost_in_scripts(_parse(path))]
    assert [] == lost


# The protocol of each kind of plug-in, the directory of these, and the expressions that are one.
_PLUG_INS = {
    ("iostats/totals/snapshot.py", "CounterSource"): (
        "iostats/node/sources/", r"\b(module|modules[\[.].*|source|list_sources\(\).*)$"),
    ("iostats/events/sources/__init__.py", "EventSource"): ("iostats/events/sources/", "source$"),
    ("iostats/schedulers/__init__.py", "Scheduler"): (
        "iostats/schedulers/", r"(system|module|find_scheduler\(.*)$"),
    ("iostats/harvest/sink.py", "Sink"): ("iostats/sinks/", "sink$"),
}
# Attributes of what other packages make.
_NOT_OURS = {
    "strerror": "OSError", "reason": "ssl.SSLError", "verify_message": "ssl.SSLError",
    "headers": "urllib.error.HTTPError", "item": "NumPy", "sum": "NumPy", "_make": "named tuples",
    "__html__": "MarkupSafe",
}


def _list_defined(tree, at_top_only=False):
    """The names of functions, classes and constants, and unless `at_top_only` those of members."""
    for body in [tree.body] + [node.body for node in (() if at_top_only else ast.walk(tree))
                               if isinstance(node, ast.ClassDef)]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in getattr(node, "targets", None) or [node.target]:
                    yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))
            elif isinstance(node, ast.ImportFrom) and at_top_only:
                yield from (one.asname or one.name for one in node.names)
    if not at_top_only:
        yield from (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store))


@functools.cache
def _list_members(plug_in):
    """The names of the members of a protocol."""
    path, name = plug_in
    return set(_list_defined(next(node for node in ast.walk(_parse(path))
                                  if isinstance(node, ast.ClassDef) and node.name == name),
                             at_top_only=True))


def _list_tables(tree):
    """(loop, its variable, [text]) of each loop over texts that are written there or at the top."""
    at_top = {target.id: node.value for node in tree.body if isinstance(node, ast.Assign)
              for target in node.targets if isinstance(target, ast.Name)}
    for loop in ast.walk(tree):
        for one in [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", ()):
            values = at_top.get(one.iter.id) if isinstance(one.iter, ast.Name) else one.iter
            if isinstance(values, (ast.Tuple, ast.List)) and isinstance(one.target, ast.Name) \
                    and all(isinstance(text, ast.Constant) for text in values.elts):
                yield loop, one.target.id, [text.value for text in values.elts]


def _list_looked_up(tree):
    """(line, the object, name) of each attribute that is looked up by a text, or by a table's."""
    of_loop = {(id(call), variable): texts for loop, variable, texts in _list_tables(tree)
               for call in ast.walk(loop)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        function = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
        if function in ("hasattr", "getattr", "setattr"):
            owner, name = ast.unparse(call.args[0]), call.args[1]
            texts = ([name.value] if isinstance(name, ast.Constant) else
                     of_loop.get((id(call), getattr(name, "id", "")), ()))
            yield from ((call.lineno, owner, text) for text in texts)
        elif function in ("attrgetter", "methodcaller"):
            yield from ((call.lineno, "", one.value) for one in call.args
                        if isinstance(one, ast.Constant))


def test_names_that_the_product_looks_up_by_a_text_are_there():
    """After a rename a `hasattr(module, "name")` is False for ever, and no type checker objects."""
    trees = {path: _parse(path) for path in _list_modules()}
    defined = {*_NOT_OURS, *(name for tree in trees.values() for name in _list_defined(tree))}
    lost = []
    for path, tree in trees.items():
        foreign = {name.asname or name.name for node in ast.walk(tree)
                   if isinstance(node, ast.Import) for name in node.names
                   if name.name.split(".")[0] not in _PRODUCT}
        for line, owner, name in _list_looked_up(tree):
            of_plug_ins = [_list_members(plug_in) for plug_in, (_, form) in _PLUG_INS.items()
                           if path.startswith("iostats/") and re.search(form, owner)]
            if owner not in foreign and name not in (
                    set().union(*of_plug_ins) if of_plug_ins else defined):
                lost.append(f"{path}:{line}: {owner}.{name}")
    assert [] == lost


@pytest.mark.parametrize("plug_in", _PLUG_INS, ids=lambda plug_in: plug_in[1])
def test_the_protocol_of_a_plug_in_has_what_plug_ins_define_and_nothing_else(plug_in):
    """What is optional is looked up by a text: a plug-in with an old name would lack it unseen."""
    members, plug_ins = _list_members(plug_in), {
        path: _parse(path) for path in _list_modules(_PLUG_INS[plug_in][0]) if path != plug_in[0]}
    assert set() == members - {name for tree in plug_ins.values() for at_top in (True, False)
                               for name in _list_defined(tree, at_top)}
    words = collections.Counter(word for path in _list_modules() for word in re.findall(
        r"\w+", (ROOT / path).read_text(encoding="utf-8")))
    assert [] == [f"{path}: {name}" for path, tree in plug_ins.items()
                  for name in _list_defined(tree, at_top_only=True)
                  if not name.startswith("_") and name not in members and words[name] == 1]
