"""
Quotes around job ids in job_stats: printed by the kernel, or a part of the id.

Since 2.15.2 the kernel quotes ids that contain certain characters, and escapes those.  So do some
vendors' releases that print times in whole seconds; other older kernels print an id as it is.
Where the format of the times does not decide it, the ids of the file do: the kernel quotes where
every id that needs quotes has them, and no other id has.
"""

from __future__ import annotations

from iostats.lustre import job_stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class QuotedIds:
    """
    Whether the kernel quotes ids in one job_stats.

    Attributes:
        is_printed_by_kernel: True or False; None until an id has quotes.
        were_misread: quotes were removed as the kernel's, and a later id showed that they belong to
            the ids: those read before are wrong.
    """

    def __init__(self) -> None:
        self.is_printed_by_kernel: bool | None = None
        self.were_misread = False

    def split_entries(self, chunks: Iterable[bytes],
                      read_again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """Split as job_stats does, with `is_printed_by_kernel` set for each piece."""
        for piece in job_stats.split_entries(chunks):
            if job_stats.has_opening_quote(piece):
                if self.is_printed_by_kernel is None:
                    self.is_printed_by_kernel = is_printed_by_kernel(
                        job_stats.split_entries(read_again()))
            elif self.is_printed_by_kernel and job_stats.detect_quotes(piece) is False:
                self.is_printed_by_kernel, self.were_misread = False, True
            yield piece


def is_printed_by_kernel(pieces: Iterable[bytes]) -> bool:
    """Whether the kernel quotes ids in these entries, all of one file."""
    are_quoted = False
    for piece in pieces:
        quotes = job_stats.detect_quotes(piece)
        if quotes is False:
            return False
        are_quoted = are_quoted or quotes is True
    return are_quoted
