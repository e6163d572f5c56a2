"""
Random cases: the same ones in each run of the tests, new ones in a search.

    iostats     the profile of the tests: what a test draws depends on its source alone
    search      the profile of `make fuzz`: it depends on a seed, which each failure prints
"""

import os
import pkgutil
import shlex
import sys
from importlib import import_module

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

_EXAMPLES = int(os.environ.get("IOSTATS_EXAMPLES", "100"))


def examples(number):
    """`number` in `make test`; as much less, or more, as IOSTATS_EXAMPLES is of 100."""
    return max(1, number * settings.default.max_examples // 100)


def load_profile():
    """Load `iostats`; pytest's --hypothesis-profile=search replaces it."""
    # A loaded machine is no failure; cases of an earlier run are not drawn again.
    common = dict(deadline=None, database=None, max_examples=_EXAMPLES, print_blob=True,
                  suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("iostats", derandomize=True, **common)
    settings.register_profile("search", derandomize=False, **common)
    settings.load_profile("iostats")
    _draw_constants_of([])


def prepare_search():
    """In a search, draw constants of iostats' own source as well: limits and thresholds."""
    if is_search():
        import iostats
        names = [one.name for one in pkgutil.walk_packages(iostats.__path__, "iostats.")]
        _draw_constants_of([import_module(name).__file__ for name in names])


def is_search():
    return not settings.default.derandomize


def repeat_command(node_id, seed):
    """The command that repeats the search of one test."""
    return (f"IOSTATS_EXAMPLES={_EXAMPLES} PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '')} "
            f"{shlex.quote(sys.executable)} -m pytest --hypothesis-profile=search "
            f"--hypothesis-seed={seed} {shlex.quote(node_id)}")


def _draw_constants_of(files):
    """Else hypothesis draws constants of all modules that are loaded, whoever loaded them."""
    providers.is_local_module_file = frozenset(files).__contains__
