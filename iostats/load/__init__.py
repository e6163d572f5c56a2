"""
Who loads the file systems: what ids did at targets -> rows at a level (levels.py), and tables.

It asks nobody: the site's server, a storage server and a saved dump all give it the same lists.

Standard library only.
Pure: all.
"""
