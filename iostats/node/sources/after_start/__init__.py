"""
Sources that are read at the marks and at the end alone; a start does not even import them.
"""
