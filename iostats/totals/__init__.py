"""
Totals of a job: snapshot -> delta -> totals -> record.

It knows nothing of files, of messages, or of who asks.

Standard library only.
Pure: all.
"""
