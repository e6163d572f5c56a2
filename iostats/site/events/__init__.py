"""
What went wrong at the site: events of all storage servers and nodes, kept, found, told of.

    followers   those who are told of events as they come: sinks, a command
"""
