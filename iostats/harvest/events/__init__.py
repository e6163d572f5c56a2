"""
The events of all storage servers and nodes of a site: stored, queried, sent to receivers.

    intake              messages and reports -> store/event_store; queries; `server.events`
    event_filter        the events that a query selects, and what an ordinary user may see of them
    reporting_servers   storage servers: the state that each reported, and when
    capacities          how full the targets are, and the forecast
    connections         clients that are not connected now
    followers           receivers of new events: sinks, a command
    on_critical         the program of [events] on_critical

answers/event_queries has the RPCs `events`, `events_status` and `capacity`, jobs/job_parts when and
where a job ran.
"""
