"""Job ids, of any batch system: checks and lists of them; names of nodes, and of files."""

from __future__ import annotations

from binascii import crc32

from iostats.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_JOB_ID = 128
_NODE_NAME_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:"
LONGEST_NODE_NAME = 253                # a host name with its domain, RFC 1035


def check_job_id(text: str, where: str = "--job") -> str:
    """Return `text` without surrounding blanks; UsageError if it cannot be the id of a job."""
    job = text.strip()
    if not job:
        raise UsageError(f"{where}: expected a job id, got nothing")
    if len(job) > LONGEST_JOB_ID:
        raise UsageError(f"{where}: expected a job id of at most {LONGEST_JOB_ID} characters, "
                         f"got {len(job)}: {job[:40]!r}...")
    if not job.isprintable():
        raise UsageError(f"{where}: expected a job id without control characters, got {job!r}")
    return job


def check_batch_job(text: str, where: str) -> str:
    """
    Return `text` without surrounding blanks; UsageError if it cannot be a job of a batch system.
    """
    job = check_job_id(text, where)
    # Flux' are in base 58, and begin with an f with or without a hook; all others have a number.
    if not (any(c.isdigit() for c in job) or (job[0] in "f\u0192" and len(job) > 5)):
        raise UsageError(f"{where}: expected a job such as 4711, 100_3 or 4711.pbs01, got "
                         f"{job[:40]!r}")
    return job


def expand_tasks(text: str, where: str, limit: int | None = None) -> list[str]:
    """
    Return the tasks of an array, and the other parts between commas; any other text is one part.
    UsageError if the array has more than `limit` tasks, before they are written out.

    >>> expand_tasks("100_[1-2,7],4711", "JOB"), expand_tasks("4711[3].pbs01", "JOB")
    (['100_1', '100_2', '100_7', '4711'], ['4711[3].pbs01'])
    """
    import re

    from iostats.base.node_list import TooManyNodes, expand_node_list

    def write_out(match: re.Match[str]) -> str:
        try:
            return ",".join(expand_node_list(match[0], limit))
        except TooManyNodes:
            raise UsageError(f"{where}: expected up to {limit} jobs, got more") from None
        except ValueError as error:
            raise UsageError(f"{where}: expected tasks as in 100_[1-3,7], got {str(error)[:40]!r}"
                             ) from None
    all_of_them = re.sub(r"\w+_\[[^\]]*\]", write_out, text, flags=re.ASCII)
    return [text] if all_of_them == text else all_of_them.split(",")


def expand_jobs(texts: Iterable[str], where: str, limit: int) -> list[str]:
    """
    Return the jobs that `texts` name, each once, expanded as by expand_tasks(); UsageError if there
    are more than `limit`.
    """
    jobs: dict[str, None] = {}
    for text in texts:
        jobs.update(dict.fromkeys(expand_tasks(text, where, limit)))
        if len(jobs) > limit:
            raise UsageError(f"{where}: expected up to {limit} jobs, got more")
    return [check_batch_job(job, where) for job in jobs]


def check_node_name(text: str, where: str = "--node") -> str:
    """Return `text`; UsageError if it cannot be the name of a node."""
    if not is_node_name(text):
        raise UsageError(f"{where}: expected a node's name (letters, digits and . - _ :, at most "
                         f"{LONGEST_NODE_NAME}), got {text[:40]!r}")
    return text


def is_node_name(text: str) -> bool:
    """True if `text` can be the name of a node: it is printed, and sent in HTTP headers."""
    return 0 < len(text) <= LONGEST_NODE_NAME and not text.strip(_NODE_NAME_CHARACTERS)


def make_filename(*parts: str) -> str:
    """Make a name for the files of this job (and node): safe, and different for different parts."""
    text = " ".join(parts).encode("utf-8", "surrogatepass").decode("latin-1")   # a byte each
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_+@-") else "%%%02X" % ord(c)
                   for c in text)
    if len(name) <= 180:
        return name
    return "%s-%08x" % (name[:160], crc32(name.encode()))
