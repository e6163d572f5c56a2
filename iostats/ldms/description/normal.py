"""
A description in the one form that all of the room works with, of whatever generation its file is.

Names are expanded and in written order, intervals are microseconds, numbers are numbers.  An
optional value that was not written is None, or "" for a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

    # A configuration line of a plugin: its attributes; a bare keyword has the value None.  A line
    # that was written as one text is a text.
    ConfigLine = Union[str, tuple[tuple[str, Optional[str]], ...]]


def line_text(line: ConfigLine) -> str:
    """
    A configuration line as one text.

    >>> line_text((("producer", "node-23"), ("quiet", None))), line_text("a=23 b")
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
    """
    Where a daemon listens.

    Attributes:
        host: its own, or its daemon's.
        transport: sock, rdma, ugni or fabric.
        is_control: commands may be sent to it (maestro_comm).
        listens_everywhere: on all addresses of its host (bind_all).
    """
    name: str
    host: str
    port: int
    transport: str = "sock"
    auth: Auth | None = None
    is_control: bool = False
    listens_everywhere: bool = False


@dataclass(frozen=True)
class LdmsDaemon:
    """
    An ldmsd.

    Attributes:
        group: the `names` of its entry in `daemons`, as they were written.
        environment: its variables, in their order.
        options: what else its entry has: (key, value) for `option --key value`, or (key,
            attributes) for the statement `key a=b ...`; stream_enable and msg_enable are "true".
    """
    name: str
    host: str
    group: str
    endpoints: tuple[Endpoint, ...]
    environment: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Union[str, tuple[tuple[str, str], ...]]], ...] = ()

    @property
    def control(self) -> Endpoint | None:
        """Where it takes commands: its first endpoint marked so, else its first by sock."""
        by_sock = [endpoint for endpoint in self.endpoints if endpoint.transport == "sock"]
        return next((endpoint for endpoint in by_sock if endpoint.is_control),
                    by_sock[0] if by_sock else None)


@dataclass(frozen=True)
class SetMatch:
    """Which sets an updater updates; `field`: inst or schema."""
    regex: str
    field: str = "inst"


@dataclass(frozen=True)
class Updater:
    """
    Attributes:
        name: updtr_N, counted over the file.
        mode: pull, push, onchange or auto_interval (`auto` in today's schema).
        producers: regular expressions; () for all.
        sets: () for all.
    """
    name: str
    interval_us: int
    offset_us: int | None = None
    mode: str = "pull"
    perm: str = ""
    producers: tuple[str, ...] = ()
    sets: tuple[SetMatch, ...] = ()


@dataclass(frozen=True)
class Producer:
    """A daemon that an aggregator collects from; its name is that of the endpoint."""
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
        return self.endpoint.name


@dataclass(frozen=True)
class Listen:
    """A prdcr_listen of an aggregator: advertised producers that it takes."""
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
    """What a daemon makes itself known to: one entry for each host (advertiser_add)."""
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
    """`name`: of a stream, or of a message channel; `producers`: a regular expression."""
    name: str
    producers: str
    is_message: bool = False
    rx_rate: int | None = None


@dataclass(frozen=True)
class Plugin:
    """
    A plugin instance; `config`: one `config` statement for each line; `interval_us`: None for a
    plugin that is not started (a store's).
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
    """
    Daemons that share producers.

    Attributes:
        name: `daemons` as it was written: a group's `names`, or a subset's.
        level: 1 where all its producers are samplers, else one more than the highest of them.
        producers: of all its peers, in written order; each aggregator of the group is given all,
            and which it starts is for the balance.
        balance: "producers", or "sets" (of level 1 alone).
        capacity: what each can take, in parts; 1.0 where nothing is written.
    """
    name: str
    members: tuple[str, ...]
    level: int
    producers: tuple[Producer, ...] = ()
    updaters: tuple[Updater, ...] = ()
    listens: tuple[Listen, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    plugins: tuple[str, ...] = ()
    advertises: tuple[tuple[str, tuple[Advertise, ...]], ...] = ()      # (daemon, its own)
    balance: str = "producers"
    capacity: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class SamplerGroup:
    """Daemons that run the same sampler plugins."""
    name: str
    members: tuple[str, ...]
    plugins: tuple[str, ...]
    advertises: tuple[tuple[str, tuple[Advertise, ...]], ...] = ()      # (daemon, its own)


@dataclass(frozen=True)
class AgentGroup:
    """
    Our own agents on storage servers, an entry of `iostats`.

    Attributes:
        hosts: as the agents call themselves (without the domain).
        settings: (key of site.cfg such as "harvest.interval", its text), checked.
    """
    name: str
    hosts: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Description:
    """
    All of a file.

    Attributes:
        daemons, plugins: by name, in written order.
        ldms_release: the release of daemons that do not report one; "" if it is not given.
    """
    daemons: dict[str, LdmsDaemon] = field(default_factory=dict)
    aggregators: tuple[AggregatorGroup, ...] = ()
    samplers: tuple[SamplerGroup, ...] = ()
    plugins: dict[str, Plugin] = field(default_factory=dict)
    stores: tuple[StoragePolicy, ...] = ()
    agents: tuple[AgentGroup, ...] = ()
    ldms_release: str = ""
