"""
What went wrong on this machine: events, from the kernel's log and the files of /proc and /sys.

It knows nothing of jobs, of messages or of who asks.  `kinds` and `event` say what an event is;
`sources/` has what it is learnt from, one file each; `folding` makes one event of many lines,
`joining` one of what two sources say; `gather.Gathering` does it all for one machine:

    gathering = Gathering(root, config, node, boot_id, state_path, roles=("server",))
    found = gathering.look()         Look(events, dropped, status, more): events new or grown
    ...                              keep them: on a disk, or in a message that was taken
    gathering.told()                 not before: writes the state, from which a restart goes on
    gathering.fileno()               of the kernel's log, for select(); -1 where there is none
    gathering.read_log()             between two looks, when it can be read: the ring does not wait

Standard library only.
Pure: kinds, event, target_history, import_changes, pieces, fold, remembered, windows, folding,
joining, wall_clock.
"""
