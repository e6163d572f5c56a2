"""
One description for a cluster's monitoring: LDMS' daemons, and our own agents.

    description/  a YAML file, of any of the schema's generations -> one normal form
    statements/   the normal form -> what ldmsd is told, in the dialect of its release
    control/      ldmsd is asked and told, over LDMS' TCP protocol
    published/    what is in etcd: the description that is valid, and those before it
    changes       what is different between two descriptions, for people
    balance       which aggregator collects what
    reconcile/    what runs against what is wanted -> the fewest commands
    service/      carries it out, by one connection to each daemon
    instances/    which instance of `run` watches and commands which group
    status/       what is known of the daemons: for etcd, for people, events and metrics

Pure: balance, changes, description, statements, control.observed, control.commands, control.errors,
control.frames, control.protocol, control.answers, instances.shares, status.document,
status.happened, status.table.
"""
