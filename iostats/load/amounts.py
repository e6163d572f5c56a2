"""
What an entry of job_stats amounts to: bytes, requests, metadata requests, and more on request.

Each metric is a column of numbers, in the order of METRICS; those of MORE follow where somebody
has asked for them: single operations, and the time that the servers took (us, of `timed` requests).
"""

from __future__ import annotations

from iostats.lustre.metrics import SINGLE_OPERATIONS, is_counted_again, is_operation

TYPE_CHECKING = False
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


def amounts_of(counters: Mapping[str, tuple[int, int | None]],
               target: str) -> tuple[int, int, int, int]:
    """
    (write_bytes, read_bytes, requests, metadata) of one entry: {counter: (samples, sum or None)}.

    >>> amounts_of({"read_bytes": (23, 94208), "read": (23, 4100), "open": (37, 999),
    ...             "rename": (3, 9), "samedir_rename": (3, 9)}, "MDT0000")
    (0, 94208, 63, 40)
    """
    operations = sum(samples for name, (samples, _) in counters.items() if is_operation(name))
    transfers = sum(counters.get(f"{way}_bytes", counters.get(way, (0, 0)))[0]
                    for way in ("read", "write"))
    written, read = ((counters.get(f"{way}_bytes") or (0, 0))[1] or 0 for way in ("write", "read"))
    return written, read, transfers + operations, operations if is_mdt(target) else 0


def amounts_of_client(metrics: Sequence[float]) -> list[float]:
    """
    METRICS of a client's CLIENT_METRICS.

    >>> amounts_of_client([94208, 4096, 23, 1, 37, 41])
    [4096, 94208, 102, 41]
    """
    read, written, reads, writes, of_osts, of_mdts = metrics
    return [written, read, reads + writes + of_osts + of_mdts, of_mdts]


def more_amounts_of(counters: Mapping[str, tuple[int, int | None]]) -> list[int]:
    """MORE of the same; a sum that is not of bytes is of microseconds."""
    times = [(samples, total) for name, (samples, total) in counters.items()
             if total is not None and not name.endswith("_bytes") and not is_counted_again(name)]
    return [*(counters.get(name, (0, None))[0] for name in SINGLE_OPERATIONS),
            sum(total for _, total in times), sum(samples for samples, _ in times)]


def columns_of(show: Sequence[str]) -> tuple[str, ...]:
    """
    Which columns of MORE are needed to show these.

    >>> columns_of(("open", "latency"))
    ('open', 'us', 'timed')
    """
    return tuple(one for name in show for one in (TIMES if name == LATENCY else (name,)))


def is_mdt(target: str) -> bool:
    """True for a metadata target: MDT0000."""
    return target.startswith("MDT")


def share(part: float, whole: float) -> float | None:
    """`part` of `whole`, 0 to 1; None where there is nothing to have a part of."""
    return part / whole if whole else None
