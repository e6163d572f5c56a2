"""
The totals of each job at one target, although idle entries of job_stats are reset.

A target's job_stats has an entry for each job id, whose counters only grow.  An entry that has been
silent for job_cleanup_interval (I, 600 s by default) is removed, and the job's next RPC makes a new
one, which begins at 0: a counter reset.  From its making to its removal is an entry's lifetime, and
a job's total is the sum of the last values of all its entries.  What has to be found out, between
two readings of the file, is whether an entry is still the same one.

    job_ids      job id <-> number, for all targets
    counters     the counters that a target has, and where they stand in its tables
    entries      the tables of one target: a row (a slot) for each job that it has seen
    rules        is it the same entry?  Pure functions, numbered as in that module's docstring
    readings     when a target was read, by which clocks; the reading whose end has not come yet
    comparison   the entries of one block, compared with those that are known
    gaps         when something may have been lost, and which jobs it may concern
    target       all of it: blocks in; totals, gains and marks out
    codec        a target as bytes, and back

What the kernel does (lustre/obdclass/lprocfs_jobstats.c, 2.5 to 2.17), and what follows:

    lprocfs_job_stats_log   finds the entry, or makes one; sets its time of last use
                            (`seen`, printed as snapshot_time) before it counts
    lprocfs_job_cleanup     removes the entries with  seen < now - I.  It is called when an entry
                            is to be made, from 2.8 also when a reader closes the file, and does
                            nothing when the last time is less than I/2 ago (2.5 to 2.7: it is
                            called at each RPC, and I ago)
    job_alloc               `started` (from 2.15.2 printed as start_time): when the entry was made
    seq_start               up to 2.15 a reader goes on by number after each piece of the file, so
                            that entries removed during the read make it skip as many others
    list_add_tail           the file has the entries in the order in which they were made

So a new entry was made more than I after the last use of the one before it; and nothing is ever
lost by expiry as long as two readings are less than I apart.  All else is a deletion by hand
(`clear`, or one id), or a target that was stopped, and may have cost what was done since the last
reading: that is a gap, and marks() reports it.

Times: `seen` and `started` in ns since 1970, `read_at` in s, all by the storage server's clock,
which may be wrong, and be set.  What is to be compared with the times of jobs is by the site's
clock: gaps, doubts, `origin`, `swept_since` and `swept_until`.  Each reading comes with how far the
storage server's clock was ahead of the site's then.
Numbers are unsigned 64-bit integers, as the kernel prints them (%llu).

Memory: a target with one job takes little more than what its numbers take, because all targets
share the job ids and the layouts of their tables.  A block costs the same number of calls of numpy
whatever its counters.
"""
