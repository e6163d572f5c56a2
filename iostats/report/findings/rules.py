"""
The rules: one row each.  docs/reference/findings.md has a section for each of them, and a test
holds the two together.  To add one: a row here, its thresholds in base/options.py ([findings]), its
section there.
"""

from __future__ import annotations

from iostats.report.findings import (
    calls,
    faults,
    local_disks,
    requests,
    target_and_node_rules,
)
from iostats.report.findings.rule import Rule

# About the whole job.
OF_JOBS = (
    Rule("data_lost", "", faults.data_lost,
         "Files that were written then may have holes.",
         "Check this run's output, or write it again."),
    Rule("faults", "", faults.faults, "I/O there waited or failed.",
         "Nothing to change in the job; if it happens again, report it to the site."),
    Rule("slow_local_disk", "", local_disks.slow_disks,
         "The disk was slow, or had more to do than it can.",
         "Write less there or in larger pieces; compare with other nodes (iostats diff)."),
)

# About one file system each.
OF_FILE_SYSTEMS = (
    Rule("small_writes", "writes", calls.small_writes,
         "Every call pays for a system call and a lock, even if it moves only a few bytes.",
         "Write at least 1 MiB per call: use a larger buffer or collective MPI-IO.",
         ("small_bytes",), of_any_kind=True),
    Rule("small_reads", "reads", calls.small_reads,
         "Every call pays for a system call and a lookup, even if it moves only a few bytes.",
         "Read at least 1 MiB per call; pack small samples into larger files.",
         of_any_kind=True),
    Rule("small_requests", "requests", calls.small_requests,
         "The node could not merge them (O_DIRECT, O_SYNC, fsync(), shared blocks).",
         "Read or write 1 MiB or more at a time; call fsync() once per file.",
         of_requests=requests.small_requests),
    Rule("lock_contention", "", target_and_node_rules.lock_contention,
         "Nodes that write into the same part of a file take its lock from each other.",
         "Write large, aligned parts: collective MPI-IO, or a file for each node."),
    Rule("fsync", "fsync", calls.fsync,
         "It waits until the OSTs have the data on disk; O_SYNC does it for each write.",
         "Call it once, at the end of a file or a checkpoint."),
    Rule("mapped_files", "mmap", calls.mapped_files,
         "Each page fault waits for a page, mostly in small requests.",
         "Read or write 1 MiB and more at a time, or copy the file to memory first."),
    Rule("repeated_opens", "opens", calls.repeated_opens,
         "Each open may ask the MDT, which all jobs share.",
         "Open a file once, outside of the loop."),
    Rule("many_opens", "", calls.many_opens,
         "Each open and close asks the servers; how many files these are is not recorded.",
         "Keep files open; pack small ones (HDF5, tar, SquashFS).", of_any_kind=True),
    Rule("metadata_storm", "MDTs", target_and_node_rules.metadata_storm,
         "So many requests can slow down all jobs on this file system.",
         "Open, stat and remove less; use fewer and larger files.",
         ("metadata_storm_per_second",)),
    Rule("one_mdt", "", target_and_node_rules.one_mdt,
         "The other MDTs serve hardly any of the job's requests.",
         "Put directories on several MDTs: lfs mkdir -i N, or -c N for very large ones."),
    Rule("stat_storm", "stat", calls.stat_storm,
         "Each stat() may ask the MDT and the file's OSTs.",
         "List a directory once, without ls -l; lfs find --lazy asks no OST."),
    Rule("unlink_storm", "removals", calls.unlink_storm,
         "Each removal is a request to the MDT and to the file's OSTs.",
         "Keep temporary files in $TMPDIR if that is a local disk, or in one archive."),
    Rule("slow_metadata", "", calls.slow_metadata,
         "An MDT that is not busy answers within a few milliseconds.",
         "Compare with other runs (iostats diff); report it if they are as slow."),
    Rule("other_calls", "", calls.other_calls,
         "Each may ask the servers, which all jobs share.",
         "Call it once and store the result, or use fewer and larger files."),
    Rule("polling", "polling", calls.polling,
         "The job seems to wait for something by asking for it.",
         "Ask every few seconds, or wait on a pipe, a socket or MPI."),
    Rule("flock", "locks", calls.flock,
         "Processes wait for each other's locks, by way of the MDT.",
         "Give each process its own file; put databases (SQLite) on a local disk."),
    Rule("random_reads", "read-ahead", target_and_node_rules.random_reads,
         "Data was read ahead in vain, or by libaio, which no counted call shows.",
         "Read in the file's order, or 1 MiB and more at once."),
    Rule("one_ost", "OSTs", target_and_node_rules.one_ost,
         "A file can be no faster than the OSTs it is striped over.",
         "Where lfs getstripe -d DIRECTORY shows one stripe, give large shared files more "
         "stripes."),
    Rule("few_osts", "", target_and_node_rules.few_osts,
         "Reads and writes can be no faster than the OSTs that a file is striped over.",
         "Where lfs getstripe shows few stripes, give large shared files more stripes."),
    Rule("one_node", "nodes", target_and_node_rules.one_node,
         "The other nodes may wait for it, or send it their data.",
         "Let all nodes take part: MPI-IO, parallel HDF5, a file for each node.",
         of_any_kind=True),
    Rule("slow_nodes", "", target_and_node_rules.slow_nodes,
         "A slow node or link, or data that only the others had in memory.",
         "Run without it; if it is slow in other jobs, too, report it to the site."),
    Rule("slow_servers", "service times", target_and_node_rules.slow_servers,
         "This is the time of disks and network, without the wait for a server thread.",
         "Compare with other runs (iostats diff); report it if they are as slow."),
    Rule("time_in_lustre", "time", calls.time_in_lustre,
         "The job's threads waited in these calls.",
         "Start with the call that took most (--long)."),
    Rule("cache_served", "page cache", target_and_node_rules.cache_served,
         "The data was in the nodes' memory, read before, or in holes of sparse files.",
         "Nothing to change; reads that miss the cache would take longer."),
)

# About requests to the servers of other file systems.
OF_REQUESTS = (
    Rule("resent_requests", "", requests.resent_requests,
         "The connection broke, or the server or the network was late.",
         "Nothing to change in the job; if it happens again, report it to the site."),
    Rule("work_on_nfs", "", requests.work_on_nfs,
         "An NFS server is mostly one machine for all users.",
         "Run the job in a directory on Lustre; copy to NFS what is to be kept."),
    Rule("metadata_requests", "", requests.metadata_requests,
         "Programs wait for most, and all users share the server.",
         "Open and stat() less; pack small files, or copy them to a local disk."),
)

RULES = (*OF_JOBS, *OF_REQUESTS, *OF_FILE_SYSTEMS)
