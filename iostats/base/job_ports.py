"""
The ports at which a job's server listens: they follow from the job's id.

    port k = first + (N + crc32(REST) + k * 257) mod (last - first + 1)        k = 0, 1, 2, ...

N is the number that the id begins with (0 if none), REST what follows it, crc32 that of zlib
(0 for an empty REST).  So jobs with numeric ids that follow one another have ports that
follow one another, and any text is an id: 1234567, 1234.server, 1234[7].server, 1234_7,
1234+1, f2Jx9k.  When port 0 is taken the server takes port 1, and so on; a client tries them in
the same order, and knows its server by its answer to `hello`, never by the port.
"""

from __future__ import annotations

from binascii import crc32

PORT_STEP = 257                        # a prime: neighbours' second choices do not meet


def list_ports(job: str, first: int, last: int, tries: int) -> list[int]:
    """
    Return the ports to try for `job`, in order: `tries` of them, or as many as exist.

    >>> list_ports("1234567", 20000, 29999, 3)
    [24567, 24824, 25081]
    """
    digits = len(job) - len(job.lstrip("0123456789"))
    home = int(job[:digits] or 0) + crc32(job[digits:].encode("utf-8", "surrogateescape"))
    size = last - first + 1
    # 257 can have a factor in common with the size, and would then come back early.
    unique_ports = dict.fromkeys(first + (home + k * PORT_STEP) % size for k in range(tries))
    return list(unique_ports)
