"""
Options of a command line: --name VALUE, --name=VALUE, --flag.
"""

from __future__ import annotations

from iostats.base.errors import UsageError


def take(word: str, rest: list[str], with_value: tuple[str, ...],
         flags: tuple[str, ...]) -> tuple[str, str | bool]:
    """
    (name, value, or True for a flag) of the option `word`; UsageError.

    A value that stands apart is taken from `rest`, the list of what comes after it.  By hand,
    because a node's `start` has no time for argparse (benchmarks/README.md).
    """
    name, equals, value = word.partition("=")
    if name in with_value:
        if not equals:
            if not rest:
                raise UsageError(f"{name}: expected a value after it (see --help)")
            value = rest.pop(0)
        return name, value
    if word not in flags:
        raise UsageError(f"no option {word!r}; there are: {' '.join(with_value + flags)} "
                         f"(see --help)")
    return word, True
