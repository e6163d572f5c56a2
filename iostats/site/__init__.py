"""
The server of all jobs: receives reports and sweeps, stores them, answers questions.

    report of a node    receive -> open_jobs -> records -> publish (write_as_user)
    sweep of an agent   receive -> harvest_intake -> resets -> job_lives -> records
    message of clients  receive -> harvest_intake -> clients
    message of events   receive -> events -> (sinks, a command)
    time lines          harvest_intake -> lines -> receive
    the batch system    all_jobs (job_runs, run_store) -> by_node -> records
    for other sites     harvest_intake -> relay -> (another site's server) receive -> relay
    question            receive -> store (job_index), load_queries, node_queries

It knows no command line and no terminal.  Sinks are given to it: it hands them sweeps, and does not
know which they are.

Pure: resets, job_lifecycle, job_runs, job_times, by_node, job_index, load_queries, client_load,
node_queries, query_details, narrow_columns, clients.readings, clients.nids, clients.gained,
clients.rates, clients.history, clients.questions, clients.source_state, clients.source,
events.spans, events.questions, events.connections, lines.binned, lines.readings, lines.known_time,
lines.folding, lines.shown.
"""
