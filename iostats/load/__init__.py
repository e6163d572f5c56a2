"""
The load of file systems: amounts of ids at targets -> rows at a level (levels.py), and tables.

The site's server, a storage server and a saved dump all give it the same lists; it asks none.

Standard library only.
Pure: all.
"""
