"""
The I/O of each client on each file system, from the exports of the storage servers' targets.

    message of an agent -> source.py: the gains of its clients between two readings
                        -> history_rows.py, history.py: by sweep, then by hour: `between(...)`
                        -> rates.py: the ClientSweep for screens and sinks
    nids.py             the clients of a file system, numbered
    node_names.py       NID -> node, by the site's own list, /etc/hosts and DNS
    store/client_store.py   the tables on the disk
    intake.py           the whole: `harvest.clients`

An agent's amounts are cumulative since its epoch, for each client over the storage server's
targets of one kind: so a message that is lost, or arrives twice, changes nothing, and the
difference of two readings is a client's I/O in between.
"""
