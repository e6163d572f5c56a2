"""tools/typed.py: what it reads of mypy's report, and what it refuses."""

import sys

from trees import ROOT

sys.path.insert(0, str(ROOT / "tools"))
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
