"""
The status of the daemons: stored in etcd, printed, sent as events and exported as metrics.

    document       the status of a group, as stored in etcd
    history        changes of a group -> events
    table          prints it (`iostats ldms status`)
    reporter       writes the status to etcd and has events sent
    notifications  sends events to the log and to the site's server
    instance       all of these, the membership and metrics, for `iostats ldms run`
"""
