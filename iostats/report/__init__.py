"""
A record for people: tables, lists of jobs, comments, and what client and server disagree about.

It reads no counters and asks nobody: a record comes in, text goes out.

Pure: all.
"""
