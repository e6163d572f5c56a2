"""
The amounts of an entry of job_stats: bytes, requests, metadata requests, and more on request.

Each metric is a column of numbers, in the order of METRICS; those of MORE follow where somebody
has asked for them: single operations, and the time that the servers took (us, of `timed` requests).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.lustre.metrics import SINGLE_OPERATIONS, is_counted_again, is_operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRICS = ("write_bytes", "read_bytes", "requests", "metadata")      # xltop's order
SORT = {"write": 0, "read": 1, "requests": 2, "metadata": 3}         # word -> place in METRICS
# Of each of METRICS: after whom the title of a table says that it is sorted, its column in `top`
# and its column in `query`.
SORTED_BY = dict(zip(SORT, ("written", "read", "requests", "metadata")))
SHORT_TITLES = dict(zip(METRICS, ("WR", "RD", "REQS", "META")))
LONG_TITLES = dict(zip(METRICS, ("WRITTEN", "READ", "REQUESTS", "METADATA")))

# What the storage servers count by client: OSTs and MDTs (Data-on-MDT) together, but for
# operations, which are all requests that are neither reads nor writes.
CLIENT_METRICS = ("read_bytes", "write_bytes", "reads", "writes", "ost_operations",
                  "mdt_operations")

LATENCY = "latency"                                 # milliseconds that a request took, on average
SHOWN = (*SINGLE_OPERATIONS, LATENCY)
TIMES = ("us", "timed")
MORE = (*SINGLE_OPERATIONS, *TIMES)                 # all more that a Load may have


def sum_amounts(counters: Mapping[str, tuple[int, int | None]],
                target: str) -> tuple[int, int, int, int]:
    """
    Return (write_bytes, read_bytes, requests, metadata) of one entry: {counter: (samples, sum or
    None)}.

    >>> sum_amounts({"read_bytes": (23, 94208), "read": (23, 4100), "open": (37, 999),
    ...             "rename": (3, 9), "samedir_rename": (3, 9)}, "MDT0000")
    (0, 94208, 63, 40)
    """
    operations = sum(samples for name, (samples, _) in counters.items() if is_operation(name))
    transfers = sum(counters.get(f"{direction}_bytes", counters.get(direction, (0, 0)))[0]
                    for direction in ("read", "write"))
    written, read = ((counters.get(f"{direction}_bytes") or (0, 0))[1] or 0
                     for direction in ("write", "read"))
    return written, read, transfers + operations, operations if is_mdt(target) else 0


def convert_client(metrics: Sequence[float]) -> list[float]:
    """
    The amounts of METRICS, from a client's amounts of CLIENT_METRICS.

    >>> convert_client([94208, 4096, 23, 1, 37, 41])
    [4096, 94208, 102, 41]
    """
    read, written, reads, writes, of_osts, of_mdts = metrics
    return [written, read, reads + writes + of_osts + of_mdts, of_mdts]


def sum_more_amounts(counters: Mapping[str, tuple[int, int | None]]) -> list[int]:
    """Sum the MORE amounts of the counters; a sum that is not of bytes is of microseconds."""
    times = [(samples, total) for name, (samples, total) in counters.items()
             if total is not None and not name.endswith("_bytes") and not is_counted_again(name)]
    return [*(counters.get(name, (0, None))[0] for name in SINGLE_OPERATIONS),
            sum(total for _, total in times), sum(samples for samples, _ in times)]


def list_columns(show: Sequence[str]) -> tuple[str, ...]:
    """
    The columns of MORE that are needed to show these.

    >>> list_columns(("open", "latency"))
    ('open', 'us', 'timed')
    """
    return tuple(column for name in show for column in (TIMES if name == LATENCY else (name,)))


def is_mdt(target: str) -> bool:
    """True for a metadata target: MDT0000."""
    return target.startswith("MDT")


def compute_share(part: float, whole: float) -> float | None:
    """Return `part` of `whole`, 0 to 1; None if the whole is 0."""
    return part / whole if whole else None
