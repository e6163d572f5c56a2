"""
Check a storage server for the doctor: job_stats, events, and the settings that its agent takes from
etcd.  Changes nothing.

A host without OSTs and MDTs gets no line.
"""

from __future__ import annotations

import errno
import os
import time

from iostats import schedulers
from iostats.base import disk_queue, private_files
from iostats.base.errors import ConfigError, IostatsError, StateError
from iostats.base.free_space import explain_full, find_existing_part
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quote_path
from iostats.etcd.client import from_config
from iostats.events.lnet_changes import Share, describe_resends, read_health, routes_messages
from iostats.events.metrics_reading import read_metrics, read_pools, read_quotas
from iostats.events.server_reading import read_server
from iostats.lustre.capacity import BYTES, RESOURCES, compute_used_percent, is_full
from iostats.lustre.job_tags import TagForm
from iostats.lustre.lnetctl import HEALTHY
from iostats.lustre.precreate import explain_lack
from iostats.lustre.quota import is_exhausted
from iostats.node import identity as this_node
from iostats.storage import settings
from iostats.storage.delivery import HOW
from iostats.storage.inspection import (
    describe_events,
    explain_unread_log,
    scan_events,
    scan_exports,
)
from iostats.storage.schedule import find_pause_s
from iostats.storage.settings import check_values
from iostats.storage.targets import find_local_targets, inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iostats.base.config import Config
    from iostats.lustre.precreate import Pool
    from iostats.storage.settings import GroupSettings
    from iostats.storage.targets import Inspection, LocalTarget

_NAME = "settings"


def examine_settings(config: Config, node: str) -> tuple[list[Check], GroupSettings]:
    """([Check], the GroupSettings in force) of the storage server `node`, from the agent's file."""
    if not config.etcd.endpoints:
        return [], settings.NOTHING
    place = f"/{config.etcd.prefix.strip('/')}/"
    try:
        stored = settings.load_settings(os.path.join(config.harvest.spool_dir, settings.NAME),
                                        place)
    except StateError as error:
        return [Check(NOTE, _NAME, str(error),
                      "sudo iostats_client.py doctor" if os.geteuid() else "")], settings.NOTHING
    stays = "; " + (f"what stays is that of description {stored.revision}" if stored.revision else
                    "what stays is site.cfg's")
    try:
        with from_config(config) as etcd:
            answer = etcd.get(etcd.key("agents"))
            is_seen = etcd.get(etcd.key("agents_seen", node)) is not None
        now = settings.find_group(answer and answer.value, node)
    except ConfigError as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "iostats config --check")], stored
    except IostatsError as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "etcdctl endpoint health")], stored
    except settings.WrongSettings as error:
        return [Check(PROBLEM, _NAME, f"{error}{stays}", "iostats ldms rollback")], stored
    text = (f"description {now.revision}, group {now.group}: " + (", ".join(
        f"{name} = {text}" for name, text in now.settings.items()) or "site.cfg's") if now.group
        else "site.cfg's: there is no description" if now.revision is None else
        f"site.cfg's: description {now.revision} has no group with {node}")
    if is_seen and now != stored:
        return [Check(NOTE, _NAME, f"{text}; the agent has not taken it{stays}")], stored
    return [Check(OK, _NAME, text)], now


_UNIT = "make install-harvest"


def examine_events(config: Config, root: str) -> list[Check]:
    """Return [Check] of the sources of events, for this process and for the running agent."""
    reading = scan_events(root, config)
    text, is_chosen = describe_events(reading), config.events.kernel_log == "no"
    if reading.health not in ("", "healthy"):
        return [Check(PROBLEM, "health",
                      f"health_check: {reading.health}; which target: the kernel's "
                                         f"log", "lctl get_param health_check")]
    if reading.targets is None or reading.unread or (reading.source == "none" and not is_chosen):
        return [Check(NOTE, "events", text, _AS_ROOT if os.geteuid() else
                      _ON_THE_HOST if reading.source == "none" else _LIST)]
    if os.geteuid() == 0 and not is_chosen and root == "/":
        try:
            process = disk_queue.read_backlog(config.harvest.spool_dir).process
        except OSError:
            process = 0
        why = explain_unread_log(process) if process else ""
        if why:
            return [Check(PROBLEM, "events", f"the agent (process {process}) cannot read the "
                                             f"kernel's log: {why}", _UNIT)]
    return [Check(OK, "events", text)]


def examine_capacity(config: Config, root: str) -> list[Check]:
    """Return [Check] of full, and nearly full, targets."""
    capacities = {name: target.capacity for name,
                  target in (read_server(root).targets or {}).items()
                  if "-" in name and target.capacity is not None}
    if not capacities:
        return [Check(NOTE, "capacity", "unknown: no osd-*/*/kbytesfree here", _LIST)]
    limit = config.events.full_percent
    full, nearly = ([f"{name}: {compute_used_percent(capacity, resource):.0f} % of its {resource}"
                     for name, capacity in sorted(capacities.items()) for resource in RESOURCES
                     if is_one(capacity, resource)] for is_one in (
        is_full, lambda capacity, resource: 0 < limit <= compute_used_percent(capacity, resource)))
    if full:
        return [Check(PROBLEM, "capacity", f"full: {full[0]}"
                      + (f", and {len(full) - 1} more" if len(full) > 1 else ""),
                      "iostats capacity --sort -UsePct")]
    if nearly:
        return [Check(NOTE, "capacity", f"nearly full: {nearly[0]}"
                      + (f", and {len(nearly) - 1} more" if len(nearly) > 1 else ""),
                      "iostats capacity --sort -UsePct")]
    fullest = max(compute_used_percent(capacity, BYTES) for capacity in capacities.values())
    return [Check(OK, "capacity",
                  f"of {len(capacities)} targets; at most {fullest:.0f} % of the space of "
                                  f"one is used")]


def examine_lnet_health(root: str, now: float) -> list[Check]:
    """
    Return [Check] of the health of LNet's interfaces; [] without LNet, and on a compute node where
    it is not known.
    """
    health, why = read_health(root, now)
    if health is None:
        if not os.path.isdir(os.path.join(root, "sys/module/lnet")) or not (
                find_local_targets(root) or routes_messages(root)):
            return []
        return [Check(NOTE, "lnet health", f"not known: {why}", _LNETCTL)]
    ill = [f"{nid}: {value}" for nid, value in health.values.items() if value < HEALTHY]
    if ill:
        return [Check(NOTE, "lnet health", f"{len(ill)} of {len(health.values)} interfaces are "
                                           f"below {HEALTHY}: {', '.join(ill[:5])}",
                      "lnetctl net show -v 3")]
    return [Check(OK, "lnet health", f"of {len(health.values)} interfaces; "
                                     f"{describe_resends(Share(health.resent, health.sent))} since "
                                     f"it was started")]


def examine_metrics(root: str, now: float) -> list[Check]:
    """Return [Check] of the metrics of targets and services, and of quotas that are used up."""
    targets = read_server(root).targets or {}
    seen = read_metrics(root, targets)
    why = seen.why
    quotas, pools = read_quotas(root, why), read_pools(root, why)
    if why:
        return [Check(NOTE, "metrics", f"not understood: {why[0]}; please send us what this prints",
                      _LIST)]
    text = f"of {sum(map(bool, seen.targets.values()))} targets and {len(seen.services)} services"
    checks = _examine_pools(pools)
    if not quotas:
        return [Check(OK, "metrics", text), *checks]
    quotas_here = [quota for of_file_system in quotas.values() for quota in of_file_system or ()]
    exhausted = sum(is_exhausted(quota, now) for quota in quotas_here)
    return [Check(OK, "metrics", f"{text}; {len(quotas_here)} quotas, {exhausted} of them used up"),
            *checks]


def _examine_pools(read: Mapping[str, Pool | None]) -> list[Check]:
    """Return [Check] of the objects that OSTs make in advance; [] where no MDT is."""
    pools = {name: pool for name, pool in read.items() if pool is not None}
    lacking = [f"{name}: {why}" for name, pool in pools.items() for why in [explain_lack(pool)]
               if why]
    if lacking:
        return [Check(NOTE, "objects", f"{len(lacking)} of {len(pools)} OSTs give none to an MDT: "
                                       f"{lacking[0]}", "lctl get_param osp.*.prealloc_*")]
    fewest = min(((pool.objects, name) for name, pool in pools.items()
                  if pool.objects is not None and pool.is_wanted), default=None)
    return [] if fewest is None else [Check(
        OK, "objects", f"made in advance by {len(pools)} OSTs; the fewest: {fewest[0]:,} "
                       f"({fewest[1]})")]


_AS_ROOT = "sudo iostats_client.py doctor"
_ON_THE_HOST = "nsenter -t 1 -m iostats_client.py doctor"
_LIST = "iostats_client.py harvest --list"
_START = "systemctl enable --now iostats-harvest.service"
_LNETCTL = "systemctl enable --now iostats-lnetctl.timer"
_CLEANUP_S = 600                       # the kernel's own
_LATE_S = 120                          # the site's server takes a sweep at once, when it is there


def examine(config: Config, root: str) -> list[Check]:
    """Return [Check] of this storage server; [] where it is none."""
    here = find_local_targets(root)
    if not here:
        return []
    of_settings, in_force = examine_settings(config, this_node.find_node_name())
    config.replace_values(check_values(in_force.settings))
    listed = config.harvest.file_systems
    chosen = [target for target in here if not listed or target.file_system in listed]
    checks = [*of_settings, _check_targets(here, listed)]
    if chosen:
        try:
            find_job = TagForm(config.harvest.job_id,
                               schedulers.describe_job_id_form(config.batch.system)).find_job
            inspections = [inspect(target, find_job) for target in chosen]
            checks.append(_check_job_stats(inspections, root))
            if checks[-1].state == OK:
                checks.append(_check_job_ids(inspections, config))
        except ValueError as error:
            checks.append(Check(PROBLEM, "job ids", f"{config.origin['harvest.job_id']}: [harvest] "
                                f"job_id: {error}", "iostats config --check"))
        checks.append(_check_cleanup_interval(chosen, config))
        checks += _check_exports(chosen, config, root)
    checks += examine_events(config, root) + examine_capacity(config, root)
    checks += examine_metrics(root, time.time())
    if not config.site.host:
        checks.append(Check(NOTE, "site", "no server named: give it to `harvest`, or set [site] "
                                          "host in site.cfg"))
    return [*checks, *_check_spool(config)]


def _check_targets(here: Sequence[LocalTarget], listed: Sequence[str]) -> Check:
    names: dict[str, list[str]] = {}
    for target in here:
        names.setdefault(target.file_system, []).append(target.name)
    shown = "; ".join(f"{file_system}: {targets[0]}"
                      + (f" and {len(targets) - 1} more" if len(targets) > 1 else "")
                      for file_system, targets in names.items())
    for name in listed:
        if name not in names:
            # Its targets may just be on the other server of a pair.
            return Check(NOTE, "targets", f"none of {name!r} ([harvest] file_systems) now; there "
                                          f"are: {shown}", _LIST)
    return Check(OK, "targets", shown)


def _check_job_stats(inspections: Sequence[Inspection], root: str) -> Check:
    closed = [inspection for inspection in inspections if inspection.entries is None]
    if closed:
        text = f"{len(closed)} of {len(inspections)} not read: {closed[0].path}: {closed[0].why}"
        # A container has its /sys without its /proc; root may read all of them.
        fix = (_AS_ROOT if os.geteuid() else
               _LIST if os.path.exists(closed[0].path) else _ON_THE_HOST)
        return Check(PROBLEM, "job_stats", text, fix)
    entries, bad = (sum(getattr(inspection, name) for inspection in inspections)
                    for name in ("entries", "bad"))
    if bad:
        why = next(inspection.why for inspection in inspections if inspection.bad)
        return Check(PROBLEM, "job_stats", f"{bad} of {entries} entries not understood, the first: "
                                           f"{why}; please send us what this prints", _LIST)
    places = sorted({f"/{os.path.relpath(os.path.join(inspection.path, '../..'), root)}"
                     for inspection in inspections})
    return Check(OK, "job_stats", f"{len(inspections)} in {', '.join(places)}; {entries} entries")


def _check_job_ids(inspections: Sequence[Inspection], config: Config) -> Check:
    """
    Whether the current entries of job_stats belong to jobs.

    Each client's jobid_var decides how its requests are tagged; this server's jobid_var, which is
    not read, affects only the I/O of its own processes.  Entries expire, so having none proves
    nothing.
    """
    entries, jobs = (sum(getattr(inspection, name) for inspection in inspections)
                     for name in ("entries", "jobs"))
    form = config.harvest.job_id
    if jobs:
        return Check(OK, "job ids", f"{jobs} of {entries} entries are of jobs ({form})")
    variable = (config.node.job_id_variables or ["SLURM_JOB_ID"])[0]
    return Check(NOTE, "job ids", (
        f"none of {entries} entries is of a job now ({form})" if entries else "no entries now")
        + f"; compute nodes decide which job id their I/O carries (jobid_var; to set it on all, on "
          f"the MGS: lctl set_param -P jobid_var={variable}); on a compute node",
        "lctl get_param jobid_var")


def _check_cleanup_interval(targets: Sequence[LocalTarget], config: Config) -> Check:
    """Compare job_cleanup_interval with the time between two sweeps."""
    warnings: list[str] = []
    pause_s = find_pause_s(config.harvest.interval, targets, warnings.append)
    hidden = [target for target in targets if target.cleanup_s is None]
    if hidden:
        return Check(NOTE, "cleanup", f"{hidden[0].file_system}-{hidden[0].name}: "
                     f"job_cleanup_interval not shown; totals will be marked; a sweep every "
                     f"{pause_s} s", _AS_ROOT if os.geteuid() else "")
    intervals = sorted({target.cleanup_s for target in targets if target.cleanup_s is not None})
    summary = f"job_cleanup_interval {', '.join(map(str, intervals))} s, a sweep every {pause_s} s"
    command = "lctl set_param *.*.job_cleanup_interval="
    if warnings:
        return Check(NOTE, "cleanup", f"{summary}: {warnings[0].partition('; ')[0]}",
                     f"{command}{3 * config.harvest.interval}")
    if 0 in intervals:
        return Check(NOTE, "cleanup",
                     f"{summary}: with 0 no entry expires, and job_stats only grow",
                     f"{command}{_CLEANUP_S}")
    return Check(OK, "cleanup", summary)


def _check_exports(targets: Sequence[LocalTarget], config: Config, root: str) -> list[Check]:
    """[Check] of the clients' exports: whether they are readable, and the cost of reading them."""
    choice = config.harvest.exports
    if choice == "no":
        return []
    inspections = [scan_exports(target) for target in targets]
    closed = [inspection for inspection in inspections if inspection.clients is None]
    if closed:
        # What is optional is no problem: job_stats are harvested all the same.
        state, first = PROBLEM if choice == "yes" else NOTE, closed[0]
        debugfs = os.path.join(root, "sys/kernel/debug")
        fix = (_AS_ROOT if os.geteuid() and first.errno in (errno.EACCES, errno.EPERM) else
               "cat /sys/kernel/security/lockdown" if first.errno == errno.EPERM else
               "mount -t debugfs none /sys/kernel/debug"
               if os.access(debugfs, os.R_OK) and not os.listdir(debugfs) else _LIST)
        return [Check(state, "exports",
                      f"{len(closed)} of {len(inspections)} not read: {first.why}; "
                                        f"there is no data for their clients", fix)]
    bad = next((inspection for inspection in inspections if inspection.bad), None)
    if bad is not None:
        return [Check(PROBLEM, "exports", f"not understood: {bad.why}; please send us what this "
                                          f"prints", _LIST)]
    cpu_s = sum(inspection.cpu_s for inspection in inspections)
    most_s = find_pause_s(config.harvest.interval, targets) * config.harvest.cpu_percent / 100
    counts = [inspection.clients or 0 for inspection in inspections]
    clients, files = max(counts), sum(counts)
    text = (f"{clients} client{'s' * (clients != 1)}, in {files} file{'s' * (files != 1)}; a sweep "
            f"over them takes {cpu_s:.1f} of {most_s:.1f} s of CPU ([harvest] cpu_percent)")
    if cpu_s > most_s:
        return [Check(NOTE, "exports", text if choice == "yes" else f"{text}: they are left out",
                      "iostats config")]
    return [Check(OK, "exports", text)]


def _check_spool(config: Config) -> list[Check]:
    """Return [Check] of the directory where sweeps wait, and of the agent that uses it."""
    directory = config.harvest.spool_dir
    there = find_existing_part(directory)
    if os.geteuid() and not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return [Check(NOTE, "spool", f"{directory}: of the user who harvests", _AS_ROOT)]
    try:
        private_files.check_private_directory(directory, HOW)
        waits = disk_queue.read_backlog(directory)
    except FileNotFoundError:
        if not os.access(there, os.W_OK | os.X_OK):
            return [Check(PROBLEM, "spool", f"{directory}: {there} cannot be written to",
                          f"mount -o remount,rw {quote_path(there)}")]
        waits = disk_queue.Backlog(0, 0, 0.0, 0, 0)
    except StateError as error:
        is_ours = not os.path.islink(directory) and os.stat(directory).st_uid == os.geteuid()
        return [Check(PROBLEM, "spool", str(error), f"chmod 700 {quote_path(directory)}"
                      if is_ours else
                      f"mv {quote_path(directory)} {quote_path(directory + '.old')}")]
    agent = (Check(OK, "agent", f"process {waits.process} harvests") if waits.process else
             Check(NOTE, "agent", f"none harvests by way of {directory}", _START))
    if explain_full(there):
        return [agent]                                  # disks.py says so
    return [agent, _check_backlog(waits, directory, config.harvest.spool_bytes, agent.fix)]


def _check_backlog(waits: disk_queue.Backlog, directory: str, max_bytes: int, fix: str) -> Check:
    if not waits.messages:
        return Check(OK, "spool", f"{directory}: nothing waits")
    age_s = max(0.0, time.time() - waits.oldest)
    text = (
        f"{directory}: {waits.messages} messages wait, {waits.bytes} of at most {max_bytes} bytes, "
        f"the oldest for {age_s:.0f} s")
    if waits.bytes > max_bytes // 2:
        return Check(PROBLEM, "spool", f"{text}; then the oldest are dropped",
                     fix or "systemctl restart iostats-site.service")
    return Check(NOTE if age_s > _LATE_S or fix else OK, "spool", text, fix)
