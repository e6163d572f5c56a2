"""
Job ids in quotes, where the form of their times does not show whose the quotes are.

From 2.15.2 on the kernel prints quotes around ids that need them, and escapes what is in them.  So
do vendors' releases that still print times in whole seconds.  Other kernels print an id as it is,
and quotes are a part of it.  All ids of the file show which: the quotes are the kernel's where
every id that needs them has them, and none that does not.
"""

from __future__ import annotations

from iostats.lustre import job_stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class QuotedIds:
    """
    Whether the quotes around ids of one job_stats are the kernel's.

    Attributes:
        are_kernels: True or False; None as long as no id had any.
        were_mistaken: they were taken for the kernel's, and a later id shows that they are not, so
            that ids read before were wrong.
    """

    def __init__(self) -> None:
        self.are_kernels: bool | None = None
        self.were_mistaken = False

    def pieces(self, chunks: Iterable[bytes],
               read_again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """job_stats.pieces(), in which `are_kernels` is right for each piece that is given."""
        for piece in job_stats.pieces(chunks):
            if job_stats.begins_in_quotes(piece):
                if self.are_kernels is None:
                    self.are_kernels = are_kernels(job_stats.pieces(read_again()))
            elif self.are_kernels and job_stats.quotes_of(piece) is False:
                self.are_kernels, self.were_mistaken = False, True
            yield piece


def are_kernels(pieces: Iterable[bytes]) -> bool:
    """Whether the quotes in these entries of one file are the kernel's."""
    found = False
    for piece in pieces:
        quotes = job_stats.quotes_of(piece)
        if quotes is False:
            return False
        found = found or quotes is True
    return found
