"""
What an ldmsd has, as it said so itself over the control connection.

Intervals are microseconds.  None is what this release does not tell: 4.5 does not say at which
interval a sampler was started, or whether it was; the hint of its sets does (`SetInfo`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Optional


@dataclass(frozen=True)
class SetInfo:
    """
    A metric set in a daemon's directory: its own, or one that it collected.

    Attributes:
        update_hint_us, offset_us: from the set's `updt_hint_us`.  At a sampler: what it was
            started with; None where it never was, and one that was stopped leaves it behind.  At an
            aggregator: what its updater runs with.
        sampled_s: seconds since the epoch by the clock of the sampler's host; 0: never.
    """
    instance: str
    schema: str
    data_size_bytes: int
    meta_size_bytes: int
    update_hint_us: Optional[int] = None
    offset_us: Optional[int] = None
    sampled_s: float = 0.0


@dataclass(frozen=True)
class CollectedSet:
    """A set of a producer at its aggregator; `state`: START, LOOKUP, READY, UPDATING, DELETED..."""
    instance: str
    schema: str
    state: str


@dataclass(frozen=True)
class ProducerSeen:
    """
    A producer of an aggregator.

    Attributes:
        kind: active, passive, bridge, or "advertised, passive" and the like as ldmsd writes it.
        state: STOPPED, DISCONNECTED, CONNECTING, CONNECTED, STOPPING or STANDBY.
    """
    name: str
    kind: str
    host: str
    port: int
    transport: str
    reconnect_us: int
    state: str
    sets: tuple[CollectedSet, ...] = ()

    @property
    def is_started(self) -> bool:
        """It was started and not stopped since, whether it is reached or not."""
        return self.state not in ("STOPPED", "STOPPING")


@dataclass(frozen=True)
class UpdaterSeen:
    """
    Attributes:
        mode: pull, push or onchange.
        auto_interval: each set is updated at its own hint.
        state: STOPPED, RUNNING or STOPPING.
        producers: names; those that matched when they were added to it.
        matches: (regex, inst or schema); () for all sets.
    """
    name: str
    interval_us: int
    offset_us: int
    mode: str
    auto_interval: bool
    state: str
    producers: tuple[str, ...] = ()
    matches: tuple[tuple[str, str], ...] = ()

    @property
    def is_started(self) -> bool:
        return self.state == "RUNNING"


@dataclass(frozen=True)
class PluginSeen:
    """
    A plugin that was loaded.

    Attributes:
        name: of the instance.  In 4.4 a store has its own name: `csv` for store_csv.
        plugin: the plugin's name, from its library's: store_csv.
        kind: sampler or store.
        interval_us, offset_us: what a sampler was last started with; None in 4.5, where the hints
            of its sets say it.
        sets: instances of the sets that it made; () until it is configured.
    """
    name: str
    plugin: str
    kind: str
    interval_us: Optional[int] = None
    offset_us: Optional[int] = None
    sets: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicySeen:
    """A storage policy; `producers`: regular expressions; schema, regex, decomposition: or ""."""
    name: str
    plugin: str
    container: str
    schema: str
    regex: str
    decomposition: str
    flush_us: int
    state: str
    producers: tuple[str, ...] = ()

    @property
    def is_started(self) -> bool:
        return self.state in ("RUNNING", "OPENED")


@dataclass(frozen=True)
class ListenSeen:
    """A prdcr_listen; `producers`: names of those that advertised themselves to it."""
    name: str
    is_started: bool
    regex: str
    ip: str
    producers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observed:
    """
    All that a controller wants to know of a daemon, asked at one time.

    Attributes:
        config_counter: how many changes of its configuration it has carried out since it started:
            0 in a fresh one, so a smaller number than before means that it was restarted.
        release: "4.5.3"; "4.4" of 4.4 and "4.5" of 4.5.1, which do not say it themselves.
        sets: its directory, where it was asked for.
    """
    config_counter: int
    release: str = ""
    state: str = "ready"
    producers: Mapping[str, ProducerSeen] = field(default_factory=dict)
    updaters: Mapping[str, UpdaterSeen] = field(default_factory=dict)
    plugins: Mapping[str, PluginSeen] = field(default_factory=dict)
    policies: Mapping[str, PolicySeen] = field(default_factory=dict)
    listens: Mapping[str, ListenSeen] = field(default_factory=dict)
    sets: tuple[SetInfo, ...] = ()
