"""
Plugins: samplers that make metric sets, and stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .asked import EBUSY, EEXIST, EINVAL, ENOENT, Crashed, Refused, as_json
from .sets import MetricSet, slot

# plugin: (meta, data) bytes of a set; roughly what the real ones have.
SAMPLERS = {
    "meminfo": (2_904, 512), "vmstat": (6_224, 1_400), "procstat": (2_300, 440),
    "loadavg": (912, 136), "dstat": (2_072, 256), "procnetdev2": (1_288, 8_784),
    "procnfs": (1_376, 192), "procdiskstats": (3_136, 352), "lustre_client": (2_200, 392),
    "lustre_ost": (1_152, 200), "lustre_mdt": (1_408, 232), "lustre_mdc": (4_840, 504),
    "jobinfo": (1_232, 168), "coretemp": (1_008, 120), "ibnet": (3_400, 480),
    "test_sampler": (640, 96), "synthetic": (760, 112), "zfs_leafvdevs": (1_900, 300),
}
STORES = ("store_csv", "store_none", "store_function_csv", "store_flatfile", "store_sos",
          "store_avro_kafka", "store_influx", "store_kafka", "store_papi", "blob_stream_writer")
ONE_CONFIG = ("vmstat",)            # says 22 where the others say that they are busy
_OWN_NAME_IN_4_4 = {"store_csv": "csv", "store_none": "sos"}


@dataclass
class LoadedPlugin:
    """
    Attributes:
        name: of the instance; the plugin's own in 4.4.
        started_s: when it was started; None: it is stopped.
        period_us: (interval, offset) of its last start.
    """
    name: str
    plugin: str
    is_sampler: bool
    sets: list[MetricSet] = field(default_factory=list)
    is_configured: bool = False
    started_s: float | None = None
    period_us: tuple[int, int] = (1_000_000, 0)
    configs: list[str] = field(default_factory=list)
    users: set[str] = field(default_factory=set)            # storage policies


class Plugins:
    """
    The plugins of a daemon.

    `makes`: {plugin: [(suffix of the instance, schema, meta bytes, data bytes), ...]} where it is
    not one set of the plugin's own name.
    """

    def __init__(self, daemon, makes=None):
        self._daemon = daemon
        self._makes = makes or {}
        self.loaded: dict[str, LoadedPlugin] = {}

    def load(self, asked) -> None:
        name = asked.needed("name")
        plugin = name
        if self._daemon.is_4_5:
            plugin = asked.get("plugin") or name
        if name in self.loaded:
            raise Refused(EEXIST, f"load: the plugin instance '{name}' is loaded already")
        if plugin not in SAMPLERS and plugin not in STORES and plugin not in self._makes:
            raise Refused(ENOENT if self._daemon.is_4_5 else -1,
                          f"load: no plugin '{plugin}': lib{plugin}.so: cannot open")
        self.loaded[name] = LoadedPlugin(name, plugin, plugin not in STORES)

    def term(self, asked) -> None:
        plugin = self._found(asked, ENOENT)
        if plugin.started_s is not None or plugin.users:
            raise Refused(EBUSY if self._daemon.is_4_5 else EINVAL,
                          f"term: the plugin instance '{plugin.name}' is in use")
        del self.loaded[plugin.name]

    def config(self, asked) -> None:
        plugin = self._found(asked, ENOENT)
        given = [pair for pair in asked.pairs if pair[0] != "name"]
        if not given:
            raise Refused(EINVAL, "config: no attributes were given")
        if not plugin.is_sampler:
            plugin.configs.append(" ".join(key if value is None else f"{key}={value}"
                                           for key, value in given))
            plugin.is_configured = True
            return
        if plugin.sets:
            busy = self._daemon.is_4_5 and plugin.plugin not in ONE_CONFIG
            raise Refused(EBUSY if busy else EINVAL,
                          f"config: '{plugin.name}' is configured already")
        made = self._sets(asked, plugin)
        taken = next((one.instance for one in made if self._daemon.find_set(one.instance)), None)
        if taken is not None:
            raise Refused(EEXIST if self._daemon.is_4_5 else EINVAL,
                          f"config: there is a set '{taken}' already")
        plugin.sets, plugin.is_configured = made, True
        if plugin.started_s is not None and not self._daemon.is_4_5:
            for one in made:
                one.hint_us = plugin.period_us

    def _sets(self, asked, plugin: LoadedPlugin) -> list[MetricSet]:
        origin = asked.get("producer") or self._daemon.name
        makes = self._makes.get(plugin.plugin)
        instance = asked.get("instance")
        if not instance:
            if not plugin.plugin.startswith("lustre_"):
                raise Refused(EINVAL, "config: the attribute 'instance' is required")
            instance = f"{origin}/{plugin.name}"
        schema = asked.get("schema") or plugin.plugin
        if makes is None:
            makes = [("", schema, *SAMPLERS[plugin.plugin])]
        return [MetricSet(instance + suffix, own or schema, origin, meta, data)
                for suffix, own, meta, data in makes]

    def start(self, asked) -> None:
        name = asked.needed("name")
        asked.needed("interval")
        plugin = self.loaded.get(name)
        if plugin is None or (self._daemon.is_4_5 and not plugin.is_sampler):
            raise Refused(ENOENT, f"start: there is no sampler '{name}'")
        if not plugin.is_sampler:
            raise Refused(EINVAL, f"start: '{name}' is no sampler")
        interval, offset = asked.interval_us("interval"), asked.interval_us("offset") or 0
        if plugin.started_s is not None:
            raise Refused(EBUSY, f"start: the sampler '{name}' is running already")
        if interval == 0:
            raise Crashed("start with interval=0: a division by zero")
        plugin.started_s = self._daemon.clock()
        plugin.period_us = (interval, offset)
        for one in plugin.sets:
            one.hint_us = plugin.period_us

    def stop(self, asked) -> None:
        plugin = self._found(asked, ENOENT)
        if plugin.started_s is None:
            raise Refused(EINVAL, f"stop: the sampler '{plugin.name}' is not running")
        self.sample()
        plugin.started_s = None

    def sample(self) -> None:
        """All sets have the time of the last sample that their samplers were to take until now."""
        now = self._daemon.clock()
        for plugin in self.loaded.values():
            interval, offset = plugin.period_us
            if plugin.started_s is None or interval < 0:
                continue
            at = (slot(now, interval, offset) * interval + offset) / 1e6
            if at >= plugin.started_s:
                for one in plugin.sets:
                    one.sampled_s = at

    def sets(self) -> list[MetricSet]:
        return [one for plugin in self.loaded.values() for one in plugin.sets]

    def status(self, asked) -> str:
        return as_json([self._row(plugin) for plugin in self.loaded.values()])

    def _row(self, plugin: LoadedPlugin) -> dict:
        library = f"/usr/lib/ovis-ldms/lib{plugin.plugin}.so"
        kind = "sampler" if plugin.is_sampler else "store"
        if self._daemon.is_4_5:
            how = "[S]" if plugin.plugin in ONE_CONFIG or plugin.plugin == "store_none" else "[M]"
            return {"name": plugin.name, "plugin": plugin.plugin, "type": kind + how,
                    "libpath": library}
        interval, offset = plugin.period_us
        return {"name": _OWN_NAME_IN_4_4.get(plugin.name, plugin.name), "type": kind,
                "sample_interval_us": interval, "sample_offset_us": offset, "libpath": library}

    def of_sets(self, asked) -> str:
        return as_json([{"plugin": plugin.name, "sets": [one.instance for one in plugin.sets]}
                           for plugin in self.loaded.values() if plugin.is_sampler
                           and (self._daemon.is_4_5 or plugin.sets)])

    def _found(self, asked, errno: int) -> LoadedPlugin:
        name = asked.needed("name")
        if name not in self.loaded:
            raise Refused(errno, f"{asked.verb}: there is no plugin instance '{name}'")
        return self.loaded[name]
