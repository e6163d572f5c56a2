"""
A command with its reason, and what a daemon was told that it does not tell itself.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field

from iostats.ldms.statements.statement import Statement

ENOENT, EBUSY, EEXIST, EINVAL = 2, 16, 17, 22
# What a daemon answers where it is already so.
_ALREADY = {"load": (EEXIST,), "start": (EBUSY,), "stop": (EINVAL,), "prdcr_add": (EEXIST,),
            "prdcr_start": (EBUSY,), "prdcr_stop": (ENOENT,), "prdcr_del": (ENOENT,),
            "auth_add": (EEXIST,), "listen": (EEXIST,), "advertiser_start": (EBUSY,),
            "updtr_start": (EBUSY,), "updtr_stop": (ENOENT,), "updtr_del": (ENOENT,),
            "strgp_stop": (ENOENT, EBUSY), "strgp_del": (ENOENT,), "strgp_start": (EBUSY,),
            "prdcr_listen_stop": (ENOENT,), "prdcr_listen_del": (ENOENT,),
            "prdcr_listen_start": (EBUSY,), "prdcr_unsubscribe": (ENOENT,), "term": (ENOENT,)}

Step = namedtuple("Step", "statement why covers is_question", defaults=[frozenset(), False])
Step.__doc__ = """
A command and why.

Attributes:
    covers: the producers that a subscription was for.
    is_question: only the daemon's answer tells whether it was so already, which it is as a rule.
"""


@dataclass
class Memory:
    """
    What a daemon was told since it started, as far as it does not tell itself.

    Attributes:
        once: statements that it accepted.
        loaded: plugins that it was told to load.
        configs: {plugin: its config statements}.
        unaccepted: {plugin: config statements that it refused since it was loaded}.
        started: {plugin: (interval, offset)}.
        subscribed: {prdcr_subscribe: the producers that there were}.
        kept: producers that it did not delete.
    """
    once: set[Statement] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    configs: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    unaccepted: dict[str, frozenset[Statement]] = field(default_factory=dict)
    started: dict[str, tuple[int, int]] = field(default_factory=dict)
    subscribed: dict[Statement, frozenset[str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    def told(self, step: Step, errno: int) -> bool:
        """Remember the answer to a step; whether it is one that leaves things as wanted."""
        statement: Statement = step.statement
        if statement.verb == "prdcr_del" and errno == EBUSY:
            self.kept.add(dict(statement.attributes)["name"] or "")
        attributes = dict(statement.attributes)
        name = attributes.get("name") or ""
        if errno and errno not in _ALREADY.get(statement.verb, ()):
            if statement.verb == "config":
                self.unaccepted[name] = self.unaccepted.get(name, frozenset()) | {statement}
            return False
        if statement.verb == "load":
            self.configs.pop(name, None)
            self.started.pop(name, None)
            self.unaccepted.pop(name, None)
            self.loaded.add(name)
        elif statement.verb == "config":
            self.configs[name] = (*self.configs.get(name, ()), statement)
            self.unaccepted[name] = self.unaccepted.get(name, frozenset()) - {statement}
            self.started.pop(name, None)        # what is made after a start has no hint
        elif statement.verb == "start":
            self.started[name] = (int(attributes.get("interval") or 0),
                                  int(attributes.get("offset") or 0))
        elif statement.verb in ("stop", "term"):
            self.started.pop(name, None)
        elif statement.verb == "prdcr_subscribe":
            self.subscribed[statement] = step.covers
        elif statement.verb == "prdcr_unsubscribe":
            self.subscribed = {key: covers for key, covers in self.subscribed.items()
                               if stream_of(key) != stream_of(statement)}
            self.once.add(statement)
        elif statement.verb in ("auth_add", "listen", "stream_enable", "msg_enable"):
            self.once.add(statement)
        return True


def stream_of(statement: Statement) -> tuple[str, str, str]:
    """(stream or message_tag, its name, the producers)."""
    attributes = dict(statement.attributes)
    kind = "stream" if "stream" in attributes else "message_tag"
    return kind, attributes.get(kind) or "", attributes.get("regex") or ""
