"""
What a description asks for, and a release of ldmsd has no words for: it is left out, and told.
"""

from __future__ import annotations

from iostats.ldms.statements.dialect import NEWEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional, Union

    from iostats.ldms.description.normal import (
        Advertise,
        AggregatorGroup,
        Description,
        Listen,
        Producer,
        SamplerGroup,
    )
    from iostats.ldms.statements.dialect import Dialect

# What has no limit, or one connection, without being told so.
_DEFAULTS = {"rail": (None, 1), "quota": (None, -1), "rx_rate": (None, -1)}


def losses(description: Description, dialect: Dialect) -> list[str]:
    """One line for each thing that is left out, of a group at most one."""
    return list(dict.fromkeys(f"LDMS {dialect.release} has no {text}"
                              for text in _losses(description, dialect)))


def _losses(description: Description, dialect: Dialect) -> Iterator[str]:
    for daemon in description.daemons.values():
        for key, value in daemon.options:
            if isinstance(value, str):
                option = "--" + key.lstrip("-")
                if key == "msg_enable" and value == "true" and key not in dialect.verbs:
                    yield f"message channels: msg_enable is left out of {daemon.group}"
                elif option in NEWEST.options and option not in dialect.options:
                    yield f"option {option}: it is left out of {daemon.group}"
            elif key in NEWEST.verbs and key not in dialect.verbs:
                yield f"statement {key}: it is left out of {daemon.group}"
    for group in description.aggregators:
        yield from _limits("prdcr_add", group.producers, f"producers of {group.name}", dialect)
        yield from _limits("prdcr_listen_add", group.listens, f"prdcr_listen of {group.name}",
                           dialect)
        for listens in group.listens:
            if listens.kind == "active" and not dialect.has("prdcr_listen_add", "type"):
                yield (f"active prdcr_listen: {listens.name} of {group.name} waits for the "
                       "samplers' own connections")
        for subscription in group.subscriptions:
            if subscription.is_message and not dialect.has("prdcr_subscribe", "message_tag"):
                yield (f"message channels: {group.name} does not subscribe to "
                       f"{subscription.name}")
            elif (subscription.rx_rate not in _DEFAULTS["rx_rate"]
                  and not dialect.has("prdcr_subscribe", "rx_rate")):
                yield (f"rx_rate of a subscription: it is left out of {subscription.name} of "
                       f"{group.name}")
    groups: list[Union[SamplerGroup, AggregatorGroup]] = [*description.samplers,
                                                          *description.aggregators]
    for each in groups:
        advertises = [entry for _, entries in each.advertises for entry in entries]
        yield from _limits("advertiser_add", advertises, f"advertisers of {each.name}", dialect)


def _limits(verb: str, items: Sequence[Producer | Listen | Advertise], where: str,
            dialect: Dialect) -> Iterable[str]:
    """rail, quota, rx_rate that say anything, and that `verb` does not have."""
    for name, defaults in _DEFAULTS.items():
        if not dialect.has(verb, name):
            values: set[Optional[int]] = {getattr(item, name) for item in items}
            if values - set(defaults):
                yield f"{name} with {verb}: it is left out of the {where}"
