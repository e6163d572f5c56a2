"""All targets, by their names."""
from . import collector, datagrams, disk, kernel_events, messages, texts  # noqa: F401
from .tools import TARGETS  # noqa: F401
