"""
Metrics of targets, and of the services of a storage server, beside capacity and job_stats.

    obdfilter/TARGET/tot_granted, tot_dirty             space that clients may write without asking;
                                                        and the part not yet sent
    osd-*/TARGET/brw_stats                              RPCs by size, and by their disk I/Os
    ldlm/namespaces/filter-TARGET_UUID/lock_count ...   locks of clients (mdt-...: of an MDT)
    mdt/TARGET/hsm/archive_count, agents ...            requests of the HSM coordinator
    ost/OSS/ost_io/threads_started, stats ...           a service: its threads, and its requests
    ost/OSS/ost_io/nrs_policies                         its request scheduler, of all CPU partitions

Of brw_stats a row of a histogram has its upper bound, and then counts of reads and of writes:

    pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
    16:                      8  72  72   |    8  80  80          RPCs of 9 to 16 pages
    1K:                      1   9 100   |    1  10 100

Of a read, ldiskfs counts the pages that were not in the server's memory, and nothing if there were
none; ZFS counts each range of a request as one.
"disk fragmented I/Os" are counted by ldiskfs alone: a request is in row N if the disk got it as N
I/Os.  The discontiguous blocks beside it are not used: the row of a contiguous request is 0 up to
2.15, and 1 from 2.16 on (1d8d894d04).

A lock timeout is a client that was evicted as it did not give a lock back.  How often locks were
contended is in no file: contended_locks is a setting.  grant_rate and cancel_rate of a pool are
counts of a period that is not shown, and are not read either.  hsm/actions is not read: it reads
the whole log of requests from the disk.

Where: the numbers are in sysfs, `stats` and nrs_policies of services, `agents` and brw_stats in
debugfs, which root alone may read; up to 2.12 (brw_stats: 2.14) in /proc, and of services and
namespaces up to 2.10.
An MDT has tot_granted from 2.12 on, and archive_count, too.

Source: brw_stats_seq_show(), lprocfs_oh_tally_log2(), lustre/obdclass; osd_brw_stats_update(),
osd_read_prep() and dio_complete_routine(), osd-ldiskfs; record_end_io(), osd-zfs;
ptlrpc_lprocfs_nrs_policies_seq_show(), ptlrpc/lproc_ptlrpc.c;
ptlrpc_server_handle_request() and ptlrpc_server_handle_req_in(), ptlrpc/service.c;
threads_started_show(), ptlrpc/lproc_ptlrpc.c; expired_lock_main(), ldlm/ldlm_lockd.c;
mdt_hsm_agent_debugfs_show(), mdt/mdt_hsm_cdt_agent.c; mdt_cdt_add_request(); tgt_grant_alloc(),
target/tgt_grant.c; 2.10.8, 2.12.9, 2.15.8, 2.16.1 and 2.17.0.
"""

from __future__ import annotations

import re

from iostats.base.named_tuple import NamedTuple

GAUGE, COUNTER = "gauge", "counter"
SMALL_PAGES = 16


class ServerMetric(NamedTuple):
    """A metric of a storage server: its name, whether it is a gauge or a counter, its meaning."""

    name: str
    kind: str   # GAUGE, or COUNTER of what was counted since the target or the service was started
    help: str


TARGET_METRICS = (
    ServerMetric("granted_bytes", GAUGE,
                 "Space that the target has granted to clients, for data that they have not sent "
                 "yet."),
    ServerMetric("dirty_bytes", GAUGE,
                 "Data that clients have not sent yet, by their last requests."),
    ServerMetric("read_rpcs", COUNTER,
                 "Bulk read requests.  Of ldiskfs those that needed the disk: a page that was in "
                 "the server's memory is not counted; of ZFS one for each range of a request."),
    ServerMetric("write_rpcs", COUNTER, "Bulk write requests."),
    ServerMetric("small_read_rpcs", COUNTER,
                 f"Those of up to {SMALL_PAGES} such pages (64 KiB, with pages of 4 KiB)."),
    ServerMetric("small_write_rpcs", COUNTER, f"Bulk write requests of up to {SMALL_PAGES} pages."),
    ServerMetric("disk_reads", COUNTER, "Reads from the target's disk; ldiskfs alone."),
    ServerMetric("disk_writes", COUNTER, "Writes to the target's disk; ldiskfs alone."),
    ServerMetric("fragmented_disk_reads", COUNTER, "Reads that the disk got in several pieces."),
    ServerMetric("fragmented_disk_writes", COUNTER, "Writes that the disk got in several pieces."),
    ServerMetric("locks", GAUGE, "Locks of the target's objects that clients have or wait for."),
    ServerMetric("lock_timeouts", COUNTER,
                 "Clients that were evicted as they did not give a lock back."),
    ServerMetric("hsm_agents", GAUGE, "Copytools that are registered with the HSM coordinator."),
    ServerMetric("hsm_archives", GAUGE, "Files that copytools archive now."),
    ServerMetric("hsm_restores", GAUGE, "Files that copytools restore now."),
    ServerMetric("hsm_removes", GAUGE, "Copies of files that copytools remove now."),
    ServerMetric("hsm_done", COUNTER, "Requests that these copytools have completed."),
    ServerMetric("hsm_failed", COUNTER, "Requests at which these copytools have failed."),
)
SERVICE_METRICS = (
    ServerMetric("threads", GAUGE, "Threads of the service that are started."),
    ServerMetric("threads_max", GAUGE, "Threads that it may start."),
    ServerMetric("requests", COUNTER, "Requests that a thread began to handle."),
    ServerMetric("wait_us", COUNTER, "Time that these had waited for a thread, in microseconds."),
    ServerMetric("queued", COUNTER,
                 "Requests that had arrived and were not yet in the service's queue (req_qdepth), "
                 "added up over the requests handled."),
    ServerMetric("nrs_queued", GAUGE,
                 "Requests that the policies of the service's request scheduler (NRS) hold now."),
    ServerMetric("lock_requests", COUNTER, "Requests for a lock (enqueues)."),
)
COUNTERS = frozenset(metric.name for metric in TARGET_METRICS + SERVICE_METRICS
                     if metric.kind == COUNTER)
# {file: (metric, directory of an OST, of an MDT)} of the files with a number alone.
NUMBERS = {
    "tot_granted": ("granted_bytes", "obdfilter/{}", "mdt/{}"),
    "tot_dirty": ("dirty_bytes", "obdfilter/{}", "mdt/{}"),
    "lock_count": ("locks", "ldlm/namespaces/filter-{}_UUID", "ldlm/namespaces/mdt-{}_UUID"),
    "lock_timeouts": ("lock_timeouts", "ldlm/namespaces/filter-{}_UUID",
                      "ldlm/namespaces/mdt-{}_UUID"),
    "archive_count": ("hsm_archives", "", "mdt/{}/hsm"),
    "restore_count": ("hsm_restores", "", "mdt/{}/hsm"),
    "remove_count": ("hsm_removes", "", "mdt/{}/hsm"),
}
SERVICES_OF = ("ost/OSS", "mds/MDS", "ldlm/services")
_SERVICE_COUNTERS = {"req_waittime": "wait_us", "req_qdepth": "queued"}
_COUNTER = re.compile(r"^(req_waittime|req_qdepth|ldlm_\w+_enqueue) +(\d+) samples \[\w+\]"
                      r"(?: -?\d+ -?\d+ (\d+))?", re.MULTILINE)
_BAR = re.compile(r"(\d+)([KM]?):\s+(\d+)\s+\d+\s+\d+\s+\|\s+(\d+)\s+\d+\s+\d+")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20}
_HISTOGRAMS = {                         # (all reads, all writes, those of some rows), the rows
    "pages per bulk r/w": (("read_rpcs", "write_rpcs", "small_read_rpcs", "small_write_rpcs"),
                           range(SMALL_PAGES + 1)),
    "disk fragmented I/Os": (("disk_reads", "disk_writes", "fragmented_disk_reads",
                              "fragmented_disk_writes"), range(2, 1 << 31))}
_POLICY = re.compile(r"  - name: (.{1,60})\n    state: (\w+)\n    fallback: (yes|no)\n"
                     r"    queued: (\d+)")
_AGENT = re.compile(r"uuid=\S+ archive_id=\S+ requests=\[current:\d+ ok:(\d+) errors:(\d+)\]")


def parse_brw_stats(text: str) -> dict[str, int]:
    """
    The metrics in `brw_stats`; ValueError with what was expected.

    >>> found = parse_brw_stats('''snapshot_time:    1795225389.470130370 secs.nsecs
    ...                            read      |     write
    ... pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
    ... 16:                      23  72  72   |   37  80  80
    ... 1K:                       7   9 100   |   41  10 100
    ... ''')
    >>> found["read_rpcs"], found["small_read_rpcs"], found["small_write_rpcs"]
    (30, 23, 37)
    """
    if not text.startswith("snapshot_time"):
        raise ValueError(f"expected snapshot_time, got {text[:60]!r}")
    metrics: dict[str, int] = {}
    histogram = None
    for line in text.splitlines():
        bar = _BAR.match(line)
        if bar is None:
            if line[:1].isdigit():
                raise ValueError(f"expected counts of reads and writes, got {line[:60]!r}")
            if line.strip() and not line.startswith(" "):
                histogram = next((known for title, known in _HISTOGRAMS.items()
                                  if line.startswith(title)), None)
                metrics.update(dict.fromkeys(histogram[0] if histogram else (), 0))
        elif histogram is not None:
            (reads, writes, part_of_reads, part_of_writes), part = histogram
            read, written = int(bar[3]), int(bar[4])
            metrics[reads] += read
            metrics[writes] += written
            if int(bar[1]) * _FACTORS[bar[2]] in part:
                metrics[part_of_reads] += read
                metrics[part_of_writes] += written
    return metrics


def parse_service_stats(text: str) -> dict[str, int]:
    """
    The metrics in `stats` of a service; without requests there are none.

    >>> parse_service_stats('''req_waittime   23 samples [usecs] 5 53 370 41
    ... req_qdepth     23 samples [reqs] 0 3 37 41
    ... ldlm_extent_enqueue   7 samples [reqs] 1 1 7 7
    ... ''')
    {'requests': 23, 'wait_us': 370, 'queued': 37, 'lock_requests': 7}
    """
    metrics = dict.fromkeys(("requests", "wait_us", "queued", "lock_requests"), 0)
    for name, samples, total in _COUNTER.findall(text):
        if name in _SERVICE_COUNTERS:
            metrics[_SERVICE_COUNTERS[name]] = int(total or 0)
        else:
            metrics["lock_requests"] += int(samples)
        if name == "req_waittime":
            metrics["requests"] = int(samples)
    return metrics


def parse_nrs_policies(text: str) -> tuple[str, int]:
    """
    (the policy of ordinary requests, how many requests wait in all policies) in `nrs_policies`;
    ValueError with what was expected.

    Where a policy is started beside the fallback, it gets the requests that it takes.

    >>> parse_nrs_policies('''
    ... regular_requests:
    ...   - name: fifo
    ...     state: started
    ...     fallback: yes
    ...     queued: 7
    ...     active: 0
    ...
    ...   - name: tbf jobid
    ...     state: started
    ...     fallback: no
    ...     queued: 23
    ...     active: 384
    ...
    ... high_priority_requests:
    ...   - name: fifo
    ...     state: started
    ...     fallback: yes
    ...     queued: 11
    ...     active: 2
    ... ''')
    ('tbf jobid', 41)
    """
    regular, _, urgent = text.partition("high_priority_requests:")
    policies: list[tuple[str, str, str, str]] = _POLICY.findall(regular)
    urgent_policies: list[tuple[str, str, str, str]] = _POLICY.findall(urgent)
    if not policies or not regular.lstrip().startswith("regular_requests:"):
        raise ValueError(f"expected regular_requests, got {text.strip()[:60]!r}")
    started = {is_fallback: name.strip() for name, state, is_fallback, _ in policies
               if state == "started"}
    queued = sum(int(queued) for *_, queued in policies + urgent_policies)
    return started.get("no") or started.get("yes", ""), queued


def parse_hsm_agents(text: str) -> dict[str, int]:
    """
    The metrics in `agents` of an MDT; ValueError with what was expected.

    >>> parse_hsm_agents("uuid=a archive_id=ANY requests=[current:1 ok:23 errors:7]\\n")
    {'hsm_agents': 1, 'hsm_done': 23, 'hsm_failed': 7}
    """
    metrics = dict.fromkeys(("hsm_agents", "hsm_done", "hsm_failed"), 0)
    for line in text.splitlines():
        agent = _AGENT.fullmatch(line.rstrip())
        if agent is None:
            raise ValueError(f"expected a copytool and its requests, got {line[:60]!r}")
        for name, value in zip(metrics, (1, agent[1], agent[2])):
            metrics[name] += int(value)
    return metrics


def subtract(before: dict[str, int] | None, after: dict[str, int]) -> dict[str, int]:
    """
    Return the gains of the counters; {} without an earlier reading, or if one was reset.

    >>> subtract({"requests": 23, "threads": 7}, {"requests": 60, "threads": 5})
    {'requests': 37}
    >>> subtract({"requests": 23, "wait_us": 41}, {"requests": 60, "wait_us": 7})
    {}
    """
    gains = {name: value - before[name] for name, value in after.items()
             if name in COUNTERS and name in before} if before is not None else {}
    return gains if all(gain >= 0 for gain in gains.values()) else {}
