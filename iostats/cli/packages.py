"""The packages that a command needs, told before it begins; it imports them where it uses them."""

from __future__ import annotations

from importlib.machinery import PathFinder


def needed(*names: str) -> None:
    """ModuleNotFoundError, as an import raises it, where a package is not installed."""
    for name in names:
        if PathFinder.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
