"""
The site's server: receives all messages, passes each to its room, answers queries.

    message             site_server -> jobs/, harvest/
    query               site_server -> load_queries, node_queries, event_queries, time_line_queries,
                        and the records in store/

It has no command line and no terminal.  Sinks are passed to it: it gives them sweeps, whichever
they are.

Pure: load_queries, node_queries.
"""
