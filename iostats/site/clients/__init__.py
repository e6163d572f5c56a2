"""
What each client has done to each file system, by the exports of the storage servers' targets.

    message of an agent -> source.py: what its clients gained between two readings
                        -> keeping.py, history.py: by sweep, then by hour: `between(since, until)`
                        -> rates.py: the ClientSweep that screens and sinks get
    nids.py             the clients of a file system, numbered
    node_names.py       NID -> node, by the site's own list, /etc/hosts and DNS
    client_store.py     what is on the disk
    intake.py           all of it: `harvest.clients`

An agent's amounts are cumulative since its epoch, for each client over the storage server's
targets of one kind: so a message that is lost, or comes twice, costs and adds nothing, and the
difference of two readings is what a client did in between.
"""
