"""
The server of all jobs: receives reports and sweeps, keeps them, answers questions.

It prints nothing for people but what the site shows at a job's end.

Pure: resets, job_lifecycle, job_times, job_index, load_queries, narrow_columns.
"""
