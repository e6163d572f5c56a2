"""
The state of an ldmsd, as it reports it over the control connection.

Intervals are microseconds.  None marks what a release does not report: 4.5 reports neither a
sampler's interval nor whether it runs; the update hint of its sets does (`SetInfo`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class SetInfo:
    """A metric set in a daemon's directory: its own, or collected from another daemon."""
    instance: str
    schema: str
    data_size_bytes: int
    meta_size_bytes: int
    # update_hint_us, offset_us: the set's `updt_hint_us`.  At a sampler: the interval it was
    # started with; None if it never was, unchanged after a stop.  At an aggregator: the interval of
    # its updater.
    update_hint_us: Optional[int] = None
    offset_us: Optional[int] = None
    sampled_s: float = 0.0  # seconds since the epoch by the clock of the sampler's host; 0: never


@dataclass(frozen=True)
class CollectedSet:
    """A set of a producer at its aggregator; `state`: START, LOOKUP, READY, UPDATING, DELETED..."""
    instance: str
    schema: str
    state: str


@dataclass(frozen=True)
class ObservedProducer:
    """A producer of an aggregator."""
    name: str
    kind: str   # active, passive, bridge, or "advertised, passive" and the like, as ldmsd writes it
    host: str
    port: int
    transport: str
    reconnect_us: int
    state: str  # STOPPED, DISCONNECTED, CONNECTING, CONNECTED, STOPPING or STANDBY
    sets: tuple[CollectedSet, ...] = ()

    @property
    def is_started(self) -> bool:
        """True if it was started and not stopped since, connected or not."""
        return self.state not in ("STOPPED", "STOPPING")


@dataclass(frozen=True)
class ObservedUpdater:
    """An updater of an aggregator."""
    name: str
    interval_us: int
    offset_us: int
    mode: str                           # pull, push or onchange
    auto_interval: bool                 # each set is updated at the interval of its own hint
    state: str                          # STOPPED, RUNNING or STOPPING
    producers: tuple[str, ...] = ()     # names of the producers that matched when they were added
    matches: tuple[tuple[str, str], ...] = ()  # (regex, inst or schema); () for all sets

    @property
    def is_started(self) -> bool:
        """True if it is running."""
        return self.state == "RUNNING"


@dataclass(frozen=True)
class ObservedPlugin:
    """A loaded plugin."""
    name: str       # of the instance.  In 4.4 a store has a name of its own: `csv` for store_csv.
    plugin: str     # the plugin's name, from its library's: store_csv
    kind: str       # sampler or store
    # interval_us, offset_us: of a sampler's last start; None in 4.5, where the hints of its sets
    # have them
    interval_us: Optional[int] = None
    offset_us: Optional[int] = None
    sets: tuple[str, ...] = ()  # instance names of its sets; () before it is configured


@dataclass(frozen=True)
class ObservedPolicy:
    """A storage policy; `producers`: regular expressions; an unset text is ""."""
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
        """True if it is running."""
        return self.state in ("RUNNING", "OPENED")


@dataclass(frozen=True)
class ObservedListener:
    """A prdcr_listen; `producers`: names of the producers that advertised themselves to it."""
    name: str
    is_started: bool
    regex: str
    ip: str
    producers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObservedState:
    """The complete state of a daemon at one time."""
    # number of configuration changes since its start: 0 in a fresh daemon, so a smaller number than
    # before means a restart
    config_counter: int
    release: str = ""   # "4.5.3"; "4.4" for 4.4 and "4.5" for 4.5.1, which do not report it
    state: str = "ready"
    producers: Mapping[str, ObservedProducer] = field(default_factory=dict)
    updaters: Mapping[str, ObservedUpdater] = field(default_factory=dict)
    plugins: Mapping[str, ObservedPlugin] = field(default_factory=dict)
    policies: Mapping[str, ObservedPolicy] = field(default_factory=dict)
    listens: Mapping[str, ObservedListener] = field(default_factory=dict)
    sets: tuple[SetInfo, ...] = ()  # its directory, if it was requested
