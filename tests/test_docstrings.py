"""The examples in docstrings are right; each is one that a reader may try."""

import doctest
import importlib
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]


def test_the_examples_of_docstrings():
    sources = [path.relative_to(HOME) for room in ("iostats", "iostats_ldms")
               for path in HOME.glob(f"{room}/**/*.py") if ">>> " in path.read_text("utf-8")]
    results = {str(source): doctest.testmod(importlib.import_module(
        ".".join(source.with_suffix("").parts).replace(".__init__", ""))) for source in sources}
    assert {} == {name: result for name, result in results.items() if result.failed}
    assert sum(result.attempted for result in results.values()) > 100
