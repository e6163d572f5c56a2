"""
The rules: one row each.  docs/advice.md has a section for each of them, and a test holds the two
together.  To add one: a row here, its thresholds in base/options.py ([advice]), its section there.
"""

from __future__ import annotations

from iostats.report.advice import calls, faults, places
from iostats.report.advice.rule import Rule

# About the whole job.
OF_JOBS = (
    Rule("data_lost", "", faults.data_lost,
         "Files that were written then may have holes.",
         "Check this run's output, or write it again."),
    Rule("faults", "", faults.faults, "I/O there waited or failed.",
         "Nothing to change in the job; if it happens again, report it to the site."),
)

# About one file system each.
OF_FILE_SYSTEMS = (
    Rule("small_writes", "writes", calls.small_writes,
         "Every call pays for a system call and a lock, even if it moves only a few bytes.",
         "Write at least 1 MiB per call: use a larger buffer or collective MPI-IO.",
         ("small_writes_bytes",)),
    Rule("small_reads", "reads", calls.small_reads,
         "Every call pays for a system call and a lookup, even if it moves only a few bytes.",
         "Read at least 1 MiB per call; pack small samples into larger files.",
         ("small_reads_bytes",)),
    Rule("small_requests", "requests", calls.small_requests,
         "Nothing gathers them on the node (O_DIRECT, O_SYNC, fsync(), shared blocks).",
         "Move 1 MiB or more at a time, and fsync() once a file.",
         ("small_requests_bytes",)),
    Rule("repeated_opens", "opens", calls.repeated_opens,
         "Each time may ask the MDT, which all jobs share.",
         "Open a file once, outside of the loop.", ("repeated_opens_percent",)),
    Rule("many_opens", "", calls.many_opens,
         "Each open and close asks the MDT; how many files these are is not recorded.",
         "Keep files open; pack small ones (HDF5, tar, SquashFS).", ("many_opens_bytes",)),
    Rule("metadata_storm", "MDTs", places.metadata_storm,
         "That slows down all jobs on this file system.",
         "Open, stat and remove less; use fewer and larger files.",
         ("metadata_storm_per_second", "metadata_storm_node_per_second")),
    Rule("one_mdt", "", places.one_mdt,
         "The other MDTs have nothing to do for it.",
         "Spread directories: lfs mkdir -i N, or -c N for one with very many files.",
         ("one_mdt_per_second", "one_mdt_percent")),
    Rule("stat_storm", "stat", calls.stat_storm,
         "Each may ask the MDT and the file's OSTs.",
         "List a directory once; ls -l and find stat all that is in it."),
    Rule("unlink_storm", "removals", calls.unlink_storm,
         "Each is a request to the MDT and to the file's OSTs.",
         "Keep temporary files on the node's own disk, or in one archive."),
    Rule("other_calls", "", calls.other_calls,
         "Each may ask the MDT, which all jobs share.",
         "Do it once, or for fewer and larger files."),
    Rule("polling", "polling", calls.polling,
         "The job seems to wait for something by asking for it.",
         "Ask every few seconds, or wait on a pipe, a socket or MPI.",
         ("polling_percent", "polling_per_second")),
    Rule("flock", "locks", calls.flock,
         "Processes wait for each other's locks, by way of the MDT.",
         "Give each its own file; keep databases (SQLite) on the node's own disk.",
         ("flock_count",)),
    Rule("random_reads", "read-ahead", places.random_reads,
         "What is read ahead was not used, or libaio read it, which is in no call.",
         "Read in the file's order, or 1 MiB and more at once.", ("random_reads_times",)),
    Rule("one_ost", "OSTs", places.one_ost,
         "A file can be no faster than the OSTs it is striped over.",
         "Before creating it, run: lfs setstripe -c 8 DIRECTORY.", ("one_ost_percent",)),
    Rule("one_node", "nodes", places.one_node,
         "The others wait for it, or send it their data.",
         "Let all nodes do a part: MPI-IO, parallel HDF5, a file for each node.",
         ("one_node_percent", "one_node_nodes")),
    Rule("slow_servers", "service times", places.slow_servers,
         "That is disk and network, without waiting for a thread of the server.",
         "Compare with other runs (iostats diff); if it stays so, tell the site.",
         ("slow_servers_ms",)),
    Rule("time_in_lustre", "time", calls.time_in_lustre,
         "Its threads waited there.",
         "Look first at the call that took most (--long).", ("time_percent",)),
    Rule("cache_served", "page cache", places.cache_served,
         "It was in the nodes' memory, or in holes of files: data that is read again.",
         "Fast as it is; keep in the program what it needs again.", ("cache_served_percent",)),
)

RULES = (*OF_JOBS, *OF_FILE_SYSTEMS)
