"""
What earlier descriptions wanted of each daemon, and the one in force does not: it is taken away.

Of daemons that were heard of it is what was wanted of them.  Of the others it is made of the
description that was in force before: another instance may have told it to them, and be no more.
"""

from __future__ import annotations

from dataclasses import replace

from iostats.ldms.description.normal import SamplerGroup
from iostats.ldms.reconcile.wanted import Wanted, after, of_aggregator, of_sampler, shared_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Union

    from iostats.ldms.description.normal import AggregatorGroup, Description
    from iostats.ldms.reconcile.heard import Heard
    from iostats.ldms.reconcile.wanted import Shared
    from iostats.ldms.statements.statement import Statement

    Group = Union[AggregatorGroup, SamplerGroup]
    Key = tuple[str, str]               # (class of the group, its name)


class Earlier:
    """Of all descriptions of a Fleet but the one in force."""

    def __init__(self) -> None:
        self._last: dict[str, dict[Key, Wanted]] = {}           # by daemon
        self._former: dict[str, dict[Key, tuple[frozenset[tuple[str, str]],
                                                tuple[Statement, ...]]]] = {}
        # The description before, its groups by daemon, and daemons that _last has not from it.
        self._before: Description | None = None
        self._groups: Mapping[str, Iterable[Group]] = {}
        self._unheard: set[str] = set()
        self._shared: dict[tuple[str, str], Shared] = {}

    def was(self, description: Description | None, groups: Mapping[str, Iterable[Group]],
            daemons: Mapping[str, Heard]) -> None:
        """
        `description` is in force no more; `groups`: its groups by daemon.  Of those of `daemons`
        that were heard of it was told by all_wanted().
        """
        self._before, self._groups = description, groups
        self._unheard = {name for name in groups if daemons[name].observed is None}
        self._shared.clear()
        self._former.clear()

    def concerns(self, heard: Heard) -> bool:
        """Whether a daemon that left the description may have something of it."""
        name = heard.daemon.name
        return name in self._unheard or bool(self._last.get(name) and heard.observed is not None)

    def all_wanted(self, heard: Heard, found: dict[Key, Wanted], heir: str) -> list[Wanted]:
        """
        `found`, {(class of a group, its name): what is wanted of the daemon for it}, with what
        earlier ones wanted beside it; what was wanted for a group that is no more is for `heir`.
        """
        name = heard.daemon.name
        last = self._known(heard)
        for key in last:
            found.setdefault(key, Wanted(name, heir))
        if name not in self._former or self._former[name].keys() != found.keys():
            made = {key: after(wanted, last.get(key)) for key, wanted in found.items()}
            every: frozenset[tuple[str, str]] = frozenset().union(
                *(wanted.names() for wanted in made.values()))
            last.update(made)
            self._former[name] = {key: (wanted.former - every, wanted.unsubscribed)
                                  for key, wanted in made.items()}
        former = self._former[name]
        return [replace(wanted, former=former[key][0], unsubscribed=former[key][1])
                for key, wanted in found.items()]

    def forget(self, name: str) -> None:
        """The daemon has nothing of it any more."""
        self._last.pop(name, None)
        self._former.pop(name, None)
        self._unheard.discard(name)

    def _known(self, heard: Heard) -> dict[Key, Wanted]:
        name, before = heard.daemon.name, self._before
        last = self._last.setdefault(name, {})
        if name in self._unheard and before is not None and heard.observed is not None:
            self._unheard.discard(name)
            for group in self._groups.get(name, ()):
                key = (type(group).__name__, group.name)
                last[key] = after(self._of_group(before, heard, group), last.get(key))
        return last

    def _of_group(self, description: Description, heard: Heard, group: Group) -> Wanted:
        daemon = description.daemons[heard.daemon.name]
        if isinstance(group, SamplerGroup):
            return of_sampler(description, group, daemon, heard.dialect)
        key = (group.name, heard.dialect.release)
        if key not in self._shared:
            self._shared[key] = shared_of(group, heard.dialect)
        return of_aggregator(description, group, daemon, heard.dialect, self._shared[key], ())
