"""tools/typed.py and old_names.py: what they read of mypy's output, and what they refuse."""

import sys

from trees import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import old_names
import type_faults
import typed

REPORT = """\
            Name   Anys   Exprs   Coverage
------------------------------------------
  iostats.base.a      3     300     99.00%
  iostats.base.b     41     100     59.00%
  iostats.base.c      4       6     33.33%
------------------------------------------
           Total     48     406     88.18%
"""


def test_a_module_below_its_floor_and_the_whole_are_named():
    """Each module, however few its expressions."""
    modules = typed.parse_report(REPORT)
    assert {"iostats.base.a": (3, 300), "iostats.base.b": (41, 100),
            "iostats.base.c": (4, 6)} == modules
    assert ["iostats.base.b: expected 60.0 % typed expressions or more, got 59.00 % (41 of 100 "
            "have no type)", "iostats.base.c: expected 60.0 % typed expressions or more, got "
            "33.33 % (4 of 6 have no type)", "all modules: expected 90.0 % typed expressions or "
            "more, got 88.18 %"] == typed.problems(modules, 90.0, 60.0)
    assert [] == typed.problems(modules, 88.0, 33.0)


def test_any_in_a_public_signature_is_named():
    """Texts as annotations, methods and what only type checkers see, too."""
    source = """
if TYPE_CHECKING:
    class Store(Protocol):
        def load(self, name: str) -> Any: ...
def ask(params: "dict[str, Any]", *more: object) -> int: ...
def _private(value: Any) -> Any: ...
class Row:
    async def read(self, *, at: typing.Any) -> None:
        def inside(value: Any) -> None: ...
    def __init__(self, name: str) -> None:
        self.value: Any = name
"""
    assert ["a.py Store.load", "a.py ask", "a.py Row.read"] == typed.list_any(source, "a.py")


def test_names_that_do_not_exist_are_selected_from_the_output_of_mypy():
    """Of modules, attributes and arguments, but no attribute that a test adds to an object."""
    lines = [
        'tests/a.py:23: error: Module "iostats.wire.client" has no attribute "ask"  [attr-defined]',
        'tests/a.py:37: error: "Store" has no attribute "job"; maybe "jobs"?  [attr-defined]',
        'tests/a.py:41: error: Item "Store" of "Store | None" has no attribute "job"  [union-attr]',
        'tests/a.py:43: error: Unexpected keyword argument "fold" for "Totals"  [call-arg]',
        'tests/a.py:47: error: Cannot find implementation or library stub for module named '
        '"iostats.told"  [import-not-found]']
    others = [
        'tests/a.py:53: error: "Store" has no attribute "said"  [attr-defined]',
        'tests/a.py:59: error: "object" has no attribute "items"  [attr-defined]',
        'tests/a.py:61: error: Item "None" of "Store | None" has no attribute "jobs"  [union-attr]',
        'tests/a.py:67: error: Cannot find implementation or library stub for module named "pjrpc"'
        '  [import-not-found]',
        'tests/a.py:71: error: Incompatible types in assignment  [assignment]']
    added = old_names.list_added(["one.said = []\nif one.job == 23:\n    a.one, a.two = 1, 2\n"])
    assert {"said", "one", "two"} == added
    assert lines == old_names.select_lines("\n".join([*lines, *others]), added)


def test_the_faults_that_types_find_can_be_put_into_the_code(tmp_path):
    """Each text is in its file once, and what stands in its place is another one."""
    changed = type_faults.put_in(tmp_path)
    assert len(type_faults.FAULTS) == sum(len(lines) for _, lines in changed.values())
    for path, (copy, _) in changed.items():
        assert path.read_text(encoding="utf-8") != copy.read_text(encoding="utf-8")


def test_each_type_ignore_has_its_reason():
    """Behind it, or in a comment on the line above."""
    bare = []
    for path in sorted((ROOT / "iostats").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        bare += [f"{path.relative_to(ROOT)}:{number}"
                 for number, (above, line) in enumerate(zip(["", *lines], lines), 1)
                 if "# type: ignore" in line and not above.strip().startswith("#")
                 and "#" not in line.partition("# type: ignore[")[2]]
    assert [] == bare
