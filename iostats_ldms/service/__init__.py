"""
The service: reconciles all daemons of a description, over one connection to each.
"""
