"""
Storage policies: which sets are stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .asked import EBUSY, EEXIST, EINVAL, ENOENT, Refused, as_json
from .sets import MetricSet


@dataclass
class Policy:
    """`stored`: {instance: how many of its updates were stored}."""
    name: str
    plugin: str
    container: str
    schema: str
    regex: str
    decomposition: str
    flush_us: int
    is_running: bool = False
    producers: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)


class Policies:
    def __init__(self, daemon):
        self._daemon = daemon
        self.all: dict[str, Policy] = {}

    def add(self, asked) -> None:
        name, plugin = asked.needed("name"), asked.needed("plugin")
        container = asked.get("container") or ""
        if not container and not self._daemon.is_4_5:
            raise Refused(EINVAL, "strgp_add: the attribute 'container' is required")
        schema, regex = asked.get("schema") or "", asked.get("regex") or ""
        decomposition = asked.get("decomposition") or ""
        if bool(schema) == bool(regex):
            raise Refused(EINVAL, "strgp_add: one of 'schema' and 'regex' is required")
        if regex and not decomposition:
            raise Refused(EINVAL, "strgp_add: 'regex' needs 'decomposition'")
        flush = asked.interval_us("flush", ENOENT) or 0
        loaded = self._daemon.plugins.loaded.get(plugin)
        if loaded is None or (loaded.is_sampler and self._daemon.is_4_5):
            raise Refused(ENOENT, f"strgp_add: there is no store '{plugin}'")
        if name in self.all:
            if not self.all[name].is_running:
                self._remove(self.all[name])            # as measured of both releases
            raise Refused(EEXIST, f"strgp_add: '{name}' exists already")
        self.all[name] = Policy(name, plugin, container, schema, regex, decomposition, flush)
        loaded.users.add(name)

    def delete(self, asked) -> None:
        self._remove(self._stopped(asked))

    def _remove(self, policy: Policy) -> None:
        del self.all[policy.name]
        if policy.plugin in self._daemon.plugins.loaded:
            self._daemon.plugins.loaded[policy.plugin].users.discard(policy.name)

    def producers_add(self, asked) -> None:
        policy = self._stopped(asked)
        policy.producers.append(asked.regex(errno=ENOENT).pattern)

    def producers_del(self, asked) -> None:
        policy, regex = self._stopped(asked), asked.needed("regex")
        if regex not in policy.producers:
            raise Refused(ENOENT, "strgp_prdcr_del: there is no such expression")
        policy.producers.remove(regex)

    def metrics_add(self, asked) -> None:
        policy, metric = self._stopped(asked), asked.needed("metric")
        if metric in policy.metrics:
            raise Refused(EEXIST, f"strgp_metric_add: '{metric}' is there already")
        policy.metrics.append(metric)

    def metrics_del(self, asked) -> None:
        policy, metric = self._stopped(asked), asked.needed("metric")
        if metric not in policy.metrics:
            raise Refused(ENOENT, f"strgp_metric_del: there is no '{metric}'")
        policy.metrics.remove(metric)

    def start(self, asked) -> None:
        policy = self._found(asked)
        if policy.is_running:
            raise Refused(EBUSY, f"strgp_start: '{policy.name}' is running already")
        policy.is_running = True

    def stop(self, asked) -> None:
        policy = self._found(asked)
        if not policy.is_running:
            raise Refused(EBUSY, f"strgp_stop: '{policy.name}' is not running")
        policy.is_running = False

    def store(self, producer: str, one: MetricSet) -> None:
        """A set was updated: it is stored by each policy that has its schema and its producer."""
        for policy in self.all.values():
            if not policy.is_running:
                continue
            if policy.producers and not any(re.search(each, producer) for each in policy.producers):
                continue
            if (policy.schema == one.schema) if policy.schema else \
                    re.search(policy.regex, one.schema) is not None:
                policy.stored[one.instance] = policy.stored.get(one.instance, 0) + 1

    def status(self, asked) -> str:
        name = asked.get("name")
        if name is not None and name not in self.all:
            raise Refused(ENOENT, f"strgp_status: there is no policy '{name}'")
        return as_json([
            {"name": one.name, "container": one.container or "(null)", "schema": one.schema or "-",
             "regex": one.regex or "-", "plugin": one.plugin,
             "flush": f"{one.flush_us // 1_000_000}.{one.flush_us % 1_000_000:06d}",
             "state": "RUNNING" if one.is_running else "STOPPED",
             "decomp": one.decomposition or "-", "producers": one.producers,
             "metrics": one.metrics}
            for _, one in sorted(self.all.items()) if name in (None, one.name)])

    def _found(self, asked) -> Policy:
        name = asked.needed("name")
        if name not in self.all:
            raise Refused(ENOENT, f"{asked.verb}: there is no policy '{name}'")
        return self.all[name]

    def _stopped(self, asked) -> Policy:
        policy = self._found(asked)
        if policy.is_running:
            raise Refused(EBUSY, f"{asked.verb}: '{policy.name}' is running")
        return policy
