"""
The roles: each reads its command line, calls the rooms that do the work, and ends with an exit
status.
"""

from __future__ import annotations

# The commands of `iostats` alone, and those of nodes, which iostats_client.py has as well.
OF_IOSTATS = ("run", "report", "diff", "jobs", "nodes", "top", "query", "server", "collector",
              "config", "mail", "store", "ldms", "web", "why")
OF_NODES = ("start", "mark", "watch", "stop", "show", "doctor", "prolog", "epilog", "deliver",
            "harvest", "events")


def nearest(word: str) -> str:
    """`: did you mean ...?` for a word that is no command, or ""."""
    from difflib import get_close_matches
    if word in OF_IOSTATS:
        return f": did you mean `iostats {word}`?"
    found = get_close_matches(word.lower(), (*OF_IOSTATS, *OF_NODES), 2, 0.6)
    names = [f"`iostats {name}`" if name in OF_IOSTATS else f"`{name}`" for name in found]
    return f": did you mean {' or '.join(names)}?" if found else ""


def take_option(word: str, rest: list[str], with_value: tuple[str, ...],
                flags: tuple[str, ...]) -> tuple[str, str | bool]:
    """
    (name, value, or True for a flag) of the option `word`, --name VALUE, --name=VALUE or --flag;
    UsageError.

    A value that stands apart is taken from `rest`, the list of what comes after it.  By hand,
    because a node's `start` has no time for argparse (benchmarks/README.md).
    """
    from iostats.base.errors import UsageError
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
