"""
Which settings the agent of a storage server takes from etcd, and what keeps it from that, for the
doctor; changes nothing.
"""

from __future__ import annotations

import os

from iostats.base.errors import ConfigError, IostatsError, StateError
from iostats.doctor.check import NOTE, OK, PROBLEM, Check
from iostats.etcd.client import from_config
from iostats.storage import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.storage.settings import GroupSettings

_NAME = "settings"


def examine_settings(config: Config, node: str) -> tuple[list[Check], GroupSettings]:
    """([Check], the GroupSettings in force: those that are kept) of the storage server `node`."""
    if not config["etcd.endpoints"]:
        return [], settings.NOTHING
    place = f"/{config['etcd.prefix'].strip('/')}/"
    try:
        kept = settings.kept_at(os.path.join(config["harvest.spool_dir"], settings.NAME), place)
    except StateError as error:
        return [Check(NOTE, _NAME, str(error),
                      "sudo iostats_client.py doctor" if os.geteuid() else "")], settings.NOTHING
    stays = "; " + (f"what stays is that of description {kept.revision}" if kept.revision else
                    "what stays is site.cfg's")
    try:
        with from_config(config) as etcd:
            found = etcd.get(etcd.key("agents"))
            is_seen = etcd.get(etcd.key("agents_seen", node)) is not None
        now = settings.group_of(found and found.value, node)
    except ConfigError as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "iostats config --check")], kept
    except IostatsError as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "etcdctl endpoint health")], kept
    except settings.WrongSettings as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "iostats ldms rollback")], kept
    text = (f"description {now.revision}, group {now.group}: " + (", ".join(
        f"{name} = {text}" for name, text in now.settings.items()) or "site.cfg's") if now.group
        else "site.cfg's: there is no description" if now.revision is None else
        f"site.cfg's: description {now.revision} has no group with {node}")
    if is_seen and now != kept:
        return [Check(NOTE, _NAME, f"{text}; the agent has not taken it{stays}")], kept
    return [Check(OK, _NAME, text)], now
