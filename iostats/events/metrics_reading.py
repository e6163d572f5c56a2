"""
One reading of the metrics of a storage server's targets and services, lustre/server_metrics.py, and
of its quota masters, lustre/quota.py.

No request is sent to another machine.
"""

from __future__ import annotations

import os

from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_text
from iostats.events.server_reading import parse_number, read_first_existing
from iostats.lustre import precreate
from iostats.lustre.capacity import OSD_KINDS
from iostats.lustre.paths import PLACES
from iostats.lustre.quota import FILES, PLACE, Quota, is_pool, parse_quotas
from iostats.lustre.server_metrics import (
    NUMBERS,
    SERVICES_OF,
    parse_brw_stats,
    parse_hsm_agents,
    parse_nrs_policies,
    parse_service_stats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iostats.lustre.precreate import Pool

_DEBUGFS, _PROC, _SYSFS = PLACES
_MOST_SERVICES = 100


class MetricsReading(NamedTuple):
    """The metrics of a storage server at one moment; unreadable and missing ones are omitted."""

    targets: dict[str, dict[str, int]]      # {target: {metric: number}}
    services: dict[str, dict[str, int]]     # {service: the same}
    policies: dict[str, str]                # {service: its policy of ordinary requests (NRS)}
    why: list[str]                          # what could not be understood


def read_metrics(root: str, targets: Iterable[str]) -> MetricsReading:
    """The MetricsReading of these targets."""
    why: list[str] = []
    osd_kinds = [kind for kind in OSD_KINDS
                 if any(os.path.isdir(f"{root}/{place}/{kind}") for place in PLACES)]
    policies: dict[str, str] = {}
    return MetricsReading({target: _read_metrics(root, target, osd_kinds, why) for target in targets
                           if "-" in target}, _read_services(root, policies, why), policies, why)


def _read_metrics(root: str, target: str, osd_kinds: list[str], why: list[str]) -> dict[str, int]:
    is_mdt = "-MDT" in target
    metrics: dict[str, int] = {}
    for file, (metric, *directories) in NUMBERS.items():
        directory = directories[is_mdt].format(target)
        if directory:
            paths = [f"{place}/{directory}/{file}" for place in (_SYSFS, _PROC)]
            value = parse_number(read_first_existing(root, paths, why), f"{target}: {file}", why)
            if value is not None:
                metrics[metric] = value
    _add(metrics, root, [f"{kind}/{target}/brw_stats" for kind in osd_kinds], parse_brw_stats, why)
    if is_mdt:
        _add(metrics, root, [f"mdt/{target}/hsm/agents"], parse_hsm_agents, why)
    return metrics


def _read_services(root: str, policies: dict[str, str],
                   why: list[str]) -> dict[str, dict[str, int]]:
    services: dict[str, dict[str, int]] = {}
    for directory in SERVICES_OF:
        for place in (_SYSFS, _PROC):
            try:
                names = os.listdir(f"{root}/{place}/{directory}")
            except OSError:
                continue
            for name in sorted(names)[:_MOST_SERVICES]:
                metrics = {}
                for file, metric in (("threads_started", "threads"),
                                     ("threads_max", "threads_max")):
                    value = parse_number(
                        read_first_existing(root, [f"{place}/{directory}/{name}/{file}"], why),
                        f"{name}: {file}", why)
                    if value is not None:
                        metrics[metric] = value
                if metrics:
                    _add(metrics, root, [f"{directory}/{name}/stats"], parse_service_stats, why)

                    def parse(text: str, name: str = name) -> dict[str, int]:
                        policies[name], queued = parse_nrs_policies(text)
                        return {"nrs_queued": queued}
                    _add(metrics, root, [f"{directory}/{name}/nrs_policies"], parse, why)
                    services[name] = metrics
    return services


def _add(metrics: dict[str, int], root: str, paths: Iterable[str],
         parse: Callable[[str], dict[str, int]], why: list[str]) -> None:
    """Add the metrics of the first file that can be read: debugfs may be closed to this user."""
    for path in paths:
        for place in (_DEBUGFS, _PROC):
            try:
                text = read_text(f"{root}/{place}/{path}")
            except OSError:
                continue
            try:
                metrics.update(parse(text))
            except ValueError as error:
                why.append(f"{path}: {error}")
            return


def read_pools(root: str, why: list[str]) -> dict[str, Pool | None]:
    """
    Return {"scratch-OST0003-osc-MDT0000": Pool} of the MDTs on this machine; None for one that
    cannot be read or understood.
    """
    pools: dict[str, Pool | None] = {}
    for place in (_SYSFS, _PROC):
        try:
            names = os.listdir(f"{root}/{place}/{precreate.DIRECTORY}")
        except OSError:
            continue
        for name in filter(precreate.split_name, sorted(names)):
            directory = f"{root}/{place}/{precreate.DIRECTORY}/{name}"
            try:
                pools[name] = precreate.parse_pool({
                    file: read_text(f"{directory}/{file}") for file in precreate.FILES})
            except OSError:
                pools.setdefault(name, None)
            except ValueError as error:
                pools.setdefault(name, None)
                why.append(f"{name}: {error}")
    return pools


def read_quotas(root: str, why: list[str]) -> dict[str, list[Quota] | None]:
    """
    Return {file system: [Quota]} of the quota masters on this machine; None, and the reason in
    `why`, for one that cannot be read or understood.
    """
    try:
        masters = os.listdir(f"{root}/{PLACE}")
    except OSError:
        return {}
    quotas: dict[str, list[Quota] | None] = {}
    for master in sorted(masters):
        file_system, dash, number = master.rpartition("-")
        if dash and number.startswith("QMT"):
            try:
                quotas[file_system] = [*_read_quotas(f"{root}/{PLACE}/{master}", file_system)]
            except (OSError, ValueError) as error:
                quotas[file_system] = None
                why.append(f"{PLACE}/{master}: {getattr(error, 'strerror', None) or error}")
    return quotas


def _read_quotas(master: str, file_system: str) -> Iterator[Quota]:
    for pool in filter(is_pool, sorted(os.listdir(master))):
        for file in FILES:
            try:
                yield from parse_quotas(read_text(f"{master}/{pool}/{file}"), file_system, pool,
                                        file)
            except FileNotFoundError:                   # glb-prj came with 2.10
                continue
            except ValueError as error:
                raise ValueError(f"{pool}/{file}: {error}") from None
