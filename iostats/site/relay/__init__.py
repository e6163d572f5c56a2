"""
A file system of several clusters: the site's server that hears its storage servers tells each
cluster's server what its own clients do, by LNet.

    harvest_intake takes a storage server's sweep
      -> outgoing.py     at its end: to each destination, or all that is known where it needs that
      -> destination.py  a thread for each cluster: its clients alone, a chain of messages for each
                         storage server, kept on the disk and sent
      ~~~ packed_clients, by the secret of these two ~~~>
         incoming.py     on the cluster's server: what this relay may say goes to the intake

A storage server is "oss1@alkindi" to a cluster's server, with a chain, epochs, amounts and losses
of its own, and missing when it is silent: as if it had an agent there.  Sums over storage servers
would be shorter, and wrong: what one of them tells late would be counted when it is told, not when
it was done.  As amounts are cumulative, and all are in the intake, a relay has nothing to lose:
after a kill, a full disk or a damaged file the next message has all.

Who may relay what: iostats/wire/relays.py.  What came from a relay is not relayed: no loops.
"""
