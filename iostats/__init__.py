"""
iostats: what a job did to the Lustre file system.  The modules, in the order of the data:

    errors            what can go wrong, and the exit statuses            words
    counters          the metrics, and which counter and field each takes
    units             numbers for people

    lustre            the form of `stats` files; names of mounts and targets      thought
    rpc_histogram     the form of `rpc_stats` files
    snapshot          all counter files of a node at one moment, as bytes and back
    delta             what changed between two snapshots
    jobid             job ids, and the port that follows from one
    nodelist          the batch system's node lists, written out
    wire              how a message is authenticated
    series            amounts over time, in a bounded number of bins
    aggregate         deltas of all nodes -> totals -> the JSON record
    report            the record -> tables
    jsonrpc           JSON-RPC 2.0: bytes in, bytes out

    files             counter files below a root                          hands
    sources/          one file for each kind of counter file
    config            site.cfg
    reader            ask the reader for what only root may read
    node              this node: name, job, boot, snapshot
    state             what a node keeps between start and stop
    secret            the job's secret
    post              deliver a report
    watch             rates over time, for the report
    show              this node's counters for a person
    doctor            what is in the way on this node, and the command that mends it
    server            the server of one job

    cli/              the roles: node, server, config
"""

__version__ = "0.1.0"
