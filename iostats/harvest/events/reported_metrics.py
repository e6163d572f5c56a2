"""
The answers to `metrics` and `quotas`, from the last statuses of the storage servers.
"""

from __future__ import annotations

import grp
import os
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import msgspec

from iostats.base.users import find_user
from iostats.lustre.quota import GROUP, USER
from iostats.lustre.stats import parse_file_system

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypedDict

    from iostats.events.status import QuotasStatus, QuotaStatus
    from iostats.harvest.events.reporting_servers import ReportingServer, ReportingServers
    from iostats.report.server_tables import ListedQuotas

    class QuotasAnswer(TypedDict):
        """The answer to `quotas`; each quota with the time of its reading."""

        file_systems: list[ListedQuotas]
        quotas: list[dict[str, object]]

_Name = Annotated[str, msgspec.Meta(max_length=256)]


class QuotasParams(msgspec.Struct):
    """The params of `quotas`; `file_systems`: names of these, [] for all."""

    file_systems: Annotated[list[_Name], msgspec.Meta(max_length=1_000)] = []


def build_metrics_rows(servers: ReportingServers, file_systems: Collection[str],
                       targets: Collection[str]) -> dict[str, list[dict[str, object]]]:
    """
    Return {"targets": rows by name, "services": rows by storage server and name}, of these file
    systems and targets, [] for all; a target that has moved is with the server that reported it
    last.
    """
    rows: dict[str, dict[str, object]] = {}
    services: dict[tuple[str, str], dict[str, object]] = {}
    for node, server in _sort_newest_first(servers):
        status = server.status.get("metrics")
        if status is None:
            continue
        about: dict[str, object] = {"node": node, "time": server.made, "seconds": status["seconds"]}
        for name, metrics in status["targets"].items():
            file_system = parse_file_system(name)
            if (not file_systems or file_system in file_systems) and (
                    not targets or name in targets):
                rows.setdefault(name, {"target": name, "file_system": file_system, **about,
                                       **metrics})
        if not targets and (not file_systems or not set(file_systems).isdisjoint(
                servers.served(node) or ())):
            services.update({(node, name): {"service": name, **about, **metrics}
                             for name, metrics in status["services"].items()})
    return {"targets": [rows[name] for name in sorted(rows)],
            "services": [services[key] for key in sorted(services)]}


def build_quota_rows(servers: ReportingServers, file_systems: Collection[str],
                     may_see: Callable[[str, int], bool]) -> QuotasAnswer:
    """
    The quotas, those nearest to their limits first.

    `may_see(kind, id)`: whether the asking user may see a quota.
    """
    file_system_rows: dict[str, ListedQuotas] = {}
    rows: list[tuple[float, QuotaStatus, float]] = []
    for node, server in _sort_newest_first(servers):
        for name, quotas in server.status.get("quotas", {}).items():
            if name in file_system_rows or (file_systems and name not in file_systems):
                continue
            read_at = quotas["read_at"]
            file_system_rows[name] = {"file_system": name, "node": node, "time": read_at,
                                      "count": quotas["count"], "listed": len(quotas["nearest"])}
            rows += [(-quota["granted"] / (quota["hard"] or quota["soft"] or 1), quota, read_at)
                     for quota in quotas["nearest"] if may_see(quota["kind"], quota["id"])]
    rows.sort(key=itemgetter(0))
    return {"file_systems": [file_system_rows[name] for name in sorted(file_system_rows)],
            "quotas": [{**quota, "time": made} for _, quota, made in rows]}


def find_newest_quotas(servers: ReportingServers, file_system: str) -> QuotasStatus | None:
    """The quotas of a file system in the newest status with them; None where none has any."""
    return next((quotas for _, server in _sort_newest_first(servers)
                 for quotas in [server.status.get("quotas", {}).get(file_system)]
                 if quotas is not None), None)


def list_quota_ids(user: str) -> dict[tuple[str, int], str]:
    """Return {(kind, id): name} of the quotas that a user may see: of the user, and of groups."""
    account = find_user(user)
    if account is None:
        return {}
    groups = os.getgrouplist(user, account.pw_gid)
    return {(USER, account.pw_uid): user,
            **{(GROUP, number): _find_group_name(number) for number in groups}}


def _find_group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _sort_newest_first(servers: ReportingServers) -> list[tuple[str, ReportingServer]]:
    """Return [(storage server, ReportingServer)], those with the newest status first."""
    by_time = [(-server.made, node) for node, server in servers.of.items()]
    return [(node, servers.of[node]) for _, node in sorted(by_time)]
