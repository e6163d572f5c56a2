"""
What clients have done since the server's start: counters for databases, which never go back.
"""

from __future__ import annotations

import numpy

from iostats.load.amounts import CLIENT_METRICS
from iostats.site.clients.rates import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing

    from iostats.site.clients.source import ClientSource

    _Array = numpy.typing.NDArray[Any]


class GainedSinceStart:
    """The gains of all readings that ended, added up by file system and client."""

    def __init__(self) -> None:
        self._totals: dict[str, _Array] = {}

    def add(self, source: ClientSource) -> None:
        """A reading of this source has ended."""
        totals = self.of(source.file_system, len(source.nids))
        columns = columns_of(source.kind)
        for entry in source.last.entries if source.last is not None else ():
            totals[entry.numbers[:, None], columns] += entry.gains      # a client is there once

    def of(self, file_system: str, length: int) -> _Array:
        """int64 [client, of CLIENT_METRICS] of the first `length` clients, or more."""
        totals = self._totals.get(file_system)
        if totals is None or len(totals) < length:
            longer = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
            if totals is not None:
                longer[:len(totals)] = totals
            totals = self._totals[file_system] = longer
        return totals
