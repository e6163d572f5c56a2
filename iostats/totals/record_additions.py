"""
Parts of a job's record beside its I/O: messages of LNet, quotas, and the totals of another tool.
"""

from __future__ import annotations

from iostats.totals.record_part import RecordPart, dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record_part import Count, Moment, Positive

    Mixed = Any                 # members of several types


@dataclass
class RecordedLnet(RecordPart["Mixed"]):
    """The messages of the nodes' LNet; each is of the whole node."""

    nodes: Positive             # how many nodes report them
    sent: Count                 # messages that they sent
    received: Count             # messages that they received
    dropped: Count              # messages that LNet dropped there
    sent_bytes: Count           # of the messages sent
    received_bytes: Count       # of the messages received
    resend_nodes: Count         # how many of these nodes report what LNet resent
    resent: Count               # by those; a try that failed is not in `sent`
    resent_of: Count            # messages that they sent
    response_timeouts: Count    # answers that they got too late, or never
    dropped_most: str           # the node that dropped most; "" where none did
    resent_most: str            # the node that resent most; "" where none did
    # node: sent, received, dropped, sent_bytes, received_bytes, and where its prolog and epilog
    # store lnetctl's answers resent and response_timeouts
    by_node: dict[str, dict[str, Count]]


@dataclass
class RecordedQuota(RecordPart["Mixed"]):
    """A quota that is nearly used up, as of lustre/quota.py."""

    file_system: str    # as Lustre calls it
    pool: str           # the pool of OSTs that it is for; "" for the whole file system
    kind: str           # user or group
    name: str           # of the user or group
    resource: str       # space, in bytes, or inodes; all amounts are of it
    granted: Count      # what is used is at most this
    soft: Count         # the soft limit; 0 for none
    hard: Count         # the hard limit; 0 for none


@dataclass
class RecordedQuotas(RecordPart["Mixed"]):
    """The quotas of the job's user, and of this user's groups, at the end of the job."""

    percent: Count      # [report] quota_percent: those with at least this share granted are listed
    # file system that the job used -> when its quotas were read, s since 1970; without those whose
    # quotas are not known
    read_at: dict[str, Moment]
    nearly_used: list[RecordedQuota]    # those nearest to their limits first


@dataclass
class ImportedFileSystem(RecordPart["Mixed"]):
    """The last totals of one file system; each may be too low or too high."""

    name: str
    label: str
    read_bytes: Count | None        # null where no point has it
    write_bytes: Count | None       # null where no point has it
    ost_operations: Count | None    # requests to OSTs; null where no point has it
    mdt_operations: Count | None    # requests to MDTs; null where no point has it
    notes: list[str]


@dataclass
class ImportedRecord(RecordPart["Mixed"]):
    """The totals of the job that another tool had stored, and `iostats import` has read."""

    tool: str       # its name, jobHarvest
    began: Moment   # seconds since 1970 of the first point
    ended: Moment   # of the last one
    file_systems: list[ImportedFileSystem]
