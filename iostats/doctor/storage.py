"""
What is in the way of the harvest on a storage server, for the doctor; changes nothing.

Who has no OST and no MDT gets no line.
"""

from __future__ import annotations

import errno
import os
import time

from iostats import schedulers
from iostats.base import disk_queue, private_files
from iostats.base.errors import StateError
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.doctor.free_space import LEAST_BYTES, existing_part, free_bytes
from iostats.doctor.storage_events import examine_events
from iostats.doctor.storage_settings import examine_settings
from iostats.lustre.job_tags import TagForm
from iostats.node import identity as this_node
from iostats.storage.delivery import HOW
from iostats.storage.exports_look import look_at_exports
from iostats.storage.schedule import pause_s
from iostats.storage.settings import values_of
from iostats.storage.targets import inspect, local_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.config import Config
    from iostats.storage.targets import Inspection, LocalTarget

_AS_ROOT = "sudo iostats_client.py doctor"
_ON_THE_HOST = "nsenter -t 1 -m iostats_client.py doctor"
_LIST = "iostats_client.py harvest --list"
_START = "systemctl enable --now iostats-harvest.service"
_CLEANUP_S = 600                       # the kernel's own
_LATE_S = 120                          # the site's server takes a sweep at once, when it is there


def examine(config: Config, root: str) -> list[Check]:
    """[Check] of this storage server; [] where it is none."""
    here = local_targets(root)
    if not here:
        return []
    of_settings, in_force = examine_settings(config, this_node.name())
    config.update(values_of(in_force.settings))
    wanted = config["harvest.file_systems"]
    found = [one for one in here if not wanted or one.file_system in wanted]
    checks = [*of_settings, _targets(here, wanted)]
    if found:
        try:
            job_of = TagForm(config["harvest.job_id"],
                          schedulers.job_id_form(config["batch.system"])).job_of
            looks = [inspect(one, job_of) for one in found]
            checks.append(_job_stats(looks, root))
            if checks[-1].state == OK:
                checks.append(_job_ids(looks, config))
        except ValueError as error:
            checks.append(Check(PROBLEM, "job ids", f"{config.origin['harvest.job_id']}: [harvest] "
                                f"job_id: {error}", "iostats config --check"))
        checks.append(_cleanup(found, config))
        checks += _exports(found, config, root)
    checks += examine_events(config, root)
    if not config["site.host"]:
        checks.append(Check(NOTE, "site", "no server named: give it to `harvest`, or set [site] "
                                          "host in site.cfg"))
    return [*checks, *_spool(config)]


def _targets(here: Sequence[LocalTarget], wanted: Sequence[str]) -> Check:
    names: dict[str, list[str]] = {}
    for one in here:
        names.setdefault(one.file_system, []).append(one.name)
    shown = "; ".join(f"{file_system}: {targets[0]}"
                      + (f" and {len(targets) - 1} more" if len(targets) > 1 else "")
                      for file_system, targets in names.items())
    for name in wanted:
        if name not in names:
            # Its targets may just be on the other server of a pair.
            return Check(NOTE, "targets", f"none of {name!r} ([harvest] file_systems) now; there "
                                          f"are: {shown}", _LIST)
    return Check(OK, "targets", shown)


def _job_stats(looks: Sequence[Inspection], root: str) -> Check:
    closed = [one for one in looks if one.entries is None]
    if closed:
        text = f"{len(closed)} of {len(looks)} not read: {closed[0].path}: {closed[0].why}"
        # A container has its /sys without its /proc; root may read all of them.
        fix = (_AS_ROOT if os.geteuid() else
                _LIST if os.path.exists(closed[0].path) else _ON_THE_HOST)
        return Check(PROBLEM, "job_stats", text, fix)
    entries, bad = (sum(getattr(one, name) for one in looks) for name in ("entries", "bad"))
    if bad:
        why = next(one.why for one in looks if one.bad)
        return Check(PROBLEM, "job_stats", f"{bad} of {entries} entries not understood, the first: "
                                           f"{why}; please send us what this prints", _LIST)
    places = sorted({f"/{os.path.relpath(os.path.join(one.path, '../..'), root)}" for one in looks})
    return Check(OK, "job_stats", f"{len(looks)} in {', '.join(places)}; {entries} entries")


def _job_ids(looks: Sequence[Inspection], config: Config) -> Check:
    """
    Whether the current entries of job_stats belong to jobs.

    Each client's jobid_var decides how its requests are tagged; this server's jobid_var, which is
    not read, affects only the I/O of its own processes.  Entries expire, so having none proves
    nothing.
    """
    entries, jobs = (sum(getattr(one, name) for one in looks) for name in ("entries", "jobs"))
    form = config["harvest.job_id"]
    if jobs:
        return Check(OK, "job ids", f"{jobs} of {entries} entries are of jobs ({form})")
    variable = (config["node.job_id_variables"] or ["SLURM_JOB_ID"])[0]
    return Check(NOTE, "job ids", (
        f"none of {entries} entries is of a job now ({form})" if entries else "no entries now")
        + f"; compute nodes decide which job id their I/O carries (jobid_var; to set it on all, on "
          f"the MGS: lctl set_param -P jobid_var={variable}); on a compute node",
        "lctl get_param jobid_var")


def _cleanup(found: Sequence[LocalTarget], config: Config) -> Check:
    """job_cleanup_interval against the pause between two sweeps."""
    said: list[str] = []
    pause = pause_s(config["harvest.interval"], found, said.append)
    hidden = [one for one in found if one.cleanup_s is None]
    if hidden:
        return Check(NOTE, "cleanup", f"{hidden[0].file_system}-{hidden[0].name}: "
                     f"job_cleanup_interval not shown; totals will be marked; a sweep every "
                     f"{pause} s", _AS_ROOT if os.geteuid() else "")
    known = sorted({one.cleanup_s for one in found})
    told = f"job_cleanup_interval {', '.join(map(str, known))} s, a sweep every {pause} s"
    command = "lctl set_param *.*.job_cleanup_interval="
    if said:
        return Check(NOTE, "cleanup", f"{told}: {said[0].partition('; ')[0]}",
                     f"{command}{3 * config['harvest.interval']}")
    if 0 in known:
        return Check(NOTE, "cleanup", f"{told}: with 0 no entry expires, and job_stats only grow",
                     f"{command}{_CLEANUP_S}")
    return Check(OK, "cleanup", told)


def _exports(found: Sequence[LocalTarget], config: Config, root: str) -> list[Check]:
    """[Check] of what clients do: whether that can be read, and what it costs."""
    choice = config["harvest.exports"]
    if choice == "no":
        return []
    looks = [look_at_exports(one) for one in found]
    closed = [one for one in looks if one.clients is None]
    if closed:
        # What is optional is no problem: job_stats are harvested all the same.
        state, first = PROBLEM if choice == "yes" else NOTE, closed[0]
        debugfs = os.path.join(root, "sys/kernel/debug")
        fix = (_AS_ROOT if os.geteuid() and first.errno in (errno.EACCES, errno.EPERM) else
               "cat /sys/kernel/security/lockdown" if first.errno == errno.EPERM else
               "mount -t debugfs none /sys/kernel/debug"
               if os.access(debugfs, os.R_OK) and not os.listdir(debugfs) else _LIST)
        return [Check(state, "exports", f"{len(closed)} of {len(looks)} not read: {first.why}; "
                                        f"nothing is known of their clients", fix)]
    bad = next((one for one in looks if one.bad), None)
    if bad is not None:
        return [Check(PROBLEM, "exports", f"not understood: {bad.why}; please send us what this "
                                          f"prints", _LIST)]
    cpu_s = sum(one.cpu_s for one in looks)
    most_s = pause_s(config["harvest.interval"], found) * config["harvest.cpu_percent"] / 100
    clients, files = max(one.clients for one in looks), sum(one.clients for one in looks)
    text = (f"{clients} client{'s' * (clients != 1)}, in {files} file{'s' * (files != 1)}; a sweep "
            f"over them takes {cpu_s:.1f} of {most_s:.1f} s of CPU ([harvest] cpu_percent)")
    if cpu_s > most_s:
        return [Check(NOTE, "exports", text if choice == "yes" else f"{text}: they are left out",
                      "iostats config")]
    return [Check(OK, "exports", text)]


def _spool(config: Config) -> list[Check]:
    """[Check] of the directory where sweeps wait, and of the agent that uses it."""
    directory = config["harvest.spool_dir"]
    there = existing_part(directory)
    if os.geteuid() and not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return [Check(NOTE, "spool", f"{directory}: of the user who harvests", _AS_ROOT)]
    try:
        private_files.check_private(directory, HOW)
        waits = disk_queue.backlog(directory)
    except FileNotFoundError:
        if not os.access(there, os.W_OK | os.X_OK):
            return [Check(PROBLEM, "spool", f"{directory}: {there} cannot be written to",
                          f"mount -o remount,rw {quoted(there)}")]
        waits = disk_queue.Backlog(0, 0, 0.0, 0, 0)
    except StateError as error:
        is_ours = not os.path.islink(directory) and os.stat(directory).st_uid == os.geteuid()
        return [Check(PROBLEM, "spool", str(error), f"chmod 700 {quoted(directory)}" if is_ours else
                      f"mv {quoted(directory)} {quoted(directory + '.old')}")]
    agent = (Check(OK, "agent", f"process {waits.process} harvests") if waits.process else
             Check(NOTE, "agent", f"none harvests by way of {directory}", _START))
    return [agent, _backlog(waits, directory, there, config["harvest.spool_bytes"], agent.fix)]


def _backlog(waits: disk_queue.Backlog, directory: str, there: str, most: int, fix: str) -> Check:
    free = free_bytes(there)
    if free < LEAST_BYTES:
        return Check(PROBLEM, "spool", f"{directory}: {free >> 20} MiB free: without the site's "
                                       f"server sweeps are left out", f"du -xd1 {quoted(there)}")
    if not waits.messages:
        return Check(OK, "spool", f"{directory}: nothing waits")
    age_s = max(0.0, time.time() - waits.oldest)
    text = (f"{directory}: {waits.messages} messages wait, {waits.bytes} of at most {most} bytes, "
            f"the oldest for {age_s:.0f} s")
    if waits.bytes > most // 2:
        return Check(PROBLEM, "spool", f"{text}; then the oldest are dropped",
                     fix or "systemctl restart iostats-site.service")
    return Check(NOTE if age_s > _LATE_S or fix else OK, "spool", text, fix)
