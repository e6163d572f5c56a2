"""
A compute node: its counter files, a job's start and stop, the batch system's prolog and epilog.

It imports as little as it can: it runs on thousands of nodes in the same second.

Standard library only.
"""
