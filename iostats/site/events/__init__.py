"""
What went wrong at the site: events of all storage servers and nodes, kept, found, told of.

    intake        messages and reports -> the store; questions; `server.events`
    event_store   what is on the disk, and spans, which of it a question has to read
    questions     which events are asked for, and what an ordinary user may see
    job_parts     when and where a job ran
    tellers       storage servers: how each says it stands, and when it was heard
    connections   who is not connected now
    answers       the RPCs `events` and `events_status`
    followers     those who are told of events as they come: sinks, a command
    on_critical   the program of [events] on_critical
"""
