"""
The commands: each reads its command line, calls the rooms that do the work, and ends with an exit
status.
"""

from __future__ import annotations

# The commands of `iostats` only, and those of nodes, which iostats_client.py has, too.
OF_IOSTATS = ("run", "report", "diff", "jobs", "nodes", "top", "query", "server", "collector",
              "config", "mail", "store", "web", "why", "capacity", "targets", "quota")
# Commands with a module of another name: {command: module with main()}; LDMS need not be installed.
ADDED = {"ldms": "iostats_ldms.cli", "import": "iostats.cli.import_jobs"}
OF_NODES = ("start", "mark", "watch", "stop", "show", "doctor", "prolog", "epilog", "deliver",
            "harvest", "events")


def suggest_command(word: str) -> str:
    """Return `: did you mean ...?` for an unknown command, or ""."""
    from difflib import get_close_matches
    commands = (*OF_IOSTATS, *ADDED)
    if word in commands:
        return f": did you mean `iostats {word}`?"
    matches = get_close_matches(word.lower(), (*commands, *OF_NODES), 2, 0.6)
    names = [f"`iostats {name}`" if name in commands else f"`{name}`" for name in matches]
    return f": did you mean {' or '.join(names)}?" if matches else ""


def take_option(word: str, remaining: list[str], with_value: tuple[str, ...],
                flags: tuple[str, ...]) -> tuple[str, str]:
    """
    Return (name, value, or "yes" for a flag) of the option `word`, --name VALUE, --name=VALUE or
    --flag; UsageError.

    A value in a word of its own is taken from `remaining`, the words after it.  Without argparse,
    which takes too long for a node's `start` (benchmarks/README.md).
    """
    from iostats.base.errors import UsageError
    name, equals, value = word.partition("=")
    if name in with_value:
        if not equals:
            if not remaining:
                raise UsageError(f"{name}: expected a value after it (see --help)")
            value = remaining.pop(0)
        return name, value
    if word not in flags:
        raise UsageError(f"no option {word!r}; there are: {' '.join(with_value + flags)} "
                         f"(see --help)")
    return word, "yes"
