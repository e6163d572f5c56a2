"""
Causes of a job's run time: from its record, its history and that of the targets it used.

It does no I/O: a record and a load.time_lines.JobHistory come in, causes with their evidence go
out.
"""
