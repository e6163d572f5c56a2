"""
Receives what storage servers send to the site's server, corrects it, and adds it up by job.

    sweep of an agent   intake -> resets -> job_lives -> (jobs/)
    message of clients  intake -> clients
    message of events   events -> (sinks, a command)
    time lines          intake -> time_lines
    for other sites     intake -> relay -> (another site's server) -> relay

Pure: resets, job_lifecycle, job_times, client_load, clients.readings, clients.nids,
clients.rates, clients.history, clients.source_state, clients.source, events.event_filter,
events.connections, time_lines.binned, time_lines.readings, time_lines.known_time,
time_lines.series_sums.
"""
