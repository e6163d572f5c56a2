"""
What Lustre prints, and where it stands: each form of a counter file, and what its counters mean.

It knows nothing of jobs, nodes or messages; what a file shows decides, never a release's number.

Standard library only.
Pure: all but paths, import_files.
"""
