"""All targets, by their names."""
from . import datagrams, disk, messages, texts  # noqa: F401
from .tools import TARGETS  # noqa: F401
