"""All targets, by their names."""
from . import (  # noqa: F401
    collector,
    control,
    datagrams,
    descriptions,
    disk,
    kernel_events,
    messages,
    texts,
)
from .tools import TARGETS  # noqa: F401
