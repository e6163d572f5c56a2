"""
The jobs of the site: from the first report of a job to its record.

    report of a node    (answers/) -> open_jobs -> records -> publish (write_as_user)
    the batch system    all_jobs (job_runs) -> by_node -> records
    events              events_of_record, late_events -> records

Pure: job_runs, by_node.
"""
