"""
Reconciliation: desired state (the description) and observed state (the daemons) -> commands.

    desired   the desired state of a daemon, for each of its groups
    daemon    the observed state of a daemon, and the commands applied to it
    fleet     all daemons, their levels, and the placement of producers
    commands  the fewest commands from the observed to the desired state
"""
