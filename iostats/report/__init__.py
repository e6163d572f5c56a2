"""
A record for people: tables, lists of jobs, comments, and what client and server disagree about.

It reads no counters and asks no server: a record comes in, text goes out.

Pure: all.
"""
