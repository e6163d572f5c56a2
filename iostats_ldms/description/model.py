"""
The model of a description, the same for all schema generations.

Names are expanded and in written order, intervals are microseconds.  An optional value that is not
set is None, or "" for a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

ConfigLine = Union[str, tuple[tuple[str, Optional[str]], ...]]

def format_config_line(line: ConfigLine) -> str:
    """
    Format a configuration line as one text.

    >>> format_config_line((("producer", "node-23"), ("quiet", None))), format_config_line("a=23 b")
    ('producer=node-23 quiet', 'a=23 b')
    """
    return line if isinstance(line, str) else " ".join(
        key if value is None else f"{key}={value}" for key, value in line)


@dataclass(frozen=True)
class Auth:
    """An authentication domain; `plugin`: none, ovis, munge, naive; `conf`: a file, or ""."""
    name: str
    plugin: str
    conf: str = ""


@dataclass(frozen=True)
class Endpoint:
    """An address a daemon listens on."""
    name: str
    host: str                           # of the endpoint, by default the daemon's
    port: int
    transport: str = "sock"             # sock, rdma, ugni or fabric
    auth: Auth | None = None
    is_control: bool = False            # commands may be sent to it (maestro_comm)
    listens_everywhere: bool = False    # on all addresses of its host (bind_all)


@dataclass(frozen=True)
class LdmsDaemon:
    """An ldmsd."""
    name: str
    host: str
    group: str                                      # `names` of its entry in `daemons`, as written
    endpoints: tuple[Endpoint, ...]
    environment: tuple[tuple[str, str], ...] = ()   # variables in order
    # other keys of its entry: (key, value) for `option --key value`, or (key, attributes) for the
    # statement `key a=b ...`; stream_enable and msg_enable are "true"
    options: tuple[tuple[str, Union[str, tuple[tuple[str, str], ...]]], ...] = ()

    @property
    def control(self) -> Endpoint | None:
        """The endpoint for commands: the first marked one, else the first with transport sock."""
        by_sock = [endpoint for endpoint in self.endpoints if endpoint.transport == "sock"]
        return next((endpoint for endpoint in by_sock if endpoint.is_control),
                    by_sock[0] if by_sock else None)


@dataclass(frozen=True)
class SetMatch:
    """The sets an updater updates; `field`: inst or schema."""
    regex: str
    field: str = "inst"


@dataclass(frozen=True)
class Updater:
    """An updater of aggregators."""
    name: str                           # updtr_N, numbered over the file
    interval_us: int
    offset_us: int | None = None
    mode: str = "pull"  # pull, push, onchange or auto_interval (`auto` in today's schema)
    perm: str = ""
    producers: tuple[str, ...] = ()     # regular expressions; () for all
    sets: tuple[SetMatch, ...] = ()     # () for all


@dataclass(frozen=True)
class Producer:
    """A daemon that an aggregator collects from; it is named after its endpoint."""
    daemon: str
    endpoint: Endpoint
    kind: str                                # active, passive, advertised or bridge
    reconnect_us: int
    rail: int | None = None
    quota: int | None = None                 # `credits` until LDMS 4.4
    rx_rate: int | None = None
    perm: str = ""
    cache_ip: bool | None = None

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.endpoint.name


@dataclass(frozen=True)
class Listen:
    """A prdcr_listen of an aggregator: the advertised producers it accepts."""
    name: str
    regex: str = ""
    ip: str = ""
    disable_start: bool = False
    reconnect_us: int | None = None
    rail: int | None = None
    quota: int | None = None
    rx_rate: int | None = None
    kind: str = ""
    advertiser_xprt: str = ""
    advertiser_port: int | None = None
    advertiser_auth: Auth | None = None


@dataclass(frozen=True)
class Advertise:
    """An advertisement of a daemon to one host (advertiser_add)."""
    name: str
    host: str
    port: int
    transport: str
    reconnect_us: int
    auth: Auth | None = None
    perm: str = ""
    rail: int | None = None
    quota: int | None = None
    rx_rate: int | None = None


@dataclass(frozen=True)
class Subscription:
    """A subscription; `name`: of a stream or message channel; `producers`: a regular expression."""
    name: str
    producers: str
    is_message: bool = False
    rx_rate: int | None = None


@dataclass(frozen=True)
class Plugin:
    """
    A plugin instance; `config`: one `config` statement each; `interval_us`: None for a plugin that
    is not started (a store's).
    """
    instance: str
    plugin: str
    config: tuple[ConfigLine, ...] = ()
    interval_us: int | None = None
    offset_us: int | None = None
    perm: str = ""


@dataclass(frozen=True)
class StoragePolicy:
    """A storage policy; `plugin`: an instance of `plugins`."""
    name: str
    daemons: tuple[str, ...]
    plugin: str
    container: str = ""
    schema: str = ""
    regex: str = ""
    decomposition: str = ""
    flush_us: int | None = None
    perm: str = ""


@dataclass(frozen=True)
class AggregatorGroup:
    """Aggregators that share producers."""
    name: str   # `daemons` as written: the `names` of a group, or a subset of it
    members: tuple[str, ...]
    level: int  # 1 if all its producers are samplers, else one more than the highest of them
    # of all its peers, in written order; all exist on each aggregator, and the balance decides
    # which one starts them
    producers: tuple[Producer, ...] = ()
    updaters: tuple[Updater, ...] = ()
    listens: tuple[Listen, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    plugins: tuple[str, ...] = ()
    advertises: tuple[tuple[str, tuple[Advertise, ...]], ...] = ()      # (daemon, its own)
    balance: str = "producers"  # "producers", or "sets" (level 1 only)
    capacity: tuple[tuple[str, float], ...] = ()  # relative capacity by aggregator; 1.0 if not set


@dataclass(frozen=True)
class SamplerGroup:
    """Daemons with the same sampler plugins."""
    name: str
    members: tuple[str, ...]
    plugins: tuple[str, ...]
    advertises: tuple[tuple[str, tuple[Advertise, ...]], ...] = ()      # (daemon, its own)


@dataclass(frozen=True)
class AgentGroup:
    """Our own agents on storage servers, an entry of `iostats`."""
    name: str
    hosts: tuple[str, ...]  # as the agents name themselves (without the domain)
    # (key of site.cfg such as "harvest.interval", its text), validated
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Description:
    """A complete description."""
    # daemons, plugins: by name, in written order
    daemons: dict[str, LdmsDaemon] = field(default_factory=dict)
    aggregators: tuple[AggregatorGroup, ...] = ()
    samplers: tuple[SamplerGroup, ...] = ()
    plugins: dict[str, Plugin] = field(default_factory=dict)
    stores: tuple[StoragePolicy, ...] = ()
    agents: tuple[AgentGroup, ...] = ()
    ldms_release: str = ""  # of daemons that do not report their release; "" if not set
