"""
Several instances of `iostats ldms run` share the work: each group of daemons has one owner.

    shares        which groups an instance takes, and which it gives away
    lease         until when we may act, on our own clock
    membership    our lease, our key, and the groups that are ours; what fences our writes

An instance has a lease in etcd, and under it the key instances/ID and a key owners/GROUP for each
of its groups.  Where it ends or loses etcd, all are gone when the lease is over, and others take
the groups.  It knows when that will be at the earliest, and acts no more some time before.
"""
