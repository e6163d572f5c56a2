"""The roles: each reads its command line, calls the hands, and ends with an exit status."""

from __future__ import annotations

# The commands of `iostats` alone, and those of nodes, which iostats_client.py has as well.
OF_IOSTATS = ("run", "report", "jobs", "top", "query", "server", "config", "mail", "store")
OF_NODES = ("start", "mark", "watch", "stop", "show", "doctor", "prolog", "epilog", "deliver",
            "harvest")


def nearest(word: str) -> str:
    """`: did you mean ...?` for a word that is no command, or ""."""
    from difflib import get_close_matches
    if word in OF_IOSTATS:
        return f": did you mean `iostats {word}`?"
    found = get_close_matches(word.lower(), (*OF_IOSTATS, *OF_NODES), 2, 0.6)
    names = [f"`iostats {name}`" if name in OF_IOSTATS else f"`{name}`" for name in found]
    return f": did you mean {' or '.join(names)}?" if found else ""
