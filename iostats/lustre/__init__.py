"""
Lustre's files: their paths, their formats, and the meaning of their counters.

It knows nothing of jobs, nodes or messages; what a file shows decides, never a release's number.

Standard library only.
Pure: all but paths, import_files.
"""
