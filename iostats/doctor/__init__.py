"""
Finds problems of this host, and the command that fixes each.

Standard library only.
Pure: check.
"""
