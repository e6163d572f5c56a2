"""
What is in the way here, and the command that fixes it.

Standard library only.
Pure: check.
"""
