"""
The server of all jobs: receives reports and sweeps, keeps them, answers questions.

    report of a node    receive -> open_jobs -> records -> publish (write_as_user)
    sweep of an agent   receive -> harvest_intake -> resets -> job_lives -> records
    question            receive -> store (job_index), load_queries

It prints nothing for people but what the site shows at a job's end.

Pure: resets, job_lifecycle, job_times, job_index, load_queries, narrow_columns.
"""
