"""
Events on this machine, from the kernel's log and the files of /proc and /sys.

It does not depend on jobs, messages or commands.  `kinds` and `event` define an event; `sources/`
reads events from files, a module each; `log_grouping` makes one event of many lines of the log,
`joining` one of two sources' reports; `gather.Gathering` does it all for one machine:

    gathering = Gathering(root, config, node, boot_id, state_path, roles=("server",))
    result = gathering.scan()        ScanResult(events, dropped, status, more): events new or grown
    ...                              store them: on a disk, or in a message that was accepted
    gathering.acknowledge()          not before: writes the state, with which a restart continues
    gathering.fileno()               of the kernel's log, for select(); -1 without a log
    gathering.read_log()             between two scans, when it is readable: old lines are dropped

Standard library only.
Pure: kinds, event, import_changes, grouping_state, log_grouping, joining, wall_clock.
"""
