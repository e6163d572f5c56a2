"""
What can be asked of a node in a list: the fields of `iostats nodes`, their names and meanings, and
how many at once.
"""

from __future__ import annotations

from iostats.load.amounts import CLIENT_METRICS
from iostats.report.listing import Field, FieldTable

REQUESTS = "requests"
METRICS = (*CLIENT_METRICS, REQUESTS)
SORTED_BY = ("node", "file_systems", *METRICS)
MOST_ROWS = 5_000                   # in one answer
MOST_NODES = 10_000                 # in one question


def _counted(column: str, name: str, kind: str, help: str) -> Field:
    return Field(column, name, kind, "lower_bound", help)


FIELDS = (
    Field("Node", "node", "text", "", "the node; a NID where no name is known"),
    Field("FileSystems", "file_systems", "names", "", "on which it did this"),
    _counted("ReadBytes", "read_bytes", "bytes", "that it got from storage servers"),
    _counted("WriteBytes", "write_bytes", "bytes", "that it sent to storage servers"),
    _counted("Reads", "reads", "count", "requests that read"),
    _counted("Writes", "writes", "count", "requests that wrote"),
    _counted("OSTOps", "ost_operations", "count", "other requests to OSTs: sync, punch ..."),
    _counted("MDTOps", "mdt_operations", "count", "other requests to MDTs: open, getattr ..."),
    _counted("Requests", REQUESTS, "count", "the four before together"),
    Field("NIDs", "nids", "names", "", "the network addresses that it is known by, up to 20"),
    Field("NNIDs", "nid_count", "count", "", "how many these are"),
    Field("LowerBound", "lower_bound", "yes", "", "some of it may not have been counted"),
    Field("Note", "notes", "names", "", "why not"),
)
DEFAULT = "Node,ReadBytes,WriteBytes,Reads,Writes,OSTOps,MDTOps"
DEFAULT_APART = "Node,FileSystems,ReadBytes,WriteBytes,Reads,Writes,OSTOps,MDTOps"
TABLE = FieldTable(FIELDS, "iostats nodes")
NAMES = TABLE.names                 # what a row of the site's server has
