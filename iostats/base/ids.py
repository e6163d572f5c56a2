"""
Names that must not be confused: for type checkers types of their own, at run time str.

A function that takes a Nid refuses a NodeName, and a plain str; where a text comes in, from a file
or a message, it becomes one of them: Nid(text).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NewType

    NodeName = NewType("NodeName", str)         # as the site calls a node: "nid00023"
    Nid = NewType("Nid", str)                   # a client's LNet address: "10.0.0.23@o2ib"
    FileSystem = NewType("FileSystem", str)     # "scratch"
    Target = NewType("Target", str)             # without its file system: "OST0003"
    JobId = NewType("JobId", str)               # as users write it: "12345_10", "4711+1"
    RawJobId = NewType("RawJobId", str)         # the batch system's own, which prologs see: "12366"
    Epoch = NewType("Epoch", str)               # in which an agent's amounts only grow
else:
    NodeName = Nid = FileSystem = Target = JobId = RawJobId = Epoch = str

ALL_CLIENTS, ALL_TARGETS = Nid(""), Target("")  # of a loss: it is not of a single one
