"""
iostats: what a job did to the Lustre file system.  The modules, in the order of the data:

    errors            what can go wrong, and the exit statuses            words
    checks            a line of the doctor
    counters          the metrics, and which counter and field each takes
    units             numbers for people

    lustre            the form of `stats` files; names of mounts and targets      thought
    rpc_histogram     the form of `rpc_stats` files
    job_stats         the form of `job_stats` files
    fingerprints      which of their entries changed
    job_stats_rows    many of their entries as rows of numbers
    snapshot          all counter files of a node at one moment, as bytes and back
    bounds            what llite does not count, and which numbers may be wrong for it
    delta             what changed between two snapshots
    jobid             job ids, and the port that follows from one
    nodelist          the batch system's node lists, written out
    wire              how a message is authenticated
    series            amounts over time, in a bounded number of bins
    filesystem        deltas of one file system, added up
    alike             reports of one shape, added up as one list each
    aggregate         deltas of all nodes -> totals -> the JSON record
    merged            the totals of many nodes in one message
    compact           the record -> one short line for the batch system's own accounting
    jobfacts          what a batch system says of a job
    beside            one job as its nodes and as the storage servers have counted it
    report            the record -> tables
    parts             the records of an array's tasks -> their total
    moments           times as users of Slurm write them
    joblist           the record -> one row of `iostats jobs`; its fields and its forms
    summaries         the table of these rows, and the SQL that asks for them
    zeroing           entries of job_stats, which begin again at 0 -> totals and marks
    narrow            a table of numbers that are mostly small
    attribution       which ids in job_stats are jobs
    jobstate          the life of a job: running, quiet, ended, settled
    jobtimes          when it ran, as far as anybody knows, and what of it a target may have lost
    loads             what ids did at targets -> rows by job, user, node, server, target
    loadtable         these rows -> a table for a terminal
    querytable        what `query` asks for -> tables
    answers           the harvest -> what `top` and `query` ask of it
    sweep_writer      these rows -> the message of a storage server's agent
    sweep_reader      the message -> arrays
    sweeps            what is in it
    steps             long work in steps
    jsonrpc           JSON-RPC 2.0: bytes in, bytes out

    files             counter files below a root                          hands
    sources/          one file for each kind of counter file
    config            site.cfg
    reader            ask the reader for what only root may read
    node              this node: name, job, boot, snapshot
    state             what a node keeps between start and stop
    secret            the job's secret
    munge             credentials of MUNGE, by libmunge
    credentials       how messages are signed and checked: by the secret, or by MUNGE
    post              deliver a report
    watch             rates over time, for the report
    spool             messages that wait on the disk for a server
    harvest           the agent on a storage server: sweeps over job_stats
    measure           one job on one node: from its start to its report
    mpi               the reports of all nodes as one, along the ranks
    schedulers/       one file for each batch system
    attend            a node's process that stays as long as a command
    hooks             a batch system's prolog and epilog
    show              this node's counters for a person
    harvest_checks    what is in the way of the agent, for the doctor
    site_checks       what is in the way of all jobs of a site, likewise
    doctor            what is in the way on this node, and the command that mends it
    logs              the log of the site's server, each event on one line
    elsewhere         calls that may block, in threads of their own
    journal           what that has counted, on the disk before it is acknowledged
    foreseen          a report that is like the one before it, decoded into its numbers
    server            the server of one job
    store_clock       how much time has passed for it, whatever the clock says
    store_file        its files: made whole, and still those that were opened
    store             what the site's server keeps
    store_repair      what is in a damaged one, and a new one in its place
    sweep_store       what it keeps of the harvest
    harvested         sweeps -> what each job did at the servers; its life
    handover          a report to where its user sees it
    sinks/            one file for each database that is told what jobs do
    on_server         who loads this storage server's targets, without any server of ours
    site              the site's server: all jobs, by their prologs and epilogs
    run               one command, measured on all nodes of its job

    cli/              the roles: node, server, config, run, report, jobs, top, query,
                      mail, store
"""

__version__ = "0.1.0"
