"""
Relays counts by client to other clusters' servers, if several clusters share a file system.

    harvest/intake.py receives a storage server's sweep
      -> outgoing.py     at its end: to each destination, or all that is known if it needs that
      -> destination.py  a thread for each cluster: its clients alone, a chain of messages for each
                         storage server, stored on the disk and sent
      ~~~ packed_clients, by the secret of these two ~~~>
         incoming.py     on the cluster's server: the permitted part of a message goes to the intake

For a cluster's server, a storage server is "oss1@alkindi", with a chain, epochs, amounts and losses
of its own, and missing when it is silent: as if it had an agent there.  Sums over storage servers
would be shorter, and wrong: late counts of one of them would count at their arrival, not at the
time of the I/O.  As amounts are cumulative, and all are in the intake, a relay has nothing to lose:
after a kill, a full disk or a damaged file the next message has all.

The permissions are in iostats/wire/relays.py.  Data from a relay are not relayed again: no loops.
"""
