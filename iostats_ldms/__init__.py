"""
One description for a cluster's monitoring: LDMS' daemons, and our own agents.

    description/  a YAML file, of any generation of the schema -> one model
    statements/   the model -> ldmsd's configuration statements, for each of its releases
    control/      queries and commands to ldmsd, over LDMS' TCP protocol
    published     descriptions in etcd: the valid one and its history
    balance       producers and metric sets -> aggregators; groups -> instances
    reconcile/    desired and observed state of the daemons -> the fewest commands
    service/      reconciles all daemons, over one connection to each
    membership    which instance of `iostats ldms run` owns which group
    status/       the daemons' status: in etcd, for people, as events and as metrics
    cli/          the command `iostats ldms`, one file for each subcommand

Pure: balance, description.aggregators, description.changes, description.context,
description.convert, description.document, description.host_lists, description.model,
description.problems, description.sections, description.values, statements, control.observed,
control.encoding, control.errors, control.frames, control.protocol, control.answers,
status.document, status.history, status.table.
"""
