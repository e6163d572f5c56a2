"""
What `iostats ldms run` knows of the daemons: kept in etcd, shown, told as events and as metrics.

    document      a group of daemons at one moment, as it is kept in etcd
    happened      what went wrong or was over, as events, from what was so before and is now
    table         `iostats ldms status`, for people
    read          all that `status` shows, from etcd
    reporter      beside the service: writes to etcd, has events told, has metrics
    telling       events, to the log and to the site's server
    metrics       the page for Prometheus
    beside        all of it, and the instances, for `iostats ldms run`
"""
