"""
Job ids, of any batch system, and the port that follows from one.

    port k = first + (N + crc32(REST) + k * 257) mod (last - first + 1)        k = 0, 1, 2, ...

N is the number that the id begins with (0 if none), REST what follows it, crc32 that of zlib
(0 for an empty REST).  So jobs with numeric ids that follow one another have ports that
follow one another, and any text is an id: 1234567, 1234.server, 1234[7].server, 1234_7,
1234+1, f2Jx9k.  When port 0 is taken the server takes port 1, and so on; a client tries them in
the same order, and knows its server by its answer to `hello`, never by the port.
"""

from __future__ import annotations

from binascii import crc32

from iostats.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_JOB_ID = 128
_OF_NODE_NAMES = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:"
LONGEST_NODE_NAME = 253                # a host name with its domain, RFC 1035
STEP = 257                             # a prime: neighbours' second choices do not meet


def checked_job_id(text: str, where: str = "--job") -> str:
    """`text` without blanks around it; UsageError where it can't be a job's id."""
    job = text.strip()
    if not job:
        raise UsageError(f"{where}: expected a job id, got nothing")
    if len(job) > LONGEST_JOB_ID:
        raise UsageError(f"{where}: expected a job id of at most {LONGEST_JOB_ID} characters, "
                         f"got {len(job)}: {job[:40]!r}...")
    if not job.isprintable():
        raise UsageError(f"{where}: expected a job id without control characters, got {job!r}")
    return job


def checked_batch_job(text: str, where: str) -> str:
    """`text` without blanks around it; UsageError where it can't be a batch system's job."""
    job = checked_job_id(text, where)
    # Flux' are in base 58, and begin with an f with or without a hook; all others have a number.
    if not (any(c.isdigit() for c in job) or (job[0] in "f\u0192" and len(job) > 5)):
        raise UsageError(f"{where}: expected a job such as 4711, 100_3 or 4711.pbs01, got "
                         f"{job[:40]!r}")
    return job


def tasks_of(text: str, where: str, most: int | None = None) -> list[str]:
    """
    Tasks of an array written out, and what is between commas beside them; another text is itself.

    `most`: UsageError for an array of more tasks, before they are written out.

    >>> tasks_of("100_[1-2,7],4711", "JOB"), tasks_of("4711[3].pbs01", "JOB")
    (['100_1', '100_2', '100_7', '4711'], ['4711[3].pbs01'])
    """
    import re

    from iostats.base.node_list import TooMany, expanded

    def written_out(found: re.Match[str]) -> str:
        try:
            return ",".join(expanded(found[0], most))
        except TooMany:
            raise UsageError(f"{where}: expected up to {most} jobs, got more") from None
        except ValueError as error:
            raise UsageError(f"{where}: expected tasks as in 100_[1-3,7], got {str(error)[:40]!r}"
                             ) from None
    all_of_them = re.sub(r"\w+_\[[^\]]*\]", written_out, text, flags=re.ASCII)
    return [text] if all_of_them == text else all_of_them.split(",")


def jobs_in(texts: Iterable[str], where: str, most: int) -> list[str]:
    """The jobs that `texts` name, each once, as of tasks_of(); UsageError for more than `most`."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(tasks_of(text, where, most)))
        if len(found) > most:
            raise UsageError(f"{where}: expected up to {most} jobs, got more")
    return [checked_batch_job(job, where) for job in found]


def checked_node_name(text: str, where: str = "--node") -> str:
    """`text`; UsageError where it can't be a node's name."""
    if not is_node_name(text):
        raise UsageError(f"{where}: expected a node's name (letters, digits and . - _ :, at most "
                         f"{LONGEST_NODE_NAME}), got {text[:40]!r}")
    return text


def is_node_name(text: str) -> bool:
    """True for what can be the name of a node: it is printed, and stands in headers."""
    return 0 < len(text) <= LONGEST_NODE_NAME and not text.strip(_OF_NODE_NAMES)


def ports(job: str, first: int, last: int, tries: int) -> list[int]:
    """
    The ports to try for `job`, in order; `tries` of them, or all there are.

    >>> ports("1234567", 20000, 29999, 3)
    [24567, 24824, 25081]
    """
    digits = len(job) - len(job.lstrip("0123456789"))
    home = int(job[:digits] or 0) + crc32(job[digits:].encode("utf-8", "surrogateescape"))
    size = last - first + 1
    # 257 can have a factor in common with the size, and would then come back early.
    found = dict.fromkeys(first + (home + k * STEP) % size for k in range(tries))
    return list(found)


def as_filename(*parts: str) -> str:
    """A name for the files of this job (and node): safe, and another one for other parts."""
    text = " ".join(parts).encode("utf-8", "surrogatepass").decode("latin-1")   # a byte each
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_+@-") else "%%%02X" % ord(c)
                   for c in text)
    if len(name) <= 180:
        return name
    return "%s-%08x" % (name[:160], crc32(name.encode()))
