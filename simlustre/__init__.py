"""
Simulated Lustre client nodes and storage servers, for people without Lustre and for tests.

One FUSE mount passes reads, writes and metadata operations through to an ordinary directory,
counts them as a Lustre client would, and shows the counters live below `MNT/root`, in the
places and forms of Lustre 2.10, 2.12, 2.15, 2.16 or 2.17.  Where FUSE is not available, `--static`
makes the same tree as plain files, and `--move` changes their counters.

Its other half is a FUSE mount as well: an OSS or MDS (`--server`), whose job_stats and exports have
what the clients of its `--network` ask of it.
`python -m simlustre --help` says how.
"""
